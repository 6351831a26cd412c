"""Which pictures tell most about a submission or a centre: those with outliers first, and not more than asked for."""

from __future__ import annotations

from typing import Final

import numpy as np
from sqlalchemy import Connection, func, select

from dcc.databases.list_parameters import as_json, numbers_in
from dcc.errors import NotFoundError
from dcc.outcomes import SubmissionKey
from dcc.qc.models import CONTEXT, MEASUREMENT, RUN
from dcc.reports.languages import Catalogue
from dcc.reports.plots import bars, distributions, series
from dcc.reports.plots.picture import Picture
from dcc.reports.plots.values import (
    MAX_VALUES,
    Parameter,
    ParameterValues,
    box_of,
    documents_of,
    load_values,
    numbers_of,
    parameter_named,
)

MAX_CONSIDERED: Final = 200
"""Parameters that are looked at: those with most values."""
RANKING_VALUES: Final = 2_000
"""Values of a parameter at a centre that are looked at to tell how much a picture would tell."""


_Worth = tuple[int, float, int, str, str]
"""The rank of a picture, the least being the most telling: by outliers, shift and values, then parameter and centre."""


def pictures_of(
    qc: Connection, subject: SubmissionKey | str, catalogue: Catalogue, *, limit: int, with_others: bool
) -> list[Picture]:
    """Pictures of the current, valid data that a submission brought, or of a centre's by its code; at most `limit`.

    The most telling come first: parameters with outliers, those with most of them first; of a submission, new values
    alone count. Then those whose median is furthest from that of what was there before, in interquartile ranges; then
    those with most values. The last picture is that of experiments by week. Without data that are current and valid
    there are none. `with_others`: beside other centres' values.
    """
    key, touched = None, []
    if isinstance(subject, SubmissionKey):
        key, touched = subject, _brought_by(qc, subject)
    else:
        touched = [(parameter_id, subject) for parameter_id in _measured_at(qc, subject)]
    ranked: list[tuple[_Worth, Parameter]] = []
    for parameter_id, centre in touched:
        parameter = parameter_named(qc, parameter_id)
        parameter_values = parameter and load_values(
            qc, parameter, centre, key, with_others=False, limit=RANKING_VALUES
        )
        if parameter and parameter_values and (key is None or parameter_values.has_new):
            ranked.append((_worth(parameter_values), parameter))
    ranked.sort(key=lambda pair: pair[0])
    pictures = []
    for (*_, centre), parameter in ranked[: limit - 1] if limit > 1 else ranked[:1]:
        has_others = with_others and not parameter.is_series
        parameter_values = load_values(qc, parameter, centre, key, with_others=has_others, limit=MAX_VALUES)
        if parameter_values is not None:
            pictures.append(_picture(parameter_values, catalogue))
    counted = bars.count_weeks(qc, ranked[0][0][-1], key) if ranked and limit > 1 else None
    return [*pictures, bars.picture_of_weeks(counted, catalogue)] if counted else pictures


def _brought_by(qc: Connection, key: SubmissionKey) -> list[tuple[str, str]]:
    """The parameters that a submission has most numbers of, each with the centre."""
    documents = as_json(documents_of(qc, key))
    own = MEASUREMENT.c
    touched = (
        select(own.parameter_id, func.rtrim(own.centre))
        .select_from(RUN.join(MEASUREMENT, own.procedure_run_id == RUN.c.id))
        .where(RUN.c.document_id.in_(numbers_in("documents")), own.number.is_not(None))
        .group_by(own.parameter_id, func.rtrim(own.centre))
        .order_by(func.count().desc(), own.parameter_id, func.rtrim(own.centre))
        .limit(MAX_CONSIDERED)
    )
    return [(row[0], row[1]) for row in qc.execute(touched, {"documents": documents})]


def _measured_at(qc: Connection, centre: str) -> list[str]:
    """The parameters that a centre has most measurements of: as data contexts tell, or where there are none, by all."""
    for table, number in ((CONTEXT, func.sum(CONTEXT.c.measurements)), (MEASUREMENT, func.count())):
        own = table.c.parameter_id
        wanted = select(own).where(table.c.centre == centre).group_by(own).order_by(number.desc(), own)
        found = [row.rstrip(" ") for row in qc.scalars(wanted.limit(MAX_CONSIDERED))]
        if found:
            return found
    return []


def picture_of_parameter(
    qc: Connection,
    catalogue: Catalogue,
    *,
    centre: str,
    parameter_id: str,
    key: SubmissionKey | None = None,
) -> Picture:
    """The picture of a parameter at a centre, with what the submission `key` brought picked out.

    A series has the animals of the submission as lines; all else is a distribution beside other centres. Raises
    NotFoundError where there is no number to draw at this centre.
    """
    parameter = parameter_named(qc, parameter_id)
    parameter_values = parameter and load_values(
        qc, parameter, centre, key, with_others=not parameter.is_series, limit=MAX_VALUES
    )
    if parameter_values is None:
        raise NotFoundError(
            f"Centre {centre} has no current, valid number of parameter {parameter_id}. "
            f"See what it has: `dcc qc contexts --centre {centre}`."
        )
    return _picture(parameter_values, catalogue)


def _picture(parameter_values: ParameterValues, catalogue: Catalogue) -> Picture:
    if parameter_values.parameter.is_series:
        return series.picture_of(series.in_panels(parameter_values), catalogue)
    return distributions.picture_of(distributions.groups_of(parameter_values), catalogue)


def _worth(parameter_values: ParameterValues) -> _Worth:
    if parameter_values.parameter.is_series:
        outliers = series.in_panels(parameter_values).outliers
    else:
        outliers = distributions.groups_of(parameter_values).marked(new=parameter_values.key is not None)
    number = sum(value.is_new == parameter_values.has_new for value in parameter_values.own)
    return (
        -outliers,
        -_shift(parameter_values),
        -number,
        parameter_values.parameter.parameter_id,
        parameter_values.centre,
    )


def _shift(parameter_values: ParameterValues) -> float:
    """How many interquartile ranges the median of new values is from that of the earlier ones, to two digits."""
    own = parameter_values.own
    earlier = box_of(numbers_of([value.number for value in own if not value.is_new]))
    new = box_of(numbers_of([value.number for value in own if value.is_new]))
    if earlier is None or new is None or earlier.third == earlier.first:
        return 0.0
    return float(np.round(abs(new.median - earlier.median) / (earlier.third - earlier.first), 2))
