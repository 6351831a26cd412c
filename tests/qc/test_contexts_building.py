"""What data contexts count and in which state they are, on each database."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, update

from dcc.naming import Action
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.states import open_documents
from dcc.qc.models import CONTEXT, HISTORY
from dcc.vocabulary import ContextState
from tests.support.asking import execute_in, in_reading, rows_in
from tests.support.qc_contexts import assert_contexts_are_right, judge, know_colonies, submit
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
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build_contexts(qc_database)
    assert states_of(qc_database) == {("", ""): (1, "dataadded")}
    submit(qc_database, Action.ADD, specimen("S1"))
    build_contexts(qc_database)
    assert states_of(qc_database) == {("", ""): (0, "dataremoved"), ("C1", ""): (1, "dataadded")}
    submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2"))
    build_contexts(qc_database)
    assert states_of(qc_database)["C2", ""] == (1, "dataadded")
    assert states_of(qc_database)["C1", ""] == (0, "dataremoved")
    assert_contexts_are_right(qc_database)


def test_what_is_not_valid_does_not_count_until_it_is(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    applied = submit(qc_database, Action.ADD, experiment("E1"), experiment("E2"), faulty=[2])
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (1, "dataadded")}
    judge(qc_database, applied.document_id)
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (2, "dataadded")}
    judge(qc_database, applied.document_id, [1, 2])
    build_contexts(qc_database)
    assert states_of(qc_database) == {("C1", ""): (0, "dataremoved")}


def test_documents_that_were_not_judged_wait(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, experiment("E1", value="1"))
    build_contexts(qc_database)
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
    submit(qc_database, Action.ADD, experiment("E1", value="1"), experiment("E2", value="2"))
    build_contexts(qc_database)
    set_state(qc_database, before)
    name = "E3" if action is Action.ADD else "E1"
    submit(qc_database, action, *[experiment(name, value=value) for value in values])
    build_contexts(qc_database)
    ((_, state),) = states_of(qc_database).values()
    assert state == after


def test_history_tells_every_change_with_its_document(qc_database: Engine) -> None:
    first = submit(qc_database, Action.ADD, experiment("E1", value="1")).document_id
    build_contexts(qc_database)
    second = submit(qc_database, Action.EDIT, experiment("E1", value="2")).document_id
    build_contexts(qc_database)
    submit(qc_database, Action.EDIT, experiment("E1", value="2"))
    build_contexts(qc_database)
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
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2"]), line("C1"))
    build_contexts(qc_database)
    snapshot = know_colonies(qc_database, C1="MGI:1")
    build_contexts(qc_database)
    assert states_of(qc_database) == {
        ("C1", ""): (0, "dataremoved"),
        ("C1", "MGI:1"): (2, "dataadded"),
        ("C1", "MGI:5"): (1, "dataadded"),
    }
    with qc_database.connect() as connection:
        newest = select(HISTORY.c.reason, HISTORY.c.document_id).order_by(HISTORY.c.id.desc()).limit(1)
        assert connection.execute(newest).one() == (f"Reference data: colonies {snapshot}", None)
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
    submit(qc_database, Action.ADD, line("C2"))
    build_contexts(qc_database)

    def open_ones() -> set[int]:
        return in_reading(qc_database, open_documents)

    assert open_ones() == {11, 12}
    execute_in(qc_database, update(CONTEXT).where(CONTEXT.c.genotype == "C1").values(state="qcdone"))
    assert open_ones() == {11}
    submit(qc_database, Action.DELETE, experiment("E1"))
    build_contexts(qc_database)
    assert open_ones() == set()
