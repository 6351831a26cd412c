"""The story of a specimen."""

from datetime import date

from sqlalchemy import Engine, update

from dcc.naming import Action, DocumentKind
from dcc.qc.history import specimen_history
from dcc.qc.models import FINDING
from tests.support.asking import execute_in, in_reading
from tests.support.qc_documents import apply, apply_document, block, experiment, specimen, to_apply, undo_documents

SPECIMEN = DocumentKind.SPECIMEN
ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE


def story(engine: Engine, specimen_id: str = "S1", centre: str = "H") -> list[tuple[int, str, str]]:
    events = in_reading(engine, specimen_history, centre, specimen_id)
    return [(event.document_id, event.happening.value, event.entity_kind.value) for event in events]


def test_the_story_of_a_specimen_tells_all_that_happened_to_it_and_its_experiments(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"), specimen("S2"))
    apply(qc_database, ADD, specimen("S1"))
    apply(qc_database, ADD, experiment("E1", ("S1", "S2")), experiment("E2", ("S2",)))
    apply(qc_database, DELETE, specimen("S1"))
    edited = apply(qc_database, EDIT, specimen("S1", "L2")).document_id
    undo_documents(qc_database, [edited])
    apply(qc_database, DELETE, experiment("E1"))
    apply(qc_database, DELETE, specimen("S1"))
    apply(qc_database, ADD, specimen("S1"), centre="J")
    assert story(qc_database) == [
        (1, "added", "specimen"),
        (2, "refused", "specimen"),
        (3, "added", "experiment"),
        (4, "refused", "specimen"),
        (5, "edited", "specimen"),
        (6, "restored", "specimen"),
        (7, "deleted", "experiment"),
        (8, "deleted", "specimen"),
    ]
    assert story(qc_database, "S3") == []


def test_what_was_not_stored_is_told_of_the_centre_that_it_is_of(qc_database: Engine) -> None:
    """A document may have data of several centres; former findings have no path."""
    too_long = specimen("S1", litter_id="L" * 300)
    both = [block(SPECIMEN, "J"), specimen("S2"), block(SPECIMEN, "H", 2), too_long._replace(position=2)]
    refused = apply_document(qc_database, to_apply(ADD, SPECIMEN, centre="J"), lambda: both).document_id
    (event,) = in_reading(qc_database, specimen_history, "H", "S1")
    assert [finding.rule for finding in event.findings] == ["Q1"]
    assert (story(qc_database), story(qc_database, centre="J")) == ([(refused, "refused", "specimen")], [])
    execute_in(qc_database, update(FINDING).values(path=None))
    assert (story(qc_database), story(qc_database, centre="J")) == ([], [(refused, "refused", "specimen")])


def test_the_story_tells_lines_lateness_findings_and_who_withdrew_what(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"), created=date(2013, 10, 31))
    late = apply(qc_database, EDIT, specimen("S0"), specimen("S1", "L2", 2), created=date(2013, 10, 1))
    undo_documents(qc_database, [late.document_id], author="wrangler", reason="too late")
    apply(qc_database, ADD, specimen("S1", "L3"), created=date(2013, 11, 1))
    events = in_reading(qc_database, specimen_history, "H", "S1")
    told = [(event.happening.value, event.line, event.late, event.undoes, event.author) for event in events]
    assert told == [
        ("added", 4, False, None, None),
        ("edited", 5, True, None, None),
        ("restored", 4, False, 2, "wrangler"),
        ("refused", 4, False, None, None),
    ]
    assert [[finding.rule for finding in event.findings] for event in events] == [[], [], [], ["S13"]]
    assert events[1].created == date(2013, 10, 1)
