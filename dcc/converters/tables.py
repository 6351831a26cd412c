"""Tables of specimens and of simple parameters, whatever their format: docs/csv.md has their columns.

Columns are named as the attributes and parameters of their cells; an empty cell has no value.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from dcc.converters.base import ConversionFault, SubmittedFile, element, form_of
from dcc.documents.contents import Content
from dcc.errors import InternalFaultError
from dcc.messages import mark, message
from dcc.naming import DocumentKind
from dcc.nearest_names import nearest_names

_MAX_COLUMNS: Final = 10_000
_UNNAMED_TOLD: Final = 10
_STATUS: Final = ("statusCode", "statusCode.date")
_INSIDE: Final = re.compile(r"(?P<child>[A-Za-z]+)(?:\.(?P<number>[0-9]{1,3}))?\.(?P<attribute>[A-Za-z]+)")
_PARAMETER: Final = re.compile(
    r"(?P<metadata>metadata\.)?(?P<key>[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*_[0-9]{3}_[0-9]{3})"
    r"(?:\.(?P<sequence>[0-9]+))?(?:\.(?P<part>unit|status))?"
)
Cells = Mapping[str, str]
"""The cells of a row that are not empty, by the names of their columns."""


class Header(NamedTuple):
    """The names of a table's columns, and the row that they are in."""

    number: int
    names: Sequence[str]


class Row(NamedTuple):
    """A row of a table that is not blank."""

    number: int
    cells: Cells


class Tables:
    """Converts tables of specimens and of experiments; see `dcc.converters.base.Converter`.

    `name` and `ending` (in lower case) are those of the format, whose reader a subclass is.
    """

    name: str
    ending: str
    columns: Mapping[str, str] = {}

    def kinds(self, name: str) -> Collection[DocumentKind]:
        """The kinds for a file of that name."""
        lower = name.lower()
        tables = _TABLES.items() if lower.endswith(self.ending) else ()
        return [kind for kind, table in tables if lower.startswith(table.beginning)]

    def rows(self, file: SubmittedFile) -> Iterator[Header | Row | ConversionFault]:
        """The header of a table, then its rows; a Fault in place of each row that cannot be read."""
        raise NotImplementedError

    def convert(self, file: SubmittedFile, kind: DocumentKind) -> Iterator[Content | ConversionFault]:
        """The content of a table, row by row."""
        table: _Table | None = None
        block = None
        is_empty = True
        for row in self.rows(file):
            if isinstance(row, Header):
                table = _TABLES[kind](row.names, file.centre)
                faults = list(table.faults(row.number))
                yield from faults
                if faults:
                    return
                continue
            is_empty = False
            if isinstance(row, ConversionFault):
                yield row
                continue
            if table is None:
                raise InternalFaultError(f"A row of {file.place} came before the header of its columns.")
            around = {name: row.cells.get(name) for name in table.around}
            around["centreID"] = row.cells.get("centreID", file.centre)
            if around != block:
                block = around
                yield element(kind, "", row.number, around)
            yield from table.entity(row.number, row.cells)
        if is_empty:
            yield ConversionFault(1, message(mark("The table has no rows. Export it again.")))


