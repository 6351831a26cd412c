"""Descriptions of tables and columns in the schema itself, from the docstrings of the models.

A table's description is its model's docstring. A column's is what that docstring says of the column in backticks, else
what it refers to, else what columns of its name mean everywhere (`MEANINGS`). MySQL and MariaDB keep them as
comments; SQLite has none.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, text

from dcc.databases.columns import TypedTable

_TABLE_LENGTH: Final = 2_000
_COLUMN_LENGTH: Final = 1_000
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
_COMMENT: Final = re.compile(r" COMMENT '(?:[^'\\]|''|\\.)*'$")
_DEFINITION: Final = re.compile(r"^  (`(?P<name>(?:[^`]|``)+)` .*?),?$", re.MULTILINE)


def describe_tables(metadata: MetaData) -> None:
    """Give each table and column of models its description, as the comment of SQLAlchemy's objects."""
    for mapper in TypedTable.registry.mappers:
        table = mapper.local_table
        if isinstance(table, Table) and table.metadata is metadata and table.comment is None:
            sentences = [
                part
                for model in mapper.class_.__mro__
                for sentence in _sentences(model)
                for part in sentence.split("; ")
            ]
            table.comment = " ".join(_sentences(mapper.class_))[:_TABLE_LENGTH]
            for column in table.columns:
                column.comment = _meaning(column, sentences)[:_COLUMN_LENGTH] or None


def _sentences(model: type) -> list[str]:
    documented = model.__module__.startswith("dcc.")
    words = inspect.cleandoc(model.__dict__.get("__doc__") or "") if documented else ""
    # Who reads the schema need not know which columns came later.
    return _SENTENCES.split(" ".join(words.split()).replace("Additive: ", "")) if words else []


def _meaning(column: Any, sentences: list[str]) -> str:
    own = [sentence for sentence in sentences if f"`{column.name}`" in sentence]
    if own:
        return " ".join(f"{part.rstrip('.')}." for part in own)
    targets = [key.target_fullname.partition(".")[0] for key in column.foreign_keys]
    return f"A row of {targets[0]}." if targets else MEANINGS.get(column.name, "")


def write_comments(connection: Connection, metadata: MetaData) -> None:
    """Write the descriptions into the tables of a MySQL or MariaDB database that have others or none.

    A column keeps the definition that the server says it has, whatever the models say.
    """
    if connection.dialect.name == "sqlite":
        return
    kept = _comments(connection)
    for table in metadata.sorted_tables:
        of_columns = {column.name: column.comment or "" for column in table.columns}
        if kept.get(table.name) == {"": table.comment or "", **of_columns}:
            continue
        (_, definition) = connection.exec_driver_sql(f"SHOW CREATE TABLE {table.name}").one()
        changes = [
            f"MODIFY COLUMN {_COMMENT.sub('', found[1])} COMMENT {_quoted(of_columns[found['name']])}"
            for found in _DEFINITION.finditer(definition)
            if of_columns.get(found["name"])
        ]
        changes.append(f"COMMENT = {_quoted(table.comment or '')}")
        changed = ", ".join(changes).replace("%", "%%")
        connection.exec_driver_sql(f"ALTER TABLE {table.name} {changed}")


def _comments(connection: Connection) -> dict[str, dict[str, str]]:
    """The comments of the present tables: of the table itself under "", and of its columns."""
    kept: dict[str, dict[str, str]] = {}
    for table, comment in connection.execute(text(_TABLE_COMMENTS)):
        kept[table] = {"": comment}
    for table, column, comment in connection.execute(text(_COLUMN_COMMENTS)):
        kept.setdefault(table, {})[column] = comment
    return kept


_TABLE_COMMENTS: Final = (
    "SELECT table_name, table_comment FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'"
)
_COLUMN_COMMENTS: Final = (
    "SELECT table_name, column_name, column_comment FROM information_schema.columns WHERE table_schema = DATABASE()"
)


def _quoted(comment: str) -> str:
    return "'" + comment.replace("\\", "\\\\").replace("'", "''") + "'"


