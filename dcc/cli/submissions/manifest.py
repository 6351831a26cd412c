"""`dcc manifest`: what an archive is to hold, written down before it is packed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option
from dcc.cli.shell.output import count_of, echo_json, printable
from dcc.errors import ConfigurationError

if TYPE_CHECKING:
    from dcc.archives.manifest import Counts
    from dcc.documents.schema_set import SchemaSet


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--format", "suffix", type=click.Choice(("json", "csv")), default="json", show_default=True)
@json_option
def manifest(directory: Path, suffix: str, as_json: bool) -> None:
    """Write a manifest of the documents in DIRECTORY into it.

    It names every .xml file in DIRECTORY and below, with its size, its SHA-256, and how many specimens and experiments
    it holds. Pack it at the top of the archive: a session and dcc validate hold what is there against it.

    \b
    Example:
      dcc manifest export/

    JSON: {"path", "files": [{"file", "size", "checksum", "specimens", "experiments"}]}

    Exit codes: 0; 1 a document cannot be read; 2 there is no document, or the manifest cannot be written.
    """
    from dcc.archives.manifest import manifest_of, write_manifest
    from dcc.documents.schema_set import SchemaSet

    path = directory / f"manifest.{suffix}"
    try:
        rows = manifest_of(directory, partial(_count, SchemaSet.load()))
        if not rows:
            raise ConfigurationError(f"{directory} holds no .xml document. Name the folder that is to be packed.")
        write_manifest(rows, path)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or path} cannot be read or written ({error.strerror}). See to its permissions."
        ) from error
    if as_json:
        echo_json({"path": path, "files": rows})
        return
    specimens, experiments = (sum(row[name] for row in rows) for name in ("specimens", "experiments"))
    held = ", ".join(
        (count_of(len(rows), "document"), count_of(specimens, "specimen"), count_of(experiments, "experiment"))
    )
    click.echo(f"Wrote {printable(path)}: {held}.")


def _count(schemas: SchemaSet, document: Path) -> Counts:
    from dcc.session.prepare.archive_checks import count_entities

    kind = schemas.kind_of_file(document)
    if kind is None:
        raise ConfigurationError(f"{document} is no document of the format. See `dcc validate {document}`.")
    return count_entities(document, kind)
