"""Numbers that are given to commands: ids and limits, none larger than the databases hold."""

from __future__ import annotations

from typing import Any

import click

MOST = 2**63 - 1
"""The largest number that the databases hold."""


class _Id(click.ParamType[int]):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, which may be one that nothing has. Fails for a text that is none, and for too large a number."""
        return _held(self, click.INT.convert(value, param, ctx), param, ctx)


class _Count(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Fails for a text that is none, and for a number that is out of range or too large."""
        return _held(self, super().convert(value, param, ctx), param, ctx)


def _held(kind: click.ParamType[int], number: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
    if abs(number) > MOST:
        kind.fail(f"{number} is larger than any number here: at most {MOST}.", param, ctx)
    return number


ID = _Id()
"""The type of an id."""

COUNT = _Count(min=1)
"""The type of how many are to be shown or kept."""
