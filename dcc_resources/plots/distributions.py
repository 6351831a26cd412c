"""The distribution of a numeric parameter by centre, sex and zygosity, with what a submission brought picked out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import Connection

from dcc_resources.errors import NotFoundError
from dcc_resources.languages import Catalogue
from dcc_resources.outcomes import ZipKey
from dcc_resources.plots import box_rows
from dcc_resources.plots.look import WIDTH, shown, word_for
from dcc_resources.plots.outliers import Box, Numbers, box_of, judging_box, numbers_of
from dcc_resources.plots.picture import Picture, PictureKind, file_name_of
from dcc_resources.plots.samples import (
    MOST_VALUES,
    Parameter,
    Sample,
    Value,
    centres_with,
    documents_of,
    parameter_named,
    sample_of_centre,
    sample_of_documents,
)
from dcc_resources.plots.wording import caption_of, description_of, heading_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS: Final = 28
"""Groups of a picture; beyond, those of other centres are drawn together."""


@dataclass(frozen=True, slots=True)
class Group:
    """Values of a centre, sex and zygosity: those that were there before a submission, and those that it brought.

    `centre` is None where those of other centres are together. `earlier_ids` and `new_values` tell which they are.
    `judged_by` is the box whose fences tell outliers, `drawn` that of all values.
    """

    centre: str | None
    gender: str | None
    zygosity: str | None
    earlier: Numbers
    earlier_ids: tuple[int, ...]
    new: Numbers
    new_values: tuple[Value, ...]
    judged_by: Box
    drawn: Box

    @property
    def new_outliers(self) -> list[Value]:
        """New values that are outliers, the furthest first."""
        marked = self.judged_by.outside(self.new)
        found = [value for value, is_marked in zip(self.new_values, marked, strict=True) if is_marked]
        return sorted(found, key=lambda value: (-self.judged_by.ranges_from(value.number), value.id))


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a picture is drawn from.

    `other_units`: how many values are left out, by their unit. `of` is how many there are where only a sample is drawn,
    else None.
    """

    parameter: Parameter
    centre: str
    key: ZipKey | None
    unit: str
    groups: tuple[Group, ...]
    other_units: Mapping[str, int]
    drawn: int
    of: int | None

    @property
    def outliers(self) -> int:
        """How many of the new values are outliers."""
        return sum(len(group.new_outliers) for group in self.groups)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a centre, or of a group at one: those that were there, and those that a submission brought."""

    earlier: list[Value]
    new: list[Value]

    @property
    def numbers(self) -> Numbers:
        """All of them."""
        return _numbers([*self.earlier, *self.new])


def draw_distribution(
    qc: Connection,
    catalogue: Catalogue,
    *,
    centre: str,
    parameter_id: str,
    key: ZipKey | None = None,
    fonts: Path | None = None,
    most: int = MOST_VALUES,
) -> Picture:
    """The distribution of a parameter at a centre, beside other centres; what the zip action `key` brought picked out.

    Raises NotFoundError where there is no number to draw at this centre.
    """
    parameter = parameter_named(qc, parameter_id)
    found = None if parameter is None else gather(qc, parameter, centre, key, most=most)
    if found is None:
        raise NotFoundError(
            f"Centre {centre} has no current, valid number of parameter {parameter_id}. "
            "See `dcc qc contexts` for what there is."
        )
    return picture_of(found, catalogue, fonts)


def gather(
    qc: Connection, parameter: Parameter, centre: str, key: ZipKey | None, *, most: int = MOST_VALUES
) -> Distribution | None:
    """What the picture is drawn from; None where the centre has no number of it."""
    documents = documents_of(qc, key) if key is not None else []
    new = sample_of_documents(qc, parameter.parameter_id, documents, most=most) if documents else Sample((), 0, True)
    earlier = {
        name: sample_of_centre(qc, parameter.parameter_id, name, without=documents, most=most)
        for name in centres_with(qc, parameter.parameter_id)
    }
    own = earlier.pop(centre, Sample((), 0, True))
    unit = _usual_unit(new.values or own.values)
    if unit is None:
        return None
    samples = [new, own, *earlier.values()]
    others = {name: _Values(_of_unit(sample, unit), []) for name, sample in earlier.items()}
    groups = _grouped(centre, _Values(_of_unit(own, unit), _of_unit(new, unit)), others)
    is_whole = all(sample.is_whole for sample in samples)
    of = None if is_whole else sum(sample.of for sample in (own, *earlier.values()))
    drawn = sum(group.drawn.count for group in groups)
    return Distribution(parameter, centre, key, unit, groups, _other_units(samples, unit), drawn, of)


def picture_of(found: Distribution, catalogue: Catalogue, fonts: Path | None = None) -> Picture:
    """The picture of a distribution."""
    title, subtitle = heading_of(catalogue, found.parameter, found.centre, found.key)
    rows = [
        box_rows.Row(
            label=_label(catalogue, group),
            heading=_centre_label(catalogue, group.centre),
            earlier=group.earlier,
            earlier_ids=group.earlier_ids,
            new=group.new,
            new_names=tuple(shown(value.specimen_id or "", 24) for value in group.new_values),
            new_ids=tuple(value.id for value in group.new_values),
            box=group.drawn,
            judged_by=group.judged_by,
        )
        for group in found.groups
    ]
    words = box_rows.words_in(catalogue)

    def draw(figure: Figure) -> None:
        box_rows.draw_rows(figure, rows, title=title, subtitle=subtitle, unit=shown(found.unit), words=words)

    return Picture(
        name=file_name_of(PictureKind.DISTRIBUTION, found.centre, found.parameter.parameter_id),
        kind=PictureKind.DISTRIBUTION,
        title=title,
        caption=caption_of(catalogue, found.drawn, found.of, found.other_units),
        alt=description_of(catalogue, [(f"{row.heading}, {row.label}", row) for row in rows], found.unit),
        size=(WIDTH, box_rows.height_of(rows)),
        draw=draw,
        parameter_id=found.parameter.parameter_id,
        outliers=found.outliers,
        fonts=fonts,
    )


def _usual_unit(values: Iterable[Value]) -> str | None:
    """The unit that most values have; of several, the first by the alphabet; None where there are no values."""
    numbers = _by_unit(values)
    return min(numbers, key=lambda unit: (-numbers[unit], unit)) if numbers else None


def _by_unit(values: Iterable[Value]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for value in values:
        numbers[value.unit] = numbers.get(value.unit, 0) + 1
    return numbers


def _other_units(samples: Iterable[Sample], unit: str) -> dict[str, int]:
    numbers = _by_unit(value for sample in samples for value in sample.values)
    return {other: numbers[other] for other in sorted(numbers) if other != unit}


def _of_unit(sample: Sample, unit: str) -> list[Value]:
    return [value for value in sample.values if value.unit == unit]


def _grouped(centre: str, own: _Values, others: Mapping[str, _Values]) -> tuple[Group, ...]:
    """All groups: those of the centre, then those of others; these by sex alone, or together, where they are many."""
    everything = np.concatenate([values.numbers for values in (own, *others.values())])
    groups = _groups(centre, own, everything)
    for by_zygosity in (True, False):
        found = [group for name, values in others.items() for group in _groups(name, values, everything, by_zygosity)]
        if len(found) + len(groups) <= MOST_ROWS:
            return (*groups, *found)
    together = _Values([value for values in others.values() for value in values.earlier], [])
    return (*groups, *_groups(None, together, everything))


def _groups(centre: str | None, values: _Values, everything: Numbers, by_zygosity: bool = True) -> list[Group]:
    """The groups of a centre, by sex and then zygosity."""
    parts: dict[tuple[str | None, str | None], _Values] = {}
    for name in ("earlier", "new"):
        for value in getattr(values, name):
            kind = (value.gender, value.zygosity if by_zygosity else None)
            getattr(parts.setdefault(kind, _Values([], [])), name).append(value)
    ordered = sorted(parts.items(), key=lambda part: tuple(word or "\U0010ffff" for word in part[0]))
    return [_group(centre, *kind, part, (values.numbers, everything)) for kind, part in ordered]


def _group(
    centre: str | None, gender: str | None, zygosity: str | None, values: _Values, wider: Sequence[Numbers]
) -> Group:
    before, brought = _numbers(values.earlier), _numbers(values.new)
    judged_by, drawn = judging_box(before, values.numbers, *wider), box_of(values.numbers)
    if judged_by is None or drawn is None:
        raise AssertionError("a group has values")
    ids = tuple(value.id for value in values.earlier)
    return Group(centre, gender, zygosity, before, ids, brought, tuple(values.new), judged_by, drawn)


def _numbers(values: Sequence[Value]) -> Numbers:
    return numbers_of([value.number for value in values])


def _label(catalogue: Catalogue, group: Group) -> str:
    words = [word_for(catalogue, word) for word in (group.gender, group.zygosity) if word]
    return ", ".join(words) or catalogue.text("not of one animal")


def _centre_label(catalogue: Catalogue, centre: str | None) -> str:
    return catalogue.text("other centres") if centre is None else shown(centre)
