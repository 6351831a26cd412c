"""Prepares stored archives, and judges their documents, as a session does, in scratch files alone.

The scratch QC database has the entities of documents, and not their measurements: no rule compares these with those of
other documents.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, event

from dcc.data_outcomes import FindingEntry
from dcc.databases.attached_files import MOST_ATTACHED
from dcc.databases.engines import open_database
from dcc.databases.transactions import run_reading, run_writing
from dcc.documents.origins import Origin
from dcc.documents.reading import read_document
from dcc.errors import ConfigurationError, DccError, InternalFaultError
from dcc.naming import Action, DocumentName
from dcc.outcomes import Problem, ZipKey
from dcc.phases import Phase
from dcc.qc.apply.documents import Applied, ToApply, apply_documents
from dcc.qc.database import QC_DATABASE
from dcc.qc.judging import documents as judging
from dcc.qc.judging.documents import judge_document
from dcc.qc.judging.lookups import SqlLookups
from dcc.qc.judging.many_documents import Found, judge_together, newest_document
from dcc.qc.judging.other_specimens import questionable
from dcc.qc.rows.loading import load_document
from dcc.qc.rows.prepared_file import PreparedFile
from dcc.reference.loading import ReferenceData
from dcc.rules.checking import ABOUT_SPECIMENS, all_rules, check_contents
from dcc.rules.context import DocumentContext, latest_day
from dcc.rules.findings import Finding, Severity
from dcc.rules.packed_findings import unpacked
from dcc.rules.waivers import Waiver
from dcc.session.data.document_log import problems_of
from dcc.session.data.documents import DueDocument, in_order_of_upload
from dcc.session.data.prepared_archives import PreparedFiles
from dcc.session.data.uploader import document_to_apply
from dcc.session.data.uploading import MOST_BYTES, MOST_DOCUMENTS
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, NotOpened, Setup
from dcc.session.prepare.documents import ArchiveToPrepare, Basis, DocumentToPrepare, prepare_archive
from dcc.session.replay.verdicts import ACCEPTED, HELD, NOT_OPENED, Fact, Verdict, failed
from dcc.store.staged_documents import prepared_place
from dcc.store.staging import Staging
from dcc.tracker.hostings.listing_changes import stored_name
from dcc.tracker.register.delegations import Delegations
from dcc.vocabulary import DocumentState

LEFT_OUT: Final = frozenset(
    {
        *("genotype", "parental_strain", "chromosomal_alteration", "chromosome"),
        *("measurement", "media", "media_association", "dimension", "metadata"),
    }
)
"""The tables of the scratch QC database that stay empty."""
_TOGETHER: Final = 250


class Opened(NamedTuple):
    """A document of a stored archive. `verdict` is None if it goes on to be applied; `centres` are those of its data.

    `name` is None for one whose name is refused.
    """

    file_name: str
    name: DocumentName | None
    size_bytes: int
    md5: str | None
    verdict: Verdict | None
    centres: tuple[str, ...] = ()


class ToJudge(NamedTuple):
    """A document to be applied and judged, in the session `batch`; what `is_confirmed` was applied before, or allowed.

    It may change any data then.
    """

    document: DueDocument
    batch: int
    is_confirmed: bool


@dataclass
class Replayer:
    """Replays archives below the folder `root`, which has the empty QC database `TEMPLATE`. It has no secrets.

    `rules` names the proposed rules, if any.
    """

    root: Path
    setup: Setup
    basis: Basis
    waivers: tuple[Waiver, ...]
    limit: int
    hold_above: int | None
    delegations: Delegations
    rules: str | None = None

    TEMPLATE = "empty.db"

    @cached_property
    def checker(self) -> ArchiveChecker:
        """What opens archives."""
        return ArchiveChecker(self.setup)

    @cached_property
    def staging(self) -> Staging:
        """Where prepared files are, and documents that have to be read again."""
        return Staging(self.root / "staging")

    @property
    def judging_basis(self) -> judging.Basis:
        """What documents are judged by."""
        return judging.Basis(_Reference(self.basis.reference), self.waivers, self.basis.today, self.limit)

    def require_rules(self, module: str) -> None:
        """Raise ConfigurationError if a proposed module registers no rule."""
        package = module.partition(".")[0]
        if not any(rule.check.__module__.partition(".")[0] == package for rule in all_rules().values()):
            raise ConfigurationError(f"The module {module} registers no rule. Name the module with the rules.")

    def prepare(self, key: ZipKey, centre: str | None, path: Path, md5: str | None) -> list[Opened]:
        """Open an archive, and prepare its documents; an archive that is not opened is a document without a name.

        Raises DiskFullError and OSError.
        """
        self.staging.prepare(key)
        contents = self.staging.contents(key)
        found = self.checker.check(path, contents, md5)
        if isinstance(found, NotOpened):
            return [Opened("", None, 0, None, Verdict(NOT_OPENED))]
        try:
            return [*self._prepare(key, centre, found), *_refused(found)]
        finally:
            if not any(contents.iterdir()):
                contents.rmdir()

    def _prepare(self, key: ZipKey, centre: str | None, found: CheckedArchive) -> list[Opened]:
        given = list(zip(found.archive.documents, found.problems, strict=True))
        valid = [
            DocumentToPrepare(str(one.path), one.name.kind, one.name.centre, one.md5)
            for one, problems in given
            if not problems
        ]
        target = prepared_place(self.staging, key)
        faults = prepare_archive(ArchiveToPrepare(key, centre, target, valid), self.basis) if valid else {}
        file = PreparedFile(target) if valid else None
        opened = []
        for one, problems in given:
            name, is_needed = one.name.file_name, False
            centres: tuple[str, ...] = ()
            verdict = _verdict(failed(Phase.XSD), problems) if problems else None
            if name in faults:
                verdict = _failed_upload(faults[name])
            elif file is not None and not problems:
                prepared = file.document(name, one.md5)
                centres = tuple(prepared.centres)
                is_needed = not (prepared.whole and (prepared.findings is not None or key.action is Action.DELETE))
            opened.append(Opened(name, one.name, one.size_bytes, one.md5, verdict, centres))
            if not is_needed:
                one.path.unlink()
        return opened

    def judge(self, documents: Sequence[ToJudge]) -> dict[int, Verdict]:
        """Apply documents in their order, session by session, and judge them; the verdicts by `xml_id`.

        They share no data with documents that are judged apart from them.
        """
        place = self.root / f"{documents[0].document.xml_id}.db"
        shutil.copyfile(self.root / self.TEMPLATE, place)
        engine = open_database(f"sqlite:///{place}", QC_DATABASE)
        event.listen(engine, "connect", _forget_safety)
        files = PreparedFiles(self.staging, self.basis)
        try:
            return _Group(self, engine, files).judge(documents)
        finally:
            files.close()
            engine.dispose()
            place.unlink()


@dataclass(frozen=True)
class _Reference:
    """Reference data without rows in the scratch QC database."""

    data: ReferenceData
    snapshot_ids: Mapping[str, int] = field(default_factory=dict)


class _Group:
    """Documents that are applied to a scratch QC database and judged there."""

    def __init__(self, replayer: Replayer, engine: Engine, files: PreparedFiles) -> None:
        self._replayer, self._engine, self._files = replayer, engine, files
        self._basis = replayer.judging_basis
        self._verdicts: dict[int, Verdict] = {}
        self._applied: list[tuple[int, DueDocument]] = []

    def judge(self, documents: Sequence[ToJudge]) -> dict[int, Verdict]:
        ordered = sorted(documents, key=attrgetter("batch"))
        for _, batch in groupby(ordered, key=attrgetter("batch")):
            self._apply_batch(list(batch))
        for start in range(0, len(self._applied), _TOGETHER):
            self._judge(self._applied[start : start + _TOGETHER])
        return self._verdicts

    def _apply_batch(self, batch: Sequence[ToJudge]) -> None:
        together_from = run_reading(self._engine, newest_document, patience_seconds=0) + 1
        by_id = {one.document.xml_id: one for one in batch}
        group: list[ToJudge] = []
        archives: set[ZipKey] = set()
        size = 0
        for document in in_order_of_upload(one.document for one in batch):
            one = by_id[document.xml_id]
            archives.add(document.key)
            size += document.size_bytes
            is_full = len(group) == MOST_DOCUMENTS or len(archives) > MOST_ATTACHED or size > MOST_BYTES
            if group and (is_full or document.key.action is not Action.ADD):
                self._apply(group, together_from)
                group, archives, size = [], {document.key}, document.size_bytes
            group.append(one)
            if document.key.action is not Action.ADD:
                self._apply(group, together_from)
                group, archives, size = [], set(), 0
        if group:
            self._apply(group, together_from)

    def _apply(self, group: Sequence[ToJudge], together_from: int) -> None:
        """Apply documents together; if that fails, each by itself."""
        try:
            applied = apply_documents(
                self._engine,
                [self._to_apply(one, together_from) for one in group],
                hold_above=None if group[0].is_confirmed else self._replayer.hold_above,
            )
        except Exception as error:
            if len(group) == 1:
                self._verdicts[group[0].document.xml_id] = _failed_upload(error)
                return
            for one in group:
                self._apply([one], together_from)
            return
        for one, result in zip(group, applied, strict=True):
            self._take(one.document, result)

    def _to_apply(self, one: ToJudge, together_from: int) -> ToApply:
        document = one.document
        prepared = self._files.find(document)
        if prepared is None:
            raise InternalFaultError(
                f"{document.key}: {document.name.file_name} was not prepared. Report this as a fault."
            )
        to_apply = document_to_apply(document, self._replayer.delegations, together_from)
        return ToApply(replace(to_apply, rights=None) if one.is_confirmed else to_apply, prepared)

    def _take(self, document: DueDocument, applied: Applied) -> None:
        if applied.state is DocumentState.APPLIED:
            self._applied.append((applied.document_id, document))
            return
        outcome = HELD if applied.state is DocumentState.HELD else failed(Phase.UPLOAD)
        entries = [
            FindingEntry(one.code, one.severity, one.details, one.line, one.path, one.value) for one in applied.findings
        ]
        self._verdicts[document.xml_id] = _verdict(outcome, problems_of(entries, len(entries), self._basis.limit))

    def _judge(self, some: Sequence[tuple[int, DueDocument]]) -> None:
        run_writing(self._engine, lambda connection: self._judge_on(connection, some), patience_seconds=0)

    def _judge_on(self, connection: Connection, some: Sequence[tuple[int, DueDocument]]) -> None:
        known: dict[int, list[Finding]] = {}
        judged: dict[int, Any] = {}
        for document_id, document in some:
            findings = self._findings(document)
            if findings is None:
                path = self._replayer.staging.contents(document.key) / document.name.file_name
                contents = read_document(path, document.name.kind)
                judged[document_id] = judge_document(connection, document_id, contents, self._basis)
            else:
                known[document_id] = findings
        of_id = dict(some)
        for document_id in questionable(connection, known.keys(), latest_day(self._basis.today)):
            known[document_id] = self._with_others(connection, document_id, of_id[document_id], known[document_id])
        found = [Found(document_id, findings) for document_id, findings in known.items()]
        judged |= zip(known, judge_together(connection, found, self._basis), strict=True)
        for document_id, document in some:
            one = judged[document_id]
            if isinstance(one, Exception):
                raise one
            problems = problems_of(one.findings, sum(one.counts.values()), self._basis.limit)
            self._verdicts[document.xml_id] = _verdict(failed(Phase.DATA) if one.failed else ACCEPTED, problems)

    def _findings(self, document: DueDocument) -> list[Finding] | None:
        """The prepared findings; None if the document has to be read again."""
        prepared = self._files.find(document)
        if document.key.action is Action.DELETE:
            return []
        if prepared is None or not prepared.whole or prepared.findings is None:
            return None
        return [unpacked(one) for one in prepared.findings]

    def _with_others(
        self, connection: Connection, document_id: int, document: DueDocument, findings: list[Finding]
    ) -> list[Finding]:
        """Findings with those of the rules about specimens of other documents."""
        if document.key.action is Action.DELETE:
            return findings
        prepared = self._files.find(document)
        context = DocumentContext(
            document_id,
            document.key.action,
            document.name.centre,
            self._basis.today,
            self._basis.reference.data,
            SqlLookups(connection),
            origin=None if prepared is None else Origin.from_json(prepared.origin),
        )
        others = check_contents(load_document(connection, document_id), context, all_rules().keys() - ABOUT_SPECIMENS)
        refused = {one.block for one in findings if one.severity is Severity.FATAL and one.entity is None}
        added = [one for one in others if one.rule in ABOUT_SPECIMENS and one.block not in refused]
        return sorted([*findings, *added], key=attrgetter("line"))


def _forget_safety(connection: Any, record: object) -> None:  # noqa: ARG001
    """Have a scratch database not wait for the disk; it names waivers and snapshots that it does not have."""
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA foreign_keys = OFF")


def _refused(found: CheckedArchive) -> Iterator[Opened]:
    for file_name, size_bytes, problem in found.archive.refused:
        verdict = _verdict(failed(Phase.XML_NAME), [problem])
        yield Opened(stored_name(file_name), None, size_bytes, None, verdict)


def _failed_upload(error: Exception) -> Verdict:
    if not isinstance(error, DccError):
        error = InternalFaultError(f"{type(error).__name__}: {error}. This is a fault of the platform: report it.")
    return _verdict(failed(Phase.UPLOAD), [Problem.of(error)])


def _verdict(outcome: str, problems: Sequence[Problem]) -> Verdict:
    return Verdict(outcome, tuple(map(Fact.of, problems)))
