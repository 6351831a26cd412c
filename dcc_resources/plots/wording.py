"""What pictures say in words: headings, captions, and descriptions for who does not see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dcc_resources.languages import Catalogue
from dcc_resources.outcomes import ZipKey
from dcc_resources.plots.look import shown
from dcc_resources.plots.outliers import LEAST_VALUES, RANGES
from dcc_resources.plots.samples import Parameter

if TYPE_CHECKING:
    from dcc_resources.plots.box_rows import Row

_MOST_DESCRIBED: Final = 8


def heading_of(catalogue: Catalogue, parameter: Parameter, centre: str, key: ZipKey | None) -> tuple[str, str]:
    """The title of a parameter's picture, and the line below it."""
    name, parameter_id = shown(parameter.name, 56), shown(parameter.parameter_id)
    title = parameter_id if name == parameter_id else f"{name} ({parameter_id})"
    if key is None:
        return title, catalogue.text("Centre {centre}", centre=shown(centre))
    return title, catalogue.text(
        "Centre {centre}, with what {zip} brought", centre=shown(centre), zip=shown(str(key), 70)
    )


def rule_of(catalogue: Catalogue) -> str:
    """The rule by which values are marked."""
    return catalogue.text(
        "An outlier is a value more than {ranges} interquartile ranges below the first or above the third quartile: of "
        "the earlier values of its group if these are at least {least}, else of all of its group, its centre, or the "
        "picture, whichever is the first that has {least}.",
        ranges=RANGES,
        least=LEAST_VALUES,
    )


def caption_of(catalogue: Catalogue, drawn: int, of: int | None, other_units: Mapping[str, int]) -> str:
    """What a picture of a parameter shows: which values, by which rule they are marked, and what is left out."""
    parts = [catalogue.text("Values that are current and valid, as the centres gave them.")]
    if of is not None:
        parts.append(
            catalogue.text(
                "A sample of {drawn} is drawn, of {all} measurements.",
                drawn=catalogue.number(drawn),
                all=catalogue.number(of),
            )
        )
    parts.append(rule_of(catalogue))
    if other_units:
        units = [f"{shown(unit) or '–'}: {catalogue.number(number)}" for unit, number in list(other_units.items())[:5]]
        parts.append(catalogue.text("Values in other units are not drawn ({units}).", units=", ".join(units)))
    return " ".join(parts)


def description_of(catalogue: Catalogue, rows: Sequence[tuple[str, Row]], unit: str) -> str:
    """The picture of a distribution in words."""
    parts = []
    for name, row in rows[:_MOST_DESCRIBED]:
        quartiles = (row.box.first, row.box.median, row.box.third)
        first, median, third = (catalogue.number(number) for number in quartiles)
        parts.append(
            catalogue.plural(
                "{group}: one value, {median} {unit}.",
                "{group}: {number} values, median {median} {unit}, the middle half from {first} to {third}.",
                row.box.count,
                group=name,
                median=median,
                unit=shown(unit),
                first=first,
                third=third,
            )
        )
        if row.new.size:
            parts.append(_of_new(catalogue, row))
    if len(rows) > _MOST_DESCRIBED:
        more = len(rows) - _MOST_DESCRIBED
        parts.append(catalogue.plural("One more group.", "{number} more groups.", more))
    return " ".join(parts)


def _of_new(catalogue: Catalogue, row: Row) -> str:
    said = catalogue.plural(
        "One new value: {lowest}.",
        "{number} new values, from {lowest} to {highest}.",
        int(row.new.size),
        lowest=catalogue.number(float(row.new.min())),
        highest=catalogue.number(float(row.new.max())),
    )
    marked = row.judged_by.outside(row.new).nonzero()[0].tolist()
    if not marked:
        return said
    furthest = sorted(marked, key=lambda place: -row.judged_by.ranges_from(float(row.new[place])))[:3]
    named = [f"{row.new_names[place]} {catalogue.number(float(row.new[place]))}".strip() for place in furthest]
    return f"{said} " + catalogue.plural(
        "One of them is an outlier: {named}.",
        "{number} of them are outliers, the furthest: {named}.",
        len(marked),
        named=catalogue.list(named),
    )
