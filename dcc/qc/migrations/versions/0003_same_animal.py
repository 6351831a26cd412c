"""The view of measurements tells an animal from one whose name has blanks behind it, on MySQL and MariaDB too.

These ignore trailing blanks where they compare texts: the measurements of either animal came up once for each. SQLite,
which compares all of a text, keeps its view: a query of all measurements would take a tenth longer.
"""

from __future__ import annotations

from importlib import import_module

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SECOND = import_module("dcc.qc.migrations.versions.0002_validity")
VIEW = "current_measurement"
BEFORE = "s.specimen_id = m.specimen_id"
QUERY = SECOND.views()[VIEW].replace(BEFORE, f"{BEFORE} AND LENGTH(s.specimen_id) = LENGTH(m.specimen_id)")


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        return
    connection.exec_driver_sql(f"DROP VIEW IF EXISTS {VIEW}")
    connection.exec_driver_sql(f"CREATE VIEW {VIEW} AS {QUERY}")


def downgrade() -> None:
    raise NotImplementedError("Restore the QC database from the backup made before the upgrade.")
