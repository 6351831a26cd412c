"""The rows of JSON tables: `specimens*.json` and `experiments*.json`, lists of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from dcc.converters.base import ConversionFault, SubmittedFile
from dcc.converters.tables import Header, Row, Tables
from dcc.messages import Message, mark, message, size_detail

_LARGEST: Final = 16 * 1024 * 1024
"""The most bytes of a file: memory holds it whole, some times over."""
_MAX_VALUES: Final = 500_000
"""Small ones take much more memory than their bytes."""
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


class JsonTables(Tables):
    """Converts lists of objects, whose keys are the columns of CSV tables.

    The keys of an object in an object are joined by a point, and the second of a list and on have a number. So
    `genotype` may hold what `genotype.MGIGeneId` and `genotype.2.MGIGeneId` say.
    """

    name = "JSON tables"
    ending = ".json"

    def rows(self, file: SubmittedFile) -> Iterator[Header | Row | ConversionFault]:
        """The objects that are not empty, numbered from 1, below a header of all their keys."""
        if file.path.stat().st_size > _LARGEST:
            text = mark("The table is larger than {most}. Split it into several tables.")
            yield ConversionFault(1, message(text, most=size_detail(_LARGEST)))
            return
        try:
            content = file.path.read_text("utf-8-sig")
            if sum(map(content.count, "{[,")) > _MAX_VALUES:
                raise ValueError(f"it has more than {_MAX_VALUES:,} values")
            told = json.loads(
                content,
                object_pairs_hook=_Object,
                parse_int=str,
                parse_float=str,
                parse_constant=str,
            )
            if not isinstance(told, list) or isinstance(told, _Object):
                raise TypeError("it is no list")
            rows = [row for number, one in enumerate(told, 1) if (row := _row(number, one)) is not None]
        except (TypeError, ValueError, RecursionError) as error:
            text = mark("The table cannot be read as a JSON list of objects ({reason}). Export it again.")
            yield ConversionFault(getattr(error, "lineno", 1), message(text, reason=Message(str(error)[:200])))
            return
        if names := dict.fromkeys(name for row in rows if isinstance(row, Row) for name in row.cells):
            yield Header(1, list(names))
        yield from rows


class _Object(list[tuple[str, Any]]):
    """The keys of an object with their values; a key may be there twice."""

    __slots__ = ()


def _row(number: int, told: Any) -> Row | ConversionFault | None:
    """The row that an object is; None for one that says nothing."""
    cells: dict[str, str] = {}
    for name, value in _values("", told):
        if value is None:
            text = mark("The row has a list or a value where an object belongs. Write an object there.")
            return ConversionFault(number, message(text), name or None)
        if _HALF_CHARACTER.search(name + value):
            text = mark("The row holds half of a character, such as \\ud83d. Export the table again.")
            return ConversionFault(number, message(text))
        if name in cells:
            text = mark("The row has '{name}' twice. Leave one of them.")
            return ConversionFault(number, message(text, name=name), name)
        cells[name] = value
    return Row(number, {name: value for name, value in cells.items() if value}) if any(cells.values()) else None


def _values(name: str, told: Any) -> Iterator[tuple[str, str | None]]:
    """What objects say by the names of columns, from a name on; None where something else is than an object."""
    if isinstance(told, _Object):
        for key, value in told:
            inner = f"{name}.{key.strip()}" if name else key.strip()
            if isinstance(value, list):
                yield from _values(inner, value)
            elif value is not None:
                yield inner, str(value).lower() if isinstance(value, bool) else value
    elif isinstance(told, list) and name:
        for number, one in enumerate(told, 1):
            yield from _values(name if number == 1 else f"{name}.{number}", one)
    else:
        yield name, None
