"""What starts work by itself: it looks at the tracker only, asks once, and never while a session is at work."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from dagster import (
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    JobDefinition,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SkipReason,
)
from sqlalchemy import select, update

from dcc.databases.transactions import writing
from dcc.operations.session_work import open_session
from dcc.qc.judging.waiver_store import add_waiver
from dcc.rules.waivers import Waiver
from dcc.runtime.clock import utc_now
from dcc.runtime.processes import Process
from dcc.session.archives.archive_phases import process_zip_actions as processed_in
from dcc.session.source_crawls import crawl_file_sources as crawl
from dcc.settings import load_settings
from dcc.tracker.models import CrawlingSession, FileSource, FileSourceHasZip, SessionLock, SourceCrawlRow
from dcc.tracker.register.file_sources import change_source
from dcc.vocabulary import WaiverEffect
from dcc_assets import runs
from dcc_assets.jobs import crawl_file_sources, load_data, process_zip_actions, show_changes
from dcc_assets.runs import SCHEDULED_TAG, SESSION_TAG, finish_dead_runs, session_tags
from dcc_dagster import run_processes
from dcc_dagster.instance import open_instance
from dcc_dagster.run_processes import PROCESS_TAG, STARTED_TAG, process_tag, showing_life
from dcc_resources.code_location import platform_resources
from dcc_sensors.notifications import overdue
from dcc_sensors.schedules import crawl_schedules, refresh_reference
from dcc_sensors.sessions import changes_beside_sessions, due_sources, new_zips, retry_failed_downloads, valid_documents
from tests.support.asking import execute_in, in_writing, row_in
from tests.support.dagster_instances import looked, set_environment
from tests.support.data_installations import DataInstallation, key_of
from tests.support.data_installations import experiments as valid_experiments
from tests.support.data_installations import specimens as valid_specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation
from tests.support.waiting import wait_until

ZIP = "add/H.2013-10-31.1.impc.zip"


@pytest.fixture
def folder(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Folder:
    set_environment(installation, monkeypatch)
    return installation.add_folder()


def asked(sensor: SensorDefinition, instance: DagsterInstance) -> RunRequest | str:
    """The run that a sensor asks for, or why it asks for none."""
    answer = looked(sensor, instance)
    assert isinstance(answer, RunRequest | SkipReason)
    return answer if isinstance(answer, RunRequest) else str(answer.skip_message)


def requested(sensor: SensorDefinition, instance: DagsterInstance) -> RunRequest:
    """The run that a sensor asks for."""
    request = asked(sensor, instance)
    assert isinstance(request, RunRequest), request
    return request


def test_zip_actions_that_wait_are_asked_for_once_in_the_session_that_found_them(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    assert asked(new_zips, instance) == "No submission is waiting."
    folder.put(ZIP)
    session = installation.crawl(hand_over=True).id
    first, second = requested(new_zips, instance), requested(new_zips, instance)
    assert first.tags == {SESSION_TAG: str(session)}
    assert first.partition_key is None
    assert first.run_key is not None
    assert first.run_key == second.run_key

    folder.put("add/H.2013-10-31.2.impc.zip")
    installation.crawl(hand_over=True)
    assert requested(new_zips, instance).run_key != first.run_key


@pytest.mark.parametrize("since", ["uploading_since", "missed_since"])
def test_a_zip_action_that_only_the_next_crawl_can_take_starts_no_session(
    installation: Installation, folder: Folder, instance: DagsterInstance, since: str
) -> None:
    folder.put(ZIP)
    installation.crawl()
    requested(new_zips, instance)
    execute_in(installation.tracker, update(FileSourceHasZip).values({since: utc_now()}))
    assert asked(new_zips, instance) == "No submission is waiting."


@only_sqlite
def test_an_archive_of_a_source_outside_its_windows_starts_no_session(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    folder.put(ZIP)
    installation.crawl()
    now = utc_now()
    later = f"{now + timedelta(hours=2):%H:%M}-{now + timedelta(hours=3):%H:%M} UTC"
    in_writing(installation.tracker, change_source, folder.source_id, windows=later)
    assert asked(new_zips, instance) == "No submission is waiting."
    in_writing(installation.tracker, change_source, folder.source_id, windows="")
    requested(new_zips, instance)


@only_sqlite
def test_nothing_is_asked_for_while_a_run_is_under_way(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    folder.put(ZIP)
    installation.crawl(hand_over=True)
    for status in (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED):
        for job in (crawl_file_sources, process_zip_actions, load_data):
            run = instance.create_run_for_job(job, status=status)
            assert "is under way or queued" in str(asked(new_zips, instance))
            instance.delete_run(run.run_id)
    requested(new_zips, instance)


@only_sqlite
def test_a_run_whose_process_died_holds_up_nothing(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    folder.put(ZIP)
    dead = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open_session(installation.tracker, installation.settings) as session:
        tags = session_tags(session)
    mine = str(os.getpid())
    process = tags[PROCESS_TAG].replace(f":{mine}:", f":{dead.pid}:")
    dead.kill()
    dead.wait()
    installation.crawl(hand_over=True)
    run = instance.create_run_for_job(
        process_zip_actions, status=DagsterRunStatus.STARTED, tags={**tags, PROCESS_TAG: process}
    )
    alive = instance.create_run_for_job(crawl_file_sources, status=DagsterRunStatus.STARTED, tags=tags)
    # Whoever starts a run may give it any tags.
    no_process = {PROCESS_TAG: tags[PROCESS_TAG].replace(f":{mine}:", f":{10**30}:")}
    instance.create_run_for_job(crawl_file_sources, status=DagsterRunStatus.STARTED, tags=no_process)
    assert "crawl_file_sources is under way" in str(asked(new_zips, instance))
    assert status_of(instance, run) is DagsterRunStatus.FAILURE
    assert status_of(instance, alive) is DagsterRunStatus.STARTED


@only_sqlite
@pytest.mark.parametrize(
    ("host", "session", "is_dead"),
    [
        ("{name} {namespace} another-boot", "at work", True),
        ("{name} another-namespace {boot}", "at work", False),
        ("{name} another-namespace {boot}", "ended just now", False),
        ("{name} another-namespace {boot}", "ended long ago", True),
        ("elsewhere {namespace} another-boot", "at work", False),
        ("elsewhere {namespace} another-boot", "ended long ago", True),
        ("elsewhere {namespace} another-boot", "died", True),
    ],
)
def test_a_run_ends_whose_machine_was_started_anew_or_whose_session_nobody_has(
    installation: Installation, folder: Folder, instance: DagsterInstance, host: str, session: str, is_dead: bool
) -> None:
    name, namespace, boot = Process.this().host.split(" ")
    host = host.format(name=name, namespace=namespace, boot=boot)
    with open_session(installation.tracker, installation.settings) as opened:
        number = opened.id
        tags = {SESSION_TAG: str(number), PROCESS_TAG: f"{host}:1:1"}
        run = instance.create_run_for_job(process_zip_actions, status=DagsterRunStatus.STARTED, tags=tags)
        if session == "died":
            execute_in(installation.tracker, update(SessionLock).values(heartbeat=datetime(2001, 1, 1)))
        if session in {"at work", "died"}:
            finish_dead_runs(instance, installation.tracker, installation.settings)
    if session == "ended long ago":
        execute_in(installation.tracker, update(CrawlingSession).values(finish_time=datetime(2001, 1, 1)))
    if session.startswith("ended"):
        finish_dead_runs(instance, installation.tracker, installation.settings)
    assert (status_of(instance, run) is DagsterRunStatus.FAILURE) == is_dead


def begun_again(instance: DagsterInstance, job: JobDefinition, tags: dict[str, str]) -> DagsterRun:
    """A run that is starting, and repeats one that failed, with its tags."""
    before = instance.create_run_for_job(job, status=DagsterRunStatus.FAILURE, tags=tags).run_id
    return instance.create_run_for_job(
        job, status=DagsterRunStatus.STARTING, tags=tags, parent_run_id=before, root_run_id=before
    )


@only_sqlite
def test_a_run_that_repeats_a_dead_one_is_not_dead_for_its_copied_tags(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    name, namespace, _ = Process.this().host.split(" ")
    tags = {SESSION_TAG: "1", PROCESS_TAG: f"{name} {namespace} another-boot:1:1"}
    repeated = begun_again(instance, process_zip_actions, tags)
    finish_dead_runs(instance, installation.tracker, installation.settings)
    assert status_of(instance, repeated) is DagsterRunStatus.STARTING


@pytest.fixture
def instance_in_files(tmp_path: Path) -> Iterator[DagsterInstance]:
    """One that several threads can use at once: tables in memory cannot be read while another thread writes."""
    with DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def test_a_run_without_a_session_shows_again_and_again_that_it_lives(
    instance_in_files: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_processes, "LIFE_SECONDS", 0.05)
    instance = instance_in_files
    run = instance.create_run_for_job(show_changes, status=DagsterRunStatus.STARTED)

    def last_sign() -> datetime:
        (record,) = instance.get_run_records(RunsFilter(run_ids=[run.run_id]))
        return record.update_timestamp

    # As the resources of both databases do.
    with showing_life(instance, run), showing_life(instance, run):
        assert [thread.name for thread in threading.enumerate()].count("life") == 1
        began = last_sign()
        wait_until(lambda: last_sign() > began)
        instance.add_run_tags(run.run_id, {SESSION_TAG: "1", **process_tag()})
        # The thread may be in the middle of a last sign.
        time.sleep(0.2)
        with_session = last_sign()
        time.sleep(0.2)
        assert last_sign() == with_session
    ended = last_sign()
    time.sleep(0.2)
    assert last_sign() == ended


def status_of(instance: DagsterInstance, run: DagsterRun) -> DagsterRunStatus:
    """What became of a run."""
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


@only_sqlite
@pytest.mark.parametrize("repeats", [False, True])
def test_a_run_ends_that_a_power_failure_cut_off_before_its_work_began(
    installation: Installation,
    folder: Folder,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    repeats: bool,
) -> None:
    folder.put(ZIP)
    installation.crawl(hand_over=True)
    tags = {PROCESS_TAG: "elsewhere:1:1"} if repeats else {}
    under_way = [begun_again(instance, crawl_file_sources, tags)]
    for status in (DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING):
        under_way.append(instance.create_run_for_job(show_changes, status=status))
    assert "crawl_file_sources is under way" in str(asked(new_zips, instance))
    monkeypatch.setattr(runs, "_START_TIME", timedelta(seconds=-60))
    requested(new_zips, instance)
    assert {status_of(instance, run) for run in under_way} == {DagsterRunStatus.FAILURE}


@only_sqlite
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_run_that_waits_for_its_turn_ends_only_if_it_waits_too_long_elsewhere(
    installation: Installation,
    folder: Folder,
    instance: DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    is_elsewhere: bool,
) -> None:
    """Another session went on with the one that it is to resume, and ended it."""
    with open_session(installation.tracker, installation.settings) as session:
        pass
    execute_in(installation.tracker, update(CrawlingSession).values(finish_time=datetime(2001, 1, 1)))
    process = {STARTED_TAG: "elsewhere:1:1"} if is_elsewhere else process_tag(STARTED_TAG)
    tags = {SESSION_TAG: str(session.id), **process}
    waits = instance.create_run_for_job(load_data, status=DagsterRunStatus.STARTED, tags=tags)
    finish_dead_runs(instance, installation.tracker, installation.settings)
    assert status_of(instance, waits) is DagsterRunStatus.STARTED
    monkeypatch.setattr(runs, "_TIME_WITHOUT_LIFE", timedelta(seconds=-60))
    finish_dead_runs(instance, installation.tracker, installation.settings)
    assert (status_of(instance, waits) is DagsterRunStatus.FAILURE) == is_elsewhere


@only_sqlite
def test_a_run_of_a_command_elsewhere_that_shows_no_life_has_twelve_hours(
    installation: Installation, folder: Folder, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of `dcc instance rebuild`, and that of a replay by workers."""
    run = instance.create_run_for_job(
        show_changes, status=DagsterRunStatus.STARTED, tags={PROCESS_TAG: "elsewhere:1:1"}
    )
    monkeypatch.setattr(runs, "_TIME_WITHOUT_LIFE", timedelta(seconds=-60))
    assert finish_dead_runs(instance, installation.tracker, installation.settings) == 0
    monkeypatch.setattr(runs, "_TIME_WITHOUT_SESSION", timedelta(seconds=-60))
    assert finish_dead_runs(instance, installation.tracker, installation.settings) == 1
    assert status_of(instance, run) is DagsterRunStatus.FAILURE


