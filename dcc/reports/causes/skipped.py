"""Why was nothing taken from a file source? What kept the last crawl from its archives, entry by entry.

A crawl takes archives whose names conform and that are not known yet. All else has a reason: the source is not visited,
could not be listed, an entry is no archive (ignored), its name is refused, it was taken before, or what it brought
failed. How many entries were ignored is on record, and which, only the listing itself tells: `ignored_entries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, and_, func, or_, select

from dcc.declarations import acts_on
from dcc.messages import Message, mark, message_from_json, shown
from dcc.naming import Action
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID, Phase, Status
from dcc.reports.causes.errors import LISTING, declared_code
from dcc.sources.base import ActionListing
from dcc.tracker.crawls import CrawlEntry, Finding, latest_crawls, latest_findings
from dcc.tracker.hostings.foreign_archives import HeldArchive, held_archives
from dcc.tracker.lineage import chunks
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipActionLog, ZipDownload, ZipFile, ZipLog
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import SourceState
from dcc.vocabulary import Actor

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

MOST: Final = 500
"""How many archives with a reason of their own are told."""


class Why(StrEnum):
    """What kept something from being taken: first a source, then an archive, what says most of it first."""

    STATE = "state"
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
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Something that was not taken: an entry of the source, `<action>/<name>`, or the source itself (None).

    `text` is why, as a text to be translated with `fields`; `recorded` is what was recorded about it, None where there
    is no more to say. `command` is what a wrangler can do, for nobody else: a text as `text` is, or
    recorded. `number` is how many entries it concerns.
    """

    entry: str | None
    why: Why
    acts: Actor
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    recorded: Message | None = None
    number: int = 1
    command: str = ""

    def reason(self, catalogue: Catalogue) -> str:
        """Why, in the catalogue's language, for everybody."""
        said = catalogue.say(self.text, **{"number": catalogue.number(self.number), **self.fields})
        return said if self.recorded is None else f"{said} {catalogue.tell(self.recorded)}"

    def reason_with_command(self, catalogue: Catalogue) -> str:
        """Why, and what a wrangler can do."""
        reason = self.reason(catalogue)
        return f"{reason} {catalogue.say(self.command, **self.fields)}" if self.command else reason


_NOTICED: Final[Mapping[str, tuple[Why, str]]] = {
    "changed": (Why.CHANGED, mark("It changed after it was taken, and is not taken again by itself.")),
    "uploading": (Why.UPLOADING, mark("It is still being uploaded, and is taken when it is complete.")),
    "gone": (Why.GONE, mark("Archives are not there any more.")),
}
_NOTICED_ASIDE: Final[Mapping[str, tuple[Why, str]]] = {
    "size_differs": (Why.CHANGED, mark("It has another size than on another source.")),
    "taken_anew": (Why.CHANGED, mark("It changed before its data were taken over, and is taken again by itself.")),
}
"""What says less of an archive than how it ended."""


def why_not_taken(connection: Connection, source_id: int, *, most: int = MOST) -> list[NotTaken]:
    """What kept archives of a file source from being taken, what concerns all of it first.

    At most `most` archives with a reason of their own. Raises NotFoundError.
    """
    (source,) = list_sources(connection, [source_id])
    crawl = latest_crawls(connection, sources=[source_id]).get(source_id)
    held = held_archives(connection, source_id=source_id)
    uploading = _uploading(connection, source_id)
    noticed = [
        finding
        for finding in latest_findings(connection, sources=[source_id])[:most]
        if finding.kind != "uploading" or finding.file_name in uploading
    ]
    told = _each_once(
        [
            *_of_archives(connection, source_id, most),
            *map(_held, held[:most]),
            *(_noticed(finding, *_NOTICED[finding.kind]) for finding in noticed if finding.kind in _NOTICED),
        ],
        [_noticed(finding, *_NOTICED_ASIDE[finding.kind]) for finding in noticed if finding.kind in _NOTICED_ASIDE],
    )
    apart = {*(one.za_id for one in held), *uploading.values(), *_ids_of(connection, source_id, told)}
    more_uploading = len(uploading.keys() - {row.entry for row in told})
    counted = [*_ignored_and_uploading(crawl, more_uploading), *_counted(connection, source_id, apart)]
    return [*_of_source(source, crawl), *told, *counted]


