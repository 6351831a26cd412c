"""The distribution of a numeric parameter by centre, sex and zygosity, with what a submission brought picked out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcc.outcomes import SubmissionKey
from dcc.reports.languages import Catalogue
from dcc.reports.plots.picture import (
    BOX,
    BOX_EDGE,
    EARLIER,
    GRID,
    HEADING,
    NEW,
    OUTLIER,
    WIDTH,
    Picture,
    add_legend,
    file_name_of,
    format_number,
    format_quantity,
    lay_out,
    name_point,
    shown_text,
    word_for,
)
from dcc.reports.plots.values import (
    LEAST_VALUES,
    RANGES,
    Box,
    Numbers,
    ParameterValues,
    Value,
    box_of,
    judging_box,
    numbers_of,
    pseudo_random,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MAX_DESCRIBED: Final = 8
_MAX_UNITS: Final = 5


def heading_of(catalogue: Catalogue, parameter_values: ParameterValues) -> tuple[str, str]:
    """The title of a parameter's picture, and the line below it."""
    parameter = parameter_values.parameter
    name, parameter_id = shown_text(parameter.name, 56), shown_text(parameter.parameter_id)
    title = parameter_id if name == parameter_id else f"{name} ({parameter_id})"
    return title, subtitle_of(catalogue, parameter_values.centre, parameter_values.key)


def subtitle_of(catalogue: Catalogue, centre: str, key: SubmissionKey | None) -> str:
    """The line below a title: whose data are drawn, and which are new."""
    if key is None:
        return catalogue.say("Centre {centre}", centre=shown_text(centre))
    return catalogue.say(
        "Centre {centre}, with what {zip} brought", centre=shown_text(centre), zip=shown_text(str(key), 70)
    )


