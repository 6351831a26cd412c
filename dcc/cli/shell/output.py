"""How `dcc` prints: JSON for programs, plain columns for people.

Times are UTC: `2026-11-21T07:28:31Z` in JSON, `2026-11-21 07:28` in tables. Text from outside (names on a server, a
server's answer) is printed with its control characters escaped, so that it cannot control a terminal; in JSON too.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from itertools import zip_longest
from types import NoneType
from typing import TYPE_CHECKING, Any

import click

from dcc.messages import byte_size
from dcc.runtime.json_values import json_ready, json_text
from dcc.runtime.legible_text import cell_width, legible, wrapped
from dcc.runtime.logging_setup import log_plan

if TYPE_CHECKING:
    from rich.progress import Progress

    from dcc.tracker.queries.waiting_work import ExpectedWork


COLOURS = {
    "failed": "red",
    "invalid": "red",
    "partial": "yellow",
    "pending": "yellow",
    "running": "blue",
    "done": "green",
    "ok": "green",
    "valid": "green",
    "succeeded": "green",
    "finished": "green",
    "faults": "red",
    "disk": "red",
    "died": "red",
}
"""The colours of statuses and outcomes, for `click.style`."""
_JSON = "dcc.json"
_GAP = "  "
_NARROW = 20
"""The least characters in a line of a column that is wrapped."""
_MAX_LINES = 4
"""The lines to which a text is wrapped in a column; a longer one stands below its row."""


def printable(value: object) -> str:
    """The text of a value on one line, with invisible characters as `\\xNN`; None is the empty text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    named = dataclasses.is_dataclass(value)
    text = " ".join(str(value if named else json_ready(value)).splitlines())
    return legible(text)


