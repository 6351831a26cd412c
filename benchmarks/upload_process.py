"""One side of the upload benchmark, as a process of its own.

`python -m benchmarks.upload_process apply URL DOCUMENT...` applies experiment documents to the QC database at URL,
whose schema is in place, one after the other; `parse DOCUMENT...` only reads them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from dcc_resources.naming import Action, DocumentKind
from dcc_resources.qc_database.reading import read_document

KIND = DocumentKind.EXPERIMENT


def apply(url: str, paths: Sequence[Path]) -> int:
    """Apply the documents; how many measurements they have. Raises RuntimeError when one did not take effect."""
    from pydantic import SecretStr

    from dcc_resources.qc_database.applying import DocumentToApply, apply_document
    from dcc_resources.qc_database.database import open_qc_database
    from dcc_resources.qc_database.reading_ahead import ReadingAhead, Waiting
    from dcc_resources.qc_database.vocabulary import DocumentState
    from dcc_resources.settings import Settings

    engine = open_qc_database(Settings(qc_url=SecretStr(url)))
    measurements = 0
    ahead = ReadingAhead([Waiting(path, KIND, path.stat().st_size) for path in paths])
    for inc, path in enumerate(paths):
        document = DocumentToApply(
            action=Action.ADD,
            zip_file=f"H.2013-10-31.{inc}.impc.zip",
            file_name=f"H.2013-10-31.{inc}.experiment.impc.xml",
            kind=KIND,
            centre="H",
            created=date(2013, 10, 31),
            inc=inc,
            md5=f"{inc:032x}",
            size_bytes=path.stat().st_size,
            tracker_id=inc + 1,
        )
        applied = apply_document(engine, document, lambda path=path: ahead.read(path, KIND))  # type: ignore[misc]
        if applied.state is not DocumentState.APPLIED or applied.refused:
            raise RuntimeError(f"{path} was not applied: {applied.findings[:3]}")
        measurements += applied.said["measurements"]
    ahead.close()
    engine.dispose()
    return measurements


def parse(paths: Sequence[Path]) -> int:
    """Read the documents; how many objects they hold."""
    return sum(1 for path in paths for _ in read_document(path, KIND))


def main() -> None:
    """Do what the command line says, and print what was counted."""
    # As `dcc` does.
    gc.set_threshold(50_000, 20, 100)
    side, *words = sys.argv[1:]
    if side == "apply":
        print(apply(words[0], _paths(words[1:])))
    else:
        print(parse(_paths(words)))


def _paths(words: Sequence[str]) -> list[Path]:
    """The documents: those named, or all of the folders named."""
    found: list[Path] = []
    for path in map(Path, words):
        found += sorted(path.iterdir()) if path.is_dir() else [path]
    return found


if __name__ == "__main__":
    main()
