"""The commands' interface to Dagster: this module has the functions of `dcc_assets.commands`.

`dcc` never imports Dagster, so that it works without. That module is imported when a command first calls one of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dcc_assets.commands import *  # noqa: F403

LOCATION_NAME: Final = "dcc"
"""The code location's name in workspace.yaml."""

WEB_SERVER: Final = "dcc_assets.pages"
"""The program that serves Dagster's pages and the reports."""

DAEMON: Final = "dcc_dagster.daemon"
"""The module that runs Dagster's daemon."""

_MODULE: Final = "dcc_assets.commands"


def __getattr__(name: str) -> object:
    """A function for commands, imported now."""
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(importlib.import_module(_MODULE), name)
