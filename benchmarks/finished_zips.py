"""An installation that has been at work for years: many zip actions, all through with it, a few of which failed.

They lie in folders of 12 centres and were crawled by the platform; what became of them is written as rows.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy import Engine, insert

from benchmarks.installation import databases, make_installation
from benchmarks.known_archives import CENTRES
from benchmarks.measuring import DCC, clean_environment
from dcc.errors import SchemaViolationError
from dcc.naming import DocumentKind
from dcc.phases import Phase, Status
from dcc.qc.judging.documents import signature_of
from dcc.qc.models import DOCUMENT
from dcc.qc.reference.refresh import ensure_reference
from dcc.qc.reference.snapshots import active_snapshots
from dcc.settings import Settings
from dcc.sources.base import SourceAddress, SourceProtocol
from dcc.tracker.database import exception_id
from dcc.vocabulary import DocumentAction, DocumentState

DOCUMENTS: Final = 5
FAILED_EVERY: Final = 50
"""One of so many zip actions has failed the validation of its documents."""
_FIRST: Final = date(2011, 1, 1)
_INCREMENTS: Final = 3
_BEGAN: Final = "2021-01-01 00:00:00"
_SECONDS_APART: Final = 1500
_AT_ONCE: Final = 10_000
_DOCUMENTS: Final = (
    "SELECT x.id, x.fname, zf.file_name FROM xml_file x JOIN zip_action za ON za.id = x.zip_id "
    f"JOIN zip_file zf ON zf.id = za.zip_id WHERE x.phase_id = {int(Phase.QC)} ORDER BY x.id"
)


class FinishedZips:
    """An installation in `folder` that knows `known` zip actions; `urls` are settings that name other databases."""

    def __init__(self, folder: Path, known: int, **urls: str) -> None:
        self.home = folder / "home"
        self._known, self._urls = known, urls
        self._roots = {centre: folder / "sources" / centre for centre in CENTRES}

    def environment(self, *, events: bool, **more: str) -> dict[str, str]:
        """The environment of a command on the installation."""
        return clean_environment(DCC_HOME=str(self.home), DCC_DAGSTER_EVENTS=str(events).lower(), **self._urls, **more)

    def make(self) -> None:
        """Register, crawl, and write what became of it all, without a word to Dagster."""
        for number, (centre, root) in enumerate(self._roots.items()):
            (root / "add").mkdir(parents=True)
            for name in itertools.islice(_names(centre), self._known // 12 + (number < self._known % 12)):
                (root / "add" / name).touch()
        sources = [
            SourceAddress(0, centre, SourceProtocol.FILE, "localhost", "", SecretStr(""), str(root))
            for centre, root in self._roots.items()
        ]
        make_installation(self.home, sources, None, self._urls)
        self.command("crawl", "--until", "zip_name")
        with self.databases() as (settings, tracker, qc):
            self._finish(settings, tracker, qc)

    def command(self, *words: str, events: bool = False, expected: tuple[int, ...] = (0,), **more: str) -> str:
        """Run `dcc` on it; returns what it printed. Raises RuntimeError when it ends with another exit code."""
        ended = subprocess.run(
            [DCC, *words], env=self.environment(events=events, **more), check=False, capture_output=True, text=True
        )
        if ended.returncode not in expected:
            raise RuntimeError(f"dcc {' '.join(words)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def databases(self) -> AbstractContextManager[tuple[Settings, Engine, Engine]]:
        """The settings, the tracker and the QC database."""
        return databases(self.home, self._urls)

    def _finish(self, settings: Settings, tracker: Engine, qc: Engine) -> None:
        with tracker.begin() as connection:
            kind = exception_id(connection, SchemaViolationError.short_name(), SchemaViolationError.summary())
            for statement in _statements(tracker.dialect.name, kind):
                connection.exec_driver_sql(statement)
            documents = connection.exec_driver_sql(_DOCUMENTS).all()
        ensure_reference(qc, settings)
        with qc.begin() as connection:
            judged = {
                "judged_at": datetime(2026, 1, 1),
                "judged_by": signature_of(snapshot.id for snapshot in active_snapshots(connection).values()),
            }
            for start in range(0, len(documents), _AT_ONCE):
                rows = [
                    _stored(number, row) | judged
                    for number, row in enumerate(documents[start : start + _AT_ONCE], start + 1)
                ]
                connection.execute(insert(DOCUMENT), rows)


def _names(centre: str) -> Iterator[str]:
    for number in itertools.count():
        day = _FIRST + timedelta(days=number // _INCREMENTS)
        yield f"{centre}.{day}.{number % _INCREMENTS + 1}.impc.zip"


def _statements(dialect: str, kind: int) -> Iterator[str]:
    """What makes every zip action one that was finished: the older, the smaller its id."""
    qc, done, xsd, failed = (int(state) for state in (Phase.QC, Status.DONE, Phase.XSD, Status.FAILED))
    good = f"id % {FAILED_EVERY} <> 0"
    phase = f"phase_id = CASE WHEN {good} THEN {qc} ELSE {xsd} END"
    status = f"status_id = CASE WHEN {good} THEN {done} ELSE {failed} END"
    if dialect == "sqlite":
        when = f"datetime('{_BEGAN}', '+' || (id * {_SECONDS_APART}) || ' seconds')"
    else:
        when = f"'{_BEGAN}' + INTERVAL id * {_SECONDS_APART} SECOND"
    yield f"UPDATE zip_action SET {phase}, {status}, last_update = {when}"
    yield "UPDATE zip_file SET size_bytes = 250000, content_md5 = '0123456789abcdef0123456789abcdef'"
    yield (
        "INSERT INTO zip_download (id, zf_id, request, received, downloaded_size_bytes, phase_id, status_id) "
        "SELECT za.id, fz.id, za.last_update, za.last_update, 250000, za.phase_id, za.status_id "
        "FROM zip_action za JOIN file_source_has_zip fz ON fz.za_id = za.id"
    )
    numbers = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(DOCUMENTS))
    name = _joined(
        dialect, "c.short_name", "'.'", "zf.created", "'.'", f"za.id * {DOCUMENTS} + n", "'.experiment.impc.xml'"
    )
    yield (
        "INSERT INTO xml_file (id, zip_id, fname, centre_id, created, inc, size_bytes, phase_id, status_id) "
        f"SELECT (za.id - 1) * {DOCUMENTS} + n + 1, za.id, {name}, zf.centre_id, zf.created, za.id, 50000, "
        "za.phase_id, za.status_id "
        "FROM zip_action za JOIN zip_file zf ON zf.id = za.zip_id JOIN centre c ON c.id = zf.centre_id, "
        f"({numbers}) AS t"
    )
    yield (
        "INSERT INTO xml_log (xml_id, exception_id, message, line, col) "
        f"SELECT id, {kind}, 'This element is not expected.', 12, 7 FROM xml_file WHERE status_id = {failed}"
    )


def _joined(dialect: str, *texts: str) -> str:
    return " || ".join(texts) if dialect == "sqlite" else f"CONCAT({', '.join(texts)})"


def _stored(number: int, row: Any) -> dict[str, object]:
    return {
        "id": number,
        "tracker_id": row.id,
        "zip_action": "add",
        "zip_file": row.file_name,
        "file_name": row.fname,
        "kind": DocumentKind.EXPERIMENT.value,
        "centre": row.file_name.partition(".")[0],
        "action": DocumentAction.ADD.value,
        "state": DocumentState.APPLIED.value,
        "late": False,
        "contexts_built": True,
        "overviews_built": True,
        "specimens": 0,
        "experiments": 20,
        "lines": 0,
        "housings": 0,
        "measurements": 400,
    }
