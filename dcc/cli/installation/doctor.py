"""`dcc doctor`: whether the installation is fit to work, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option, settings_from_environment
from dcc.cli.shell.dagster_side import dagster_side
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import count_of, echo_json, picked, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dcc.operations.doctor.checks import Check, Examined
    from dcc.settings import Settings

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not checked": "blue"}
_WARNINGS = 1
_FAILURES = 4
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
@click.option("--quiet", is_flag=True, help="Leave out what is well.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, sources: bool, deep: bool, seconds: float, quiet: bool, as_json: bool) -> None:
    """Examine the installation, and say what to do.

    Databases and their schemas, Dagster, sessions, sources, access keys, disks, staging, clocks, versions, limits,
    reference data, held documents and the mail server, all at once. Each finding is ok, a warning, failed or not
    checked, with what to do. Nothing is changed, and nothing hangs: a check that takes too long has failed.

    \b
    JSON: {"verdict" (the worst), "seconds", "findings"}; a list of {"check", "subject",
      "verdict" (ok, not checked, warning, failed), "message", "advice" (empty if all is well)}
    """
    from dcc.operations.doctor.checks import Verdict, worst

    settings = settings_from_environment()
    found: list[Examined] = []
    for one in _findings(settings, sources=sources, deep=deep, seconds=seconds):
        found.append(one)
        if not as_json and not (quiet and one.finding.verdict is Verdict.OK):
            _echo(one)
    note_facts(
        unmade=any("dcc init" in one.finding.advice for one in found),
        without_sources=any(one.finding.advice == "dcc source add" for one in found),
    )
    verdict = worst(one.finding.verdict for one in found)
    if as_json:
        echo_json(
            {
                "verdict": verdict,
                "seconds": round(found[-1].seconds, 3),
                "findings": [
                    {"check": one.check, **picked(one.finding, "subject", "verdict", "message", "advice")}
                    for one in found
                ],
            }
        )
    else:
        click.echo(_summary(found))
    ctx.exit({Verdict.FAILED: _FAILURES, Verdict.WARNING: _WARNINGS}.get(verdict, 0))


def _findings(settings: Settings, *, sources: bool, deep: bool, seconds: float) -> Iterator[Examined]:
    from dcc.operations.doctor.examination import ANSWERS, CHECKS, examine

    checks: list[Check] = [*CHECKS, *_of_dagster(settings), *([ANSWERS] if sources else [])]
    yield from examine(settings, checks, seconds=seconds)
    if deep:
        yield from examine(settings, [dagster_side().doctor_depths()], seconds=_DEEP_SECONDS)


def _of_dagster(settings: Settings) -> Iterable[Check]:
    return dagster_side().doctor_checks() if settings.dagster_events else ()


def _echo(one: Examined) -> None:
    finding = one.finding
    verdict = click.style(f"{finding.verdict:<11}", fg=_COLOURS[finding.verdict])
    click.echo(f"{verdict}  {click.style(printable(finding.subject), bold=True)}: {printable(finding.message)}")
    if finding.advice:
        click.echo(f"{'':11}  -> {printable(finding.advice)}")


def _summary(found: list[Examined]) -> str:
    counts = {verdict: sum(one.finding.verdict == verdict for one in found) for verdict in _COLOURS}
    text = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return f"{count_of(len(found), 'finding')}: {text}."
