"""`dcc data parameters`: the parameters that measurements can be of."""

from __future__ import annotations

import click

from dcc.cli.shell.context import json_option, open_qc, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import count_of, echo_json, echo_table


@command(examples=["dcc data parameters weight", "dcc data parameters body weight IMPC_BWT"])
@click.argument("words", nargs=-1, metavar="[TEXT]")
@json_option
def parameters(words: tuple[str, ...], as_json: bool) -> None:
    """List parameters, to find the key of one.

    Only those whose key, name or procedure has all words of TEXT. The number of measurements is that of current, valid
    ones, as the last session counted them.

    \b
    JSON: a list of {"key", "name", "procedure" (its key), "procedure_name", "unit", "type",
      "measurements"}; null where IMPReSS does not say it
    """
    from dcc.analysis.parameters import list_parameters

    with open_qc(settings_from_environment()) as qc, qc.connect() as connection:
        found = list_parameters(connection, " ".join(words))
    if as_json:
        names = ("key", "name", "procedure", "procedure_name", "unit", "type", "measurements")
        echo_json([dict(zip(names, one, strict=True)) for one in found])
        return
    headers = ("key", "name", "procedure", "unit", "type", "measurements")
    rows = [(one.parameter_id, one.name, one.procedure or one.procedure_id, *one[4:]) for one in found]
    echo_table(headers, rows, prose=["name", "procedure"])
    click.echo(f"{count_of(len(found), 'parameter')}.", err=True)
    if found:
        note_facts(parameter=max(found, key=lambda one: one.measurements).parameter_id)
