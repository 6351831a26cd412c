"""A count of contexts from nothing corrects what is wrong with them, on each database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, Insert, delete, insert, literal, select, update

from dcc.naming import Action
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.contexts.recounting import RecountResult, recount_contexts
from tests.support.asking import execute_in
from tests.support.qc_contexts import TABLES, assert_contexts_are_right, know_important_metadata, submit
from tests.support.qc_documents import apply, experiment, housing, line, specimen

OVERVIEWS = ("overview_animal_procedure", "overview_genotype", "overview_strain", "metadata_group")
CONTEXT, PART, MEMBER = TABLES["data_context"], TABLES["document_context"], TABLES["context_member"]


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
    submit(qc_database, Action.EDIT, experiment("E1", ["W"]))
    build_contexts(qc_database)
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
    history = TABLES["context_history"]
    with built.connect() as connection:
        newest = connection.execute(select(history).order_by(history.c.id.desc())).first()
    assert newest is not None
    assert (newest.event, newest.measurements) == ("dataremoved", 1)
    assert newest.reason == "Counted again by anna: restored in part"


def test_documents_that_wait_to_be_judged_are_left_to_the_session(built: Engine) -> None:
    apply(built, Action.EDIT, experiment("E2", ["S1"]))
    before = rows_of(built, "data_context", "context_member")
    assert recount(built).corrected == 0
    assert rows_of(built, "data_context", "context_member") == before
