"""How `dcc` prints: JSON for programs, plain columns for people.

Times are UTC: `2026-11-21T07:28:31Z` in JSON, `2026-11-21 07:28` in tables. Text from outside (names on a server, a
server's answer) is printed with its control characters escaped, so that it cannot control a terminal; in JSON too.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from enum import Enum, IntEnum
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dcc.runtime.legible_text import legible, legible_json
from dcc.runtime.logging_setup import log_plan

if TYPE_CHECKING:
    from dcc.tracker.expected_work import ExpectedWork

_COLOURS = {
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
_GAP = "  "
_NARROW = 20
"""The least characters of a text in a line, however narrow the terminal is."""
_LONG = 24
"""The characters of a word of a text that may be broken."""


def printable(value: object) -> str:
    """The text of a value on one line, with invisible characters as `\\xNN`; None is the empty text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    named = dataclasses.is_dataclass(value)
    text = " ".join(str(value if named else json_ready(value)).splitlines())
    return legible(text)


def json_ready(value: object) -> object:
    """A value in JSON's types: dataclasses as objects, times in ISO 8601 and UTC, phases and statuses by name."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds") + "Z"
    if isinstance(value, date | Path):
        return str(value)
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return json_ready(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "as_json"):
            return json_ready(value.as_json())
        return {field.name: json_ready(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_ready(item) for item in value]
    return value


def picked(value: object, *names: str, **renamed: str) -> dict[str, object]:
    """Some attributes of a value as an object: `names` are keys and attributes, `renamed` maps keys to attributes."""
    attributes = {name: name for name in names} | renamed
    return {key: getattr(value, attribute) for key, attribute in attributes.items()}


def json_object(value: object) -> dict[str, object]:
    """A dataclass or mapping as a JSON object (see `json_ready`)."""
    ready = json_ready(value)
    if not isinstance(ready, dict):
        raise TypeError(f"{type(value).__name__} is no object in JSON.")
    return ready


def echo_json(value: object) -> None:
    """Print a value as indented JSON on standard output."""
    click.echo(legible_json(json.dumps(json_ready(value), indent=2, ensure_ascii=False)))


def echo_json_list(values: Iterable[object]) -> None:
    """Print values as they come, as one list of indented JSON on standard output."""
    before = "["
    for value in values:
        shown = legible_json(json.dumps(json_ready(value), indent=2, ensure_ascii=False))
        click.echo(f"{before}\n  " + shown.replace("\n", "\n  "), nl=False)
        before = ","
    click.echo("[]" if before == "[" else "\n]")


def echo_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    indent: str = "",
    prose: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print rows in columns under their headers, numbers to the right; nothing without rows.

    On a terminal that is too narrow, the columns whose headers are in `prose` are wrapped between words. If that is not
    enough, `spare` columns are left out, the first ones first; standard error says so. All others stay on one line, so
    that names can be copied.
    """
    if not rows:
        return
    cells = [[printable(value) for value in row] for row in rows]
    columns = [(header, *(row[i] for row in cells)) for i, header in enumerate(headers)]
    widths = [max(map(_width, column)) for column in columns]
    shown = list(range(len(headers)))
    left_out: list[str] = []
    if sys.stdout.isatty():
        least = [
            _least(column) if header in prose else width
            for header, column, width in zip(headers, columns, widths, strict=True)
        ]
        room = shutil.get_terminal_size().columns - len(indent)
        for header in spare:
            if _whole([least[i] for i in shown]) <= room:
                break
            shown.remove(headers.index(header))
            left_out.append(header)
        for i, width in zip(shown, _narrowed([widths[i] for i in shown], [least[i] for i in shown], room), strict=True):
            widths[i] = width
    widths = [widths[i] for i in shown]
    numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in shown]
    click.echo(indent + click.style(_line([headers[i] for i in shown], widths, numeric), bold=True))
    for row in cells:
        chosen = [row[i] for i in shown]
        colours = [_COLOURS.get(cell) for cell in chosen]
        broken = [_broken(cell, width) for cell, width in zip(chosen, widths, strict=True)]
        for line in zip_longest(*broken, fillvalue=""):
            click.echo(indent + _line(line, widths, numeric, colours))
    if left_out:
        click.echo(f"Left out, for the terminal is narrow: {', '.join(left_out)}. --json has all.", err=True)


