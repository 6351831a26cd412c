"""Sessions of groups of centres in Dagster: a run's tag names the group, and sensors go on with its session."""

from datetime import datetime

import pytest
from dagster import DagsterInstance, DagsterRunStatus, JobDefinition, RunRequest, ScheduleDefinition, SkipReason
from sqlalchemy import update

from dcc.operations.session_work import open_session
from dcc.session.session_request import SessionRequest
from dcc.settings import load_settings
from dcc.tracker.crawls import list_sessions
from dcc.tracker.models import SessionLock
from dcc.tracker.register.file_sources import change_source
from dcc_assets.definitions import asset_definitions
from dcc_assets.jobs import process_zip_actions as process_job
from dcc_assets.runs import GROUP_TAG, SCHEDULED_TAG, SESSION_TAG
from dcc_sensors.schedules import crawl_schedules
from dcc_sensors.sessions import due_sources, new_zips, retry_failed_downloads
from tests.sensors.test_sessions import asked, requested
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.dagster_instances import looked, set_environment
from tests.support.databases import only_sqlite
from tests.support.installations import Installation

EUROPE, AMERICA = "europe", "america"
GROUPS = "europe=H;america=J"
ZIP = "add/H.2013-10-31.1.impc.zip"

pytestmark = only_sqlite


