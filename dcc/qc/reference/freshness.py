"""The age of the reference data that documents are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcc.qc.reference.refresh import LOOKED_AT_WITHIN, is_of_origin, setting_of, source_problem
from dcc.qc.reference.snapshots import SourceRefusal, StoredSnapshot, active_snapshots, refusals, source_of
from dcc.reference.loading import SETS, SHIPPED_SOURCE
from dcc.settings import Settings
from dcc.settings.reference import is_url


@dataclass(frozen=True, slots=True)
class Freshness:
    """A set of reference data and its age, which is the time since it was last found at its source (`checked`).

    Of a missing set, all other fields are None. A shipped one is never stale. `is_other`: the set in use is not what
    the setting names now. `message` says what to do about a set that is missing, stale, another one, refused, or
    unreadable; else None. `refusal` is its part with the reason why the server's set was refused, or unreadable, at the
    last try.
    """

    name: str
    source: str | None
    retrieved: datetime | None
    checked: datetime | None
    rows: int | None
    snapshot_id: int | None
    age: timedelta | None
    is_stale: bool
    is_shipped: bool
    message: str | None
    is_other: bool = False
    refusal: str | None = None

    @property
    def is_missing(self) -> bool:
        """Whether the set is missing, so that its rules are skipped."""
        return self.snapshot_id is None


def freshness(connection: Connection, settings: Settings, now: datetime) -> list[Freshness]:
    """The sets in the order of SETS, including missing ones; `now` is naive and in UTC."""
    active = active_snapshots(connection)
    limit = timedelta(days=settings.reference_max_age_days)
    refused = refusals(connection)
    sources = settings.reference_sources
    return [
        _freshness(name, active.get(name), sources[name], _refusal_text(refused.get(name), sources[name]), now, limit)
        for name in SETS
    ]


def _refusal_text(refusal: SourceRefusal | None, configured: str | None) -> str | None:
    """Why the set that the setting names was refused; None for another source."""
    if refusal is None or configured is None or refusal.source != source_of(configured):
        return None
    return f"{refusal.name} could not be refreshed on {refusal.refused:%Y-%m-%d at %H:%M} UTC: {refusal.reason}"


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
        message = _joined(missing, refusal)
        return Freshness(name, None, None, None, None, None, None, False, False, message, refusal=refusal)
    age = now - stored.checked
    is_shipped = stored.source.startswith(SHIPPED_SOURCE)
    is_stale = age > limit and not is_shipped
    old = _stale(stored, age, limit) if is_stale else _not_found_lately(stored, age, refusal)
    return Freshness(
        name,
        stored.source,
        stored.retrieved,
        stored.checked,
        stored.rows,
        stored.id,
        age,
        is_stale,
        is_shipped,
        _joined(old, wrong, refusal),
        not is_of_origin(stored.source, configured),
        refusal,
    )


def _joined(*sentences: str | None) -> str | None:
    return " ".join(filter(None, sentences)) or None


def _stale(stored: StoredSnapshot, age: timedelta, limit: timedelta) -> str:
    return (
        f"The {stored.name} from {stored.source} are {age.days} days old, more than {limit.days}. Run `dcc reference "
        f"refresh {stored.name}`; DCC_REFERENCE_MAX_AGE_DAYS sets the limit."
    )


def _not_found_lately(stored: StoredSnapshot, age: timedelta, refusal: str | None) -> str | None:
    if not is_url(stored.source) or age <= 2 * LOOKED_AT_WITHIN:
        return None
    found = f"The {stored.name} were last found at {stored.source} {age.days} days ago"
    if refusal is not None:
        return f"{found}."
    return f"{found}, although every session looks for them. `dcc reference refresh {stored.name}` says why."
