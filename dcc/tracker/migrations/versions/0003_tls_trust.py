"""The TLS certificates that are trusted for a file source, beside or in place of the system's authorities."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import make_missing

revision = "0003"
down_revision = "0002"
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


def tls_certificate(known: sa.MetaData) -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return sa.Table(
        "tls_certificate",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        sa.Column(
            "file_source_id",
            SMALL,
            sa.ForeignKey("file_source.id", ondelete="CASCADE", onupdate="CASCADE"),
            nullable=False,
        ),
        sa.Column("fingerprint", sa.String(128), nullable=False),
        sa.Column("authority_pem", sa.Text(), nullable=True),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.Index(None, "file_source_id"),
        **options,
    )


def upgrade() -> None:
    known = sa.MetaData(naming_convention=NAMING)
    sa.Table("file_source", known, sa.Column("id", SMALL, primary_key=True))
    make_missing(op.get_bind(), [tls_certificate(known)])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
