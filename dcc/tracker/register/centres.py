"""The register of centres, and of their delegations: one permits another to submit its data and publish its archives.

Nothing is deleted: a delegation that was revoked, or has ended, stays on record. Plain functions on a connection; those
that write expect the caller's write transaction (`dcc.databases.transactions.writing`).
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, and_, bindparam, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import aliased

from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError, NotFoundError
from dcc.messages import mark
from dcc.naming import KNOWN_CENTRES
from dcc.nearest_names import nearest_sentence
from dcc.rights import Delegations
from dcc.runtime.clock import utc_now
from dcc.settings import language_code
from dcc.settings.recipients import parse_addresses
from dcc.tracker.models import Centre, Delegation, FileSource
from dcc.tracker.register.column_texts import require_fit
from dcc.tracker.submission_rows import object_of
from dcc.vocabulary import SourceState

_CODE = re.compile(r"[A-Za-z_]{1,32}")


@dataclass(frozen=True, slots=True)
class CentreDetails:
    """What a person may say of a centre; each is a column of `centre` with the name.

    An empty `full_name` and a missing `imits_name` of a new one are taken from the known centres. `language` is the
    code of the language of its messages; None: that of DCC_LANGUAGE.
    """

    short_name: str
    full_name: str = ""
    imits_name: str | None = None
    email: str = ""
    phone: str | None = None
    address: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CentreEntry(CentreDetails):
    """A registered centre; `sources` counts its file sources that are not removed."""

    is_active: bool
    created: datetime
    sources: int

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its e-mail addresses; none if the tracker has something else there."""
        try:
            return parse_addresses(self.email)
        except ValueError:
            return ()


def add_centre(connection: Connection, centre: CentreDetails) -> int:
    """Register a centre, active; returns its id.

    Raises ConfigurationError for a code that file names cannot hold, a missing full name, a text that the tracker
    cannot hold or a centre that is registered already.
    """
    row = check_new_centre(connection, centre)
    try:
        return insert_rows(connection, Centre.__table__, [row])[0]
    except IntegrityError as error:
        # By a transaction that this one does not see.
        raise _registered(centre.short_name) from error


def check_new_centre(connection: Connection, centre: CentreDetails) -> dict[str, object]:
    """Check whether a centre could be registered; returns its row. Raises as `add_centre`."""
    if not _CODE.fullmatch(centre.short_name):
        raise ConfigurationError(
            f"{centre.short_name!r} is no centre code: 1 to 32 letters and underscores, as in the names of the "
            "centre's files. Use the centre's ILAR code."
        )
    if connection.scalar(select(Centre.id).where(Centre.short_name == centre.short_name)) is not None:
        raise _registered(centre.short_name)
    known = {known.short_name: known for known in KNOWN_CENTRES}.get(centre.short_name)
    full_name = centre.full_name or (known.full_name if known else "")
    if not full_name:
        nearest = nearest_sentence(centre.short_name, (one.short_name for one in KNOWN_CENTRES))
        raise ConfigurationError(
            f"Centre {centre.short_name!r} is not among the known ones, so its full name is needed: --name.{nearest}"
        )
    imits_name = centre.imits_name or (known.imits_name if known else None)
    row = asdict(centre) | {"full_name": full_name, "imits_name": imits_name}
    return {**_usable(row), "is_active": True, "created": utc_now()}


def _registered(code: str) -> ConfigurationError:
    return ConfigurationError(
        f"Centre {code} is registered already. See `dcc centre list`; `dcc centre activate {code}` if it was "
        "deactivated."
    )


def list_centres(connection: Connection) -> list[CentreEntry]:
    """All centres, by code."""
    counted = (
        select(FileSource.centre_id, func.count().label("sources"))
        .where(FileSource.state_id != SourceState.REMOVED)
        .group_by(FileSource.centre_id)
        .subquery()
    )
    query = (
        select(Centre, func.coalesce(counted.c.sources, 0).label("sources"))
        .outerjoin(counted, counted.c.centre_id == Centre.id)
        .order_by(Centre.short_name)
    )
    return [object_of(CentreEntry, row) for row in connection.execute(query)]


def contacts(connection: Connection) -> dict[str, str]:
    """The e-mail addresses of the centres that have any, by their codes."""
    return {centre.short_name: centre.email for centre in list_centres(connection) if centre.email}


def imits_names(connection: Connection) -> dict[str, str]:
    """The names in iMits of the centres that have any, by their codes."""
    rows = connection.execute(select(Centre.short_name, Centre.imits_name))
    return {row.short_name: row.imits_name for row in rows if row.imits_name}


def change_centre(connection: Connection, short_name: str, **values: str | None) -> None:
    """Change the data of a centre, fields of `CentreDetails`; None leaves one, an empty text removes an optional one.

    Raises NotFoundError, and ConfigurationError for a text that the tracker cannot hold or an empty full name.
    """
    centre_id = require_centre(connection, short_name)
    if values.get("full_name") == "":
        raise ConfigurationError(f"Centre {short_name} needs a full name. Give one with --name, or leave that out.")
    values = _usable(values)
    given = {name: text or (None if name != "email" else "") for name, text in values.items() if text is not None}
    if given:
        connection.execute(update(Centre).where(Centre.id == centre_id).values(given))


def set_centre_active(connection: Connection, short_name: str, *, active: bool) -> None:
    """Activate or deactivate a centre: only active centres' sources are crawled. Raises NotFoundError."""
    centre_id = require_centre(connection, short_name)
    connection.execute(update(Centre).where(Centre.id == centre_id).values(is_active=active))


