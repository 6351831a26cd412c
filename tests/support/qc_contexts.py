"""Judged documents for tests of contexts and overviews, and what contexts must come to, counted a second time."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, case, insert, select, update

from dcc.databases.transactions import insert_rows, writing
from dcc.documents.contents import Entity
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.apply.document_effect import AppliedDocument
from dcc.qc.models.views import OVERVIEW_STRAIN
from dcc.runtime.clock import utc_now
from dcc.vocabulary import Severity, Validity
from tests.support.asking import in_reading
from tests.support.qc_documents import apply

TABLES = {**models.QcBase.metadata.tables, OVERVIEW_STRAIN.name: OVERVIEW_STRAIN}
OVERVIEWS = ("overview_animal_procedure", "overview_genotype", "overview_strain", "metadata_group")
ENTITIES = ("specimen", "experiment", "line", "housing")


class Worth(NamedTuple):
    """What a context holds."""

    measurements: int
    checksum: str


def judge(engine: Engine, document_id: int, faulty: Collection[int] = ()) -> None:
    """Have a document judged: those of its entities at the positions `faulty` are not valid."""
    document = TABLES["document"]
    with writing(engine) as connection:
        for name in ENTITIES:
            table = TABLES[name]
            connection.execute(
                update(table)
                .where(table.c.document_id == document_id)
                .values(
                    validity=case(
                        (table.c.position.in_(list(faulty)), Validity.INVALID),
                        (table.c.validity == Validity.INVALID_ANIMAL, Validity.INVALID_ANIMAL),
                        else_=Validity.VALID,
                    )
                )
            )
        if faulty:
            common = {"rule": "S4", "severity": Severity.ERROR.value, "message": "", "created": utc_now()}
            connection.execute(insert(TABLES["finding"]).values(document_id=document_id, is_active=True, **common))
        judged = {"judged_at": utc_now(), "contexts_built": False}
        connection.execute(update(document).where(document.c.id == document_id).values(judged))


def submit(
    engine: Engine, action: Action, *entities: Entity, faulty: Collection[int] = (), **options: object
) -> AppliedDocument:
    """Apply a document of these entities and have it judged."""
    applied = apply(engine, action, *entities, **options)
    judge(engine, applied.document_id, faulty)
    return applied


def know(engine: Engine, name: str, table: str, rows: Collection[dict[str, Any]]) -> int:
    """Make a snapshot of a set of reference data the active one; its id."""
    snapshot = TABLES["reference_snapshot"]
    with writing(engine) as connection:
        connection.execute(update(snapshot).where(snapshot.c.name == name).values(is_active=False))
        common = {"retrieved": utc_now(), "checked": utc_now(), "source": "test", "checksum": "", "is_active": True}
        row = {"name": name, "row_count": len(rows), **common}
        (snapshot_id,) = insert_rows(connection, snapshot, [row])
        if rows:
            connection.execute(insert(TABLES[table]), [{"snapshot_id": snapshot_id, **one} for one in rows])
    return snapshot_id


def know_colonies(engine: Engine, **strains: str) -> int:
    """Make a snapshot of colonies with their strains the active one; its id."""
    common = {"position": 1, "production_centre": "H", "status": "Cryopreservation Complete"}
    rows = [
        {
            "colony_id": name,
            "strain_id": strain,
            "gene_id": f"MGI:{name}",
            "gene_symbol": f"gene {name}",
            "allele_id": f"MGI:a{name}",
            **common,
        }
        for name, strain in strains.items()
    ]
    return know(engine, "colonies", "known_colony", rows)


def know_important_metadata(engine: Engine, procedure_id: str = "IMPC_CBC_001", **names: str) -> int:
    """Make a snapshot of IMPReSS the active one that calls these metadata parameters important; its id."""
    flags = {"is_required": False, "is_important": True, "is_active": True}
    of_procedure = {"procedure_id": procedure_id, "procedure_variant": 1, "variant": 1, "type": "procedureMetadata"}
    rows = [{"parameter_id": key, "name": name, **of_procedure, **flags} for key, name in names.items()]
    snapshot_id = know(engine, "impress", "impress_parameter", rows)
    procedure = {"pipeline": "IMPC_001", "procedure_id": procedure_id, "variant": 1, "is_active": True}
    with writing(engine) as connection:
        connection.execute(insert(TABLES["impress_procedure"]), [{"snapshot_id": snapshot_id, **procedure}])
    return snapshot_id


def contexts_of(connection: Connection) -> dict[tuple[str, ...], Worth]:
    """The contexts that hold any measurements."""
    table = TABLES["data_context"]
    return {
        tuple(row[1:7]): Worth(row.measurements, row.checksum)
        for row in connection.execute(select(table))
        if row.measurements
    }


def contexts_from_nothing(connection: Connection) -> tuple[dict[tuple[str, ...], Worth], dict[tuple[Any, ...], int]]:
    """What contexts must hold, and how much of it is of each document: each measurement looked at by itself."""
    rows = {name: connection.execute(select(table)).mappings().all() for name, table in TABLES.items()}
    active = {row["id"] for row in rows["reference_snapshot"] if row["is_active"] and row["name"] == "colonies"}
    colony_strain = {
        row["colony_id"]: row["strain_id"] or "" for row in rows["known_colony"] if row["snapshot_id"] in active
    }
    specimens = {(row["centre"], row["specimen_id"]): row for row in rows["specimen"] if row["is_current"]}
    named = defaultdict(list)
    for row in rows["experiment_specimen"]:
        named[row["experiment_row"]].append(row["specimen_id"])
    unjudged_or_faulty = (Validity.UNJUDGED, Validity.INVALID)

    def counts(name: str, row: Any) -> bool:
        animals = [specimens.get((row["centre"], one)) for one in named[row["id"]]] if name == "experiment" else []
        faulty = any(one is not None and one["validity"] == Validity.INVALID for one in animals)
        return row["is_current"] and row["validity"] not in unjudged_or_faulty and not faulty

    owners = {(name, row["id"]): row for name in ENTITIES for row in rows[name] if counts(name, row)}

    def of_specimen(centre: str, specimen_id: str) -> tuple[str, str]:
        row = specimens.get((centre, specimen_id))
        if row is None:
            return "", ""
        genotype = "baseline" if row["is_baseline"] else row["colony_id"] or ""
        return genotype, row["strain_id"] or colony_strain.get(row["colony_id"], "")

    counted_as: dict[int, set[tuple[str, str]]] = {}
    for run in rows["procedure_run"]:
        owner = owners.get((run["owner_kind"], run["owner_id"]))
        if owner is None:
            continue
        if run["owner_kind"] == "experiment":
            counted_as[run["id"]] = {of_specimen(owner["centre"], one) for one in named[owner["id"]]}
        elif run["owner_kind"] == "line":
            counted_as[run["id"]] = {(owner["colony_id"], colony_strain.get(owner["colony_id"], ""))}
        else:
            counted_as[run["id"]] = {("", "")}
    held: dict[tuple[str, ...], list[int]] = defaultdict(list)
    parts: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in rows["measurement"]:
        for genotype, strain in counted_as.get(row["procedure_run_id"], ()):
            key = (row["centre"], row["pipeline"], genotype, strain, row["procedure_id"], row["parameter_id"])
            held[key].append(row["fingerprint"])
            parts[row["document_id"], key] += 1
    return {key: Worth(len(marks), f"{sum(marks):032x}") for key, marks in held.items()}, dict(parts)


def parts_of(connection: Connection) -> dict[tuple[Any, ...], int]:
    """How many measurements documents have in contexts, as the database has it."""
    part, context = TABLES["document_context"], TABLES["data_context"]
    statement = select(part, context).join(context, context.c.id == part.c.context_id)
    return {(row[0], tuple(row[4:10])): row[2] for row in connection.execute(statement)}


def assert_contexts_are_right(engine: Engine) -> None:
    """What is in the contexts is what a count from nothing yields."""
    expected, parts = in_reading(engine, contexts_from_nothing)
    assert in_reading(engine, contexts_of) == expected
    assert in_reading(engine, parts_of) == parts