@pytest.fixture
def grouped(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation with an archive of each of two groups of centres that wait to be crawled."""
    monkeypatch.setenv("DCC_GROUPS", GROUPS)
    set_environment(installation, monkeypatch)
    installation.add_folder().put(ZIP)
    installation.add_folder("J", "other").put(ZIP.replace("H.", "J."), b"no archive")
    return installation.with_settings(groups=GROUPS)


def job(name: str) -> JobDefinition:
    """A job, with the resources of the code location."""
    return asset_definitions().get_job_def(name)


def run_crawl(instance: DagsterInstance, group: str) -> None:
    """A run that crawls a group, and hands its session over where archives wait."""
    assert job("crawl_file_sources").execute_in_process(instance=instance, tags={GROUP_TAG: group}).success


def run_request(instance: DagsterInstance, request: RunRequest) -> None:
    """The run that a sensor asked for."""
    assert job("process_zip_actions").execute_in_process(instance=instance, tags=dict(request.tags)).success


def sessions_of(installation: Installation) -> list[tuple[str | None, str]]:
    """The group and the outcome of each session, the first one first."""
    entries = sorted(in_reading(installation.tracker, list_sessions), key=lambda entry: entry.id)
    return [(entry.group, entry.outcome) for entry in entries]


def test_a_crawl_with_the_tag_is_a_session_of_the_group_and_sensors_go_on_with_it(
    grouped: Installation, instance: DagsterInstance
) -> None:
    run_crawl(instance, EUROPE)
    assert sessions_of(grouped) == [(EUROPE, "open")]
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=AMERICA)):
        request = requested(new_zips, instance)
    assert request.tags == {SESSION_TAG: "1", GROUP_TAG: EUROPE}


def test_sessions_of_two_groups_are_gone_on_with_each_and_handed_over_for_what_is_theirs(
    grouped: Installation, instance: DagsterInstance
) -> None:
    run_crawl(instance, EUROPE)
    run_crawl(instance, AMERICA)
    first = requested(new_zips, instance)
    assert first.tags == {SESSION_TAG: "1", GROUP_TAG: EUROPE}
    instance.create_run_for_job(process_job, status=DagsterRunStatus.NOT_STARTED, tags=dict(first.tags))
    second = requested(new_zips, instance)
    assert second.tags == {SESSION_TAG: "2", GROUP_TAG: AMERICA}
    run_request(instance, second)
    # Nothing of america's centre waits any more, though an archive of europe's does.
    assert sessions_of(grouped) == [(EUROPE, "open"), (AMERICA, "finished")]
    assert "is under way or queued" in str(asked(new_zips, instance))


def test_beside_a_session_of_a_group_one_of_another_is_begun_for_what_waits(
    grouped: Installation, instance: DagsterInstance
) -> None:
    run_crawl(instance, AMERICA)
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=AMERICA)):
        pass  # It ends the one that waits to be resumed.
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=EUROPE)):
        request = requested(new_zips, instance)
        assert request.tags == {GROUP_TAG: AMERICA}
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=AMERICA)) as session:
        assert asked(new_zips, instance) == "No submission is waiting."
        execute_in(grouped.tracker, update(SessionLock).values(heartbeat=datetime(2001, 1, 1)))
        anew = requested(new_zips, instance)
        assert (anew.tags, session.id) == ({}, 4)


def test_failed_downloads_of_a_group_are_tried_again_after_its_own_next_crawl(
    grouped: Installation, instance: DagsterInstance
) -> None:
    archive = grouped.root / "centre" / ZIP
    whole = archive.read_bytes()
    grouped.crawl(EUROPE)
    archive.unlink()
    grouped.run_session(crawl=False, group=EUROPE)
    assert grouped.states()[ZIP] == "download failed"
    archive.write_bytes(whole)
    session = grouped.crawl(EUROPE, hand_over=True)
    grouped.run_session(group=AMERICA)
    request = requested(retry_failed_downloads, instance)
    assert request.tags == {SESSION_TAG: str(session.id), GROUP_TAG: EUROPE}


def test_a_due_source_is_crawled_by_its_group_where_that_has_an_interval(
    grouped: Installation, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_GROUP_INTERVALS", "europe=0 */2 * * *")
    in_writing(grouped.tracker, change_source, 2, every="6h")
    of_all = requested(due_sources, instance)
    assert of_all.tags == {SCHEDULED_TAG: "yes"}
    in_writing(grouped.tracker, change_source, 1, every="6h")
    of_europe = requested(due_sources, instance)
    assert of_europe.tags == {SCHEDULED_TAG: "yes", GROUP_TAG: EUROPE}
    assert of_europe.run_key != of_all.run_key


@pytest.fixture
def schedules(grouped: Installation, monkeypatch: pytest.MonkeyPatch) -> dict[str, ScheduleDefinition]:
    monkeypatch.setenv("DCC_GROUP_INTERVALS", "europe=0 */2 * * *; america=30 3 * * *")
    return {one.name: one for one in crawl_schedules(load_settings())}


def test_each_group_with_an_interval_has_its_own_beside_that_of_all(
    schedules: dict[str, ScheduleDefinition], kept_instance: DagsterInstance
) -> None:
    assert {name: one.cron_schedule for name, one in schedules.items()} == {
        "crawl_schedule": "0 * * * *",
        "crawl_schedule_europe": "0 */2 * * *",
        "crawl_schedule_america": "30 3 * * *",
    }
    tags = {name: looked(one, kept_instance).tags for name, one in schedules.items()}
    assert tags == {
        "crawl_schedule": {},
        "crawl_schedule_europe": {GROUP_TAG: EUROPE},
        "crawl_schedule_america": {GROUP_TAG: AMERICA},
    }


def test_a_tick_while_a_session_of_its_centres_runs_is_skipped(
    grouped: Installation, schedules: dict[str, ScheduleDefinition], kept_instance: DagsterInstance
) -> None:
    def skipped() -> dict[str, str]:
        answers = {name: looked(one, kept_instance) for name, one in schedules.items()}
        return {name: str(one.skip_message) for name, one in answers.items() if isinstance(one, SkipReason)}

    assert skipped() == {}
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=EUROPE)) as session:
        reason = f"Session {session.id} of europe is active."
        assert skipped() == {"crawl_schedule": reason, "crawl_schedule_europe": reason}
    with open_session(grouped.tracker, grouped.settings) as session:
        assert skipped() == dict.fromkeys(schedules, f"Session {session.id} is active.")
    kept_instance.create_run_for_job(process_job, status=DagsterRunStatus.NOT_STARTED, tags={GROUP_TAG: AMERICA})
    reason = "A run of process_zip_actions is under way or queued."
    assert skipped() == {"crawl_schedule": reason, "crawl_schedule_america": reason}
