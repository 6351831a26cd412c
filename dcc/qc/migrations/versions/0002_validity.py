"""What the rules say of an entity is a number that is never null, so that rows do not grow when they are judged.

The views say `is_valid` as before. Each part is made only where it is missing, so that an upgrade which broke off on
MySQL or MariaDB can be taken up again.
"""

from __future__ import annotations

from importlib import import_module

import sqlalchemy as sa
from alembic import op

from dcc.databases.migrations.operations import columns_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("specimen", "experiment", "line", "housing")
FIRST = import_module("dcc.qc.migrations.versions.0001_initial")
AS_BEFORE = "CASE {} WHEN 1 THEN 1 WHEN 2 THEN 0 END AS is_valid"
VALID = {
    FIRST.IS_VALID: AS_BEFORE.format("COALESCE(e.validity, l.validity, h.validity)"),
    "s.is_valid": AS_BEFORE.format("s.validity"),
    "e.is_valid": AS_BEFORE.format("e.validity"),
}
"""What views say of validity, by what they said."""


def views() -> dict[str, str]:
    """The views of the first revision that tell of validity, by their names."""
    made = {}
    for name, query in FIRST.VIEWS.items():
        changed = query.strip()
        for before, after in VALID.items():
            changed = changed.replace(before, after)
        if changed != query.strip():
            made[name] = changed
    return made


def upgrade() -> None:
    connection = op.get_bind()
    made = views()
    for name in made:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    for name in TABLES:
        present = columns_of(connection, name)
        if "validity" not in present:
            op.add_column(name, sa.Column("validity", FIRST.TYPES["small"], nullable=False, server_default="0"))
        if "is_valid" in present:
            table = sa.table(name, sa.column("validity"), sa.column("is_valid"))
            judged = sa.case((table.c.is_valid == 1, 1), else_=2)
            connection.execute(sa.update(table).where(table.c.is_valid.is_not(None)).values(validity=judged))
            op.drop_column(name, "is_valid")
    for name, query in made.items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")


def downgrade() -> None:
    raise NotImplementedError("Restore the QC database from the backup made before the upgrade.")
