"""How pictures look: colours that differ for colour-blind eyes and in grey, marks that differ by their shapes.

Colours are Okabe and Ito's. Earlier values are small grey dots, new ones are diamonds, and a ring around a mark tells
an outlier, so that nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dcc.reports.languages import Catalogue, mark
from dcc.runtime.legible_text import legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH: Final = 7.2
"""Inches; what fits on a page of paper."""
HEADING: Final = 0.85
"""Inches above the panels: for the title, a line below it, and the legend."""

EARLIER: Final = "#767676"
BOX: Final = "#e6edf3"
BOX_EDGE: Final = "#3d4a57"
NEW: Final = "#0072b2"
OUTLIER: Final = "#c44601"
INK: Final = "#1f1f1f"
GRID: Final = "#dddddd"

_LONGEST: Final = 40
_LEAST_PLAIN: Final = 1e-5
_MOST_PLAIN: Final = 1e9

KNOWN_WORDS: Final = (
    mark("male"),
    mark("female"),
    mark("hermaphrodite"),
    mark("indeterminate"),
    mark("no data"),
    mark("homozygous"),
    mark("heterozygous"),
    mark("hemizygous"),
    mark("wild type"),
    mark("anzygous"),
)
"""Sexes and zygosities that documents may name, which are translated."""


def shown(text: str, longest: int = _LONGEST) -> str:
    """A text from outside as a picture has it: nothing unseen in it, and not longer than so many characters."""
    text = legible(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def word_for(catalogue: Catalogue, word: str) -> str:
    """A sex or zygosity in the reader's language."""
    return catalogue.text(word) if word in KNOWN_WORDS else shown(word)


def written(catalogue: Catalogue, number: float) -> str:
    """A number as the reader's language writes it; one with very many digits by its power of ten (`1.5e+30`)."""
    if number == 0 or _LEAST_PLAIN <= abs(number) < _MOST_PLAIN:
        return catalogue.number(number)
    return f"{number:.3g}"


def lay_out(
    figure: Figure, title: str, subtitle: str, *, left: float, bottom: float, panels: int = 1, gap: float = 0
) -> list[Axes]:
    """Panels side by side below a heading; `left`, `bottom` and `gap`, below the heading, are in inches."""
    width, height = figure.get_size_inches()
    given = {"xycoords": "figure fraction", "va": "top", "annotation_clip": False, "color": INK}
    figure.subplots_adjust(
        left=left / width, right=1 - 0.25 / width, bottom=bottom / height, top=1 - (HEADING + gap) / height, wspace=0.08
    )
    axes = list(figure.subplots(1, panels, sharey=True, squeeze=False)[0])
    margin = 0.1 / width
    axes[0].annotate(shown(title, 84), (margin, 1 - 0.1 / height), fontsize=10.5, fontweight="bold", **given)
    axes[0].annotate(shown(subtitle, 120), (margin, 1 - 0.32 / height), **given)
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.set_axisbelow(True)
    return axes


def name_point(axes: Axes, text: str, x: float, y: float, zorder: int) -> None:
    """Write beside a point what it is, on the side towards the middle."""
    low, high = axes.get_xlim()
    is_right = x > (low + high) / 2
    axes.annotate(
        text,
        (x, y),
        xytext=(-7 if is_right else 7, 0),
        textcoords="offset points",
        ha="right" if is_right else "left",
        va="center",
        fontsize=7.5,
        color=INK,
        zorder=zorder,
    )


def add_legend(figure: Figure, entries: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """A line below the heading that tells what marks mean: pairs of how a line is drawn, and what it means."""
    from matplotlib.lines import Line2D

    width, height = figure.get_size_inches()
    figure.legend(
        handles=[Line2D([], [], label=label, **how) for how, label in entries],
        loc="upper left",
        bbox_to_anchor=(0.06 / width, 1 - 0.5 / height),
        ncols=len(entries),
        frameon=False,
        borderaxespad=0,
        borderpad=0.2,
        handletextpad=0.3,
        columnspacing=1.1,
        fontsize=8,
    )
