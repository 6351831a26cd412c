"""The options of `dcc source` commands for the listing of a source, and when it is listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from dcc.sources.base import Extent

_Command = TypeVar("_Command", bound=Callable[..., None])
_STRATEGIES = ("disabled", "initial", "additive", "full")


def listing_options(command: _Command) -> _Command:
    """The options `--depth`, `--include` and `--exclude`, the latter two repeatable."""
    for option in (
        click.option("--exclude", metavar="PATTERN", multiple=True, help="Leave out archives and folders; repeatable."),
        click.option("--include", metavar="PATTERN", multiple=True, help="List only archives like 2024/*; repeatable."),
        click.option("--depth", type=click.IntRange(0, 16), help="Levels of folders to list below add, edit, delete."),
    ):
        command = option(command)
    return command


def pace_options(command: _Command) -> _Command:
    """The options `--every`, `--schedule` and `--window`."""
    for option in (
        click.option("--window", metavar="TIMES", help="When it may be used, such as '20:00-06:00 Europe/London'."),
        click.option("--schedule", metavar="TIMES", help="List it at these times, such as 'Mon 06:00 Europe/London'."),
        click.option("--every", metavar="AGE", help="List it once so often, such as 6h or 7d; else in every session."),
    ):
        command = option(command)
    return command


def listing_extent(
    depth: int | None, include: tuple[str, ...], exclude: tuple[str, ...], present: Extent | None = None
) -> Extent:
    """The extent of the options; missing options leave the present value, and empty text removes it."""
    from dcc.sources.base import PLAIN, Extent

    before = PLAIN if present is None else present
    return Extent(
        before.depth if depth is None else depth,
        tuple(filter(None, include)) if include else before.include,
        tuple(filter(None, exclude)) if exclude else before.exclude,
    )


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
