"""Crawling sessions: one at a time, whatever dies, and recorded as what became of them."""

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Row, make_url, select, update

from dcc.databases.database import OUTAGE_SECONDS
from dcc.databases.engines import WRITES
from dcc.errors import SessionActiveError, SessionLostError
from dcc.operations import archive_audits
from dcc.operations.session_work import open_session
from dcc.outcomes import EndReason
from dcc.phases import Phase
from dcc.runtime import heartbeat, processes
from dcc.runtime.clock import utc_now
from dcc.session import sessions
from dcc.session.sessions import Session
from dcc.settings import Settings
from dcc.tracker.crawls import list_sessions
from dcc.tracker.models import CrawlingSession, SessionLock, SessionTask
from dcc.tracker.session_statuses import SessionStatus, TaskStatus
from tests.support.asking import execute_in, in_reading, rows_in
from tests.support.databases import only_sqlite
from tests.support.raising import raising
from tests.support.threads import at_once
from tests.support.waiting import wait_until


def _rows(tracker: Engine, model: type) -> list[Row[Any]]:
    return rows_in(tracker, select(model.__table__).order_by(model.__table__.c.id))  # type: ignore[attr-defined]


def _session_row(tracker: Engine, session_id: int) -> Row[Any]:
    return next(row for row in _rows(tracker, CrawlingSession) if row.id == session_id)


def _lock(tracker: Engine) -> Row[Any]:
    (row,) = _rows(tracker, SessionLock)
    return row


def _change_lock(tracker: Engine, **values: object) -> None:
    execute_in(tracker, update(SessionLock).values(**values))


def _leased(settings: Settings, seconds: float) -> Settings:
    return settings.model_copy(update={"lease_timeout": seconds})


class TestOneAtATime:
    @pytest.mark.both_databases
    def test_of_many_that_open_at_once_one_is_let_in(self, tracker: Engine, settings: Settings) -> None:
        outcomes: list[str] = []

        def contend() -> None:
            try:
                with open_session(tracker, settings):
                    outcomes.append("in")
                    wait_until(lambda: len(outcomes) == 6)
            except SessionActiveError:
                outcomes.append("refused")

        at_once(*[contend] * 6)
        assert sorted(outcomes) == ["in", *["refused"] * 5]


class TestOutcome:
    @pytest.mark.both_databases
    def test_a_session_is_recorded_with_its_times_and_tasks(self, tracker: Engine, settings: Settings) -> None:
        before = utc_now()
        with open_session(tracker, settings) as session:
            session.finish_task(session.start_task(Phase.XSD, "Validation of 3 documents"), TaskStatus.SUCCEEDED)
            row = _session_row(tracker, session.id)
            assert (row.finish_time, row.status) == (None, SessionStatus.UNFINISHED)
        row = _session_row(tracker, session.id)
        assert row.status == SessionStatus.SUCCEEDED
        assert before <= row.start_time <= row.finish_time <= utc_now()
        (task,) = _rows(tracker, SessionTask)
        assert (task.session_id, task.phase_id, task.comment) == (session.id, Phase.XSD, "Validation of 3 documents")
        assert task.status == 0
        assert task.start_time <= task.finish_time
        lock = _lock(tracker)
        assert (lock.holder, lock.session_id) == (None, None)

        # Failed tasks fail the session with the earliest phase.
        with open_session(tracker, settings) as session:
            for phase, failed in ((Phase.XSD, True), (Phase.ZIP_NAME, True), (Phase.DOWNLOAD, False)):
                session.finish_task(session.start_task(phase, "x" * 300), TaskStatus.of(failed=failed))
        assert _session_row(tracker, session.id).status == Phase.ZIP_NAME
        found = [(task.status, len(task.comment)) for task in _rows(tracker, SessionTask)[1:]]
        assert found == [(1, 256), (1, 256), (0, 256)]


