"""Archives that change data, and older unfinished ones of the same centre.

Data must be added before they are edited or deleted. If an older archive waits for a reason that is not its centre's
(disk space, a server, its upload, an interrupted session), the younger one waits too. The same session processes both.
It also waits while documents of an older one are held until somebody confirms them, or while an older one that is not
uploaded is on hold. Applied later, these would replace what is newer. An addition of what is there already, which they
may delete, waits for them, too.

Nothing waits for an archive that is refused, damaged, different from its MD5, or gone, or that is on another centre's
server alone. Nor for one whose server answered and did not deliver it `REQUESTS_WAITED_FOR` times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from dcc.databases.list_parameters import IDS, rows_about
from dcc.messages import Message, mark, message
from dcc.naming import ACTION_ORDER, Action
from dcc.outcomes import CONFIRMED, HELD, SubmissionKey
from dcc.phases import UNFAILED, UNFINISHED, Phase, Status
from dcc.tracker.decisions import archives_on_hold, is_on_hold
from dcc.tracker.hostings.download_plan import at_sources_in_use, load_plans
from dcc.tracker.hostings.foreign_archives import may_be_taken
from dcc.tracker.models import AnException, Centre, FileSourceHasZip, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.problems import submissions_with_entries
from dcc.tracker.states import NOT_DOWNLOADED, NOT_UPLOADED, VALID
from dcc.tracker.submission_rows import DOCUMENTS_COUNT, group_pairs, is_at, newest_downloads, submission_key_of

REQUESTS_WAITED_FOR: Final = 3
"""How often an archive is requested before others no longer wait for it."""

_AT_ONCE: Final = 50


class UploadTurn(NamedTuple):
    """The place of an archive, or of a document of it, in the order in which those of a centre are uploaded."""

    created: date
    inc: int
    place_of_action: int

    @classmethod
    def of_row(cls, row: Any) -> UploadTurn:
        """The turn of the archive in a row."""
        return cls(row.created, row.inc, ACTION_ORDER[row.todo_id])


@dataclass(frozen=True, slots=True)
class OlderArchive:
    """The oldest unfinished archive of a centre.

    `is_held`: it has documents that somebody must confirm; else `is_on_hold`: somebody must release it.
    """

    centre: str
    key: SubmissionKey
    is_held: bool = False
    is_on_hold: bool = False

    @property
    def waits_for_a_person(self) -> bool:
        """Whether somebody must confirm or release it first."""
        return self.is_held or self.is_on_hold

    @property
    def translatable(self) -> Message:
        """The message about an archive that waits for it."""
        waits = mark(
            "It waits for {archive}, an older archive of centre {centre} that is still on its way: what it changes may "
            "be in there. The session that takes that one takes this one too."
        )
        waits_for_held = mark(
            "It waits for {archive}, an older archive of centre {centre} that waits to be confirmed: applied later, "
            "that one would replace what is newer. The session after the decision takes this one."
        )
        waits_for_hold = mark(
            "It waits for {archive}, an older archive of centre {centre} that is on hold: applied later, that one "
            "would replace what is newer. The session after its release takes this one."
        )
        text = waits_for_held if self.is_held else waits_for_hold if self.is_on_hold else waits
        return message(text, archive=str(self.key), centre=self.centre)


class _Open(NamedTuple):
    """An archive that has neither passed validation nor finally failed, has held documents, or is on hold."""

    za_id: int
    turn: UploadTurn
    archive: OlderArchive
    has_arrived: bool


def waiting_for_older(
    connection: Connection, za_ids: Collection[int], decided: Collection[int] = ()
) -> dict[int, OlderArchive]:
    """The submissions that edit or delete while older archives of their centre are unfinished, with the oldest.

    Those that add do while older ones have held documents, or are on hold. `decided` are ids of submissions whose held
    documents are applied now. Four statements, and a few for each centre with archives that have not arrived.
    """
    return _waiting(connection, list(rows_about(connection, _YOUNGER, za_ids)), decided)


def submissions_that_wait(connection: Connection, za_ids: Any) -> dict[int, tuple[SubmissionKey, OlderArchive]]:
    """The submissions of a query of ids that would be uploaded, but wait for an older archive.

    Of those that add, those that a session had wait.
    """
    rows = {row.id: row for row in connection.execute(_TO_UPLOAD.where(ZipAction.id.in_(za_ids)))}
    older = _waiting(connection, rows.values(), ())
    return {za_id: (submission_key_of(rows[za_id]), archive) for za_id, archive in older.items()}


def _waiting(connection: Connection, rows: Collection[Any], decided: Collection[int]) -> dict[int, OlderArchive]:
    opened = _opened(connection, {row.centre_id for row in rows}, decided) if rows else {}
    found: dict[int, OlderArchive] = {}
    for adds in (False, True):
        younger = group_pairs((row.centre_id, row) for row in rows if (row.todo_id is Action.ADD) is adds)
        for centre_id, some in younger.items():
            # An addition waits for a person only.
            older = [one for one in opened.get(centre_id, ()) if one.archive.waits_for_a_person or not adds]
            oldest = next(_on_the_way(connection, older), None)
            if oldest is not None:
                found |= {row.id: oldest.archive for row in some if oldest.turn < UploadTurn.of_row(row)}
    return found


def _opened(connection: Connection, centre_ids: Collection[int], decided: Collection[int]) -> dict[int, list[_Open]]:
    """The archives of each centre that a session has yet to process, and those that a person must decide on.

    The oldest first.
    """
    opened = [(row.centre_id, _open(row)) for row in rows_about(connection, _OPEN, centre_ids)]
    # Of the others documents wait, whatever became of the rest.
    opened += [(row.centre_id, _open(row, is_here=True)) for row in rows_about(connection, _TO_BE_RELEASED, centre_ids)]
    opened += [
        (row.centre_id, _open(row, is_here=True, is_held=row.is_held))
        for row in rows_about(connection, _WITH_HELD, centre_ids)
        if row.id not in decided
    ]
    return group_pairs(sorted(opened, key=lambda one: one[1].turn))


def _on_the_way(connection: Connection, candidates: Sequence[_Open]) -> Iterator[_Open]:
    """Those that have arrived, that a source can deliver or will once it lists them whole; in their order."""
    for start in range(0, len(candidates), _AT_ONCE):
        some = candidates[start : start + _AT_ONCE]
        ids = [one.za_id for one in some if not one.has_arrived]
        to_come = {plan.za_id for plan in load_plans(connection, None, ids)}
        to_come |= {row.id for row in rows_about(connection, _TO_BE_LISTED, ids)}
        yield from (one for one in some if one.has_arrived or one.za_id in to_come)


def _open(row: Any, *, is_here: bool = False, is_held: bool = False) -> _Open:
    has_arrived = row.phase_id > Phase.ZIP_NAME and row.status_id != Status.FAILED
    archive = OlderArchive(row.short_name, submission_key_of(row), is_held, is_on_hold=row.on_hold and not is_held)
    return _Open(row.id, UploadTurn.of_row(row), archive, is_here or has_arrived)


_COLUMNS: Final = (
    ZipAction.id,
    ZipAction.todo_id,
    ZipAction.phase_id,
    ZipAction.status_id,
    ZipFile.centre_id,
    ZipFile.created,
    ZipFile.inc,
)
_NAMED: Final = (ZipFile.centre_id.is_not(None), ZipFile.created.is_not(None), ZipFile.inc.is_not(None))
_YOUNGER: Final = select(*_COLUMNS).join(ZipFile, ZipFile.id == ZipAction.zip_id).where(ZipAction.id.in_(IDS), *_NAMED)

_FAILED_TO_ARRIVE: Final = and_(
    is_at(ZipAction, NOT_DOWNLOADED),
    select(func.coalesce(func.min(FileSourceHasZip.num_retries), 0))
    .where(FileSourceHasZip.za_id == ZipAction.id, FileSourceHasZip.gone_since.is_(None))
    .correlate(ZipAction)
    .scalar_subquery()
    < REQUESTS_WAITED_FOR,
)
_OF_CENTRES: Final = (
    select(*_COLUMNS, ZipFile.file_name, Centre.short_name, is_on_hold().label("on_hold"))
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .join(Centre, Centre.id == ZipFile.centre_id)
    .where(ZipFile.centre_id.in_(IDS), *_NAMED)
)
_WAITS: Final = is_at(XmlFile, NOT_UPLOADED)
_WITH_WAITING: Final = select(FileSourceHasZip.za_id).join(ZipDownload).join(XmlFile).where(_WAITS)


def _has_document(za_ids: Select[Any], condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether a submission of a query of ids has such a document, of its latest download."""
    latest = newest_downloads(za_ids)
    documents = select(latest.c.za_id).join(XmlFile, XmlFile.download_id == latest.c.download_id)
    return ZipAction.id.in_(documents.where(condition))


