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
from typing import Final, NamedTuple, TypeAlias

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
from dcc.naming import Action
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase
from dcc.qc.apply.document_effect import AppliedDocument, DocumentWithRows
from dcc.qc.apply.documents import apply_documents
from dcc.qc.database import scratch_database
from dcc.qc.judging.documents import JudgingBasis, assess, lock_documents, newest_document
from dcc.qc.judging.lookups import SqlLookups, questionable
from dcc.qc.rows.prepared_file import PreparedDocument, PreparedFile, PreparedWriter
from dcc.qc.rows.stored_content import load_document
from dcc.replay.verdicts import ACCEPTED, HELD, NOT_OPENED, DocumentKey, ReplayFact, ReplayVerdict, failed
from dcc.rights import Delegations
from dcc.rules.checking import all_rules, check_against_others, check_contents, refused_blocks
from dcc.rules.context import DocumentContext, latest_day
from dcc.rules.findings import Finding, unpacked
from dcc.session.data.document_problems import problems_of
from dcc.session.data.upload_order import DueDocument, document_to_apply, groups_to_apply, in_order_of_upload
from dcc.session.prepare.archive_checks import ArchiveChecker, Setup, UnopenedArchive
from dcc.session.prepare.documents import ArchiveToPrepare, PreparationBasis, prepare_into, valid_documents
from dcc.store.staging import Staging
from dcc.tracker.archive_names import stored_name
from dcc.tracker.states import VALID
from dcc.vocabulary import DocumentState

_OPEN: Final = 16


class ArchiveToOpen(NamedTuple):
    """An archive, its centre, the place of its bytes and their MD5."""

    key: SubmissionKey
    centre: str | None
    path: Path
    md5: str | None


@dataclass(frozen=True, slots=True)
class ReplayDocument(DueDocument):
    """A document of a stored archive; each step of the replay adds what it finds out.

    Once opened, its rows are in the file `prepared`, and its data of `centres`. `session` is the one that first fetched
    it; `was_applied`: it was applied or allowed before, and may change any data. Once applied, it has an `id` in a
    scratch QC database; `is_noted`: the upload has findings.
    """

    prepared: str = ""
    centres: tuple[str, ...] = ()
    session: int = 0
    was_applied: bool = False
    id: int = 0
    is_noted: bool = False


Verdicts: TypeAlias = list[tuple[DocumentKey, ReplayVerdict]]


class StepResult(NamedTuple):
    """The result of a step: verdicts on the documents that end there, and the documents that go on."""

    verdicts: Verdicts
    documents: list[ReplayDocument]


