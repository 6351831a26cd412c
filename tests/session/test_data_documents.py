"""Which documents wait for the phases after validation, in which order they are uploaded, and what their logs say."""

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from dcc.data_outcomes import FindingEntry
from dcc.databases.transactions import writing
from dcc.naming import Action, DocumentKind, DocumentName, NamingConvention
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.session.data.document_log import rewrite_log
from dcc.session.data.document_problems import problems_of, worst_first
from dcc.session.data.document_queries import load_due
from dcc.session.data.upload_order import DueDocument, in_order_of_upload
from dcc.tracker import progress
from dcc.tracker.models import AnException, XmlLog
from dcc.tracker.progress import NewDocument
from dcc.vocabulary import Severity
from tests.support.asking import column_in, in_reading, in_writing, rows_in
from tests.support.databases import (
    seed_centre,
    seed_documents,
    seed_download,
    seed_hosting,
    seed_source,
    seed_submission,
)

VALID = State(Phase.XSD, Status.DONE)
EXTRACTED = State(Phase.UNZIP, Status.DONE)
NAMING = NamingConvention()
FIRST_DAY = date(2013, 10, 1)


@st.composite
def submissions(draw: st.DrawFn) -> list[DueDocument]:
    """Documents of a few centres, days, increments and actions, each of a zip of its own name."""
    documents = []
    for number in range(draw(st.integers(0, 14))):
        centre = draw(st.sampled_from("HJ"))
        created = FIRST_DAY + timedelta(days=draw(st.integers(0, 2)))
        inc = draw(st.integers(0, 1))
        kind = draw(st.sampled_from(DocumentKind))
        key = SubmissionKey(draw(st.sampled_from(Action)), f"{centre}.{created}.{inc}.impc.zip")
        name = f"{centre}.{created}.{inc}.{kind.value}.impc.xml"
        parsed = DocumentName(name, centre, created, inc, kind)
        documents.append(DueDocument(number, number, key, centre, parsed, 1, None, VALID))
    return documents


@given(submissions())
def test_documents_of_a_kind_go_by_date_then_increment_then_centre(documents: list[DueDocument]) -> None:
    """Of experiments this holds for each centre: deletions may call some forward."""
    ordered = in_order_of_upload(documents)
    of_specimens = [one for one in ordered if one.name.kind is DocumentKind.SPECIMEN]
    assert of_specimens == sorted(of_specimens, key=lambda one: one.upload_order)
    for centre in "HJ":
        own = [one for one in ordered if one.name.kind is DocumentKind.EXPERIMENT and one.name.centre == centre]
        assert own == sorted(own, key=lambda one: one.upload_order)
    # Experiments follow all specimens, but for those before a deletion of specimens.
    for place, document in enumerate(ordered):
        before, after = ordered[:place], ordered[place + 1 :]
        if document.takes_away_specimens:
            experiments = [one for one in after if one.name.kind is DocumentKind.EXPERIMENT]
            late = [one for one in experiments if one.name.centre == document.name.centre]
            assert all(one.moment > document.moment for one in late)
        if document.name.kind is DocumentKind.EXPERIMENT and any(
            one.name.kind is DocumentKind.SPECIMEN for one in after
        ):
            causes = [one for one in after if one.takes_away_specimens and one.name.centre == document.name.centre]
            assert any(one.moment >= document.moment for one in causes)
            assert all(
                one.upload_order < min(cause.upload_order for cause in causes)
                for one in before
                if one.name.kind is DocumentKind.SPECIMEN
            )


def test_specimens_are_deleted_after_all_experiments_of_their_zip() -> None:
    """However the documents of the zip are numbered."""
    key = SubmissionKey(Action.DELETE, "H.2013-10-02.1.impc.zip")
    names = [
        DocumentName(f"H.{day}.{inc}.{kind.value}.impc.xml", "H", day, inc, kind)
        for day, inc, kind in (
            (FIRST_DAY, 1, DocumentKind.SPECIMEN),
            (FIRST_DAY, 2, DocumentKind.EXPERIMENT),
            (FIRST_DAY, 3, DocumentKind.EXPERIMENT),
        )
    ]
    of_zip = [DueDocument(number, 1, key, "H", name, 1, None, VALID) for number, name in enumerate(names)]
    later = DocumentName("H.2013-10-01.4.experiment.impc.xml", "H", FIRST_DAY, 4, DocumentKind.EXPERIMENT)
    other = DueDocument(3, 2, SubmissionKey(Action.ADD, "H.2013-10-01.4.impc.zip"), "H", later, 1, None, VALID)
    assert [one.xml_id for one in in_order_of_upload([*of_zip, other])] == [1, 2, 0, 3]


def test_what_is_added_goes_before_what_is_edited_and_deleted_under_the_same_name() -> None:
    def named(number: int, action: Action) -> DueDocument:
        key = SubmissionKey(action, "H.2013-10-01.1.impc.zip")
        name = DocumentName("H.2013-10-01.1.specimen.impc.xml", "H", FIRST_DAY, 1, DocumentKind.SPECIMEN)
        return DueDocument(number, number, key, "H", name, 1, None, VALID)

    documents = [named(1, Action.DELETE), named(2, Action.EDIT), named(3, Action.ADD)]
    assert [one.key.action for one in in_order_of_upload(documents)] == [Action.ADD, Action.EDIT, Action.DELETE]


