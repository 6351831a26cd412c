"""Why archives of a file source were skipped: what kept the last crawl from taking them, entry by entry.

How many entries were ignored is recorded; their names only a listing has: `ignored_entries`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, and_, case, func, or_, select

from dcc.databases.list_parameters import as_json, numbers_in
from dcc.declarations import acts_in, acts_on
from dcc.error_declarations import LISTING, declared_code
from dcc.messages import Message, mark, message, printable_detail
from dcc.outcomes import CrawlOutcome, SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.causes.log_facts import LogFacts
from dcc.reports.causes.scopes import Scope
from dcc.sources.base import ActionListing
from dcc.sources.crawl_policy import CrawlDue, DueReason
from dcc.tracker.crawls import CrawlEntry, latest_crawls, latest_findings
from dcc.tracker.decisions import is_acknowledged, is_on_hold
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive, unfetched_archives
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipActionLog, ZipFile, ZipLog
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.states import CANCELLED, WAITING
from dcc.tracker.submission_rows import is_at
from dcc.vocabulary import Actor, SourceState

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

MOST: Final = 500
"""How many archives with a reason of their own are listed."""


class SkipReason(StrEnum):
    """Why a source, or an archive, is skipped; of several reasons for an archive, the first one counts."""

    STATE = "state"
    NOT_DUE = "not due"
    INACTIVE = "inactive"
    NEVER_CRAWLED = "never crawled"
    CRAWL_FAILED = "crawl failed"
    EMPTY = "empty"
    REFUSED = "refused"
    DECLINED = "declined"
    HELD = "held"
    UPLOADING = "uploading"
    CHANGED = "changed"
    FAILED = "failed"
    GONE = "gone"
    IGNORED = "ignored"
    WAITING = "waiting"
    ON_HOLD = "on hold"
    CANCELLED = "cancelled"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """An entry of a source, `<action>/<name>`, or a `number` of entries, or the source itself (None); and why.

    `for_wranglers` is the message with the commands that only they have.
    """

    entry: str | None
    why: SkipReason
    acts: Actor
    message: Message
    number: int = 1
    for_wranglers: Message | None = None
    za_id: int | None = None

    def reason(self, catalogue: Catalogue, *, for_wranglers: bool = False) -> str:
        """Why, in the catalogue's language."""
        return catalogue.tell((self.for_wranglers if for_wranglers else None) or self.message).rstrip()


_NOTICED: Final = {
    "changed": SkipReason.CHANGED,
    "uploading": SkipReason.UPLOADING,
    "gone": SkipReason.GONE,
    "size_differs": SkipReason.CHANGED,
    "taken_anew": SkipReason.CHANGED,
}
_SECONDARY: Final = ("size_differs", "taken_anew")
"""What says less of an archive than how it ended."""


def skipped_entries(
    connection: Connection, source_id: int, *, limit: int = MOST, due: CrawlDue | None = None
) -> list[SkippedEntry]:
    """What kept archives of a file source from being taken, what concerns all of it first.

    `due` says whether, and when, it is crawled. At most `limit` archives with a reason of their own. Raises
    NotFoundError.
    """
    (source,) = list_sources(connection, [source_id])
    crawl = latest_crawls(connection, sources=[source_id]).get(source_id)
    unfetched = unfetched_archives(connection, source_id=source_id)
    still_uploading = FileSourceHasZip.uploading_since.is_not(None)
    uploading = set(connection.scalars(_hosted_ids(source_id).where(still_uploading)))
    noticed: dict[bool, list[SkippedEntry]] = {False: [], True: []}
    found = (
        finding
        for finding in latest_findings(connection, sources=[source_id])
        if finding.kind in _NOTICED and (finding.kind != "uploading" or finding.za_id in uploading)
    )
    for finding in islice(found, limit):
        why, acts = _NOTICED[finding.kind], acts_on(LISTING + finding.kind)
        entry, said = printable_detail(finding.file_name), finding.public
        skipped = SkippedEntry(entry, why, acts, said, for_wranglers=finding.said, za_id=finding.za_id)
        noticed[finding.kind in _SECONDARY].append(skipped)
    first = [*_failed(connection, source_id, limit), *map(_of_foreign_archive, unfetched[:limit]), *noticed[False]]
    named: dict[str | None, SkippedEntry] = {}
    for each in (*sorted(first, key=lambda each: list(SkipReason).index(each.why)), *noticed[True]):
        named.setdefault(each.entry, each)
    ids = {each.za_id for each in named.values() if each.za_id is not None}
    apart = {*(archive.za_id for archive in unfetched), *uploading, *ids}
    beside: dict[str, int] = {SkipReason.UPLOADING: len(uploading - ids), SkipReason.HELD: len(unfetched[limit:])}
    # From a source that was listed not long ago, archives are fetched.
    left_alone = any(why_not_crawled(source, None if due is None or due.may_be_used else due))
    counted = _counted(connection, source_id, crawl, beside, apart, left_alone=left_alone)
    return [*_of_source(source, crawl, due), *named.values(), *counted]


