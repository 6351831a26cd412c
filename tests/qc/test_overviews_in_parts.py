"""Overviews that follow the data contexts in parts, in a session and by themselves."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.data_outcomes import OverviewsBuilt, ZipData
from dcc.databases.transactions import writing
from dcc.naming import Action
from dcc.operations.sessions import open_session
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.contexts import affected_runs, overviews
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.session.data.session_data import take_up_data
from tests.qc.test_overviews import forget_overviews, overviews_of, under
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb
from tests.support.qc_contexts import assert_contexts_are_right, know_colonies, know_important_metadata, submit
from tests.support.qc_documents import specimen

DOCUMENT = models.Document.__table__
ZIP = "add/H.2013-10-31.1.impc.zip"


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


@pytest.mark.both_databases
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
        with writing(qc_database) as connection:
            connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == first).values(contexts_built=False))
        return found

    monkeypatch.setattr(affected_runs, "_first_documents", look_and_judge)
    with qc_database.begin() as connection:
        assert affected_runs.due_for_overviews(connection) == [second]


@pytest.mark.both_databases
def test_a_session_tells_of_its_phases_in_their_order(data: DataInstallation) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()
    with open_session(data.tracker, data.settings) as session:
        told = list(take_up_data(data.tracker, data.qc, data.settings, session))
    names = [
        f"{one.reached.short_name}: {one.phase.short_name}" if isinstance(one, ZipData) else type(one).__name__
        for one in told
    ]
    assert names == [
        "upload: upload",
        "data: data",
        "ContextsBuilt",
        "context: context",
        "OverviewsBuilt",
        "overview: overview",
        "qc: qc",
    ]
    assert next(one for one in told if isinstance(one, OverviewsBuilt)).centres["H"]["animals"] == 3


def test_a_fault_of_the_overviews_is_raised_in_their_phase_and_the_next_session_goes_on(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()
    with monkeypatch.context() as patched:
        patched.setattr(overviews, "_take_documents", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            data.take_up()
    assert data.states() == {ZIP: "context done"}
    assert data.last_session()[0] == Phase.OVERVIEW
    assert [reached for reached, _ in data.take_up().told(ZIP)] == [Phase.OVERVIEW, Phase.QC]


def test_a_session_up_to_contexts_builds_no_overviews(data: DataInstallation) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()
    result = data.take_up(Phase.CONTEXT)
    assert (len(result.contexts), result.overviews) == (1, [])
    assert not any(overviews_of(data.qc))
    assert len(data.take_up().overviews) == 1
