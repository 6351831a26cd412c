"""Prepares stored archives, and applies and judges their documents, as a session does, in scratch files alone.

Judging writes nothing, so that several processes may judge documents of one scratch database.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from dcc.databases.engines import MAX_ATTACHED
from dcc.databases.transactions import run_reading
from dcc.documents.origins import Origin
from dcc.documents.reading import read_document
from dcc.errors import (
    ConfigurationError,
    DatabaseUnreachableError,
    DccError,
    DiskFullError,
    InternalFaultError,
    fault_of,
)
from dcc.naming import Action, DocumentName
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_documents
from dcc.qc.database import scratch_database
from dcc.qc.judging import documents as judging
from dcc.qc.judging.documents import lock_documents, newest_document
from dcc.qc.judging.lookups import SqlLookups, questionable
from dcc.qc.reference.snapshots import ActiveReference
from dcc.qc.rows.loading import load_document
from dcc.qc.rows.prepared_file import PreparedDocument, PreparedFile, PreparedWriter
from dcc.replay.verdicts import ACCEPTED, HELD, NOT_OPENED, ReplayFact, ReplayVerdict, failed
from dcc.rights import Delegations
from dcc.rules.checking import all_rules, check_against_others, check_contents, refused_blocks
from dcc.rules.context import DocumentContext, latest_day
from dcc.rules.findings import Finding, unpacked
from dcc.rules.waivers import Waiver
from dcc.session.data.document_problems import problems_of
from dcc.session.data.upload_order import DueDocument, document_to_apply, groups_to_apply, in_order_of_upload
from dcc.session.prepare.archive_checks import ArchiveChecker, Setup, UnopenedArchive
from dcc.session.prepare.documents import ArchiveToPrepare, PreparationBasis, prepare_into, valid_documents
from dcc.store.staging import Staging
from dcc.tracker.archive_names import stored_name
from dcc.vocabulary import DocumentState

_OPEN: Final = 16


class ArchiveToOpen(NamedTuple):
    """An archive, its centre, the place of its bytes and their MD5."""

    key: SubmissionKey
    centre: str | None
    path: Path
    md5: str | None


class OpenedDocument(NamedTuple):
    """A document of a stored archive. `verdict` is None if it goes on to be applied, from the file `prepared`.

    `centres` are those of its data. `name` is None for one whose name is refused.
    """

    file_name: str
    name: DocumentName | None
    size_bytes: int
    md5: str | None
    verdict: ReplayVerdict | None
    prepared: str = ""
    centres: tuple[str, ...] = ()


class ReplayDocument(NamedTuple):
    """A document to be applied and judged, in the session `batch`; what `is_confirmed` was applied before, or allowed.

    It may change any data then.
    """

    document: DueDocument
    prepared: str
    batch: int
    is_confirmed: bool


class StandingDocument(NamedTuple):
    """A document that was applied to a scratch QC database, with its id there; `is_noted`: the upload has findings."""

    id: int
    document: DueDocument
    prepared: str
    is_noted: bool


class AppliedGroup(NamedTuple):
    """The scratch QC database of some documents, those to be judged, and verdicts on the others by `xml_id`."""

    place: Path
    standing: list[StandingDocument]
    verdicts: dict[int, ReplayVerdict]


@dataclass
class Replayer:
    """Replays archives below the folder `root`, which has the empty QC database `TEMPLATE`. It has no secrets.

    `rules` names the proposed rules, if any.
    """

    root: Path
    setup: Setup
    basis: PreparationBasis
    waivers: tuple[Waiver, ...]
    limit: int
    hold_threshold: int | None
    delegations: Delegations
    rules: str | None = None

    TEMPLATE = "empty.db"

    @cached_property
    def checker(self) -> ArchiveChecker:
        """What opens archives."""
        return ArchiveChecker(self.setup)

    @cached_property
    def staging(self) -> Staging:
        """Where documents are extracted; those that have to be read again stay."""
        return Staging(self.root / "staging")

    @cached_property
    def judging_basis(self) -> judging.JudgingBasis:
        """What documents are judged by."""
        return judging.JudgingBasis(
            ActiveReference(self.basis.reference, {}), self.waivers, self.basis.today, self.limit
        )

    def require_rules(self, module: str) -> None:
        """Raise ConfigurationError if a proposed module registers no rule."""
        package = module.partition(".")[0]
        if not any(rule.check.__module__.partition(".")[0] == package for rule in all_rules().values()):
            raise ConfigurationError(f"The module {module} registers no rule. Name the module with the rules.")

    def prepare(self, archives: Sequence[ArchiveToOpen]) -> list[list[OpenedDocument]]:
        """Open archives, and prepare their documents; the documents of each.

        An archive that is not opened is a document without a name. Raises DiskFullError and OSError.
        """
        by_action = groupby(archives, key=lambda one: one.key.action)
        return [documents for _, same in by_action for documents in self._prepare(list(same))]

    def _prepare(self, archives: Sequence[ArchiveToOpen]) -> list[list[OpenedDocument]]:
        """Prepare archives of one action in one file, which tells documents by their names and texts alone."""
        target = self.root / f"{uuid.uuid4().hex}.rows"
        writer = PreparedWriter(target, self.basis.name, self.basis.columns)
        opened = [self._open(archive, writer, target) for archive in archives]
        writer.close()
        file = PreparedFile(target)
        return [
            [self._prepared(archive, one, file) for one in some] for archive, some in zip(archives, opened, strict=True)
        ]

    def _open(self, archive: ArchiveToOpen, writer: PreparedWriter, target: Path) -> list[OpenedDocument]:
        key = archive.key
        self.staging.prepare(key)
        contents = self.staging.contents(key)
        found = self.checker.check(archive.path, contents, archive.md5)
        if isinstance(found, UnopenedArchive):
            return [OpenedDocument("", None, 0, None, ReplayVerdict(NOT_OPENED))]
        try:
            faults = prepare_into(
                writer, ArchiveToPrepare(key, archive.centre, target, valid_documents(found)), self.basis
            )
        except (sqlite3.Error, OSError) as error:
            raise self._unwritable(error) from error
        opened = []
        for one, problems in found.documents:
            verdict = _verdict(failed(Phase.XSD), problems) if problems else None
            if (fault := faults.get(one.name.file_name)) is not None:
                if isinstance(fault, sqlite3.Error | OSError):
                    raise self._unwritable(fault)
                verdict = _failed_upload(fault)
            opened.append(OpenedDocument(one.name.file_name, one.name, one.size_bytes, one.md5, verdict))
        for file_name, size_bytes, problem in found.archive.refused:
            verdict = _verdict(failed(Phase.XML_NAME), [problem])
            opened.append(OpenedDocument(stored_name(file_name), None, size_bytes, None, verdict))
        return opened

    def _unwritable(self, fault: Exception) -> DiskFullError:
        return DiskFullError(f"{self.root} cannot be written: {fault}. Free some space, or set TMPDIR.")

    def _prepared(self, archive: ArchiveToOpen, one: OpenedDocument, file: PreparedFile) -> OpenedDocument:
        """A document with what was prepared of it; its text is removed unless it has to be read again."""
        if one.name is None:
            return one
        is_needed = False
        if one.verdict is None:
            prepared = file.document(one.file_name, one.md5 or "")
            is_known = prepared.findings is not None or archive.key.action is Action.DELETE
            is_needed = not (prepared.whole and is_known)
            one = one._replace(prepared=str(file.path), centres=tuple(prepared.centres))
        if not is_needed:
            (self.staging.contents(archive.key) / one.file_name).unlink()
        return one

    def apply(self, documents: Sequence[ReplayDocument]) -> AppliedGroup:
        """Apply documents to a scratch QC database in their order, session by session.

        They share no data with documents that are applied apart from them.
        """
        place = self.root / f"{uuid.uuid4().hex}.db"
        shutil.copyfile(self.root / self.TEMPLATE, place)
        with scratch_database(place) as engine, closing(_Files()) as files:
            application = _Application(self, engine, files)
            for _, batch in groupby(sorted(documents, key=attrgetter("batch")), key=attrgetter("batch")):
                application.apply(list(batch))
        return AppliedGroup(place, application.standing, application.verdicts)

    def judge(self, place: Path, documents: Sequence[StandingDocument]) -> dict[int, ReplayVerdict]:
        """The verdicts on applied documents by `xml_id`."""
        with scratch_database(place) as engine, closing(_Files()) as files, engine.connect() as connection:
            return _Judging(self, connection, files).judge(documents)


class _Files:
    """Prepared files; the last few are kept open."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, PreparedFile] = OrderedDict()

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def document(self, one: ReplayDocument | StandingDocument) -> PreparedDocument:
        file = self._open.pop(one.prepared, None) or PreparedFile(Path(one.prepared))
        self._open[one.prepared] = file
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return file.document(one.document.name.file_name, one.document.md5 or "")


