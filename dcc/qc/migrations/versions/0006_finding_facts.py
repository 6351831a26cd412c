"""Findings are facts: a code, details by name, and the number of the cause that they share.

Of findings that are recorded, details are filled in where the rows beside them have all of them; the others keep their
words. An upgrade that broke off on MySQL or MariaDB can be taken up again.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, sqlite

from dcc.databases.migrations.operations import columns_of

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

BIG = (
    sa.BigInteger()
    .with_variant(mysql.BIGINT(unsigned=True), "mysql", "mariadb")
    .with_variant(sqlite.INTEGER(), "sqlite")
)
PAGE = 5_000
BEFORE = "ix_finding_document_id_is_active"
OF_CAUSE = ("document_id", "is_active", "code", "cause", "severity", "entity_kind", "entity_id")
"""What causes are counted by: an index that has all of it."""

ALONE = ("P4", "X11", "X13")
"""Rules whose messages need nothing but the value."""
OF_SPECIMENS = ("S1", "S2", "S3", "S4", "S7", "S9", "S10", "S12", "X3", "X6", "X7", "X14")
"""Rules whose messages name the specimen too."""
OF_EXPERIMENTS = ("E5",)
BY_RULE = ("S1", "S3", "S7", "X13", "X14", "E5")
"""Rules whose findings have one cause, whatever their values."""


def cause(*parts: str) -> int:
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def facts(row: Any) -> dict[str, Any]:
    details: dict[str, str] | None = None
    if row.rule in ALONE:
        details = {}
    elif row.rule in OF_SPECIMENS and row.specimen is not None:
        details = {"specimen": row.specimen}
    elif row.rule in OF_EXPERIMENTS and row.experiment is not None:
        details = {"experiment": row.experiment}
    parts = (row.rule,) if row.rule in BY_RULE else (row.rule, row.value or "")
    kept = None if details is None else json.dumps(details, ensure_ascii=False, separators=(",", ":"))
    return {"row": row.id, "code": row.rule, "details": kept, "cause": cause(*parts)}


def upgrade() -> None:
    connection = op.get_bind()
    known = columns_of(connection, "finding")
    columns = (
        sa.Column("code", sa.String(64), nullable=False, server_default=""),
        sa.Column("details", sa.Text(), nullable=True),
        sa.Column("cause", BIG, nullable=False, server_default="0"),
    )
    for column in columns:
        if column.name not in known:
            op.add_column("finding", column)
    fill(connection)
    indexes = {index["name"] for index in sa.inspect(connection).get_indexes("finding")}
    # The new one first: a foreign key of MySQL's is not without an index for a moment.
    if "ix_finding_cause" not in indexes:
        op.create_index("ix_finding_cause", "finding", list(OF_CAUSE))
    if BEFORE in indexes:
        op.drop_index(BEFORE, "finding")


def fill(connection: sa.Connection) -> None:
    names = ("id", "rule", "value", "entity_kind", "entity_id", "code", "details", "cause")
    finding = sa.table("finding", *(sa.column(name) for name in names))
    specimen = sa.table("specimen", sa.column("id"), sa.column("specimen_id"))
    experiment = sa.table("experiment", sa.column("id"), sa.column("experiment_id"))
    query = (
        sa.select(
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
        .limit(PAGE)
    )
    change = (
        sa.update(finding)
        .where(finding.c.id == sa.bindparam("row"))
        .values(code=sa.bindparam("code"), details=sa.bindparam("details"), cause=sa.bindparam("cause"))
    )
    last = 0
    while rows := connection.execute(query.where(finding.c.id > last)).all():
        connection.execute(change, [facts(row) for row in rows])
        last = rows[-1].id


def downgrade() -> None:
    raise NotImplementedError("Restore the QC database from the backup made before the upgrade.")
