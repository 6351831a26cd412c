"""Work with the tracker database: cascades, transactions, retries, and what failures are called."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import cycle
from traceback import format_exception
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, event, func, make_url, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from dcc.databases.database import OUTAGE_SECONDS
from dcc.databases.engines import database_label
from dcc.databases.schema import init_database, require_current
from dcc.databases.transactions import insert_rows, run_patiently, run_writing, writing
from dcc.errors import ConfigurationError, QcDatabaseUnreachableError, TrackerUnreachableError
from dcc.settings import Settings, load_settings
from dcc.tracker.database import exception_id, open_tracker
from dcc.tracker.models import (
    MESSAGE_BYTES,
    AnException,
    Centre,
    CrawlingSession,
    FileSource,
    FileSourceHasZip,
    XmlFile,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from tests.support.asking import column_in, count_in, execute_in, in_writing, rows_in, value_in
from tests.support.databases import (
    PASSWORD,
    MariaDb,
    only_mariadb,
    only_sqlite,
    seed_centre,
    seed_documents,
    seed_download,
    seed_source,
    seed_submission,
)
from tests.support.raising import contention, raising
from tests.support.threads import at_once

NOON = datetime(2026, 1, 31, 12, 0, 0)
SESSION = {"start_time": NOON, "status": -1, "created": NOON}


# Foreign keys and columns


def test_removing_a_centre_removes_its_sources_and_hostings_and_keeps_its_archives(tracker: Engine) -> None:
    centre = seed_centre(tracker)
    archive = seed_submission(tracker, seed_source(tracker, centre), centre_id=centre)
    seed_documents(tracker, seed_download(tracker, archive.hosting_id), 2)
    execute_in(tracker, delete(Centre))
    assert [count_in(tracker, model) for model in (FileSource, FileSourceHasZip, ZipDownload, XmlFile)] == [0, 0, 0, 0]
    assert [count_in(tracker, model) for model in (ZipFile, ZipAction)] == [1, 1]
    assert value_in(tracker, select(ZipFile.centre_id)) is None


def test_times_are_kept_in_utc_to_the_second(tracker: Engine) -> None:
    summer = timezone(timedelta(hours=2))
    row = SESSION | {"start_time": datetime(2026, 1, 31, 14, 0, 0, 900_000, summer)}
    (number,) = in_writing(tracker, insert_rows, CrawlingSession, [row])
    assert value_in(tracker, select(CrawlingSession.start_time).where(CrawlingSession.id == number)) == NOON
    now = value_in(tracker, select(func.current_timestamp()))
    now = now if isinstance(now, datetime) else datetime.fromisoformat(str(now))
    assert abs(now.replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(seconds=5)


def test_a_message_too_long_for_its_column_is_shortened_and_odd_characters_survive(tracker: Engine) -> None:
    archive = seed_submission(tracker, seed_source(tracker, seed_centre(tracker)))
    download = seed_download(tracker, archive.hosting_id)
    texts = ["ü" * MESSAGE_BYTES, "not UTF-8: \udcff", "mouse 🐭"]
    with writing(tracker) as connection:
        kind = exception_id(connection, "SomeError", "Something.")
        rows = [{"zip_id": download, "exception_id": kind, "message": message} for message in texts]
        insert_rows(connection, ZipLog, rows)
    stored = [message or "" for message in column_in(tracker, select(ZipLog.message).order_by(ZipLog.id))]
    assert stored[0].endswith("ü…")
    assert MESSAGE_BYTES - 4 <= len(stored[0].encode()) <= MESSAGE_BYTES
    assert stored[1:] == ["not UTF-8: \\udcff", "mouse 🐭"]


# Inserting


def test_an_id_is_never_given_twice(tracker: Engine) -> None:
    with writing(tracker) as connection:
        (number,) = insert_rows(connection, ZipFile, [{"file_name": "a.zip"}])
        connection.execute(delete(ZipFile))
        assert insert_rows(connection, ZipFile, [{"file_name": "b.zip"}]) > [number]


def test_a_kind_of_error_has_one_row_whoever_needs_it_first(tracker: Engine) -> None:
    def record() -> list[int]:
        works = [partial(exception_id, name=kind, description="Text.") for kind in ("AError", "BError", "CError")]
        return [run_writing(tracker, work, patience_seconds=30) for work in works]

    results = at_once(*[record] * 8)
    assert all(ids == results[0] for ids in results)
    assert count_in(tracker, AnException) == 3


# Transactions


@only_sqlite
def test_what_was_committed_survives_a_power_failure(tracker: Engine) -> None:
    with tracker.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL: a commit waits for the disk"


def test_a_failed_transaction_leaves_nothing(tracker: Engine) -> None:
    def fail(connection: Connection) -> None:
        insert_rows(connection, ZipFile, [{"file_name": "a.zip"}])
        raise KeyError

    with pytest.raises(KeyError):
        run_writing(tracker, fail, patience_seconds=30)
    assert count_in(tracker, ZipFile) == 0


def test_readers_go_on_while_a_writer_works(tracker: Engine) -> None:
    with writing(tracker) as connection:
        insert_rows(connection, ZipFile, [{"file_name": "a.zip"}])
        began = time.monotonic()
        assert count_in(tracker, ZipFile) == 0
        assert time.monotonic() - began < 10


def test_many_threads_write_without_losing_anything(tracker: Engine) -> None:
    (number,) = in_writing(tracker, insert_rows, CrawlingSession, [SESSION | {"status": 0}])

    def add_one(connection: Connection) -> None:
        status = connection.scalar(select(CrawlingSession.status).where(CrawlingSession.id == number).with_for_update())
        connection.execute(update(CrawlingSession).values(status=(status or 0) + 1))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(run_writing, tracker, add_one, patience_seconds=60) for _ in range(160)]:
            done.result()
    assert value_in(tracker, select(CrawlingSession.status)) == 160


@only_mariadb
def test_work_that_runs_into_a_deadlock_is_done_again(tracker: Engine) -> None:
    ids = in_writing(tracker, insert_rows, CrawlingSession, [SESSION | {"status": 0}] * 2)
    both = threading.Barrier(2)
    tries = []

    def work(order: list[int]) -> None:
        def touch(connection: Connection) -> None:
            tries.append(order)
            for step, number in enumerate(order):
                status = CrawlingSession.status + 1
                connection.execute(update(CrawlingSession).where(CrawlingSession.id == number).values(status=status))
                if step == 0 and len(tries) <= 2:
                    both.wait(10)

        run_writing(tracker, touch, patience_seconds=30)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, ids), pool.submit(work, ids[::-1])]:
            done.result()
    assert len(tries) == 3
    assert column_in(tracker, select(CrawlingSession.status)) == [2, 2]


def test_what_a_database_refused_to_commit_is_done_again(tracker: Engine) -> None:
    tries: list[int] = []

    def refuse(_: Connection) -> None:
        if len(tries) == 2:
            raise contention(tracker)

    def work(connection: Connection) -> list[int]:
        tries.append(1)
        return insert_rows(connection, CrawlingSession, [SESSION] * len(tries))

    event.listen(tracker, "commit", refuse)
    first, second = (run_writing(tracker, work, patience_seconds=30) for _ in range(2))
    assert (len(first), len(second)) == (1, 3)
    assert column_in(tracker, select(CrawlingSession.id)) == first + second


@only_sqlite
def test_a_database_is_waited_for_no_longer_than_its_engine_says_and_other_writers_are(tracker: Engine) -> None:
    brief = tracker.execution_options(**{OUTAGE_SECONDS: 0.3})
    away, busy = TrackerUnreachableError("It is away."), contention(tracker)

    def seconds(patience: float | None, *errors: Exception) -> float:
        began, coming = time.monotonic(), cycle(errors)
        with pytest.raises(TrackerUnreachableError):
            run_patiently(brief, lambda: raising(next(coming))(), patience_seconds=patience)
        return time.monotonic() - began

    for patience in (None, 60):
        assert 0.02 < seconds(patience, away) < 30
    assert seconds(1, busy) > 0.3
    assert seconds(1, away, busy) > 0.3
    for error in (QcDatabaseUnreachableError("It is away."), IntegrityError("INSERT", {}, Exception())):
        with pytest.raises(type(error)):
            run_patiently(brief, raising(error))


@only_sqlite
def test_another_process_that_holds_the_database_is_waited_for(
    tracker: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(settings.home / "tracker.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    began = time.monotonic()
    run_writing(tracker, lambda connection: insert_rows(connection, CrawlingSession, [SESSION]), patience_seconds=10)
    assert 0.2 < time.monotonic() - began < 5
    with tracker.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 50")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TrackerUnreachableError, match=r"tracker\.db.*other writers were in the way"):
        run_writing(tracker, lambda connection: None, patience_seconds=0.1)
    other.close()


# A database that goes away


@only_mariadb
def test_a_commit_whose_answer_was_lost_is_not_done_twice(tracker: Engine, mariadb: MariaDb) -> None:
    lost = []

    def lose_answer(connection: Connection) -> None:
        if connection.info.pop("lose", False):
            lost.append(1)
            driver: Any = connection.connection.driver_connection
            driver.commit()
            mariadb.query(f"KILL {driver.thread_id()}")

    event.listen(tracker, "commit", lose_answer)
    tries = []

    def work(connection: Connection) -> list[int]:
        tries.append(1)
        connection.info["lose"] = len(tries) == 1
        return insert_rows(connection, CrawlingSession, [SESSION])

    ids = run_writing(tracker, work, patience_seconds=30)
    assert (len(lost), len(tries)) == (1, 1)
    assert column_in(tracker, select(CrawlingSession.id)) == ids


@only_mariadb
def test_a_database_that_goes_away_and_comes_back_loses_nothing(tracker: Engine, mariadb: MariaDb) -> None:
    written = threading.Event()

    def write(number: int) -> int:
        row = SESSION | {"status": number}
        ids = run_writing(
            tracker, lambda connection: insert_rows(connection, CrawlingSession, [row]), patience_seconds=60
        )
        if number == 20:
            written.set()
        return ids[0]

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, number) for number in range(1, 200)]
        assert written.wait(60)
        mariadb.kill()
        mariadb.start()
        ids = [done.result() for done in writers]
    stored = {row.id: row.status for row in rows_in(tracker, select(CrawlingSession.id, CrawlingSession.status))}
    assert stored == dict(zip(ids, range(1, 200), strict=True))


@only_sqlite
def test_a_sqlite_file_that_cannot_be_opened_is_named(settings: Settings) -> None:
    engine = open_tracker(settings)
    for use in (init_database, require_current):
        settings.home.write_text("not a folder", encoding="utf-8")
        with pytest.raises((TrackerUnreachableError, ConfigurationError), match=r"home/tracker\.db"):
            use(engine)
    settings.home.unlink()
    settings.home.mkdir()
    (settings.home / "tracker.db").write_text("no database either " * 100, encoding="utf-8")
    with pytest.raises(TrackerUnreachableError, match=r"tracker\.db.*Restore|tracker\.db.*Check DCC_TRACKER_URL"):
        require_current(engine)
    engine.dispose()


# URLs and secrets


@only_mariadb
def test_every_usual_spelling_of_the_url_works(settings: Settings, tracker_url: str) -> None:
    for place, scheme in enumerate(("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")):
        url = make_url(tracker_url).set(drivername=scheme).render_as_string(hide_password=False)
        engine = open_tracker(load_settings(home=settings.home, tracker_url=url))
        assert init_database(engine).created == (place == 0)
        require_current(engine)
        engine.dispose()


@only_mariadb
def test_the_password_is_in_no_message_or_repr(settings: Settings, tracker: Engine, mariadb: MariaDb) -> None:
    url = make_url(mariadb.url("nothing")).set(password=f"{PASSWORD}wrong")
    refused = open_tracker(load_settings(tracker_url=url.render_as_string(hide_password=False)))
    away = open_tracker(load_settings(tracker_url=url.set(port=1).render_as_string(hide_password=False)))
    failures: list[BaseException] = []
    for engine in (refused, away):
        for use in (init_database, require_current, lambda e: run_writing(e, lambda _: None, patience_seconds=0)):
            with pytest.raises(TrackerUnreachableError) as caught:
                use(engine)
            failures.append(caught.value)
    with pytest.raises(DBAPIError) as failed, tracker.connect() as connection:
        connection.execute(text("SELECT :secret FROM nowhere"), {"secret": PASSWORD})
    texts = ["".join(format_exception(one)) + repr(one) for one in [*failures, failed.value]]
    texts += [repr(settings), repr(tracker), repr(refused), database_label(tracker.url), str(tracker.url)]
    for shown in texts:
        assert "s3cret" not in shown
    assert "Check the user name and password in DCC_TRACKER_URL" in texts[0]