class _Application:
    def __init__(self, replayer: Replayer, engine: Engine, files: _Files) -> None:
        self._replayer, self._engine, self._files = replayer, engine, files
        self.verdicts: dict[int, ReplayVerdict] = {}
        self.standing: list[StandingDocument] = []

    def apply(self, batch: Sequence[ReplayDocument]) -> None:
        """Apply the documents of a session: additions in groups, all others one by one."""
        first_of_batch = run_reading(self._engine, newest_document, patience_seconds=0) + 1
        by_id = {one.document.xml_id: one for one in batch}
        groups = groups_to_apply(
            in_order_of_upload(one.document for one in batch),
            lambda document: document.key.action is Action.ADD,
            lambda document: by_id[document.xml_id].prepared,
            MAX_ATTACHED,
        )
        for group in groups:
            self._apply([by_id[document.xml_id] for document in group], first_of_batch)

    def _apply(self, group: Sequence[ReplayDocument], first_of_batch: int) -> None:
        try:
            applied = apply_documents(
                self._engine,
                [self._to_apply(one, first_of_batch) for one in group],
                hold_threshold=None if group[0].is_confirmed else self._replayer.hold_threshold,
            )
        except DatabaseUnreachableError:
            raise
        except Exception as error:
            if len(group) == 1:
                self.verdicts[group[0].document.xml_id] = _failed_upload(error)
                return
            for one in group:
                self._apply([one], first_of_batch)
            return
        for one, result in zip(group, applied, strict=True):
            self._take(one, result)

    def _to_apply(self, one: ReplayDocument, first_of_batch: int) -> DocumentWithRows:
        to_apply = document_to_apply(one.document, self._replayer.delegations, first_of_batch)
        prepared = self._files.document(one)
        return DocumentWithRows(replace(to_apply, rights=None) if one.is_confirmed else to_apply, prepared)

    def _take(self, one: ReplayDocument, applied: AppliedDocument) -> None:
        if applied.state is DocumentState.APPLIED:
            noted = bool(applied.findings)
            self.standing.append(StandingDocument(applied.document_id, one.document, one.prepared, noted))
            return
        outcome = HELD if applied.state is DocumentState.HELD else failed(Phase.UPLOAD)
        entries = [finding.entry() for finding in applied.findings]
        self.verdicts[one.document.xml_id] = _verdict(outcome, problems_of(entries, len(entries), self._replayer.limit))


