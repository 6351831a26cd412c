"""Series parameters: how values go with the increment, by sex, with the animals of a submission as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcc.documents.lexical import parse_number
from dcc.reports.languages import Catalogue
from dcc.reports.plots.distributions import DIAMOND, RING, axis_limits, caption_of, heading_of
from dcc.reports.plots.picture import (
    BOX_EDGE,
    GRID,
    INK,
    NEW,
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

MAX_STEPS: Final = 48
"""Increments that boxes are made for; of more, neighbouring ones are taken together."""
MAX_PANELS: Final = 3
MAX_LINES: Final = 24
"""Lines of a panel: those with outliers first."""

WILD_TYPE: Final = "wild type"


class Step(NamedTuple):
    """The values at an increment `x`: the box of those that were there before, if any, and whether that is a few."""

    x: float
    earlier: Box | None


@dataclass(frozen=True, slots=True)
class Line:
    """The series of one procedure run that a submission brought, in the order of its increments."""

    run: int
    specimen_id: str
    is_wild_type: bool
    x: Numbers
    y: Numbers
    is_outlier: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Panel:
    """The series of one sex: `lines` are new, of `new` that there are."""

    gender: str | None
    steps: tuple[Step, ...]
    lines: tuple[Line, ...]
    new: int
    outliers: int

    @property
    def band(self) -> list[tuple[float, Box]]:
        """The increments at which quartiles of earlier values are drawn, with their boxes."""
        return [(step.x, step.earlier) for step in self.steps if step.earlier and step.earlier.count >= LEAST_BAND]


@dataclass(frozen=True, slots=True)
class Series:
    """What a picture is drawn from; `is_place`: x is the place in the series, since increments are no numbers."""

    parameter_values: ParameterValues
    panels: tuple[Panel, ...]
    is_place: bool

    @property
    def outliers(self) -> int:
        """How many of the new values are outliers."""
        return sum(panel.outliers for panel in self.panels)


def in_panels(parameter_values: ParameterValues) -> Series:
    """The series of a centre by sex."""
    values = parameter_values.own
    positions: list[float | int | None] = [parse_number(value.increment or "") for value in values]
    is_place = None in positions
    x = numbers_of([value.item or 0 for value in values] if is_place else positions)
    y = numbers_of([value.number for value in values])
    steps, step_of = _steps(x)
    is_new = np.array([value.is_new for value in values])
    genders = np.array([value.gender or "" for value in values])

    def panel(gender: str) -> Panel:
        is_own, is_outlier, drawn = genders == gender, np.zeros(len(values), dtype=bool), []
        for number, step in enumerate(steps.tolist()):
            here = step_of == number
            earlier, new = y[here & is_own & ~is_new], here & is_own & is_new
            judged_by = judging_box(earlier, y[here & is_own], y[here])
            if judged_by is not None:
                is_outlier[new] = judged_by.outside(y[new])
            drawn.append(Step(step, box_of(earlier)))
        lines = _lines(values, x, y, is_outlier, np.flatnonzero(is_own & is_new))
        first = sorted(lines, key=lambda line: (-int(line.is_outlier.sum()), pseudo_random(line.run)))[:MAX_LINES]
        return Panel(gender or None, tuple(drawn), tuple(first), len(lines), int(is_outlier.sum()))

    usual = sorted(set(genders.tolist()), key=lambda word: (-int((genders == word).sum()), word))[:MAX_PANELS]
    return Series(parameter_values, tuple(map(panel, sorted(usual, key=lambda word: word or "\U0010ffff"))), is_place)


def picture_of(found: Series, catalogue: Catalogue) -> Picture:
    """The picture of series."""
    parameter_values = found.parameter_values
    title, subtitle = heading_of(catalogue, parameter_values)
    names = [
        word_for(catalogue, panel.gender) if panel.gender else catalogue.say("not of one animal")
        for panel in found.panels
    ]
    headings = [f"{name}  {_counted(catalogue, panel)}" for name, panel in zip(names, found.panels, strict=True)]
    unit = shown_text(parameter_values.unit)
    drawn_how = catalogue.say(
        "Drawn are the median and the middle half of the earlier values of this centre at each increment, and the new "
        "series as lines."
    )
    rule = catalogue.say(
        "In a series, an outlier is a value more than {ranges} interquartile ranges below the first or above the third "
        "quartile at its increment. The quartiles are those of the earlier values of its sex if these are at least "
        "{least}. Else they are of all of its sex, or of both: of the first that has {least}.",
        ranges=RANGES,
        least=LEAST_VALUES,
    )

    def draw(figure: Figure) -> None:
        axes = lay_out(figure, title, subtitle, left=0.75, bottom=0.5, panels=len(headings), gap=0.12)
        axes[0].set_ylabel(unit)
        _draw_panels(axes, found, headings, catalogue)
        _add_legend(figure, found.panels, catalogue)

    return Picture(
        name=file_name_of("series", parameter_values.centre, parameter_values.parameter.parameter_id),
        title=title,
        caption=caption_of(catalogue, parameter_values, drawn_how),
        rule=rule,
        alt=description_of_series(catalogue, list(zip(names, found.panels, strict=True)), unit),
        size=(WIDTH, HEIGHT),
        draw=draw,
        outliers=found.outliers,
    )


def _counted(catalogue: Catalogue, panel: Panel) -> str:
    """How many new series there are, or of how many some are drawn."""
    new = catalogue.number(panel.new)
    if len(panel.lines) < panel.new:
        return catalogue.say("({drawn} of {all})", drawn=catalogue.number(len(panel.lines)), all=new)
    return f"({new})" if panel.new else ""


def _steps(x: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
    """The increments that boxes are made for, and of each value which one it is."""
    steps, step_of = np.unique(x, return_inverse=True)
    if steps.size > MAX_STEPS:
        low, high = float(x.min()), float(x.max())
        step_of = np.minimum((x - low) / (high - low) * MAX_STEPS, MAX_STEPS - 1).astype(np.intp)
        steps = low + (np.arange(MAX_STEPS) + 0.5) * (high - low) / MAX_STEPS
    return steps, step_of


def _lines(
    values: Sequence[Value], x: Numbers, y: Numbers, is_outlier: NDArray[np.bool_], places: NDArray[np.intp]
) -> list[Line]:
    runs: dict[int, list[int]] = {}
    for place in places.tolist():
        runs.setdefault(values[place].run, []).append(place)
    lines = []
    for run, own in runs.items():
        ordered = sorted(own, key=lambda place: (x[place], values[place].item or 0))
        first = values[ordered[0]]
        is_wild_type = first.zygosity == WILD_TYPE
        lines.append(
            Line(
                run, shown_text(first.specimen_id or "", 24), is_wild_type, x[ordered], y[ordered], is_outlier[ordered]
            )
        )
    return lines


def description_of_series(catalogue: Catalogue, panels: Sequence[tuple[str, Panel]], unit: str) -> str:
    """A description of the picture of series."""
    parts = []
    for name, panel in panels:
        known = [step for step in panel.steps if step.earlier is not None]
        if known and known[0].earlier and known[-1].earlier:
            parts.append(
                catalogue.say(
                    "{group}: earlier medians go from {first} at {start} to {last} at {end}.",
                    group=name,
                    first=format_quantity(catalogue, known[0].earlier.median, unit),
                    start=format_number(catalogue, known[0].x),
                    last=format_quantity(catalogue, known[-1].earlier.median, unit),
                    end=format_number(catalogue, known[-1].x),
                )
            )
        if panel.new:
            text = catalogue.say_plural(
                "{group}: one new series.", "{group}: {number} new series.", panel.new, group=name
            )
            parts.append(text)
        if panel.outliers:
            animals = list(dict.fromkeys(line.specimen_id for line in panel.lines if line.is_outlier.any()))[:3]
            parts.append(
                catalogue.say_plural(
                    "One of their values is an outlier: {named}.",
                    "{number} of their values are outliers, most of them of: {named}.",
                    panel.outliers,
                    named=catalogue.list(animals),
                )
            )
    return " ".join(parts)


# How panels are drawn, side by side, one for each sex.

HEIGHT: Final = 3.9
"""Inches."""
LEAST_BAND: Final = 5
"""Values that quartiles at an increment are drawn of."""
MAX_NAMED: Final = 4
"""Animals with outliers that are named in a panel."""
_MANY: Final = 15
_MAX_TICKS: Final = 8
_MAX_MARKED: Final = 16
"""Values of a line that are marked one by one."""

_BAND: Final[dict[str, Any]] = {"color": "#d3dde7", "linewidth": 0}
_BAND_EDGE: Final[dict[str, Any]] = {"color": BOX_EDGE, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
_MEDIAN: Final[dict[str, Any]] = {"color": BOX_EDGE, "linewidth": 1.8}
_LINE: Final[dict[str, Any]] = {"color": NEW, "linewidth": 0.9}
_DASHED: Final[dict[str, Any]] = {**_LINE, "linestyle": (0, (4, 2))}


def _draw_panels(axes: Sequence[Axes], found: Series, headings: Sequence[str], catalogue: Catalogue) -> None:
    """Draw the panels, which have one scale."""
    low, high = _limits(found.panels)
    axes[0].set_ylim(low, high)
    axes[0].yaxis.set_major_formatter(lambda value, _: format_number(catalogue, value))
    increment = catalogue.say("place in the series") if found.is_place else catalogue.say("increment")
    for each, panel, heading in zip(axes, found.panels, headings, strict=True):
        each.set_title(heading, loc="left", fontsize=8.5, color=INK, pad=3)
        each.set_xlabel(increment)
        each.xaxis.set_major_formatter(lambda value, _: format_number(catalogue, value))
        each.grid(axis="y", color=GRID, linewidth=0.6)
        if len(panel.steps) <= _MAX_TICKS:
            each.set_xticks([step.x for step in panel.steps])
        _draw_panel(each, panel, (low, high))


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    boxes = [step.earlier for panel in panels for step in panel.steps if step.earlier is not None]
    earlier = [number for box in boxes for number in (box.first, box.third)]
    lines = [line for panel in panels for line in panel.lines]
    usual = [*earlier, *(number for line in lines for number in line.y[~line.is_outlier])]
    return axis_limits(np.array([*earlier, *(number for line in lines for number in line.y)]), np.array(usual))


def _draw_panel(axes: Axes, panel: Panel, limits: tuple[float, float]) -> None:
    band = panel.band
    if band:
        x = np.array([increment for increment, _ in band])
        quartiles = np.array([(box.first, box.median, box.third) for _, box in band])
        axes.fill_between(x, quartiles[:, 0], quartiles[:, 2], zorder=1, **_BAND)
        # Above the lines, which may be many.
        axes.plot(x, quartiles[:, 0], zorder=4.5, **_BAND_EDGE)
        axes.plot(x, quartiles[:, 2], zorder=4.5, **_BAND_EDGE)
        axes.plot(x, quartiles[:, 1], zorder=4.5, **_MEDIAN)
    named = 0
    for line in panel.lines:
        y = np.clip(line.y, *limits)
        marked = line.is_outlier
        faint = {"linewidth": 0.6, "alpha": 0.55} if len(panel.lines) > _MANY and not marked.any() else {}
        axes.plot(line.x, y, zorder=3, **{**(_DASHED if line.is_wild_type else _LINE), **faint})
        if line.x.size <= _MAX_MARKED and not faint:
            axes.plot(line.x, y, zorder=4, clip_on=False, **{**DIAMOND, "markersize": 3.4})
        axes.plot(line.x[marked], y[marked], zorder=5, clip_on=False, **RING)
        if marked.any() and named < MAX_NAMED:
            named += 1
            place = int(np.flatnonzero(marked)[0])
            name_point(axes, line.specimen_id, float(line.x[place]), float(y[place]), zorder=6)


def _add_legend(figure: Figure, panels: Sequence[Panel], catalogue: Catalogue) -> None:
    lines = [line for panel in panels for line in panel.lines]
    entries: list[tuple[dict[str, Any], str]] = []
    if any(panel.band for panel in panels):
        with_new = any(panel.new for panel in panels)
        band = catalogue.say("earlier: middle half") if with_new else catalogue.say("middle half")
        entries += [({**_BAND, "linewidth": 7, "solid_capstyle": "butt"}, band), (_MEDIAN, catalogue.say("median"))]
    if any(not line.is_wild_type for line in lines):
        entries.append((_LINE, catalogue.say("new")))
    if any(line.is_wild_type for line in lines):
        entries.append((_DASHED, catalogue.say("new, wild type")))
    if any(line.is_outlier.any() for line in lines):
        entries.append((RING, catalogue.say("outlier")))
    add_legend(figure, entries)
