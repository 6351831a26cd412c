"""An experiment on an animal that is not valid is not valid either: its validity is 3, which the views show as false.

The next session counts anew what the documents concern whose animals are not valid.
"""

from __future__ import annotations

from importlib import import_module

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SECOND = import_module("dcc.qc.migrations.versions.0002_validity")
THIRD = import_module("dcc.qc.migrations.versions.0003_same_animal")
BEFORE, AFTER = "WHEN 2 THEN 0 END", "WHEN 2 THEN 0 WHEN 3 THEN 0 END"
MEASUREMENTS = "current_measurement"


def views(dialect: str) -> dict[str, str]:
    """The views that tell of the validity of experiments, by their names."""
    made = {name: query.replace(BEFORE, AFTER) for name, query in SECOND.views().items()}
    if dialect != "sqlite":
        made[MEASUREMENTS] = THIRD.QUERY.replace(BEFORE, AFTER)
    return {name: made[name] for name in ("current_experiment", MEASUREMENTS)}


def upgrade() -> None:
    connection = op.get_bind()
    for name, query in views(connection.dialect.name).items():
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")
    document = sa.table("document", sa.column("id"), sa.column("contexts_built"))
    specimen = sa.table("specimen", sa.column("document_id"), sa.column("is_current"), sa.column("validity"))
    concerned = sa.select(specimen.c.document_id).where(specimen.c.is_current == 1, specimen.c.validity == 2)
    connection.execute(sa.update(document).where(document.c.id.in_(concerned)).values(contexts_built=0))


def downgrade() -> None:
    raise NotImplementedError("Restore the QC database from the backup made before the upgrade.")
