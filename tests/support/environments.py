"""Environments without the settings that this process was started with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

import pytest

from dcc.settings import Settings

AT_ONCE: Final = {"DCC_MIN_FREE_BYTES": "0", "DCC_RETRY_DELAY": "0.05", "DCC_QUIET_SECONDS": "0"}
"""The settings that have a process work at once, on archives that have just been written."""


def clean(**variables: str) -> dict[str, str]:
    """This process's environment without settings of the platform and of Dagster, and with these variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DCC_", "DAGSTER_"))} | variables


def of_installation(settings: Settings) -> dict[str, str]:
    """The settings that have a process work on an installation at once."""
    return {
        "DCC_HOME": str(settings.home),
        "DCC_TRACKER_URL": settings.tracker_database_url,
        "DCC_QC_URL": settings.qc_database_url,
        **AT_ONCE,
    }


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's environment hold no settings."""
    for name in set(os.environ) - set(clean()):
        monkeypatch.delenv(name)


@contextmanager
def only(settings: Mapping[str, str]) -> Iterator[None]:
    """This process's environment holds these settings alone; it is as before after the block."""
    with patch.dict(os.environ, clean(**settings), clear=True):
        yield
