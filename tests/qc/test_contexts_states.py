"""What wranglers decide about data contexts, on each database."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select

from dcc.naming import Action
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.listings import ContextFilter, list_contexts, list_history
from dcc.qc.contexts.states import DecisionResult, decide
from dcc.vocabulary import ContextEvent, ContextState
from tests.support.asking import in_reading
from tests.support.qc_contexts import TABLES, submit
from tests.support.qc_documents import experiment, line

WHO = {"author": "wrangler", "reason": "looked at it"}
ALL = ContextFilter()
COLONY = ContextFilter(genotype="C1")


@pytest.fixture
def two_contexts(qc_database: Engine) -> Engine:
    """A database with a context of an unknown genotype and one of the colony C1."""
    submit(qc_database, Action.ADD, experiment("E1", value="1"), line("C1"))
    build_contexts(qc_database)
    return qc_database


def shown(engine: Engine) -> dict[str, tuple[str, int]]:
    """State and open issues of each context, by genotype."""
    return {entry.genotype: (entry.state.value, entry.issues) for entry in in_reading(engine, list_contexts, ALL)}


def events(engine: Engine, wanted: ContextFilter = COLONY) -> list[tuple[str, str, str | None, str | None]]:
    entries = in_reading(engine, list_history, wanted)
    return [(entry.event.value, entry.state.value, entry.author, entry.reason) for entry in entries]


def change(engine: Engine, action: Action, value: str) -> None:
    submit(engine, action, line("C1", value))
    build_contexts(engine)


def test_what_is_done_stays_done_until_its_data_change(two_contexts: Engine) -> None:
    assert decide(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(1)
    assert shown(two_contexts) == {"": ("dataadded", 0), "C1": ("qcdone", 0)}
    assert decide(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(0)
    submit(two_contexts, Action.EDIT, experiment("E1", value="2"))
    change(two_contexts, Action.EDIT, "1")
    assert shown(two_contexts) == {"": ("datachanged", 0), "C1": ("qcdone", 0)}
    change(two_contexts, Action.EDIT, "2")
    assert shown(two_contexts)["C1"] == ("datachanged", 0)


def test_only_what_was_done_is_reopened(two_contexts: Engine) -> None:
    change(two_contexts, Action.EDIT, "2")
    assert decide(two_contexts, ContextEvent.REOPENED, ALL, **WHO) == DecisionResult(0)
    decide(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    assert decide(two_contexts, ContextEvent.REOPENED, ALL, **WHO) == DecisionResult(1)
    assert shown(two_contexts)["C1"] == ("dataadded", 0)
    change(two_contexts, Action.DELETE, "2")
    decide(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    decide(two_contexts, ContextEvent.REOPENED, COLONY, **WHO)
    assert shown(two_contexts)["C1"] == ("dataremoved", 0)


def test_a_context_has_issues_until_all_are_resolved_whatever_documents_do(two_contexts: Engine) -> None:
    decide(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    assert decide(
        two_contexts, ContextEvent.ISSUE_RAISED, COLONY, author="one", reason="unit is wrong"
    ) == DecisionResult(1)
    decide(two_contexts, ContextEvent.ISSUE_RAISED, COLONY, author="two", reason="date is wrong")
    assert shown(two_contexts)["C1"] == ("hasissues", 2)
    change(two_contexts, Action.EDIT, "2")
    assert shown(two_contexts)["C1"] == ("hasissues", 2)
    assert decide(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(0, left=1)
    has_issues = ContextFilter(states=[ContextState.HAS_ISSUES])
    assert decide(
        two_contexts, ContextEvent.ISSUE_RESOLVED, has_issues, author="three", reason="submitted again"
    ) == DecisionResult(1)
    assert shown(two_contexts) == {"": ("dataadded", 0), "C1": ("datachanged", 0)}
    assert events(two_contexts) == [
        ("dataadded", "dataadded", None, None),
        ("done", "qcdone", "wrangler", "looked at it"),
        ("issueraised", "hasissues", "one", "unit is wrong"),
        ("issueraised", "hasissues", "two", "date is wrong"),
        ("datachanged", "hasissues", None, None),
        ("issueresolved", "datachanged", "three", "submitted again"),
    ]
    with two_contexts.connect() as connection:
        issues = connection.execute(select(TABLES["context_issue"])).mappings().all()
    assert [(issue["reason"], issue["raised_by"]) for issue in issues] == [
        ("unit is wrong", "one"),
        ("date is wrong", "two"),
    ]
    assert {(issue["resolved_by"], issue["resolution"]) for issue in issues} == {("three", "submitted again")}


def test_each_part_of_a_filter_chooses(two_contexts: Engine) -> None:
    submit(two_contexts, Action.ADD, line("C1", procedure_id="IMPC_BWT_001"), centre="J")
    build_contexts(two_contexts)

    def number(**given: str | tuple[ContextState]) -> int:
        with two_contexts.connect() as connection:
            return len(list_contexts(connection, ContextFilter(**given)))  # type: ignore[arg-type]

    assert (number(), number(centre="J"), number(genotype=""), number(genotype="C1")) == (3, 1, 1, 2)
    assert (number(procedure="IMPC_BWT_001"), number(parameter="IMPC_CBC_001_001")) == (1, 2)
    assert (number(pipeline="IMPC_001"), number(strain="MGI:1"), number(states=(ContextState.DATA_ADDED,))) == (3, 0, 3)
    assert ALL.means_all
    assert not COLONY.means_all
