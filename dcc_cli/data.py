"""`dcc data`: what documents said, once it is in the QC database."""

from __future__ import annotations

import click

from dcc_cli.group import CommandGroup

_COMMANDS = {
    "plan": "dcc_cli.data_changes:plan",
    "confirm": "dcc_cli.data_changes:confirm",
    "history": "dcc_cli.data_changes:history",
    "undo": "dcc_cli.data_changes:undo",
    "recheck": "dcc_cli.data_changes:recheck",
    "causes": "dcc_cli.data_causes:causes",
    "findings": "dcc_cli.data_findings:findings",
    "export": "dcc_cli.data_export:export",
}


@click.command(cls=CommandGroup, places=_COMMANDS)
def data() -> None:
    """Look at what documents brought, confirm, withdraw, export it."""
