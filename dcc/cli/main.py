"""The `dcc` command: the list of its commands, each with its module."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

import click

from dcc.cli.shell.group import INTERRUPTED, RootGroup
from dcc.runtime.interrupts import repeat_lost_interrupts
from dcc.runtime.processes import (
    collect_cycles_rarely,
    forbid_core_dumps,
    keep_files_private,
    keep_freed_memory_together,
    open_closed_streams,
)

_SECTIONS = {
    "To begin": {
        "init": "dcc.cli.installation.setup:init",
        "centre": "dcc.cli.sources.centres:centre",
        "source": "dcc.cli.sources.source:source",
        "crawl": "dcc.cli.sessions.crawl:crawl",
        "ui": "dcc.cli.installation.ui:ui",
    },
    "What became of submissions": {
        "status": "dcc.cli.installation.status:status",
        "zips": "dcc.cli.submissions.zips:zips",
        "show": "dcc.cli.submissions.show:show",
        "archive": "dcc.cli.submissions.archives:archive",
        "retry": "dcc.cli.sessions.crawl:retry",
        "hold": "dcc.cli.submissions.decisions:hold",
        "release": "dcc.cli.submissions.decisions:release",
        "cancel": "dcc.cli.submissions.decisions:cancel",
        "acknowledge": "dcc.cli.submissions.decisions:acknowledge",
        "session": "dcc.cli.sessions.session:session",
        "sessions": "dcc.cli.sessions.session:sessions",
        "report": "dcc.cli.submissions.report:report",
        "notify": "dcc.cli.submissions.notifications:notify",
    },
    "The data": {
        "data": "dcc.cli.data:data",
        "qc": "dcc.cli.data.qc:qc",
        "rules": "dcc.cli.data.rules:rules",
        "reference": "dcc.cli.data.reference:reference",
    },
    "To try and to understand": {
        "validate": "dcc.cli.submissions.validate:validate",
        "replay": "dcc.cli.data.replay:replay",
        "explain": "dcc.cli.submissions.explain:explain",
        "example": "dcc.cli.demo.examples:example",
        "manifest": "dcc.cli.submissions.manifest:manifest",
        "demo": "dcc.cli.installation.setup:demo",
        "completion": "dcc.cli.installation.setup:completion",
    },
    "The installation": {
        "settings": "dcc.cli.installation.setup:show_settings",
        "doctor": "dcc.cli.installation.doctor:doctor",
        "upgrade": "dcc.cli.installation.doctor:upgrade",
        "daemon": "dcc.cli.installation.ui:daemon",
        "metrics": "dcc.cli.installation.metrics:metrics",
        "staging": "dcc.cli.installation.staging:staging",
        "backup": "dcc.cli.installation.backups:backup",
        "restore": "dcc.cli.installation.backups:restore",
        "migrate-storage": "dcc.cli.installation.backups:migrate_storage",
        "instance": "dcc.cli.installation.setup:instance",
    },
}

_LIGHT = ("completion", "example", "explain", "manifest", "report", "validate")
"""The commands of `pip install dcc` alone; all others need `dcc[platform]`."""
_LIGHT_HELP = """
    Data coordination: check the data of a research centre before they are uploaded.

    The first steps: `dcc validate` checks archives as the Data Coordination Centre will, `dcc explain` tells what an
    error or rule means and who acts, `dcc manifest` lists the files of an archive, and `dcc example` writes an example.

    An error is one line on standard error: its id, which `dcc explain` explains, what is wrong and what to do.
    """


@click.command(
    cls=RootGroup,
    sections=_SECTIONS,
    light=_LIGHT,
    light_help=_LIGHT_HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Print the Python traceback of an error too.")
@click.version_option(package_name="dcc", message="dcc %(version)s", help="Print the version and exit.")
def dcc(debug: bool) -> None:
    """Data coordination: collect, check and track the data that research centres publish.

    The first steps: `dcc init` makes the databases, `dcc source add` registers a centre and its server, and `dcc crawl`
    collects, checks and loads new archives. `dcc status` shows the state of everything, `dcc show` tells the story of
    one archive. `dcc data causes` shows what is wrong and who acts, and `dcc report` makes the answer to a centre.
    Every command suggests the next one; docs/quickstart.md explains the first ten minutes.

    Settings are in dcc.toml or environment variables; `dcc settings` lists them. Without any, all data are in ~/.dcc.

    An error is one line on standard error: its id, which `dcc explain` explains, what is wrong and what to do. Standard
    output is then empty, with --json too, except for a session's work before the error. Times are in UTC.
    """


def main() -> NoReturn:
    """Run the command line of this process."""
    collect_cycles_rarely()
    keep_freed_memory_together()
    open_closed_streams()
    repeat_lost_interrupts()
    forbid_core_dumps()
    keep_files_private()
    try:
        dcc.main(prog_name="dcc")
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)
    finally:
        # All memory is freed with the process: scanning it for cycles first takes longer than `dcc --version`.
        gc.freeze()
    sys.exit(0)