def ignored_entries(listings: Iterable[ActionListing]) -> list[NotTaken]:
    """The entries that listings of a source ignored, as far as they name them."""
    text = mark("Ignored: {reason}.")
    return [
        NotTaken(f"{listing.action}/{name}", Why.IGNORED, Actor.NOBODY, text, {"reason": reason})
        for listing in listings
        for name, reason in listing.ignored_examples
    ]


def _each_once(rows: list[NotTaken], aside: list[NotTaken]) -> list[NotTaken]:
    """Of several rows on one archive only the one that says best what keeps it from being taken."""
    order = list(Why)
    best: dict[str | None, NotTaken] = {}
    for row in (*sorted(rows, key=lambda row: order.index(row.why)), *aside):
        best.setdefault(row.entry, row)
    return [row for row in (*rows, *aside) if best[row.entry] is row]


def _held(held: HeldArchive) -> NotTaken:
    fields = {"owner": held.owner, "host": held.hosts[0], **held.commands}
    if held.declined is None:
        text = mark(
            "It is named for centre {owner}, and is held. Centre {owner} decides: it is taken when {owner} has it on "
            "its own source, or delegates to {host}. If it is of {host}, rename it."
        )
        command = mark("When {owner} agrees: {delegate}. To turn it down: {decline}")
        return NotTaken(str(held.key), Why.HELD, Actor.CENTRE, text, fields, command=command)
    fields["reason"] = held.declined.reason
    text = mark("It is named for centre {owner}, and was turned down: {reason}")
    command = mark("To take that back: {revoke}")
    return NotTaken(str(held.key), Why.DECLINED, Actor.NOBODY, text, fields, command=command)


def _noticed(finding: Finding, why: Why, text: str) -> NotTaken:
    return NotTaken(shown(finding.file_name), why, acts_on(LISTING + finding.kind), text, recorded=finding.said)


def _of_source(source: SourceEntry, crawl: CrawlEntry | None) -> Iterator[NotTaken]:
    if source.state is not SourceState.AVAILABLE:
        text, command = (
            mark("The source is in the state {state}, and is not visited."),
            mark("`dcc source set-state` changes that."),
        )
        yield NotTaken(None, Why.STATE, Actor.DCC, text, {"state": source.state.value}, command=command)
    if not source.centre_active:
        text = mark("The centre {centre} is not active, and its sources are not visited.")
        command = mark("`dcc centre activate {centre}` changes that.")
        yield NotTaken(None, Why.INACTIVE, Actor.DCC, text, {"centre": source.centre}, command=command)
    if crawl is None:
        text, command = mark("The source has never been crawled."), mark("`dcc crawl` visits it.")
        yield NotTaken(None, Why.NEVER_CRAWLED, Actor.DCC, text, command=command)
    elif crawl.error is not None:
        acts = acts_on(declared_code(crawl.error.kind, crawl.error.code))
        text = mark("The last crawl could not list all of its directories:")
        if crawl.outcome == "failed":
            text = mark("The last crawl could not list it:")
        yield NotTaken(None, Why.CRAWL_FAILED, acts, text, recorded=crawl.error.marked)
    elif not crawl.listed and not crawl.ignored:
        text = mark("There is nothing in its directories add, edit and delete, or there are no such directories.")
        yield NotTaken(None, Why.EMPTY, Actor.CENTRE, text)


def _of_archives(connection: Connection, source_id: int, most: int) -> Iterator[NotTaken]:
    query = (
        _hosted(
            source_id,
            ZipAction.todo_id,
            ZipFile.file_name,
            ZipAction.phase_id,
            *(_refusal(column) for column in (ZipActionLog.message, ZipActionLog.details)),
            *(_last_reason(column) for column in (ZipLog.message, ZipLog.details)),
        )
        .where(ZipAction.status_id == int(Status.FAILED))
        .order_by(ZipFile.file_name, ZipAction.todo_id)
        .limit(most)
    )
    for todo, name, phase_id, refused, refused_details, failed, failed_details in connection.execute(query):
        entry, phase = f"{ACTIONS_BY_ID[todo]}/{name}", Phase(phase_id)
        if phase is Phase.ZIP_NAME:
            refusal = message_from_json(refused_details, refused) if refused else None
            yield NotTaken(entry, Why.REFUSED, Actor.CENTRE, mark("Its name is refused."), recorded=refusal)
        else:
            text, fields = mark("It was taken, and failed in the phase {phase}."), {"phase": phase.short_name}
            acts = Actor.NOBODY if phase is Phase.DOWNLOAD else Actor.CENTRE
            recorded = message_from_json(failed_details, failed) if failed and phase <= Phase.UNZIP else None
            yield NotTaken(entry, Why.FAILED, acts, text, fields, recorded)