class _Table:
    """The columns of a table, and the entities of its rows.

    `fixed` are the permitted columns, `required` the necessary ones, `around` those of the centre element.
    """

    beginning: str
    fixed: Collection[str]
    required: Collection[str]
    around: Collection[str] = ()

    def __init__(self, names: Sequence[str], centre: str | None) -> None:
        self.names, self._centre = names, centre

    def faults(self, row: int) -> Iterator[ConversionFault]:
        """Problems of the columns, whose names are in a row."""
        if len(self.names) > _MAX_COLUMNS:
            text = mark("The table has {number} columns; {most} are the most. Split it into several tables.")
            yield ConversionFault(row, message(text, number=len(self.names), most=_MAX_COLUMNS), case="column")
            return
        counted = Counter(map(self.plain, self.names))
        lacking = [name for name in self.fixed if name not in counted]
        if counted.pop("", 0):
            unnamed = [str(place) for place, name in enumerate(self.names, 1) if not name]
            text = mark("The header has no name for the columns {columns}. Name them, or remove them with their cells.")
            yield ConversionFault(row, message(text, columns=unnamed[:_UNNAMED_TOLD]), case="column")
        for name, times in counted.items():
            if times > 1:
                text = mark("The column '{name}' is there {times} times. Leave one of them.")
                yield ConversionFault(row, message(text, name=name, times=times), name, "column")
            elif name not in self.fixed and not self.knows(name):
                yield self._unknown(row, name, lacking)
        for name in (*self.required, *(() if self._centre else ("centreID",))):
            if name not in self.names:
                text = mark("The column '{name}' is missing. Add it.")
                yield ConversionFault(row, message(text, name=name), name, "column")

    def _unknown(self, row: int, name: str, lacking: Sequence[str]) -> ConversionFault:
        nearest = ", ".join(nearest_names(name, lacking))
        text = mark("A column '{name}' is not known. Correct its name, or remove it.")
        if nearest:
            text = mark("A column '{name}' is not known. Correct its name (the nearest: {nearest}), or remove it.")
        return ConversionFault(row, message(text, name=name, nearest=nearest), name, "column")

    def knows(self, name: str) -> bool:
        """Whether a column that is not fixed is permitted."""
        raise NotImplementedError

    def plain(self, name: str) -> str:
        """The shortest name of a column: two columns with one have the same cells."""
        return name

    def entity(self, row: int, cells: Cells) -> Iterator[Content | ConversionFault]:
        raise NotImplementedError


_ANIMALS: Final = {name: form_of(DocumentKind.SPECIMEN, name) for name in ("mouse", "embryo")}
_OF_ANIMALS: Final = {
    name: [attribute.name for attribute in form.attributes if attribute.name] for name, form in _ANIMALS.items()
}
_OF_EXPERIMENTS: Final = {
    attribute.name: attribute.required and attribute.name not in ("centreID", "experimentID")
    for path in ("", "experiment", "experiment/procedure")
    for attribute in form_of(DocumentKind.EXPERIMENT, path).attributes
}
"""The attributes that a row has, and whether the table must; what is left out comes from the archive or other cells."""
_LISTS: Final = {child.name: child for child in _ANIMALS["mouse"].parts if child.many and child.form.attributes}
"""The lists of a mouse or an embryo, by the names of their elements."""