class _Judging:
    """Documents of a scratch QC database that are judged; nothing is written."""

    def __init__(self, replayer: Replayer, connection: Connection, files: _Files) -> None:
        self._replayer, self._connection, self._files = replayer, connection, files
        self._basis = replayer.judging_basis

    def judge(self, documents: Sequence[StandingDocument]) -> dict[int, ReplayVerdict]:
        """The verdicts by `xml_id`."""
        findings = {one.id: self._findings(one) for one in documents}
        known = [document_id for document_id, found in findings.items() if found is not None]
        questionable_ids = questionable(self._connection, known, latest_day(self._basis.today))
        verdicts = {}
        for standing in documents:
            document, found = standing.document, findings[standing.id]
            if document.key.action is Action.DELETE:
                found = []
            elif found is None:
                path = self._replayer.staging.contents(document.key) / document.name.file_name
                contents = read_document(path, document.name.kind)
                found = list(check_contents(contents, self._context(standing)))
            elif standing.id in questionable_ids:
                # With those of the rules about specimens of other documents.
                contents = load_document(self._connection, standing.id)
                added = check_against_others(contents, self._context(standing), refused_blocks(found))
                found = sorted([*found, *added], key=attrgetter("line"))
            is_clean = not (found or standing.is_noted)
            verdicts[document.xml_id] = ReplayVerdict(ACCEPTED) if is_clean else self._verdict(standing, found)
        return verdicts

    def _findings(self, one: StandingDocument) -> list[Finding] | None:
        """The prepared findings; None if the document has to be read again."""
        prepared = self._files.document(one)
        if not prepared.whole or prepared.findings is None:
            return None
        return [unpacked(each) for each in prepared.findings]

    def _context(self, one: StandingDocument) -> DocumentContext:
        origin = Origin.from_json(self._files.document(one).origin)
        name, reference, today = one.document.name, self._basis.reference.data, self._basis.today
        lookups = SqlLookups(self._connection)
        return DocumentContext(one.document.key.action, name.centre, today, reference, lookups, origin=origin)

    def _verdict(self, one: StandingDocument, findings: Sequence[Finding]) -> ReplayVerdict:
        document = lock_documents(self._connection, [one.id])[one.id]
        judged = judging.assess(self._connection, document, findings, self._basis)
        problems = problems_of(judged.findings, sum(judged.counts.values()), self._basis.limit)
        return _verdict(failed(Phase.DATA) if judged.failed else ACCEPTED, problems)


def _failed_upload(error: Exception) -> ReplayVerdict:
    if not isinstance(error, DccError):
        error = InternalFaultError(f"{fault_of(error)}. This is a fault of the platform: report it.")
    return _verdict(failed(Phase.UPLOAD), [Problem.of(error)])


def _verdict(outcome: str, problems: Sequence[Problem]) -> ReplayVerdict:
    return ReplayVerdict(outcome, tuple(map(ReplayFact.of, problems)))
