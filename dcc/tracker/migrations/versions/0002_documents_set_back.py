"""Documents set back to an earlier phase, and entries of their logs that hold no more.

Each part is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up
again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import columns_of, make_missing

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
SMALL = sa.SmallInteger().with_variant(mysql.SMALLINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
BIG = sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
# MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
STATES = (
    ("from_phase_id", "phase.id"),
    ("from_status_id", "a_status.id"),
    ("to_phase_id", "phase.id"),
    ("to_status_id", "a_status.id"),
)


def ref(name: str, kind: Any, target: str, ondelete: str) -> sa.Column[Any]:
    return sa.Column(name, kind, sa.ForeignKey(target, ondelete=ondelete, onupdate="CASCADE"), nullable=False)


def document_reopening(known: sa.MetaData) -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return sa.Table(
        "document_reopening",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        ref("xml_id", BIG, "xml_file.id", "CASCADE"),
        sa.Column("requested_by", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(256), nullable=False),
        *(ref(name, SMALL, target, "RESTRICT") for name, target in STATES),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.Index(None, "xml_id"),
        *(sa.Index(None, name) for name, _ in STATES),
        **options,
    )


def upgrade() -> None:
    connection = op.get_bind()
    if "cleared" not in columns_of(connection, "xml_log"):
        op.add_column("xml_log", sa.Column("cleared", DATE_TIME, nullable=True))
    known = sa.MetaData(naming_convention=NAMING)
    for name, kind in (("xml_file", BIG), ("phase", SMALL), ("a_status", SMALL)):
        sa.Table(name, known, sa.Column("id", kind, primary_key=True))
    make_missing(connection, [document_reopening(known)])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
