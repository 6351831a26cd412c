"""What a document would change is said without changing anything, on SQLite and on MariaDB."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from dcc.documents.contents import Entity
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.planning import EntityChange, Plan, TouchedContext
from tests.qc.test_applying import all_rows
from tests.support.qc_documents import (
    PROCEDURE,
    apply,
    apply_document,
    experiment,
    plan_document,
    reading,
    specimen,
    to_apply,
)

ADD, EDIT, DELETE = Action.ADD, Action.EDIT, Action.DELETE


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


@pytest.mark.both_databases
def test_the_plan_of_a_delete_lists_what_would_go(qc_database: Engine) -> None:
    apply(qc_database, ADD, experiment("E1", value="1"))
    planned = plan(qc_database, DELETE, DocumentKind.EXPERIMENT, experiment("E1"), experiment("E2"))
    values = {change.what: (change.old, change.new) for change in planned.changes}
    assert values[f"{PROCEDURE}_001"] == ("1", None)
    assert values["date"] == ("2013-10-01", None)
    assert [finding.rule for finding in planned.would_be.findings] == ["Q3"]


def test_the_plan_of_what_was_applied_already_is_empty(qc_database: Engine) -> None:
    document = to_apply(ADD, DocumentKind.SPECIMEN)
    apply_document(qc_database, document, reading(specimen("S1")))
    planned = plan_document(qc_database, document, reading(specimen("S1")))
    assert (planned.would_be.repeated, planned.changed, planned.contexts) == (True, 0, frozenset())