class _Specimens(_Table):
    """A row is a mouse, or an embryo if the column `kind` says so."""

    beginning = "specimens"
    fixed = ("centreID", "kind", *dict.fromkeys(name for names in _OF_ANIMALS.values() for name in names), *_STATUS)
    required = tuple(
        attribute.name
        for attribute in _ANIMALS["mouse"].attributes
        if attribute.required and attribute in _ANIMALS["embryo"].attributes
    )

    def knows(self, name: str) -> bool:
        """Whether it belongs to a list: `genotype.MGIGeneId`, `genotype.2.MGIGeneId`."""
        found = _INSIDE.fullmatch(name)
        if found is None or found["child"] not in _LISTS:
            return False
        return any(attribute.name == found["attribute"] for attribute in _LISTS[found["child"]].form.attributes)

    def plain(self, name: str) -> str:
        """The first of a list needs no number, and no number a zero before it."""
        found = _INSIDE.fullmatch(name)
        if found is None or not found["number"]:
            return name
        number = int(found["number"])
        return f"{found['child']}{'' if number == 1 else f'.{number}'}.{found['attribute']}"

    def entity(self, row: int, cells: Cells) -> Iterator[Content | ConversionFault]:
        kind = cells.get("kind", "mouse")
        if kind not in _ANIMALS:
            text = mark("The kind is '{kind}'; expected mouse or embryo. Correct it.")
            yield ConversionFault(row, message(text, kind=kind), "kind")
            return
        for name in cells:
            if name in self.fixed and name not in (*_OF_ANIMALS[kind], "centreID", "kind", *_STATUS):
                text = mark("A {kind} has no {name}. Empty the cell, or correct the column kind.")
                yield ConversionFault(row, message(text, kind=kind, name=name), name)
        lists: dict[str, dict[int, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
        for name, cell in cells.items():
            if name not in self.fixed and (found := _INSIDE.fullmatch(name)) is not None:
                lists[found["child"]][int(found["number"] or 1)][found["attribute"]] = cell
        inside: dict[str, Any] = {}
        for child, numbered in lists.items():
            in_order = [numbered[number] for number in sorted(numbered)]
            made = [element(DocumentKind.SPECIMEN, f"{kind}/{child}", row, values) for values in in_order]
            inside[_LISTS[child].field] = tuple(made)
        if status := _status(DocumentKind.SPECIMEN, kind, row, cells):
            inside["status_code"] = status[0]
        yield element(DocumentKind.SPECIMEN, kind, row, cells, **inside)


class _Experiments(_Table):
    """A row is a procedure on a specimen on a day, with a column for each parameter."""

    beginning = "experiments"
    fixed = (*_OF_EXPERIMENTS, "specimenID", *_STATUS)
    required = ("specimenID", *(name for name, is_required in _OF_EXPERIMENTS.items() if is_required))
    around = ("pipeline", "project")

    def __init__(self, names: Sequence[str], centre: str | None) -> None:
        super().__init__(names, centre)
        self._parameters: dict[tuple[str | None, str, str | None], dict[str | None, str]] = defaultdict(dict)
        for name in names:
            if name not in self.fixed and (found := _PARAMETER.fullmatch(name)) is not None:
                self._parameters[found["metadata"], found["key"], found["sequence"]][found["part"]] = name

    def knows(self, name: str) -> bool:
        """Whether it is a parameter: `IMPC_BWT_001_001`, `IMPC_BWT_001_001.unit`, `metadata.IMPC_BWT_003_001`."""
        found = _PARAMETER.fullmatch(name)
        return found is not None and not (found["metadata"] and found["part"] == "unit")

    def entity(self, row: int, cells: Cells) -> Iterator[Content | ConversionFault]:
        kind, path = DocumentKind.EXPERIMENT, "experiment/procedure"
        specimen = cells.get("specimenID")
        if specimen is None:
            yield ConversionFault(row, message(mark("The row names no animal. Fill in its specimenID.")), "specimenID")
            return
        results: dict[str, list[Any]] = {"simple": [], "metadata": []}
        for (metadata, key, sequence), columns in self._parameters.items():
            value, status, unit = (cells.get(columns.get(part, "")) for part in (None, "status", "unit"))
            if value is None and status is None:
                continue
            name, field = ("procedureMetadata", "metadata") if metadata else ("simpleParameter", "simple")
            values = {"parameterID": key, "sequenceID": sequence, "unit": unit}
            results[field].append(element(kind, f"{path}/{name}", row, values, value=value, status=status))
        procedure = None
        if "procedureID" in cells or any(results.values()):
            inside = {field: tuple(some) for field, some in results.items()}
            procedure = element(kind, path, row, cells, **inside)
        named_by = specimen, cells.get("procedureID"), cells.get("dateOfExperiment", "").strip()
        named = {"experimentID": "_".join(filter(None, named_by))}
        yield element(
            kind,
            "experiment",
            row,
            named | dict(cells),
            specimen_ids=(specimen,),
            procedure=procedure,
            status_codes=_status(kind, "experiment", row, cells),
        )


def _status(kind: DocumentKind, path: str, row: int, cells: Cells) -> tuple[Any, ...]:
    if not any(name in cells for name in _STATUS):
        return ()
    values = {"": cells.get("statusCode"), "date": cells.get("statusCode.date")}
    return (element(kind, f"{path}/statusCode", row, values),)


_TABLES: Final[Mapping[DocumentKind, type[_Table]]] = {
    DocumentKind.SPECIMEN: _Specimens,
    DocumentKind.EXPERIMENT: _Experiments,
}
