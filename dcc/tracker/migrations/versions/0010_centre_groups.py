"""Sessions of groups of centres, which run at once: of which group each was, and of which centres.

Sessions before were of all centres. A column is added only where it is missing, so that an upgrade which broke off on
MySQL or MariaDB can be taken up again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dcc.databases.migrations.operations import columns_of

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    known = columns_of(op.get_bind(), "crawling_session")
    for name, kind in (("centre_group", sa.String(32)), ("centres", sa.Text())):
        if name not in known:
            op.add_column("crawling_session", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    raise NotImplementedError("Restore the tracker from the backup made before the upgrade.")
