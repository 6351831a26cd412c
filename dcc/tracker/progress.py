"""Phase and status of submissions, downloads and documents: the one module that writes them.

`states` defines the order of states, and the effect of reported states and of children's changes.

Names are checked while crawling, before any download, although `download` has the lower phase id. The tracker shows
this as follows:

- A submission that waits for its download is (zip_name, done), and one refused for its name (zip_name, failed).
- It stays (zip_name, done) while its download is (download, pending) or (download, running), which `advance` ignores as
  earlier: see `zip_download` for running downloads.
- From (zip_md5, ...) on, it shows the state of its latest download.
- It becomes (download, failed), or fails in a later phase, only if no further attempt follows in the session: otherwise
  a failed attempt is recorded on its `zip_download` alone (`StateReport.promote`).
- A retry, by a person or the retry policy, sets it back to (zip_name, done) with a row in `reopening`, and makes a new
  `zip_download`. Downloads from before a re-opening no longer count for the submission.
- A retry without bytes changes nothing: the submission gets back the state of its last download with bytes, which
  `reopening.fell_back` records, and that re-opening does not count any more. While it is being uploaded, it waits.
  If a crawl saw it change, it does not go back either, unless it is held: it becomes (download, failed).

Documents go back, or away from a failure, only by `reopen_documents`, with a row in `document_reopening`. They do when
their problem has disappeared, or must be judged again, when they were withdrawn, or when quality control was opened
again. Their parents' states are then computed again.

Every function takes the connection of a write transaction (`dcc.databases.transactions.run_writing`). Concurrent
writers are separated by the rows of the submissions, which are locked in the order of their ids before anything below
them is read.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, bindparam, func, insert, select, update

from dcc.databases.columns import UtcDateTime
from dcc.databases.list_parameters import IDS, change_about, rows_about, sorted_chunks
from dcc.databases.transactions import insert_rows
from dcc.outcomes import HELD, AttemptOutcome, SubmissionKey
from dcc.phases import STATES, UNFINISHED, Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.tracker.decisions import DecisionKind, revoke
from dcc.tracker.models import (
    AnException,
    DocumentPlace,
    DocumentReopening,
    FileSource,
    FileSourceHasZip,
    Reopening,
    XmlFile,
    ZipAction,
    ZipDownload,
)
from dcc.tracker.problems import submissions_with_entries
from dcc.tracker.reopened_by import person_name
from dcc.tracker.states import CANCELLED, NOT_UPLOADED, REQUESTED, WAITING, advance, roll_up
from dcc.tracker.submission_rows import (
    actions_of,
    changed_since_last_bytes,
    find_parents,
    group_pairs,
    is_at,
    is_without_bytes_since,
    latest_downloads,
)
from dcc.vocabulary import SourceState


class Subject(Enum):
    """A kind of rows with a phase and a status."""

    ZIP_ACTION = "zip_action"
    ZIP_DOWNLOAD = "zip_download"
    XML_FILE = "xml_file"


class StateReport(NamedTuple):
    """A state reported for the row `id` of `subject`.

    `promote=False` leaves the parents as they are: for a failed attempt that another one follows.
    """

    subject: Subject
    id: int
    state: State
    promote: bool = True


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A new document. Centre, date and increment are its name's, None if the name is refused.

    `place` is its path in the archive, unless at the top level, and `archives` are the inner archives around it, each
    with its MD5.
    """

    download_id: int
    file_name: str
    centre_id: int | None
    created: date | None
    inc: int | None
    size_bytes: int | None
    md5: str | None
    state: State
    place: str | None = None
    archives: Sequence[tuple[str, str]] = ()


def add_zip_actions(
    connection: Connection, states: Mapping[SubmissionKey, State], zips: Mapping[str, int]
) -> list[int]:
    """Add submissions in these states; returns their ids, in order. `zips` are the ids of archives, by file name."""
    rows = [{"zip_id": zips[key.file_name], "todo_id": key.action} | _columns(state) for key, state in states.items()]
    return insert_rows(connection, ZipAction, rows)


