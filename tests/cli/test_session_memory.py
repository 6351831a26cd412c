"""What a session keeps of each document until its end is bounded: ten thousand archives have fifty thousand of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from dcc.cli.sessions.session_report import SessionReport
from dcc.data_outcomes import DocumentData, ZipData
from dcc.naming import Action, DocumentKind, NamingConvention
from dcc.outcomes import ZipKey
from dcc.phases import Phase, Status
from dcc.session.data.documents import DueDocument, load_due
from dcc.session.data.qc_documents import documents_of
from dcc.store.staged_documents import place_of_document
from dcc.store.staging import Staging

FEW, MANY = 3_000, 6_000
"""Python keeps up to 2,000 tuples of a length for the next ones: both are beyond that."""
IN_AN_ARCHIVE = 5
XSD, DONE = int(Phase.XSD), int(Status.DONE)


class Answers:
    """A connection that answers whatever it is asked with rows, to SQLite."""

    dialect = SQLiteDialect()

    def __init__(self, rows: Iterator[tuple[Any, ...]]) -> None:
        self.rows = rows

    def execute(self, *_: object) -> Iterator[tuple[Any, ...]]:
        return self.rows


def archive(number: int) -> str:
    return f"Wtsi.2020-01-01.{number // IN_AN_ARCHIVE}.impc.zip"


def document(number: int) -> str:
    return f"Wtsi.2020-01-01.{number}.experiment.impc.xml"


def of_archive(number: int) -> tuple[int, str, int, str]:
    return number, archive(number * IN_AN_ARCHIVE), 1, copied("Wtsi")


def copied(text: str) -> str:
    """Text as a database gives it: an object of its own."""
    return text.encode().decode()


def due(documents: int) -> list[DueDocument]:
    rows = (
        (number + 1, document(number), 5_000, f"{number:032x}", XSD, DONE, *of_archive(number // IN_AN_ARCHIVE))
        for number in range(documents)
    )
    return load_due(cast(Connection, Answers(rows)), Phase.UPLOAD, NamingConvention())


def bytes_of_each(make: Callable[[int], object]) -> float:
    """What is held of each document of what `make` makes of so many of them."""
    # Python makes room once for the names that it keeps one of.
    make(MANY)
    held = []
    for documents in (FEW, MANY):
        tracemalloc.start()
        made = make(documents)
        held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        del made
    return (held[1] - held[0]) / (MANY - FEW)


def test_of_a_document_that_waits_little_more_is_held_than_its_names() -> None:
    assert bytes_of_each(due) < 600


def test_what_the_qc_database_says_of_it_is_held_with_the_same_names() -> None:
    waiting = {number: due(number) for number in (FEW, MANY)}

    def there(documents: int) -> object:
        rows = (
            (number + 1, number + 1, "applied", None, "add", archive(number), document(number), f"{number:032x}")
            for number in range(documents)
        )
        # They are asked for in portions, of which the first has them all here.
        connection = cast(Connection, Answers(rows))
        found = documents_of(connection, waiting[documents])
        assert len(found) == documents
        return found

    assert bytes_of_each(there) < 350


def test_its_place_is_held_as_text() -> None:
    staging = Staging(Path("/staging"))
    waiting = {number: due(number) for number in (FEW, MANY)}

    def places(documents: int) -> object:
        return [place_of_document(staging, one.key, one.name.file_name) for one in waiting[documents]]

    assert bytes_of_each(places) < 200


def test_of_a_document_that_was_told_of_its_name_and_state_are_held() -> None:
    def report(documents: int) -> object:
        told = SessionReport()
        for phase in (Phase.UPLOAD, Phase.DATA, Phase.QC):
            for first in range(0, documents, IN_AN_ARCHIVE):
                some = tuple(
                    DocumentData(document(number), DocumentKind.EXPERIMENT, "Wtsi", phase, Status.DONE)
                    for number in range(first, first + IN_AN_ARCHIVE)
                )
                key = ZipKey(Action.ADD, archive(first))
                told.add_data(ZipData(key, "Wtsi", phase, phase, Status.DONE, some, 0.1, datetime.now(UTC)))
        (counted,) = cast(list[dict[str, object]], told.as_json(1)["xml_files"])
        assert counted["count"] == documents
        return told

    assert bytes_of_each(report) < 250
