"""Which archives of a file source are still being uploaded, and which a listing misses that is not believed yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import columns_of

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), "mysql", "mariadb")


def upgrade() -> None:
    known = columns_of(op.get_bind(), "file_source_has_zip")
    for name in ("missed_since", "uploading_since"):
        if name not in known:
            op.add_column("file_source_has_zip", sa.Column(name, DATE_TIME, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
