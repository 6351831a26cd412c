"""The revisions of the QC database's schema, and how rows of earlier ones are converted.

See `dcc.databases.schema`.
"""

from __future__ import annotations

import json
from hashlib import blake2b, sha256
from typing import Any, Final

from sqlalchemy import Connection, bindparam, case, column, delete, inspect, select, table, update

from dcc.databases.database import Revisions
from dcc.databases.schema import columns_of
from dcc.documents.lexical import parse_number

_ENTITIES = ("specimen", "experiment", "line", "housing")
_PAGE = 5_000
_BEFORE_CAUSES = "ix_finding_document_id_is_active"
_ALONE = ("P4", "X11", "X13")
_OF_SPECIMENS = ("S1", "S2", "S3", "S4", "S7", "S9", "S10", "S12", "X3", "X6", "X7", "X14")
_OF_EXPERIMENTS = ("E5",)
_ONE_CAUSE = ("S1", "S3", "S7", "X13", "X14", "E5")
"""Rules whose findings have one cause, whatever their values."""


def _number_validity(connection: Connection) -> None:
    """The validity of an entity becomes a number: 0 not judged, 1 valid, 2 not valid."""
    for name in _ENTITIES:
        if "is_valid" in columns_of(connection, name):
            entity = table(name, column("validity"), column("is_valid"))
            judged = case((entity.c.is_valid == 1, 1), else_=2)
            connection.execute(update(entity).where(entity.c.is_valid.is_not(None)).values(validity=judged))
            connection.exec_driver_sql(f"ALTER TABLE {name} DROP COLUMN is_valid")


def _recount_invalid_animals(connection: Connection) -> None:
    """An experiment on an invalid animal is not valid: the next session counts it so."""
    document = table("document", column("id"), column("contexts_built"))
    specimen = table("specimen", column("document_id"), column("is_current"), column("validity"))
    concerned = select(specimen.c.document_id).where(specimen.c.is_current == 1, specimen.c.validity == 2)
    connection.execute(update(document).where(document.c.id.in_(concerned)).values(contexts_built=0))


def _mask_addresses(connection: Connection) -> None:
    """Addresses of reference data lose their queries, which may have tokens; such pages are requested once more."""
    snapshot = table("reference_snapshot", column("id"), column("source"))
    page = table("fetched_page", column("address"))
    asking = select(snapshot.c.id, snapshot.c.source).where(snapshot.c.source.like("http%://%?%"))
    for row in connection.execute(asking).all():
        place, _, query = row.source.partition("?")
        if not query.startswith("***#"):
            masked = f"{place}?***#{sha256(query.encode()).hexdigest()[:8]}"
            connection.execute(update(snapshot).where(snapshot.c.id == row.id).values(source=masked))
    connection.execute(delete(page).where(page.c.address.like("%?%")))


def _state_facts(connection: Connection) -> None:
    """Findings get code, cause and, if the rows beside them have all of these, details; others keep their words."""
    names = ("id", "rule", "value", "entity_kind", "entity_id", "code", "details", "cause")
    finding = table("finding", *(column(name) for name in names))
    specimen = table("specimen", column("id"), column("specimen_id"))
    experiment = table("experiment", column("id"), column("experiment_id"))
    query = (
        select(
            finding.c.id,
            finding.c.rule,
            finding.c.value,
            specimen.c.specimen_id.label("specimen"),
            experiment.c.experiment_id.label("experiment"),
        )
        .select_from(finding)
        .outerjoin(specimen, (finding.c.entity_kind == "specimen") & (specimen.c.id == finding.c.entity_id))
        .outerjoin(experiment, (finding.c.entity_kind == "experiment") & (experiment.c.id == finding.c.entity_id))
        .order_by(finding.c.id)
        .limit(_PAGE)
    )
    change = (
        update(finding)
        .where(finding.c.id == bindparam("row"))
        .values(code=bindparam("code"), details=bindparam("details"), cause=bindparam("cause"))
    )
    last = 0
    while rows := connection.execute(query.where(finding.c.id > last)).all():
        connection.execute(change, [_facts(row) for row in rows])
        last = rows[-1].id
    if _BEFORE_CAUSES in {index["name"] for index in inspect(connection).get_indexes("finding")}:
        on = "" if connection.dialect.name == "sqlite" else " ON finding"
        connection.exec_driver_sql(f"DROP INDEX {_BEFORE_CAUSES}{on}")


def _facts(row: Any) -> dict[str, Any]:
    details: dict[str, str] | None = None
    if row.rule in _ALONE:
        details = {}
    elif row.rule in _OF_SPECIMENS and row.specimen is not None:
        details = {"specimen": row.specimen}
    elif row.rule in _OF_EXPERIMENTS and row.experiment is not None:
        details = {"experiment": row.experiment}
    parts = (row.rule,) if row.rule in _ONE_CAUSE else (row.rule, row.value or "")
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return {
        "row": row.id,
        "code": row.rule,
        "details": None if details is None else json.dumps(details, ensure_ascii=False, separators=(",", ":")),
        "cause": int.from_bytes(digest, "big") >> 1,
    }


def _part_centres(connection: Connection) -> None:
    """No centre waits for another: a view adds up strains, and a unique index becomes a plain one.

    SQLite, which has one writer, keeps the unique index.
    """
    if "overview_strain" in inspect(connection).get_table_names():
        connection.exec_driver_sql("DROP TABLE overview_strain")
    unique = {index["name"] for index in inspect(connection).get_indexes("document") if index["unique"]}
    if connection.dialect.name != "sqlite":
        for name in unique:
            connection.exec_driver_sql(f"DROP INDEX {name} ON document")


def _number_grouped_values(connection: Connection) -> None:
    """Values with separators of thousands, such as 2,643.85, get their number."""
    measurement = table("measurement", column("id"), column("value"), column("number"))
    grouped = measurement.c.number.is_(None) & measurement.c.value.like("%_,___%")
    query = select(measurement.c.id, measurement.c.value).where(grouped).order_by(measurement.c.id).limit(_PAGE)
    change = update(measurement).where(measurement.c.id == bindparam("row")).values(number=bindparam("found"))
    last = 0
    while rows := connection.execute(query.where(measurement.c.id > last)).all():
        numbers = [{"row": row.id, "found": parse_number(row.value)} for row in rows]
        connection.execute(change, numbers)
        last = rows[-1].id


def _retrieve_impress_again(connection: Connection) -> None:
    """Which terms are retired was not stored: IMPReSS becomes a new snapshot, though it has not changed."""
    snapshot = table("reference_snapshot", column("name"), column("is_active"), column("checksum"))
    active = (snapshot.c.name == "impress") & snapshot.c.is_active
    connection.execute(update(snapshot).where(active).values(checksum=""))


_CONVERSIONS: Final = {
    2: _number_validity,
    4: _recount_invalid_animals,
    5: _mask_addresses,
    6: _state_facts,
    8: _part_centres,
    13: _number_grouped_values,
    14: _retrieve_impress_again,
}
REVISIONS: Final[Revisions] = {f"{number:04}": _CONVERSIONS.get(number) for number in range(1, 15)}
"""All revisions, oldest first, and the function that converts the rows of the one before."""
