"""An experiment counts only while all of its animals are valid, wherever it is counted."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.analysis.measurements import load_measurements
from dcc.documents.contents import MediaParameter, Metadata
from dcc.naming import Action
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.contexts.recount import recount_contexts
from dcc.qc.models import EXPERIMENT
from dcc.vocabulary import ContextState, Validity
from tests.qc.test_contexts_building import set_state, states_of
from tests.support.asking import column_in, execute_in, rows_in
from tests.support.qc_contexts import assert_contexts_are_right, judge, submit
from tests.support.qc_documents import experiment, housing, line, specimen, undo_documents

BAD = specimen("bad", colony_id=None)
GOOD = specimen("good", position=2)


def valid_of(engine: Engine) -> dict[str, set[bool]]:
    """What all places where it is looked up say of the validity of each current experiment."""
    said: dict[str, set[bool]] = {}
    for view in ("current_experiment", "current_measurement"):
        for name, is_valid in rows_in(engine, f"SELECT experiment_id, is_valid FROM {view}"):
            if name is not None:
                said.setdefault(name, set()).add(bool(is_valid))
    shown = rows_in(
        engine,
        "SELECT e.experiment_id, o.procedure_run_id FROM current_experiment e JOIN procedure_run r "
        "ON r.owner_kind = 'experiment' AND r.owner_id = e.id LEFT JOIN overview_animal_procedure o "
        "ON o.procedure_run_id = r.id",
    )
    for name, run_id in shown:
        said[name].add(run_id is not None)
    for row in load_measurements(engine).itertuples():
        if isinstance(row.experiment_id, str):
            said[row.experiment_id].add(bool(row.is_valid))
    return said


def built(engine: Engine) -> dict[str, set[bool]]:
    build_contexts(engine)
    build_overviews(engine)
    assert_contexts_are_right(engine)
    return valid_of(engine)


def test_no_experiment_on_an_invalid_animal_counts_anywhere(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, BAD, GOOD, faulty=[1])
    submit(qc_database, Action.ADD, specimen("bad"), centre="J")
    submit(
        qc_database,
        Action.ADD,
        experiment("E1", ["bad"]),
        experiment("E2", ["good"]),
        experiment("E3", ["good", "bad"]),
        line("C1"),
        housing(),
    )
    submit(qc_database, Action.ADD, experiment("E4", ["bad"]), centre="J")
    assert built(qc_database) == {"E1": {False}, "E2": {True}, "E3": {False}, "E4": {True}}
    assert states_of(qc_database) == {("C1", ""): (1, "dataadded"), ("", ""): (1, "dataadded")}


@pytest.mark.both_databases
def test_all_views_show_what_is_current_and_say_the_same_of_an_experiment_on_an_invalid_animal(
    qc_database: Engine,
) -> None:
    submit(qc_database, Action.ADD, BAD, GOOD, faulty=[1])
    of_run = Metadata(9, "IMPC_CBC_003_001", None, None, "Sysmex")
    file = MediaParameter(10, "IMPC_CBC_004_001", "https://h.example/1.png", "png", None, None, (), ())

    def with_file(made: Any) -> Any:
        return made._replace(procedure=made.procedure._replace(metadata=(of_run,), media=(file,)))

    on_both = (with_file(experiment("E1", ["bad"])), with_file(experiment("E2", ["good"])))
    submit(qc_database, Action.ADD, *on_both, with_file(line("C1")))
    submit(qc_database, Action.EDIT, *on_both)
    submit(qc_database, Action.EDIT, GOOD)
    build_contexts(qc_database)
    assert column_in(qc_database, "SELECT specimen_id FROM current_specimen ORDER BY id") == ["bad", "good"]
    for view in ("current_experiment", "current_measurement", "current_media", "current_metadata"):
        rows = rows_in(qc_database, f"SELECT experiment_id, is_valid FROM {view} ORDER BY experiment_id")
        of_line = [] if view == "current_experiment" else [(None, 1)]
        assert rows == [*of_line, ("E1", 0), ("E2", 1)], view


def _corrected_and_back(engine: Engine, first: int) -> None:
    edited = submit(engine, Action.EDIT, specimen("bad", "L2"), faulty=[1])
    assert built(engine) == {"E1": {False}}
    judge(engine, first)
    undo_documents(engine, [edited.document_id], patience_seconds=5)


@pytest.mark.parametrize(
    "heal",
    [judge, lambda engine, _: submit(engine, Action.EDIT, specimen("bad")), _corrected_and_back],
    ids=["judged again", "corrected", "corrected and back"],
)
def test_an_experiment_heals_with_its_animal(qc_database: Engine, heal: Callable[[Engine, int], None]) -> None:
    first = submit(qc_database, Action.ADD, BAD, faulty=[1]).document_id
    submit(qc_database, Action.ADD, experiment("E1", ["bad"]))
    assert built(qc_database) == {"E1": {False}}
    assert states_of(qc_database) == {}
    heal(qc_database, first)
    assert built(qc_database) == {"E1": {True}}
    assert [state for _, state in states_of(qc_database).values()] == ["dataadded"]


def _mended_version_withdrawn(engine: Engine, first: int) -> None:
    judge(engine, first, [1])
    assert built(engine) == {"E1": {False}}
    edited = submit(engine, Action.EDIT, specimen("bad", "L2"))
    assert built(engine) == {"E1": {True}}
    set_state(engine, ContextState.QC_DONE)
    undo_documents(engine, [edited.document_id], patience_seconds=5)


@pytest.mark.parametrize(
    "fail",
    [
        lambda engine, first: judge(engine, first, [1]),
        lambda engine, _: submit(engine, Action.EDIT, specimen("bad", "L2"), faulty=[1]),
        _mended_version_withdrawn,
    ],
    ids=["judged", "edited badly", "mended version withdrawn"],
)
def test_an_experiment_that_counted_goes_with_its_animal(
    qc_database: Engine, fail: Callable[[Engine, int], None]
) -> None:
    first = submit(qc_database, Action.ADD, specimen("bad")).document_id
    submit(qc_database, Action.ADD, experiment("E1", ["bad"]))
    assert built(qc_database) == {"E1": {True}}
    set_state(qc_database, ContextState.QC_DONE)
    fail(qc_database, first)
    assert built(qc_database) == {"E1": {False}}
    assert states_of(qc_database) == {("C1", ""): (0, "dataremoved")}


@pytest.mark.parametrize("is_followed", [True, False])
def test_an_experiment_that_comes_back_is_as_its_animal_is_by_now(qc_database: Engine, is_followed: bool) -> None:
    """Also in a database of a version before 1.0.0, in which those that did not stand did not follow their animals."""
    first = submit(qc_database, Action.ADD, specimen("bad")).document_id
    submit(qc_database, Action.ADD, experiment("E1", ["bad"]))
    deleted = submit(qc_database, Action.DELETE, experiment("E1", ["bad"]))
    built(qc_database)
    judge(qc_database, first, [1])
    built(qc_database)
    if not is_followed:
        execute_in(qc_database, update(EXPERIMENT).values(validity=Validity.VALID))
    undo_documents(qc_database, [deleted.document_id], patience_seconds=5)
    assert built(qc_database) == {"E1": {False}}


def test_an_error_of_its_own_outlasts_that_of_the_animal(qc_database: Engine) -> None:
    first = submit(qc_database, Action.ADD, BAD, faulty=[1]).document_id
    second = submit(qc_database, Action.ADD, experiment("E1", ["bad"]), faulty=[1]).document_id
    assert built(qc_database) == {"E1": {False}}
    judge(qc_database, first)
    assert built(qc_database) == {"E1": {False}}
    judge(qc_database, second)
    assert built(qc_database) == {"E1": {True}}


@pytest.mark.both_databases
def test_a_count_from_nothing_looks_at_animals_too(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("bad"), GOOD)
    submit(qc_database, Action.ADD, experiment("E1", ["bad"]), experiment("E2", ["good"]))
    built(qc_database)
    execute_in(
        qc_database,
        "UPDATE specimen SET validity = 2 WHERE specimen_id = 'bad'",
        "UPDATE experiment SET validity = 3 WHERE experiment_id = 'E2'",
    )
    recount_contexts(qc_database, author="a wrangler", reason="mended by hand")
    assert valid_of(qc_database) == {"E1": {False}, "E2": {True}}
    assert_contexts_are_right(qc_database)
