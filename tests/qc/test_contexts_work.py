"""How much work contexts and overviews are: that of what is new, whatever is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, update

from dcc.naming import Action
from dcc.qc import models
from dcc.qc.apply import versions
from dcc.qc.contexts import affected_runs, building, overviews, sums
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.genotypes import affected_genotypes
from dcc.qc.contexts.membership import present_members
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.database import writing
from tests.support.databases import only_sqlite
from tests.support.qc_contexts import assert_contexts_are_right, submit
from tests.support.qc_documents import experiment, housing, line, specimen, undo_documents
from tests.support.sent_statements import sent_statements

CONTEXT = models.DataContext.__table__
HISTORY = models.ContextHistory.__table__
_numbers = count(1)
_STEPS = 50


def build(engine: Engine) -> None:
    build_contexts(engine)
    build_overviews(engine)


def submit_animals(engine: Engine, animals: int, documents: int = 1) -> None:
    """Documents of mutants of a colony of their own, each with an experiment in another document."""
    for _ in range(documents):
        first = next(_numbers)
        names = [f"S{first}-{number}" for number in range(animals)]
        submit(engine, Action.ADD, *(specimen(name, colony_id=f"C{first}") for name in names))
        submit(engine, Action.ADD, *(experiment(f"E{name}", [name], str(first)) for name in names))


def change_animals(engine: Engine) -> None:
    """Add animals, and edit and withdraw some of them."""
    submit_animals(engine, 4)
    first = next(_numbers) - 1
    submit(engine, Action.EDIT, specimen(f"S{first}-1", colony_id=f"C{first}x"))
    submit(engine, Action.DELETE, experiment(f"ES{first}-2", [f"S{first}-2"], str(first)))


@contextmanager
def counted_steps(engine: Engine) -> Iterator[list[int]]:
    """Counts what SQLite does meanwhile, by 50 steps of its virtual machine."""
    steps = [0]

    def step() -> int:
        steps[0] += _STEPS
        return 0

    def connect(connection: Any, *_: object) -> None:
        connection.set_progress_handler(step, _STEPS)

    engine.dispose()
    event.listen(engine, "connect", connect)
    try:
        yield steps
    finally:
        event.remove(engine, "connect", connect)
        engine.dispose()


@only_sqlite
def test_what_is_there_already_is_not_looked_at(qc_database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what a build tells of its centres at the end, which counts rows."""
    monkeypatch.setattr(building, "_counts", lambda *_: ())
    monkeypatch.setattr(overviews, "_counts", lambda *_: {})

    def work_of_changes() -> int:
        change_animals(qc_database)
        with counted_steps(qc_database) as steps:
            build(qc_database)
        return steps[0]

    submit_animals(qc_database, 10, 2)
    build(qc_database)
    beside_little = work_of_changes()
    submit_animals(qc_database, 100, 6)
    build(qc_database)
    assert work_of_changes() < 1.25 * beside_little
    assert_contexts_are_right(qc_database)


@pytest.mark.both_databases
@pytest.mark.parametrize("built", [build_contexts, build_overviews])
def test_what_a_build_asks_does_not_depend_on_how_many_documents_wait(
    qc_database: Engine, built: Callable[[Engine], object]
) -> None:
    """However many genotypes the overview has of them; new ones are new contexts, which are written otherwise."""

    def statements_for(documents: int) -> int:
        colonies = [f"C{number}" if built is build_overviews else "C1" for number in range(documents)]
        first = next(_numbers)
        names = [f"S{first}-{number}" for number in range(documents)]
        submit(qc_database, Action.ADD, *(specimen(name, colony_id="C1") for name in names))
        for number, name in enumerate(names):
            submit(qc_database, Action.ADD, experiment(f"E{next(_numbers)}", [name], str(number)))
        # Edits of animals have their experiments judged by them anew.
        for name, colony in zip(names, colonies, strict=True):
            submit(qc_database, Action.EDIT, specimen(name, colony_id=colony, litter_id="other"))
        if built is build_overviews:
            build_contexts(qc_database)
        with sent_statements(qc_database) as sent:
            built(qc_database)
        return len(sent)

    build(qc_database)
    statements_for(2)
    assert statements_for(2) == statements_for(12)


