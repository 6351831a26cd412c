"""Judges valid documents by all rules, with the functions of a session: they are applied to a scratch QC database.

`path_checks` imports this module only to judge by rules: checking against the schema needs none.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, func, select

from dcc.databases.list_parameters import change_rows
from dcc.databases.transactions import run_writing
from dcc.declarations import message_of
from dcc.documents.contents import Content
from dcc.documents.origins import Origin, read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.errors import DatabaseUnreachableError, DiskFullError
from dcc.naming import Action, DocumentName
from dcc.outcomes import Problem, SubmissionKey
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_documents
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.apply.upload_findings import UploadFinding
from dcc.qc.apply.versions import is_lifetime_of
from dcc.qc.database import EMPTY_TABLES, scratch_database
from dcc.qc.judging.lookups import SqlLookups, questionable
from dcc.qc.models import BLOCK, DOCUMENT, ENTITY_TABLES, LIFETIME, SPECIMEN, QcBase
from dcc.qc.rows.documents import DocumentPlace
from dcc.qc.rows.prepared_file import DocumentWriter, PreparedFile, PreparedWriter
from dcc.qc.rows.stored_content import load_document
from dcc.reference.loading import ReferenceData
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.checking import (
    ABOUT_SPECIMENS,
    AWAITING_SPECIMENS,
    LEFT_TO_SESSIONS,
    check_against_others,
    check_contents,
    refused_blocks,
)
from dcc.rules.context import DocumentContext, latest_day
from dcc.rules.findings import Finding, with_value
from dcc.rules.upload import DUPLICATE
from dcc.runtime.clock import utc_today
from dcc.runtime.disk_space import comes_from_full_disk, no_space_left
from dcc.session.data.upload_order import DueDocument, document_to_apply, groups_to_apply, in_order_of_upload
from dcc.tracker.states import VALID
from dcc.validation.verdicts import DraftFile, EntityInDocument, PathVerdict, RuleProblem
from dcc.vocabulary import DocumentState

_ROWS_HELD: Final = 1_000
_LAST_VERSIONS: Final = (
    select(func.max(SPECIMEN.c.id))
    .group_by(SPECIMEN.c.centre, SPECIMEN.c.specimen_id)
    .having(func.max(SPECIMEN.c.is_current).is_(False))
)
_PRESUMED: Final = (
    select(SPECIMEN.c.id)
    .join(DOCUMENT, DOCUMENT.c.id == SPECIMEN.c.document_id)
    .where(SPECIMEN.c.id.in_(_LAST_VERSIONS), DOCUMENT.c.action == Action.EDIT.value)
)
"""The animals that are presumed to be there: an edit was the last to name them, and no other document submits them."""
_FORMER: Final = {
    kind: select(table.c.document_id, BLOCK.c.position, table.c.position)
    .join(BLOCK, BLOCK.c.id == table.c.block_id)
    .join(LIFETIME, is_lifetime_of(kind))
    .where(LIFETIME.c.ended_by.is_not(None), ~table.c.is_current)
    for kind, table in ENTITY_TABLES.items()
}
"""The entities that were replaced or deleted: their document, centre element and position."""


@dataclass(frozen=True, slots=True)
class _Document(DueDocument):
    """A document as if uploaded, by its number; its rows and own findings are known.

    It is in `archive`, if in any; `refused` are the centre elements that rules refuse, and `copy` is read if rows are
    missing. Once applied, it has an `id` in the scratch database. `presumed`: what it edits is in no other document. If
    that is not there, all of it is refused, and a session judges nothing of it.
    """

    path: str = ""
    archive: Path | None = None
    origin: Origin | None = None
    refused: set[int | None] = field(default_factory=set)
    copy: Path | None = None
    id: int = 0
    presumed: bool = False

    @property
    def place(self) -> DocumentPlace:
        """Its origin: the archive, or the folder or table, that it was found in, and its name there."""
        if self.archive is not None:
            return DocumentPlace(str(self.archive), self.path.removeprefix(f"{self.archive}/"))
        path = Path(self.path).absolute()
        return DocumentPlace(str(path.parent), path.name)


class Judge:
    """Adds the findings of rules to drafts, at most `max_problems` errors and as many warnings for a document.

    Threads may share it.
    """

    def __init__(
        self, folder: Path, engine: Engine, schemas: SchemaSet, reference: ReferenceData, max_problems: int
    ) -> None:
        self._folder, self._engine = folder, engine
        self._schemas, self._reference, self._max_problems = schemas, reference, max_problems
        self._rows = folder / "documents.rows"
        columns = columns_for(engine)._replace(left_out=EMPTY_TABLES)
        self._writer = PreparedWriter(self._rows, "", columns, _ROWS_HELD)
        self._turn = Lock()
        self._accepted = AcceptedElements()
        self._documents: list[_Document] = []
        self._archives: dict[Path, int] = {}

    def judge(
        self,
        draft: PathVerdict,
        path: Path,
        action: Action,
        name: DocumentName | None = None,
        archive: Path | None = None,
        *,
        takes_effect: bool = True,
    ) -> None:
        """Add the rules' findings on a document, if it is valid, without those that depend on other documents.

        `name` is None if that does not conform, `archive` the one that the document is in, if any. `takes_effect`:
        whether a session applies it if it is valid, since it takes its archive.
        """
        kind = None if draft.errors else self._schemas.kind_of_file(path)
        if kind is None:
            return
        key = SubmissionKey(action, path.name if archive is None else archive.name)
        # One without a proper name comes last of its kind.
        name = name or DocumentName(path.name, "", date.max, 0, kind)
        # The rows of a document follow one another.
        with self._turn:
            number = len(self._documents)
            za_id = self._archives.setdefault(archive or Path(draft.path), len(self._archives))
            due = number, za_id, key, None, name, path.stat().st_size, str(number), VALID
            document = _Document(*due, path=draft.path, archive=archive, origin=read_origin(path))
            contents = read_document(path, kind)
            rows = self._writer.document(kind) if takes_effect else None
            if rows is not None:
                contents = _written(contents, rows)
            if action is not Action.DELETE:
                found = check_contents(contents, self._context(document), ABOUT_SPECIMENS, self._accepted)
                draft.add(map(_problem_of, _noting(found, document.refused)), self._max_problems)
            if rows is not None:
                self._documents.append(self._finished(document, path, contents, rows))

    def _finished(
        self, document: _Document, path: Path, contents: Iterator[Content], rows: DocumentWriter
    ) -> _Document:
        # The rest, after the rules stopped; a session checks no rule on documents that delete.
        for _ in contents:
            pass
        number = str(document.xml_id)
        rows.finish(number, number, None, document.origin)
        if self._writer.documents[-1]["whole"]:
            return document
        return replace(document, copy=shutil.copyfile(path, self._folder / number))

    def _context(self, one: _Document, lookups: SqlLookups | None = None) -> DocumentContext:
        return DocumentContext(one.key.action, one.name.centre, utc_today(), self._reference, lookups, one.origin)

    def judge_together(self, kept: DraftFile) -> None:
        """Store the findings that depend on other documents."""
        self._writer.close()
        standing = list(self._apply(kept))
        with self._engine.connect() as connection:
            presumed = connection.scalars(_PRESUMED).all()
            former = _former_entities(connection)
        for one in standing:
            if one.id in former:
                kept.add(one.path, former=former[one.id])
        if not presumed:
            self._judge_applied(standing, ABOUT_SPECIMENS, kept)
            return
        submitted = [one for one in standing if not one.presumed]
        self._judge_applied(submitted, AWAITING_SPECIMENS, kept)
        run_writing(self._engine, lambda connection: change_rows(connection, SPECIMEN.c.id, presumed, is_current=True))
        self._judge_applied(submitted, ABOUT_SPECIMENS - AWAITING_SPECIMENS, kept)
        self._judge_applied([one for one in standing if one.presumed], ABOUT_SPECIMENS, kept)

    def _apply(self, kept: DraftFile) -> Iterator[_Document]:
        """Apply the documents in the order of a session, and store what the upload finds; those to be judged."""
        QcBase.metadata.create_all(self._engine)
        # Threads give them in any order, in which those of one name would stay.
        due = in_order_of_upload(sorted(self._documents, key=lambda one: one.path))
        with closing(PreparedFile(self._rows)) as file:
            for group in groups_to_apply(due, lambda _: file, 1):
                documents = [_with_rows(one, file) for one in group]
                applied = apply_documents(self._engine, documents, patience_seconds=0)
                for one, result in zip(group, applied, strict=True):
                    yield from self._take(one, result, kept)

    def _take(self, one: _Document, applied: AppliedDocument, kept: DraftFile) -> Iterator[_Document]:
        """Store what the upload found in a document; yields it if it is judged."""
        shown = [finding for finding in applied.findings if finding.rule not in LEFT_TO_SESSIONS]
        is_refused = applied.state is DocumentState.REFUSED
        # Of what is only perhaps refused, more is told.
        takes_no_effect = applied.repeated or (is_refused and shown == list(applied.findings))
        if takes_no_effect or shown:
            problems = map(_problem_of, map(self._named, shown))
            kept.add(one.path, problems, takes_no_effect=takes_no_effect)
        if not takes_no_effect and one.key.action is not Action.DELETE:
            yield replace(one, id=applied.document_id, presumed=is_refused)

    def _named(self, finding: UploadFinding) -> UploadFinding:
        """A finding that names the document which it refers to, if any, by its path instead of its number."""
        details = finding.details
        if finding.rule == DUPLICATE:
            archive, file_name = self._documents[int(details["archive"].partition("/")[2])].place
            return replace(finding, details={**details, "document": file_name, "archive": archive})
        if "document" not in details:
            return finding
        path = self._documents[int(details["document"].split("/")[1])].path
        return replace(finding, details={**details, "document": path})

    def _judge_applied(self, standing: Sequence[_Document], rules: Collection[str], kept: DraftFile) -> None:
        """Store the findings of rules about other documents, as these are applied now."""
        with self._engine.connect() as connection:
            lookups = SqlLookups(connection)
            asked = questionable(connection, [one.id for one in standing], latest_day(utc_today()))
            for one in standing:
                if one.copy is not None:
                    contents = read_document(one.copy, one.name.kind)
                elif one.id in asked:
                    contents = load_document(connection, one.id)
                else:
                    continue
                found = check_against_others(contents, self._context(one, lookups), one.refused, rules)
                kept.add(one.path, map(_problem_of, found))

    def close(self) -> None:
        """Close the file of rows, if it was not."""
        self._writer.discard()


@contextmanager
def judge_by(schemas: SchemaSet, reference: ReferenceData, max_problems: int) -> Iterator[Judge]:
    """A judge, whose files are gone at the end. Raises DiskFullError if they have no room."""
    with TemporaryDirectory(prefix="dcc-validate-") as folder:
        place = Path(folder) / "qc.db"
        place.touch()
        with (
            scratch_database(place) as engine,
            closing(Judge(Path(folder), engine, schemas, reference, max_problems)) as judge,
        ):
            try:
                yield judge
            except (sqlite3.Error, DatabaseUnreachableError) as error:
                if not comes_from_full_disk(error, Path(folder)):
                    raise
                full = f"There is {no_space_left(Path(folder))}. Free some space, or set TMPDIR."
                raise DiskFullError(full) from error


def _with_rows(one: DueDocument, file: PreparedFile) -> DocumentWithRows:
    # Nobody knows what centres delegated, and none is late among documents that are submitted together.
    number, to_apply = str(one.xml_id), document_to_apply(one, None, first_of_batch=1)
    return DocumentWithRows(replace(to_apply, zip_file=number), file.document(number, number))


def _written(contents: Iterable[Content], rows: DocumentWriter) -> Iterator[Content]:
    for content in contents:
        rows.take(content)
        yield content


def _noting(findings: Iterable[Finding], refused: set[int | None]) -> Iterator[Finding]:
    for finding in findings:
        refused |= refused_blocks([finding])
        yield finding


def _former_entities(connection: Connection) -> dict[int, set[EntityInDocument]]:
    """The replaced and deleted entities of each document, by its id."""
    former: dict[int, set[EntityInDocument]] = defaultdict(set)
    for kind, query in _FORMER.items():
        for document_id, block, position in connection.execute(query):
            former[document_id].add(EntityInDocument(block, kind, position))
    return former


def _problem_of(finding: Finding | UploadFinding) -> Problem:
    text = message_of(finding.code, with_value(finding.details, finding.value))
    told = finding.rule, text, finding.line, None, finding.code, finding.severity
    if isinstance(finding, UploadFinding):
        return Problem(*told)
    entity = EntityInDocument(finding.block, finding.entity_kind, finding.entity)
    return RuleProblem(*told, entity=entity, may_be_there=finding.rule in AWAITING_SPECIMENS)
