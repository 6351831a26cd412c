"""The submissions of a centre or session as summaries list them, the worst first; by a few statements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, func, null, or_, select

from dcc.declarations import acts_on
from dcc.error_declarations import declared_code
from dcc.outcomes import HELD, LEFT_OUT, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.reports.submissions.accepted import copies_of_withdrawn, taken_submissions
from dcc.reports.submissions.model import Outcome, SubmissionLine, Tone
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.upload import DUPLICATE
from dcc.tracker.crawls import CHANGED, SessionEntry
from dcc.tracker.decisions import is_hosted, is_on_hold, needs_nobody
from dcc.tracker.hostings.changed_archives import changed_since_loaded
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive, unfetched_archives
from dcc.tracker.hostings.older_archives import OlderArchive, submissions_that_wait
from dcc.tracker.models import AnException, CrawlFinding, XmlFile, XmlLog, ZipAction, ZipDownload, ZipFile, ZipLog
from dcc.tracker.problems import FAILS_DOCUMENT, submissions_with_entries
from dcc.tracker.queries.state_counts import StateCount
from dcc.tracker.queries.submission_filters import SubmissionFilter, selected_ids, submission_query
from dcc.tracker.states import CANCELLED, NOT_DOWNLOADED, NOT_UPLOADED, VALID
from dcc.tracker.submission_rows import (
    CENTRE,
    group_pairs,
    is_at,
    is_named,
    newest_downloads,
    state_of,
    submission_key_of,
)
from dcc.vocabulary import Actor

_ARCHIVE_FAILURES: Final = {
    Phase.ZIP_NAME: Outcome.NAME_REFUSED,
    Phase.DOWNLOAD: Outcome.NOT_ARRIVED,
    Phase.ZIP_MD5: Outcome.CHECKSUM_WRONG,
    Phase.UNZIP: Outcome.UNREADABLE,
}
_GOES_ON: Final = (Outcome.WAITING, Outcome.NOT_ARRIVED, Outcome.UNDER_WAY, Outcome.TO_BE_TAKEN)
_WORST_FIRST: Final = (Tone.BAD, Tone.WARN, Tone.WAIT, Tone.GOOD)


def submissions_of_centre(connection: Connection, centre: str, qc: Connection | None = None) -> list[SubmissionLine]:
    """All submissions of a centre: by their names or, where these tell no centre, by where they are at present."""
    return list_submissions(connection, selected_ids(SubmissionFilter(centre=centre)), qc=qc)


def submissions_of_session(
    connection: Connection, session: SessionEntry, touched: Select[Any], qc: Connection | None = None
) -> list[SubmissionLine]:
    """The submissions of a session, those of `session_submission_ids` and those that it found changed since they were
    loaded.
    """
    noticed = select(CrawlFinding.za_id).where(CrawlFinding.session_id == session.id, CrawlFinding.kind == CHANGED)
    changed = changed_since_loaded(connection, noticed)
    return list_submissions(connection, touched, also=changed, qc=qc)


def line_of(
    connection: Connection, key: SubmissionKey, qc: Connection | None
) -> tuple[SubmissionLine, tuple[StateCount, ...]]:
    """A submission as a summary lists it, and the states of its latest documents."""
    named = select(ZipAction.id).join(ZipFile).where(is_named(key))
    states = _document_states(connection, named)
    (line,) = list_submissions(connection, named, qc=qc, states=states)
    return line, tuple(*states.values())


def list_submissions(
    connection: Connection,
    za_ids: Any,
    also: Collection[int] = (),
    qc: Connection | None = None,
    states: Mapping[int, list[StateCount]] | None = None,
) -> list[SubmissionLine]:
    """The submissions whose ids a query selects, and `also` these: the worst first, of these the newest.

    Without the QC database, the states tell whether anything was accepted of those that failed. `states` of documents
    are read unless they are given.
    """
    if also:
        za_ids = select(ZipAction.id).where(or_(ZipAction.id.in_(za_ids), ZipAction.id.in_(also)))
    states = _document_states(connection, za_ids) if states is None else states
    noted = _noted(connection, za_ids)
    actors, clearing = _who_acts(connection, za_ids)
    changed = changed_since_loaded(connection, za_ids)
    in_turn = submissions_that_wait(connection, za_ids)
    foreign = {archive.za_id: archive for archive in unfetched_archives(connection, za_ids)}
    newest_first = (ZipFile.created.desc(), ZipFile.inc.desc(), ZipAction.id.desc())
    decided = needs_nobody().label("needs_nobody"), is_on_hold().label("on_hold")
    listed = submission_query().add_columns(*decided, is_hosted().label("is_hosted"), CENTRE.label("counts_for"))
    query = listed.where(ZipAction.id.in_(za_ids)).order_by(*newest_first)
    rows = connection.execute(query).all()
    failed = {submission_key_of(row) for row in rows if row.status_id == Status.FAILED and states[row.id]}
    taken = None if qc is None else taken_submissions(qc, failed)
    copies = {submission_key_of(row) for row in rows if DUPLICATE in noted[row.id]}
    of_withdrawn = Counter[SubmissionKey]() if qc is None else copies_of_withdrawn(qc, copies)
    lines = []
    for row in rows:
        key, counts = submission_key_of(row), states[row.id]
        state = state_of(row)
        older = in_turn[row.id][1] if row.id in in_turn else None
        kept_by = foreign.get(row.id) or older
        outcome = outcome_of(
            state,
            counts,
            held=HELD in noted[row.id],
            taken=None if taken is None else key in taken,
            left_out=not noted[row.id].isdisjoint(LEFT_OUT.values()),
            foreign=foreign.get(row.id),
            waits_for_data=actors.get(row.id) == (Actor.NOBODY,),
            waits_for=older,
            changed=row.id in changed,
            on_hold=bool(row.on_hold),
            is_hosted=bool(row.is_hosted),
            of_withdrawn=0 < of_withdrawn[key] == sum(one.count for one in counts),
        )
        line = SubmissionLine(
            za_id=row.id,
            key=key,
            centre=row.centre,
            counts_for=row.counts_for,
            phase=state.phase,
            status=state.status,
            outcome=outcome,
            size_bytes=row.size_bytes,
            documents=sum(one.count for one in counts),
            failed=sum(one.count for one in counts if one.status is Status.FAILED),
            clearing=clearing[row.id],
            changed=changed.get(row.id),
            acts=actors.get(row.id, ()),
            needs_nobody=bool(row.needs_nobody),
            left_alone=None if kept_by is None else kept_by.translatable,
        )
        lines.append(line)
    return sorted(lines, key=lambda line: _WORST_FIRST.index(line.tone))


def _document_states(connection: Connection, za_ids: Any) -> Mapping[int, list[StateCount]]:
    latest = newest_downloads(za_ids)
    query = (
        select(latest.c.za_id, XmlFile.phase_id, XmlFile.status_id, func.count())
        .join(latest, latest.c.download_id == XmlFile.download_id)
        .group_by(latest.c.za_id, XmlFile.phase_id, XmlFile.status_id)
        .order_by(XmlFile.phase_id, XmlFile.status_id)
    )
    return group_pairs((za_id, StateCount(*counted)) for za_id, *counted in connection.execute(query))


def _who_acts(connection: Connection, za_ids: Any) -> tuple[Mapping[int, tuple[Actor, ...]], Counter[int]]:
    """Who acts on the errors of those with documents that failed, and of those that did not arrive.

    Second, how many documents of each failed by errors that all clear by themselves.
    """
    of_documents = submissions_with_entries(za_ids).add_columns(XmlFile.id, AnException.short_name, XmlLog.code)
    latest = newest_downloads(za_ids)
    of_archives = (
        select(latest.c.za_id, null(), AnException.short_name, ZipLog.code)
        .join(ZipDownload, ZipDownload.id == latest.c.download_id)
        .join(ZipLog, ZipLog.download_id == ZipDownload.id)
        .join(AnException, AnException.id == ZipLog.exception_id)
        .where(is_at(ZipDownload, NOT_DOWNLOADED))
    )
    found: dict[tuple[int, int | None], set[Actor]] = defaultdict(set)
    failing = of_documents.where(XmlFile.status_id == Status.FAILED, FAILS_DOCUMENT).distinct()
    for za_id, document, kind, code in (*connection.execute(failing), *connection.execute(of_archives.distinct())):
        found[za_id, document].add(acts_on((code or kind) if kind in CATALOGUE else declared_code(kind, code)))
    actors: dict[int, set[Actor]] = defaultdict(set)
    clearing = Counter[int]()
    for (za_id, document), acting in found.items():
        actors[za_id] |= acting
        clearing[za_id] += document is not None and acting == {Actor.NOBODY}
    return {za_id: tuple(sorted(acting)) for za_id, acting in actors.items()}, clearing


def _noted(connection: Connection, za_ids: Any) -> Mapping[int, set[str]]:
    """Which of the kinds of entries that tell an outcome the documents of each submission have."""
    kinds = AnException.short_name.in_((HELD, DUPLICATE, *LEFT_OUT.values()))
    entries = submissions_with_entries(za_ids).add_columns(AnException.short_name).where(kinds)
    found: dict[int, set[str]] = defaultdict(set)
    for za_id, kind in connection.execute(entries.distinct()):
        found[za_id].add(kind)
    return found


def outcome_of(
    state: State,
    states: Iterable[StateCount],
    *,
    held: bool,
    taken: bool | None,
    left_out: bool = False,
    foreign: UnfetchedArchive | None = None,
    waits_for_data: bool = False,
    waits_for: OlderArchive | None = None,
    changed: bool = False,
    on_hold: bool = False,
    of_withdrawn: bool = False,
    is_hosted: bool = True,
) -> Outcome:
    """The outcome of a submission in that state, whose documents are in `states`.

    `held`: one of them waits to be confirmed. `left_out`: the settings leave a step out of one of them. `taken`: some
    of its data were accepted; None where that is not known, and then the states tell. `foreign`: it is not fetched, or
    was turned down, on another centre's source. `waits_for_data`: its failed documents only wait for other data.
    `waits_for`: an older archive of its centre that comes first. `changed`: the archive changed after its data were
    accepted. `on_hold`: sessions leave it alone. `of_withdrawn`: none of its documents was taken, as they are the same
    as some that were withdrawn since. `is_hosted`: a source has it at present.
    """
    outcome = _outcome_of_state(state, list(states), held=held, taken=taken, left_out=left_out)
    if outcome is Outcome.WAITING and foreign is not None:
        outcome = Outcome.FOREIGN if foreign.declined is None else Outcome.DECLINED
    elif on_hold and outcome in _GOES_ON:
        outcome = Outcome.ON_HOLD
    elif outcome is Outcome.WAITING and not is_hosted:
        outcome = Outcome.GONE
    elif outcome in (Outcome.DONE, Outcome.TO_BE_LOOKED_AT) and of_withdrawn:
        outcome = Outcome.COPY_OF_WITHDRAWN
    elif outcome is Outcome.TO_BE_TAKEN and waits_for is not None:
        outcome = Outcome.BEHIND_DECISION if waits_for.waits_for_a_person else Outcome.IN_ORDER
    elif outcome in (Outcome.NOTHING_TAKEN, Outcome.PARTLY_TAKEN) and waits_for_data:
        outcome = Outcome.WAITS_FOR_DATA
    return Outcome.CHANGED if changed and not outcome.tone.needs_somebody else outcome


def _outcome_of_state(
    state: State, states: Sequence[StateCount], *, held: bool, taken: bool | None, left_out: bool
) -> Outcome:
    phase, status = state
    if status is Status.FAILED and phase in _ARCHIVE_FAILURES:
        return _ARCHIVE_FAILURES[phase]
    if phase in (Phase.ZIP_NAME, Phase.DOWNLOAD):
        return Outcome.WITHDRAWN if state == CANCELLED else Outcome.WAITING
    if status is Status.FAILED:
        some = _some_accepted(states) if taken is None else taken or _under_way(states)
        return Outcome.PARTLY_TAKEN if some else Outcome.NOTHING_TAKEN
    if status is Status.CANCELLED:
        return Outcome.LEFT_OUT if left_out or phase > Phase.UPLOAD else Outcome.WITHDRAWN
    if held:
        return Outcome.HELD
    if phase is Phase.QC:
        return Outcome.DONE if status is Status.DONE else Outcome.TO_BE_LOOKED_AT
    if state in (VALID, NOT_UPLOADED):
        return Outcome.TO_BE_TAKEN
    return Outcome.UNDER_WAY


def _under_way(states: Iterable[StateCount]) -> bool:
    """Whether documents are whole and on their way."""
    return any(state.phase >= Phase.XSD and state.status is not Status.FAILED for state in states)


def _some_accepted(states: Iterable[StateCount]) -> bool:
    return any(
        state.phase > Phase.UPLOAD
        or (state.phase >= Phase.XSD and state.status not in (Status.FAILED, Status.CANCELLED))
        for state in states
    )
