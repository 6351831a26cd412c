"""`dcc data`: what documents said, once it is in the QC database."""

from __future__ import annotations

import click

from dcc.cli.group import CommandGroup

_COMMANDS = {
    "plan": "dcc.cli.data_changes:plan",
    "confirm": "dcc.cli.data_changes:confirm",
    "history": "dcc.cli.data_changes:history",
    "undo": "dcc.cli.data_changes:undo",
    "recheck": "dcc.cli.data_changes:recheck",
    "causes": "dcc.cli.data_causes:causes",
    "findings": "dcc.cli.data_findings:findings",
    "export": "dcc.cli.data_export:export",
}


@click.command(cls=CommandGroup, places=_COMMANDS)
def data() -> None:
    """Look at what documents brought, confirm, withdraw, export it."""
