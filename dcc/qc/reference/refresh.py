"""Refreshes reference data from what the settings name; a set that cannot be read leaves the last one in use.

What comes from a server is read first, then saved in one short transaction. A set that has shrunk to less than half is
refused: probably the answer was cut short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine

from dcc.databases.columns import utc_now
from dcc.errors import ConfigurationError, NotFoundError, ReferenceDataError, ReferenceUnreachableError
from dcc.qc.database import run_reading, run_writing
from dcc.qc.reference.retrieval import remove_pages_but_of, retrieve
from dcc.qc.reference.snapshots import (
    Refusal,
    StoredSnapshot,
    active_snapshots,
    forget_refusal,
    load_active,
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
from dcc.settings import Settings
from dcc.settings.reference import is_from_source, is_url, shown_source

LOOKED_AT_WITHIN: Final = timedelta(hours=36)
"""For how long a session takes a set for what its server has: longer than from one nightly refresh to the next."""

SMALLEST_SHARE: Final = 0.5
"""The share of its entries that a set must keep to be taken over unasked."""


class RefreshOutcome(StrEnum):
    """What a refresh of a set came to."""

    NEW = "new"
    UNCHANGED = "unchanged"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh of a set came to.

    `rows`, `source` and `snapshot_id` are those of the snapshot that is active afterwards, 0 and None if there is none;
    `added`, `removed` and `changed` count entries in comparison with the one before. `message` says it in a sentence:
    for one that failed, why, what is in use meanwhile and what to do. `is_unreachable`: it failed since the source
    could not be reached, so that trying again may help.
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
) -> list[Refreshed]:
    """Read the sets that are not as the settings name them by now; what came of each of those.

    Without a setting that is the set that comes with the platform. A file is read anew when it has changed; a server is
    asked when a set was last found there LOOKED_AT_WITHIN ago, or what it had since was refused. `active` are the rows
    of the active snapshots, where the caller has them: then the database is not asked unless a set is to be read.
    Raises what working with the QC database raises, for a set that cannot be read nothing.
    """
    if active is None:
        active = run_reading(qc, active_snapshots, patience_seconds=settings.database_retry)
    due = [name for name in SETS if not _is_current(active.get(name), settings.reference_sources[name], name)]
    return refresh(qc, settings, due) if due else []


def refresh(
    qc: Engine, settings: Settings, names: Iterable[str] | None = None, *, force: bool = False
) -> list[Refreshed]:
    """Read sets anew from where the settings name, by default all; what came of each, in the order of SETS.

    One that fails does not keep the others. `force` takes over a set that has shrunk. Raises NotFoundError for a name
    that is none of a set, before anything is read, and what working with the QC database raises.
    """
    wanted = chosen_sets(names)
    refreshed = [_refresh(qc, settings, name, force=force) for name in wanted]
    urls = [source for source in settings.reference_sources.values() if source is not None and is_url(source)]
    run_writing(qc, lambda connection: remove_pages_but_of(connection, urls), patience_seconds=settings.database_retry)
    return refreshed


def chosen_sets(names: Iterable[str] | None) -> Sequence[str]:
    """The sets of some names, each once in the order of SETS; all for None. Raises NotFoundError for another name."""
    if names is None:
        return SETS
    chosen = set(names)
    unknown = sorted(chosen - set(SETS))
    if unknown:
        raise NotFoundError(f"There is no set of reference data {unknown[0]!r}. Name one of {', '.join(SETS)}.")
    return [name for name in SETS if name in chosen]


def _refresh(qc: Engine, settings: Settings, name: str, *, force: bool) -> Refreshed:
    patience = settings.database_retry
    try:
        snapshot = _read(qc, settings, name)
        configured = settings.reference_sources[name]
        return run_writing(
            qc, lambda connection: _take_over(connection, snapshot, configured, force), patience_seconds=patience
        )
    except (ReferenceUnreachableError, ConfigurationError) as error:
        _remember(qc, settings, name, str(error))
        active = run_reading(qc, active_snapshots, patience_seconds=patience).get(name)
        return _failed(name, active, error)


def _remember(qc: Engine, settings: Settings, name: str, reason: str) -> None:
    """Remember why what a server has was refused; a file is looked at whenever one asks for the state of its set."""
    configured = settings.reference_sources[name]
    if configured is not None and is_url(configured):
        refusal = Refusal(name, source_of(configured), utc_now(), reason)
        run_writing(
            qc, lambda connection: remember_refusal(connection, refusal), patience_seconds=settings.database_retry
        )


def _read(qc: Engine, settings: Settings, name: str) -> Snapshot:
    configured = settings.reference_sources[name]
    if configured is None:
        shipped: Snapshot = load_shipped_set(name)
        return shipped
    if is_url(configured):
        return retrieve(qc, settings, name, configured)
    return _read_from_disk(name, Path(configured))


def _read_from_disk(name: str, path: Path) -> Snapshot:
    if not path.is_dir():
        return load_from_file(name, path)
    found = load_from_folder(name, path)
    if found is None:
        raise ReferenceDataError(f"{path} holds no {name}. Put them there, or correct {setting_of(name)}.")
    return found


def setting_of(name: str) -> str:
    """The environment variable that names where a set is read from."""
    return f"DCC_REFERENCE_{name.upper()}"


def _take_over(connection: Connection, snapshot: Snapshot, configured: str | None, force: bool) -> Refreshed:
    before = active_snapshots(connection).get(snapshot.name)
    if before is not None and not force:
        _require_size(before, snapshot, configured)
    added, removed, changed = _compared(connection, before, snapshot)
    snapshot_id = save(connection, snapshot)
    forget_refusal(connection, snapshot.name)
    is_new = before is None or before.id != snapshot_id
    told = f"{added:,} added, {removed:,} removed, {changed:,} changed" if is_new else "nothing has changed"
    return Refreshed(
        snapshot.name,
        RefreshOutcome.NEW if is_new else RefreshOutcome.UNCHANGED,
        snapshot.rows,
        added,
        removed,
        changed,
        f"{snapshot.name} from {snapshot.source}, entries: {snapshot.rows:,}; {told}.",
        snapshot.source,
        snapshot_id,
    )


def _require_size(before: StoredSnapshot, snapshot: Snapshot, configured: str | None) -> None:
    """Refuse a set that has shrunk. Sets of two origins are not compared, such as the shipped one and a DCC's own."""
    has_shrunk = before.checksum != snapshot.checksum and snapshot.rows < before.rows * SMALLEST_SHARE
    if has_shrunk and is_of_origin(before.source, configured):
        raise ReferenceDataError(
            f"{snapshot.source} has {snapshot.rows:,} entries of {snapshot.name} where there were {before.rows:,}: "
            f"less than half. If that is right, run `dcc reference refresh {snapshot.name} --force`."
        )