def _refusal(column: Any) -> Any:
    """What was last recorded of a zip action itself."""
    return _last(select(column).where(ZipActionLog.za_id == ZipAction.id).order_by(ZipActionLog.id.desc()))


def _last_reason(column: Any) -> Any:
    """What was last recorded of a zip action's downloads."""
    return _last(
        select(column)
        .select_from(ZipLog)
        .join(ZipDownload, ZipDownload.id == ZipLog.zip_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id == ZipAction.id)
        .order_by(ZipLog.id.desc())
    )


def _last(query: Any) -> Any:
    return query.limit(1).correlate(ZipAction).scalar_subquery()


def _uploading(connection: Connection, source_id: int) -> dict[str, int]:
    """The archives that are still being uploaded to a source, `<action>/<name>`, and their zip actions."""
    query = (
        select(ZipAction.todo_id, ZipFile.file_name, ZipAction.id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .where(FileSourceHasZip.file_source_id == source_id, FileSourceHasZip.gone_since.is_(None))
        .where(FileSourceHasZip.uploading_since.is_not(None))
    )
    return {f"{ACTIONS_BY_ID[todo]}/{name}": za_id for todo, name, za_id in connection.execute(query)}


def _ids_of(connection: Connection, source_id: int, told: Iterable[NotTaken]) -> set[int]:
    """The zip actions that are told by name."""
    names: dict[str, set[str]] = {}
    for row in told:
        if row.entry is not None:
            action, _, name = row.entry.partition("/")
            names.setdefault(action, set()).add(name)
    found: set[int] = set()
    for action, some in names.items():
        query = _hosted(source_id, ZipAction.id).where(ZipAction.todo_id == ACTION_IDS[Action(action)])
        found.update(connection.scalars(query.where(ZipFile.file_name.in_(some))))
    return found


def _ignored_and_uploading(crawl: CrawlEntry | None, uploading: int) -> Iterator[NotTaken]:
    """How many entries are no archives, and how many archives are being uploaded of which nothing is told by name."""
    if crawl is not None and crawl.ignored:
        text = mark(
            "Entries that are no archives, {number}, were ignored: directories, links and names that do not end in "
            ".zip."
        )
        yield NotTaken(None, Why.IGNORED, Actor.NOBODY, text, number=crawl.ignored)
    if uploading:
        text = mark("Archives that are still being uploaded, {number}: they are taken when they are complete.")
        yield NotTaken(None, Why.UPLOADING, Actor.NOBODY, text, number=uploading)


def _counted(connection: Connection, source_id: int, apart: set[int]) -> Iterator[NotTaken]:
    """How many archives wait or were taken, but for those that something else is said of."""
    waits = or_(
        and_(ZipAction.phase_id == int(Phase.ZIP_NAME), ZipAction.status_id == int(Status.DONE)),
        and_(ZipAction.phase_id == int(Phase.DOWNLOAD), ZipAction.status_id != int(Status.FAILED)),
    )
    query = _hosted(source_id, waits.label("waits"), func.count()).where(ZipAction.status_id != int(Status.FAILED))
    counts = Counter({bool(waiting): number for waiting, number in connection.execute(query.group_by("waits"))})
    for ids in chunks(apart):
        for waiting, number in connection.execute(query.where(ZipAction.id.in_(ids)).group_by("waits")):
            counts[bool(waiting)] -= number
    if counts[True]:
        text = mark("Archives that wait for their download, {number}: the next session fetches them.")
        yield NotTaken(None, Why.WAITING, Actor.NOBODY, text, number=counts[True])
    if counts[False]:
        text = mark("Archives that were taken before, {number}. A name is taken once: new data have a new name.")
        yield NotTaken(None, Why.KNOWN, Actor.NOBODY, text, number=counts[False])


def _hosted(source_id: int, *columns: Any) -> Any:
    """A question about the zip actions that a source hosts at present."""
    hosted = select(FileSourceHasZip.za_id).where(
        FileSourceHasZip.file_source_id == source_id, FileSourceHasZip.gone_since.is_(None)
    )
    query = select(*columns).select_from(ZipAction).join(ZipFile, ZipFile.id == ZipAction.zip_id)
    return query.where(ZipAction.id.in_(hosted))
