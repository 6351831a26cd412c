"""What people change beside sessions, and what was lost, is shown too: by a look, a session, or a rebuild."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from dagster import AssetKey, DagsterRunStatus
from sqlalchemy import select, update

from dcc.data_outcomes import ContextsBuilt, DataOutcome, OverviewsBuilt, ZipData
from dcc.errors import DagsterStorageError
from dcc.phases import Phase
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import mark_done
from dcc.qc.database import writing
from dcc.qc.models import DataContext, ReferenceSnapshot
from dcc.session.data import judging_basis
from dcc.session.data.corrections import recheck, withdraw_submission
from dcc.session.data.settling import settle_qc
from dcc.tracker.models import ZipAction
from dcc_assets.keys import CHECK_OF_GROUP, UPLOAD_CHECK
from dcc_assets.sessions import run_session
from dcc_assets.sync.changes import DATA_SHOWN, Mark
from dcc_assets.sync.marks import Part
from dcc_assets.sync.rebuild import rebuild_instance
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.instance import open_instance
from dcc_sensors.pending_work import count_changes
from tests.assets.test_data_session import ARRIVAL, DATA_ASSETS, EXPERIMENT_CHECK, metadata, run
from tests.support.dagster_instances import Dagster, lose_instance, show_changed_data
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.databases import one_database, only_mariadb
from tests.support.shown_installations import GOOD, ORPHANS, Shown, put_orphans


def show(data: DataInstallation, dagster: Dagster) -> None:
    show_changed_data(data.settings, data.tracker, dagster.instance)


def finish_quality_control(data: DataInstallation) -> None:
    with writing(data.qc) as connection:
        connection.execute(update(DataContext).values(state="qcdone", data_state="qcdone"))
    settle_qc(data.tracker, data.qc, data.settings, author="wrangler", reason="Looked at.")
    later()


def later() -> None:
    """Wait until the second is over: changes are told by the second, those of the present one are shown twice."""
    time.sleep(1.05 - time.time() % 1)


def shown(dagster: Dagster) -> dict[str, Any]:
    return {
        "partitions": sorted(dagster.instance.get_dynamic_partitions("centres")),
        "materialised": {asset: dagster.materialised(asset) for asset in (*DATA_ASSETS, "contexts", "overviews")},
        "checks": {check.name: dagster.checks(check) for check in (UPLOAD_CHECK, *CHECK_OF_GROUP.values())},
    }


def test_quality_control_that_is_done_is_shown(shown: Shown) -> None:
    assert metadata(shown.dagster, "qc", GOOD)["status"] == "pending"
    finish_quality_control(shown.data)
    assert shown.data.states()[GOOD] == "qc done"
    show(shown.data, shown.dagster)
    assert metadata(shown.dagster, "qc", GOOD)["status"] == "done"
    before = DATA_SHOWN.read(shown.dagster.instance)
    events = len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records)
    show(shown.data, shown.dagster)
    assert len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records) == events
    assert DATA_SHOWN.read(shown.dagster.instance) == before


def test_a_submission_that_was_withdrawn_is_shown_in_yellow(shown: Shown) -> None:
    withdraw_submission(
        shown.data.tracker, shown.data.qc, shown.data.settings, key_of(ORPHANS), author="wrangler", reason="A mistake."
    )
    later()
    assert shown.data.states()[ORPHANS] == "upload cancelled"
    show(shown.data, shown.dagster)
    evaluation = shown.dagster.evaluation(UPLOAD_CHECK, ORPHANS)
    assert (evaluation.passed, evaluation.severity.value) == (False, "WARN")
    assert "withdrawn" in evaluation.description
    assert shown.dagster.checks(EXPERIMENT_CHECK)[ORPHANS] == "passed"


def test_what_changed_beside_a_session_is_shown_by_the_next_one(shown: Shown) -> None:
    finish_quality_control(shown.data)
    run(shown.data, shown.dagster)
    assert metadata(shown.dagster, "qc", GOOD)["status"] == "done"


@one_database
def test_what_the_rules_found_is_shown_of_an_archive_that_another_document_failed_in(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    """Its state is that of the document that breaks the schema, though the others are taken over."""
    put_partly_broken(data)
    data.run()
    assert data.states() == {ORPHANS: "xsd failed"}
    later()

    show(data, data_dagster)

    assert data_dagster.checks(EXPERIMENT_CHECK) == {ORPHANS: "failed"}
    later()
    put_partly_broken(data, key="add/H.2013-11-06.3.impc.zip", stem="2013-11-06.3", first=30)
    run(data, data_dagster)
    history = data_dagster.instance.event_log_storage.get_asset_check_execution_history(EXPERIMENT_CHECK, limit=100)
    assert sorted(str(record.partition) for record in history) == [ORPHANS, "add/H.2013-11-06.3.impc.zip"]


def put_partly_broken(data: DataInstallation, key: str = ORPHANS, stem: str = "2013-10-31.2", first: int = 11) -> None:
    """Animals in a document that breaks the schema, and experiments on them in one that does not."""
    broken = {name: text.replace(b"isBaseline", b"isBase") for name, text in specimens(stem, first=first).items()}
    data.put(key, broken, experiments(stem, first=first))


def test_what_could_not_be_checked_is_a_warning_until_it_can_be(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as away:
        away.setattr(judging_basis, "ensure_reference", lambda *_arguments: [])
        with writing(shown.data.qc) as connection:
            connection.execute(update(ReferenceSnapshot).values(is_active=ReferenceSnapshot.name != "projects"))
        recheck(shown.data.tracker, shown.data.qc, shown.data.settings, author="wrangler", reason="Projects are gone.")
        run(shown.data, shown.dagster)
    assert shown.data.states()[GOOD] == "qc pending"
    failed = [check for check in CHECK_OF_GROUP.values() if shown.dagster.checks(check)[GOOD] == "failed"]
    assert failed
    assert {shown.dagster.evaluation(check, GOOD).severity.value for check in failed} == {"WARN"}
    assert "could not be made" in shown.dagster.evaluation(failed[-1], GOOD).description

    with writing(shown.data.qc) as connection:
        connection.execute(update(ReferenceSnapshot).values(is_active=True))
    run(shown.data, shown.dagster)
    assert {shown.dagster.checks(check)[GOOD] for check in failed} == {"passed"}


@only_mariadb
def test_a_rebuild_shows_what_the_lost_instance_showed(data: DataInstallation) -> None:
    data.put(GOOD, specimens(), experiments())
    put_orphans(data)
    with open_instance(data.settings) as instance:
        run_session(data.settings, data.tracker, instance)
        before = shown(Dagster(instance))
        evaluation = Dagster(instance).evaluation(EXPERIMENT_CHECK, ORPHANS)
        contexts = metadata(Dagster(instance), "contexts", "H")
        overviews = metadata(Dagster(instance), "overviews", "H")
    lose_instance(data.settings)
    with open_instance(data.settings) as instance:
        report = rebuild_instance(data.settings, data.tracker, instance)
        again = Dagster(instance)
        assert shown(again) == before
        assert again.evaluation(EXPERIMENT_CHECK, ORPHANS).metadata == evaluation.metadata
        assert again.evaluation(EXPERIMENT_CHECK, ORPHANS).description == evaluation.description
        changes = dict.fromkeys(("added", "changed", "emptied"), 0)
        assert metadata(again, "contexts", "H") == contexts | changes
        assert metadata(again, "overviews", "H") == overviews
    assert report.centres == 1


@pytest.mark.parametrize("asset", ["uploaded_data", "data_integrity"])
def test_a_zip_action_is_judged_again_alone(shown: Shown, asset: str) -> None:
    assert shown.dagster.materialise(shown.job, GOOD, asset) is DagsterRunStatus.SUCCESS
    assert shown.data.states() == {GOOD: "qc pending", ORPHANS: "data failed"}
    assert {name for name, _, _ in shown.data.set_back()} == {name for name in shown.data.documents() if ".1." in name}
    checks = CHECK_OF_GROUP.values() if asset == "data_integrity" else [UPLOAD_CHECK]
    assert {check.name: shown.dagster.checks(check).get(GOOD) for check in checks} == {
        check.name: "passed" for check in checks
    }


def test_contexts_and_quality_control_are_brought_up_to_date_from_the_page(shown: Shown) -> None:
    finish_quality_control(shown.data)
    assert shown.dagster.materialise(shown.job, "H", "contexts", "overviews") is DagsterRunStatus.SUCCESS
    assert metadata(shown.dagster, "contexts", "H")["states"][0]["state"] == "qcdone"
    assert shown.dagster.materialise(shown.job, GOOD, "qc") is DagsterRunStatus.SUCCESS
    assert metadata(shown.dagster, "qc", GOOD)["status"] == "done"


def test_a_partition_without_data_fails_the_run_and_says_so(shown: Shown) -> None:
    shown.data.folder.put(ARRIVAL, b"no archive")
    run(shown.data, shown.dagster)
    for partition, asset in (("J", "contexts"), (ARRIVAL, "data_integrity"), ("add/no.zip", "qc")):
        for name in ("zip_actions", "centres"):
            shown.dagster.instance.add_dynamic_partitions(name, [partition])
        assert shown.dagster.materialise(shown.job, partition, asset) is DagsterRunStatus.FAILURE, partition


@one_database
def test_a_mark_is_kept_with_the_instance(data: DataInstallation, data_dagster: Dagster) -> None:
    assert DATA_SHOWN.read(data_dagster.instance).zips == ""
    data.put(GOOD, specimens(), experiments())
    run(data, data_dagster)
    mark = DATA_SHOWN.read(data_dagster.instance)
    with data.tracker.connect() as connection:
        changed = connection.scalar(select(ZipAction.last_update))
    assert changed is not None
    assert mark.zips == changed.isoformat()
    assert mark.contexts > 0


def test_what_changed_is_shown_after_the_clock_was_put_back(shown: Shown) -> None:
    """A session by a clock that was ahead left a mark in the future."""
    DATA_SHOWN.write(
        shown.dagster.instance, replace(DATA_SHOWN.read(shown.dagster.instance), zips="2099-01-01T00:00:00")
    )
    shown.data.put("add/H.2013-11-06.1.impc.zip", specimens("2013-11-06.1", first=20))
    shown.data.run()

    show(shown.data, shown.dagster)

    assert "add/H.2013-11-06.1.impc.zip" in shown.dagster.materialised("qc")
    assert DATA_SHOWN.read(shown.dagster.instance).zips < "2099"


def test_no_mark_is_set_in_the_future(shown: Shown) -> None:
    with writing(shown.data.tracker) as connection:
        connection.execute(update(ZipAction).values(last_update=datetime(2099, 1, 1)))

    show(shown.data, shown.dagster)

    mark = DATA_SHOWN.read(shown.dagster.instance)
    assert mark.zips < "2099"
    assert mark.is_open
    assert count_changes(shown.data.settings, [Part(mark)]) == 0


@one_database
def test_the_mark_is_not_set_before_everything_is_stored(
    data: DataInstallation, data_dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is killed between the two would have nothing shown of what it told."""
    data.put(GOOD, specimens(), experiments())
    data.run()
    with monkeypatch.context() as patch:
        patch.setattr(EventRecorder, "_write", _killed)
        with pytest.raises(DagsterStorageError, match="killed"):
            show(data, data_dagster)
    assert DATA_SHOWN.read(data_dagster.instance) == Mark()

    show(data, data_dagster)

    assert GOOD in data_dagster.materialised("uploaded_data")


