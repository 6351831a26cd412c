"""The commands' interface to Dagster: the functions of `dcc_assets.commands`, each imported when it is asked for.

`dcc` never imports Dagster, so that it works without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

LOCATION_NAME: Final = "dcc"
"""The code location's name in workspace.yaml."""

WEB_SERVER: Final = "dcc_assets.pages"
"""The program that serves Dagster's pages and the reports."""

DAEMON: Final = "dcc_dagster.daemon"
"""The module that runs Dagster's daemon."""

_MODULE: Final = "dcc_assets.commands"

if TYPE_CHECKING:
    from dcc_assets.commands import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """A function of `dcc_assets.commands`."""
        if name.startswith("_"):
            raise AttributeError(f"{__name__} has no {name}.")
        return getattr(importlib.import_module(_MODULE), name)