def _width(text: str) -> int:
    """How many cells of a terminal a text takes: some characters take two, others none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _least(column: Sequence[str]) -> int:
    """The least width of a prose column: its header and words stay on one line, and its texts legible."""
    header, *texts = column
    words = (min(_width(word), _LONG) for text in texts for word in text.split(" "))
    return max(_width(header), *words, min(_NARROW, max(map(_width, column))))


def _narrowed(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into the room, as far as columns can be narrower: all wide ones get the same limit."""
    for limit in range(room, 0, -1):
        narrowed = [max(few, min(width, limit)) for width, few in zip(widths, least, strict=True)]
        if _whole(narrowed) <= room:
            return narrowed
    return list(least)


def _whole(widths: Sequence[int]) -> int:
    """The width of a table whose columns have these widths."""
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _broken(text: str, width: int) -> list[str]:
    """A text in lines of at most so many cells; only longer words are broken, and styles count as nothing."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and _width(click.unstyle(f"{lines[-1]} {word}")) <= width:
            lines[-1] += f" {word}"
            continue
        while _width(click.unstyle(word)) > width:
            fitting = next(
                number for number in range(len(word), 0, -1) if number == 1 or _width(word[:number]) <= width
            )
            lines.append(word[:fitting])
            word = word[fitting:]
        lines.append(word)
    return lines


def echo_wrapped(text: str, indent: str) -> None:
    """Print a text, on a terminal broken between words and further lines indented."""
    room = shutil.get_terminal_size().columns - len(indent)
    click.echo(f"\n{indent}".join(_broken(text, room)) if sys.stdout.isatty() else text)


def _line(
    cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool], colours: Sequence[str | None] = ()
) -> str:
    parts = []
    for cell, width, number, colour in zip_longest(cells, widths, numeric, colours):
        blanks = " " * (width - _width(cell))
        shown = click.style(cell, fg=colour) if colour and cell else cell
        parts.append(blanks + shown if number else shown + blanks)
    return _GAP.join(parts).rstrip()


@contextmanager
def progress_shown() -> Iterator[Callable[[str, int, int | None], None]]:
    """A function that shows what is done, how far and of how much, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task("", total=None)

        def show(what: str, done: int, total: int | None) -> None:
            bars.update(bar, description=what, completed=done, total=total or None)

        yield show


def warn(message: str) -> None:
    """Print a warning on standard error, on one line; if a program reads that, log it instead."""
    tell("Warning: ", message, logging.WARNING)


def tell(prefix: str, message: str, level: int) -> None:
    """Print a message for people on standard error, on one line; if a program reads that, log it instead."""
    plan = log_plan()
    if plan is not None and plan.is_json_on_stderr:
        logging.getLogger("dcc.command").log(level, "%s", message)
    else:
        click.echo(prefix + printable(message), err=True)


def count_of(number: int, noun: str) -> str:
    """`1 zip`, `2 zips`; of a noun in a consonant and y: `1 copy`, `2 copies`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def expected_text(work: ExpectedWork) -> str:
    """The expected bytes and duration of some work."""
    size = byte_size(work.bytes) if work.bytes else ""
    if work.seconds is None:
        return size
    minutes = int(work.seconds // 60)
    about = (
        f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min" if minutes else "1 min at most"
    )
    return ", ".join(filter(None, [size, f"about {about}" if minutes else about]))


def byte_size(size: int | None) -> str:
    """A number of bytes for people: `812 B`, `1.4 MB`; `-` if unknown."""
    if size is None:
        return "-"
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
