"""Delegations: a centre permits another one to submit its data, and that centre's sources to publish its archives.

Plain functions on a connection; those that write expect the caller's write transaction. Nothing is deleted: a
delegation that was revoked, or has ended, stays on record.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, and_, bindparam, or_, select, update
from sqlalchemy.orm import aliased

from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError, NotFoundError
from dcc.outcomes import ZipKey
from dcc.rights import Delegations
from dcc.tracker.models import Centre, Delegation, ZipAction, ZipFile, utc_now
from dcc.tracker.register.centres import centre_id_of
from dcc.tracker.register.column_texts import PERSON_LENGTH
from dcc.tracker.submission_rows import is_named, object_of

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


class SubmissionOwner(NamedTuple):
    """A submission of the tracker and the centre of its name; None if the tracker knows neither."""

    za_id: int | None
    centre: str | None


def find_archive(connection: Connection, key: ZipKey) -> SubmissionOwner:
    """The submission as the tracker knows it."""
    query = (
        select(ZipAction.id, Centre.short_name)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .outerjoin(Centre, Centre.id == ZipFile.centre_id)
        .where(is_named(key))
    )
    found = connection.execute(query).one_or_none()
    return SubmissionOwner(None, None) if found is None else SubmissionOwner(*found)


def in_force() -> ColumnElement[bool]:
    """Whether a row of `delegation` is in force when the statement is executed."""
    today: BindParameter[date] = bindparam("today", callable_=lambda: utc_now().date())
    return and_(Delegation.revoked.is_(None), or_(Delegation.until.is_(None), Delegation.until >= today))


def load_delegations(connection: Connection) -> Delegations:
    """The delegations in force, in one statement."""
    owners: dict[str, set[str]] = defaultdict(set)
    for owner, delegate in connection.execute(_pairs().where(in_force())):
        owners[delegate].add(owner)
    return Delegations({delegate: frozenset(some) for delegate, some in owners.items()})


def list_delegations(connection: Connection, *, everything: bool = False) -> list[DelegationEntry]:
    """The delegations in force; with `everything`, those that were revoked or have ended too. By owner and delegate."""
    query = _pairs(Delegation, in_force().label("in_force"))
    if not everything:
        query = query.where(in_force())
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
    values = {
        "owner_id": centre_id_of(connection, owner),
        "delegate_id": centre_id_of(connection, to),
        "recorded_by": recorded_by[:PERSON_LENGTH],
        "created": utc_now(),
        "until": until,
    }
    insert_rows(connection, Delegation.__table__, [values])
    return _latest(connection, owner, to)


def revoke(connection: Connection, owner: str, to: str, *, revoked_by: str) -> DelegationEntry:
    """End a delegation in force. Raises NotFoundError if there is none."""
    if not _revoke(connection, owner, to, revoked_by):
        raise NotFoundError(
            f"Centre {owner} delegates nothing to centre {to} at present. See: dcc centre delegations --all"
        )
    return _latest(connection, owner, to)


def _latest(connection: Connection, owner: str, to: str) -> DelegationEntry:
    between = [one for one in list_delegations(connection, everything=True) if (one.owner, one.delegate) == (owner, to)]
    return between[-1]


def _revoke(connection: Connection, owner: str, to: str, revoked_by: str) -> int:
    """End the delegation in force between two centres; returns the number."""
    between = (
        Delegation.owner_id == centre_id_of(connection, owner),
        Delegation.delegate_id == centre_id_of(connection, to),
    )
    found = connection.scalars(select(Delegation.id).where(*between, in_force())).all()
    if found:
        ended = {"revoked": utc_now(), "revoked_by": revoked_by[:PERSON_LENGTH]}
        connection.execute(update(Delegation).where(Delegation.id.in_(found)).values(ended))
    return len(found)


def _pairs(*columns: Any) -> Select[*tuple[Any, ...]]:
    return (
        select(_Owner.short_name.label("owner"), _Delegate.short_name.label("delegate"), *columns)
        .select_from(Delegation)
        .join(_Owner, _Owner.id == Delegation.owner_id)
        .join(_Delegate, _Delegate.id == Delegation.delegate_id)
    )
