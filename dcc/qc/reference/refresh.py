"""Refreshes reference data from the sources in the settings; if a set cannot be read, the last one stays in use.

Data from a server are read first, then saved in one short transaction. A set that has shrunk to less than half is
refused: probably the answer was truncated. `freshness` says how old the sets are, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading, run_writing
from dcc.errors import ConfigurationError, NotFoundError, ReferenceDataError, ReferenceUnreachableError
from dcc.messages import count_of
from dcc.qc.reference.retrieval import remove_pages_but_of, retrieve
from dcc.qc.reference.snapshots import (
    SourceRefusal,
    StoredSnapshot,
    active_snapshots,
    forget_refusal,
    load_active,
    refusals,
    remember_refusal,
    save,
    source_of,
)
from dcc.reference.loading import (
    SETS,
    SHIPPED_SOURCE,
    load_from_file,
    load_from_folder,
    load_shipped_set,
    provenance_at,
    shipped_checksum,
)
from dcc.reference.snapshots import Snapshot
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.settings.reference import is_from_source, is_url, shown_source

LOOKED_AT_WITHIN: Final = timedelta(hours=36)
"""How long a session relies on a set from a server: longer than from one nightly refresh to the next."""

SMALLEST_SHARE: Final = 0.5
"""The share of its entries that a set must keep to be accepted without `force`."""


class RefreshOutcome(StrEnum):
    """The outcome of refreshing a set."""

    NEW = "new"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """The result of refreshing a set.

    `rows`, `source` and `snapshot_id` are those of the active snapshot afterwards, 0 and None without one; `added`,
    `removed` and `changed` count entries in comparison with the one before. `message` is a sentence about it: for a
    failure, why, what is in use meanwhile and what to do. `is_unreachable`: the source could not be reached, so that
    trying again may help.
    """

    name: str
    outcome: RefreshOutcome
    rows: int
    added: int
    removed: int
    changed: int
    message: str
    source: str | None
    snapshot_id: int | None
    is_unreachable: bool = False


def ensure_reference(
    qc: Engine, settings: Settings, active: Mapping[str, StoredSnapshot] | None = None
) -> list[RefreshResult]:
    """Read the sets that are not as the settings name them now; returns the results of those.

    Without a setting that is the shipped set. A file is read again if it has changed; a server is asked if a set was
    last found there more than LOOKED_AT_WITHIN ago, or its later one was refused. `active` are the rows of the active
    snapshots, if the caller has them: then the database is queried only if a set must be read. Raises database errors,
    but nothing for an unreadable set.
    """
    if active is None:
        active = run_reading(qc, active_snapshots)
    due = [name for name in SETS if not _is_current(active.get(name), settings.reference_sources[name], name)]
    return refresh(qc, settings, due) if due else []


def refresh(
    qc: Engine, settings: Settings, names: Iterable[str] | None = None, *, force: bool = False
) -> list[RefreshResult]:
    """Read sets again from their sources, by default all; returns the results, in the order of SETS.

    A failed one does not stop the others. `force` accepts a set that has shrunk. Raises NotFoundError for an unknown
    name, before anything is read, and database errors.
    """
    wanted = chosen_sets(names)
    refreshed = [_refresh(qc, settings, name, force=force) for name in wanted]
    urls = [source for source in settings.reference_sources.values() if source is not None and is_url(source)]
    run_writing(qc, lambda connection: remove_pages_but_of(connection, urls))
    return refreshed


def chosen_sets(names: Iterable[str] | None) -> Sequence[str]:
    """The distinct sets with some names in the order of SETS; all for None. Raises NotFoundError for another name."""
    if names is None:
        return SETS
    chosen = set(names)
    unknown = sorted(chosen - set(SETS))
    if unknown:
        raise NotFoundError(f"No set of reference data {unknown[0]!r} exists. Name one of {', '.join(SETS)}.")
    return [name for name in SETS if name in chosen]


def _refresh(qc: Engine, settings: Settings, name: str, *, force: bool) -> RefreshResult:
    try:
        snapshot = read_source(qc, settings, name)
        configured = settings.reference_sources[name]
        return run_writing(qc, lambda connection: _take_over(connection, snapshot, configured, force=force))
    except (ReferenceUnreachableError, ConfigurationError) as error:
        _remember(qc, settings, name, str(error))
        active = run_reading(qc, active_snapshots).get(name)
        return _failed(name, active, error)


def _remember(qc: Engine, settings: Settings, name: str, reason: str) -> None:
    """Record why a server's set was refused; a file is read whenever the state of its set is asked for."""
    configured = settings.reference_sources[name]
    if configured is not None and is_url(configured):
        refusal = SourceRefusal(name, source_of(configured), utc_now(), reason)
        run_writing(qc, lambda connection: remember_refusal(connection, refusal))


