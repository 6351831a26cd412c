"""A history of submissions lived for real: a folder that is served, an installation, and its sessions."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, and_, func, select

from dcc.cli.sessions.crawl import run_session
from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, DccError, NotFoundError
from dcc.naming import Action, DocumentKind
from dcc.operations.consistency.check import check_consistency
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.judging.waiver_store import add_waiver, revoke_waiver
from dcc.qc.models import CONTEXT, DOCUMENT, EXPERIMENT, MEASUREMENT, NAMED, RUN, SHARE, SPECIMEN
from dcc.rules.upload import DUPLICATE
from dcc.rules.waivers import Waiver
from dcc.runtime.clock import utc_now
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.data.confirmations import confirm_submission
from dcc.session.data.document_phases import process_data
from dcc.session.data.quality_control import update_qc_states
from dcc.session.data.withdrawals import accept_proposals, decide_proposals, withdraw_submission
from dcc.session.session_request import SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.tracker import progress
from dcc.tracker.decisions import DecisionKind, acknowledged_keys, is_on_hold, record_decisions, revoke
from dcc.tracker.hostings.missing_archives import list_proposals
from dcc.tracker.hostings.older_archives import submissions_that_wait
from dcc.tracker.models import FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.submission_rows import find_submission
from dcc.vocabulary import ContextEvent, DeltaStrategy, EntityKind, WaiverEffect, WithdrawalProposalState
from tests.histories.contents import PARAMETER, VALUE, animals_of, content_of
from tests.histories.life import DOCUMENTS, LEFT_OUT, Lived, state_of
from tests.histories.records import Standing
from tests.histories.submission_histories import Wish
from tests.histories.submissions import GROUPS, Submission, Thing
from tests.support.asking import in_reading, in_writing

_WHO: Final = {"author": "tester", "reason": "It is over."}


@dataclass
class Centre(Lived):
    """A centre that submits, and who coordinates its data."""

    keys: dict[int, SubmissionKey] = field(default_factory=dict)
    waivers: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Register the centre and its source, which has the withdrawal proposed of what is gone."""
        self.add_source("H", self.home / "served", list(Action), delta=DeltaStrategy.FULL)

    def submit(self, submission: Submission) -> None:
        """Put an archive at the source, long enough ago not to be young."""
        self.keys[submission.number] = submission.key
        path = self._path(submission.number)
        path.write_bytes(content_of(submission))
        self.date(path)

    def take_away(self, number: int) -> None:
        self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self.home / "served" / str(self.keys[number])

    def crawl(self) -> None:
        with open_session(self.tracker, self.settings) as session:
            _exhaust(crawl_file_sources(session))
            _exhaust(process_zip_actions(session))
            _exhaust(process_data(self.qc, session, until=Phase.QC))

    def withdraw(self, number: int) -> None:
        with suppress(NotFoundError):
            withdraw_submission(self.tracker, self.qc, self.settings, self.keys[number], **_WHO)

    def confirm(self, oldest: bool) -> None:
        """Have what is held of an archive confirmed, the oldest or the youngest that has any, if that is possible."""
        held = sorted((one.key for one in in_reading(self.tracker, held_documents)), key=lambda key: key.file_name)
        with suppress(ConfigurationError):
            confirm_submission(self.tracker, self.qc, self.settings, held[0 if oldest else -1], **_WHO)

    def waive(self, rule: str, only_warns: bool) -> None:
        effect = WaiverEffect.WARN if only_warns else WaiverEffect.WAIVE
        today = utc_now().date()
        waiver = Waiver(rule, effect, _WHO["reason"], _WHO["author"], today, None)
        self.waivers.append(in_writing(self.qc, add_waiver, waiver, today))

    def restore(self) -> None:
        in_writing(self.qc, revoke_waiver, self.waivers.pop(0), **_WHO)

    def finish(self) -> None:
        decide_on_contexts(self.qc, ContextEvent.DONE, ContextFilter(), **_WHO)
        update_qc_states(self.tracker, self.qc, self.settings, **_WHO)

    def fulfil(self, wish: Wish, number: int) -> None:
        """Do what a person wants of an archive; a retry that is not possible changes nothing."""
        key = self.keys[number]
        if wish is Wish.RETRY:
            with suppress(DccError):
                run_session(self.tracker, self.settings, SessionRequest(keys=[key]))
            return
        who = _WHO["author"]
        with writing(self.tracker) as connection:
            za_id = find_submission(connection, key).za_id
            assert za_id is not None, f"{key} is in the model only"
            za_ids = [za_id]
            match wish:
                case Wish.HOLD:
                    record_decisions(connection, DecisionKind.HOLD, za_ids, by=who, reason=_WHO["reason"])
                case Wish.RELEASE:
                    revoke(connection, za_ids, DecisionKind.HOLD, DecisionKind.QUARANTINE, by=who)
                case Wish.CANCEL:
                    progress.cancel(connection, za_ids, who, _WHO["reason"])
                case Wish.ACKNOWLEDGE:
                    record_decisions(connection, DecisionKind.ACKNOWLEDGE, za_ids, by=who, reason=_WHO["reason"])
                case Wish.REVOKE:
                    revoke(connection, za_ids, DecisionKind.ACKNOWLEDGE, by=who)

    def decide(self, accepts: bool) -> None:
        proposals = in_reading(self.tracker, list_proposals)
        if accepts:
            accept_proposals(self.tracker, self.qc, self.settings, proposals, **_WHO)
        else:
            decide_proposals(self.tracker, proposals, WithdrawalProposalState.TURNED_DOWN, **_WHO)

    def standing(self) -> Standing:
        latest = select(func.max(ZipDownload.id)).group_by(ZipDownload.zf_id)
        # Nothing counts of what waits for its download again, or was cancelled.
        opened = select(FileSourceHasZip.id).join(ZipAction).where(ZipAction.phase_id > Phase.ZIP_NAME)
        latest = latest.where(ZipDownload.zf_id.in_(opened))
        with self.tracker.connect() as connection:
            rows = connection.execute(
                DOCUMENTS.where(XmlFile.download_id.in_(latest), XmlFile.fname.endswith(".xml"))
            ).all()
            held_back = select(ZipFile.file_name).join(ZipAction).where(is_on_hold())
            on_hold = frozenset(connection.scalars(held_back))
            acknowledged = frozenset(key.file_name for key in acknowledged_keys(connection))
            waits = submissions_that_wait(connection, select(ZipAction.id)).values()
            held = frozenset(one.file_name for one in held_documents(connection))
            proposals = frozenset(one.key.file_name for one in list_proposals(connection))
        with self.qc.connect() as connection:
            found = dict(_variants(connection))
            mine = select(DOCUMENT.c.file_name, SHARE.c.measurements).join(SHARE, SHARE.c.document_id == DOCUMENT.c.id)
            mine = mine.join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id).where(CONTEXT.c.parameter_id == PARAMETER)
            counted = Counter[str]()
            for name, count in connection.execute(mine):
                counted[name] += count
        return Standing(
            {key.partition("/")[2]: state for key, state in self.installation.states().items()},
            {row.fname: state_of(row.phase_id, row.status_id) for row in rows},
            frozenset(row.fname for row in rows if row.logged == DUPLICATE),
            found,
            proposals,
            {row.fname: row.logged.removeprefix(LEFT_OUT) for row in rows if LEFT_OUT in (row.logged or "")},
            held,
            {key.file_name: older.key.file_name for key, older in waits if key.file_name not in on_hold},
            on_hold,
            acknowledged,
            dict(counted),
        )

    def contradictions(self) -> list[str]:
        return [str(one) for one in check_consistency(self.tracker, self.qc, self.settings)]


