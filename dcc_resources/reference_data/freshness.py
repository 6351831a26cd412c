"""How old the reference data are that documents are judged by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from dcc_resources.reference_data.addresses import is_url
from dcc_resources.reference_data.loading import SETS, SHIPPED_SOURCE
from dcc_resources.reference_data.refreshing import LOOKED_AT_WITHIN, is_of_origin, setting_of, what_is_wrong
from dcc_resources.reference_data.store import StoredSnapshot, active_snapshots
from dcc_resources.settings import Settings


@dataclass(frozen=True, slots=True)
class Freshness:
    """A set of reference data and its age, which is the time since it was last found at its source (`checked`).

    Of a set that is not there, all that would tell of it is None. One that comes with the platform is never stale.
    `is_other`: what is in use is not what the setting names by now. `message` says what to do about a set that is
    missing, stale, another one, refused, or not to be read; None where it is none of that.
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

    @property
    def is_missing(self) -> bool:
        """Whether there is no such set, so that the rules which need it are skipped."""
        return self.snapshot_id is None


def freshness(connection: Connection, settings: Settings, now: datetime) -> list[Freshness]:
    """The sets in the order of SETS, those that are not there too; `now` is naive and in UTC."""
    active = active_snapshots(connection)
    limit = timedelta(days=settings.reference_max_age_days)
    sources = settings.reference_sources
    return [_freshness(name, active.get(name), sources[name], now, limit) for name in SETS]


def _freshness(
    name: str, stored: StoredSnapshot | None, configured: str | None, now: datetime, limit: timedelta
) -> Freshness:
    wrong = what_is_wrong(name, stored, configured)
    if stored is None:
        message = wrong or (
            f"There are no {name}: the rules that need them are skipped. Run `dcc reference refresh {name}`; "
            f"{setting_of(name)} says where they are read from."
        )
        return Freshness(name, None, None, None, None, None, None, False, False, message)
    age = now - stored.checked
    is_shipped = stored.source.startswith(SHIPPED_SOURCE)
    is_stale = age > limit and not is_shipped
    said = (
        f"The {name} from {stored.source} are {age.days} days old, more than {limit.days}. Run `dcc reference refresh "
        f"{name}`; DCC_REFERENCE_MAX_AGE_DAYS sets the limit."
    )
    if not is_stale:
        said = _not_found_lately(stored, age) if is_url(stored.source) and age > 2 * LOOKED_AT_WITHIN else ""
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
        " ".join(filter(None, (said, wrong))) or None,
        not is_of_origin(stored.source, configured),
    )


def _not_found_lately(stored: StoredSnapshot, age: timedelta) -> str:
    return (
        f"The {stored.name} were last found at {stored.source} {age.days} days ago, although every session looks for "
        f"them. `dcc reference refresh {stored.name}` says why."
    )
