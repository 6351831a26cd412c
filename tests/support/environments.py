"""Environments without the settings that this process was started with."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import pytest


def clean(**variables: str) -> dict[str, str]:
    """This process's environment without settings of the platform and of Dagster, and with these variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DCC_", "DAGSTER_"))} | variables


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process's environment hold no settings."""
    for name in set(os.environ) - set(clean()):
        monkeypatch.delenv(name)


@contextmanager
def only(settings: Mapping[str, str]) -> Iterator[None]:
    """This process's environment holds these settings alone; it is as before after the block."""
    with patch.dict(os.environ, clean(**settings), clear=True):
        yield
