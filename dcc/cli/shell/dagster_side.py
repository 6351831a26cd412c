"""The commands' way to Dagster: what `dcc_assets.commands` has is here too.

`dcc` never imports Dagster, so that it works without. That module is imported when a command asks for something of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dcc_assets.commands import *

LOCATION_NAME: Final = "dcc"
"""The code location's name in workspace.yaml."""

WEB_SERVER: Final = "dcc_assets.pages"
"""The program that serves Dagster's pages and the reports."""

DAEMON: Final = "dcc_dagster.daemon"
"""The module that runs Dagster's daemon."""

_MODULE: Final = "dcc_assets.commands"


def __getattr__(name: str) -> object:
    """What the module of commands has under a name."""
    return getattr(importlib.import_module(_MODULE), name)