@dataclass
class Replayer:
    """Replays archives below the folder `root`, which has the empty QC database `TEMPLATE`. It has no secrets.

    `rules` names the proposed rules, if any.
    """

    root: Path
    setup: Setup
    basis: PreparationBasis
    judging_basis: JudgingBasis
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

    def require_rules(self, module: str) -> None:
        """Raise ConfigurationError if a proposed module registers no rule."""
        package = module.partition(".")[0]
        if not any(rule.check.__module__.partition(".")[0] == package for rule in all_rules().values()):
            raise ConfigurationError(f"The module {module} registers no rule. Name the module with the rules.")

    def prepare(self, archives: Sequence[ArchiveToOpen]) -> list[StepResult]:
        """Open archives, and prepare their documents; returns the result of each.

        The verdict on an archive that is not opened has no name of a document. Raises DiskFullError and OSError.
        """
        by_action = groupby(archives, key=lambda one: one.key.action)
        return [step for _, same in by_action for step in self._prepare(list(same))]

    def _prepare(self, archives: Sequence[ArchiveToOpen]) -> list[StepResult]:
        """Prepare archives of one action in one file, which tells documents by their names and texts alone."""
        target = self.root / f"{uuid.uuid4().hex}.rows"
        writer = PreparedWriter(target, self.basis.name, self.basis.columns)
        opened = [self._open(archive, writer, target) for archive in archives]
        writer.close()
        file = PreparedFile(target)
        return [StepResult(verdicts, [self._prepared(one, file) for one in some]) for verdicts, some in opened]

    def _open(self, archive: ArchiveToOpen, writer: PreparedWriter, target: Path) -> StepResult:
        key = archive.key
        self.staging.prepare(key)
        contents = self.staging.contents(key)
        found = self.checker.check(archive.path, contents, archive.md5)
        if isinstance(found, UnopenedArchive):
            return StepResult([(DocumentKey(key, ""), ReplayVerdict(NOT_OPENED))], [])
        try:
            faults = prepare_into(
                writer, ArchiveToPrepare(key, archive.centre, target, valid_documents(found)), self.basis
            )
        except (sqlite3.Error, OSError) as error:
            raise self._unwritable(error) from error
        opened = StepResult([], [])
        for one, problems in found.documents:
            fault = faults.get(one.name.file_name)
            if isinstance(fault, sqlite3.Error | OSError):
                raise self._unwritable(fault)
            if problems or fault is not None:
                verdict = _verdict(failed(Phase.XSD), problems) if fault is None else _failed_upload(fault)
                opened.verdicts.append((DocumentKey(key, one.name.file_name), verdict))
                one.path.unlink()
                continue
            due = 0, 0, key, archive.centre, one.name, one.size_bytes, one.md5, VALID
            opened.documents.append(ReplayDocument(*due, prepared=target.name))
        for file_name, _, problem in found.archive.refused:
            verdict = _verdict(failed(Phase.XML_NAME), [problem])
            opened.verdicts.append((DocumentKey(key, stored_name(file_name)), verdict))
        return opened

    def _unwritable(self, fault: Exception) -> DiskFullError:
        return DiskFullError(f"{self.root} cannot be written: {fault}. Free some space, or set TMPDIR.")

    def _prepared(self, one: ReplayDocument, file: PreparedFile) -> ReplayDocument:
        """A document with the centres of its data; its text is removed unless it has to be read again."""
        prepared = file.document(one.name.file_name, one.md5 or "")
        if prepared.whole and (prepared.findings is not None or one.key.action is Action.DELETE):
            self.text_of(one).unlink()
        return replace(one, centres=tuple(prepared.centres))

    def text_of(self, document: ReplayDocument) -> Path:
        """The place of a document's text."""
        return self.staging.contents(document.key) / document.name.file_name

    def apply(self, database: str, documents: Sequence[ReplayDocument]) -> StepResult:
        """Apply documents to a scratch QC database of that name in their order, session by session.

        They share no data with documents that are applied apart from them.
        """
        shutil.copyfile(self.root / self.TEMPLATE, self.root / database)
        with scratch_database(self.root / database) as engine, closing(_Files(self.root)) as files:
            application = _Application(self, engine, files)
            for _, some in groupby(sorted(documents, key=attrgetter("session")), key=attrgetter("session")):
                application.apply(list(some))
        return application.done

    def judge(self, database: str, documents: Sequence[ReplayDocument]) -> Verdicts:
        """The verdicts on documents that were applied to a scratch QC database."""
        with (
            scratch_database(self.root / database) as engine,
            closing(_Files(self.root)) as files,
            engine.connect() as connection,
        ):
            return _Judging(self, connection, files).judge(documents)


