"""What servers had of reference data and was refused is remembered, and no token of their addresses is any more.

What an address asks with goes; pages that were fetched with it are asked for once more. The table is made only where
it is missing, so that an upgrade which broke off on MySQL or MariaDB can be taken up again.
"""

from __future__ import annotations

from hashlib import sha256
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
NAMING = {"pk": "pk_%(table_name)s"}


def refusals() -> sa.Table:
    options: dict[str, Any] = {"sqlite_autoincrement": False}
    for family in FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    # MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
    time = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)
    return sa.Table(
        "reference_refusal",
        sa.MetaData(naming_convention=NAMING),
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("source", sa.String(1_024), nullable=False),
        sa.Column("refused", time, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        **options,
    )


def shown(source: str) -> str:
    """A web address without what it asks with, for which its fingerprint stands."""
    place, _, query = source.partition("?")
    return source if query.startswith("***#") else f"{place}?***#{sha256(query.encode()).hexdigest()[:8]}"


def upgrade() -> None:
    connection = op.get_bind()
    make_missing(connection, [refusals()])
    snapshot = sa.table("reference_snapshot", sa.column("id"), sa.column("source"))
    page = sa.table("fetched_page", sa.column("address"))
    asking = sa.select(snapshot.c.id, snapshot.c.source).where(snapshot.c.source.like("http%://%?%"))
    for row in connection.execute(asking).all():
        changed = sa.update(snapshot).where(snapshot.c.id == row.id).values(source=shown(row.source))
        connection.execute(changed)
    connection.execute(sa.delete(page).where(page.c.address.like("%?%")))


def downgrade() -> None:
    raise NotImplementedError("Restore the QC database from the backup made before the upgrade.")
