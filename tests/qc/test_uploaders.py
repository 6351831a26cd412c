"""Several processes that apply documents at once do it one after the other, on SQLite and on MariaDB."""

from collections.abc import Callable
from datetime import date

from sqlalchemy import Engine, select

from dcc.databases.schema import init_database
from dcc.documents.contents import Entity
from dcc.naming import Action, DocumentKind
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT
from dcc.qc.rows.documents import DocumentToApply
from dcc.settings import Settings
from tests.support.asking import closing_all, column_in
from tests.support.qc_child import finish, start
from tests.support.qc_documents import apply_document, experiment, reading, specimen, to_apply
from tests.support.qc_files import all_rows
from tests.support.trials import trials

PATIENCE = 40
UPLOADERS = 3
DOCUMENTS = trials(24)

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
