"""What is wrong is kept as facts beside its English words: a code, and details by name.

What was recorded before keeps its words; of documents, what warned or could not be checked is told by its severity.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dcc.databases.migrations.operations import columns_of

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

WITH_CODE = ("xml_log", "zip_log", "zip_action_log", "source_crawl")
MARKS = {"Warning: ": "warning", "Not checked: ": "unchecked"}


def upgrade() -> None:
    connection = op.get_bind()
    for table in (*WITH_CODE, "crawl_finding"):
        known = columns_of(connection, table)
        if "code" not in known and table in WITH_CODE:
            op.add_column(table, sa.Column("code", sa.String(64), nullable=True))
        if "details" not in known:
            op.add_column(table, sa.Column("details", sa.Text(), nullable=True))
    if "severity" not in columns_of(connection, "xml_log"):
        op.add_column("xml_log", sa.Column("severity", sa.String(16), nullable=True))
    log = sa.table("xml_log", sa.column("message"), sa.column("severity"))
    for mark, severity in MARKS.items():
        connection.execute(sa.update(log).where(log.c.message.like(f"{mark}%")).values(severity=severity))


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
