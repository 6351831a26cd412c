"""`dcc data`: the data in the QC database."""

from __future__ import annotations

import click

from dcc.cli.shell.group import CommandGroup

_COMMANDS = {
    "plan": "dcc.cli.data.changes:plan",
    "confirm": "dcc.cli.data.changes:confirm",
    "history": "dcc.cli.data.changes:history",
    "undo": "dcc.cli.data.changes:undo",
    "proposals": "dcc.cli.data.changes:proposals",
    "recheck": "dcc.cli.data.changes:recheck",
    "causes": "dcc.cli.data.findings:causes",
    "document": "dcc.cli.data.documents:document",
    "record": "dcc.cli.data.documents:record",
    "findings": "dcc.cli.data.findings:findings",
    "parameters": "dcc.cli.data.schema:parameters",
    "schema": "dcc.cli.data.schema:schema",
    "export": "dcc.cli.data.export:export",
}


@click.command(cls=CommandGroup, lazy_commands=_COMMANDS)
def data() -> None:
    """Look at the data of documents; confirm, withdraw and export them."""