def note_json(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Note whether a command was given --json, for `wants_json`."""
    ctx.meta[_JSON] = is_wanted


def wants_json() -> bool:
    """Whether the running command was given --json: it prints its result as JSON."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_JSON))


def echo_json(value: object) -> None:
    """Print a value as indented JSON on standard output."""
    click.echo(json_text(value))


def echo_json_list(values: Iterable[object]) -> None:
    """Print values as they come, as one list of indented JSON on standard output."""
    before = "["
    for value in values:
        click.echo(f"{before}\n  " + json_text(value).replace("\n", "\n  "), nl=False)
        before = ","
    click.echo("[]" if before == "[" else "\n]")


def echo_result(value: object, *lines: str) -> None:
    """Print the result of a command: as JSON, or in lines for people."""
    if wants_json():
        echo_json(value)
        return
    for line in lines:
        click.echo(line)


def echo_list(
    entries: Sequence[Any],
    columns: str | Sequence[tuple[str, str]],
    *,
    as_object: Callable[[Any], object] | None = None,
    indent: str = "",
    flexible: Sequence[str] = (),
    none: str = "",
    **cells: Callable[[Any], object],
) -> None:
    """Print a list: its entries as JSON, or as a table, or what to say of `none`.

    `columns` are headers, each with the key or attribute whose values it shows if that has another name, such as
    `code=short_name, revoked by`; or pairs of both. `cells` makes what is neither; True and False are yes and no. JSON
    has `as_object` of each entry. `flexible`: see `echo_table`.
    """
    if wants_json():
        echo_json([as_object(entry) for entry in entries] if as_object else entries)
        return
    if isinstance(columns, str):
        named = [column.partition("=")[::2] for column in columns.split(", ")]
        columns = [(header, name or header.replace(" ", "_")) for header, name in named]
    rows = [[_cell(entry, name, cells) for _, name in columns] for entry in entries]
    echo_table([header for header, _ in columns], rows, indent=indent, flexible=flexible)
    if not rows and none:
        click.echo(none)


def _cell(entry: Any, name: str, cells: Mapping[str, Callable[[Any], object]]) -> object:
    if name in cells:
        return cells[name](entry)
    value = entry[name] if isinstance(entry, Mapping) else getattr(entry, name)
    return ("yes" if value else "no") if isinstance(value, bool) else value


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo_wrapped(text: str, indent: str = "    ", *, elsewhere: int | None = None) -> None:
    """Print a text, on a terminal broken between words and further lines indented.

    Where standard output is no terminal, lines have at most `elsewhere` characters, or the text is one line.
    """
    width = terminal_width() or elsewhere
    click.echo(text if width is None else "\n".join(wrapped(text, width, indent)))


@dataclasses.dataclass(frozen=True)
class _Column:
    """A column of a table. A flexible one may be wrapped or stand below its row."""

    header: str
    cells: Sequence[str]
    is_numeric: bool
    is_flexible: bool

    @cached_property
    def width(self) -> int:
        """The cells of a terminal that it takes if nothing is wrapped."""
        return max(map(cell_width, (self.header, *self.cells)))

    @cached_property
    def least(self) -> int:
        """Its least width in the table: its header and words stay on one line, and its texts legible."""
        if not self.is_flexible:
            return self.width
        words = (cell_width(word) for text in self.cells for word in text.split(" "))
        return max(cell_width(self.header), *words, min(_NARROW, self.width))


def echo_table(
    headers: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "", flexible: Sequence[str] = ()
) -> None:
    """Print rows in columns under their headers, numbers to the right; nothing without rows.

    On a terminal that is too narrow, columns whose headers are in `flexible` are wrapped between words, to a few lines
    at most. If that is not enough, they stand below their row, the first ones first; if that is not enough either,
    each field has a line of its own. All others stay on one line, so that names can be copied.
    """
    if not rows:
        return
    columns = [
        _Column(
            header,
            [printable(row[i]) for row in rows],
            all(type(row[i]) in (int, float, NoneType) for row in rows),
            header in flexible,
        )
        for i, header in enumerate(headers)
    ]
    width = terminal_width()
    if width is None:
        _echo_columns(columns, [column.width for column in columns], [], indent, 0)
        return
    for number in range(len(flexible) + 1):
        inline = [column for column in columns if column.header not in flexible[:number]]
        widths = _fitting_widths(inline, width - len(indent))
        if widths is not None:
            below = [column for column in columns if column.header in flexible[:number]]
            _echo_columns(inline, widths, below, indent, width)
            return
    _echo_fields(columns, indent, width)


def echo_rows(rows: Sequence[Mapping[str, object]], flexible: Sequence[str] = ()) -> None:
    """Print rows whose keys are the headers of their columns; see `echo_table`."""
    if rows:
        echo_table(list(rows[0]), [[_cell(row, name, {}) for name in row] for row in rows], flexible=flexible)


def _fitting_widths(columns: Sequence[_Column], room: int) -> list[int] | None:
    """Widths of columns that fit into the room, all wide ones with the same limit; None where there are none."""
    for limit in range(room, 0, -1):
        widths = [max(column.least, min(column.width, limit)) for column in columns]
        if sum(widths) + len(_GAP) * (len(widths) - 1) <= room:
            break
    else:
        return None
    are_low = all(
        len(wrapped(cell, width)) <= _MAX_LINES
        for column, width in zip(columns, widths, strict=True)
        if column.is_flexible
        for cell in column.cells
    )
    return widths if are_low else None


def _echo_columns(
    columns: Sequence[_Column], widths: Sequence[int], below: Sequence[_Column], indent: str, width: int
) -> None:
    """Print columns side by side, and after each row what stands below it, on a terminal of this width."""
    numeric = [column.is_numeric for column in columns]
    click.echo(indent + click.style(_line([column.header for column in columns], widths, numeric), bold=True))
    for row in range(len(columns[0].cells)):
        chosen = [column.cells[row] for column in columns]
        colours = [COLOURS.get(cell) for cell in chosen]
        broken = [wrapped(cell, width) for cell, width in zip(chosen, widths, strict=True)]
        for line in zip_longest(*broken, fillvalue=""):
            click.echo(indent + _line(line, widths, numeric, colours))
        further = "; ".join(f"{column.header}: {column.cells[row]}" for column in below if column.cells[row])
        if further:
            click.echo("\n".join(wrapped(f"{indent}  {further}", width, f"{indent}    ")))


def _echo_fields(columns: Sequence[_Column], indent: str, width: int) -> None:
    """Print each field that is not empty on a line of its own, with an empty line between rows."""
    widest = max(cell_width(column.header) for column in columns)
    for row in range(len(columns[0].cells)):
        if row:
            click.echo()
        for column in columns:
            cell = column.cells[row]
            if cell:
                label = click.style(column.header, bold=True) + " " * (widest - cell_width(column.header))
                value = click.style(cell, fg=COLOURS.get(cell))
                text = f"{indent}{label}{_GAP}{value}"
                lines = wrapped(text, width, f"{indent}    ", break_words=column.is_flexible)
                click.echo("\n".join(lines))


def _line(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], colours: Sequence[str | None] = ()
) -> str:
    parts = []
    for cell, width, number, colour in zip_longest(cells, widths, numeric, colours):
        blanks = " " * (width - cell_width(cell))
        shown = click.style(cell, fg=colour) if colour and cell else cell
        parts.append(blanks + shown if number else shown + blanks)
    return _GAP.join(parts).rstrip()


def progress_bars(*, redirect: bool = True) -> Progress:
    """Bars on the terminal that standard error is, and a console to print above them; disabled if it is none.

    `redirect`: whether all else that is printed stands above them, too.
    """
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=redirect,
        redirect_stderr=redirect,
        disable=not console.is_terminal,
    )


@contextmanager
def progress_shown() -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that shows what is done, how far and of how much, on a terminal only."""
    with progress_bars() as bars:
        bar = bars.add_task("", total=None)

        def show(what: str, done: int, total: int | None) -> None:
            bars.update(bar, description=what, completed=done, total=total or None)

        yield show


def warn(message: str) -> None:
    """Print a warning on standard error, on one line; if a program reads that, log it instead."""
    print_notice("Warning: ", message, logging.WARNING)


def print_notice(prefix: str, message: str, level: int) -> None:
    """Print a message for people on standard error, on one line; if a program reads that, log it instead."""
    plan = log_plan()
    if plan is not None and plan.is_json_on_stderr:
        logging.getLogger("dcc.command").log(level, "%s", message)
    else:
        click.echo(prefix + printable(message), err=True)


def expected_text(work: ExpectedWork) -> str:
    """The expected bytes and duration of some work."""
    size = byte_size(work.bytes) if work.bytes else ""
    if work.seconds is None:
        return size
    hours, minutes = divmod(int(work.seconds // 60), 60)
    about = f"about {hours} h {minutes} min" if hours else f"about {minutes} min" if minutes else "1 min at most"
    return ", ".join(filter(None, [size, about]))
