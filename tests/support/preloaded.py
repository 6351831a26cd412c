"""What most commands of `dcc` import, and what the tests run, loaded for processes that are forked from this one.

The garbage collector leaves it alone: it would go through all of it several times while it is loaded, and again in each
process, to which the memory would have to be copied.
"""

import gc
from importlib import import_module
from typing import Final

_MODULES: Final = (
    "alembic.command",
    "pymysql",
    "dcc_dagster.event_storage",
    "dcc_dagster.instance",
    "dcc_assets.session_in_dagster",
    "dcc.cli.sessions.crawl",
    "dcc.cli.main",
    "dcc.cli.sessions.session_output",
    "dcc.session.data.document_phases",
    "dcc.sources.connect",
    "dcc.session.archives.archive_phases",
    "tests.support.dying_copies",
    "tests.support.dying_data_session",
    "tests.support.dying_session",
)

gc.disable()
for _name in _MODULES:
    import_module(_name)
gc.freeze()
gc.enable()
