"""Boxes, one below the other, with the values that they are made of: how a distribution is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcc.reports.languages import Catalogue
from dcc.reports.plots.picture import (
    BOX,
    BOX_EDGE,
    EARLIER,
    GRID,
    HEADING,
    NEW,
    OUTLIER,
    add_legend,
    format_number,
    lay_out,
    name_point,
    shown_text,
    word_for,
)
from dcc.reports.plots.values import RANGES, Box, Numbers, pseudo_random

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    low, high = _limits(rows)
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


def _limits(rows: Sequence[BoxGroup]) -> tuple[float, float]:
    usual = np.concatenate([row.numbers[~row.is_outlier] for row in rows])
    return axis_limits(np.concatenate([row.numbers for row in rows]), usual)


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
        usual = _first(np.flatnonzero(own & ~row.is_outlier), row, look.dots)
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


def _first(places: NDArray[np.intp], row: BoxGroup, limit: int) -> list[int]:
    """At most so many of the places, by the scattered order of their ids."""
    if places.size <= limit:
        return list(places.tolist())
    return sorted(places.tolist(), key=lambda place: pseudo_random(int(row.ids[place])))[:limit]


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
