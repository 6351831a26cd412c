"""Where what a document says stood in the file that it was converted from.

A converted document says it in a processing instruction on its first line, so that it is known wherever the document
goes; its lines are the rows of that file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from dcc.declarations import standing_at
from dcc.documents.contents import Metadata
from dcc.documents.forms import ROOTS, Form
from dcc.messages import Message, mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import Problem

_BEGINNING: Final = b'<?xml version="1.0" encoding="UTF-8"?><?dcc-origin '
_TOLD: Final = re.compile(re.escape(_BEGINNING) + rb"(\{[^>]*\})\?>")
_LONGEST: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Origin:
    """The file that a document was converted from, by its path in the archive, and how its columns are called.

    `columns` are by attribute (`DOB`, `genotype.geneSymbol`) or parameter: `IMPC_BWT_001_001`, with `metadata.` before
    that of a procedureMetadata, `.2` after one with that sequenceID, and `.unit` or `.status` last. Those that are
    called exactly so are left out.
    """

    file: str
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """The origin that was kept; None where there is none."""
        try:
            content = json.loads(text or "null")
            return (
                None
                if content is None
                else cls(str(content["file"]), {str(a): str(b) for a, b in content["columns"].items()})
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def to_json(self) -> str:
        """The origin as it is kept: ASCII, in which `>` is escaped."""
        return json.dumps({"file": self.file, "columns": dict(self.columns)}).replace(">", "\\u003e")

    @property
    def beginning(self) -> str:
        """What a document begins with that has this origin."""
        return f"{_BEGINNING.decode()}{self.to_json()}?>"

    def place(self, row: int, column: str | None = None) -> Message:
        """A row in words, with the column if it is known."""
        if column is None:
            return message(mark("{file}, row {row}"), file=self.file, row=str(row))
        return message(mark("{file}, row {row}, column {column}"), file=self.file, row=str(row), column=column)

    def place_of(self, element: Any, row: int, value: str | None) -> Message:
        """The place of a value in what a document says, or that of the element where no more is known."""
        name = _name_of(element, value)
        return self._place_of_name(row, name, f"{name}{_part_holding(element, value)}")

    def placed(self, problem: Problem) -> Problem:
        """A problem of the document with its place in the file."""
        details = problem.fact.all_details
        name = str(details.get("attribute") or "")
        exact = f"{details['element']}.{name}" if details.get("element") in _PARTS_OF_ANIMALS else name
        place = self._place_of_name(problem.line or 1, name, exact)
        return replace(problem, translatable=standing_at(problem.fact, place), column=None)

    def _place_of_name(self, row: int, name: str | None, exact: str) -> Message:
        """The place in the column that is called as a name, or as a more exact one; the row where there is no name."""
        return self.place(row, (self.columns.get(exact) or self.columns.get(name) or exact) if name else None)


def read_origin(document: Path) -> Origin | None:
    """What a document was converted from; None for one that was submitted as it is. Raises OSError."""
    with document.open("rb") as file:
        beginning = file.read(len(_BEGINNING))
        if beginning != _BEGINNING:
            return None
        match = _TOLD.match(beginning + file.read(_LONGEST))
    return None if match is None else Origin.from_json(match[1].decode("ascii", "replace"))


def _name_of(element: Any, value: str | None) -> str | None:
    """The name, as in `Origin.columns`, of what holds a value; None where that is not certain."""
    element = getattr(element, "parameter", element)
    if hasattr(element, "parameter_id"):
        before = "metadata." if isinstance(element, Metadata) else ""
        sequence = getattr(element, "sequence_id", None)
        return f"{before}{element.parameter_id}{'' if sequence is None else f'.{sequence}'}"
    named = _NAMES.get(type(element), {})
    held = {name: getattr(element, field) for field, name in named.items()}
    found = {name for name, one in held.items() if value == one or (isinstance(one, tuple) and value in one)}
    return found.pop() if value is not None and len(found) == 1 else None


def _part_holding(element: Any, value: str | None) -> str:
    """The end of the name of a parameter's unit or status, if that and nothing else of it is the value."""
    element = getattr(element, "parameter", element)
    held = {name for name in ("value", "unit", "status") if value is not None and getattr(element, name, None) == value}
    return f".{held.pop()}" if len(held) == 1 and "value" not in held else ""


def _names() -> dict[type, dict[str, str]]:
    """The names of attributes, and of elements that are but text, by the class and field that they are in."""
    found: dict[type, dict[str, str]] = {}

    def note(form: Form) -> None:
        names = found.setdefault(form.made, {})
        names.update({attribute.field: attribute.name for attribute in form.attributes if attribute.name})
        for child in form.children:
            if child.form.made is str:
                names[child.field] = child.name
            else:
                note(child.form)

    for _, root in ROOTS.values():
        note(root)
    return found


_NAMES: Final = _names()
_PARTS_OF_ANIMALS: Final = {
    part.name for form in ROOTS[DocumentKind.SPECIMEN][1].forms["centre"].forms.values() for part in form.parts
}
"""The elements in animals, whose attributes may be called as those of the animal itself."""