@pytest.mark.both_databases
def test_experiments_that_wait_themselves_are_counted_once_and_by_their_own_document(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session has more documents than fit into a transaction, animals come in an earlier one."""
    monkeypatch.setattr(affected_runs, "DOCUMENTS_AT_ONCE", 1)
    submit(qc_database, Action.ADD, specimen("S1"), specimen("S2"))
    experiments = [
        submit(qc_database, Action.ADD, experiment(f"E{number}", [f"S{number}"])).document_id for number in (1, 2)
    ]
    build(qc_database)
    assert_contexts_are_right(qc_database)
    with qc_database.connect() as connection:
        told = connection.execute(select(HISTORY.c.document_id, HISTORY.c.measurements).order_by(HISTORY.c.id)).all()
    assert [tuple(row) for row in told] == [(experiments[0], 1), (experiments[1], 2)]


@pytest.mark.both_databases
def test_what_documents_touch_is_the_same_however_many_are_looked_at_at_once(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that several documents touch is the newest one's; one that withdraws has runs of its own."""
    submitted = [
        submit(qc_database, Action.ADD, specimen("S1", colony_id="C1")),
        submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S1"])),
        submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2")),
        submit(qc_database, Action.EDIT, experiment("E1", ["S1"], "2")),
        submit(qc_database, Action.DELETE, experiment("E2", ["S1"])),
    ]
    documents = [one.document_id for one in submitted]
    with qc_database.connect() as connection:
        at_once = affected_runs.affected_runs(connection, documents)
        monkeypatch.setattr(versions, "CHUNK", 1)
        one_by_one = affected_runs.affected_runs(connection, documents)
    assert at_once == one_by_one
    assert sorted(at_once.values()) == [documents[3]] * 2 + [documents[4]] * 2
    build(qc_database)
    assert_contexts_are_right(qc_database)


@pytest.mark.both_databases
def test_what_documents_brought_does_not_depend_on_how_it_lies(qc_database: Engine) -> None:
    """Runs and specimens follow each other, those of others are between them, or there are none."""
    submitted = [
        submit(qc_database, Action.ADD, *(specimen(f"S{one}", colony_id=f"C{one}") for one in (1, 2))),
        submit(qc_database, Action.ADD, *(experiment(f"E{one}", [f"S{one}"], str(one)) for one in range(4))),
        submit(qc_database, Action.ADD, specimen("S3", colony_id="C3")),
        submit(qc_database, Action.ADD, specimen("S4", colony_id="C4  "), specimen("S5", is_baseline="true")),
        submit(qc_database, Action.ADD, experiment("E5", ["S5"])),
    ]
    animals, measured, alone, others, late = (one.document_id for one in submitted)
    run = models.ProcedureRun.__table__
    with qc_database.connect() as connection:
        for documents, expected in (
            ([animals, alone, others], {"C1", "C2", "C3", "C4", "baseline"}),
            ([animals, measured], {"C1", "C2"}),
            ([animals, others], {"C1", "C2", "C4", "baseline"}),
            ([measured, late], set()),
        ):
            assert affected_genotypes(connection, documents) == {("H", genotype) for genotype in expected}
        runs = list(connection.scalars(select(run.c.id).order_by(run.c.id)))
        assert affected_runs.affected_runs(connection, [measured, late]) == dict(
            zip(runs, [measured] * 4 + [late], strict=True)
        )
    with writing(qc_database) as connection:
        connection.execute(update(run).where(run.c.id == runs[1]).values(document_id=late))
    with qc_database.connect() as connection:
        mixed = [measured, late, measured, measured, late]
        assert affected_runs.affected_runs(connection, [measured, late]) == dict(zip(runs, mixed, strict=True))


def test_what_touches_a_document_of_the_same_build_is_the_newest_of_both(qc_database: Engine) -> None:
    """A run whose own document waits too is not looked up by its animals, but for those that came later."""
    submitted = [
        submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"), specimen("S2", colony_id="C1")),
        submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2"])),
        submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2")),
    ]
    documents = [one.document_id for one in submitted]
    with qc_database.connect() as connection:
        runs = affected_runs.runs_for_contexts(connection, documents)
        assert runs == affected_runs.affected_runs(connection, documents)
    assert sorted(runs.values()) == documents[1:]


@pytest.mark.both_databases
def test_sums_that_the_server_cuts_off_are_asked_for_again(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2"]))
    with qc_database.connect() as connection:
        runs = list(connection.scalars(select(models.ProcedureRun.id)))
        whole = list(sums.sums(connection, [runs, runs[:1]]))
        if qc_database.dialect.name != "sqlite":
            connection.exec_driver_sql("SET SESSION group_concat_max_len = 12")
            assert list(sums.sums(connection, [runs, runs[:1]])) == whole
            connection.invalidate()
    assert [(number, measurements) for number, _, measurements, _ in whole] == [(0, 2), (1, 1)]
    assert list(sums.sums(connection, [])) == []


@pytest.mark.both_databases
def test_sums_do_not_depend_on_how_measurements_lie(qc_database: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in the order of their ids, past those of other runs, or looked up by their runs."""
    submit(qc_database, Action.ADD, *(experiment(f"E{number}", [f"S{number}"], str(number)) for number in range(9)))
    found = []
    with qc_database.connect() as connection:
        runs = list(connection.scalars(select(models.ProcedureRun.id).order_by(models.ProcedureRun.id)))
        groups = [runs[1::3], [runs[0], runs[-1]], runs[:1]]
        for dense in (0, 100):
            monkeypatch.setattr(sums, "_DENSE", dense)
            with sent_statements(qc_database) as sent:
                found.append(sorted(sums.sums(connection, groups)))
            within = "STRAIGHT_JOIN" in sent[-1]
            assert within == (dense > 0 and qc_database.dialect.name != "sqlite")
    assert found[0] == found[1]
    assert [measurements for _, _, measurements, _ in found[0]] == [3, 2, 1]


@pytest.mark.both_databases
def test_what_runs_count_under_does_not_depend_on_how_they_are_given(qc_database: Engine) -> None:
    """To a server by the first and the last of them, where no other is between."""
    submit(qc_database, Action.ADD, specimen("S1"), specimen("S2", colony_id="C2"))
    submit(qc_database, Action.ADD, *(experiment(f"E{one}", ["S1", "S2"], str(one)) for one in range(4)))
    submit(qc_database, Action.ADD, line("C1"), housing(), line("C2"), faulty=[3])
    with qc_database.connect() as connection:
        runs = list(connection.scalars(select(models.ProcedureRun.id).order_by(models.ProcedureRun.id)))
        for given, at_once in ((runs, True), (runs[2:], True), (runs[:1], True), (runs[::2], False)):
            one_by_one = [present_members(connection, [run_id], 0) for run_id in given]
            with sent_statements(qc_database) as sent:
                assert present_members(connection, given, 0) == set().union(*one_by_one)
            assert ("BETWEEN" in sent[-1]) == (at_once and qc_database.dialect.name != "sqlite")
        assert [len(present_members(connection, [run_id], 0)) for run_id in runs] == [2, 2, 2, 2, 1, 1, 0]


def test_new_runs_are_not_looked_for_among_those_that_were_taken_account_of(qc_database: Engine) -> None:
    """They have higher ids than all that contexts count and overviews show."""

    def asked() -> list[str]:
        with sent_statements(qc_database) as sent:
            build(qc_database)
        given = [one for one in sent if "JSON_TABLE" in one or "json_each" in one]
        return [name for name in ("context_member", "overview_animal_procedure") if any(name in one for one in given)]

    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    assert asked() == []
    submit(qc_database, Action.ADD, experiment("E2", ["S1"]))
    assert asked() == []
    submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2"))
    assert asked() == ["context_member", "overview_animal_procedure"]
    assert_contexts_are_right(qc_database)


def test_animals_that_come_after_their_experiments_are_looked_for(qc_database: Engine) -> None:
    """Also where documents of experiments wait that came later, which are not looked at for their animals."""
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build(qc_database)
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"))
    submit(qc_database, Action.ADD, experiment("E2", ["S1"], "2"))
    build(qc_database)
    assert_contexts_are_right(qc_database)


def test_animals_that_come_back_are_looked_for(qc_database: Engine) -> None:
    """A withdrawal opens versions of animals, experiments and lines that are not its own."""
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"), specimen("S2", colony_id="C1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]), experiment("E2", ["S2"], "2"))
    edited = submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2"))
    measured = submit(qc_database, Action.EDIT, experiment("E2", ["S2"], "3"))
    build(qc_database)
    undo_documents(qc_database, [edited.document_id, measured.document_id])
    build(qc_database)
    assert_contexts_are_right(qc_database)


def test_new_animals_are_not_looked_up_where_no_experiment_was_taken_account_of(qc_database: Engine) -> None:
    """The database would look at each of them to find nothing."""
    animals = submit(qc_database, Action.ADD, specimen("S1"), specimen("S2")).document_id
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))

    def looked_up() -> object:
        with qc_database.connect() as connection:
            return affected_runs._of_documents(connection, [animals], affected_runs._LEFT_FOR_CONTEXTS)["of_specimens"]

    assert looked_up() == "[]"
    build_contexts(qc_database)
    assert looked_up() == f"[{animals}]"


def test_a_build_that_ends_between_transactions_is_gone_on_with(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Animals that change their genotype in one transaction, their experiments judged again in the next."""
    monkeypatch.setattr(affected_runs, "DOCUMENTS_AT_ONCE", 1)
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build(qc_database)
    submit(qc_database, Action.EDIT, specimen("S1", colony_id="C2"))
    submit(qc_database, Action.EDIT, experiment("E1", ["S1"], "2"))
    done = iter([True])

    def die(connection: object, documents: object, *, overviews: bool) -> None:
        if not next(done, False):
            raise KeyboardInterrupt
        affected_runs.mark_built(connection, documents, overviews=overviews)  # type: ignore[arg-type]

    with monkeypatch.context() as dying:
        dying.setattr(building, "mark_built", die)
        with pytest.raises(KeyboardInterrupt):
            build_contexts(qc_database)
    build(qc_database)
    assert_contexts_are_right(qc_database)
