"""`dcc data`: what documents said, once it is in the QC database."""

from __future__ import annotations

import click

from dcc_cli.group import CommandGroup

_COMMANDS = {
    "findings": "dcc_cli.data_findings:findings",
    "export": "dcc_cli.data_export:export",
}


@click.command(cls=CommandGroup, places=_COMMANDS)
def data() -> None:
    """Look at the data that documents brought, change what became of them, export measurements."""
