"""The helper processes that a test's code starts, noted as they are started."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from dcc.runtime.helper_process import Helper


def note_helpers(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[Helper]:
    """A list to which every process is added that `module` starts from here on."""
    helpers: list[Helper] = []

    def start(name: str, *more: Any) -> Helper:
        helpers.append(Helper(name, *more))
        return helpers[-1]

    monkeypatch.setattr(module, "Helper", start)
    return helpers
