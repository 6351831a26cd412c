"""`dcc data schema` and `parameters`: tables and columns with what they mean, and what measurements can be of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dcc.cli.shell.context import json_option, reading_qc, writing_file
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_table, printable, wants_json
from dcc.errors import NotFoundError
from dcc.messages import count_of
from dcc.nearest_names import nearest_sentence
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Table

    from dcc.analysis.parameters import ParameterEntry


_TITLES: Final = {"tracker": "The tracker", "qc": "The QC database"}


@command(
    examples=["dcc data schema", "dcc data schema measurement specimen", "dcc data schema --html schema.html"],
    offline=True,
)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page of all tables to FILE.")
@json_option
def schema(tables: tuple[str, ...], html: Path | None) -> None:
    """Describe the tables and columns of both databases.

    Without TABLE it lists the tables; with some, their columns. On MySQL and MariaDB the same descriptions are the
    comments of tables and columns. It connects to no database.

    \b
    JSON: a list of {"database" (tracker, qc), "table", "description", "columns"}; columns are
      {"name", "type", "null", "refers_to" (table.column, or null), "description"}
    """
    from dcc.databases.descriptions import described
    from dcc.qc.models import QcBase
    from dcc.reports.submissions.templates import render
    from dcc.tracker.models import Base

    known = {"tracker": list(described(Base.metadata)), "qc": list(described(QcBase.metadata))}
    comments = {table.name: table.comment or "" for some in known.values() for table in some}
    for name in tables:
        if name not in comments:
            speaking = [table for table, text in comments.items() if name.casefold() in f"{table} {text}".casefold()]
            hint = nearest_sentence(name, comments) or " `dcc data schema` without a name lists all tables."
            hint = f" Tables that speak of it: {', '.join(speaking[:5])}." if speaking else hint
            raise NotFoundError(f"No table {name!r} exists.{hint}")
    chosen = {
        database: [table for table in some if not tables or table.name in tables] for database, some in known.items()
    }
    if html is not None:
        facts = {"title": "Tables and columns", "databases": chosen, "titles": _TITLES, "columns_of": _rows}
        with writing_file(html) as part:
            part.write_text(render("reports/tables.html", facts), "utf-8")
        click.echo(f"Wrote {printable(html)}.", err=True)
    if wants_json():
        echo_json([_table_json(database, table) for database, some in chosen.items() for table in some])
    elif tables:
        for table in [table for some in chosen.values() for table in some]:
            click.echo(f"{click.style(table.name, bold=True)}: {table.comment}")
            echo_table(["column", "type", "null", "description"], _rows(table), flexible=["description"])
            click.echo()
    elif html is None:
        for database, some in chosen.items():
            click.echo(click.style(_TITLES[database], bold=True))
            echo_list(some, "table=name, description=comment", flexible=["description"])
            click.echo()


def _table_json(database: str, table: Table) -> dict[str, object]:
    columns = [
        {
            **fields_of(column, "name", description="comment"),
            "type": str(column.type),
            "null": bool(column.nullable),
            "refers_to": next((key.target_fullname for key in column.foreign_keys), None),
        }
        for column in table.columns
    ]
    return {"database": database, "table": table.name, "description": table.comment, "columns": columns}


def _rows(table: Table) -> list[tuple[str, str, str, str]]:
    return [
        (column.name, str(column.type), "yes" if column.nullable else "", column.comment or "")
        for column in table.columns
    ]


@command(examples=["dcc data parameters weight", "dcc data parameters body weight IMPC_BWT"])
@click.argument("words", nargs=-1, metavar="[TEXT]")
@json_option
def parameters(words: tuple[str, ...]) -> None:
    """List parameters, to find the key of one.

    Only those whose key, name or procedure has all words of TEXT. The number of measurements is that of current, valid
    ones, as the last session counted them.

    \b
    JSON: a list of {"key", "name", "procedure" (its key), "procedure_name", "unit", "type",
      "measurements"}; null where IMPReSS does not say it
    """
    from dcc.analysis.parameters import list_parameters

    with reading_qc() as connection:
        found = list_parameters(connection, " ".join(words))
        every = [] if found or wants_json() else list_parameters(connection)
    names = ("key", "name", "procedure", "procedure_name", "unit", "type", "measurements")
    echo_list(
        found,
        "key=parameter_id, name, procedure, unit, type, measurements",
        as_object=lambda parameter: dict(zip(names, parameter, strict=True)),
        flexible=["name", "procedure"],
        procedure=lambda parameter: parameter.procedure or parameter.procedure_id,
    )
    if not found:
        if not wants_json():
            click.echo(f"No parameter has all of these words.{_nearest_words(words, every)}", err=True)
        return
    note_facts(parameter=max(found, key=lambda one: one.measurements).parameter_id)
    if not wants_json():
        click.echo(f"{count_of(len(found), 'parameter')}.", err=True)


def _nearest_words(words: Sequence[str], every: Sequence[ParameterEntry]) -> str:
    """A sentence with the words of keys and names that are most similar to words that none has."""
    texts = [" ".join(part for part in parameter[:4] if part).casefold() for parameter in every]
    known = sorted({word for text in texts for word in text.split()})
    strange = [word for part in words for word in part.split() if not any(word.casefold() in text for text in texts)]
    return "".join(str(nearest_sentence(word, known)) for word in strange)