def read_source(qc: Engine, settings: Settings, name: str) -> Snapshot:
    """A set as the settings name it now; `qc` keeps what servers sent, and nothing else.

    Raises ReferenceUnreachableError and ReferenceDataError.
    """
    configured = settings.reference_sources[name]
    if configured is None:
        return load_shipped_set(name)
    if is_url(configured):
        return retrieve(qc, settings, name, configured)
    return _read_from_disk(name, Path(configured))


def _read_from_disk(name: str, path: Path) -> Snapshot:
    try:
        found = load_from_folder(name, path) if path.is_dir() else load_from_file(name, path)
    except OSError as error:
        # Such as a folder on the way that may not be entered, or whose server is away.
        raise ReferenceDataError(f"{path} cannot be read ({error.strerror}). Make it readable.") from error
    if found is None:
        raise ReferenceDataError(f"{path} holds no {name}. Put them there, or correct {setting_of(name)}.")
    return found


def setting_of(name: str) -> str:
    """The environment variable with a set's source."""
    return f"DCC_REFERENCE_{name.upper()}"


def _take_over(connection: Connection, snapshot: Snapshot, configured: str | None, *, force: bool) -> RefreshResult:
    before = active_snapshots(connection).get(snapshot.name)
    if before is not None and not force:
        _require_size(before, snapshot, configured)
    found = _compared(connection, before, snapshot)
    snapshot_id = save(connection, snapshot)
    forget_refusal(connection, snapshot.name)
    is_new = before is None or before.id != snapshot_id
    changes = "nothing has changed"
    if is_new:
        changes = f"{found.added:,} added, {found.removed:,} removed, {found.changed:,} changed"
    return RefreshResult(
        snapshot.name,
        RefreshOutcome.NEW if is_new else RefreshOutcome.UNCHANGED,
        snapshot.rows,
        *found,
        f"{snapshot.name} from {snapshot.source}, entries: {snapshot.rows:,}; {changes}.",
        snapshot.source,
        snapshot_id,
    )


def _require_size(before: StoredSnapshot, snapshot: Snapshot, configured: str | None) -> None:
    """Refuse a set that has shrunk. Sets of two origins, such as the shipped one and a DCC's own, are not compared."""
    has_shrunk = before.checksum != snapshot.checksum and snapshot.rows < before.rows * SMALLEST_SHARE
    if has_shrunk and is_of_origin(before.source, configured):
        raise ReferenceDataError(
            f"{snapshot.source} has {count_of(snapshot.rows, 'entry')} of {snapshot.name}; it had {before.rows:,}: "
            f"less than half. If that is right, run `dcc reference refresh {snapshot.name} --force`."
        )


class _Differences(NamedTuple):
    """How many entries of a set are new, gone and changed since an earlier one."""

    added: int = 0
    removed: int = 0
    changed: int = 0


def _compared(connection: Connection, before: StoredSnapshot | None, snapshot: Snapshot) -> _Differences:
    if before is None:
        return _Differences(added=len(snapshot.entries))
    if before.checksum == snapshot.checksum:
        return _Differences()
    known = load_active(connection).data.find(type(snapshot))
    old, new = known.entries if known is not None else {}, snapshot.entries
    common = old.keys() & new.keys()
    changed = sum(old[key] != new[key] for key in common)
    return _Differences(len(new) - len(common), len(old) - len(common), changed)


def _failed(name: str, active: StoredSnapshot | None, error: Exception) -> RefreshResult:
    if active is None:
        remains = f"No {name} are loaded: the rules that need them are skipped."
    else:
        remains = f"Those retrieved on {active.retrieved:%Y-%m-%d} from {active.source} stay in use."
    return RefreshResult(
        name,
        RefreshOutcome.FAILED,
        active.rows if active is not None else 0,
        *_Differences(),
        f"{name} could not be refreshed: {error} {remains}",
        active.source if active is not None else None,
        active.id if active is not None else None,
        isinstance(error, ReferenceUnreachableError),
    )


def is_of_origin(source: str, configured: str | None) -> bool:
    """Whether a snapshot's `source` is what a setting names; without one, the shipped set."""
    return source.startswith(SHIPPED_SOURCE) if configured is None else is_from_source(source, configured)


def _is_current(active: StoredSnapshot | None, configured: str | None, name: str) -> bool:
    if active is None or not is_of_origin(active.source, configured):
        return False
    if configured is None:
        return active.checksum == shipped_checksum(name)
    if is_url(configured):
        was_refused = active.refused_at == source_of(configured)
        return not was_refused and utc_now() - active.checked < LOOKED_AT_WITHIN
    return _is_unchanged(active, Path(configured), name)


def _is_unchanged(active: StoredSnapshot, path: Path, name: str) -> bool:
    try:
        found = provenance_at(name, path)
    except (ReferenceDataError, OSError):
        return False
    # An unchanged set that was retrieved again is as new as that.
    return found is not None and found.checksum == active.checksum and found.retrieved <= active.checked


