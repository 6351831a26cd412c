"""All in an installation that must not depend on what went wrong on the way, to be compared with that of its twin.

Ids, times, days and places are left out: everything is named by files, animals and rules. Where some file sources
delivered later than others, it is left out too which documents came late, and in which state contexts wait for a
wrangler.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from dcc.qc.models import (
    CONTEXT,
    DOCUMENT,
    EXPERIMENT,
    FINDING,
    LIFETIME,
    MEASUREMENT,
    OVERVIEW_ANIMAL,
    OVERVIEW_GENOTYPE,
    SHARE,
    SPECIMEN,
)
from dcc.rules.upload import LATE
from dcc.tracker.models import AnException, FileSourceHasZip, XmlFile, XmlLog, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.submission_rows import newest_downloads
from tests.chaos.installation import ChaosInstallation
from tests.support.staged_files import without_day

Ending = Mapping[str, Any]
"""Rows by the name of what they are of; files by their places."""


def ending_of(installation: ChaosInstallation, *, in_order: bool) -> Ending:
    """What an installation has come to; with `in_order`, also what depends on the order of the documents."""
    with installation.tracker.connect() as tracker, installation.qc.connect() as qc:
        rows = _rows(tracker, _of_tracker(in_order)) | _rows(qc, _of_qc(in_order))
    return rows | {"staging": list(_staged(installation.settings.staging_directory))}


def _rows(connection: Connection, queries: Mapping[str, Select[Any]]) -> dict[str, list[Any]]:
    return {name: [tuple(row) for row in connection.execute(query)] for name, query in queries.items()}


def _of_tracker(in_order: bool) -> dict[str, Select[Any]]:
    archives = select(ZipAction.todo_id, ZipFile.file_name).join(ZipFile, ZipFile.id == ZipAction.zip_id)
    latest = newest_downloads()
    documents = archives.add_columns(XmlFile.fname).join(latest, latest.c.za_id == ZipAction.id)
    documents = documents.join(XmlFile, XmlFile.download_id == latest.c.download_id)
    logs = documents.add_columns(AnException.short_name, XmlLog.line).join(XmlLog, XmlLog.xml_id == XmlFile.id)
    logs = logs.join(AnException, AnException.id == XmlLog.exception_id).where(XmlLog.cleared.is_(None))
    refused = archives.add_columns(AnException.short_name).join(ZipActionLog, ZipActionLog.za_id == ZipAction.id)
    return {
        "zip actions": archives.add_columns(
            ZipFile.size_bytes, ZipFile.content_md5, ZipAction.phase_id, ZipAction.status_id
        ),
        "hostings": archives.add_columns(FileSourceHasZip.file_source_id, FileSourceHasZip.gone_since.is_(None)).join(
            FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id
        ),
        "documents": documents.add_columns(
            XmlFile.size_bytes, XmlFile.content_md5, XmlFile.phase_id, XmlFile.status_id
        ),
        "log": logs if in_order else logs.where(AnException.short_name != LATE),
        "refused names": refused.join(AnException, AnException.id == ZipActionLog.exception_id).distinct(),
    }


def _of_qc(in_order: bool) -> dict[str, Select[Any]]:
    documents = "zip_action zip_file file_name md5 action state contexts_built overviews_built specimens experiments"
    contexts = "centre pipeline genotype strain_id procedure_id parameter_id measurements checksum"
    findings = _by_document(FINDING, "rule severity line value").where(FINDING.c.is_active)
    shares = _by_document(SHARE, "measurements").join(CONTEXT, CONTEXT.c.id == SHARE.c.context_id)
    queries = {
        "applied": _of(DOCUMENT, f"{documents} lines housings measurements{' late' if in_order else ''}"),
        "specimens": _by_document(SPECIMEN, "centre specimen_id is_current validity"),
        "experiments": _by_document(EXPERIMENT, "centre experiment_id procedure_id is_current validity"),
        "measurements": _by_document(MEASUREMENT, "parameter_id fingerprint"),
        "findings": findings if in_order else findings.where(FINDING.c.rule != LATE),
        "contexts": _of(CONTEXT, f"{contexts}{' state' if in_order else ''}"),
        "parts of contexts": shares.add_columns(CONTEXT.c.centre, CONTEXT.c.genotype, CONTEXT.c.parameter_id),
        "genotypes": _of(OVERVIEW_GENOTYPE, "centre genotype strain_id gene_symbol specimens"),
        "animals": _of(OVERVIEW_ANIMAL, "centre procedure_id specimen_id genotype date measurements metadata_group"),
    }
    if in_order:
        began, ended = DOCUMENT.alias(), DOCUMENT.alias()
        lifetimes = select(LIFETIME.c.entity_kind, began.c.file_name, ended.c.file_name)
        lifetimes = lifetimes.join(began, began.c.id == LIFETIME.c.opened_by)
        queries["lifetimes"] = lifetimes.outerjoin(ended, ended.c.id == LIFETIME.c.ended_by)
    return queries


def _of(table: Table, columns: str) -> Select[Any]:
    return select(*(table.c[name] for name in columns.split()))


def _by_document(table: Table, columns: str) -> Select[Any]:
    """Columns of a table, and what names the document of each row."""
    names = (DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, DOCUMENT.c.file_name)
    return _of(table, columns).add_columns(*names).join(DOCUMENT, DOCUMENT.c.id == table.c.document_id)


def _staged(root: Path) -> Iterator[tuple[str, str]]:
    for path in root.rglob("*"):
        if path.is_file():
            content = without_day(path.name, path.read_bytes())
            yield str(path.relative_to(root)), hashlib.md5(content, usedforsecurity=False).hexdigest()


def differences(ending: Ending, twin: Ending) -> list[str]:
    """What one has and the other has not, a line each; a few of each kind."""
    found = []
    for name, rows in ending.items():
        here, there = (Counter(_told(each)) for each in (rows, twin[name]))
        for who, more in (("only here", here - there), ("only in the twin", there - here)):
            found += [f"{name}, {who}: {row}" for row in sorted(more.elements())[:5]]
    return found


def _told(rows: Any) -> Iterable[str]:
    """Rows as texts; of files and what else has a name, with that, and files by their checksums."""
    if not isinstance(rows, dict | list):
        rows = [rows]
    for row in rows.items() if isinstance(rows, dict) else rows:
        values = row if isinstance(row, tuple) else (row,)
        yield " | ".join(hashlib.md5(one).hexdigest() if isinstance(one, bytes) else str(one) for one in values)