def add_downloads(
    connection: Connection,
    hosting_ids: Sequence[int],
    requested: datetime,
    state: State = REQUESTED,
    *,
    more: Sequence[Mapping[str, object]] = (),
) -> list[int]:
    """Add an attempt to download from each hosting (`file_source_has_zip.id`), and promote; returns their ids, in
    order.

    `requested` is in UTC. `received`, which may not be null, begins with the same time. `more` are further columns of
    each.
    """
    times = {"request": requested, "received": requested} | _columns(state)
    rows = [{"zf_id": hosting_id} | times for hosting_id in hosting_ids]
    if more:
        rows = [row | dict(columns) for row, columns in zip(rows, more, strict=True)]
    ids = insert_rows(connection, ZipDownload, rows)
    report(connection, [StateReport(Subject.ZIP_DOWNLOAD, download_id, state) for download_id in ids])
    return ids


def add_documents(connection: Connection, rows: Sequence[NewDocument]) -> list[int]:
    """Add the documents of downloads, and promote; returns their ids, in order."""
    parents = actions_of(connection, {row.download_id for row in rows})
    actions = _lock_actions(connection, parents.values())
    ids = insert_rows(
        connection,
        XmlFile,
        [
            {
                "zip_id": row.download_id,
                "fname": row.file_name,
                "content_md5": row.md5,
                "centre_id": row.centre_id,
                "created": row.created,
                "inc": row.inc,
                "size_bytes": row.size_bytes,
                **_columns(row.state),
            }
            for row in rows
        ],
    )
    places = [
        {"xml_id": number, "place": row.place, "archives": json.dumps(row.archives) if row.archives else None}
        for number, row in zip(ids, rows, strict=True)
        if row.place is not None
    ]
    insert_rows(connection, DocumentPlace, places)
    downloads = _read_states(connection, ZipDownload, parents)
    _apply(connection, ZipDownload, downloads, _rolled_up(connection, downloads))
    _apply(connection, ZipAction, actions, _from_latest(connection, parents, downloads))
    return ids


def report(connection: Connection, reports: Sequence[StateReport]) -> dict[tuple[Subject, int], State]:
    """Take the reported states that are above the present ones, and promote them to the parents.

    Returns the states of the given rows, and of the parents of each, afterwards; missing rows (their source was
    removed) are left out. If a row is named more than once, the last report about it decides whether it is promoted. A
    row whose state stays is promoted anyway. The number of statements does not depend on the number of reports,
    except for one more in every 500 rows of a table and for each newly taken state.
    """
    reported: dict[Subject, dict[int, State]] = {subject: {} for subject in Subject}
    promoted: dict[Subject, dict[int, bool]] = {subject: {} for subject in Subject}
    for subject, row_id, state, promote in reports:
        earlier = reported[subject].get(row_id, state)
        reported[subject][row_id] = advance(earlier, state)
        promoted[subject][row_id] = promote

    above = find_parents(connection, reported[Subject.ZIP_DOWNLOAD], reported[Subject.XML_FILE])
    actions = _lock_actions(connection, {*reported[Subject.ZIP_ACTION], *above.downloads.values()})
    downloads = _read_states(connection, ZipDownload, above.downloads)
    documents = _read_states(connection, XmlFile, above.documents)

    _apply(connection, XmlFile, documents, reported[Subject.XML_FILE])
    parents = {above.documents[row_id] for row_id in documents if promoted[Subject.XML_FILE][row_id]}
    rolled_up = _rolled_up(connection, parents)
    _apply(connection, ZipDownload, downloads, reported[Subject.ZIP_DOWNLOAD], rolled_up)
    direct = promoted[Subject.ZIP_DOWNLOAD]
    upwards = {row_id: state for row_id, state in downloads.items() if direct.get(row_id, row_id in rolled_up)}
    _apply(
        connection,
        ZipAction,
        actions,
        reported[Subject.ZIP_ACTION],
        _from_latest(connection, above.downloads, upwards),
    )
    return {
        (subject, row_id): state
        for subject, states in zip(Subject, (actions, downloads, documents), strict=True)
        for row_id, state in states.items()
    }


