"""`dcc doctor` and `dcc upgrade --check`: whether the installation is fit to work, and what is to do if not."""

from __future__ import annotations

import os
from collections import Counter
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import any_databases, json_option, settings_from_environment
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_result, printable, wants_json
from dcc.messages import count_of
from dcc.runtime.installed_packages import leaving_out_broken
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from dcc.databases.schema import UpgradePlan
    from dcc.operations.doctor.checks import CheckResult

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not checked": "blue"}
_WARNINGS = 1
_FAILURES = 4
_MAX_MAKES = 8
_DEEP_SECONDS = 24 * 3600.0


@command(
    examples=["dcc doctor", "dcc doctor --quiet --no-sources", "dcc doctor --deep"],
    exits={1: "there are warnings", 4: "something has failed"},
)
@click.option("--sources/--no-sources", default=True, help="Whether to log in to all file sources.", show_default=True)
@click.option("--deep", is_flag=True, help="Also read everything and see that it fits together; takes its time.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    help="All checks must be done by then, but those of --deep.",
)
@click.option("--quiet", is_flag=True, help="Only warnings and failures.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, sources: bool, deep: bool, seconds: float, quiet: bool) -> None:
    """Examine the installation, and say what to do.

    Databases and their schemas, Dagster, sessions, sources, access keys, disks, staging, clocks, versions, limits,
    reference data, held documents and the mail server, all at once. Each finding is ok, a warning, failed or not
    checked, with what to do. Nothing is changed, and nothing hangs: a check that takes too long has failed.

    \b
    JSON: {"verdict" (the worst), "seconds", "findings"}; a list of {"check", "subject",
      "verdict" (ok, not checked, warning, failed), "message", "advice" (empty if all is well)}
    """
    from dcc.operations.doctor.checks import CheckStatus, worst

    settings = settings_from_environment()
    found: list[CheckResult] = []
    with leaving_out_broken():
        # Loads the rules, with those of packages that may be broken.
        from dcc.operations.doctor.examination import ANSWERS, DOCTOR_CHECKS, examine

        of_dagster = dagster_side().dagster_checks if settings.dagster_events else ()
        checks = [*DOCTOR_CHECKS, *of_dagster, *([ANSWERS] if sources else [])]
        rounds = [examine(settings, checks, seconds=seconds)]
        rounds += [examine(settings, [dagster_side().deep_check], seconds=_DEEP_SECONDS)] if deep else []
        for examined in chain.from_iterable(rounds):
            found.append(examined)
            if not wants_json() and not (
                quiet and examined.finding.verdict in {CheckStatus.OK, CheckStatus.NOT_CHECKED}
            ):
                finding = examined.finding
                shown = click.style(f"{finding.verdict:<11}", fg=_COLOURS[finding.verdict])
                subject = click.style(printable(finding.subject), bold=True)
                click.echo(f"{shown}  {subject}: {printable(finding.message)}")
                if finding.advice:
                    click.echo(f"{'':11}  -> {printable(finding.advice)}")
    note_facts(
        unmade=any("dcc init" in one.finding.advice for one in found),
        without_sources=any(one.finding.advice == "dcc source add" for one in found),
    )
    verdict = worst(one.finding.verdict for one in found)
    names = ("subject", "verdict", "message", "advice")
    findings = [{"check": one.check, **fields_of(one.finding, *names)} for one in found]
    counts = Counter(str(one.finding.verdict) for one in found)
    text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COLOURS)
    echo_result(
        {"verdict": verdict, "seconds": round(found[-1].seconds, 3), "findings": findings},
        f"{count_of(len(found), 'finding')}: {text}.",
    )
    ctx.exit({CheckStatus.FAILED: _FAILURES, CheckStatus.WARNING: _WARNINGS}.get(verdict, 0))


@command(
    examples=["dcc upgrade --check"],
    exits={
        0: "nothing is to do",
        1: "something is",
        2: "a setting is wrong or was removed, or a database is of a newer version",
    },
)
@click.option("--check", is_flag=True, help="Needed: only `dcc init` upgrades.")
@json_option
@click.pass_context
def upgrade(ctx: click.Context, check: bool) -> None:
    """Say what is to do after another version of dcc was installed.

    The version and that of Dagster, what `dcc init` would do with each database and with dagster.yaml, and settings
    that were renamed. Nothing is changed: back up, then run `dcc init`.

    \b
    JSON: {"version", "dagster", "to_do" (whether anything is), "databases", "dagster_changes",
      "settings"}; databases are {"name", "present" (schema, null without a database), "wanted",
      "revisions", "makes" (tables, and columns as table.column), "converts" (rows)}, the last two
      of the object lists of sentences
    """
    if not check:
        raise click.UsageError("dcc init upgrades the databases. See first what it would do: dcc upgrade --check")
    from dcc.databases.schema import plan_upgrade
    from dcc.qc.database import QC_DATABASE
    from dcc.settings import renaming_warnings
    from dcc.tracker.database import TRACKER

    settings = settings_from_environment()
    with any_databases(settings) as opened:
        plans = {
            database.name: (database.head, plan_upgrade(engine, database))
            for database, engine in zip((TRACKER, QC_DATABASE), opened, strict=True)
        }
    changes = list(dagster_side().pending_changes(settings))
    warnings = renaming_warnings(os.environ)
    to_do = bool(changes or warnings or any(plan.revisions for _, plan in plans.values()))
    note_facts(pending=to_do)
    planned = ("present", "revisions", "makes", "converts")
    echo_result(
        {
            "version": version("dcc"),
            "dagster": version("dagster"),
            "to_do": to_do,
            "databases": [
                {"name": name, "wanted": wanted, **fields_of(plan, *planned)} for name, (wanted, plan) in plans.items()
            ],
            "dagster_changes": changes,
            "settings": warnings,
        },
        f"dcc {version('dcc')} with Dagster {version('dagster')}",
        *(f"{name}: {_planned(plan, wanted)}" for name, (wanted, plan) in plans.items()),
        *(map(printable, changes) if changes else ["Dagster: nothing to do."]),
        # Renamed settings are warned of on standard error, as by every command.
        f"settings: {'renamed ones are set, see above.' if warnings else 'nothing to do.'}",
    )
    ctx.exit(1 if to_do else 0)


def _planned(plan: UpgradePlan, wanted: str) -> str:
    if plan.present is None:
        return f"there is none yet; dcc init makes it with the schema {wanted}."
    if not plan.revisions:
        return f"nothing to do, its schema is {wanted}."
    more = f" and {len(plan.makes) - _MAX_MAKES} more" if len(plan.makes) > _MAX_MAKES else ""
    makes = [f"makes {', '.join(plan.makes[:_MAX_MAKES])}{more}"] if plan.makes else []
    does = " and ".join([*makes, *(["converts rows"] if plan.converts else [])])
    number = count_of(len(plan.revisions), "revision")
    return f"schema {plan.present}; dcc init brings it to {wanted} by {number}{f': it {does}' if does else ''}."
