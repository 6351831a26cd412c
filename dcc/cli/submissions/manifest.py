"""`dcc manifest`: what an archive is to hold, written down before it is packed, or beside it."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, settings_from_environment, writing_file
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_result, printable
from dcc.errors import ConfigurationError, DocumentError, EmptyArchiveError
from dcc.messages import count_of
from dcc.naming import ANY_CENTRE, is_archive, is_document, manifest_beside

if TYPE_CHECKING:
    from dcc.documents.schema_set import SchemaSet


@command(
    examples=["dcc manifest export/", "dcc manifest H.2013-10-31.1.impc.zip"],
    exits={1: "a document or archive cannot be read", 2: "there is no document, or the manifest cannot be written"},
    offline=True,
)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--format", "suffix", type=click.Choice(("json", "csv")), default="json", show_default=True, help="Of the manifest."
)
@json_option
def manifest(path: Path, suffix: str) -> None:
    """Write a manifest of the documents in PATH.

    If PATH is a folder, the manifest is written into it: pack it at the top of the archive. If PATH is an archive, the
    manifest is written beside it: upload both. It names every document and table, with its size, its SHA-256, and the
    numbers of specimens and experiments; beside an archive also the archive's own. A session and dcc validate compare
    the archive with it.

    JSON: {"path", "files": [{"file", "size", "checksum", "specimens", "experiments"}]}
    """
    from dcc.archives.manifest import manifest_row, write_manifest
    from dcc.documents.schema_set import SchemaSet

    target = path / f"manifest.{suffix}" if path.is_dir() else path.with_name(manifest_beside(path.name, suffix))
    if path.is_dir():
        rows = _rows_of_folder(path)
    else:
        rows = [manifest_row(path.name, path), *_rows_inside(path, "", SchemaSet.load())]
    with writing_file(target) as part:
        write_manifest(rows, part, suffix)
    documents = sum(row["file"] != path.name for row in rows)
    specimens, experiments = (sum(row[name] for row in rows) for name in ("specimens", "experiments"))
    held = ", ".join(
        (count_of(documents, "document"), count_of(specimens, "specimen"), count_of(experiments, "experiment"))
    )
    echo_result({"path": target, "files": rows}, f"Wrote {printable(target)}: {held}.")


def _rows_of_folder(folder: Path) -> list[dict[str, Any]]:
    from dcc.archives.entries import legible
    from dcc.converters.conversion import converter_for
    from dcc.documents.schema_set import SchemaSet

    schemas = SchemaSet.load()
    rows = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = legible(path.relative_to(folder).as_posix())
        if is_document(path.name) or converter_for(path.name):
            rows += _rows({place: path}, schemas)
        elif is_archive(path.name):
            with suppress(EmptyArchiveError):
                rows += _rows_inside(path, f"{place}/", schemas)
    if not rows:
        raise ConfigurationError(f"{folder} holds no .xml document and no table. Name the folder to pack.")
    return rows


def _rows_inside(archive: Path, place: str, schemas: SchemaSet) -> list[dict[str, Any]]:
    """The rows of what lies in an archive, whose place is `place`."""
    from dcc.session.prepare.archive_checks import ArchiveChecker, Setup

    checker = ArchiveChecker(Setup.from_settings(settings_from_environment(min_free_bytes=0), ANY_CENTRE), schemas)
    with tempfile.TemporaryDirectory(prefix="dcc-manifest-") as folder:
        found = checker.extract(archive, Path(folder) / "contents")
        files = {document.place: document.path for document in found.documents} | {
            file.place: file.path for file in found.files
        }
        return _rows({f"{place}{inside}": path for inside, path in files.items()}, schemas)


def _rows(files: dict[str, Path], schemas: SchemaSet) -> list[dict[str, Any]]:
    from dcc.archives.manifest import manifest_row
    from dcc.session.prepare.archive_checks import count_file

    rows = []
    for place, path in files.items():
        try:
            counts = count_file(place, path, schemas)
        except DocumentError as error:
            raise type(error)(f"{place} cannot be counted: {error} `dcc validate` lists all its errors.") from error
        rows.append(manifest_row(place, path, counts))
    return rows