def centre_ids(connection: Connection) -> dict[str, int]:
    """The ids of all centres, by code."""
    return {row.short_name: row.id for row in connection.execute(_IDS)}


_IDS: Final = select(Centre.short_name, Centre.id)


def require_centre(connection: Connection, short_name: str) -> int:
    """The id of a registered centre. Raises NotFoundError, with the nearest codes."""
    ids = centre_ids(connection)
    if short_name not in ids:
        nearest = nearest_sentence(short_name, ids)
        text = mark(
            "No centre {centre} exists (codes are case-sensitive).{nearest} See `dcc centre list`; `dcc centre add "
            "{quoted}` registers it."
        )
        raise NotFoundError(text, centre=repr(short_name), nearest=nearest, quoted=shlex.quote(short_name))
    return ids[short_name]


def _usable(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """The same values, with the language as its catalogue is named. Raises ConfigurationError for an unusable one."""
    require_fit(Centre, values)
    email, code = values.get("email"), values.get("language")
    try:
        addresses = parse_addresses(email or "")
    except ValueError as error:
        raise ConfigurationError(f"Nobody can be written to there: {error}.") from None
    if email and not addresses:
        raise ConfigurationError(f"{email!r} holds no e-mail address. Write name@host, or leave it empty.")
    try:
        return {**values, "language": language_code(code)} if code else dict(values)
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from None


_Owner = aliased(Centre)
_Delegate = aliased(Centre)


@dataclass(frozen=True, slots=True)
class DelegationEntry:
    """A delegation: `owner` permits `delegate` to submit its data, to the end of the day `until` (UTC) if given."""

    owner: str
    delegate: str
    recorded_by: str
    created: datetime
    until: date | None
    revoked: datetime | None
    revoked_by: str | None
    in_force: bool


def delegation_holds() -> ColumnElement[bool]:
    """Whether a row of `delegation` is in force when the statement is executed."""
    today: BindParameter[date] = bindparam("today", callable_=lambda: utc_now().date())
    return and_(Delegation.revoked.is_(None), or_(Delegation.until.is_(None), Delegation.until >= today))


def load_delegations(connection: Connection) -> Delegations:
    """The delegations in force, in one statement."""
    owners: dict[str, set[str]] = defaultdict(set)
    for owner, delegate in connection.execute(_pairs().where(delegation_holds())):
        owners[delegate].add(owner)
    return Delegations({delegate: frozenset(some) for delegate, some in owners.items()})


def list_delegations(connection: Connection, *, everything: bool = False) -> list[DelegationEntry]:
    """The delegations in force; with `everything`, those that were revoked or have ended too. By owner and delegate."""
    query = _pairs(Delegation, delegation_holds().label("in_force"))
    if not everything:
        query = query.where(delegation_holds())
    rows = connection.execute(query.order_by(_Owner.short_name, _Delegate.short_name, Delegation.id))
    return [object_of(DelegationEntry, row) for row in rows]


def delegate(
    connection: Connection, owner: str, to: str, *, recorded_by: str, until: date | None = None
) -> DelegationEntry:
    """Record that a centre delegates to another; one in force between the two is replaced.

    Raises NotFoundError for a centre that is not registered, ConfigurationError for a centre that delegates to itself,
    or a past day.
    """
    if owner == to:
        raise ConfigurationError(f"Centre {owner} speaks for itself. Name another centre with --to.")
    if until is not None and until < utc_now().date():
        raise ConfigurationError(f"{until} is over. Name a day to come with --until, or leave it out.")
    _revoke(connection, owner, to, recorded_by)
    between = {"owner_id": require_centre(connection, owner), "delegate_id": require_centre(connection, to)}
    recorded = {"recorded_by": recorded_by, "created": utc_now(), "until": until}
    insert_rows(connection, Delegation.__table__, [between | recorded])
    return _latest(connection, owner, to)


def revoke_delegation(connection: Connection, owner: str, to: str, *, revoked_by: str) -> DelegationEntry:
    """End a delegation in force. Raises NotFoundError if there is none."""
    if not _revoke(connection, owner, to, revoked_by):
        raise NotFoundError(
            f"Centre {owner} delegates nothing to centre {to} at present. See: dcc centre delegations --all"
        )
    return _latest(connection, owner, to)


def _latest(connection: Connection, owner: str, to: str) -> DelegationEntry:
    return [one for one in list_delegations(connection, everything=True) if (one.owner, one.delegate) == (owner, to)][
        -1
    ]


def _revoke(connection: Connection, owner: str, to: str, revoked_by: str) -> int:
    """End the delegation in force between two centres; returns the number."""
    between = (
        Delegation.owner_id == require_centre(connection, owner),
        Delegation.delegate_id == require_centre(connection, to),
    )
    found = connection.scalars(select(Delegation.id).where(*between, delegation_holds())).all()
    if found:
        ended = {"revoked": utc_now(), "revoked_by": revoked_by}
        connection.execute(update(Delegation).where(Delegation.id.in_(found)).values(ended))
    return len(found)


def _pairs(*columns: Any) -> Select[*tuple[Any, ...]]:
    return (
        select(_Owner.short_name.label("owner"), _Delegate.short_name.label("delegate"), *columns)
        .select_from(Delegation)
        .join(_Owner, _Owner.id == Delegation.owner_id)
        .join(_Delegate, _Delegate.id == Delegation.delegate_id)
    )
