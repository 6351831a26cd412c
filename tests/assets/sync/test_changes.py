"""What people change beside sessions, and what was lost, is shown too: by a look, a session, or a rebuild."""

from dataclasses import replace
from datetime import timedelta

import pytest
from dagster import AssetKey, DagsterRunStatus
from sqlalchemy import literal, update

from dcc.databases.columns import UtcDateTime
from dcc.errors import DagsterStorageError
from dcc.qc.apply.upload_lock import lock_centres
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.models import CONTEXT, SNAPSHOT
from dcc.runtime.clock import utc_now
from dcc.session.data import judging_basis
from dcc.session.data.quality_control import update_qc_states
from dcc.session.data.rechecks import recheck
from dcc.tracker.models import ZipAction
from dcc.vocabulary import ContextEvent
from dcc_assets.graph import CHECK_OF_GROUP, UPLOAD_CHECK
from dcc_assets.sync import changes
from dcc_assets.sync.changes import DATA_SHOWN, ChangeWatermark
from dcc_dagster.event_recorder import EventRecorder
from tests.assets.test_data_session import EXPERIMENT_CHECK, run
from tests.support.asking import execute_in
from tests.support.dagster_instances import Dagster, show_changed_data
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_mariadb
from tests.support.installations import until_the_next_second
from tests.support.raising import raising
from tests.support.shown_installations import GOOD, ORPHANS, Shown


def show(data: DataInstallation, dagster: Dagster) -> None:
    show_changed_data(data.settings, data.tracker, dagster.instance)


def finish_quality_control(data: DataInstallation) -> None:
    execute_in(data.qc, update(CONTEXT).values(state="qcdone", data_state="qcdone"))
    update_qc_states(data.tracker, data.qc, data.settings, author="wrangler", reason="Looked at.")
    until_the_next_second()


def test_quality_control_that_is_done_is_shown(shown: Shown) -> None:
    assert shown.dagster.metadata("qc", GOOD)["status"] == "pending"
    finish_quality_control(shown.data)
    assert shown.data.states()[GOOD] == "qc done"
    show(shown.data, shown.dagster)
    assert shown.dagster.metadata("qc", GOOD)["status"] == "done"
    before = DATA_SHOWN.read(shown.dagster.instance)
    events = len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records)
    show(shown.data, shown.dagster)
    assert len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records) == events
    assert DATA_SHOWN.read(shown.dagster.instance) == before


def test_a_change_within_a_second_that_is_shown_already_is_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    second = utc_now()
    monkeypatch.setattr(changes, "utc_now", lambda: second)
    all_changed = update(ZipAction).values(last_update=literal(second, UtcDateTime()))
    execute_in(shown.data.tracker, all_changed)
    show(shown.data, shown.dagster)
    events = len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records)
    show(shown.data, shown.dagster)
    assert len(shown.dagster.instance.fetch_materializations(AssetKey("qc"), limit=100).records) == events
    finish_quality_control(shown.data)
    execute_in(shown.data.tracker, all_changed)
    show(shown.data, shown.dagster)
    assert shown.dagster.metadata("qc", GOOD)["status"] == "done"


def test_changes_since_a_clock_was_put_back_are_shown(shown: Shown) -> None:
    ahead = (utc_now() + timedelta(days=1)).isoformat()
    DATA_SHOWN.write(shown.dagster.instance, replace(DATA_SHOWN.read(shown.dagster.instance), zips=ahead))
    finish_quality_control(shown.data)
    show(shown.data, shown.dagster)
    assert shown.dagster.metadata("qc", GOOD)["status"] == "done"


@only_mariadb
def test_contexts_are_shown_again_while_an_upload_is_open(data: DataInstallation, data_dagster: Dagster) -> None:
    """It has ids already, lower than those of changes that are committed before it."""

    def watermark() -> int:
        show(data, data_dagster)
        return DATA_SHOWN.read(data_dagster.instance).contexts

    data.put(GOOD, specimens(), experiments())
    data.run()
    before = watermark()
    decide_on_contexts(data.qc, ContextEvent.DONE, ContextFilter(), author="wrangler", reason="Looked at.")
    with data.qc.begin() as upload:
        lock_centres(upload, ["H"])
        assert watermark() == before
    assert watermark() > before


def test_a_submission_that_was_withdrawn_is_shown_in_yellow(shown: Shown) -> None:
    shown.data.withdraw(ORPHANS, author="wrangler", reason="A mistake.")
    until_the_next_second()
    assert shown.data.states()[ORPHANS] == "upload cancelled"
    show(shown.data, shown.dagster)
    evaluation = shown.dagster.evaluation(UPLOAD_CHECK, ORPHANS)
    assert (evaluation.passed, evaluation.severity.value) == (False, "WARN")
    assert "Withdrawn" in evaluation.description
    assert shown.dagster.checks(EXPERIMENT_CHECK)[ORPHANS] == "passed"


def test_what_the_rules_found_is_shown_of_an_archive_that_another_document_failed_in(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    """Its state is that of the document that breaks the schema, though the others are taken over."""
    put_partly_broken(data)
    data.run()
    assert data.states() == {ORPHANS: "xsd failed"}
    until_the_next_second()

    show(data, data_dagster)

    assert data_dagster.checks(EXPERIMENT_CHECK) == {ORPHANS: "failed"}
    until_the_next_second()
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
        execute_in(shown.data.qc, update(SNAPSHOT).values(is_active=SNAPSHOT.c.name != "projects"))
        recheck(shown.data.tracker, shown.data.qc, shown.data.settings, author="wrangler", reason="Projects are gone.")
        run(shown.data, shown.dagster)
    assert shown.data.states()[GOOD] == "qc pending"
    failed = [check for check in CHECK_OF_GROUP.values() if shown.dagster.checks(check)[GOOD] == "failed"]
    assert failed
    assert {shown.dagster.evaluation(check, GOOD).severity.value for check in failed} == {"WARN"}
    assert "could not be made" in shown.dagster.evaluation(failed[-1], GOOD).description

    execute_in(shown.data.qc, update(SNAPSHOT).values(is_active=True))
    run(shown.data, shown.dagster)
    assert {shown.dagster.checks(check)[GOOD] for check in failed} == {"passed"}


def test_a_zip_action_is_judged_again_alone(shown: Shown) -> None:
    assert shown.dagster.materialise(shown.job, GOOD, "data_integrity") is DagsterRunStatus.SUCCESS
    assert shown.data.states() == {GOOD: "qc pending", ORPHANS: "data failed"}
    assert {name for name, _, _ in shown.data.set_back()} == {name for name in shown.data.documents() if ".1." in name}
    assert {shown.dagster.checks(check).get(GOOD) for check in CHECK_OF_GROUP.values()} == {"passed"}


def test_the_watermark_is_not_set_before_everything_is_stored(
    data: DataInstallation, data_dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is killed between the two would have nothing shown of what it told."""
    data.put(GOOD, specimens(), experiments())
    data.run()
    with monkeypatch.context() as patch:
        patch.setattr(EventRecorder, "_write", raising(RuntimeError("killed")))
        with pytest.raises(DagsterStorageError, match="killed"):
            show(data, data_dagster)
    assert DATA_SHOWN.read(data_dagster.instance) == ChangeWatermark()

    show(data, data_dagster)

    assert GOOD in data_dagster.materialised("uploaded_data")
