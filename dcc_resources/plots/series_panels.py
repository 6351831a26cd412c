"""Panels side by side, one for each sex: how series are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dcc_resources.languages import Catalogue
from dcc_resources.plots.box_rows import DIAMOND, RING, edges
from dcc_resources.plots.look import BOX_EDGE, GRID, INK, NEW, add_legend, lay_out, written
from dcc_resources.plots.outliers import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dcc_resources.plots.series import Line, Panel

HEIGHT: Final = 3.9
"""Inches."""
LEAST_BAND: Final = 5
"""Values that quartiles at an increment are drawn of."""
MOST_NAMED: Final = 4
"""Animals with outliers that are named in a panel."""
_MANY: Final = 15
_MOST_TICKS: Final = 8
_MOST_MARKED: Final = 16
"""Values of a line that are marked one by one."""

_BAND: Final[dict[str, Any]] = {"color": "#d3dde7", "linewidth": 0}
_BAND_EDGE: Final[dict[str, Any]] = {"color": BOX_EDGE, "linewidth": 0.9, "linestyle": (0, (1, 1.5))}
_MEDIAN: Final[dict[str, Any]] = {"color": BOX_EDGE, "linewidth": 1.8}
_LINE: Final[dict[str, Any]] = {"color": NEW, "linewidth": 0.9}
_DASHED: Final[dict[str, Any]] = {**_LINE, "linestyle": (0, (4, 2))}


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of the legend and the axis, and how numbers are written."""

    band: str
    median: str
    new: str
    new_wild_type: str
    outlier: str
    increment: str
    number: Callable[[float], str]


def words_in(catalogue: Catalogue, is_place: bool, with_new: bool) -> Words:
    """The texts in a language; `is_place`: the axis is the place in the series; `with_new`: some values are new."""
    return Words(
        catalogue.text("earlier: middle half") if with_new else catalogue.text("middle half"),
        catalogue.text("median"),
        catalogue.text("new"),
        catalogue.text("new, wild type"),
        catalogue.text("outlier"),
        catalogue.text("place in the series") if is_place else catalogue.text("increment"),
        partial(written, catalogue),
    )


def draw_panels(
    figure: Figure,
    panels: Sequence[Panel],
    names: Sequence[str],
    *,
    title: str,
    subtitle: str,
    unit: str,
    words: Words,
) -> None:
    """Draw the panels, which have one scale."""
    low, high = _limits(panels)
    axes = lay_out(figure, title, subtitle, left=0.75, bottom=0.5, panels=len(panels), gap=0.12)
    axes[0].set_ylim(low, high)
    axes[0].set_ylabel(unit)
    axes[0].yaxis.set_major_formatter(lambda value, _: words.number(value))
    for each, panel, name in zip(axes, panels, names, strict=True):
        each.set_title(name, loc="left", fontsize=8.5, color=INK, pad=3)
        each.set_xlabel(words.increment)
        each.xaxis.set_major_formatter(lambda value, _: words.number(value))
        each.grid(axis="y", color=GRID, linewidth=0.6)
        if len(panel.steps) <= _MOST_TICKS:
            each.set_xticks([step.x for step in panel.steps])
        _draw_panel(each, panel, (low, high))
    _add_legend(figure, panels, words)


def _limits(panels: Sequence[Panel]) -> tuple[float, float]:
    boxes = [step.earlier for panel in panels for step in panel.steps if step.earlier is not None]
    earlier = [number for box in boxes for number in (box.first, box.third)]
    lines = [line for panel in panels for line in panel.lines]
    usual = [*earlier, *(number for line in lines for number in line.y[~line.is_outlier])]
    return edges(np.array([*earlier, *(number for line in lines for number in line.y)]), np.array(usual))


def _draw_panel(axes: Axes, panel: Panel, limits: tuple[float, float]) -> None:
    steps = [step for step in panel.steps if step.earlier is not None and step.earlier.count >= LEAST_BAND]
    x = np.array([step.x for step in steps])
    quartiles = np.array(
        [(step.earlier.first, step.earlier.median, step.earlier.third) for step in steps if step.earlier]
    )
    if steps:
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
        if line.x.size <= _MOST_MARKED and not faint:
            axes.plot(line.x, y, zorder=4, clip_on=False, **{**DIAMOND, "markersize": 3.4})
        axes.plot(line.x[marked], y[marked], zorder=5, clip_on=False, **RING)
        if marked.any() and named < MOST_NAMED:
            named += 1
            _name(axes, line, y)


def _name(axes: Axes, line: Line, y: Numbers) -> None:
    place = int(np.flatnonzero(line.is_outlier)[0])
    low, high = axes.get_xlim()
    is_right = line.x[place] > (low + high) / 2
    axes.annotate(
        line.specimen_id,
        (float(line.x[place]), float(y[place])),
        xytext=(-7 if is_right else 7, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=7.5,
        color=INK,
        zorder=6,
    )


def _add_legend(figure: Figure, panels: Sequence[Panel], words: Words) -> None:
    lines = [line for panel in panels for line in panel.lines]
    entries: list[tuple[dict[str, Any], str]] = []
    if any(step.earlier and step.earlier.count >= LEAST_BAND for panel in panels for step in panel.steps):
        entries += [({**_BAND, "linewidth": 7, "solid_capstyle": "butt"}, words.band), (_MEDIAN, words.median)]
    if any(not line.is_wild_type for line in lines):
        entries.append((_LINE, words.new))
    if any(line.is_wild_type for line in lines):
        entries.append((_DASHED, words.new_wild_type))
    if any(line.is_outlier.any() for line in lines):
        entries.append((RING, words.outlier))
    add_legend(figure, entries)