def ignored_entries(listings: Iterable[ActionListing]) -> list[SkippedEntry]:
    """The entries that listings of a source ignored, as far as they name them."""
    text = mark("Ignored: {reason}.")
    return [
        SkippedEntry(
            f"{listing.action}/{name}", SkipReason.IGNORED, Actor.NOBODY, message(text, reason=Message(reason))
        )
        for listing in listings
        for name, reason in listing.ignored_examples
    ]


def _of_foreign_archive(archive: UnfetchedArchive) -> SkippedEntry:
    why, acts = (SkipReason.HELD, Actor.CENTRE) if archive.declined is None else (SkipReason.DECLINED, Actor.NOBODY)
    return SkippedEntry(
        str(archive.key), why, acts, archive.public_message, for_wranglers=archive.translatable, za_id=archive.za_id
    )


def _whole(why: SkipReason, text: str, acts: Actor = Actor.DCC, command: str = "", **details: Any) -> SkippedEntry:
    """Why nothing of a source is taken; `command` is for wranglers."""
    reason = Message(text, details)
    wranglers = message(command, problem=reason, **details) if command else None
    return SkippedEntry(None, why, acts, reason, for_wranglers=wranglers)


def why_not_crawled(source: SourceEntry, due: CrawlDue | None) -> Iterator[SkippedEntry]:
    """Why sessions leave a source alone: its state, a pause, its times, its failures, or its centre."""
    if source.state is not SourceState.AVAILABLE:
        text = mark("The source is in the state {state}, and is not crawled.")
        command = mark("{problem} `dcc source set-state` changes that.")
        yield _whole(SkipReason.STATE, text, command=command, state=source.state.value)
    if source.pause is not None:
        text = mark("The source is paused, and is not crawled: {reason}.")
        if source.pause.until is not None:
            text = mark("The source is paused, and is not crawled until {until} UTC: {reason}.")
        command = mark("{problem} {by} paused it; `dcc source resume` ends the pause.")
        until = source.pause.until and f"{source.pause.until:%Y-%m-%d %H:%M}"
        reason, by = source.pause.reason.rstrip("."), source.pause.by
        yield _whole(SkipReason.STATE, text, command=command, reason=reason, until=until, by=by)
    elif due is not None and due.until is not None:
        text, command = _NOT_DUE[due.why]
        moment = f"{due.until:%Y-%m-%d %H:%M}"
        about = {"failures": due.past.failures, "until": moment, "source": source.id}
        yield _whole(SkipReason.NOT_DUE, text, Actor.NOBODY, command, **about)
    if not source.centre_active:
        text = mark("The centre {centre} is not active, and its sources are not crawled.")
        command = mark("{problem} `dcc centre activate {centre}` changes that.")
        yield _whole(SkipReason.INACTIVE, text, command=command, centre=source.centre)


def why_not_listed(crawl: CrawlEntry) -> Iterator[SkippedEntry]:
    """Why a crawl could not list its source, or all of it; nothing if it could."""
    if crawl.error is not None:
        text = mark("The last crawl could not list all of its directories: {problem}")
        if crawl.outcome is CrawlOutcome.FAILED:
            text = mark("The last crawl could not list it: {problem}")
        acts = acts_on(declared_code(crawl.error.kind, crawl.error.code))
        yield _whole(SkipReason.CRAWL_FAILED, text, acts, problem=crawl.error.marked)


def _of_source(source: SourceEntry, crawl: CrawlEntry | None, due: CrawlDue | None) -> Iterator[SkippedEntry]:
    yield from why_not_crawled(source, due)
    if crawl is None:
        text, command = mark("The source has never been crawled."), mark("{problem} `dcc crawl` lists it.")
        yield _whole(SkipReason.NEVER_CRAWLED, text, command=command)
    elif crawl.error is not None:
        yield from why_not_listed(crawl)
    elif not crawl.listed and not crawl.ignored:
        text = mark("Its directories add, edit and delete are empty or missing.")
        yield _whole(SkipReason.EMPTY, text, Actor.CENTRE)


_NOT_DUE: Final = {
    DueReason.FAILING: (
        mark("Failures in a row: {failures}. It is left alone until {until} UTC."),
        mark("{problem} `dcc source resume {source}` has the next session crawl it."),
    ),
    DueReason.CLOSED: (
        mark("It is used only within its hours, and is crawled from {until} UTC on."),
        mark("{problem} `dcc crawl --source {source}` crawls it now."),
    ),
    DueReason.RECENT: (
        mark("It was listed not long ago, and is crawled from {until} UTC on."),
        mark("{problem} `dcc crawl --source {source}` crawls it now."),
    ),
}


