"""A process that puts files into the object store until it is killed."""

import os
from pathlib import Path

from dcc.settings import load_settings
from dcc.store.objects import ObjectStore


def put_without_end(files: Path, variables: dict[str, str], ready: Path) -> None:
    """Put the files of a folder there again and again, with these settings; `ready` is there when that begins."""
    os.environ.update(variables)
    store = ObjectStore(load_settings())
    ready.touch()
    while True:
        for path in sorted(files.iterdir()):
            store.put(f"prepared/{path.name}", path)
