"""Replays stored archives under proposed schemas, reference data or rules, and compares the verdicts.

Archives are prepared and judged by processes, in files of a temporary folder: both databases are only read. Compared
are the verdicts that the databases hold, in the order in which sessions applied the documents. What people decided
stays: waivers, confirmations and withdrawals.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sqlalchemy import Engine

from dcc.databases.engines import disposed, open_database
from dcc.databases.schema import init_database
from dcc.databases.transactions import run_reading
from dcc.documents.schema_set import SchemaSet
from dcc.errors import ConfigurationError, NotFoundError
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.database import EMPTY_TABLES, QC_DATABASE
from dcc.qc.judging.documents import JudgingBasis
from dcc.qc.judging.waiver_store import waivers_in_force
from dcc.qc.reference.refresh import read_source
from dcc.qc.reference.snapshots import ActiveReference, load_active
from dcc.reference.loading import SETS, ReferenceData
from dcc.replay import worker
from dcc.replay.batches import Part, ReplayWorkerResults, parts_of, prepared_by_workers, processes_of
from dcc.replay.replayer import ArchiveToOpen, ReplayDocument, Replayer, StepResult
from dcc.replay.stored_archives import ArchiveBytes, StoredArchive, find_archives, grouped
from dcc.replay.verdicts import DocumentChange, DocumentKey, Replay, ReplayVerdict, compare, outcome_of
from dcc.runtime.clock import utc_today
from dcc.session.batches.batch_plans import MAX_ARCHIVES
from dcc.session.batches.exchange import Workers
from dcc.session.prepare.archive_checks import Setup
from dcc.session.prepare.documents import PreparationBasis
from dcc.settings import Settings
from dcc.settings.reference import parse_source, shown_source
from dcc.tracker.register.centres import centre_ids, imits_names, load_delegations

_AHEAD: Final = 3
"""The parts on their way, for each process."""
_FETCHING: Final = 4
_MAX_ARCHIVES: Final = 16
"""The most archives of a part, which are prepared together, unless it is a batch for workers."""
_TOGETHER: Final = 250
"""The most documents that a process judges in one go."""


@dataclass(frozen=True)
class ReplayProposal:
    """What to judge by instead: a folder of schemas, sources of reference data by set, a module with rules."""

    xsd: Path | None = None
    reference: Mapping[str, str] = field(default_factory=dict)
    rules: str | None = None

    @property
    def words(self) -> dict[str, str]:
        """The proposal as shown."""
        words = {} if self.xsd is None else {"xsd": str(self.xsd)}
        words |= {name: shown_source(source) for name, source in self.reference.items()}
        return words if self.rules is None else {**words, "rules": self.rules}


def replay(
    tracker: Engine,
    qc: Engine,
    settings: Settings,
    proposal: ReplayProposal,
    *,
    centres: Sequence[str] = (),
    since: date | None = None,
    workers: Workers | None = None,
    on_progress: Callable[[int, int], object] = lambda _done, _of: None,
) -> Replay:
    """Judge stored archives of `centres` (by default all) dated from `since` on by a proposal, beside the present.

    Other archives that may have their specimens are applied too, and not reported. `workers` prepare archives, if
    there are any; DCC_WORKERS processes of this machine do the rest. `on_progress` is called with the numbers of
    prepared archives, and of all. Raises ConfigurationError for a proposal that cannot be used, ReferenceDataError and
    ReferenceUnreachableError for its reference data, DiskFullError, and the `unreachable` error of either database.
    """
    if proposal.xsd is not None and not proposal.xsd.is_dir():
        raise ConfigurationError(f"The folder {proposal.xsd} does not exist. Name the folder of the .xsd files.")
    settings = _proposed(settings, proposal)
    SchemaSet.load(settings.xsd_dir)
    with tracker.connect() as of_tracker, qc.connect() as of_qc:
        archives = find_archives(of_tracker, of_qc, centres, since)
    with TemporaryDirectory(prefix="dcc-replay-") as folder:
        replayer = _replayer(tracker, qc, settings, proposal, Path(folder))
        number = min(settings.workers, os.cpu_count() or 1)
        at_once = min(_MAX_ARCHIVES, max(1, len(archives) // (_AHEAD * number)))
        parts = list(parts_of(archives, at_once if workers is None else MAX_ARCHIVES))
        with processes_of(replayer, number) as run:
            if proposal.rules is not None:
                run("require_rules", "the rules", Path(proposal.rules).stem).result()
            work = _Work(archives, run, on_progress)
            with prepared_by_workers(workers, settings, replayer, parts, work.tell) as results:
                work.prepare(parts, ArchiveBytes(settings, Path(folder) / "archives"), results, _AHEAD * number)
            work.judge()
    return work.result(proposal)


def _proposed(settings: Settings, proposal: ReplayProposal) -> Settings:
    changes: dict[str, Any] = {} if proposal.xsd is None else {"xsd_dir": proposal.xsd}
    for name, source in proposal.reference.items():
        if name not in SETS:
            raise NotFoundError(f"No set of reference data {name!r} exists. The sets are {', '.join(SETS)}.")
        try:
            changes[f"reference_{name}"] = parse_source(source)
        except ValueError as error:
            raise ConfigurationError(f"The source of {name} cannot be used: {error}. Correct it.") from error
    return settings.model_copy(update=changes)


def _replayer(tracker: Engine, qc: Engine, settings: Settings, proposal: ReplayProposal, root: Path) -> Replayer:
    known = run_reading(tracker, centre_ids)
    delegations = run_reading(tracker, load_delegations)
    today = utc_today()
    names = run_reading(tracker, imits_names)
    active = run_reading(qc, lambda connection: load_active(connection, names)).data
    waivers = run_reading(qc, lambda connection: waivers_in_force(connection, today))
    with disposed(open_database(f"sqlite:///{root / Replayer.TEMPLATE}", QC_DATABASE)) as engine:
        init_database(engine)
        proposed = {name: read_source(engine, settings, name) for name in proposal.reference}
        columns = columns_for(engine)._replace(left_out=EMPTY_TABLES)
    sets: dict[str, Any] = {**{snapshot.name: snapshot for snapshot in active}, **proposed}
    reference = ReferenceData(**sets, imits_names=names)
    return Replayer(
        root,
        Setup.from_settings(settings, known),
        PreparationBasis(reference, "", today, columns),
        JudgingBasis(ActiveReference(reference, {}), waivers, today, settings.max_document_errors),
        settings.hold_threshold,
        delegations,
        proposal.rules,
    )


class _Work:
    """Archives on their way through the processes."""

    def __init__(
        self, archives: Sequence[StoredArchive], run: worker.Run, on_progress: Callable[[int, int], object]
    ) -> None:
        self._archives, self._run, self._on_progress = archives, run, on_progress
        self._missing: list[StoredArchive] = []
        self._opened: dict[SubmissionKey, list[ReplayDocument]] = {}
        self._verdicts: dict[DocumentKey, ReplayVerdict] = {}
        self._reported = 0

    def tell(self, prepared: int) -> None:
        """Say how many archives are prepared, which workers may have done before they are taken."""
        self._reported = max(self._reported, prepared)
        self._on_progress(self._reported, len(self._archives))

    def prepare(
        self, parts: Sequence[Part], stored: ArchiveBytes, results: ReplayWorkerResults | None, at_once: int
    ) -> None:
        """Take what workers prepared; fetch, open and prepare all other archives, a limited number at once."""

        def begin(number: int, part: Part) -> tuple[Part, Callable[[], list[StepResult]]]:
            if results is not None and (opened := results.take(number)) is not None:
                return part, lambda: opened
            found = [(one, path) for one in part if (path := stored.fetch(one)) is not None]
            given = [ArchiveToOpen(one.key, one.centre, path, one.md5) for one, path in found]
            named = ", ".join(str(one.key) for one in given)
            return [one for one, _ in found], self._run("prepare", named, given).result if given else list

        def end(part: Part, begun: Future[tuple[Part, Callable[[], list[StepResult]]]]) -> None:
            fetched, opened = begun.result()
            for archive, (verdicts, documents) in zip(fetched, opened(), strict=True):
                self._verdicts.update(verdicts)
                self._opened[archive.key] = documents
            self._missing += [one for one in part if one not in fetched]
            for archive in part:
                stored.release(archive)
            self.tell(len(self._opened) + len(self._missing))

        begun: deque[tuple[Part, Any]] = deque()
        with ThreadPoolExecutor(_FETCHING, thread_name_prefix="fetch") as pool, closing(stored):
            try:
                for number, part in enumerate(parts):
                    begun.append((part, pool.submit(begin, number, part)))
                    if len(begun) > at_once:
                        end(*begun.popleft())
                while begun:
                    end(*begun.popleft())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def judge(self) -> None:
        """Apply all documents, those of centres that share data together, and judge those that are reported."""
        documents = list(self._to_apply())
        pairs = [(one.centre or "", centre) for one in documents for centre in (one.name.centre, *one.centres)]
        group_of = grouped(pairs)
        groups: dict[str, list[ReplayDocument]] = defaultdict(list)
        for one in documents:
            groups[group_of(one.centre or "")].append(one)
        applied = {
            f"{number}.db": self._run("apply", f"the documents of {centre}", f"{number}.db", some)
            for number, (centre, some) in enumerate(groups.items())
        }
        selected = {one.key for one in self._archives if one.is_selected}
        judged: list[Future[Any]] = []
        for database, future in applied.items():
            verdicts, standing = future.result()
            self._verdicts.update(verdicts)
            # What is not reported need not be judged: that changes nothing for others.
            reported = [one for one in standing if one.key in selected]
            for start in range(0, len(reported), _TOGETHER):
                judged.append(self._run("judge", database, database, reported[start : start + _TOGETHER]))
        for future in judged:
            self._verdicts.update(future.result())

    def _to_apply(self) -> Iterator[ReplayDocument]:
        """The documents that are applied: without those that wait for their upload, are held or were withdrawn."""
        numbers = itertools.count(1)
        for archive in self._archives:
            za_id, session = archive.download_id, archive.session
            for one in self._opened.get(archive.key, ()):
                recorded = archive.documents.get(one.name.file_name)
                state = None if recorded is None else recorded.state
                # Data that wait to be judged (again) are there for others.
                was_applied = state is not None and state.is_past(Phase.UPLOAD)
                if state is None or was_applied or outcome_of(state) is not None:
                    yield replace(one, xml_id=next(numbers), za_id=za_id, session=session, was_applied=was_applied)

    def result(self, proposal: ReplayProposal) -> Replay:
        after: dict[SubmissionKey, dict[str, ReplayVerdict]] = defaultdict(dict)
        for key, verdict in self._verdicts.items():
            after[key.archive][key.file_name] = verdict
        changes: list[DocumentChange] = []
        documents: Counter[str] = Counter()
        unjudged = 0
        selected = [one for one in self._archives if one.is_selected and one.key in self._opened]
        for archive in selected:
            present = archive.present()
            judged = [name for name, one in present.items() if one.outcome is not None]
            unjudged += len(present) - len(judged)
            # An archive that was not opened has its verdict under the empty name.
            documents[archive.centre or ""] += sum(name != "" for name in judged)
            changes += compare(archive.key, archive.centre, present, after[archive.key])
        keys = {one.key for one in selected}
        verdicts = {key: one for key, one in self._verdicts.items() if key.archive in keys}
        missing = tuple(one.key for one in self._missing)
        return Replay(proposal.words, len(selected), documents, unjudged, missing, tuple(changes), verdicts)
