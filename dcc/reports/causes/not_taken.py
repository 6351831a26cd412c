"""Why was nothing taken from a file source? What kept the last crawl from its archives, entry by entry.

A crawl takes archives whose names conform and that are not known yet. All else has a reason: the source is not visited,
could not be listed, an entry is no archive (ignored), its name is refused, it was taken before, or what it brought
failed. How many entries were ignored is on record, and which, only the listing itself tells: `ignored_entries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, and_, func, or_, select

from dcc.declarations import declaration_of
from dcc.messages import Message, mark, message_from_json, shown
from dcc.naming import Action
from dcc.phases import ACTION_IDS, ACTIONS_BY_ID, Phase, Status
from dcc.reports.causes.errors import LISTING, declared_code
from dcc.sources.base import ActionListing
from dcc.tracker.crawls import CrawlEntry, latest_crawls, latest_findings
from dcc.tracker.hostings.foreign_archives import HeldArchive, held_archives
from dcc.tracker.lineage import chunks
from dcc.tracker.models import (
    FileSourceHasZip,
    ZipAction,
    ZipActionLog,
    ZipDownload,
    ZipFile,
    ZipLog,
)
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import SourceState
from dcc.vocabulary import Actor

if TYPE_CHECKING:
    from dcc.reports.languages import Catalogue

MOST: Final = 500
"""How many archives with a reason of their own are told."""


class Why(StrEnum):
    """What kept something from being taken."""

    STATE = "state"
    INACTIVE = "inactive"
    NEVER_CRAWLED = "never crawled"
    CRAWL_FAILED = "crawl failed"
    EMPTY = "empty"
    REFUSED = "refused"
    FAILED = "failed"
    CHANGED = "changed"
    UPLOADING = "uploading"
    GONE = "gone"
    IGNORED = "ignored"
    HELD = "held"
    DECLINED = "declined"
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


_STATE: Final = mark("The source is in the state {state}, and is not visited.")
_INACTIVE: Final = mark("The centre {centre} is not active, and its sources are not visited.")
_NEVER: Final = mark("The source has never been crawled.")
_CRAWL_FAILED: Final = mark("The last crawl could not list it:")
_CRAWL_PARTIAL: Final = mark("The last crawl could not list all of its directories:")
_EMPTY: Final = mark("There is nothing in its directories add, edit and delete, or there are no such directories.")
_IGNORED: Final = mark(
    "Entries that are no archives, {number}, were ignored: directories, links and names that do not end in .zip."
)
_ONE_IGNORED: Final = mark("Ignored: {reason}.")
_REFUSED: Final = mark("Its name is refused.")
_FAILED: Final = mark("It was taken, and failed in the phase {phase}.")
_CHANGED: Final = mark("It changed after it was taken, and is not taken again by itself.")
_SIZE: Final = mark("It has another size than on another source.")
_HELD: Final = mark(
    "It is named for centre {owner}, and is held. Centre {owner} decides: it is taken when {owner} has it on its own "
    "source, or delegates to {host}. If it is of {host}, rename it."
)
_DECLINED: Final = mark("It is named for centre {owner}, and was turned down: {reason}")
_ANEW: Final = mark("It changed before its data were taken over, and is taken again by itself.")
_UPLOADING: Final = mark("It is still being uploaded, and is taken when it is complete.")
_MORE_UPLOADING: Final = mark(
    "Archives that are still being uploaded, {number}: they are taken when they are complete."
)
_GONE: Final = mark("Archives are not there any more.")
_TO_SET_STATE: Final = mark("`dcc source set-state` changes that.")
_TO_ACTIVATE: Final = mark("`dcc centre activate {centre}` changes that.")
_TO_CRAWL: Final = mark("`dcc crawl` visits it.")
_TO_DELEGATE: Final = mark("When {owner} agrees: {delegate}. To turn it down: {decline}")
_TO_TAKE_BACK: Final = mark("To take that back: {revoke}")
_WAITING: Final = mark("Archives that wait for their download, {number}: the next session fetches them.")
_KNOWN: Final = mark("Archives that were taken before, {number}. A name is taken once: new data have a new name.")

_NOTICED: Final[Mapping[str, tuple[Why, str]]] = {
    "changed": (Why.CHANGED, _CHANGED),
    "size_differs": (Why.CHANGED, _SIZE),
    "taken_anew": (Why.CHANGED, _ANEW),
    "uploading": (Why.UPLOADING, _UPLOADING),
    "gone": (Why.GONE, _GONE),
}


def why_not_taken(connection: Connection, source_id: int, *, most: int = MOST) -> list[NotTaken]:
    """What kept archives of a file source from being taken, what concerns all of it first.

    At most `most` archives with a reason of their own. Raises NotFoundError.
    """
    (source,) = list_sources(connection, [source_id])
    crawl = latest_crawls(connection, sources=[source_id]).get(source_id)
    held = held_archives(connection, source_id=source_id)
    uploading = _uploading(connection, source_id)
    told = _each_once(
        [
            *_of_archives(connection, source_id, most),
            *map(_held, held[:most]),
            *_noticed(connection, source_id, most, uploading),
        ]
    )
    apart = {*(one.za_id for one in held), *uploading.values()}
    counted = _counted(connection, source_id, apart | _ids_of(connection, source_id, told))
    return [*_of_source(source, crawl), *told, *_ignored(crawl), *_more_uploading(uploading, told), *counted]


def ignored_entries(listings: Iterable[ActionListing]) -> list[NotTaken]:
    """The entries that listings of a source ignored, as far as they name them."""
    return [
        NotTaken(f"{listing.action}/{name}", Why.IGNORED, Actor.NOBODY, _ONE_IGNORED, {"reason": reason})
        for listing in listings
        for name, reason in listing.ignored_examples
    ]


_MOST_TRUE: Final = (Why.REFUSED, Why.DECLINED, Why.HELD, Why.UPLOADING, Why.CHANGED, Why.FAILED)


def _each_once(rows: list[NotTaken]) -> list[NotTaken]:
    """The rows, but of several on one archive only the one that says best what keeps it from being taken."""
    best: dict[str | None, NotTaken] = {}
    for row in sorted(rows, key=_rank):
        best.setdefault(row.entry, row)
    return [row for row in rows if best[row.entry] is row]


def _rank(row: NotTaken) -> int:
    # What was taken anew, or differs elsewhere, says less than how it ended.
    is_aside = row.text in (_ANEW, _SIZE) or row.why not in _MOST_TRUE
    return len(_MOST_TRUE) if is_aside else _MOST_TRUE.index(row.why)


def _held(held: HeldArchive) -> NotTaken:
    fields = {"owner": held.owner, "host": held.hosts[0], **held.commands}
    if held.declined is None:
        return NotTaken(str(held.key), Why.HELD, Actor.CENTRE, _HELD, fields, command=_TO_DELEGATE)
    fields["reason"] = held.declined.reason
    return NotTaken(str(held.key), Why.DECLINED, Actor.NOBODY, _DECLINED, fields, command=_TO_TAKE_BACK)


def _of_source(source: SourceEntry, crawl: CrawlEntry | None) -> Iterator[NotTaken]:
    if source.state is not SourceState.AVAILABLE:
        yield NotTaken(None, Why.STATE, Actor.DCC, _STATE, {"state": source.state.value}, command=_TO_SET_STATE)
    if not source.centre_active:
        yield NotTaken(None, Why.INACTIVE, Actor.DCC, _INACTIVE, {"centre": source.centre}, command=_TO_ACTIVATE)
    if crawl is None:
        yield NotTaken(None, Why.NEVER_CRAWLED, Actor.DCC, _NEVER, command=_TO_CRAWL)
        return
    if crawl.error is not None:
        acts = _acts_on(declared_code(crawl.error.kind, crawl.error.code))
        text = _CRAWL_FAILED if crawl.outcome == "failed" else _CRAWL_PARTIAL
        yield NotTaken(None, Why.CRAWL_FAILED, acts, text, recorded=crawl.error.marked)
    elif not crawl.listed and not crawl.ignored:
        yield NotTaken(None, Why.EMPTY, Actor.CENTRE, _EMPTY)


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
            yield NotTaken(entry, Why.REFUSED, Actor.CENTRE, _REFUSED, recorded=refusal)
        else:
            recorded = message_from_json(failed_details, failed) if failed and phase <= Phase.UNZIP else None
            yield NotTaken(entry, Why.FAILED, _acts(phase), _FAILED, {"phase": phase.short_name}, recorded)


def _refusal(column: Any) -> Any:
    return (
        select(column)
        .where(ZipActionLog.za_id == ZipAction.id)
        .order_by(ZipActionLog.id.desc())
        .limit(1)
        .correlate(ZipAction)
        .scalar_subquery()
    )


def _last_reason(column: Any) -> Any:
    return (
        select(column)
        .select_from(ZipLog)
        .join(ZipDownload, ZipDownload.id == ZipLog.zip_id)
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id == ZipAction.id)
        .order_by(ZipLog.id.desc())
        .limit(1)
        .correlate(ZipAction)
        .scalar_subquery()
    )


def _acts_on(code: str) -> Actor:
    declaration = declaration_of(code)
    return Actor.DCC if declaration is None else declaration.acts


def _acts(phase: Phase) -> Actor:
    return Actor.NOBODY if phase is Phase.DOWNLOAD else Actor.CENTRE


def _noticed(connection: Connection, source_id: int, most: int, uploading: Collection[str]) -> Iterator[NotTaken]:
    for finding in latest_findings(connection, sources=[source_id])[:most]:
        why, text = _NOTICED[finding.kind]
        if why is not Why.UPLOADING or finding.file_name in uploading:
            yield NotTaken(shown(finding.file_name), why, _acts_on(LISTING + finding.kind), text, recorded=finding.said)


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


def _more_uploading(uploading: Mapping[str, int], told: Iterable[NotTaken]) -> Iterator[NotTaken]:
    """Those that are still being uploaded of which nothing is told by name."""
    left = uploading.keys() - {row.entry for row in told}
    if left:
        yield NotTaken(None, Why.UPLOADING, Actor.NOBODY, _MORE_UPLOADING, number=len(left))


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


def _ignored(crawl: CrawlEntry | None) -> Iterator[NotTaken]:
    if crawl is not None and crawl.ignored:
        yield NotTaken(None, Why.IGNORED, Actor.NOBODY, _IGNORED, number=crawl.ignored)


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
        yield NotTaken(None, Why.WAITING, Actor.NOBODY, _WAITING, number=counts[True])
    if counts[False]:
        yield NotTaken(None, Why.KNOWN, Actor.NOBODY, _KNOWN, number=counts[False])


def _hosted(source_id: int, *columns: Any) -> Any:
    """A question about the zip actions that a source hosts at present."""
    return (
        select(*columns)
        .select_from(ZipAction)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .where(
            ZipAction.id.in_(
                select(FileSourceHasZip.za_id).where(
                    FileSourceHasZip.file_source_id == source_id, FileSourceHasZip.gone_since.is_(None)
                )
            )
        )
    )
