"""`dcc upgrade --check`: what an upgrade of the installation would do."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import any_databases, json_option, settings_from_environment
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import count_of, echo_json, picked, printable

if TYPE_CHECKING:
    from dcc.databases.schema import UpgradePlan
    from dcc.settings import Settings

_SHOWN = 8


@command(
    examples=["dcc upgrade --check"],
    exits={
        0: "nothing is to do",
        1: "something is",
        2: "a setting is wrong or was removed, or a database is of a newer version",
    },
)
@click.option("--check", is_flag=True, help="Say what is to do, and change nothing.")
@json_option
@click.pass_context
def upgrade(ctx: click.Context, check: bool, as_json: bool) -> None:
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
    from dcc.settings import renaming_warnings

    settings = settings_from_environment()
    plans = _plans(settings)
    changes = list(dagster_side().pending_changes(settings))
    warnings = renaming_warnings(os.environ)
    to_do = bool(changes or warnings or any(plan.revisions for _, plan in plans.values()))
    note_facts(pending=to_do)
    if as_json:
        echo_json(
            {
                "version": version("dcc"),
                "dagster": version("dagster"),
                "to_do": to_do,
                "databases": [
                    {"name": name, "wanted": wanted, **picked(plan, "present", "revisions", "makes", "converts")}
                    for name, (wanted, plan) in plans.items()
                ],
                "dagster_changes": changes,
                "settings": warnings,
            }
        )
    else:
        click.echo(f"dcc {version('dcc')} with Dagster {version('dagster')}")
        for name, (wanted, plan) in plans.items():
            click.echo(f"{name}: {_said(plan, wanted)}")
        click.echo("\n".join(["Dagster: nothing to do." if not changes else "", *map(printable, changes)]).strip())
        # Renamed settings are warned of on standard error, as by every command.
        click.echo(f"settings: {'renamed ones are set, see above.' if warnings else 'nothing to do.'}")
    ctx.exit(1 if to_do else 0)


def _plans(settings: Settings) -> dict[str, tuple[str, UpgradePlan]]:
    """The schema that each database must have, and what an upgrade would do, by its name."""
    from dcc.databases.schema import plan_upgrade
    from dcc.qc.database import QC_DATABASE
    from dcc.tracker.database import TRACKER

    with any_databases(settings) as opened:
        return {
            database.name: (database.head, plan_upgrade(engine, database))
            for database, engine in zip((TRACKER, QC_DATABASE), opened, strict=True)
        }


def _said(plan: UpgradePlan, wanted: str) -> str:
    if plan.present is None:
        return f"there is none yet; dcc init makes it with the schema {wanted}."
    if not plan.revisions:
        return f"nothing to do, its schema is {wanted}."
    more = f" and {len(plan.makes) - _SHOWN} more" if len(plan.makes) > _SHOWN else ""
    makes = [f"makes {', '.join(plan.makes[:_SHOWN])}{more}"] if plan.makes else []
    does = " and ".join([*makes, *(["converts rows"] if plan.converts else [])])
    number = count_of(len(plan.revisions), "revision")
    return f"schema {plan.present}; dcc init brings it to {wanted} by {number}{f': it {does}' if does else ''}."