def source_problem(name: str, active: StoredSnapshot | None, configured: str | None) -> str | None:
    """Why the set that a setting names is not in use: refused, unreadable, or not read yet; None if it is in use.

    Sets on servers are not read for this.
    """
    in_use = f"No {name} are loaded" if active is None else f"The {name} in use are from {active.source}"
    is_other = active is None or not is_of_origin(active.source, configured)
    if configured is not None and not is_url(configured):
        path = Path(configured)
        try:
            if active is None:
                _read_from_disk(name, path)
            elif is_other or not _is_unchanged(active, path, name):
                _require_size(active, _read_from_disk(name, path), configured)
        except ReferenceDataError as error:
            return f"{in_use}: {error}"
    if not is_other or active is None:
        return None
    wanted = "those that come with the platform" if configured is None else shown_source(configured)
    return (
        f"{in_use}, and {setting_of(name)} asks for {wanted}. Run `dcc reference refresh {name}`, or wait for the next "
        "session."
    )


@dataclass(frozen=True, slots=True)
class Freshness:
    """A set of reference data and its age, which is the time since it was last found at its source (`checked`).

    Of a missing set, all other fields are None. A shipped one is never stale. `is_other`: the set in use is not what
    the setting names now. `message` says what to do about a set that is missing, stale, another one, refused, or
    unreadable; else None. `refusal` is its part with the reason why the server's set was refused, or unreadable, at the
    last try.
    """

    name: str
    message: str | None
    refusal: str | None
    source: str | None = None
    retrieved: datetime | None = None
    checked: datetime | None = None
    rows: int | None = None
    snapshot_id: int | None = None
    age: timedelta | None = None
    is_stale: bool = False
    is_shipped: bool = False
    is_other: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether the set is missing, so that its rules are skipped."""
        return self.snapshot_id is None


def freshness(connection: Connection, settings: Settings, now: datetime) -> list[Freshness]:
    """The sets in the order of SETS, including missing ones; `now` is naive and in UTC."""
    active, refused = active_snapshots(connection), refusals(connection)
    limit = timedelta(days=settings.reference_max_age_days)
    found = []
    for name in SETS:
        configured, refusal = settings.reference_sources[name], refused.get(name)
        why = None
        # A refusal of another source than the setting names counts no more.
        if refusal is not None and configured is not None and refusal.source == source_of(configured):
            why = f"{name} could not be refreshed on {refusal.refused:%Y-%m-%d at %H:%M} UTC: {refusal.reason}"
        found.append(_freshness(name, active.get(name), configured, why, now, limit))
    return found


NONE_READ_YET: Final = "None were read yet; the first session does."


def were_never_read(sets: Iterable[Freshness], settings: Settings) -> bool:
    """Whether no set was read yet, nor is one to be read from elsewhere: a session reads those that are shipped."""
    return all(each.is_missing and each.refusal is None for each in sets) and not any(
        settings.reference_sources.values()
    )


def _freshness(
    name: str,
    stored: StoredSnapshot | None,
    configured: str | None,
    refusal: str | None,
    now: datetime,
    limit: timedelta,
) -> Freshness:
    wrong = source_problem(name, stored, configured)
    if stored is None:
        missing = wrong or (
            f"No {name} are loaded: the rules that need them are skipped. Run `dcc reference refresh {name}`; "
            f"{setting_of(name)} says where they are read from."
        )
        return Freshness(name, _joined(missing, refusal), refusal)
    age = now - stored.checked
    is_shipped = stored.source.startswith(SHIPPED_SOURCE)
    is_stale = age > limit and not is_shipped
    old = _stale(stored, age, limit) if is_stale else _not_found_lately(stored, age, refusal)
    return Freshness(
        name,
        _joined(old, wrong, refusal),
        refusal,
        stored.source,
        stored.retrieved,
        stored.checked,
        stored.rows,
        stored.id,
        age,
        is_stale,
        is_shipped,
        not is_of_origin(stored.source, configured),
    )


def _joined(*sentences: str | None) -> str | None:
    return " ".join(filter(None, sentences)) or None


def _stale(stored: StoredSnapshot, age: timedelta, limit: timedelta) -> str:
    return (
        f"The {stored.name} from {stored.source} are {count_of(age.days, 'day')} old, more than {limit.days}. Run "
        f"`dcc reference refresh {stored.name}`; DCC_REFERENCE_MAX_AGE_DAYS sets the limit."
    )


def _not_found_lately(stored: StoredSnapshot, age: timedelta, refusal: str | None) -> str | None:
    if not is_url(stored.source) or age <= 2 * LOOKED_AT_WITHIN:
        return None
    found = f"The {stored.name} were last found at {stored.source} {count_of(age.days, 'day')} ago"
    if refusal is not None:
        return f"{found}."
    return f"{found}, although every session looks for them. `dcc reference refresh {stored.name}` says why."
