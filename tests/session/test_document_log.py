"""What is wrong with documents, in the tracker's `xml_log`."""

import pytest
from sqlalchemy import Engine, select

from dcc.data_outcomes import FindingEntry
from dcc.outcomes import Problem
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.document_problems import problems_of, worst_first
from dcc.tracker.models import AnException, XmlLog
from dcc.vocabulary import Severity
from tests.support.asking import column_in, in_writing
from tests.support.databases import seed_centre, seed_documents, seed_download, seed_source, seed_zip


@pytest.fixture
def documents(tracker: Engine) -> list[int]:
    archive = seed_zip(tracker, seed_source(tracker, seed_centre(tracker)))
    return seed_documents(tracker, seed_download(tracker, archive.hosting_id), 2)


def rewrite(tracker: Engine, wanted: dict[int, list[Problem]]) -> None:
    in_writing(tracker, rewrite_log, wanted)


def entries(tracker: Engine, xml_id: int, *, cleared: bool = False) -> list[tuple[object, ...]]:
    condition = XmlLog.cleared.is_not(None) if cleared else XmlLog.cleared.is_(None)
    query = select(AnException.short_name, XmlLog.message, XmlLog.line).join(
        AnException, AnException.id == XmlLog.exception_id
    )
    with tracker.connect() as connection:
        rows = connection.execute(query.where(XmlLog.xml_id == xml_id, condition).order_by(XmlLog.id))
        return [tuple(row) for row in rows]


def test_entries_are_written_under_the_ids_of_rules_with_what_they_demand(
    tracker: Engine, documents: list[int]
) -> None:
    """The exception is the rule's id."""
    problems = [Problem("E4", "No such animal.", 7), Problem("SchemaViolationError", "Wrong.", 1, 2)]
    rewrite(tracker, {documents[0]: problems})
    assert entries(tracker, documents[0]) == [("E4", "No such animal.", 7), ("SchemaViolationError", "Wrong.", 1)]
    assert entries(tracker, documents[1]) == []
    with tracker.connect() as connection:
        query = select(AnException.short_name, AnException.description)
        described = {row.short_name: row.description for row in connection.execute(query)}
    assert "specimen" in str(described["E4"])
    assert described["SchemaViolationError"] == "The document does not follow the XML schema."


def test_what_holds_no_more_is_cleared_and_what_holds_stays(tracker: Engine, documents: list[int]) -> None:
    first, second, third = (Problem("E4", f"No animal {number}.", number) for number in range(3))
    rewrite(tracker, {documents[0]: [first, second], documents[1]: [first]})
    before = column_in(tracker, select(XmlLog.id).order_by(XmlLog.id))
    rewrite(tracker, {documents[0]: [second, third]})
    assert entries(tracker, documents[0]) == [("E4", second.message, 1), ("E4", third.message, 2)]
    assert entries(tracker, documents[0], cleared=True) == [("E4", first.message, 0)]
    assert entries(tracker, documents[1]) == [("E4", first.message, 0)]
    rewrite(tracker, {documents[0]: [second, third]})
    after = column_in(tracker, select(XmlLog.id).order_by(XmlLog.id))
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    rewrite(tracker, {document: [] for document in documents})
    assert entries(tracker, documents[0]) == entries(tracker, documents[1]) == []


def test_the_same_entry_may_hold_several_times(tracker: Engine, documents: list[int]) -> None:
    twice = [Problem("S5", "Twice.", 3)] * 2
    rewrite(tracker, {documents[0]: twice})
    rewrite(tracker, {documents[0]: twice})
    assert len(entries(tracker, documents[0])) == 2
    rewrite(tracker, {documents[0]: twice[:1]})
    assert len(entries(tracker, documents[0])) == len(entries(tracker, documents[0], cleared=True)) == 1


def finding(severity: Severity, message: str, **more: object) -> FindingEntry:
    return FindingEntry("E4", severity, {"words": message}, 1, **more)  # type: ignore[arg-type]


def test_what_fails_a_document_comes_first_and_what_is_waived_not_at_all() -> None:
    findings = [
        finding(Severity.UNCHECKED, "a"),
        finding(Severity.WARNING, "b"),
        finding(Severity.ERROR, "c"),
        finding(Severity.ERROR, "d", is_waived=True),
        finding(Severity.FATAL, "e"),
    ]
    assert [one.message for one in worst_first(findings)] == ["c", "e", "b", "a"]
    assert [one.message for one in problems_of(findings, 4, 10)] == ["c", "e", "b", "a"]
