"""The tracker database's tables: seventeen of the `phenodcc_tracker` schema, and those that this platform adds to it.

Columns and tables marked "additive" are this platform's own. All dates and times are naive and in UTC, to the second.

On MySQL and MariaDB the types are those of the schema, every table is InnoDB, and `utf8mb4_bin` makes names
case-sensitive. On SQLite all integers are INTEGER, ids are never given twice, and triggers (made by `dcc init`)
keep `last_update`.
"""

from __future__ import annotations

from dcc.databases.columns import MESSAGE_BYTES, MYSQL_FAMILY
from dcc.tracker.models.additions import *
from dcc.tracker.models.phenodcc import *