def fall_back_to_last_bytes(
    connection: Connection, za_ids: Collection[int], failures: Mapping[int, State] | None = None
) -> None:
    """No attempt follows for these submissions: each takes the state of its latest download with bytes.

    One that was opened again since then returns to it, but for one that is being uploaded to a source: it waits. Nor
    does one that a crawl opened, because it changed: what was fetched before must not be uploaded any more. It waits,
    or takes the state of its last attempt in `failures`. One that is held goes on waiting for its confirmation. One
    without any bytes stays as it is.
    """
    actions = _lock_actions(connection, za_ids)
    latest = list(latest_downloads(connection, actions))
    states = _read_states(connection, ZipDownload, {one.download_id for one in latest})
    taken, back = {}, {}
    for one in latest:
        state = states[one.download_id]
        if state.phase is Phase.DOWNLOAD:
            continue
        if one.counts:
            taken[one.za_id] = state
        elif actions[one.za_id] == WAITING:
            back[one.za_id] = state
    _apply(connection, ZipAction, actions, taken)
    for row in rows_about(connection, _UPLOADING, back):
        back.pop(row.za_id, None)
    may_be_held = [za_id for za_id, state in back.items() if state == NOT_UPLOADED]
    uploadable = back.keys() - {row.za_id for row in rows_about(connection, _HELD, may_be_held)}
    changed = {row.za_id for row in rows_about(connection, _CHANGED, uploadable)}
    back = {za_id: state for za_id, state in back.items() if za_id not in changed}
    _apply(
        connection, ZipAction, actions, {za_id: state for za_id, state in (failures or {}).items() if za_id in changed}
    )
    _write_states(connection, ZipAction, back)
    change_about(connection, _FELL_BACK, back, now=utc_now())


def reopen(connection: Connection, za_ids: Collection[int], requested_by: str, reason: str) -> None:
    """Set submissions back to waiting for their download, with a row in `reopening` for each; nothing is deleted.

    Their pending or running downloads become cancelled, unless they are validated, and no earlier download counts for
    them any more. That nobody had to act on them is revoked, and so is a quarantine.
    `requested_by` and `reason` are cut to 64 and 256 characters.
    """
    _set_back(connection, za_ids, WAITING, requested_by, reason)


def cancel(connection: Connection, za_ids: Collection[int], requested_by: str, reason: str) -> None:
    """Cancel submissions: no session takes them up until they are opened again; recorded as by `reopen`."""
    _set_back(connection, za_ids, CANCELLED, person_name(requested_by), reason)


def _set_back(connection: Connection, za_ids: Collection[int], to: State, requested_by: str, reason: str) -> None:
    actions = _lock_actions(connection, za_ids)
    change_about(connection, _NOTE_REOPENING, actions, by=requested_by, why=reason, now=utc_now())
    _write_states(connection, ZipAction, {za_id: to for za_id, state in actions.items() if state != to})
    revoke(connection, actions, DecisionKind.ACKNOWLEDGE, DecisionKind.QUARANTINE, by=requested_by)
    unfinished: list[int] = []
    for ids in sorted_chunks(actions):
        unfinished.extend(connection.scalars(_UNFINISHED_DOWNLOADS, {"ids": ids}))
    _cancel(connection, unfinished)


