"""Documents that would end much are held until they are confirmed; what one would change is said, and not done."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine, select

from dcc.documents.contents import Entity, StatusCode
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.apply.held_documents import confirm_held
from dcc.qc.apply.planned_changes import EntityChange, Plan, TouchedContext
from dcc.qc.models import DOCUMENT
from dcc.qc.rows.documents import DocumentToApply
from dcc.vocabulary import DocumentState
from tests.qc.test_applying import all_rows, litters
from tests.support.asking import row_in, rows_in
from tests.support.integrity_cases import genotype, metadata, picture, related, status
from tests.support.qc_documents import (
    PROCEDURE,
    apply,
    apply_document,
    experiment,
    line,
    plan_document,
    procedure,
    reading,
    specimen,
    to_apply,
)

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE
HELD, APPLIED, REFUSED = DocumentState.HELD, DocumentState.APPLIED, DocumentState.REFUSED
THREE = [specimen(f"S{number}", "new") for number in range(3)]


def hand_in(
    engine: Engine, document: DocumentToApply, *entities: Entity, hold_threshold: int | None = 2
) -> AppliedDocument:
    return apply_document(engine, document, reading(*entities), patience_seconds=5, hold_threshold=hold_threshold)


def of_three(engine: Engine, action: Action = EDIT, tracker_id: int | None = 7) -> DocumentToApply:
    """A document that names all the specimens that there are."""
    apply(engine, ADD, *(one._replace(litter_id="old") for one in THREE))
    return to_apply(action, DocumentKind.SPECIMEN, tracker_id=tracker_id)


def documents(engine: Engine) -> list[tuple[str, int | None, str | None, str | None]]:
    columns = (DOCUMENT.c.state, DOCUMENT.c.tracker_id, DOCUMENT.c.author, DOCUMENT.c.reason)
    return [tuple(row) for row in rows_in(engine, select(*columns).order_by(DOCUMENT.c.id))]


def confirm(engine: Engine, document: DocumentToApply) -> tuple[int, ...]:
    return confirm_held(engine, document.action, document.zip_file, author="wrangler", reason="as agreed")


@pytest.mark.parametrize("action", [EDIT, DELETE])
def test_what_would_end_too_much_is_held_and_only_its_own_row_stays(qc_database: Engine, action: Action) -> None:
    document = of_three(qc_database, action)
    before = all_rows(qc_database)
    held = hand_in(qc_database, document, *THREE)
    assert (held.state, held.ended, held.said["specimens"]) == (HELD, {"specimen": 3}, 3)
    after = all_rows(qc_database)
    assert [name for name in after if after[name] != before[name]] == ["document"]
    row = row_in(qc_database, select(DOCUMENT.c.specimens, DOCUMENT.c.late).where(DOCUMENT.c.id == held.document_id))
    assert tuple(row) == (3, False)
    # Its plan shows what it would change, and leaves it held.
    planned = plan_document(qc_database, document, reading(*THREE))
    assert (planned.would_be.state, planned.would_be.ended) == (APPLIED, {"specimen": 3})
    assert planned.changed == {EDIT: 3, DELETE: 36}[action]
    assert all_rows(qc_database) == after


def test_as_much_as_is_allowed_is_not_held_nor_is_what_only_adds(qc_database: Engine) -> None:
    document = of_three(qc_database)
    assert hand_in(qc_database, document, *THREE, hold_threshold=3).state is APPLIED
    added = hand_in(qc_database, to_apply(ADD, DocumentKind.EXPERIMENT), experiment("E1"), line("C1"), hold_threshold=0)
    assert added.state is APPLIED
    assert set(litters(qc_database).values()) == {"new"}


def test_a_confirmed_document_takes_effect_and_keeps_who_confirmed_it(qc_database: Engine) -> None:
    document = of_three(qc_database)
    held = hand_in(qc_database, document, *THREE)
    assert confirm(qc_database, document) == (held.document_id,)
    assert set(litters(qc_database).values()) == {"old"}
    applied = hand_in(qc_database, document, *THREE)
    assert (applied.state, set(litters(qc_database).values())) == (APPLIED, {"new"})
    assert documents(qc_database)[1:] == [
        ("refused", None, "wrangler", "as agreed"),
        ("applied", 7, "wrangler", "as agreed"),
    ]
    assert hand_in(qc_database, document, *THREE).repeated
    with pytest.raises(NotFoundError, match="is held"):
        confirm(qc_database, document)


@pytest.mark.both_databases
def test_what_was_confirmed_is_held_anew_when_it_comes_with_other_contents(qc_database: Engine) -> None:
    document = of_three(qc_database)
    hand_in(qc_database, document, *THREE)
    confirm(qc_database, document)
    other = replace(document, md5="0" * 32, tracker_id=8)
    assert hand_in(qc_database, other, *THREE).state is HELD
    assert [row[:3] for row in documents(qc_database)[1:]] == [("refused", None, "wrangler"), ("held", 8, None)]


def test_a_held_document_that_ends_less_since_takes_effect(qc_database: Engine) -> None:
    document = of_three(qc_database)
    hand_in(qc_database, document, *THREE)
    apply(qc_database, DELETE, specimen("S0"))
    assert hand_in(qc_database, document, *THREE).state is APPLIED
    assert litters(qc_database) == {"S1": "new", "S2": "new"}


def test_who_confirms_and_why_must_be_said_and_fit(qc_database: Engine) -> None:
    for author, reason in (("", "why"), ("who", " "), ("w" * 65, "why"), ("who", "y" * 257)):
        with pytest.raises(ConfigurationError):
            confirm_held(qc_database, EDIT, "H.2013-10-31.1.impc.zip", author=author, reason=reason)


def test_what_is_held_is_so_no_more_when_the_archive_comes_as_it_was_applied_before(qc_database: Engine) -> None:
    document = of_three(qc_database)
    hand_in(qc_database, document, *THREE, hold_threshold=None)
    newer = [one._replace(litter_id="newer") for one in THREE]
    hand_in(qc_database, replace(document, md5="0" * 32, tracker_id=8), *newer)
    assert [state for state, *_ in documents(qc_database)] == [APPLIED, APPLIED, HELD]
    assert hand_in(qc_database, replace(document, tracker_id=9), *THREE).repeated
    assert [state for state, *_ in documents(qc_database)] == [APPLIED, APPLIED, REFUSED]
    with pytest.raises(NotFoundError):
        confirm(qc_database, document)


def plan(engine: Engine, action: Action, kind: DocumentKind, *entities: Entity) -> Plan:
    """The plan, which the application that follows must fulfil."""
    before = all_rows(engine)
    document = to_apply(action, kind)
    planned = plan_document(engine, document, reading(*entities))
    assert all_rows(engine) == before
    assert apply_document(engine, document, reading(*entities), patience_seconds=5) == planned.would_be
    return planned


def test_the_plan_of_an_edit_lists_old_and_new_values_and_the_contexts(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"))
    apply(qc_database, ADD, experiment("E1", value="1"), experiment("E2", value="2"))
    planned = plan(qc_database, EDIT, DocumentKind.EXPERIMENT, experiment("E1", value="9"), experiment("E2", value="2"))
    name = f"Experiment E1 of H (procedure {PROCEDURE})"
    assert planned.changes == (EntityChange(name, f"{PROCEDURE}_001", "1", "9"),)
    assert (planned.changed, planned.would_be.opened, planned.would_be.ended) == (
        1,
        {"experiment": 2},
        {"experiment": 2},
    )
    assert planned.contexts == {TouchedContext("H", "IMPC_001", "C1", None, PROCEDURE, f"{PROCEDURE}_001")}


def changed(planned: Plan) -> list[tuple[str, str | None, str | None]]:
    return [change[1:] for change in planned.changes]


@pytest.mark.both_databases
def test_the_plan_lists_what_is_no_column_and_no_measurement(qc_database: Engine) -> None:
    """An edit that moved an experiment to another animal, or had another genotype or equipment, changed no value."""
    before = specimen("S1", genotypes=(genotype("MGI:1", "MGI:2"),), related_specimens=(related("S2"),))
    apply(qc_database, ADD, before)
    after = before._replace(genotypes=(genotype("MGI:1", "MGI:3"),), related_specimens=(related("S2", "mother"),))
    assert changed(plan(qc_database, EDIT, DocumentKind.SPECIMEN, after)) == [
        ("relative 1", "S2, littermate", "S2, mother"),
        ("genotype 1", "MGI:1, Fto, MGI:2", "MGI:1, Fto, MGI:3"),
    ]
    done = procedure("1")
    former = experiment("E1", ["S1"])._replace(procedure=done._replace(metadata=(metadata("MACHINE", "old"),)))
    apply(qc_database, ADD, former)
    other = done._replace(metadata=(metadata("MACHINE", "new"),), media=(picture(uri="ftp://h.example/2.jpg"),))
    moved = former._replace(specimen_ids=("S1", "S2"), procedure=other, status_codes=(status("IMPC_PSC_001"),))
    assert changed(plan(qc_database, EDIT, DocumentKind.EXPERIMENT, moved)) == [
        ("MACHINE", "old", "new"),
        ("animal 2", None, "S2"),
        ("status code 1", None, "IMPC_PSC_001"),
        ("PICTURE", None, "ftp://h.example/2.jpg"),
    ]


def test_the_plan_numbers_values_of_one_parameter(qc_database: Engine) -> None:
    former = experiment("E1", value="1")
    assert former.procedure is not None
    (value,) = former.procedure.simple
    former = former._replace(procedure=former.procedure._replace(simple=(value,) * 3))
    apply(qc_database, ADD, former)
    planned = plan(qc_database, EDIT, DocumentKind.EXPERIMENT, experiment("E1", value="1"))
    name = f"{PROCEDURE}_001"
    assert [(change.what, change.old, change.new) for change in planned.changes] == [
        (f"{name} (again 1)", "1", None),
        (f"{name} (again 2)", "1", None),
    ]


@pytest.mark.both_databases
def test_the_plan_of_a_delete_lists_what_would_go(qc_database: Engine) -> None:
    apply(qc_database, ADD, experiment("E1", value="1"))
    planned = plan(qc_database, DELETE, DocumentKind.EXPERIMENT, experiment("E1"), experiment("E2"))
    values = {change.what: (change.old, change.new) for change in planned.changes}
    assert values[f"{PROCEDURE}_001"] == ("1", None)
    assert values["date"] == ("2013-10-01", None)
    assert [finding.rule for finding in planned.would_be.findings] == ["Q3"]


def test_results_that_an_edit_gives_to_an_experiment_without_remove_nothing(qc_database: Engine) -> None:
    apply(qc_database, ADD, specimen("S1"))
    without_results = {"procedure": None, "status_codes": (StatusCode(9, None, "IMPC_PSC_003"),)}
    apply(qc_database, ADD, experiment("E1")._replace(**without_results))
    planned = plan(qc_database, EDIT, DocumentKind.EXPERIMENT, experiment("E1", value="9"))
    assert (planned.would_be.opened, planned.would_be.ended) == ({"experiment": 1}, {"experiment": 1})
    assert planned.removed == {}
    assert EntityChange("Experiment E1 of H (no procedure)", f"{PROCEDURE}_001", None, "9") in planned.changes


def test_the_plan_of_what_was_applied_already_is_empty(qc_database: Engine) -> None:
    document = to_apply(ADD, DocumentKind.SPECIMEN)
    apply_document(qc_database, document, reading(specimen("S1")))
    planned = plan_document(qc_database, document, reading(specimen("S1")))
    assert (planned.would_be.repeated, planned.changed, planned.contexts) == (True, 0, frozenset())
