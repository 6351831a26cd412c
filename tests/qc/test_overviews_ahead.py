"""Overviews built while contexts are: both come to what they would come to one after the other, and share the lock."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select, update

from dcc.data_outcomes import ContextsBuilt, OverviewsBuilt, ZipData
from dcc.databases.transactions import run_writing, writing
from dcc.errors import QcDatabaseUnreachableError
from dcc.naming import Action
from dcc.operations.sessions import open_session
from dcc.phases import Phase
from dcc.qc import models
from dcc.qc.apply.upload_lock import Builder, share_upload_lock, take_upload_lock
from dcc.qc.contexts import building, changed_runs, overviews, overviews_ahead
from dcc.qc.contexts.building import build_contexts
from dcc.qc.contexts.overviews import BuiltAhead, build_ahead, build_overviews
from dcc.qc.contexts.overviews_ahead import OverviewsAhead
from dcc.session.data import settling
from dcc.session.data.session_data import take_up_data
from dcc.settings import Settings
from tests.qc.test_overviews import forget_overviews, overviews_of, under
from tests.qc.test_uploaders import open_short
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb
from tests.support.qc_contexts import assert_contexts_are_right, know_colonies, know_important_metadata, submit
from tests.support.qc_documents import experiment, specimen

DOCUMENT = models.Document.__table__
ZIP = "add/H.2013-10-31.1.impc.zip"
LATER = "add/H.2013-11-01.1.impc.zip"


def build_both(engine: Engine) -> OverviewsBuilt:
    """As the phases context and overview of a session on a server do."""
    with closing(OverviewsAhead(engine)) as ahead:
        build_contexts(engine, on_step=ahead.go_on)
        return build_overviews(engine, ahead=ahead.finish())


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


def test_built_beside_each_other_they_are_what_they_are_one_after_the_other(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few documents a transaction takes, and whatever was known of colonies and metadata before."""
    monkeypatch.setattr(building, "_FOLLOWED", 1)
    monkeypatch.setattr(changed_runs, "DOCUMENTS_AT_ONCE", 2)
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