def _killed(_recorder: EventRecorder, _reports: object) -> None:
    raise RuntimeError("killed")


def _beside(reached: Callable[[DataOutcome], bool], change: Callable[[], object]) -> Callable[[DataOutcome], None]:
    """What hears a session's outcomes, and makes a change of somebody else's at the first one that is meant."""
    left = [change]

    def hear(outcome: DataOutcome) -> None:
        if left and reached(outcome):
            left.pop()()

    return hear


def _overviews_built(outcome: DataOutcome) -> bool:
    return isinstance(outcome, OverviewsBuilt)


def _uploaded(outcome: DataOutcome) -> bool:
    return isinstance(outcome, ZipData) and outcome.reached is Phase.UPLOAD


@one_database
@pytest.mark.parametrize("when", [_uploaded, _overviews_built])
def test_what_is_withdrawn_while_a_session_works_is_shown_by_it(
    data: DataInstallation, data_dagster: Dagster, when: Callable[[DataOutcome], bool]
) -> None:
    put_orphans(data)
    data.put(GOOD, specimens(), experiments())

    def withdraw() -> None:
        withdraw_submission(data.tracker, data.qc, data.settings, key_of(ORPHANS), author="w", reason="A mistake.")

    run_session(data.settings, data.tracker, data_dagster.instance, on_data=_beside(when, withdraw))

    assert data.states()[ORPHANS] == "upload cancelled"
    assert data_dagster.checks(UPLOAD_CHECK) == {GOOD: "passed", ORPHANS: "failed"}
    assert data_dagster.checks(EXPERIMENT_CHECK).get(ORPHANS) != "failed"


@one_database
def test_quality_control_that_is_done_right_after_a_build_is_shown_by_the_session(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    data.put(GOOD, specimens(), experiments())

    def finish() -> None:
        mark_done(data.qc, ContextFilter(), author="wrangler", reason="Looked at.")

    built = _beside(lambda outcome: isinstance(outcome, ContextsBuilt), finish)
    run_session(data.settings, data.tracker, data_dagster.instance, on_data=built)

    assert metadata(data_dagster, "contexts", "H")["states"][0]["state"] == "qcdone"


@one_database
def test_what_a_session_told_is_not_told_again_at_its_end(data: DataInstallation, data_dagster: Dagster) -> None:
    run(data, data_dagster)
    data.put(GOOD, specimens(), experiments())
    put_orphans(data)
    run(data, data_dagster)
    told = {
        asset: len(data_dagster.instance.fetch_materializations(AssetKey(asset), limit=100).records)
        for asset in (*DATA_ASSETS, "contexts")
    }
    assert told == {"uploaded_data": 2, "data_integrity": 2, "qc": 1, "contexts": 1}
