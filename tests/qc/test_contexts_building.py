"""Data contexts: what they count, in which state they are, and what wranglers decide about them."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, Insert, delete, event, insert, literal, select, update

from dcc.documents.contents import Entity
from dcc.naming import Action
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.listings import ContextFilter, list_contexts, list_history
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.contexts.recount import RecountResult, recount_contexts
from dcc.qc.contexts.states import DecisionResult, decide_on_contexts, open_documents
from dcc.qc.models import CONTEXT, HISTORY
from dcc.vocabulary import ContextEvent, ContextState
from tests.support.asking import execute_in, in_reading, row_in, rows_in
from tests.support.qc_contexts import (
    OVERVIEWS,
    TABLES,
    assert_contexts_are_right,
    judge,
    know_colonies,
    know_important_metadata,
    submit,
)
from tests.support.qc_documents import apply, experiment, housing, line, specimen, undo_documents
from tests.support.raising import raising


def states_of(engine: Engine) -> dict[tuple[str, str], tuple[int, str]]:
    """The measurements and state of each context, by genotype and strain."""
    rows = rows_in(engine, select(CONTEXT))
    return {(row.genotype, row.strain_id): (row.measurements, row.state) for row in rows}


def history_of(engine: Engine, genotype: str) -> list[tuple[Any, ...]]:
    """Event, state, measurements and document of what happened to the contexts of a genotype."""
    columns = (HISTORY.c.event, HISTORY.c.state, HISTORY.c.measurements, HISTORY.c.document_id)
    statement = select(*columns).join(CONTEXT, CONTEXT.c.id == HISTORY.c.context_id).order_by(HISTORY.c.id)
    return [tuple(row) for row in rows_in(engine, statement.where(CONTEXT.c.genotype == genotype))]


def set_state(engine: Engine, state: ContextState) -> None:
    execute_in(engine, update(CONTEXT).values(state=state.value, data_state=state.value))


def submit_and_build(engine: Engine, action: Action, *entities: Entity, **options: Any) -> AppliedDocument:
    """Submit a document of these entities, and build the contexts."""
    applied = submit(engine, action, *entities, **options)
    build_contexts(engine)
    return applied


def test_measurements_count_once_under_each_genotype_and_strain_of_their_animals(qc_database: Engine) -> None:
    know_colonies(qc_database, C1="MGI:1", C2="MGI:2")
    submit(
        qc_database,
        Action.ADD,
        specimen("mutant", colony_id="C1"),
        specimen("sister", colony_id="C1"),
        specimen("wild", is_baseline="true", colony_id=None, strain_id="MGI:7"),
        specimen("named", colony_id="C2", strain_id="MGI:9"),
    )
    submit(
        qc_database,
        Action.ADD,
        experiment("E1", ["mutant"]),
        experiment("E2", ["mutant"], "2"),
        experiment("E3", ["wild"]),
        experiment("E4", ["named"]),
        experiment("on several", ["mutant", "sister", "wild"]),
        line("C2"),
        housing(),
    )
    (counts,) = build_contexts(qc_database).centres
    assert (counts.states, counts.added, counts.measurements) == ({ContextState.DATA_ADDED: 5}, 5, 8)
    assert states_of(qc_database) == {
        ("C1", "MGI:1"): (3, "dataadded"),
        ("baseline", "MGI:7"): (2, "dataadded"),
        ("C2", "MGI:9"): (1, "dataadded"),
        ("C2", "MGI:2"): (1, "dataadded"),
        ("", ""): (1, "dataadded"),
    }
    assert_contexts_are_right(qc_database)


def test_an_animal_that_arrives_late_or_is_edited_takes_its_measurements_along(qc_database: Engine) -> None:
    submit_and_build(qc_database, Action.ADD, experiment("E1", ["S1"]))
    assert states_of(qc_database) == {("", ""): (1, "dataadded")}
    submit_and_build(qc_database, Action.ADD, specimen("S1"))
    assert states_of(qc_database) == {("", ""): (0, "dataremoved"), ("C1", ""): (1, "dataadded")}
    submit_and_build(qc_database, Action.EDIT, specimen("S1", colony_id="C2"))
    assert states_of(qc_database)["C2", ""] == (1, "dataadded")
    assert states_of(qc_database)["C1", ""] == (0, "dataremoved")
    assert_contexts_are_right(qc_database)


def test_what_is_not_valid_does_not_count_until_it_is(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    applied = submit_and_build(qc_database, Action.ADD, experiment("E1"), experiment("E2"), faulty=[2])
    assert states_of(qc_database) == {("C1", ""): (1, "dataadded")}
    judge(qc_database, applied.document_id)
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (2, "dataadded")}
    judge(qc_database, applied.document_id, [1, 2])
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (0, "dataremoved")}


def test_documents_that_were_not_judged_wait(qc_database: Engine) -> None:
    submit_and_build(qc_database, Action.ADD, experiment("E1", value="1"))
    edited = apply(qc_database, Action.EDIT, experiment("E1", value="2"))
    assert build_contexts(qc_database).documents == 0
    assert states_of(qc_database) == {("", ""): (1, "dataadded")}
    judge(qc_database, edited.document_id)
    assert build_contexts(qc_database).documents == 1
    assert states_of(qc_database) == {("", ""): (1, "datachanged")}


@pytest.mark.parametrize(
    ("before", "action", "values", "after"),
    [
        (ContextState.QC_DONE, Action.ADD, ["7"], "dataadded"),
        (ContextState.QC_DONE, Action.EDIT, ["7"], "datachanged"),
        (ContextState.QC_DONE, Action.EDIT, ["1"], "qcdone"),
        (ContextState.QC_DONE, Action.DELETE, ["1"], "dataremoved"),
        (ContextState.DATA_CHANGED, Action.ADD, ["7"], "datachanged"),
        (ContextState.DATA_ADDED, Action.EDIT, ["7"], "datachanged"),
        (ContextState.NO_DATA, Action.ADD, ["7"], "dataadded"),
    ],
)
def test_the_state_is_the_worst_that_happened_since_somebody_was_done(
    qc_database: Engine, before: ContextState, action: Action, values: Sequence[str], after: str
) -> None:
    submit_and_build(qc_database, Action.ADD, experiment("E1", value="1"), experiment("E2", value="2"))
    set_state(qc_database, before)
    name = "E3" if action is Action.ADD else "E1"
    submit_and_build(qc_database, action, *[experiment(name, value=value) for value in values])
    ((_, state),) = states_of(qc_database).values()
    assert state == after


def test_data_that_changed_while_others_were_added_have_changed(qc_database: Engine) -> None:
    submit_and_build(qc_database, Action.ADD, experiment("E1", value="1"))
    set_state(qc_database, ContextState.QC_DONE)
    submit(qc_database, Action.EDIT, experiment("E1", value="2"))
    submit_and_build(qc_database, Action.ADD, experiment("E2"))
    assert states_of(qc_database) == {("", ""): (2, "datachanged")}


def test_history_tells_every_change_with_its_document(qc_database: Engine) -> None:
    first = submit_and_build(qc_database, Action.ADD, experiment("E1", value="1")).document_id
    second = submit_and_build(qc_database, Action.EDIT, experiment("E1", value="2")).document_id
    submit_and_build(qc_database, Action.EDIT, experiment("E1", value="2"))
    (undo,) = undo_documents(qc_database, [second + 1]).undone_by
    (undo,) = undo_documents(qc_database, [second]).undone_by
    build_contexts(qc_database)
    assert history_of(qc_database, "") == [
        ("dataadded", "dataadded", 1, first),
        ("datachanged", "datachanged", 1, second),
        ("datachanged", "datachanged", 1, undo),
    ]


def test_strains_follow_the_reference_data_of_colonies(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"), specimen("S2", strain_id="MGI:5"))
    submit_and_build(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2"]), line("C1"))
    snapshot = know_colonies(qc_database, C1="MGI:1")
    build_contexts(qc_database)
    assert states_of(qc_database) == {
        ("C1", ""): (0, "dataremoved"),
        ("C1", "MGI:1"): (2, "dataadded"),
        ("C1", "MGI:5"): (1, "dataadded"),
    }
    newest = select(HISTORY.c.reason, HISTORY.c.document_id).order_by(HISTORY.c.id.desc()).limit(1)
    assert rows_in(qc_database, newest) == [(f"Reference data: colonies {snapshot}", None)]
    assert_contexts_are_right(qc_database)


@pytest.mark.both_databases
def test_a_build_that_is_killed_is_done_anew(qc_database: Engine) -> None:
    """As a process that dies before its transaction has committed."""
    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, experiment("E1"))

    die = raising(KeyboardInterrupt)

    event.listen(qc_database, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        build_contexts(qc_database)
    event.remove(qc_database, "commit", die)
    assert states_of(qc_database) == {}
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (1, "dataadded")}
    assert len(history_of(qc_database, "C1")) == 1


def test_documents_are_open_until_all_their_contexts_are_done(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, experiment("E1"), tracker_id=11)
    submit(qc_database, Action.ADD, line("C1"), tracker_id=12)
    submit_and_build(qc_database, Action.ADD, line("C2"))

    def open_ones() -> set[int]:
        return in_reading(qc_database, open_documents)

    assert open_ones() == {11, 12}
    execute_in(qc_database, update(CONTEXT).where(CONTEXT.c.genotype == "C1").values(state="qcdone"))
    assert open_ones() == {11}
    submit_and_build(qc_database, Action.DELETE, experiment("E1"))
    assert open_ones() == set()


PART, MEMBER = TABLES["document_context"], TABLES["context_member"]


@pytest.fixture
def built(qc_database: Engine) -> Engine:
    """Contexts and overviews of animals, lines and housings, some of them edited."""
    know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
    submit(
        qc_database,
        Action.ADD,
        specimen("S1"),
        specimen("S2", colony_id="C2"),
        specimen("W", strain_id="MGI:1", is_baseline="true"),
    )
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2", "W"]), line("C1"), housing())
    submit_and_build(qc_database, Action.EDIT, experiment("E1", ["W"]))
    build_overviews(qc_database)
    return qc_database


def recount(engine: Engine) -> RecountResult:
    return recount_contexts(engine, author="anna", reason="restored in part")


def rows_of(engine: Engine, *names: str) -> list[list[Any]]:
    with engine.connect() as connection:
        return [
            [tuple(row) for row in connection.execute(select(TABLES[name]).order_by(*TABLES[name].primary_key))]
            for name in names
        ]


def counted_though_gone() -> Insert:
    """Has the run of the experiment that was replaced counted."""
    run, experiment_ = TABLES["procedure_run"], TABLES["experiment"]
    ended = select(run.c.id, literal("C1"), literal("")).join(experiment_, experiment_.c.id == run.c.owner_id)
    ended = ended.where(run.c.owner_kind == "experiment", experiment_.c.is_current.is_(False))
    return insert(MEMBER).from_select(["procedure_run_id", "genotype", "strain_id"], ended)


def test_what_is_right_stays_as_it_is_and_what_is_wrong_is_corrected(built: Engine) -> None:
    names = ("context_member", "document_context", "data_context", "context_history", *OVERVIEWS)
    before = rows_of(built, *names)
    assert recount(built).corrected == 0
    assert rows_of(built, *names) == before
    wrongly = update(MEMBER).where(MEMBER.c.genotype == "C2").values(genotype="C9")
    too_few = update(CONTEXT).values(measurements=0, checksum="0" * 32)
    too_many = update(CONTEXT).values(measurements=CONTEXT.c.measurements + 7, checksum="f" * 31 + "0")
    for damage in (too_few, too_many, delete(MEMBER), wrongly, counted_though_gone(), delete(PART)):
        healthy = rows_of(built, *names[:3])
        execute_in(built, damage)
        assert rows_of(built, *names[:3]) != healthy, damage
        recounted = recount(built)
        assert_contexts_are_right(built)
        assert rows_of(built, *names[:2]) == before[:2], damage
        assert (recounted.corrected > 0) == (damage in (too_few, too_many)), damage
        assert recount(built).corrected == 0, damage


def test_the_history_of_what_was_corrected_says_who_and_why(built: Engine) -> None:
    execute_in(built, update(CONTEXT).where(CONTEXT.c.genotype == "C2").values(measurements=5))
    assert recount(built).corrected == 1
    newest = row_in(built, select(HISTORY).order_by(HISTORY.c.id.desc()).limit(1))
    assert (newest.event, newest.measurements) == ("dataremoved", 1)
    assert newest.reason == "Counted again by anna: restored in part"


def test_documents_that_wait_to_be_judged_are_left_to_the_session(built: Engine) -> None:
    apply(built, Action.EDIT, experiment("E2", ["S1"]))
    before = rows_of(built, "data_context", "context_member")
    assert recount(built).corrected == 0
    assert rows_of(built, "data_context", "context_member") == before


WHO = {"author": "wrangler", "reason": "looked at it"}
ALL = ContextFilter()
COLONY = ContextFilter(genotype="C1")


@pytest.fixture
def two_contexts(qc_database: Engine) -> Engine:
    """A database with a context of an unknown genotype and one of the colony C1."""
    submit_and_build(qc_database, Action.ADD, experiment("E1", value="1"), line("C1"))
    return qc_database


def shown(engine: Engine) -> dict[str, tuple[str, int]]:
    """State and open issues of each context, by genotype."""
    return {entry.genotype: (entry.state.value, entry.issues) for entry in in_reading(engine, list_contexts, ALL)}


def events(engine: Engine, wanted: ContextFilter = COLONY) -> list[tuple[str, str, str | None, str | None]]:
    entries = in_reading(engine, list_history, wanted)
    return [(entry.event.value, entry.state.value, entry.author, entry.reason) for entry in entries]


def change(engine: Engine, action: Action, value: str) -> None:
    submit_and_build(engine, action, line("C1", value))


def test_what_is_done_stays_done_until_its_data_change(two_contexts: Engine) -> None:
    assert decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(1)
    assert shown(two_contexts) == {"": ("dataadded", 0), "C1": ("qcdone", 0)}
    assert decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(0)
    submit(two_contexts, Action.EDIT, experiment("E1", value="2"))
    change(two_contexts, Action.EDIT, "1")
    assert shown(two_contexts) == {"": ("datachanged", 0), "C1": ("qcdone", 0)}
    change(two_contexts, Action.EDIT, "2")
    assert shown(two_contexts)["C1"] == ("datachanged", 0)


def test_only_what_was_done_is_reopened(two_contexts: Engine) -> None:
    change(two_contexts, Action.EDIT, "2")
    assert decide_on_contexts(two_contexts, ContextEvent.REOPENED, ALL, **WHO) == DecisionResult(0)
    decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    assert decide_on_contexts(two_contexts, ContextEvent.REOPENED, ALL, **WHO) == DecisionResult(1)
    assert shown(two_contexts)["C1"] == ("dataadded", 0)
    change(two_contexts, Action.DELETE, "2")
    decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    decide_on_contexts(two_contexts, ContextEvent.REOPENED, COLONY, **WHO)
    assert shown(two_contexts)["C1"] == ("dataremoved", 0)


@pytest.mark.both_databases
def test_a_context_has_issues_until_all_are_resolved_whatever_documents_do(two_contexts: Engine) -> None:
    """Names that are longer than their columns are cut."""
    one, three = ("one" * 22)[:64], ("three" * 13)[:64]
    decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    assert decide_on_contexts(
        two_contexts, ContextEvent.ISSUE_RAISED, COLONY, author=one + "more", reason="unit is wrong"
    ) == DecisionResult(1)
    decide_on_contexts(two_contexts, ContextEvent.ISSUE_RAISED, COLONY, author="two", reason="date is wrong")
    assert shown(two_contexts)["C1"] == ("hasissues", 2)
    change(two_contexts, Action.EDIT, "2")
    assert shown(two_contexts)["C1"] == ("hasissues", 2)
    assert decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO) == DecisionResult(0, left=1)
    has_issues = ContextFilter(states=[ContextState.HAS_ISSUES])
    assert decide_on_contexts(
        two_contexts, ContextEvent.ISSUE_RESOLVED, has_issues, author=three + "more", reason="submitted again"
    ) == DecisionResult(1)
    assert shown(two_contexts) == {"": ("dataadded", 0), "C1": ("datachanged", 0)}
    decide_on_contexts(two_contexts, ContextEvent.DONE, COLONY, **WHO)
    decide_on_contexts(two_contexts, ContextEvent.ISSUE_RAISED, COLONY, author="four", reason="again")
    decide_on_contexts(two_contexts, ContextEvent.REOPENED, COLONY, **WHO)
    assert shown(two_contexts)["C1"] == ("hasissues", 1)
    decide_on_contexts(two_contexts, ContextEvent.ISSUE_RESOLVED, COLONY, author="five", reason="no issue")
    assert shown(two_contexts)["C1"] == ("dataadded", 0)
    assert events(two_contexts) == [
        ("dataadded", "dataadded", None, None),
        ("done", "qcdone", "wrangler", "looked at it"),
        ("issueraised", "hasissues", one, "unit is wrong"),
        ("issueraised", "hasissues", "two", "date is wrong"),
        ("datachanged", "hasissues", None, None),
        ("issueresolved", "datachanged", three, "submitted again"),
        ("done", "qcdone", "wrangler", "looked at it"),
        ("issueraised", "hasissues", "four", "again"),
        ("reopened", "hasissues", "wrangler", "looked at it"),
        ("issueresolved", "dataadded", "five", "no issue"),
    ]
    issues = rows_in(two_contexts, select(TABLES["context_issue"]))
    assert [(issue.reason, issue.raised_by, issue.resolved_by, issue.resolution) for issue in issues] == [
        ("unit is wrong", one, three, "submitted again"),
        ("date is wrong", "two", three, "submitted again"),
        ("again", "four", "five", "no issue"),
    ]


def test_each_part_of_a_filter_chooses(two_contexts: Engine) -> None:
    submit(two_contexts, Action.ADD, line("C1", procedure_id="IMPC_BWT_001"), centre="J")
    build_contexts(two_contexts)

    def number(**given: str | tuple[ContextState]) -> int:
        return len(in_reading(two_contexts, list_contexts, ContextFilter(**given)))  # type: ignore[arg-type]

    assert (number(), number(centre="J"), number(genotype=""), number(genotype="C1")) == (3, 1, 1, 2)
    assert (number(procedure="IMPC_BWT_001"), number(parameter="IMPC_CBC_001_001")) == (1, 2)
    assert (number(pipeline="IMPC_001"), number(strain="MGI:1"), number(states=(ContextState.DATA_ADDED,))) == (3, 0, 3)
    assert ALL.means_all
    assert not COLONY.means_all
