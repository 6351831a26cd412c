"""`dcc data document` and `dcc data record`: the XML of a document or record, as submitted or as stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dcc.cli.shell.context import json_option, reading_qc, reading_tracker, settings_from_environment
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_json, printable, wants_json
from dcc.cli.submissions.archives import echo_file
from dcc.errors import NotFoundError
from dcc.runtime.json_values import fields_of

if TYPE_CHECKING:
    from dcc.qc.stored_records import FoundDocument, StoredRecord
    from dcc.settings import Settings
    from dcc.tracker.archive_access import SubmittedDocument


@command(
    examples=[
        "dcc data document 12 > document.xml",
        "dcc data document H.2013-10-31.1.specimen.impc.xml --rebuilt",
        "dcc data document 12 --diff",
    ],
    exits={
        1: "with --diff, they differ, or its archive is broken",
        4: "a database or the archive store cannot be reached",
    },
)
@click.argument("document", metavar="ID")
@click.option("--rebuilt", is_flag=True, help="Build it from the rows of the QC database.")
@click.option("--diff", "differ", is_flag=True, help="Compare the submitted one with the rebuilt one.")
def document(document: str, rebuilt: bool, differ: bool) -> None:
    """Print the XML of document ID.

    ID is a document_id of the QC database, or the name of a document: then its last one. The XML is that which the
    centre submitted, from the archive store or from staging. A name also finds a document that never came to the QC
    database. --diff compares what both say, and not white space, comments, or the order of attributes.
    """
    from dcc.documents.comparison import differences
    from dcc.documents.reading import read_document
    from dcc.documents.writing_xml import document_pieces
    from dcc.qc.rows.stored_content import load_document
    from dcc.qc.stored_records import find_document
    from dcc.tracker.archive_access import delivered_document, fetched_document

    if rebuilt and differ:
        raise click.UsageError("Give --rebuilt or --diff, not both.")
    settings = settings_from_environment()
    with reading_qc(settings) as connection:
        try:
            found = find_document(connection, document)
        except NotFoundError as error:
            submitted = None
            if not (rebuilt or differ):
                # The tracker also knows one that is not valid.
                with reading_tracker(settings) as tracker:
                    submitted = delivered_document(tracker, document)
            if submitted is None:
                raise NotFoundError(
                    f"{error} `dcc archive cat ACTION/ZIP NAME` prints any file of an archive."
                ) from None
            with fetched_document(settings, submitted) as path:
                echo_file(path)
            return
        if rebuilt:
            found.require_rows(connection)
            for piece in document_pieces(found.kind, load_document(connection, found.id)):
                click.echo(piece, nl=False)
            return
        with fetched_document(settings, _submitted(settings, found)) as path:
            if not differ:
                echo_file(path)
                return
            found.require_rows(connection)
            stored = load_document(connection, found.id)
            line = None
            for line in differences(found.kind, read_document(path, found.kind), stored):
                click.echo(printable(line))
    if line is not None:
        raise click.exceptions.Exit(1)


@command(
    examples=["dcc data record specimen H-M000001 --centre H", "dcc data record experiment E-0001 --centre H --all"]
)
@click.argument("kind", type=click.Choice(["specimen", "experiment"]))
@click.argument("record", metavar="ID")
@click.option("--centre", metavar="CODE", required=True, help="The centre that submitted it.")
@click.option("--all", "everything", is_flag=True, help="Earlier versions too, not only the current one.")
@json_option
def record(kind: str, record: str, centre: str, everything: bool) -> None:
    """Print a specimen or experiment, with its place.

    As XML from the QC database, after its archive, document and line. An experiment can be several, with a sequence id
    each.

    \b
    JSON: a list of {"kind", "centre", "id", "is_current", "zip_action", "place" (path in the
      archive), "document" (its name), "document_id", "line", "sha256" (of the archive, or null),
      "xml"}, oldest first
    """
    from dcc.qc.stored_records import stored_records

    settings = settings_from_environment()
    with reading_qc(settings) as connection:
        found = stored_records(connection, kind, centre, record, everything=everything)
    if not found:
        raise NotFoundError(
            f"Centre {centre!r} has no current {kind} {record!r}. Both are case-sensitive; --all shows withdrawn ones, "
            "and dcc data history the story of a specimen."
        )
    records = [_record_json(settings, one) for one in found]
    if wants_json():
        echo_json(records)
        return
    for one in records:
        place = f"{one['zip_action']}, {one['place']}, line {one['line']} (document {one['document_id']})"
        click.echo(f"{printable(place)}{'' if one['is_current'] else ', not current'}")
        for line in one["xml"].split("\n"):
            click.echo(f"  {printable(line)}")


def _record_json(settings: Settings, one: StoredRecord) -> dict[str, Any]:
    try:
        submitted = _submitted(settings, one.document)
        place, sha256 = submitted.place, submitted.attempt.sha256
    except NotFoundError:
        place, sha256 = one.document.file_name, None
    return {
        **fields_of(one, "kind", "centre", "id", "is_current", "line"),
        **fields_of(one.document, document="file_name", document_id="id"),
        "zip_action": str(one.document.key),
        "place": place,
        "sha256": sha256,
        "xml": "\n".join(one.xml),
    }


def _submitted(settings: Settings, found: FoundDocument) -> SubmittedDocument:
    from dcc.tracker.archive_access import delivered_document

    with reading_tracker(settings) as connection:
        submitted = delivered_document(connection, found.file_name, found.key, found.md5)
    if submitted is None:
        raise NotFoundError(
            f"The tracker knows no download with document {found.id}, {found.file_name} of {found.key}. What the QC "
            f"database has of it: dcc data document {found.id} --rebuilt."
        )
    return submitted
