"""Archives on another centre's source that were turned down, and why, for their owners to read.

Each part is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up
again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import columns_of, make_missing

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
BIG = sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
# MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def archive_decline(known: sa.MetaData) -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return sa.Table(
        "archive_decline",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        sa.Column("za_id", BIG, sa.ForeignKey("zip_action.id", ondelete="CASCADE", onupdate="CASCADE"), nullable=False),
        sa.Column("declined_by", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(255), nullable=False),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.Column("revoked", DATE_TIME, nullable=True),
        sa.Column("revoked_by", sa.String(64), nullable=True),
        sa.Index(None, "za_id"),
        **options,
    )


def upgrade() -> None:
    connection = op.get_bind()
    if "reason" not in columns_of(connection, "owner_notice"):
        op.add_column("owner_notice", sa.Column("reason", sa.String(255), nullable=True))
    known = sa.MetaData(naming_convention=NAMING)
    sa.Table("zip_action", known, sa.Column("id", BIG, primary_key=True))
    make_missing(connection, [archive_decline(known)])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
