"""Which pictures tell most about a submission or a centre: those with outliers first, and not more than asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from dcc_resources.databases.number_lists import as_json, numbers_in
from dcc_resources.languages import Catalogue
from dcc_resources.outcomes import ZipKey
from dcc_resources.plots import distributions
from dcc_resources.plots.picture import Picture
from dcc_resources.plots.samples import documents_of, parameter_named
from dcc_resources.qc_database.models import Measurement, ProcedureRun

MOST_PICTURES: Final = 12
"""Pictures of a submission or a centre, unless asked for more or fewer."""
MOST_CONSIDERED: Final = 200
"""Parameters that are looked at: those with most new values."""
RANKING_VALUES: Final = 2_000
"""Values of a parameter at a centre that are looked at to tell how much a picture would tell."""

_MEASUREMENT: Final = Measurement.__table__
_RUN: Final = ProcedureRun.__table__


class _Touched(NamedTuple):
    """A parameter of a submission, and at which centre."""

    parameter_id: str
    centre: str


def pictures_of_zip(
    qc: Connection, key: ZipKey, catalogue: Catalogue, *, most: int = MOST_PICTURES, fonts: Path | None = None
) -> list[Picture]:
    """Pictures of what a zip action brought that is current and valid, the most telling first; at most `most`.

    First parameters with outliers, those with most of them first, then those whose median is furthest from that of
    what was there before, then those with most values. Without such data there are none. A parameter of a series is
    drawn as one. `fonts`: see `Picture`.
    """
    documents = documents_of(qc, key)
    ranked = []
    for touched in _touched(qc, documents):
        parameter = parameter_named(qc, touched.parameter_id)
        found = parameter and distributions.gather(qc, parameter, touched.centre, key, most=RANKING_VALUES)
        if found:
            ranked.append(found)
    ranked.sort(key=lambda found: -found.outliers)
    return [distributions.picture_of(found, catalogue, fonts) for found in ranked[:most]]


def pictures_of_centre(
    qc: Connection, centre: str, catalogue: Catalogue, *, most: int = MOST_PICTURES, fonts: Path | None = None
) -> list[Picture]:
    """Pictures of a centre's current, valid data, the most telling first, as `pictures_of_zip`; nothing is new."""
    own = _MEASUREMENT.c
    wanted = select(own.parameter_id).where(own.centre == centre, own.number.is_not(None)).group_by(own.parameter_id)
    found = []
    for parameter_id in qc.scalars(wanted.order_by(func.count().desc(), own.parameter_id).limit(most)):
        parameter = parameter_named(qc, parameter_id)
        gathered = parameter and distributions.gather(qc, parameter, centre, None)
        if gathered:
            found.append(distributions.picture_of(gathered, catalogue, fonts))
    return found


def _touched(qc: Connection, documents: Collection[int]) -> Iterable[_Touched]:
    """The numeric parameters of documents by centre, those with most values first."""
    own = _MEASUREMENT.c
    columns = (own.parameter_id, own.centre)
    statement = (
        select(*columns)
        .select_from(_RUN.join(_MEASUREMENT, own.procedure_run_id == _RUN.c.id))
        .where(_RUN.c.document_id.in_(numbers_in("documents")), own.number.is_not(None))
        .group_by(*columns)
        .order_by(func.count().desc(), *columns)
        .limit(MOST_CONSIDERED)
    )
    return [_Touched(*row) for row in qc.execute(statement, {"documents": as_json(documents)})]
