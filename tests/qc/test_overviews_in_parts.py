"""Overviews that follow the data contexts in parts, in a session and by themselves."""

import random
from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.data_outcomes import OverviewsBuilt
from dcc.naming import Action
from dcc.qc.contexts import affected_runs
from dcc.qc.contexts.affected_runs import Build
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.qc.models import DOCUMENT
from tests.qc.test_overviews import forget_overviews, overviews_of, under
from tests.support.asking import execute_in
from tests.support.databases import only_mariadb
from tests.support.qc_contexts import assert_contexts_are_right, know_colonies, know_important_metadata, submit
from tests.support.qc_documents import specimen


def build_both(engine: Engine) -> OverviewsBuilt:
    """As the phases context and overview of a session do."""
    build_contexts(engine)
    return build_overviews(engine)


def change(engine: Engine, chosen: random.Random) -> None:
    """Add, edit and delete a few animals and experiments, of the newest documents and of old ones."""
    for _ in range(chosen.randint(3, 6)):
        action = chosen.choice([Action.ADD, Action.ADD, Action.EDIT, Action.DELETE])
        numbers = chosen.sample(range(8), 3)
        if chosen.random() < 0.4:
            colony = chosen.choice(["C1", "C2", None])
            submit(engine, action, *(specimen(f"S{number}", colony_id=colony) for number in numbers))
        else:
            equipment = chosen.choice(["Sysmex", "Advia"])
            made = [under(f"E{one}", equipment, specimens=[f"S{one}"], value=str(one)) for one in numbers]
            submit(engine, action, *made, faulty=chosen.sample([1, 2, 3], 1) if chosen.random() < 0.2 else ())


@only_mariadb
def test_built_in_parts_they_are_what_they_are_built_at_once(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few documents a transaction takes, and whatever was known of colonies and metadata before."""
    monkeypatch.setattr(affected_runs, "DOCUMENTS_AT_ONCE", 2)
    chosen = random.Random(8)
    for strain in ("MGI:1", "MGI:7", "MGI:7", "MGI:7"):
        know_colonies(qc_database, C1=strain)
        know_important_metadata(qc_database, IMPC_CBC_003_001="Equipment")
        change(qc_database, chosen)
        build_both(qc_database)
        change(qc_database, chosen)
        build_both(qc_database)
        assert_contexts_are_right(qc_database)
    in_part = overviews_of(qc_database)
    assert in_part[0]
    forget_overviews(qc_database)
    build_overviews(qc_database)
    assert overviews_of(qc_database) == in_part


@only_mariadb
def test_a_document_that_is_judged_before_it_is_locked_is_left_to_the_next_build(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (submit(qc_database, Action.ADD, specimen(name)).document_id for name in ("S1", "S2"))
    build_contexts(qc_database)
    look = affected_runs._first_documents

    def look_and_judge(*given: Any) -> list[int]:
        found = look(*given)
        execute_in(qc_database, update(DOCUMENT).where(DOCUMENT.c.id == first).values(contexts_built=False))
        return found

    monkeypatch.setattr(affected_runs, "_first_documents", look_and_judge)
    with qc_database.begin() as connection:
        assert affected_runs.due_documents(connection, Build.OVERVIEWS, None) == [second]
