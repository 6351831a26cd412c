"""`dcc rules`: what data must satisfy, and waivers of rules."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import (
    json_option,
    open_qc,
    reading_qc,
    reason_option,
    require_centres,
    settings_from_environment,
    user_name,
)
from dcc.cli.shell.group import CommandGroup
from dcc.cli.shell.output import echo_list, echo_result
from dcc.cli.shell.parameter_types import DAY, ID
from dcc.messages import count_of
from dcc.vocabulary import WaiverEffect

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dcc.qc.judging.waiver_store import WaiverEntry
    from dcc.rules.waivers import Waiver


@click.group(cls=CommandGroup)
def rules() -> None:
    """List the data-integrity rules; waive and restore them.

    A rule that is waived, or lowered to a warning, stops no document. The waiver's author, time, reason and duration
    stay on record.
    """


@rules.command("list", offline=True)
@json_option
def list_rules() -> None:
    """List the rules that data must satisfy.

    Needs no database: the rules are those of this version. A finding may be milder than its rule usually is.

    \b
    JSON: a list of {"id", "severity" (unchecked, warning, error, fatal), "demand", "known_as",
      "needs", "at_upload", "package"}; known_as are the ids of the existing validator, needs the
      names of the reference data without which the rule is skipped, package is that which adds it
    """
    from dcc.rules.catalogue import CATALOGUE

    echo_list(
        list(CATALOGUE.values()),
        "id, severity, needs, demand, package",
        needs=lambda rule: ", ".join(rule.needs),
        flexible=["demand"],
    )


@rules.command(examples=['dcc rules waive P10 --centre H --until 2027-03-31 --reason "new options are on their way"'])
@click.argument("rule")
@reason_option
@click.option("--centre", metavar="CODE", help="For the data of one centre only, by its ILAR code.")
@click.option("--procedure", metavar="KEY", help="For one procedure only, by its IMPReSS key with the version.")
@click.option("--from", "valid_from", type=DAY, help="First day on which it holds; today by default.")
@click.option("--until", "valid_until", type=DAY, help="Last day on which it holds; without end by default.")
@click.option("--warn", is_flag=True, help="Have the rule warn instead of waiving it wholly.")
@json_option
def waive(
    rule: str,
    reason: str,
    centre: str | None,
    procedure: str | None,
    valid_from: date | None,
    valid_until: date | None,
    warn: bool,
) -> None:
    """Waive RULE, or lower it to a warning.

    It holds for documents that are judged from then on. The next session after its beginning judges earlier ones again.

    JSON: the waiver, as one of `dcc rules waivers --json`.
    """
    from dcc.databases.transactions import writing
    from dcc.qc.judging.waiver_store import add_waiver
    from dcc.rules.waivers import Waiver
    from dcc.runtime.clock import utc_now

    today = utc_now().date()
    effect = WaiverEffect.WARN if warn else WaiverEffect.WAIVE
    first, last = valid_from or today, valid_until
    waiver = Waiver(rule, effect, reason, user_name(), first, last, centre, procedure)
    settings = settings_from_environment()
    require_centres(settings, centre)
    with open_qc(settings) as qc, writing(qc) as connection:
        waiver_id = add_waiver(connection, waiver, today)
        told = f"Waiver {waiver_id}: rule {rule} {'only warns' if warn else 'is waived'}"
        entry, concerned = _entry(connection, waiver_id, today), _to_change(connection, waiver)
    echo_result(entry, f"{told} {_scope(entry)}.", concerned)


@rules.command()
@click.option("--all", "include_ended", is_flag=True, help="Also those that are over or revoked.")
@json_option
def waivers(include_ended: bool) -> None:
    """List present and future waivers.

    \b
    JSON: a list of {"id", "rule", "centre", "procedure", "effect" (waive, warn), "valid_from",
      "valid_until", "state" (in force, to come, expired, revoked), "reason", "author",
      "created", "revoked", "revoked_by", "revoked_reason", "findings"}; null centre and
      procedure mean all; findings counts those it decided when documents were last judged
    """
    from dcc.qc.judging.waiver_store import list_waivers
    from dcc.runtime.clock import utc_now

    with reading_qc() as connection:
        entries = list_waivers(connection, utc_now().date(), include_ended=include_ended)
    echo_list(
        entries,
        "id, rule, effect, centre, procedure, from=valid_from, until=valid_until, state, findings, author, reason",
        centre=lambda one: one.centre or "all",
        procedure=lambda one: one.procedure or "all",
        reason=lambda one: f"{one.reason} (revoked: {one.revoked_reason})" if one.revoked_reason else one.reason,
        flexible=["reason", "effect", "author", "findings", "procedure", "from", "until"],
        none="No rule is waived.",
    )


@rules.command(examples=['dcc rules revoke 3 --reason "the options are there"'])
@click.argument("waiver_id", metavar="ID", type=ID)
@reason_option
@json_option
def revoke(waiver_id: int, reason: str) -> None:
    """End the waiver ID at once.

    It stays on record. The next session judges the documents that it affected again.

    JSON: the waiver, as one of `dcc rules waivers --json`.
    """
    from dcc.databases.transactions import writing
    from dcc.qc.judging.waiver_store import revoke_waiver
    from dcc.runtime.clock import utc_now

    with open_qc(settings_from_environment()) as qc, writing(qc) as connection:
        revoked = revoke_waiver(connection, waiver_id, author=user_name(), reason=reason)
        entry, concerned = _entry(connection, waiver_id, utc_now().date()), _to_change(connection, revoked)
    echo_result(entry, f"Waiver {waiver_id} of rule {revoked.rule} is revoked.", concerned)


def _entry(connection: Connection, waiver_id: int, today: date) -> WaiverEntry:
    from dcc.qc.judging.waiver_store import list_waivers

    return next(entry for entry in list_waivers(connection, today, include_ended=True) if entry.id == waiver_id)


def _scope(entry: WaiverEntry) -> str:
    where = [f"at centre {entry.centre}"] if entry.centre else ["at all centres"]
    where += [f"in procedure {entry.procedure}"] if entry.procedure else []
    until = f"until {entry.valid_until}" if entry.valid_until else "without end"
    return f"{' '.join(where)} from {entry.valid_from} {until}"


def _to_change(connection: Connection, waiver: Waiver) -> str:
    """What becomes of the judged documents with findings that a waiver covers."""
    from dcc.qc.judging.rejudgements import documents_of_waiver

    documents = len(documents_of_waiver(connection, waiver))
    if documents == 0:
        return "No document that was judged before has findings of it."
    return f"{count_of(documents, 'document')} judged before may change, with the next session."