def _compared(connection: Connection, before: StoredSnapshot | None, snapshot: Snapshot) -> tuple[int, int, int]:
    if before is None:
        return len(snapshot.entries), 0, 0
    if before.checksum == snapshot.checksum:
        return 0, 0, 0
    known = load_active(connection).data.find(type(snapshot))
    old, new = known.entries if known is not None else {}, snapshot.entries
    common = old.keys() & new.keys()
    return len(new) - len(common), len(old) - len(common), sum(old[key] != new[key] for key in common)


def _failed(name: str, active: StoredSnapshot | None, error: Exception) -> Refreshed:
    if active is None:
        remains = f"There are no {name}: the rules that need them are skipped."
    else:
        remains = f"Those retrieved on {active.retrieved:%Y-%m-%d} from {active.source} stay in use."
    return Refreshed(
        name,
        RefreshOutcome.FAILED,
        active.rows if active is not None else 0,
        0,
        0,
        0,
        f"{name} could not be refreshed: {error} {remains}",
        active.source if active is not None else None,
        active.id if active is not None else None,
        isinstance(error, ReferenceUnreachableError),
    )


def is_of_origin(source: str, configured: str | None) -> bool:
    """Whether a snapshot's `source` is what a setting names; without one, what comes with the platform."""
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
    # One that was retrieved again, and says the same, is less old than it was.
    return found is not None and found.checksum == active.checksum and found.retrieved <= active.checked


def what_is_wrong(name: str, active: StoredSnapshot | None, configured: str | None) -> str | None:
    """Why what a setting names is not in use: it is refused, cannot be read, or is not read yet; None if it is in use.

    Of what is on a server that is not looked at.
    """
    in_use = f"There are no {name}" if active is None else f"The {name} in use are from {active.source}"
    is_other = active is None or not is_of_origin(active.source, configured)
    if configured is not None and not is_url(configured):
        path = Path(configured)
        try:
            if active is None:
                _read_from_disk(name, path)
            elif is_other or not _is_unchanged(active, path, name):
                _require_size(active, _read_from_disk(name, path), configured)
        except (ReferenceDataError, OSError) as error:
            return f"{in_use}: {error}"
    if not is_other or active is None:
        return None
    wanted = "those that come with the platform" if configured is None else shown_source(configured)
    return (
        f"{in_use}, and {setting_of(name)} asks for {wanted}. Run `dcc reference refresh {name}`, or wait for the next "
        "session."
    )