_HAS_WAITING: Final = and_(DOCUMENTS_COUNT, _has_document(_WITH_WAITING, _WAITS))
"""Whether documents of the latest download wait for the upload."""
_UNFINISHED: Final = or_(
    and_(ZipAction.phase_id < Phase.XSD, ZipAction.status_id.in_(UNFAILED)),
    and_(ZipAction.phase_id == Phase.XSD, ZipAction.status_id.in_(UNFINISHED)),
    _FAILED_TO_ARRIVE,
)
_OPEN: Final = _OF_CENTRES.where(_UNFINISHED)
_TO_BE_UPLOADED: Final = _has_document(archives_on_hold(), or_(is_at(XmlFile, VALID), _WAITS))
"""Whether documents of an archive on hold, of which others may have failed, are uploaded once it is released."""
_TO_BE_RELEASED: Final = _OF_CENTRES.where(
    is_on_hold(),
    ~_UNFINISHED,
    or_(is_at(ZipAction, VALID), and_(DOCUMENTS_COUNT, _TO_BE_UPLOADED)),
)


def _has_waiting_document(*kinds: str) -> ColumnElement[bool]:
    """Whether a document that waits for the upload has an entry of such a kind."""
    return ZipAction.id.in_(submissions_with_entries(_WITH_WAITING).where(_WAITS, AnException.short_name.in_(kinds)))


_IS_HELD: Final = _has_waiting_document(HELD)
_WITH_HELD: Final = _OF_CENTRES.add_columns(_IS_HELD.label("is_held")).where(
    DOCUMENTS_COUNT, _has_waiting_document(HELD, CONFIRMED)
)
"""Those with documents that were held, `is_held` unless all of them were confirmed since."""
_ADDS: Final = ZipAction.todo_id == Action.ADD
_TO_UPLOAD: Final = (
    select(*_COLUMNS, ZipFile.file_name)
    .join(ZipFile, ZipFile.id == ZipAction.zip_id)
    .where(
        *_NAMED,
        or_(
            and_(~_ADDS, is_at(ZipAction, VALID)),
            # Its other documents may have failed.
            and_(_HAS_WAITING, or_(~_ADDS, ~_IS_HELD)),
        ),
    )
)
_TO_BE_LISTED: Final = at_sources_in_use(select(ZipAction.id)).where(
    ZipAction.id.in_(IDS),
    or_(FileSourceHasZip.uploading_since.is_not(None), FileSourceHasZip.missed_since.is_not(None)),
    may_be_taken(),
)
"""Those that are being uploaded, or that the last listing lacked, which the next one decides on."""
