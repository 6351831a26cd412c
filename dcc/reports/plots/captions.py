"""The words of pictures: headings, captions, and descriptions for those who do not see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dcc.outcomes import ZipKey
from dcc.reports.languages import Catalogue
from dcc.reports.plots.picture import format_number, format_quantity, shown_text
from dcc.reports.plots.values import LEAST_VALUES, RANGES, ParameterValues

if TYPE_CHECKING:
    from dcc.reports.plots.boxes import BoxGroup

_MAX_DESCRIBED: Final = 8
_MAX_UNITS: Final = 5


def heading_of(catalogue: Catalogue, parameter_values: ParameterValues) -> tuple[str, str]:
    """The title of a parameter's picture, and the line below it."""
    name, parameter_id = (
        shown_text(parameter_values.parameter.name, 56),
        shown_text(parameter_values.parameter.parameter_id),
    )
    title = parameter_id if name == parameter_id else f"{name} ({parameter_id})"
    return title, subtitle_of(catalogue, parameter_values.centre, parameter_values.key)


def subtitle_of(catalogue: Catalogue, centre: str, key: ZipKey | None) -> str:
    """The line below a title: whose data are drawn, and which are new."""
    if key is None:
        return catalogue.say("Centre {centre}", centre=shown_text(centre))
    return catalogue.say(
        "Centre {centre}, with what {zip} brought", centre=shown_text(centre), zip=shown_text(str(key), 70)
    )


def rule_of(catalogue: Catalogue) -> str:
    """The rule by which values are marked."""
    return catalogue.say(
        "An outlier is a value more than {ranges} interquartile ranges below the first or above the third quartile. "
        "The quartiles are those of the earlier values of its group if these are at least {least}. Else they are of "
        "all of its group, its centre, or the picture: of the first that has {least}.",
        ranges=RANGES,
        least=LEAST_VALUES,
    )


def counts_of(catalogue: Catalogue, parameter_values: ParameterValues) -> str:
    """What the numbers beside groups mean."""
    if parameter_values.has_new:
        return catalogue.say("In brackets: how many values, earlier and new.")
    return catalogue.say("In brackets: how many values.")


def caption_of(catalogue: Catalogue, parameter_values: ParameterValues, drawn_how: str) -> str:
    """What a picture of a parameter shows: which values, how they are drawn, and what is left out."""
    parts = [catalogue.say("Values that are current and valid, as the centres gave them.")]
    if parameter_values.of is not None:
        drawn, about = (
            catalogue.number(len(parameter_values.values)),
            catalogue.number(_rounded_up(parameter_values.of)),
        )
        parts.append(catalogue.say("A sample of {drawn}, of about {all} measurements.", drawn=drawn, all=about))
    parts.append(drawn_how)
    if parameter_values.other_units:
        units = [
            f"{shown_text(unit) or '–'}: {catalogue.number(number)}"
            for unit, number in parameter_values.other_units.items()
        ]
        parts.append(
            catalogue.say("Values in other units are not drawn ({units}).", units=", ".join(units[:_MAX_UNITS]))
        )
    return " ".join(parts)


def _rounded_up(number: int) -> int:
    """The number with two digits and zeros: an estimate is no more exact, and not below what is drawn."""
    unit: int = 10 ** max(len(str(number)) - 2, 0)
    return -(-number // unit) * unit


def description_of(catalogue: Catalogue, groups: Sequence[BoxGroup], unit: str) -> str:
    """A description of the picture of a distribution."""
    parts = []
    for group in groups[:_MAX_DESCRIBED]:
        first, third = (format_number(catalogue, number) for number in (group.drawn.first, group.drawn.third))
        parts.append(
            catalogue.say_plural(
                "{group}: one value, {median}.",
                "{group}: {number} values, median {median}, the middle half from {first} to {third}.",
                group.drawn.count,
                group=f"{group.heading(catalogue)}, {group.label(catalogue)}",
                median=format_quantity(catalogue, group.drawn.median, unit),
                first=first,
                third=third,
            )
        )
        if group.is_new.any():
            parts.append(_of_new(catalogue, group))
    if len(groups) > _MAX_DESCRIBED:
        more = len(groups) - _MAX_DESCRIBED
        parts.append(catalogue.say_plural("One more group.", "{number} more groups.", more))
    return " ".join(parts)


def _of_new(catalogue: Catalogue, group: BoxGroup) -> str:
    new = group.numbers[group.is_new]
    text = catalogue.say_plural(
        "One new value: {lowest}.",
        "{number} new values, from {lowest} to {highest}.",
        int(new.size),
        lowest=format_number(catalogue, float(new.min())),
        highest=format_number(catalogue, float(new.max())),
    )
    marked = (group.is_new & group.is_outlier).nonzero()[0]
    if not marked.size:
        return text
    named = [
        f"{group.animal(place)} {format_number(catalogue, float(group.numbers[place]))}".strip()
        for place in group.furthest(marked, 3)
    ]
    return f"{text} " + catalogue.say_plural(
        "One of them is an outlier: {named}.",
        "{number} of them are outliers, the furthest: {named}.",
        int(marked.size),
        named=catalogue.list(named),
    )
