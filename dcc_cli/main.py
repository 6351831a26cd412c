"""The `dcc` command: the list of its commands. What each does is in the module named beside it."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import click

from dcc_cli.group import EXIT_CODES, INTERRUPTED, RootGroup
from dcc_resources.process_memory import keep_freed_memory_together
from dcc_resources.process_protection import forbid_core_dumps, keep_files_private

_COMMANDS = {
    "init": "dcc_cli.installation:init",
    "centre": "dcc_cli.centres:centre",
    "source": "dcc_cli.sources:source",
    "crawl": "dcc_cli.crawl:crawl",
    "status": "dcc_cli.reports:status",
    "zips": "dcc_cli.reports:zips",
    "show": "dcc_cli.story:show",
    "report": "dcc_cli.submission_report:report",
    "retry": "dcc_cli.crawl:retry",
    "sessions": "dcc_cli.reports:sessions",
    "notify": "dcc_cli.notifications:notify",
    "metrics": "dcc_cli.metrics:metrics",
    "data": "dcc_cli.data:data",
    "qc": "dcc_cli.qc:qc",
    "rules": "dcc_cli.rules:rules",
    "reference": "dcc_cli.reference:reference",
    "validate": "dcc_cli.validate:validate",
    "explain": "dcc_cli.explain:explain",
    "doctor": "dcc_cli.doctor:doctor",
    "staging": "dcc_cli.staging:staging",
    "backup": "dcc_cli.backups:backup",
    "restore": "dcc_cli.backups:restore",
    "migrate-storage": "dcc_cli.backups:migrate_storage",
    "ui": "dcc_cli.ui:ui",
    "daemon": "dcc_cli.ui:daemon",
    "demo": "dcc_cli.installation:demo",
    "example": "dcc_cli.example:example",
    "instance": "dcc_cli.installation:instance",
    "settings": "dcc_cli.installation:show_settings",
    "completion": "dcc_cli.completion:completion",
}


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"dcc {version('dcc')}")
    ctx.exit()


@click.command(
    cls=RootGroup,
    places=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES,
)
@click.option("--debug", is_flag=True, help="Print the Python traceback of an error too.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def dcc(debug: bool) -> None:
    """Data coordination: collect, check and track the data that research centres publish.

    The first steps: `dcc init` makes the databases, `dcc centre add` and `dcc source add` register who takes part and
    where their archives are, `dcc crawl` collects, checks and takes over what is new, `dcc status` says how far
    everything is, `dcc show` tells the whole story of one archive, and `dcc data findings` what is wrong with the data.

    Everything is set by environment variables; `dcc settings` lists them. Without any, all data are in ~/.dcc.

    An error is one line on standard error: its id, which docs/errors.md explains, what is wrong and what to do.
    Standard output is then empty, with --json too, but for what a session did before it broke off.
    Times are in UTC.
    """


def main() -> NoReturn:
    """Run the command line of this process."""
    # Imports make many objects that stay: looking through them again and again costs a tenth of a short command.
    gc.set_threshold(50_000, 20, 100)
    keep_freed_memory_together()
    forbid_core_dumps()
    keep_files_private()
    try:
        dcc.main(prog_name="dcc")
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    sys.exit(0)