def test_what_was_built_ahead_is_told_of(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    build_contexts(qc_database)
    ahead = BuiltAhead()
    while build_ahead(qc_database, ahead, patience_seconds=0):
        pass
    assert (ahead.centres, ahead.seconds > 0) == ({"H"}, True)
    assert overviews_of(qc_database)[0]
    built = build_overviews(qc_database, ahead=ahead)
    assert built.centres["H"]["procedure_runs"] == 1
    assert built.seconds >= ahead.seconds


def test_no_overview_shows_what_the_contexts_take_no_account_of(qc_database: Engine) -> None:
    submit(qc_database, Action.ADD, specimen("S1"))
    assert not build_ahead(qc_database, BuiltAhead(), patience_seconds=0)
    assert not any(overviews_of(qc_database))


def test_experiments_that_the_contexts_have_yet_to_count_are_left_to_their_own_documents(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a session's experiments would be looked at twice, with their animals and by themselves."""
    monkeypatch.setattr(changed_runs, "DOCUMENTS_AT_ONCE", 1)
    submit(qc_database, Action.ADD, specimen("S1"))
    submit(qc_database, Action.ADD, experiment("E1", ["S1"]))
    ahead, renewed = BuiltAhead(), []
    renew = overviews.renew_animals

    def renew_and_note(connection: Connection, runs: Any, *given: Any) -> set[str]:
        renewed.append(len(runs))
        return renew(connection, runs, *given)

    monkeypatch.setattr(overviews, "renew_animals", renew_and_note)
    build_contexts(qc_database, on_step=lambda: build_ahead(qc_database, ahead, patience_seconds=0) and None)
    assert renewed == [0, 1]
    assert overviews_of(qc_database)[0]


def test_other_reference_data_are_left_to_the_build_itself(qc_database: Engine) -> None:
    know_colonies(qc_database, C1="MGI:1")
    submit(qc_database, Action.ADD, specimen("S1", colony_id="C1"))
    build_both(qc_database)
    know_colonies(qc_database, C1="MGI:7")
    submit(qc_database, Action.ADD, specimen("S2", colony_id="C1"))
    build_contexts(qc_database)
    before = overviews_of(qc_database)
    assert not build_ahead(qc_database, BuiltAhead(), patience_seconds=0)
    assert overviews_of(qc_database) == before
    build_overviews(qc_database)
    (strains,) = [rows for rows in overviews_of(qc_database) if rows and "specimens" in rows[0] and "name" in rows[0]]
    assert [(row["strain_id"], row["specimens"]) for row in strains] == [("MGI:7", 2)]


@only_mariadb
@pytest.mark.parametrize("held", Builder)
def test_the_two_builds_share_the_lock_and_an_upload_waits_for_both(
    qc_database: Engine, qc_settings: Settings, held: Builder
) -> None:
    impatient = open_short(qc_settings)
    (other,) = set(Builder) - {held}

    def take(work: Callable[[Connection], Any]) -> None:
        run_writing(impatient, work, patience_seconds=0)

    try:
        with writing(qc_database) as connection:
            share_upload_lock(connection, held)
            take(lambda asked: share_upload_lock(asked, other))
            for refused in (lambda asked: share_upload_lock(asked, held), take_upload_lock):
                with pytest.raises(QcDatabaseUnreachableError, match="other writers were in the way"):
                    take(refused)
        with writing(qc_database) as connection:
            take_upload_lock(connection)
            with pytest.raises(QcDatabaseUnreachableError, match="other writers were in the way"):
                take(lambda asked: share_upload_lock(asked, held))
        take(take_upload_lock)
    finally:
        impatient.dispose()


@only_mariadb
@pytest.mark.parametrize("contexts_first", [True, False])
def test_neither_build_waits_for_the_documents_of_the_other(
    qc_database: Engine, qc_settings: Settings, contexts_first: bool
) -> None:
    """Old documents and new ones, before, between and behind those that the other one holds."""
    impatient = open_short(qc_settings)
    try:
        numbers = [submit(qc_database, Action.ADD, specimen(f"S{number}")).document_id for number in range(9)]
        build_both(qc_database)
        with writing(qc_database) as connection:
            for_contexts = update(DOCUMENT).where(DOCUMENT.c.id.in_([numbers[one] for one in (1, 4, 7)]))
            connection.execute(for_contexts.values(contexts_built=False))
            for_overviews = update(DOCUMENT).where(DOCUMENT.c.id.in_([numbers[one] for one in (0, 3, 8)]))
            connection.execute(for_overviews.values(overviews_built=False))
        with writing(qc_database) as connection:
            followed = building._follow_animals(connection)
        steps = [partial(building._take_documents, followed=followed), overviews._take_documents]
        first, second = steps if contexts_first else reversed(steps)
        with writing(qc_database) as connection:
            assert first(connection).more
            assert run_writing(impatient, second, patience_seconds=0).more
        build_both(qc_database)
        with qc_database.connect() as connection:
            flags = select(DOCUMENT.c.contexts_built, DOCUMENT.c.overviews_built).distinct()
            assert connection.execute(flags).all() == [(True, True)]
    finally:
        impatient.dispose()


@only_mariadb
def test_a_document_that_is_judged_before_it_is_locked_is_left_to_the_next_build(
    qc_database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (submit(qc_database, Action.ADD, specimen(name)).document_id for name in ("S1", "S2"))
    build_contexts(qc_database)
    look = changed_runs._first_documents

    def look_and_judge(*given: Any) -> list[int]:
        found = look(*given)
        with writing(qc_database) as connection:
            connection.execute(update(DOCUMENT).where(DOCUMENT.c.id == first).values(contexts_built=False))
        return found

    monkeypatch.setattr(changed_runs, "_first_documents", look_and_judge)
    with qc_database.begin() as connection:
        assert changed_runs.due_for_overviews(connection) == [second]


def waiting_go_on(patch: pytest.MonkeyPatch) -> None:
    """Have the contexts wait for the overviews of each transaction, so that these are not overtaken by the phase."""
    go_on = OverviewsAhead.go_on

    def go_on_and_wait(ahead: OverviewsAhead) -> None:
        go_on(ahead)
        ahead._asked[-1].exception(60)

    patch.setattr(OverviewsAhead, "go_on", go_on_and_wait)


def none_is_building() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name.startswith("overviews ahead")]


@only_mariadb
def test_a_session_tells_the_same_in_the_same_order(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting_go_on(monkeypatch)
    build, ahead = settling.build_overviews, []

    def built(*given: Any, **named: Any) -> OverviewsBuilt:
        ahead.append(named["ahead"])
        assert none_is_building()
        return build(*given, **named)

    monkeypatch.setattr(settling, "build_overviews", built)
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
    assert [one.centres for one in ahead] == [{"H"}]
    assert next(one for one in told if isinstance(one, OverviewsBuilt)).centres["H"]["animals"] == 3


@only_mariadb
def test_a_fault_of_the_overviews_is_raised_in_their_phase_and_the_next_session_goes_on(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()
    with monkeypatch.context() as patched:
        waiting_go_on(patched)
        patched.setattr(overviews_ahead, "build_ahead", lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            data.take_up()
    assert none_is_building()
    assert data.states() == {ZIP: "context done"}
    assert data.last_session()[0] == Phase.OVERVIEW
    assert [reached for reached, _ in data.take_up().told(ZIP)] == [Phase.OVERVIEW, Phase.QC]


@only_mariadb
def test_a_fault_of_the_contexts_is_raised_and_the_overviews_end_with_it(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()

    def break_down(*_: object) -> tuple[()]:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(building, "_counts", break_down)
        with pytest.raises(ZeroDivisionError):
            data.take_up()
    assert none_is_building()
    assert data.states() == {ZIP: "data done"}
    result = data.take_up()
    assert [reached for reached, _ in result.told(ZIP)] == [Phase.CONTEXT, Phase.OVERVIEW, Phase.QC]
    assert_contexts_are_right(data.qc)


@only_mariadb
def test_a_database_that_is_away_for_the_overviews_alone_is_left_to_their_phase(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def away(*_: object, **__: object) -> bool:
        tries.append(1)
        raise QcDatabaseUnreachableError("The QC database is away.")

    waiting_go_on(monkeypatch)
    monkeypatch.setattr(overviews_ahead, "build_ahead", away)
    monkeypatch.setattr(building, "_FOLLOWED", 1)
    data.put(ZIP, specimens(), experiments())
    data.put(LATER, specimens("2013-11-01.1", first=40))
    result = data.run()
    assert len(tries) == 1
    assert [one.centres["H"]["animals"] for one in result.overviews] == [3]
    assert set(data.states().values()) <= {"qc pending", "qc done"}


@only_mariadb
def test_a_session_up_to_contexts_builds_no_overviews(data: DataInstallation) -> None:
    data.put(ZIP, specimens(), experiments())
    data.validate()
    result = data.take_up(Phase.CONTEXT)
    assert (len(result.contexts), result.overviews) == (1, [])
    assert isinstance(result.contexts[0], ContextsBuilt)
    assert not any(overviews_of(data.qc))
    assert len(data.take_up().overviews) == 1