@only_sqlite
def test_a_run_that_ends_well_just_now_is_not_dead(
    installation: Installation, folder: Folder, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = instance.create_run_for_job(show_changes, status=DagsterRunStatus.STARTED, tags=process_tag())

    def ends_now(_: Process) -> bool:
        instance.report_run_canceled(run)
        return True

    monkeypatch.setattr(Process, "is_gone", property(ends_now))
    assert finish_dead_runs(instance, installation.tracker, installation.settings) == 0
    assert status_of(instance, run) is DagsterRunStatus.CANCELED


@only_sqlite
def test_a_dead_run_holds_up_no_schedule_where_sensors_are_off(
    installation: Installation, folder: Folder, kept_instance: DagsterInstance
) -> None:
    name, namespace, _ = Process.this().host.split(" ")
    tags = {PROCESS_TAG: f"{name} {namespace} another-boot:1:1"}
    kept_instance.create_run_for_job(crawl_file_sources, status=DagsterRunStatus.STARTED, tags=tags)
    (schedule,) = crawl_schedules(installation.settings)
    assert isinstance(looked(schedule, kept_instance), RunRequest)


def test_nothing_is_asked_for_while_a_session_is_at_work_and_again_when_it_died(
    installation: Installation, folder: Folder, kept_instance: DagsterInstance
) -> None:
    folder.put(ZIP)
    installation.crawl()
    (schedule,) = crawl_schedules(installation.settings)
    with open_session(installation.tracker, installation.settings) as session:
        assert asked(new_zips, kept_instance) == f"Session {session.id} is active."
        skipped = looked(schedule, kept_instance)
        assert isinstance(skipped, SkipReason)
        execute_in(installation.tracker, update(SessionLock).values(heartbeat=datetime(2001, 1, 1)))
        assert isinstance(asked(new_zips, kept_instance), RunRequest)


@only_sqlite
def test_sources_with_an_age_of_their_own_are_crawled_when_they_are_due(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    installation.add_folder(name="with every session")
    assert "No file source" in str(asked(due_sources, instance))
    in_writing(installation.tracker, change_source, folder.source_id, every="6h")
    assert requested(due_sources, instance).tags == {SCHEDULED_TAG: "yes"}
    with open_session(installation.tracker, installation.settings) as session:
        assert asked(due_sources, instance) == f"Session {session.id} is active."
        (found,) = crawl(session, only_scheduled=True)
    assert found.source_id == folder.source_id
    assert found.then.startswith("not due until")
    assert "No file source" in str(asked(due_sources, instance))


@pytest.mark.both_databases
def test_a_new_or_changed_source_is_crawled_once_by_itself_after_a_quiet_minute(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    installation.crawl()
    new = installation.add_folder(name="new").source_id

    def was_changed(source: int, minutes: int) -> None:
        then = utc_now() - timedelta(minutes=minutes)
        with writing(installation.tracker) as connection:
            of_source = update(SourceCrawlRow).where(SourceCrawlRow.file_source_id == source)
            connection.execute(of_source.values(start_time=utc_now() - timedelta(hours=1)))
            connection.execute(update(FileSource).where(FileSource.id == source).values(last_update=then))

    for source in (new, folder.source_id):
        was_changed(source, minutes=0)
        assert "No file source" in str(asked(due_sources, instance))
        was_changed(source, minutes=2)
        assert requested(due_sources, instance).tags == {SCHEDULED_TAG: "yes"}
        with open_session(installation.tracker, installation.settings) as session:
            assert [found.source_id for found in crawl(session, only_scheduled=True)] == [source]
        assert "No file source" in str(asked(due_sources, instance))


@only_sqlite
def test_failed_downloads_are_tried_again_once_after_the_next_crawl(
    installation: Installation, folder: Folder, instance: DagsterInstance
) -> None:
    assert asked(retry_failed_downloads, instance) == "No download has failed."
    folder.put(ZIP)
    crawled = installation.crawl(hand_over=True)
    saved = (folder.path / ZIP).read_bytes()
    (folder.path / ZIP).unlink()
    with open_session(installation.tracker, installation.settings, resume=crawled.id) as resumed:
        assert list(processed_in(resumed))
    assert installation.states() == {ZIP: "download failed"}
    assert "with or after the next crawl" in str(asked(retry_failed_downloads, instance))

    folder.put(ZIP, saved)
    session = installation.crawl(hand_over=True).id
    assert asked(new_zips, instance) == "No submission is waiting."
    request = requested(retry_failed_downloads, instance)
    assert request.tags == {SESSION_TAG: str(session)}
    assert request.run_key == requested(retry_failed_downloads, instance).run_key

    folder.put("add/H.2013-10-31.2.impc.zip")
    installation.crawl(hand_over=True)
    assert "with or after the next crawl" in str(asked(retry_failed_downloads, instance)), "with the new one"


def test_a_tracker_that_is_not_there_yet_is_a_reason_to_wait(
    tmp_path: Path, kept_instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DCC_TRACKER_URL", raising=False)
    for one in (new_zips, retry_failed_downloads, due_sources, valid_documents, changes_beside_sessions, overdue):
        assert "dcc init" in str(asked(one, kept_instance))
    for schedule in (refresh_reference, *crawl_schedules(load_settings())):
        assert "dcc init" in looked(schedule, kept_instance).skip_message
    assert not (tmp_path / "home").exists()


@pytest.fixture
def data(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> DataInstallation:
    """The installation, which the environment names."""
    set_environment(data.base, monkeypatch)
    return data


@pytest.fixture
def valid(data: DataInstallation) -> DataInstallation:
    """An installation with two documents that wait to be taken up."""
    data.validate(ZIP, valid_specimens(), valid_experiments())
    return data


def test_valid_documents_are_asked_for_once_in_the_session_that_validated_them_as_far_as_sessions_go(
    valid: DataInstallation, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_session(valid.tracker, valid.settings) as session:
        session.hand_over()
    request = requested(valid_documents, instance)
    assert request.tags == {SESSION_TAG: str(session.id)}
    assert request.run_key == requested(valid_documents, instance).run_key
    with monkeypatch.context() as patch:
        for until, zips in (("zip_name", "Sessions stop at zip_name"), ("xsd", "No submission")):
            patch.setenv("DCC_UNTIL", until)
            assert zips in str(asked(new_zips, instance))
            assert f"Sessions stop at {until}" in str(asked(valid_documents, instance))
    valid.put("add/H.2013-11-01.1.impc.zip", valid_specimens("2013-11-01.1", first=70))
    valid.base.crawl()
    assert asked(valid_documents, instance) == "The waiting submissions are processed first."
    # One that waits longer, here for room on the disk, holds up no document.
    valid.base.with_settings(min_free_bytes=10**18).run_session(crawl=False)
    assert requested(new_zips, instance)
    assert requested(valid_documents, instance)
    valid.take_up()
    assert asked(valid_documents, instance) == "No document is waiting."


@only_sqlite
def test_the_three_jobs_of_daemons_hand_one_session_on(data: DataInstallation) -> None:
    data.put(ZIP, valid_specimens(), valid_experiments())
    sessions = []
    with open_instance(data.settings) as instance:
        tags: dict[str, str] = {}
        for job, sensor in (
            (crawl_file_sources, new_zips),
            (process_zip_actions, valid_documents),
            (load_data, valid_documents),
        ):
            result = job.execute_in_process(instance=instance, resources=platform_resources(), tags=tags)
            run = instance.get_run_by_id(result.run_id)
            assert run is not None
            sessions.append(run.tags[SESSION_TAG])
            request = asked(sensor, instance)
            tags = dict(request.tags) if isinstance(request, RunRequest) else {}
    assert sessions == ["1", "1", "1"]
    assert request == "No document is waiting."
    assert data.states() == {ZIP: "qc pending"}
    lock = row_in(data.tracker, select(SessionLock.session_id, SessionLock.holder))
    assert tuple(lock) == (None, None)


@only_sqlite
def test_documents_that_wait_to_be_confirmed_or_for_an_older_archive_are_asked_for_when_that_is_decided(
    data: DataInstallation, instance: DagsterInstance
) -> None:
    data.run(ZIP, valid_specimens())
    held = data.with_settings(hold_threshold=1)
    older, later = "edit/H.2013-10-31.2.impc.zip", "edit/H.2013-10-31.3.impc.zip"
    held.put(older, valid_specimens("2013-10-31.2"))
    held.put(later, valid_specimens("2013-10-31.3", mice=1))
    held.run("add/H.2013-10-31.4.impc.zip", valid_specimens("2013-10-31.4", mice=1))
    assert [state for key, state in held.states().items() if key != ZIP] == ["upload pending"] * 3
    assert asked(valid_documents, instance) == "No document is waiting."
    # No later run would go on with the session, and end it with its report.
    assert crawl_file_sources.execute_in_process(instance=instance, resources=platform_resources()).success
    assert tuple(row_in(data.tracker, select(SessionLock.session_id, SessionLock.holder))) == (None, None)
    data.confirm(older, author="wrangler", reason="agreed")
    data.take_up(keys=[older])
    assert isinstance(asked(valid_documents, instance), RunRequest)


@only_sqlite
def test_what_changed_beside_sessions_is_asked_to_be_shown(valid: DataInstallation, instance: DagsterInstance) -> None:
    assert asked(changes_beside_sessions, instance) == "The next session shows the changes."
    valid.take_up()
    with open_session(valid.tracker, valid.settings) as session:
        assert asked(changes_beside_sessions, instance) == f"Session {session.id} is active."
    assert isinstance(asked(changes_beside_sessions, instance), RunRequest)
    show_changes.execute_in_process(instance=instance, resources=platform_resources())
    assert asked(changes_beside_sessions, instance) == "No changes to show."


@only_sqlite
def test_what_withdrawals_and_waivers_give_cause_to_is_asked_for_though_no_document_waits(
    data: DataInstallation, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(ZIP, valid_experiments())
    data.run("add/H.2013-11-01.1.impc.zip", valid_specimens("2013-11-01.1", first=70))
    assert asked(valid_documents, instance) == "No document is waiting."
    today = utc_now().date()
    in_writing(data.qc, add_waiver, Waiver("E4", WaiverEffect.WAIVE, "on their way", "a wrangler", today), today)
    assert isinstance(asked(valid_documents, instance), RunRequest)
    data.take_up()
    assert asked(valid_documents, instance) == "No document is waiting."
    key = key_of("add/H.2013-11-01.1.impc.zip")
    data.withdraw(key, author="someone", reason="a mistake")
    assert isinstance(asked(valid_documents, instance), RunRequest)
    monkeypatch.setenv("DCC_UNTIL", "upload")
    assert asked(valid_documents, instance) == "No document is waiting."
    monkeypatch.delenv("DCC_UNTIL")
    data.take_up()
    assert asked(valid_documents, instance) == "No document is waiting."