def _failed(connection: Connection, source_id: int, limit: int) -> Iterator[SkippedEntry]:
    """The archives that failed, with what stopped them as a whole."""
    query = _hosted(
        source_id, ZipAction.id, ZipAction.todo_id, ZipFile.file_name, ZipAction.phase_id, is_acknowledged()
    )
    query = query.where(ZipAction.status_id == Status.FAILED).order_by(ZipFile.file_name, ZipAction.todo_id)
    failed = {
        SubmissionKey(action, name): (za_id, phase, settled)
        for za_id, action, name, phase, settled in connection.execute(query.limit(limit))
    }
    scope = Scope(zips=list(failed))
    logs = (LogFacts(connection, scope, log) for log in (ZipLog, ZipActionLog))
    facts = {fact.zip: fact for log in logs for fact in log.rows() if fact.severity.fails}
    for key, (za_id, phase, settled) in failed.items():
        fact, why = facts.get(str(key)), SkipReason.FAILED
        text = mark("It was taken, and failed in the phase {phase}. {problem}")
        if phase is Phase.ZIP_NAME:
            text, why = mark("Its name is refused. {problem}"), SkipReason.REFUSED
        problem = Message("") if fact is None else fact.message
        blamed = acts_in(phase, Status.FAILED) if fact is None else fact.acts
        acts = Actor.NOBODY if settled else blamed
        yield SkippedEntry(str(key), why, acts, message(text, phase=phase.short_name, problem=problem), za_id=za_id)


_COUNTED: Final = {
    SkipReason.FAILED: mark("Other archives that failed or whose names are refused: {number}."),
    SkipReason.HELD: mark(
        "Other archives of other centres, {number}: they are not fetched from here unless their centres delegate."
    ),
    SkipReason.IGNORED: mark(
        "Entries that are not taken for archives, {number}, were ignored: directories, other files, and what the "
        "patterns of the source leave out."
    ),
    SkipReason.UPLOADING: mark(
        "Archives that are still being uploaded, {number}: they are taken when they are complete."
    ),
    SkipReason.WAITING: mark("Archives that wait for their download, {number}: the next session fetches them."),
    SkipReason.ON_HOLD: mark(
        "Archives on hold, {number}: sessions leave them alone until the Data Coordination Centre releases them."
    ),
    SkipReason.CANCELLED: mark("Archives that were cancelled, {number}: no session takes them."),
    SkipReason.KNOWN: mark(
        "Archives that were taken before, {number}. A name is taken once: new data have a new name."
    ),
}

_WAIT_FOR_SOURCE: Final = mark(
    "Archives that wait for their download, {number}: a session fetches them when it may use the source again."
)

_ACTS: Final = {
    SkipReason.FAILED: Actor.CENTRE,
    SkipReason.HELD: Actor.CENTRE,
    SkipReason.ON_HOLD: Actor.DCC,
}


def _counted(
    connection: Connection,
    source_id: int,
    crawl: CrawlEntry | None,
    beside: Mapping[str, int],
    apart: set[int],
    *,
    left_alone: bool,
) -> Iterator[SkippedEntry]:
    """How many entries are no archives, and how many archives failed, wait, are on hold or cancelled, or were taken.

    None of `apart` is counted; `beside` has numbers that are known already. `left_alone`: sessions do not
    use the source.
    """
    waits = or_(
        is_at(ZipAction, WAITING),
        and_(ZipAction.phase_id == Phase.DOWNLOAD, ZipAction.status_id != Status.FAILED),
    )
    why = case(
        (ZipAction.status_id == Status.FAILED, SkipReason.FAILED.value),
        (is_at(ZipAction, CANCELLED), SkipReason.CANCELLED.value),
        (and_(waits, is_on_hold()), SkipReason.ON_HOLD.value),
        (waits, SkipReason.WAITING.value),
        else_=SkipReason.KNOWN.value,
    ).label("why")
    query = _hosted(source_id, why, func.count()).group_by("why")
    query = query.where(ZipAction.id.not_in(numbers_in("apart")))
    numbers: dict[str, int] = dict(connection.execute(query, {"apart": as_json(apart)}).all())
    numbers[SkipReason.IGNORED] = 0 if crawl is None else crawl.ignored
    numbers.update(beside)
    texts = {**_COUNTED, SkipReason.WAITING: _WAIT_FOR_SOURCE} if left_alone else _COUNTED
    for each, text in texts.items():
        if number := numbers.get(each):
            yield SkippedEntry(None, each, _ACTS.get(each, Actor.NOBODY), message(text, number=number), number)


def _hosted(source_id: int, *columns: Any) -> Any:
    """A question about the submissions that a source hosts at present."""
    query = select(*columns).select_from(ZipAction).join(ZipFile, ZipFile.id == ZipAction.zip_id)
    return query.where(ZipAction.id.in_(_hosted_ids(source_id)))


def _hosted_ids(source_id: int) -> Select[int]:
    hosted = FileSourceHasZip.file_source_id == source_id, FileSourceHasZip.gone_since.is_(None)
    return select(FileSourceHasZip.za_id).where(*hosted)
