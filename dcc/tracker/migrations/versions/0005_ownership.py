"""Delegations between centres, and what owners of data are told of others' archives.

Each part is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up
again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import make_missing

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
SMALL = sa.SmallInteger().with_variant(mysql.SMALLINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
BIG = sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
# MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def options() -> dict[str, Any]:
    made: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        made |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return made


def ref(name: str, kind: Any, target: str) -> sa.Column[Any]:
    return sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE", onupdate="CASCADE"), nullable=False)


def delegation(known: sa.MetaData) -> sa.Table:
    return sa.Table(
        "delegation",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        ref("owner_id", SMALL, "centre.id"),
        ref("delegate_id", SMALL, "centre.id"),
        sa.Column("recorded_by", sa.String(64), nullable=False),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.Column("until", sa.Date(), nullable=True),
        sa.Column("revoked", DATE_TIME, nullable=True),
        sa.Column("revoked_by", sa.String(64), nullable=True),
        sa.Index(None, "owner_id", "delegate_id"),
        sa.Index(None, "delegate_id"),
        **options(),
    )


def owner_notice(known: sa.MetaData) -> sa.Table:
    return sa.Table(
        "owner_notice",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        ref("owner_id", SMALL, "centre.id"),
        ref("za_id", BIG, "zip_action.id"),
        sa.Column("xml_id", BIG, nullable=True),
        sa.Column("file_name", sa.String(128), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("counts", sa.String(255), nullable=False),
        sa.Column("done_by", sa.String(64), nullable=True),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.Index(None, "owner_id"),
        sa.Index(None, "za_id"),
        sa.Index(None, "created"),
        **options(),
    )


def upgrade() -> None:
    connection = op.get_bind()
    known = sa.MetaData(naming_convention=NAMING)
    for name, kind in (("zip_action", BIG), ("centre", SMALL)):
        sa.Table(name, known, sa.Column("id", kind, primary_key=True))
    make_missing(connection, [delegation(known), owner_notice(known)])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
