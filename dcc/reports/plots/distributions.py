"""The distribution of a numeric parameter by centre, sex and zygosity, with what a submission brought picked out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from dcc.reports.languages import Catalogue
from dcc.reports.plots import boxes
from dcc.reports.plots.boxes import Group
from dcc.reports.plots.captions import caption_of, counts_of, description_of, heading_of, rule_of
from dcc.reports.plots.picture import WIDTH, Picture, PictureKind, file_name_of, shown_text
from dcc.reports.plots.values import Numbers, ParameterValues, Value, Values, box_of, judging_box, numbers_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS: Final = 28
"""Groups of a picture; beyond, those of other centres are drawn together."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a picture is drawn from: the values that were taken, and the groups that they form."""

    taken: ParameterValues
    groups: tuple[Group, ...]

    def marked(self, *, new: bool) -> int:
        """How many outliers there are among the new values, or among the earlier ones of the centre."""
        own = [group for group in self.groups if group.centre == self.taken.centre]
        return sum(int((group.is_outlier & (group.is_new == new)).sum()) for group in own)


def groups_of(taken: ParameterValues) -> Distribution:
    """The values by centre, sex and zygosity; those of other centres by sex alone, or together, where they are many."""
    everything = np.concatenate([values.numbers for values in (taken.own, *taken.others.values())])
    own = _groups(taken.centre, taken.own, everything)
    for by_zygosity in (True, False):
        others = [
            group for name, values in taken.others.items() for group in _groups(name, values, everything, by_zygosity)
        ]
        if len(own) + len(others) <= MOST_ROWS:
            return Distribution(taken, (*own, *others))
    together = Values([value for values in taken.others.values() for value in values.earlier], [])
    return Distribution(taken, (*own, *_groups(None, together, everything)))


def picture_of(found: Distribution, catalogue: Catalogue) -> Picture:
    """The picture of a distribution."""
    title, subtitle = heading_of(catalogue, found.taken)
    taken = found.taken
    # The picture keeps the groups that it is drawn from, but not all values that were taken.
    groups = found.groups
    unit = shown_text(taken.unit)

    def draw(figure: Figure) -> None:
        boxes.draw_rows(figure, groups, catalogue, title=title, subtitle=subtitle, unit=unit)

    return Picture(
        name=file_name_of(PictureKind.DISTRIBUTION, taken.centre, taken.parameter.parameter_id),
        kind=PictureKind.DISTRIBUTION,
        title=title,
        caption=caption_of(catalogue, taken, counts_of(catalogue, taken)),
        rule=rule_of(catalogue),
        alt=description_of(catalogue, groups, taken.unit),
        size=(WIDTH, boxes.height_of(groups)),
        draw=draw,
        parameter_id=taken.parameter.parameter_id,
        outliers=found.marked(new=True),
    )


def _groups(centre: str | None, values: Values, everything: Numbers, by_zygosity: bool = True) -> list[Group]:
    """The groups of a centre, by sex and then zygosity."""
    parts: dict[tuple[str | None, str | None], list[tuple[Value, bool]]] = defaultdict(list)
    for is_new, some in ((False, values.earlier), (True, values.new)):
        for value in some:
            parts[value.gender, value.zygosity if by_zygosity else None].append((value, is_new))
    ordered = sorted(parts.items(), key=lambda part: tuple(word or "\U0010ffff" for word in part[0]))
    return [_group(centre, *kind, part, (values.numbers, everything)) for kind, part in ordered]


def _group(
    centre: str | None,
    gender: str | None,
    zygosity: str | None,
    part: Sequence[tuple[Value, bool]],
    wider: Sequence[Numbers],
) -> Group:
    numbers, is_new = numbers_of([value.number for value, _ in part]), np.array([new for _, new in part])
    judged_by, drawn = judging_box(numbers[~is_new], numbers, *wider), box_of(numbers)
    if judged_by is None or drawn is None:
        raise AssertionError("a group has values")
    values, is_outlier = tuple(value for value, _ in part), judged_by.outside(numbers)
    return Group(centre, gender, zygosity, values, numbers, is_new, is_outlier, judged_by, drawn)
