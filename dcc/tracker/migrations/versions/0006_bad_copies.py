"""Copies of archives that were bad, published checksums, and re-openings that fetched nothing.

Each part is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up
again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import columns_of, make_missing

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
BIG = sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
SIGNED_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def about_hosting(known: sa.MetaData, name: str, *more: sa.Column[Any]) -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return sa.Table(
        name,
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        sa.Column(
            "hosting_id",
            BIG,
            sa.ForeignKey("file_source_has_zip.id", ondelete="CASCADE", onupdate="CASCADE"),
            nullable=False,
        ),
        sa.Column("size_bytes", BIG, nullable=True),
        sa.Column("modified", SIGNED_BIG, nullable=True),
        sa.Column("md5", sa.CHAR(32), nullable=False),
        *more,
        sa.Column("created", DATE_TIME, nullable=False),
        sa.UniqueConstraint("hosting_id"),
        **options,
    )


def upgrade() -> None:
    connection = op.get_bind()
    for table, column, kind in (
        ("zip_download", "listed_size_bytes", BIG),
        ("zip_download", "listed_modified", SIGNED_BIG),
        ("reopening", "fell_back", DATE_TIME),
    ):
        if column not in columns_of(connection, table):
            op.add_column(table, sa.Column(column, kind, nullable=True))
    index = "ix_reopening_fell_back"
    if index not in {found["name"] for found in sa.inspect(connection).get_indexes("reopening")}:
        op.create_index(index, "reopening", ["fell_back"])
    known = sa.MetaData(naming_convention=NAMING)
    sa.Table("file_source_has_zip", known, sa.Column("id", BIG, primary_key=True))
    reason = sa.Column("reason", sa.String(16), nullable=False)
    make_missing(connection, [about_hosting(known, "bad_copy", reason), about_hosting(known, "published_checksum")])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
