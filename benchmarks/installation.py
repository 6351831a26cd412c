"""New installations, with their centres and file sources registered, made without a process of `dcc` for each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from dcc.databases.schema import init_database
from dcc.databases.transactions import writing
from dcc.qc.database import open_qc_database
from dcc.settings import Settings, load_settings
from dcc.sources.base import SourceAddress
from dcc.sources.host_keys import HostKey
from dcc.tracker.database import open_tracker
from dcc.tracker.register.centres import CentreDetails, add_centre
from dcc.tracker.register.file_sources import add_source


@contextmanager
def databases(home: Path, variables: Mapping[str, str]) -> Iterator[tuple[Settings, Engine, Engine]]:
    """The settings, the tracker and the QC database of the installation in `home`.

    `variables` are settings of its environment beside DCC_HOME.
    """
    overrides = {name.removeprefix("DCC_").lower(): value for name, value in variables.items()}
    settings = load_settings(home=home, **overrides)
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    try:
        yield settings, tracker, qc
    finally:
        tracker.dispose()
        qc.dispose()


def make_installation(
    home: Path, sources: Iterable[SourceAddress], known_hosts: Path | None, variables: Mapping[str, str]
) -> None:
    """Make both databases, and register the file sources with their centres.

    The host key in the file `known_hosts` is the one that all sources accept.
    """
    keys = [] if known_hosts is None else [HostKey.parse(known_hosts.read_text("ascii").split(maxsplit=1)[1])]
    with databases(home, variables) as (_, tracker, qc):
        init_database(tracker)
        init_database(qc)
        with writing(tracker) as connection:
            for source in sources:
                add_centre(connection, CentreDetails(source.centre, full_name=f"Centre {source.centre}"))
                add_source(connection, source, keys)
