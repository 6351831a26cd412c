"""Documents of the QC database for the tests, made of their contents."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from hashlib import md5
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import RollBackError, run_writing
from dcc.documents.contents import (
    Block,
    Content,
    Entity,
    Experiment,
    Housing,
    Line,
    Procedure,
    SimpleParameter,
    Specimen,
)
from dcc.naming import Action, DocumentKind
from dcc.qc.apply import withdrawal
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_documents
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.apply.planned_changes import Plan
from dcc.qc.apply.planned_changes import plan_document as plan_prepared
from dcc.qc.apply.upload_lock import lock_centres_of
from dcc.qc.rows.documents import DocumentToApply
from dcc.qc.rows.prepared_file import PreparedFile, PreparedWriter
from tests.support import integrity_cases
from tests.support.integrity_cases import element, mutant

PROCEDURE = "IMPC_CBC_001"
_numbers = count(1)


def specimen(specimen_id: str, litter: str = "L1", position: int = 1, **changes: object) -> Specimen:
    place = {"line": position + 3, "position": position, "specimen_id": specimen_id, "litter_id": litter}
    what = {"pipeline": "IMPC_001", "project": "MRC", "dob": "2013-05-01", "colony_id": "C1"}
    return mutant(**place | what | changes)


def procedure(value: str, procedure_id: str = PROCEDURE) -> Procedure:
    simple = SimpleParameter(9, f"{procedure_id}_001", None, "g", value, None)
    return element(Procedure, line=8, procedure_id=procedure_id, simple=(simple,))


def experiment(
    experiment_id: str,
    specimens: Iterable[str] = ("S1",),
    value: str = "1.5",
    procedure_id: str = PROCEDURE,
    sequence_id: str | None = None,
    position: int = 1,
) -> Experiment:
    said = {"experiment_id": experiment_id, "sequence_id": sequence_id, "specimen_ids": tuple(specimens)}
    return integrity_cases.experiment(procedure(value, procedure_id), position=position, **said)


def line(colony: str, value: str = "1", procedure_id: str = PROCEDURE, position: int = 1) -> Line:
    return integrity_cases.line(position=position, colony_id=colony, procedure=procedure(value, procedure_id))


def housing(value: str = "1", last_updated: str | None = None, position: int = 1) -> Housing:
    return Housing(7, position, "true", last_updated, procedure(value, "IMPC_HOU_001"))


def block(kind: DocumentKind, centre: str = "H", position: int = 1) -> Block:
    of_experiments = kind is DocumentKind.EXPERIMENT
    return Block(2, position, centre, "IMPC_001" if of_experiments else None, "MRC" if of_experiments else None)


def contents(*entities: Entity, centre: str = "H") -> list[Content]:
    kind = DocumentKind.SPECIMEN if isinstance(entities[0], Specimen) else DocumentKind.EXPERIMENT
    placed = [entity._replace(position=place) for place, entity in enumerate(entities, start=1)]
    return [block(kind, centre), *placed]


def to_apply(
    action: Action,
    kind: DocumentKind,
    *,
    centre: str = "H",
    created: date = date(2013, 10, 31),
    tracker_id: int | None = None,
    zip_file: str | None = None,
    first_of_batch: int | None = None,
) -> DocumentToApply:
    """A document of its own archive."""
    number = next(_numbers)
    name = f"{centre}.{created}.{number}"
    return DocumentToApply(
        action=action,
        zip_file=zip_file or f"{name}.impc.zip",
        file_name=f"{name}.{kind.value}.impc.xml",
        kind=kind,
        centre=centre,
        created=created,
        inc=number,
        md5=md5(name.encode()).hexdigest(),
        size_bytes=1_000,
        tracker_id=tracker_id,
        first_of_batch=first_of_batch,
    )


@contextmanager
def prepared(engine: Engine, *documents: tuple[DocumentToApply, Iterable[Content]]) -> Iterator[list[DocumentWithRows]]:
    """Documents prepared in one file for a QC database, as a session has them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "prepared.rows"
        writer = PreparedWriter(path, "", columns_for(engine))
        for document, said in documents:
            rows = writer.document(document.kind)
            for content in said:
                rows.take(content)
            rows.finish(document.file_name, document.md5, None)
        writer.close()
        file = PreparedFile(path)
        try:
            yield [DocumentWithRows(one, file.document(one.file_name, one.md5)) for one, _ in documents]
        finally:
            file.close()


def apply_document(
    engine: Engine, document: DocumentToApply, read: Callable[[], Iterable[Content]], **options: object
) -> AppliedDocument:
    """Apply a document of what `read` yields."""
    with prepared(engine, (document, read())) as to_apply:
        (applied,) = apply_documents(engine, to_apply, **options)  # type: ignore[arg-type]
    return applied


def plan_document(
    engine: Engine, document: DocumentToApply, read: Callable[[], Iterable[Content]], **options: object
) -> Plan:
    """What a document of what `read` yields would change."""
    with prepared(engine, (document, read())) as (to_apply,):
        return plan_prepared(engine, to_apply, **options)  # type: ignore[arg-type]


def apply(engine: Engine, action: Action, *entities: Entity, **options: object) -> AppliedDocument:
    """Apply a document of these entities."""
    kind = DocumentKind.SPECIMEN if isinstance(entities[0], Specimen) else DocumentKind.EXPERIMENT
    document = to_apply(action, kind, **options)  # type: ignore[arg-type]
    return apply_document(engine, document, reading(*entities, centre=document.centre), patience_seconds=5)


def reading(*entities: Entity, centre: str = "H") -> Callable[[], list[Content]]:
    """What `apply_document` calls."""
    return lambda: contents(*entities, centre=centre)


def undo_documents(
    engine: Engine,
    document_ids: Iterable[int],
    *,
    author: str | None = None,
    reason: str | None = None,
    patience_seconds: float = 60,
) -> withdrawal.WithdrawalResult:
    """Withdraw documents by their ids, as `undo_submission` does those of an archive."""
    ids = tuple(document_ids)

    def work(connection: Connection) -> withdrawal.WithdrawalResult:
        lock_centres_of(connection, ids)
        undone = withdrawal.undo_on(connection, ids, author, reason)
        if undone.builders:
            raise RollBackError(undone)
        return undone

    return run_writing(engine, work, patience_seconds=patience_seconds)
