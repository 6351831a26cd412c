"""The lookup tables as rows of the QC database, and back, exactly."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Table, select

from dcc.qc.models import KnownColony, KnownProject, KnownStatusCode, KnownStrain
from dcc.qc.rows.bulk import Row
from dcc.reference.snapshots import Colonies, Colony, Projects, Provenance, StatusCodes, Strains

STATUS_CODE: Final = KnownStatusCode.__table__
PROJECT: Final = KnownProject.__table__
COLONY: Final = KnownColony.__table__
STRAIN: Final = KnownStrain.__table__


def status_code_rows(snapshot_id: int, codes: StatusCodes) -> dict[Table, list[Row]]:
    """The rows of a snapshot, with all the columns in their order; so the others."""
    return {STATUS_CODE: [(snapshot_id, code, meaning) for code, meaning in codes.meanings.items()]}


def load_status_codes(connection: Connection, snapshot_id: int, provenance: Provenance) -> StatusCodes:
    """The snapshot whose rows were written under an id; so the others."""
    query = select(STATUS_CODE.c.code, STATUS_CODE.c.description).where(STATUS_CODE.c.snapshot_id == snapshot_id)
    return StatusCodes(provenance, {row.code: row.description for row in connection.execute(query)})


def project_rows(snapshot_id: int, projects: Projects) -> dict[Table, list[Row]]:
    """See `status_code_rows`."""
    return {PROJECT: [(snapshot_id, name) for name in sorted(projects.names)]}


def load_projects(connection: Connection, snapshot_id: int, provenance: Provenance) -> Projects:
    """See `load_status_codes`."""
    query = select(PROJECT.c.name).where(PROJECT.c.snapshot_id == snapshot_id)
    return Projects(provenance, frozenset(connection.scalars(query)))


def colony_rows(snapshot_id: int, colonies: Colonies) -> dict[Table, list[Row]]:
    """See `status_code_rows`."""
    rows: list[Row] = [
        (
            snapshot_id,
            colony_id,
            place,
            colony.production_centre,
            colony.status,
            None if colony.created is None else colony.created.isoformat(),
            colony.strain_id,
            colony.gene_id,
            colony.gene_symbol,
            colony.allele_id,
            colony.allele_symbol,
        )
        for colony_id, productions in colonies.productions.items()
        for place, colony in enumerate(productions, start=1)
    ]
    return {COLONY: rows}


def load_colonies(connection: Connection, snapshot_id: int, provenance: Provenance) -> Colonies:
    """See `load_status_codes`."""
    productions: dict[str, list[Colony]] = {}
    columns = [column for column in COLONY.c if column.name not in ("snapshot_id", "position")]
    query = select(*columns).where(COLONY.c.snapshot_id == snapshot_id).order_by(COLONY.c.colony_id, COLONY.c.position)
    for row in connection.execute(query):
        productions.setdefault(row.colony_id, []).append(Colony(**row._mapping))
    return Colonies(provenance, {colony_id: tuple(found) for colony_id, found in productions.items()})


def strain_rows(snapshot_id: int, strains: Strains) -> dict[Table, list[Row]]:
    """See `status_code_rows`."""
    return {STRAIN: [(snapshot_id, strain_id, name) for strain_id, name in strains.names.items()]}


def load_strains(connection: Connection, snapshot_id: int, provenance: Provenance) -> Strains:
    """See `load_status_codes`."""
    query = select(STRAIN.c.strain_id, STRAIN.c.name).where(STRAIN.c.snapshot_id == snapshot_id)
    return Strains(provenance, {row.strain_id: row.name for row in connection.execute(query)})