def described(metadata: MetaData) -> Iterator[Table]:
    """The tables with their descriptions, by name."""
    describe_tables(metadata)
    yield from sorted(metadata.tables.values(), key=lambda table: table.name)


MEANINGS: Final = {
    "acquired": "When the lock was taken.",
    "address": "Postal address of a centre; the address of a page, its query masked.",
    "address_md5": "MD5 of the address, the key.",
    "allele_id": "MGI number of the allele.",
    "allele_symbol": "Symbol of the allele.",
    "applied_at": "When the document was applied.",
    "author": "Who did it.",
    "base_path": "Directory on the server that holds add, edit and delete.",
    "bytes": "Bytes that arrived.",
    "centre": "ILAR code of the centre.",
    "changed": "When the row last changed; in a crawl, the number of archives that changed.",
    "channel": "The way of the message, such as mail.",
    "checksum": "Digest of the content, by which equal contents are found.",
    "code": "A status code; of a message, the code of its declaration.",
    "col": "Column of the XML file, from 1.",
    "colony_id": "The centre's id of the colony.",
    "comment": "What was done.",
    "content": "The content as it was fetched.",
    "content_md5": "MD5 of the content, in hexadecimal digits.",
    "copies": "Number of copies.",
    "created": "When the row was made; of a file, the date in its name.",
    "date": "The date that the document gives.",
    "decided": "When somebody decided.",
    "decided_by": "Who decided.",
    "declined_by": "Who declined it.",
    "description": "What it means, in words.",
    "details": "Details of the message by their names, in JSON.",
    "dimension_id": "Name of the dimension.",
    "document_id": "The document: a row of document.",
    "downloaded_size_bytes": "Bytes that were downloaded.",
    "email": "E-mail addresses, separated by commas.",
    "entity_tag": "ETag of the server.",
    "event": "What happened.",
    "experiment_id": "The centre's id of the experiment.",
    "experiments": "Number of experiments.",
    "failures": "Number of failures.",
    "father_zygosity": "Zygosity of the father.",
    "file_name": "Name of the file.",
    "file_type": "MIME type of the file.",
    "fingerprint": "SHA-256 fingerprint.",
    "finish_time": "When it ended; null while it runs.",
    "finished": "When it ended; null while it runs.",
    "fname": "Name of the document.",
    "from_lims": "Whether the centre's LIMS gave it.",
    "full_name": "Full name.",
    "gender": "Sex of the animal.",
    "gene_id": "MGI number of the gene.",
    "gene_symbol": "Symbol of the gene.",
    "genotype": "Genotype; empty for animals of the baseline.",
    "gone": "Number of archives that the source hosts no more.",
    "heartbeat": "Last sign of life.",
    "holder": "Who holds it: a process by a random name.",
    "host": "Name of the machine.",
    "hostname": "Name or address of the server, and its port.",
    "housings": "Number of housings.",
    "id": "Number of the row.",
    "ignored": "Number of files that were ignored.",
    "imits_name": "Name of the centre in iMits.",
    "inc": "Increment in the file's name.",
    "increment": "Increment of a series: a time or place.",
    "increment_status": "Status code of an increment without a value.",
    "is_active": "Whether it is in force.",
    "is_baseline": "Whether the animal belongs to the baseline.",
    "is_current": "Whether this version is the present one.",
    "is_important": "Whether IMPReSS calls it important.",
    "is_mandatory": "Whether IMPReSS calls it mandatory.",
    "is_required": "Whether IMPReSS demands it.",
    "item": "Number of the value among those of its parameter.",
    "key_base64": "The key, in base64.",
    "key_type": "Kind of the key, as SSH names it.",
    "kind": "Kind of the row.",
    "known": "Number of archives that were known before.",
    "last": "The last id that was given.",
    "last_modified": "Last-Modified of the server.",
    "last_updated": "When the centre last changed it.",
    "late": "Whether an archive of a later date was applied before it.",
    "level": "Level of the strain in the pedigree.",
    "lexical": "Values as the document writes them, where that is not how they are kept, in JSON.",
    "line": "Line of the XML file, from 1.",
    "lines": "Number of lines of animals.",
    "link": "Link of the file to other data.",
    "listed": "Number of archives that the source listed.",
    "litter_id": "The centre's id of the litter.",
    "md5": "MD5, in hexadecimal digits.",
    "measurements": "Number of measurements.",
    "message": "The message, in English.",
    "metadata_group": "Digest of the circumstances of the measurement.",
    "mgi_allele_id": "MGI number of the allele.",
    "mgi_gene_id": "MGI number of the gene.",
    "mgi_strain_id": "MGI number of the strain.",
    "minimum": "Least number of increments.",
    "mother_zygosity": "Zygosity of the mother.",
    "name": "Name.",
    "new_zips": "Number of archives that were new.",
    "num_retries": "Number of attempts to download it after one that failed.",
    "ontology_id": "Id of the term in its ontology.",
    "origin": "Origin of the dimension.",
    "outcome": "How it ended.",
    "parameter_id": "IMPReSS key of the parameter.",
    "path": "Place of the element in the document.",
    "pause_reason": "Why the source is paused.",
    "phenotyping_centre": "Centre that measures the animal.",
    "phone": "Telephone number.",
    "pid": "Number of the process.",
    "pid_started": "When the process started, by which it differs from others with its number.",
    "pipeline": "IMPReSS key of the pipeline.",
    "position": "Position among the parts of the same row, from 1.",
    "procedure_id": "IMPReSS key of the procedure.",
    "procedure_variant": "Variant of the procedure.",
    "production_centre": "Centre that bred the animals.",
    "project": "Name of the project.",
    "raised_by": "Who raised it.",
    "reason": "Why, in words.",
    "received": "When the download ended.",
    "recipient": "Who got it.",
    "refused": "When it was refused; in a crawl, the number of archives that were refused.",
    "region_end": "End of the region.",
    "region_start": "Start of the region.",
    "relationship": "How the animals are related.",
    "replica": "Name of the replica.",
    "request": "When the download began.",
    "requested_by": "Who asked for it.",
    "resolution": "How it was resolved.",
    "resolved_by": "Who resolved it.",
    "retrieved": "When it was fetched.",
    "revoked": "When it was revoked; null while it is in force.",
    "revoked_by": "Who revoked it.",
    "revoked_reason": "Why it was revoked.",
    "rgba": "Colour on the tracker's pages.",
    "row_count": "Number of rows.",
    "rule": "Code of the rule.",
    "seconds": "Seconds that it took.",
    "sequence_id": "The centre's id of the sequence.",
    "server": "Name of the server.",
    "sha256": "SHA-256, in hexadecimal digits.",
    "short_name": "The name that programs use.",
    "size_bytes": "Size in bytes.",
    "snapshot_id": "Number of the snapshot of reference data.",
    "species": "Species.",
    "specimen_id": "The centre's id of the animal.",
    "specimens": "Number of animals.",
    "start_time": "When it began.",
    "started": "When it began.",
    "state": "State after the event.",
    "status": "Status.",
    "status_date": "Date of the status code.",
    "strain_id": "MGI number or name of the strain.",
    "subject": "What it is about.",
    "taken_until": "Until when it is taken.",
    "token": "Number of the writer's transaction.",
    "tracker_id": "The document's number in the tracker: a row of xml_file.",
    "unit": "Unit of measurement.",
    "uri": "Address of the file.",
    "username": "Name of the user who logs in.",
    "validity": "0 not judged, 1 valid, 2 not valid.",
    "value": "The value.",
    "variant": "Variant of the parameter.",
    "writer": "The process that wrote, by a random name.",
    "written": "When it was written.",
    "zip_file": "Name of the archive.",
    "zygosity": "Zygosity of the animal.",
}
"""What columns of the same name mean in every table, where the docstring of a model does not say it."""