# In the tracker


class Archive:
    """An archive `H.2013-10-01.<inc>` whose documents can be added to and set to states."""

    def __init__(self, tracker: Engine, source: int, centre: int, inc: int, action: Action = Action.ADD) -> None:
        self.tracker, self.stem = tracker, f"H.2013-10-01.{inc}"
        self.key = SubmissionKey(action, f"{self.stem}.impc.zip")
        self.seeded = seed_submission(tracker, source, self.key.file_name, action, centre_id=centre)

    def download(self, *states: State, name: str | None = None) -> list[int]:
        download = seed_download(self.tracker, self.seeded.hosting_id, EXTRACTED)
        kinds = ("specimen", "experiment")
        names = [name or f"{self.stem}.{kind}.impc.xml" for kind, _ in zip(kinds, states, strict=False)]
        rest = None, None, None, 10, "0" * 32, State(Phase.XSD, Status.PENDING)
        rows = [NewDocument(download, each, *rest) for each in names]
        with writing(self.tracker) as connection:
            ids = progress.add_documents(connection, rows)
            progress.reopen_documents(connection, dict(zip(ids, states, strict=True)), "test", "As wanted.")
        return ids


@pytest.fixture
def source(tracker: Engine) -> tuple[int, int]:
    centre = seed_centre(tracker)
    return seed_source(tracker, centre), centre


def due(tracker: Engine, phase: Phase) -> list[int]:
    return [document.xml_id for document in in_reading(tracker, load_due, phase, NAMING)]


@pytest.mark.both_databases
def test_what_is_through_the_phase_before_waits_and_what_a_killed_session_left(
    tracker: Engine, source: tuple[int, int]
) -> None:
    states = [State(of, status) for of in Phase for status in Status if of > Phase.UNZIP]
    documents = {state: Archive(tracker, *source, inc).download(state)[0] for inc, state in enumerate(states)}
    for before, phase in pairwise(phase for phase in Phase if phase >= Phase.XSD):
        waits = [State(before, Status.DONE), State(phase, Status.PENDING), State(phase, Status.RUNNING)]
        if before in (Phase.DATA, Phase.OVERVIEW):
            # Where the settings leave it out.
            waits.append(State(before, Status.CANCELLED))
        assert sorted(due(tracker, phase)) == sorted(documents[state] for state in waits)


def test_only_the_latest_download_counts_whichever_source_it_is_from(tracker: Engine, source: tuple[int, int]) -> None:
    archive = Archive(tracker, *source, 1)
    (old,) = archive.download(VALID)
    assert due(tracker, Phase.UPLOAD) == [old]
    (new,) = archive.download(VALID)
    assert due(tracker, Phase.UPLOAD) == [new]
    other = seed_hosting(tracker, archive.seeded.za_id, seed_source(tracker, source[1]))
    seed_download(tracker, other)
    assert due(tracker, Phase.UPLOAD) == [new]
    seed_download(tracker, other, State(Phase.DOWNLOAD, Status.FAILED))
    assert due(tracker, Phase.UPLOAD) == [new]
    seed_download(tracker, other, State(Phase.UNZIP, Status.PENDING))
    assert due(tracker, Phase.UPLOAD) == []


@pytest.fixture
def documents(tracker: Engine) -> list[int]:
    archive = seed_submission(tracker, seed_source(tracker, seed_centre(tracker)))
    return seed_documents(tracker, seed_download(tracker, archive.hosting_id), 2)


def rewrite(tracker: Engine, wanted: dict[int, list[Problem]]) -> None:
    in_writing(tracker, rewrite_log, wanted)


def entries(tracker: Engine, xml_id: int, *, cleared: bool = False) -> list[tuple[object, ...]]:
    condition = XmlLog.cleared.is_not(None) if cleared else XmlLog.cleared.is_(None)
    query = select(AnException.short_name, XmlLog.message, XmlLog.line).join(
        AnException, AnException.id == XmlLog.exception_id
    )
    return list(map(tuple, rows_in(tracker, query.where(XmlLog.xml_id == xml_id, condition).order_by(XmlLog.id))))


def test_entries_are_written_under_the_ids_of_rules_with_what_they_demand(
    tracker: Engine, documents: list[int]
) -> None:
    """The exception is the rule's id."""
    problems = [Problem("E4", "No such animal.", 7), Problem("SchemaViolationError", "Wrong.", 1, 2)]
    rewrite(tracker, {documents[0]: problems})
    assert entries(tracker, documents[0]) == [("E4", "No such animal.", 7), ("SchemaViolationError", "Wrong.", 1)]
    assert entries(tracker, documents[1]) == []
    described = dict(map(tuple, rows_in(tracker, select(AnException.short_name, AnException.description))))
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


def finding(severity: Severity, message: str) -> FindingEntry:
    return FindingEntry("E4", severity, {"words": message}, 1)


def test_what_fails_a_document_comes_first() -> None:
    findings = [
        finding(Severity.UNCHECKED, "a"),
        finding(Severity.WARNING, "b"),
        finding(Severity.ERROR, "c"),
        finding(Severity.FATAL, "e"),
    ]
    assert [one.message for one in worst_first(findings)] == ["c", "e", "b", "a"]
    assert [one.message for one in problems_of(findings, 4, 10)] == ["c", "e", "b", "a"]