def caption_of(catalogue: Catalogue, parameter_values: ParameterValues, drawn_how: str) -> str:
    """What a picture of a parameter shows: which values, how they are drawn, and what is left out."""
    parts = [catalogue.say("Values that are current and valid, as the centres gave them.")]
    if parameter_values.of is not None:
        # An estimate is no more exact than two digits, and not below what is drawn.
        unit: int = 10 ** max(len(str(parameter_values.of)) - 2, 0)
        drawn = catalogue.number(len(parameter_values.values))
        about = catalogue.number(-(-parameter_values.of // unit) * unit)
        parts.append(catalogue.say("A sample of {drawn}, of about {all} measurements.", drawn=drawn, all=about))
    parts.append(drawn_how)
    if parameter_values.other_units:
        others = parameter_values.other_units.items()
        units = ", ".join(
            f"{shown_text(unit) or '–'}: {catalogue.number(number)}" for unit, number in [*others][:_MAX_UNITS]
        )
        parts.append(catalogue.say("Values in other units are not drawn ({units}).", units=units))
    return " ".join(parts)


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


LEAST_BOX: Final = 5
"""Values that a box is drawn of; of fewer, their median alone."""
ROW: Final = 0.31
"""Inches of a row."""
BOTTOM: Final = 0.55
MAX_DOTS: Final = 900
"""Marks of earlier values, and of new ones, that a picture has at most, but for outliers."""
MAX_OUTLIERS: Final = 150
"""Marks of outliers that a picture has at most: the furthest."""
MAX_NAMED: Final = 6
"""Outliers whose animals are named."""

_DOT: Final[dict[str, Any]] = {
    "marker": "o",
    "markersize": 2.6,
    "color": EARLIER,
    "markeredgewidth": 0,
    "linestyle": "none",
}
DIAMOND: Final[dict[str, Any]] = {
    "marker": "D",
    "markersize": 4.6,
    "markerfacecolor": NEW,
    "markeredgecolor": "white",
    "markeredgewidth": 0.5,
    "linestyle": "none",
}
RING: Final[dict[str, Any]] = {
    "marker": "o",
    "markersize": 9,
    "markerfacecolor": "none",
    "markeredgecolor": OUTLIER,
    "markeredgewidth": 1.3,
    "linestyle": "none",
}
_MEDIAN: Final[dict[str, Any]] = {
    "marker": "|",
    "markersize": 9,
    "color": BOX_EDGE,
    "markeredgewidth": 2,
    "linestyle": "none",
}
_HEIGHT: Final = 0.56
_SPREAD: Final = 0.44
_LANE: Final = 0.17
"""Of a row: how much a box takes, and marks; how far a box is above, and new values below, where there are any."""
_MANY: Final = 25
_ROOM: Final = 0.2
"""Of the axis: how far apart two values must be for both to be written."""
_FAR: Final = 1.5
"""Outliers that would take more than so many times the other values' width are drawn at the edge, with their value."""


@dataclass(frozen=True, slots=True)
class BoxGroup:
    """Values of a centre, sex and zygosity, with their ids, which of them a submission brought, and which are outliers.

    `centre` is None where those of other centres are together. `animals` are the ids of the animals of new outliers, by
    their places. `judged_by` is the box whose fences tell outliers, `drawn` that of all values.
    """

    centre: str | None
    gender: str | None
    zygosity: str | None
    ids: NDArray[np.int64]
    numbers: Numbers
    is_new: NDArray[np.bool_]
    is_outlier: NDArray[np.bool_]
    animals: Mapping[int, str]
    judged_by: Box
    drawn: Box

    def animal(self, place: int) -> str:
        """The animal of a new outlier, as a picture has it."""
        return shown_text(self.animals.get(place, ""), 24)

    def furthest(self, places: NDArray[np.intp], limit: int) -> list[int]:
        """At most so many of the places of outliers: those furthest from the quartiles."""
        ordered = sorted(places.tolist(), key=lambda place: -self.judged_by.ranges_from(float(self.numbers[place])))
        return ordered[:limit]

    def label(self, catalogue: Catalogue) -> str:
        """The sex and zygosity."""
        words = [word_for(catalogue, word) for word in (self.gender, self.zygosity) if word]
        return ", ".join(words) or catalogue.say("not of one animal")

    def heading(self, catalogue: Catalogue) -> str:
        """The centre, below which its groups stand."""
        return catalogue.say("other centres") if self.centre is None else shown_text(self.centre)


class _Look(NamedTuple):
    """Of which new values the animals are named, how many marks a row has at most, and how numbers are written."""

    named: frozenset[int]
    dots: int
    number: Callable[[float], str]


def height_of(rows: Sequence[BoxGroup]) -> float:
    """Inches that groups take, a row each."""
    return HEADING + BOTTOM + ROW * (len(rows) + len({row.centre for row in rows}))


def draw_rows(
    figure: Figure, rows: Sequence[BoxGroup], catalogue: Catalogue, *, title: str, subtitle: str, unit: str
) -> None:
    """Draw the groups, with new values and outliers marked."""
    number = partial(format_number, catalogue)
    longest = max(max(len(_counted(row, catalogue)), 1.15 * len(row.heading(catalogue))) for row in rows)
    (axes,) = lay_out(figure, title, subtitle, left=0.35 + 0.068 * longest, bottom=BOTTOM)
    usual = np.concatenate([row.numbers[~row.is_outlier] for row in rows])
    low, high = axis_limits(np.concatenate([row.numbers for row in rows]), usual)
    axes.set_xlim(low, high)
    lines = len(rows) + len({row.centre for row in rows})
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_xlabel(unit)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    labels: list[str] = []
    bold: list[bool] = []
    look = _Look(_named(rows), MAX_DOTS // len(rows), number)
    for place, row in enumerate(rows):
        if place == 0 or row.centre != rows[place - 1].centre:
            labels.append(row.heading(catalogue))
            bold.append(True)
        _draw_row(axes, len(labels), row, (low, high), look)
        labels.append(_counted(row, catalogue))
        bold.append(False)
    axes.set_yticks(range(lines), labels)
    axes.tick_params(axis="y", length=0)
    for label, is_bold in zip(axes.get_yticklabels(), bold, strict=True):
        label.set_fontweight("bold" if is_bold else "normal")
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    _add_legend(figure, rows, catalogue)


def _counted(row: BoxGroup, catalogue: Catalogue) -> str:
    before, new = catalogue.number(int((~row.is_new).sum())), catalogue.number(int(row.is_new.sum()))
    return f"{row.label(catalogue)}  ({before} + {new})" if row.is_new.any() else f"{row.label(catalogue)}  ({before})"


def axis_limits(values: Numbers, usual: Numbers) -> tuple[float, float]:
    """From where to where an axis goes: all `usual` values, which are no outliers, and others that are not far away."""
    usual = usual if usual.size else values
    low, high = float(usual.min()), float(usual.max())
    span = (high - low) or abs(high) or 1.0
    near = values[(values >= low - _FAR * span) & (values <= high + _FAR * span)]
    low, high = min(low, float(near.min(initial=low))), max(high, float(near.max(initial=high)))
    margin = 0.05 * ((high - low) or abs(high) or 1.0)
    return low - margin, high + margin


def _named(rows: Sequence[BoxGroup]) -> frozenset[int]:
    """The ids of the new outliers whose animals are named: the furthest."""
    found = [
        (-row.judged_by.ranges_from(float(row.numbers[place])), int(row.ids[place]))
        for row in rows
        for place in np.flatnonzero(row.is_outlier & row.is_new).tolist()
    ]
    return frozenset(number for _, number in sorted(found)[:MAX_NAMED])


def _draw_row(axes: Axes, line: int, row: BoxGroup, limits: tuple[float, float], look: _Look) -> None:
    above = -_LANE if row.is_new.any() else 0.0
    _draw_box(axes, line + above, row)
    for own, how, lane in ((~row.is_new, _DOT, above), (row.is_new, DIAMOND, _LANE * 1.6)):
        # If there are too many, the first by the scattered order of their ids.
        usual = np.flatnonzero(own & ~row.is_outlier).tolist()
        if len(usual) > look.dots:
            usual = sorted(usual, key=lambda place: pseudo_random(int(row.ids[place])))[: look.dots]
        out = row.furthest(np.flatnonzero(own & row.is_outlier), MAX_OUTLIERS)
        places = [*usual, *out]
        x = np.clip(row.numbers[places], *limits)
        # Which marks are drawn goes by the same order; scattered again, where they are has nothing to do with it.
        apart = np.array([pseudo_random(pseudo_random(int(row.ids[place]))) / 2**32 - 0.5 for place in places])
        y = line + lane + apart * (_SPREAD if how is _DOT else _SPREAD / 2)
        shown = how if len(usual) <= _MANY or how is _DOT else {**how, "markersize": 3.2}
        axes.plot(x, y, zorder=3 if how is DIAMOND else 2, clip_on=False, **shown)
        axes.plot(x[len(usual) :], y[len(usual) :], zorder=4, clip_on=False, **RING)
        _write_values(axes, row, list(zip(out, x[len(usual) :], y[len(usual) :], strict=True)), look)


def _draw_box(axes: Axes, line: float, row: BoxGroup) -> None:
    """The middle half, the median, and whiskers to the last values that are not outliers."""
    usual = row.numbers[~row.is_outlier]
    box, height = row.drawn, _HEIGHT * 0.75 if row.is_new.any() else _HEIGHT
    if usual.size and box.count >= LEAST_BOX:
        axes.hlines(line, float(usual.min()), float(usual.max()), color=BOX_EDGE, linewidth=0.8, zorder=1)
        axes.barh(line, box.third - box.first, height, box.first, color=BOX, edgecolor=BOX_EDGE, linewidth=0.8)
    axes.vlines(box.median, line - height / 2, line + height / 2, color=BOX_EDGE, linewidth=2, zorder=2.5)


def _write_values(axes: Axes, row: BoxGroup, marks: Sequence[tuple[int, float, float]], look: _Look) -> None:
    """Name the animals of a few outliers, and write values that are beyond the edge: those that have room."""
    low, high = axes.get_xlim()
    written: list[float] = []
    for place, x, y in marks:
        number = float(row.numbers[place])
        name = row.animal(place) if int(row.ids[place]) in look.named else ""
        beyond = ("→ " if number >= high else "← ") + look.number(number) if not low < number < high else ""
        text = " ".join(part for part in (name, beyond) if part)
        if not text or any(abs(x - other) < _ROOM * (high - low) for other in written):
            continue
        written.append(x)
        name_point(axes, text, x, y, zorder=5)


def _add_legend(figure: Figure, rows: Sequence[BoxGroup], catalogue: Catalogue) -> None:
    with_new = any(row.is_new.any() for row in rows)
    earlier = catalogue.say("earlier value") if with_new else catalogue.say("value")
    outlier = catalogue.say("outlier: over {ranges} interquartile ranges beyond a quartile", ranges=RANGES)
    entries = [(_DOT, earlier)] if any((~row.is_new).any() for row in rows) else []
    if with_new:
        entries.append((DIAMOND, catalogue.say("new value")))
    add_legend(figure, [*entries, (_MEDIAN, catalogue.say("median")), (RING, outlier)])


MAX_ROWS: Final = 28
"""Groups of a picture; beyond, those of other centres are drawn together."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a picture is drawn from: the values that were taken, and the groups that they form."""

    parameter_values: ParameterValues
    groups: tuple[BoxGroup, ...]

    def marked(self, *, new: bool) -> int:
        """How many outliers there are among the new values, or among the earlier ones of the centre."""
        own = [group for group in self.groups if group.centre == self.parameter_values.centre]
        return sum(int((group.is_outlier & (group.is_new == new)).sum()) for group in own)


def groups_of(parameter_values: ParameterValues) -> Distribution:
    """The values by centre, sex and zygosity; those of other centres by sex alone, or together, where they are many."""
    parts: dict[_Kind, list[Value]] = {}
    ways: tuple[Callable[[Value], _Kind], ...] = (
        _in_full,
        lambda value: (value.centre, value.gender, None),
        lambda value: (None, value.gender, value.zygosity),
    )
    for of_others in ways:
        parts = defaultdict(list)
        for value in parameter_values.values:
            parts[_in_full(value) if value.centre == parameter_values.centre else of_others(value)].append(value)
        if len(parts) <= MAX_ROWS:
            break
    everything = numbers_of([value.number for value in parameter_values.values])
    wider: dict[str | None, list[float]] = defaultdict(list)
    for (centre, _, _), values in parts.items():
        wider[centre] += [value.number for value in values]

    def place(kind: _Kind) -> tuple[bool, str, str, str]:
        centre, gender, zygosity = kind
        return centre != parameter_values.centre, centre or "", gender or "\U0010ffff", zygosity or "\U0010ffff"

    groups = [_group(kind, parts[kind], numbers_of(wider[kind[0]]), everything) for kind in sorted(parts, key=place)]
    return Distribution(parameter_values, tuple(groups))


_Kind = tuple[str | None, str | None, str | None]
"""Centre, sex and zygosity."""


def _in_full(value: Value) -> _Kind:
    return value.centre, value.gender, value.zygosity


def picture_of(found: Distribution, catalogue: Catalogue) -> Picture:
    """The picture of a distribution."""
    parameter_values = found.parameter_values
    title, subtitle = heading_of(catalogue, parameter_values)
    # The picture keeps the groups that it is drawn from, but not all values that were taken.
    groups = found.groups
    unit = shown_text(parameter_values.unit)
    counts = catalogue.say("In brackets: how many values.")
    if parameter_values.has_new:
        counts = catalogue.say("In brackets: how many values, earlier and new.")
    rule = catalogue.say(
        "An outlier is a value more than {ranges} interquartile ranges below the first or above the third quartile. "
        "The quartiles are those of the earlier values of its group if these are at least {least}. Else they are of "
        "all of its group, its centre, or the picture: of the first that has {least}.",
        ranges=RANGES,
        least=LEAST_VALUES,
    )

    def draw(figure: Figure) -> None:
        draw_rows(figure, groups, catalogue, title=title, subtitle=subtitle, unit=unit)

    return Picture(
        name=file_name_of("distribution", parameter_values.centre, parameter_values.parameter.parameter_id),
        title=title,
        caption=caption_of(catalogue, parameter_values, counts),
        rule=rule,
        alt=description_of(catalogue, groups, parameter_values.unit),
        size=(WIDTH, height_of(groups)),
        draw=draw,
        outliers=found.marked(new=True),
    )


def _group(kind: _Kind, values: Sequence[Value], *wider: Numbers) -> BoxGroup:
    """A group of values, judged by its earlier ones, all of it, or the `wider` sets: the first that has enough."""
    numbers = numbers_of([value.number for value in values])
    is_new = np.array([value.is_new for value in values])
    judged_by, drawn = judging_box(numbers[~is_new], numbers, *wider), box_of(numbers)
    if judged_by is None or drawn is None:
        raise AssertionError("a group has values")
    ids, is_outlier = np.array([value.id for value in values], dtype=np.int64), judged_by.outside(numbers)
    animals = {place: values[place].specimen_id or "" for place in np.flatnonzero(is_new & is_outlier).tolist()}
    return BoxGroup(*kind, ids, numbers, is_new, is_outlier, animals, judged_by, drawn)
