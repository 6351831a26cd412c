"""How much work contexts and overviews are: that of what is new, whatever is there already."""

from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from dcc.naming import Action
from dcc.qc.archive_scope import ALL_ARCHIVES
from dcc.qc.contexts import affected_runs, builds, context_sums
from dcc.qc.contexts.builds import Build
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.listings import ContextFilter, count_contexts, newest_history
from dcc.qc.contexts.overviews import affected_genotypes
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.models import DOCUMENT, HISTORY, RUN
from dcc.vocabulary import ContextEvent, ContextState
from tests.qc.test_overviews import build
from tests.support.asking import execute_in, in_reading, rows_in
from tests.support.databases import only_mariadb
from tests.support.qc_contexts import assert_contexts_are_right, submit
from tests.support.qc_documents import experiment, specimen


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
    with qc_database.connect() as connection:
        for documents, expected in (
            ([animals, alone, others], {"C1", "C2", "C3", "C4", "baseline"}),
            ([animals, measured], {"C1", "C2"}),
            ([animals, others], {"C1", "C2", "C4", "baseline"}),
            ([measured, late], set()),
        ):
            assert affected_genotypes(connection, documents) == {("H", genotype) for genotype in expected}
        runs = list(connection.scalars(select(RUN.c.id).order_by(RUN.c.id)))
        assert affected_runs.affected_runs(connection, [measured, late]) == dict(
            zip(runs, [measured] * 4 + [late], strict=True)
        )
    execute_in(qc_database, update(RUN).where(RUN.c.id == runs[1]).values(document_id=late))
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
    runs = in_reading(qc_database, affected_runs.affected_runs, documents, Build.CONTEXTS)
    assert runs == in_reading(qc_database, affected_runs.affected_runs, documents)
    assert sorted(runs.values()) == documents[1:]


def test_animals_that_come_after_their_experiments_are_looked_for(qc_database: Engine) -> None:
    """Also where documents of experiments wait that came later, which are not looked at for their animals."""
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build(qc_database)
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"))
    submit(qc_database, Action.ADD, experiment("E2", ["S1"], "2"))
    build(qc_database)
    assert_contexts_are_right(qc_database)


def test_data_that_wait_for_a_later_transaction_are_not_counted_with_their_animals(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context tells the document that brought its data, and data that are replaced are never counted twice."""
    monkeypatch.setattr(builds, "DOCUMENTS_AT_ONCE", 1)
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"))
    measured = submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build(qc_database)
    submit(qc_database, Action.EDIT, specimen("S1", "L2", colony_id="C1"))
    edited = submit(qc_database, Action.EDIT, experiment("E1", ["S1"], value="9"))
    build(qc_database)
    query = select(HISTORY.c.event, HISTORY.c.document_id, HISTORY.c.measurements).order_by(HISTORY.c.id)
    expected = [("dataadded", measured.document_id, 1), ("datachanged", edited.document_id, 1)]
    assert list(map(tuple, rows_in(qc_database, query))) == expected


@pytest.mark.both_databases
def test_a_decision_that_comes_while_contexts_are_counted_is_not_taken_for_counted(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))

    def count_and_decide(*given: Any) -> Any:
        found = count_contexts(*given)
        decide_on_contexts(qc_database, ContextEvent.DONE, ContextFilter(), author="wrangler", reason="as agreed")
        return found

    monkeypatch.setattr(context_sums, "count_contexts", count_and_decide)
    built = build_contexts(qc_database)
    assert built.centres[0].states == {ContextState.DATA_ADDED: 1}
    assert built.history < in_reading(qc_database, newest_history)


@only_mariadb
def test_a_document_that_is_judged_before_it_is_locked_is_left_to_the_next_build(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (submit(qc_database, Action.ADD, specimen(name)).document_id for name in ("S1", "S2"))
    build_contexts(qc_database)
    look = builds._first_documents

    def look_and_judge(*given: Any) -> list[int]:
        found = look(*given)
        execute_in(qc_database, update(DOCUMENT).where(DOCUMENT.c.id == first).values(contexts_built=False))
        return found

    monkeypatch.setattr(builds, "_first_documents", look_and_judge)
    with qc_database.begin() as connection:
        assert builds.due_documents(connection, Build.OVERVIEWS, ALL_ARCHIVES) == [second]
