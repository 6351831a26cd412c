"""All in an installation that must not depend on what went wrong on the way, to be compared with that of its twin.

Ids, times, days and places are left out: everything is named by files, animals and rules. Where some file sources
delivered later than others, it is left out too which documents came late, and in which state contexts wait for a
wrangler.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, text

from dcc.rules.upload import LATE
from tests.chaos.installation import ChaosInstallation
from tests.support.staged_files import without_day

_OF_ZIP: Final = (
    "JOIN zip_file z ON z.id = za.zip_id JOIN processing_type t ON t.id = za.todo_id "
    "JOIN phase p ON p.id = {0}.phase_id JOIN a_status s ON s.id = {0}.status_id"
)
_LATEST: Final = (
    "x.zip_id = (SELECT max(d.id) FROM zip_download d JOIN file_source_has_zip h ON h.id = d.zf_id "
    "WHERE h.za_id = za.id)"
)
_TRACKER: Final = {
    "zip actions": (
        "SELECT t.short_name, z.file_name, z.size_bytes, z.content_md5, p.short_name, s.short_name "
        f"FROM zip_action za {_OF_ZIP.format('za')}"
    ),
    "hostings": (
        "SELECT t.short_name, z.file_name, h.file_source_id, h.gone_since IS NULL FROM file_source_has_zip h "
        "JOIN zip_action za ON za.id = h.za_id JOIN zip_file z ON z.id = za.zip_id "
        "JOIN processing_type t ON t.id = za.todo_id"
    ),
    "documents": (
        "SELECT t.short_name, z.file_name, x.fname, x.size_bytes, x.content_md5, p.short_name, s.short_name "
        "FROM xml_file x JOIN zip_download d ON d.id = x.zip_id JOIN file_source_has_zip h ON h.id = d.zf_id "
        f"JOIN zip_action za ON za.id = h.za_id {_OF_ZIP.format('x')} WHERE {_LATEST}"
    ),
    "log": (
        "SELECT z.file_name, x.fname, e.short_name, l.line FROM xml_log l JOIN xml_file x ON x.id = l.xml_id "
        "JOIN an_exception e ON e.id = l.exception_id JOIN zip_download d ON d.id = x.zip_id "
        "JOIN file_source_has_zip h ON h.id = d.zf_id JOIN zip_action za ON za.id = h.za_id "
        f"JOIN zip_file z ON z.id = za.zip_id WHERE l.cleared IS NULL AND {_LATEST}"
    ),
    "refused names": (
        "SELECT DISTINCT z.file_name, e.short_name FROM zip_action_log l JOIN zip_action za ON za.id = l.za_id "
        "JOIN zip_file z ON z.id = za.zip_id JOIN an_exception e ON e.id = l.exception_id"
    ),
}
_DOCUMENT: Final = "d.zip_action, d.zip_file, d.file_name"
_QC: Final = {
    "applied": (
        f"SELECT {_DOCUMENT}, d.md5, d.action, d.state, d.late, d.contexts_built, d.overviews_built, d.specimens, "
        "d.experiments, d.lines, d.housings, d.measurements FROM document d"
    ),
    "specimens": (
        f"SELECT {_DOCUMENT}, e.centre, e.specimen_id, e.is_current, e.validity FROM specimen e "
        "JOIN document d ON d.id = e.document_id"
    ),
    "experiments": (
        f"SELECT {_DOCUMENT}, e.centre, e.experiment_id, e.procedure_id, e.is_current, e.validity FROM experiment e "
        "JOIN document d ON d.id = e.document_id"
    ),
    "lifetimes": (
        "SELECT l.entity_kind, o.file_name AS opened_by, e.file_name AS ended_by, count(*) FROM lifetime l "
        "JOIN document o ON o.id = l.opened_by LEFT JOIN document e ON e.id = l.ended_by "
        "GROUP BY l.entity_kind, o.file_name, e.file_name"
    ),
    "measurements": (
        f"SELECT {_DOCUMENT}, m.parameter_id, count(*), sum(m.fingerprint) FROM measurement m "
        f"JOIN document d ON d.id = m.document_id GROUP BY {_DOCUMENT}, m.parameter_id"
    ),
    "findings": (
        f"SELECT {_DOCUMENT}, f.rule, f.severity, f.line, f.value FROM finding f "
        "JOIN document d ON d.id = f.document_id WHERE f.is_active"
    ),
    "contexts": (
        "SELECT centre, pipeline, genotype, strain_id, procedure_id, parameter_id, measurements, checksum, state "
        "FROM data_context"
    ),
    "parts of contexts": (
        "SELECT d.file_name, c.centre, c.genotype, c.parameter_id, p.measurements FROM document_context p "
        "JOIN document d ON d.id = p.document_id JOIN data_context c ON c.id = p.context_id"
    ),
    "genotypes": "SELECT centre, genotype, strain_id, gene_symbol, specimens FROM overview_genotype",
    "animals": (
        "SELECT centre, procedure_id, specimen_id, genotype, date, measurements, metadata_group "
        "FROM overview_animal_procedure"
    ),
}
_OF_THE_ORDER: Final = {"applied": "late", "contexts": "state", "lifetimes": None}
"""What depends on the order in which documents came: a column, or all of it."""
_LATE_RULES: Final = frozenset({LATE})

Ending = dict[str, Counter[Any]]


def ending_of(installation: ChaosInstallation, *, in_order: bool) -> Ending:
    """What an installation has come to; with `in_order`, also what depends on the order of the documents."""
    ending: Ending = {}
    with installation.tracker.connect() as tracker, installation.qc.connect() as qc:
        for connection, queries in ((tracker, _TRACKER), (qc, _QC)):
            for name, query in queries.items():
                rows = Counter(_rows(connection, query, name, in_order))
                if name not in _OF_THE_ORDER or in_order or _OF_THE_ORDER[name] is not None:
                    ending[name] = rows
    ending["staging"] = Counter(_staged(installation))
    return ending


def _rows(connection: Connection, query: str, name: str, in_order: bool) -> Iterator[tuple[Any, ...]]:
    left_out = None if in_order else _OF_THE_ORDER.get(name)
    for row in connection.execute(text(query)).mappings():
        values = tuple(
            str(bool(value)) if column.startswith("is_") or column == "late" else str(value)
            for column, value in row.items()
            if column != left_out
        )
        if in_order or name not in {"log", "findings"} or not _LATE_RULES & set(values):
            yield values


def _staged(installation: ChaosInstallation) -> Iterator[tuple[str, str]]:
    root = installation.settings.staging_directory
    for path in root.rglob("*"):
        if path.is_file():
            content = without_day(path.name, path.read_bytes())
            yield str(path.relative_to(root)), hashlib.md5(content, usedforsecurity=False).hexdigest()


def differences(ending: Ending, twin: Ending) -> list[str]:
    """What one has and the other has not, a line each; a few of each kind."""
    found = []
    for name, rows in ending.items():
        for who, more in (("only here", rows - twin[name]), ("only in the twin", twin[name] - rows)):
            found += [f"{name}, {who}: {' | '.join(row)}" for row in sorted(more)[:5]]
    return found
