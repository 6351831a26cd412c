"""`dcc example`: submissions to try the platform with."""

from __future__ import annotations

from pathlib import Path

import click

from dcc.cli.shell.context import json_option
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_result, printable
from dcc.errors import ConfigurationError

_CENTRES = ("H", "J", "Tcp", "Wtsi")
_KINDS = ("valid", "schema-errors", "data-errors", "corrected")


@command(
    examples=["dcc example centre", "dcc example centre --kind data-errors", "dcc example centre --format csv"],
    exits={2: "it cannot be written, or exists already"},
    offline=True,
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--kind", type=click.Choice(_KINDS), default="valid", show_default=True, help="What is to become of the submission."
)
@click.option("--centre", type=click.Choice(_CENTRES), default="H", show_default=True, help="Whose submission it is.")
@click.option(
    "--format",
    "suffix",
    type=click.Choice(("xml", "csv")),
    default="xml",
    show_default=True,
    help="XML documents, or CSV tables that say the same.",
)
@json_option
def example(directory: Path, kind: str, centre: str, suffix: str, as_json: bool) -> None:
    """Write an example submission into DIRECTORY.

    A zip archive of XML documents or CSV tables as centres publish them, in the directory add or edit of DIRECTORY, the
    base path of a source. The animals and measurements are made up; the colonies are in the shipped reference data.

    \b
    Kinds:
      valid          24 animals with their blood chemistry; all is in order
      schema-errors  a document with lines that break the XML schema
      data-errors    animals of a colony that is not registered, and a weight that is no number
      corrected      what data-errors holds, corrected: an archive of edit

    JSON: {"path", "kind", "centre"}
    """
    from dcc.cli.demo.examples import example_submission

    key, content = example_submission(kind, centre, tables=suffix == "csv")
    path = directory / key
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} is there already. Name another directory, or another --kind.") from error
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be written ({error.strerror}). See to the directory and its permissions."
        ) from error
    echo_result({"path": path, "kind": kind, "centre": centre}, f"Wrote {printable(path)}.", as_json=as_json)
