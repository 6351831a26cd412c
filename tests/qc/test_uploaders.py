"""Several processes that apply documents at once do it one after the other, on SQLite and on MariaDB."""

import threading
import time
from collections.abc import Callable
from datetime import date

import pytest
from sqlalchemy import Connection, Engine, select
from sqlalchemy.exc import DBAPIError

from dcc.databases import engines
from dcc.databases.schema import init_database
from dcc.databases.transactions import writing
from dcc.documents.contents import Entity
from dcc.errors import QcDatabaseUnreachableError
from dcc.naming import Action, DocumentKind
from dcc.qc.apply.upload_lock import lock_centres
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.qc.rows.documents import DocumentToApply
from dcc.settings import Settings
from tests.qc.test_applying import litters
from tests.support.asking import closing_all, column_in
from tests.support.qc_child import event, finish, start
from tests.support.qc_documents import apply_document, experiment, reading, specimen, to_apply
from tests.support.qc_files import all_rows
from tests.support.trials import trials

PATIENCE = 40
UPLOADERS = 3
DOCUMENTS = trials(24)
SHORT = 0.2
"""Seconds after which SQLite says that others are in the way, instead of half a minute; MariaDB says so at once."""
LONGER = 0.6

Submission = tuple[DocumentToApply, tuple[Entity, ...]]


def submissions(uploader: int) -> list[Submission]:
    """Documents that add, change and delete the same few animals as those of the other uploaders do."""
    made: list[Submission] = []
    for number in range(DOCUMENTS):
        action = (Action.ADD, Action.EDIT, Action.ADD, Action.DELETE)[number % 4]
        if number % 3 == 2:
            entities: tuple[Entity, ...] = (experiment(f"E{number % 5}", (f"S{number % 3}",), f"{uploader}{number}"),)
        else:
            entities = tuple(specimen(f"S{one}", f"L{uploader}-{number}") for one in range(number % 4 + 1))
        kind = DocumentKind.EXPERIMENT if number % 3 == 2 else DocumentKind.SPECIMEN
        made.append((to_apply(action, kind, created=date(2013, 10, 1 + number % 5)), entities))
    return made


def upload(engine: Engine, handed_in: list[Submission]) -> None:
    for document, entities in handed_in:
        apply_document(engine, document, reading(*entities), patience_seconds=PATIENCE)


def test_uploaders_at_once_yield_what_one_would_have_in_the_order_of_the_documents_ids(
    qc_database: Engine, qc_settings: Settings
) -> None:
    of_all = [submissions(uploader) for uploader in range(UPLOADERS)]

    def uploading(handed_in: list[Submission]) -> Callable[[Engine], object]:
        return lambda engine: upload(engine, handed_in)

    processes = [start(qc_settings, uploading(handed_in)) for handed_in in of_all]
    assert [finish(process) for process in processes] == [0] * UPLOADERS
    order = column_in(qc_database, select(DOCUMENT.c.zip_file).order_by(DOCUMENT.c.id))
    by_zip = {document.zip_file: (document, entities) for of_one in of_all for document, entities in of_one}
    assert sorted(order) == sorted(by_zip)
    parallel = all_rows(qc_database)
    alone = qc_settings.model_copy(update={"qc_url": None, "home": qc_settings.home / "serial"})
    with closing_all(open_qc_database(alone)) as serial:
        init_database(serial)
        upload(serial, [by_zip[name] for name in order])
        assert all_rows(serial) == parallel


def lock_h(connection: Connection) -> None:
    lock_centres(connection, ["H"])


def wait_until_held(engine: Engine, settings: Settings) -> None:
    """Until another process holds the upload lock."""
    with closing_all(open_impatient(settings)) as probe:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                with probe.connect() as connection, connection.begin():
                    if engine.dialect.name == "sqlite":
                        connection.exec_driver_sql("UPDATE upload_lock SET id = id WHERE id = 1")
                    else:
                        connection.exec_driver_sql("SELECT * FROM upload_lock WHERE id = 1 FOR UPDATE NOWAIT")
            except DBAPIError:
                return
            time.sleep(0.02)
    raise AssertionError("Nobody took the lock.")


def open_impatient(settings: Settings, seconds: int = 0) -> Engine:
    """An engine whose server lets no statement wait for longer than some seconds; SQLite gives up after `SHORT`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "BUSY_SECONDS", SHORT)
        patch.setattr(engines, "_SESSION", engines._SESSION.replace("timeout = 30", f"timeout = {seconds}"))
        engine = open_qc_database(settings)
        with engine.connect():
            return engine


def test_who_waits_for_another_uploader_waits_for_as_long_as_patience_says(
    qc_database: Engine, qc_settings: Settings
) -> None:
    with qc_database.begin() as connection:
        lock_h(connection)
    waiting, released = open_impatient(qc_settings), event()

    def hold(engine: Engine) -> None:
        with writing(engine) as connection:
            lock_h(connection)
            released.wait(PATIENCE)

    holder = start(qc_settings, hold)
    try:
        wait_until_held(qc_database, qc_settings)
        with pytest.raises(QcDatabaseUnreachableError, match="other writers were in the way"):
            apply_document(
                waiting, to_apply(Action.ADD, DocumentKind.SPECIMEN), reading(specimen("S0")), patience_seconds=0.1
            )
        # Longer than either database waits by itself.
        threading.Timer(LONGER, released.set).start()
        document = to_apply(Action.ADD, DocumentKind.SPECIMEN)
        apply_document(waiting, document, reading(specimen("S1")), patience_seconds=PATIENCE)
        assert released.is_set()
    finally:
        released.set()
        finish(holder)
        waiting.dispose()
    assert litters(qc_database) == {"S1": "L1"}
