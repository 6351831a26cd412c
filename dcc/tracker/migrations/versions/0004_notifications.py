"""The language that a centre is written to in, and what it and others were notified of.

Each part is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up
again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import columns_of, make_missing

revision = "0004"
down_revision = "0003"
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


def ref(name: str, kind: Any, target: str) -> sa.Column[Any]:
    return sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE", onupdate="CASCADE"), nullable=True)


def notification(known: sa.MetaData) -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": True}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return sa.Table(
        "notification",
        known,
        sa.Column("id", BIG, primary_key=True, autoincrement=True),
        sa.Column("told", sa.CHAR(64), nullable=False),
        sa.Column("message_id", sa.CHAR(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("recipient", sa.String(256), nullable=False),
        ref("session_id", BIG, "crawling_session.id"),
        ref("centre_id", SMALL, "centre.id"),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", SMALL, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("changed", DATE_TIME, nullable=False),
        sa.Column("ended", DATE_TIME, nullable=True),
        sa.Column("created", DATE_TIME, nullable=False),
        sa.UniqueConstraint("told"),
        sa.Index(None, "message_id"),
        sa.Index(None, "subject"),
        sa.Index(None, "kind", "ended"),
        sa.Index(None, "state"),
        sa.Index(None, "session_id"),
        sa.Index(None, "centre_id"),
        **options,
    )


def upgrade() -> None:
    connection = op.get_bind()
    if "language" not in columns_of(connection, "centre"):
        op.add_column("centre", sa.Column("language", sa.String(35), nullable=True))
    known = sa.MetaData(naming_convention=NAMING)
    for name, kind in (("crawling_session", BIG), ("centre", SMALL)):
        sa.Table(name, known, sa.Column("id", kind, primary_key=True))
    make_missing(connection, [notification(known)])


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