def _exhaust(outcomes: Iterable[object]) -> None:
    deque(outcomes, maxlen=0)


def _variants(connection: Connection) -> Iterator[tuple[Thing, int]]:
    """What is there, with its variant; -1 where what is in a group is not of one."""
    animals = select(SPECIMEN.c.specimen_id, SPECIMEN.c.litter_id).where(SPECIMEN.c.is_current)
    litters = {name: int(litter[2]) for name, litter in connection.execute(animals)}
    of_experiment = and_(RUN.c.owner_kind == EntityKind.EXPERIMENT.value, RUN.c.owner_id == EXPERIMENT.c.id)
    measured = select(NAMED.c.specimen_id, MEASUREMENT.c.value).where(MEASUREMENT.c.parameter_id == PARAMETER)
    measured = measured.select_from(EXPERIMENT.join(NAMED).join(RUN, of_experiment).join(MEASUREMENT))
    rows = connection.execute(measured.where(EXPERIMENT.c.is_current)).all()
    values = {name: int(value) - VALUE for name, value in rows}
    assert len(values) == len(rows), f"experiments are there twice: {sorted(rows)}"
    for kind, variants in ((DocumentKind.SPECIMEN, litters), (DocumentKind.EXPERIMENT, values)):
        for group in range(GROUPS):
            found = {variants.get(name) for name in animals_of(group)}
            if found != {None}:
                yield Thing(kind, group), found.pop() if len(found) == 1 else -1