class _Files:
    """Prepared files below a folder; the last few are kept open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, PreparedFile] = OrderedDict()

    def close(self) -> None:
        for file in self._open.values():
            file.close()

    def document(self, one: ReplayDocument) -> PreparedDocument:
        file = self._open.pop(one.prepared, None) or PreparedFile(self._folder / one.prepared)
        self._open[one.prepared] = file
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return file.document(one.name.file_name, one.md5 or "")


class _Application:
    def __init__(self, replayer: Replayer, engine: Engine, files: _Files) -> None:
        self._replayer, self._engine, self._files = replayer, engine, files
        self.done = StepResult([], [])

    def apply(self, documents: Sequence[ReplayDocument]) -> None:
        """Apply the documents of a session: additions in groups, all others one by one."""
        first_of_batch = run_reading(self._engine, newest_document, patience_seconds=0) + 1
        for group in groups_to_apply(in_order_of_upload(documents), lambda one: one.prepared, MAX_ATTACHED):
            self._apply(group, first_of_batch)

    def _apply(self, group: Sequence[ReplayDocument], first_of_batch: int) -> None:
        try:
            applied = apply_documents(
                self._engine,
                [self._to_apply(one, first_of_batch) for one in group],
                hold_threshold=None if group[0].was_applied else self._replayer.hold_threshold,
            )
        except DatabaseUnreachableError:
            raise
        except Exception as error:
            if len(group) == 1:
                self.done.verdicts.append((_key_of(group[0]), _failed_upload(error)))
                return
            for one in group:
                self._apply([one], first_of_batch)
            return
        for one, result in zip(group, applied, strict=True):
            self._take(one, result)

    def _to_apply(self, one: ReplayDocument, first_of_batch: int) -> DocumentWithRows:
        delegations = None if one.was_applied else self._replayer.delegations
        return DocumentWithRows(document_to_apply(one, delegations, first_of_batch), self._files.document(one))

    def _take(self, one: ReplayDocument, applied: AppliedDocument) -> None:
        if applied.state is DocumentState.APPLIED:
            self.done.documents.append(replace(one, id=applied.document_id, is_noted=bool(applied.findings)))
            return
        outcome = HELD if applied.state is DocumentState.HELD else failed(Phase.UPLOAD)
        found = applied.findings
        verdict = _verdict(outcome, problems_of(found, len(found), self._replayer.judging_basis.limit))
        self.done.verdicts.append((_key_of(one), verdict))


class _Judging:
    """Documents of a scratch QC database that are judged; nothing is written."""

    def __init__(self, replayer: Replayer, connection: Connection, files: _Files) -> None:
        self._replayer, self._connection, self._files = replayer, connection, files
        self._basis = replayer.judging_basis

    def judge(self, documents: Sequence[ReplayDocument]) -> Verdicts:
        findings = {one.id: self._findings(one) for one in documents}
        known = [document_id for document_id, found in findings.items() if found is not None]
        questionable_ids = questionable(self._connection, known, latest_day(self._basis.today))
        verdicts = []
        for document in documents:
            found = findings[document.id]
            if document.key.action is Action.DELETE:
                found = []
            elif found is None:
                contents = read_document(self._replayer.text_of(document), document.name.kind)
                found = list(check_contents(contents, self._context(document)))
            elif document.id in questionable_ids:
                # With those of the rules about specimens of other documents.
                contents = load_document(self._connection, document.id)
                added = check_against_others(contents, self._context(document), refused_blocks(found))
                found = sorted([*found, *added], key=attrgetter("line"))
            is_clean = not (found or document.is_noted)
            verdict = ReplayVerdict(ACCEPTED) if is_clean else self._verdict(document, found)
            verdicts.append((_key_of(document), verdict))
        return verdicts

    def _findings(self, one: ReplayDocument) -> list[Finding] | None:
        """The prepared findings; None if the document has to be read again."""
        prepared = self._files.document(one)
        if not prepared.whole or prepared.findings is None:
            return None
        return [unpacked(each) for each in prepared.findings]

    def _context(self, one: ReplayDocument) -> DocumentContext:
        origin = Origin.from_json(self._files.document(one).origin)
        reference, today = self._basis.reference.data, self._basis.today
        lookups = SqlLookups(self._connection)
        return DocumentContext(one.key.action, one.name.centre, today, reference, lookups, origin=origin)

    def _verdict(self, one: ReplayDocument, findings: Sequence[Finding]) -> ReplayVerdict:
        document = lock_documents(self._connection, [one.id])[one.id]
        judged = assess(self._connection, document, findings, self._basis)
        problems = problems_of(judged.findings, sum(judged.counts.values()), self._basis.limit)
        return _verdict(failed(Phase.DATA) if judged.failed else ACCEPTED, problems)


def _key_of(document: ReplayDocument) -> DocumentKey:
    return DocumentKey(document.key, document.name.file_name)


def _failed_upload(error: Exception) -> ReplayVerdict:
    if not isinstance(error, DccError):
        error = InternalFaultError(f"{fault_of(error)}. This is a fault of the platform: report it.")
    return _verdict(failed(Phase.UPLOAD), [Problem.of(error)])


def _verdict(outcome: str, problems: Sequence[Problem]) -> ReplayVerdict:
    return ReplayVerdict(outcome, tuple(map(ReplayFact.of, problems)))
