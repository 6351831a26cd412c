"""The distribution of a numeric parameter by centre, sex and zygosity, with what a submission brought picked out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dcc.reports.languages import Catalogue
from dcc.reports.plots import boxes
from dcc.reports.plots.boxes import BoxGroup
from dcc.reports.plots.captions import caption_of, counts_of, description_of, heading_of, rule_of
from dcc.reports.plots.picture import WIDTH, Picture, PictureKind, file_name_of, shown_text
from dcc.reports.plots.values import Numbers, ParameterValues, Value, box_of, judging_box, numbers_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    for of_others in (_in_full, _by_sex, _together):
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


def _by_sex(value: Value) -> _Kind:
    return value.centre, value.gender, None


def _together(value: Value) -> _Kind:
    return None, value.gender, value.zygosity


def picture_of(found: Distribution, catalogue: Catalogue) -> Picture:
    """The picture of a distribution."""
    title, subtitle = heading_of(catalogue, found.parameter_values)
    parameter_values = found.parameter_values
    # The picture keeps the groups that it is drawn from, but not all values that were taken.
    groups = found.groups
    unit = shown_text(parameter_values.unit)

    def draw(figure: Figure) -> None:
        boxes.draw_rows(figure, groups, catalogue, title=title, subtitle=subtitle, unit=unit)

    return Picture(
        name=file_name_of(PictureKind.DISTRIBUTION, parameter_values.centre, parameter_values.parameter.parameter_id),
        kind=PictureKind.DISTRIBUTION,
        title=title,
        caption=caption_of(catalogue, parameter_values, counts_of(catalogue, parameter_values)),
        rule=rule_of(catalogue),
        alt=description_of(catalogue, groups, parameter_values.unit),
        size=(WIDTH, boxes.height_of(groups)),
        draw=draw,
        parameter_id=parameter_values.parameter.parameter_id,
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