class TestDeadHolder:
    @pytest.mark.both_databases
    def test_a_killed_process_is_succeeded_at_once_and_its_session_has_failed(
        self, tracker: Engine, settings: Settings
    ) -> None:
        """What a crash left was never taken up. Here nobody has asked yet how the process ended."""
        with subprocess.Popen(["sleep", "600"]) as process:
            dead = _plant(tracker, settings, pid=process.pid)
            process.kill()
            wait_until(lambda: "Z" in Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2])
            with open_session(tracker, settings) as session:
                (notice,) = session.notices
                assert notice.startswith(f"Session {dead} died (process {process.pid} on {os.uname().nodename}")
                assert session.id > dead
                row = _session_row(tracker, dead)
                assert row.status == Phase.UNZIP
                assert row.finish_time is not None
        (task,) = _rows(tracker, SessionTask)
        assert (task.status, task.finish_time is None) == (1, False)
        with open_session(tracker, settings) as session:
            assert session.notices == (), "said once"

    @only_sqlite
    def test_a_process_that_has_the_dead_one_s_number_is_not_taken_for_it(
        self, tracker: Engine, settings: Settings
    ) -> None:
        with open_session(tracker, settings) as session:
            _change_lock(tracker, holder="dead", pid_started="1")
            with open_session(tracker, settings) as second:
                assert f"Session {session.id} died (process {os.getpid()}" in second.notices[0]
                session._lost.set()
            with pytest.raises(SessionLostError):
                session.raise_if_over()
            session._lost.clear()
        assert session.ended is EndReason.DIED

    @pytest.mark.both_databases(first_only=True)
    @pytest.mark.parametrize(
        "of",
        [
            {"pid": os.getpid()},
            {"host": "other.host pid:[4026531836] 0b1d"},
            {"host": f"{os.uname().nodename} pid:[1] 0b1d"},
            {"pid_started": ""},
        ],
        ids=["it lives", "another host", "a container or boot of the same name", "a system without /proc"],
    )
    def test_a_holder_that_lives_or_cannot_be_looked_up_from_here_has_its_lease(
        self, of: dict[str, Any], tracker: Engine, settings: Settings
    ) -> None:
        settings, of = _leased(settings, 60), {"pid": 2**22 + 1} | of
        dead = _plant(tracker, settings, **of)
        with pytest.raises(SessionActiveError, match=f"Session {dead} is active"), open_session(tracker, settings):
            pytest.fail("taken over from a holder that may be alive")

        _change_lock(tracker, heartbeat=utc_now() - timedelta(seconds=61))
        with open_session(tracker, settings) as session:
            (notice,) = session.notices
            assert f"Session {dead} died (process {of['pid']} on " in notice
        assert _session_row(tracker, dead).status == Phase.UNZIP


def _plant(tracker: Engine, settings: Settings, *, pid: int, **changes: object) -> int:
    """Leave a session of the process `pid` of this host, busy extracting; its id."""
    with open_session(tracker, settings) as session:
        session.start_task(Phase.UNZIP, "under way")
        lock = _lock(tracker)
        session.hand_over()
    now = utc_now()
    values = {"host": lock.host, "pid_started": processes._look_up(pid)[0] or "1"}
    _change_lock(tracker, holder="dead", pid=pid, heartbeat=now, acquired=now, **values | changes)
    return session.id


