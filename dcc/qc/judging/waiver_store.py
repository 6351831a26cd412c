"""Stored waivers: given, listed, revoked. Each stays on record, with its author, time and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, update

from dcc.databases.columns import require_text
from dcc.databases.transactions import insert_rows
from dcc.errors import ConfigurationError, NotFoundError
from dcc.qc.models import FINDING, WAIVER
from dcc.rules.catalogue import CATALOGUE, OF_THE_CHECK, UNWAIVABLE, WITHOUT_PROCEDURE
from dcc.rules.waivers import Waiver
from dcc.runtime.clock import utc_now
from dcc.vocabulary import Severity, WaiverEffect


class WaiverState(StrEnum):
    """Whether a waiver holds on a day."""

    IN_FORCE = "in force"
    TO_COME = "to come"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class WaiverEntry:
    """A waiver on record; `findings` counts the open ones that it set aside or lowered at the last judgement."""

    id: int
    rule: str
    centre: str | None
    procedure: str | None
    effect: WaiverEffect
    valid_from: date
    valid_until: date | None
    state: WaiverState
    reason: str
    author: str
    created: datetime
    revoked: datetime | None
    revoked_by: str | None
    revoked_reason: str | None
    findings: int


def add_waiver(connection: Connection, waiver: Waiver, today: date) -> int:
    """Record a waiver, within a write transaction; returns its id. It takes effect when documents are judged again.

    Raises ConfigurationError for a rule that does not exist or cannot be waived, and for a rule of warnings that should
    be lowered to one. Raises it also for a procedure where findings of the rule have none, and for days in the wrong
    order or past. A text that is missing or too long raises it too.
    """
    _check_rule(waiver)
    _check_days(waiver, today)
    row = {
        "rule": waiver.rule,
        "centre": _text("centre", waiver.centre),
        "procedure_id": _text("procedure_id", waiver.procedure),
        "valid_from": waiver.valid_from,
        "valid_until": waiver.valid_until,
        "effect": waiver.effect.value,
        "reason": _text("reason", waiver.reason),
        "author": _text("author", waiver.author),
        "created": utc_now(),
    }
    return insert_rows(connection, WAIVER, [row])[0]


def _check_rule(waiver: Waiver) -> None:
    entry = CATALOGUE.get(waiver.rule)
    if entry is None:
        raise ConfigurationError(f"No rule {waiver.rule!r} exists. See all: dcc rules list")
    if entry.id in UNWAIVABLE - OF_THE_CHECK:
        raise ConfigurationError(
            f"The rule {entry.id} cannot be waived. If the centre of the data wants it, record that it delegates: "
            "dcc centre delegate"
        )
    if entry.id in UNWAIVABLE:
        raise ConfigurationError(
            f"{entry.id!r} says what could not be checked or recorded, and cannot be waived. Remove its cause instead."
        )
    if waiver.effect is WaiverEffect.WARN and entry.severity is Severity.WARNING:
        raise ConfigurationError(f"The rule {entry.id} only ever warns. Waive it wholly, or leave it as it is.")
    if waiver.procedure is not None and entry.id in WITHOUT_PROCEDURE:
        raise ConfigurationError(
            f"Findings of the rule {entry.id} are of no procedure, so it covers none of them. Leave the procedure out."
        )


def _check_days(waiver: Waiver, today: date) -> None:
    if waiver.valid_until is None:
        return
    if waiver.valid_until < waiver.valid_from:
        raise ConfigurationError(
            f"The waiver would end on {waiver.valid_until}, before it begins on {waiver.valid_from}. Correct the days."
        )
    if waiver.valid_until < today:
        raise ConfigurationError(f"The waiver would have ended on {waiver.valid_until} already. Give a later day.")


def _text(column: str, text: str | None) -> str | None:
    """A text that its column can hold; None stays None."""
    return None if text is None else require_text(f"{column.partition('_')[0]} of a waiver", text, WAIVER.c[column])


def revoke_waiver(connection: Connection, waiver_id: int, *, author: str, reason: str) -> Waiver:
    """End a waiver at once, within a write transaction; it stays on record. Returns it as it was.

    Raises NotFoundError if there is none, ConfigurationError if it was revoked before, or for a text that is missing or
    too long.
    """
    row = connection.execute(select(WAIVER).where(WAIVER.c.id == waiver_id).with_for_update()).one_or_none()
    if row is None:
        raise NotFoundError(f"No waiver {waiver_id} exists. See all: dcc rules waivers --all")
    if row.revoked is not None:
        raise ConfigurationError(f"Waiver {waiver_id} was revoked on {row.revoked:%Y-%m-%d} by {row.revoked_by}.")
    revoked = {
        "revoked": utc_now(),
        "revoked_by": _text("author", author),
        "revoked_reason": _text("reason", reason),
    }
    connection.execute(update(WAIVER).where(WAIVER.c.id == waiver_id).values(revoked))
    return _waiver(row)


def waivers_in_force(connection: Connection, day: date) -> tuple[Waiver, ...]:
    """The waivers in force on a day, in the order in which they were given."""
    holds = WAIVER.c.revoked.is_(None) & (WAIVER.c.valid_from <= day)
    holds &= or_(WAIVER.c.valid_until.is_(None), WAIVER.c.valid_until >= day)
    rows = connection.execute(select(WAIVER).where(holds).order_by(WAIVER.c.id))
    return tuple(map(_waiver, rows))


def list_waivers(connection: Connection, day: date, *, include_ended: bool = False) -> list[WaiverEntry]:
    """The waivers in force on a day or later; with `include_ended`, also ended ones."""
    counted = select(FINDING.c.waiver_id, func.count()).where(
        FINDING.c.waiver_id.is_not(None), FINDING.c.closed.is_(None)
    )
    counts = {row[0]: row[1] for row in connection.execute(counted.group_by(FINDING.c.waiver_id))}
    rows = connection.execute(select(WAIVER).order_by(WAIVER.c.id))
    entries = [_entry(row, day, counts) for row in rows]
    over = (WaiverState.EXPIRED, WaiverState.REVOKED)
    return [entry for entry in entries if include_ended or entry.state not in over]


def _entry(row: Row[Any], day: date, counts: Mapping[int, int]) -> WaiverEntry:
    values = dict(row._mapping)
    values |= {"effect": WaiverEffect(row.effect), "procedure": values.pop("procedure_id")}
    return WaiverEntry(**values, state=_state(row, day), findings=counts.get(row.id, 0))


def _state(row: Row[Any], day: date) -> WaiverState:
    if row.revoked is not None:
        return WaiverState.REVOKED
    if row.valid_until is not None and row.valid_until < day:
        return WaiverState.EXPIRED
    return WaiverState.TO_COME if row.valid_from > day else WaiverState.IN_FORCE


def _waiver(row: Row[Any]) -> Waiver:
    return Waiver(
        row.rule,
        WaiverEffect(row.effect),
        row.reason,
        row.author,
        row.valid_from,
        row.valid_until,
        row.centre,
        row.procedure_id,
        row.id,
    )
