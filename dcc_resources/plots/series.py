"""Series parameters: how values go with the increment, by sex, with the animals of a submission as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from dcc_resources.languages import Catalogue
from dcc_resources.outcomes import ZipKey
from dcc_resources.plots import series_panels
from dcc_resources.plots.look import WIDTH, shown, word_for
from dcc_resources.plots.outliers import Box, Numbers, box_of, judging_box, numbers_of
from dcc_resources.plots.picture import Picture, PictureKind, file_name_of
from dcc_resources.plots.samples import MOST_VALUES, Value, scattered
from dcc_resources.plots.taking import Taken, require
from dcc_resources.plots.wording import caption_of, description_of_series, drawn_of_series, heading_of, rule_of_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STEPS: Final = 48
"""Increments that boxes are made for; of more, neighbouring ones are taken together."""
MOST_PANELS: Final = 3
MOST_LINES: Final = 24
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
    earlier: int
    lines: tuple[Line, ...]
    new: int
    outliers: int


@dataclass(frozen=True, slots=True)
class Series:
    """What a picture is drawn from; `is_place`: x is the place in the series, since increments are no numbers."""

    taken: Taken
    panels: tuple[Panel, ...]
    is_place: bool

    @property
    def outliers(self) -> int:
        """How many of the new values are outliers."""
        return sum(panel.outliers for panel in self.panels)


def draw_series(
    qc: Connection,
    catalogue: Catalogue,
    *,
    centre: str,
    parameter_id: str,
    key: ZipKey | None = None,
    fonts: Path | None = None,
    most: int = MOST_VALUES,
) -> Picture:
    """A series parameter at a centre: quartiles of what was there, and the animals of the zip action `key` as lines.

    Raises NotFoundError where there is no number to draw at this centre.
    """
    return picture_of(in_panels(require(qc, parameter_id, centre, key, with_others=False, most=most)), catalogue, fonts)


def in_panels(taken: Taken) -> Series:
    """The series of a centre by sex."""
    both = [*taken.own.earlier, *taken.own.new]
    positions = _numeric(both)
    is_place = positions is None
    x = numbers_of([value.item or 0 for value in both]) if positions is None else positions
    y = numbers_of([value.number for value in both])
    steps, step_of = _steps(x)
    is_new = np.arange(len(both)) >= len(taken.own.earlier)
    genders = np.array([value.gender or "" for value in both])
    usual = sorted(set(genders.tolist()), key=lambda word: (-int((genders == word).sum()), word))[:MOST_PANELS]
    panels = [
        _panel(gender, both, x, y, steps, step_of, is_new, genders == gender)
        for gender in sorted(usual, key=lambda word: word or "\U0010ffff")
    ]
    return Series(taken, tuple(panels), is_place)


def picture_of(found: Series, catalogue: Catalogue, fonts: Path | None = None) -> Picture:
    """The picture of series."""
    taken = found.taken
    title, subtitle = heading_of(catalogue, taken)
    names = [
        word_for(catalogue, panel.gender) if panel.gender else catalogue.text("not of one animal")
        for panel in found.panels
    ]
    headings = [f"{name}  {_counted(catalogue, panel)}" for name, panel in zip(names, found.panels, strict=True)]
    words = series_panels.words_in(catalogue, found.is_place, bool(taken.own.new))

    def draw(figure: Figure) -> None:
        unit = shown(taken.unit)
        series_panels.draw_panels(
            figure, found.panels, headings, title=title, subtitle=subtitle, unit=unit, words=words
        )

    return Picture(
        name=file_name_of(PictureKind.SERIES, taken.centre, taken.parameter.parameter_id),
        kind=PictureKind.SERIES,
        title=title,
        caption=caption_of(catalogue, taken, drawn_of_series(catalogue)),
        rule=rule_of_series(catalogue),
        alt=description_of_series(catalogue, list(zip(names, found.panels, strict=True)), shown(taken.unit)),
        size=(WIDTH, series_panels.HEIGHT),
        draw=draw,
        parameter_id=taken.parameter.parameter_id,
        outliers=found.outliers,
        fonts=fonts,
    )


def _counted(catalogue: Catalogue, panel: Panel) -> str:
    """How many new series there are, or of how many some are drawn."""
    new = catalogue.number(panel.new)
    if len(panel.lines) < panel.new:
        return catalogue.text("({drawn} of {all})", drawn=catalogue.number(len(panel.lines)), all=new)
    return f"({new})" if panel.new else ""


def _numeric(values: Sequence[Value]) -> Numbers | None:
    """The increments as numbers; None unless all are."""
    found = []
    for value in values:
        try:
            number = float(value.increment or "")
        except ValueError:
            return None
        if not isfinite(number):
            return None
        found.append(number)
    return numbers_of(found)


def _steps(x: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
    """The increments that boxes are made for, and of each value which one it is."""
    steps, step_of = np.unique(x, return_inverse=True)
    if steps.size > MOST_STEPS:
        low, high = float(x.min()), float(x.max())
        step_of = np.minimum((x - low) / (high - low) * MOST_STEPS, MOST_STEPS - 1).astype(np.intp)
        steps = low + (np.arange(MOST_STEPS) + 0.5) * (high - low) / MOST_STEPS
    return steps, step_of


def _panel(
    gender: str,
    values: Sequence[Value],
    x: Numbers,
    y: Numbers,
    steps: Numbers,
    step_of: NDArray[np.intp],
    is_new: NDArray[np.bool_],
    is_own: NDArray[np.bool_],
) -> Panel:
    is_outlier = np.zeros(len(values), dtype=bool)
    drawn = []
    for number, step in enumerate(steps.tolist()):
        here = step_of == number
        earlier = y[here & is_own & ~is_new]
        judged_by = judging_box(earlier, y[here & is_own], y[here])
        if judged_by is not None:
            is_outlier[here & is_own & is_new] = judged_by.outside(y[here & is_own & is_new])
        drawn.append(Step(step, box_of(earlier)))
    lines = _lines(values, x, y, is_outlier, np.flatnonzero(is_own & is_new))
    return Panel(
        gender or None,
        tuple(drawn),
        int((is_own & ~is_new).sum()),
        tuple(sorted(lines, key=lambda line: (-int(line.is_outlier.sum()), scattered(line.run)))[:MOST_LINES]),
        len(lines),
        int(is_outlier.sum()),
    )


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
            Line(run, shown(first.specimen_id or "", 24), is_wild_type, x[ordered], y[ordered], is_outlier[ordered])
        )
    return lines
