"""The options by which `dcc source` commands say how a file source is listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., None])
_STRATEGIES = ("disabled", "initial", "additive", "full")


def delta_option(default: str | None = None) -> Callable[[_Command], _Command]:
    """The option `--delta`."""
    return click.option(
        "--delta",
        type=click.Choice(_STRATEGIES),
        default=default,
        show_default=default is not None,
        help="What is recorded of archives fetched before: disabled, nothing; initial, how they are listed; additive, "
        "what changed or went too; full: and the withdrawal of what went is proposed.",
    )