class TestLease:
    @pytest.mark.both_databases
    def test_an_interrupt_that_leaves_a_transaction_open_does_not_keep_the_lock(
        self, tracker: Engine, settings: Settings
    ) -> None:
        """As one between two instructions does, of which the second would have ended the transaction."""

        def work(engine: Engine) -> None:
            connection = engine.connect().execution_options(**{WRITES: True})
            connection.begin()
            connection.execute(update(SessionLock).values(host="another"))
            raise KeyboardInterrupt

        patient = tracker.execution_options(**{OUTAGE_SECONDS: 2.0})
        with pytest.raises(KeyboardInterrupt), open_session(patient, settings) as session:
            work(session.tracker)
        assert _lock(tracker).holder is None
        assert in_reading(tracker, list_sessions)[0].outcome == "stopped"

    def test_who_interrupts_the_cleaning_of_staging_gives_the_lock_back(
        self, tracker: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(archive_audits, "catch_up_after_session", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt), open_session(tracker, settings) as session:  # noqa: PT012
            task = session.start_task(Phase.DOWNLOAD, "done")
            session.finish_task(task, TaskStatus.SUCCEEDED)
            session.start_task(Phase.XSD, "under way")
        assert _lock(tracker).holder is None
        (entry,) = in_reading(tracker, list_sessions)
        assert (entry.outcome, entry.failed_phase) == ("stopped", None)
        assert [task.outcome for task in entry.tasks] == ["succeeded", "cancelled"]

    @pytest.mark.both_databases
    def test_a_session_that_lost_its_lock_stops_and_leaves_all_to_the_other(
        self, tracker: Engine, settings: Settings
    ) -> None:
        with (  # noqa: PT012
            pytest.raises(SessionLostError, match=r"Session \d+ lost its lock.*dcc session list"),
            open_session(tracker, _leased(settings, 2.5)) as session,
        ):
            session.raise_if_over()
            _change_lock(tracker, holder="another")
            wait_until(session._lost.is_set)
            assert _is_lost(session)
        assert _lock(tracker).holder == "another"
        assert _session_row(tracker, session.id).finish_time is None

    @only_sqlite
    @pytest.mark.parametrize("cause", ["a locked file", "a full disk"])
    def test_a_session_that_cannot_renew_in_time_stops_by_itself_and_goes_on_when_it_can(
        self, tracker: Engine, settings: Settings, cause: str
    ) -> None:
        hindered = _locked_file(tracker) if cause == "a locked file" else _full_disk()
        with open_session(tracker, _leased(settings, 1.5)) as session:
            with hindered:
                session.raise_if_over()
                wait_until(lambda: _is_lost(session))
            wait_until(lambda: not _is_lost(session))


def _is_lost(session: Session) -> bool:
    try:
        session.raise_if_over()
    except SessionLostError:
        return True
    return False


@contextmanager
def _locked_file(tracker: Engine) -> Iterator[None]:
    path = make_url(str(tracker.url)).database
    assert path is not None
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


@contextmanager
def _full_disk() -> Iterator[None]:
    """Neither the lease nor the log can be written."""
    full = raising(OSError("No space left on device"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sessions, "writing", full)
        patched.setattr(heartbeat.log, "warning", full)
        yield


class TestHandingOver:
    @pytest.mark.both_databases
    def test_a_session_handed_over_is_gone_on_with_by_a_later_run(self, tracker: Engine, settings: Settings) -> None:
        with open_session(tracker, settings) as first:
            first.hand_over()
        assert _session_row(tracker, first.id).finish_time is None
        assert (_lock(tracker).holder, _lock(tracker).session_id) == (None, first.id)
        with open_session(tracker, settings, resume=first.id) as second:
            assert second.id == first.id
            assert second.notices == ()
        row = _session_row(tracker, first.id)
        assert row.finish_time is not None
        assert row.status == SessionStatus.SUCCEEDED
        assert len(_rows(tracker, CrawlingSession)) == 1

    @only_sqlite
    @pytest.mark.parametrize("failed", [True, False])
    def test_the_next_session_finishes_one_that_nobody_went_on_with(
        self, failed: bool, tracker: Engine, settings: Settings
    ) -> None:
        with open_session(tracker, settings) as first:
            first.finish_task(first.start_task(Phase.ZIP_NAME, "crawl"), TaskStatus.of(failed=failed))
            first.hand_over()
        with open_session(tracker, settings) as second:
            assert second.id > first.id
            assert second.notices == ()
            assert _session_row(tracker, first.id).status == (Phase.ZIP_NAME if failed else SessionStatus.SUCCEEDED)

    @only_sqlite
    def test_a_killed_run_that_had_gone_on_with_it_leaves_it_failed(self, tracker: Engine, settings: Settings) -> None:
        with open_session(tracker, settings) as first:
            first.hand_over()
        with open_session(tracker, settings, resume=first.id) as second:
            second.start_task(Phase.XSD, "validation")
            _change_lock(tracker, holder="dead", pid=2**22 + 1)
            with open_session(tracker, settings, resume=first.id) as third:
                assert third.id > first.id
                assert f"Session {first.id} died" in third.notices[0]
            assert _session_row(tracker, first.id).status == Phase.XSD


@pytest.mark.both_databases
def test_a_session_that_was_taken_over_while_the_database_was_away_writes_nothing(
    tracker: Engine, settings: Settings
) -> None:
    """A write that waited past the lease must not come after what the next session did."""
    written = []
    with open_session(tracker, settings) as session:
        execute_in(tracker, update(SessionLock).values(holder="someone else"))
        with pytest.raises(SessionLostError, match="lost its lock"):
            session.write(written.append)
    assert written == []