def reopen_documents(
    connection: Connection, states: Mapping[int, State], requested_by: str, reason: str
) -> dict[int, State]:
    """Set documents, by the ids of their `xml_file`, to any states, with a row in `document_reopening` for each.

    Their downloads, and the submissions of the latest downloads, get the resulting states, unless they have not come so
    far or failed before. This may be further back or further on. Returns the former states of the documents; missing
    ones, and those that have their new state already, are left out and unchanged. `requested_by` and `reason` are cut
    to 64 and 256 characters.
    """
    above = find_parents(connection, (), states)
    actions = _lock_actions(connection, above.downloads.values())
    present = _read_states(connection, XmlFile, above.documents)
    former = {row_id: state for row_id, state in present.items() if states[row_id] != state}
    now = utc_now()
    rows = [
        {
            "xml_id": row_id,
            "from_phase_id": state.phase,
            "from_status_id": state.status,
            "to_phase_id": states[row_id].phase,
            "to_status_id": states[row_id].status,
            "requested_by": requested_by,
            "reason": reason,
            "created": now,
        }
        for row_id, state in former.items()
    ]
    insert_rows(connection, DocumentReopening, rows)
    _write_states(connection, XmlFile, {row_id: states[row_id] for row_id in former})
    parents = {above.documents[row_id] for row_id in former}
    downloads = _read_states(connection, ZipDownload, parents)
    _roll_up_again(connection, ZipDownload, downloads, _rolled_up(connection, parents))
    _roll_up_again(connection, ZipAction, actions, _from_latest(connection, above.downloads, downloads))
    return former


def note_changed(connection: Connection, za_ids: Iterable[int]) -> None:
    """Have submissions count as changed now, though their states have not, so that views show them again."""
    change_about(connection, _CHANGED_NOW, za_ids)


def cancel_downloads(connection: Connection, download_ids: Collection[int]) -> None:
    """Record that attempts were given up: pending or running ones become cancelled, without promotion."""
    _lock_actions(connection, actions_of(connection, download_ids).values())
    _cancel(connection, download_ids)


_Stateful = type[ZipAction] | type[ZipDownload] | type[XmlFile]

_LAST_WITHOUT_DOCUMENTS: Final = Phase.UNZIP

_UNFINISHED_DOWNLOADS = (
    select(ZipDownload.id)
    .join(FileSourceHasZip)
    # A validated one can count again: `fall_back_to_last_bytes`.
    .where(
        FileSourceHasZip.za_id.in_(IDS),
        ZipDownload.phase_id <= Phase.XSD,
        ZipDownload.status_id.in_(UNFINISHED),
    )
)
_CHILDREN = (
    select(XmlFile.download_id, XmlFile.phase_id, XmlFile.status_id)
    .where(XmlFile.download_id.in_(IDS))
    .group_by(XmlFile.download_id, XmlFile.phase_id, XmlFile.status_id)
)
_READ = {
    model: select(model.id, model.phase_id, model.status_id).where(model.id.in_(IDS)).order_by(model.id)
    for model in (ZipAction, ZipDownload, XmlFile)
}
_CHANGED_NOW = update(ZipAction).where(ZipAction.id.in_(IDS)).values(last_update=func.current_timestamp())
_LOCK = _READ[ZipAction].with_for_update()
_WRITE = {
    model: update(model).where(model.id.in_(IDS)).values(phase_id=bindparam("phase"), status_id=bindparam("status"))
    for model in (ZipAction, ZipDownload, XmlFile)
}
_NOTE_REOPENING = insert(Reopening).from_select(
    ["za_id", "from_phase_id", "from_status_id", "last_download_id", "requested_by", "reason", "created"],
    select(
        ZipAction.id,
        ZipAction.phase_id,
        ZipAction.status_id,
        select(func.max(ZipDownload.id))
        .join(FileSourceHasZip, FileSourceHasZip.id == ZipDownload.zf_id)
        .where(FileSourceHasZip.za_id == ZipAction.id)
        .correlate(ZipAction)
        .scalar_subquery(),
        bindparam("by", type_=Reopening.requested_by.type),
        bindparam("why", type_=Reopening.reason.type),
        bindparam("now", type_=UtcDateTime()),
    ).where(ZipAction.id.in_(IDS)),
)
_FELL_BACK = (
    update(Reopening).where(Reopening.za_id.in_(IDS), is_without_bytes_since()).values(fell_back=bindparam("now"))
)
_CHANGED = select(Reopening.za_id).where(Reopening.za_id.in_(IDS), changed_since_last_bytes())
_HELD = submissions_with_entries(select(FileSourceHasZip.za_id).where(FileSourceHasZip.za_id.in_(IDS))).where(
    is_at(XmlFile, NOT_UPLOADED), AnException.short_name == HELD
)
_UPLOADING = (
    select(FileSourceHasZip.za_id)
    .join(FileSource)
    .where(
        FileSourceHasZip.za_id.in_(IDS),
        FileSourceHasZip.uploading_since.is_not(None),
        FileSourceHasZip.gone_since.is_(None),
        FileSource.state_id != SourceState.REMOVED,
    )
)
_CANCEL = (
    update(ZipDownload)
    .where(ZipDownload.id.in_(IDS), ZipDownload.status_id.in_(UNFINISHED))
    .values(status_id=Status.CANCELLED, outcome=func.coalesce(ZipDownload.outcome, AttemptOutcome.ABORTED.value))
)


def _columns(state: State) -> dict[str, object]:
    return {"phase_id": state.phase, "status_id": state.status}


def _lock_actions(connection: Connection, za_ids: Iterable[int]) -> dict[int, State]:
    """The states of submissions, which no other transaction can change until this one ends, nor those below them."""
    return _states_of(rows_about(connection, _LOCK, za_ids))


def _read_states(connection: Connection, model: _Stateful, ids: Iterable[int]) -> dict[int, State]:
    return _states_of(rows_about(connection, _READ[model], ids))


def _states_of(rows: Iterable[Any]) -> dict[int, State]:
    return {row_id: STATES[phase, status] for row_id, phase, status in rows}


def _rolled_up(connection: Connection, download_ids: Iterable[int]) -> dict[int, State]:
    rows = rows_about(connection, _CHILDREN, download_ids)
    children = group_pairs((download_id, STATES[phase, status]) for download_id, phase, status in rows)
    return {download_id: state for download_id, states in children.items() if (state := roll_up(states))}


def _from_latest(
    connection: Connection, parents: Mapping[int, int], downloads: Mapping[int, State]
) -> dict[int, State]:
    """The state that each submission takes from its latest download, where that is among `downloads`."""
    za_ids = {parents[download_id] for download_id in downloads}
    return {
        one.za_id: downloads[one.download_id]
        for one in latest_downloads(connection, za_ids)
        if one.download_id in downloads and one.counts
    }


def _apply(connection: Connection, model: _Stateful, present: dict[int, State], *reported: Mapping[int, State]) -> None:
    """Take the reported states that stand above the present ones, in `present` and in the database."""
    changed: dict[int, State] = {}
    for states in reported:
        for row_id, state in states.items():
            old = present.get(row_id)
            if old is not None and advance(old, state) != old:
                present[row_id] = changed[row_id] = state
    _write_states(connection, model, changed)


def _roll_up_again(
    connection: Connection, model: _Stateful, present: dict[int, State], rolled_up: Mapping[int, State]
) -> None:
    """Take what the documents give, in `present` and in the database, where a state comes from documents at all."""
    changed = {
        row_id: state
        for row_id, state in rolled_up.items()
        if row_id in present and present[row_id].phase > _LAST_WITHOUT_DOCUMENTS and present[row_id] != state
    }
    present.update(changed)
    _write_states(connection, model, changed)


def _write_states(connection: Connection, model: _Stateful, states: Mapping[int, State]) -> None:
    for state, row_ids in sorted(group_pairs((state, row_id) for row_id, state in states.items()).items()):
        change_about(connection, _WRITE[model], row_ids, phase=state.phase, status=state.status)


def _cancel(connection: Connection, download_ids: Iterable[int]) -> None:
    change_about(connection, _CANCEL, download_ids)
