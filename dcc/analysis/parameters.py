"""The parameters that measurements can be of: those of IMPReSS, and those that centres have measured."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, func, select

from dcc.qc.models import CONTEXT, MEASUREMENT, MEMBER, PARAMETER, PROCEDURE
from dcc.qc.reference.snapshots import active_snapshot
from dcc.reference.impress import Impress
from dcc.vocabulary import MeasurementType


class ParameterEntry(NamedTuple):
    """A parameter of a procedure; all but the keys are missing where IMPReSS does not say it.

    `parameter_id` and `procedure_id` are keys of IMPReSS, `type` is a `MeasurementType`. `measurements` is the number
    of current, valid measurements that the last session counted in data contexts.
    """

    parameter_id: str
    name: str | None
    procedure_id: str
    procedure: str | None
    unit: str | None
    type: str | None
    measurements: int


def list_parameters(connection: Connection, text: str = "") -> list[ParameterEntry]:
    """The parameters whose key, name or procedure has all words of a text, ignoring case, by their keys."""
    counts = _counts(connection)
    found = [
        ParameterEntry._make([*row, counts.pop((row.parameter_id, row.procedure_id), 0)])
        for row in connection.execute(_impress())
    ]
    found += [ParameterEntry(key, None, procedure, None, None, None, n) for (key, procedure), n in counts.items()]
    words = text.casefold().split()
    return sorted(
        (parameter for parameter in found if _has(parameter, words)),
        key=lambda one: (one.parameter_id, one.procedure_id),
    )


def parameter_names(connection: Connection) -> dict[str, str]:
    """The names of parameters by their key."""
    return {row.parameter_id: row.name for row in connection.execute(_impress()) if row.name}


def _impress() -> Select[Any]:
    """The parameters of measurements in the active IMPReSS, each once for a procedure."""
    same = and_(
        PROCEDURE.c.snapshot_id == PARAMETER.c.snapshot_id,
        PROCEDURE.c.procedure_id == PARAMETER.c.procedure_id,
        PROCEDURE.c.variant == PARAMETER.c.procedure_variant,
    )
    keys = (PARAMETER.c.parameter_id, PARAMETER.c.procedure_id)
    name, procedure, unit, kind = map(
        func.min, (PARAMETER.c.name, PROCEDURE.c.name, PARAMETER.c.unit, PARAMETER.c.type)
    )
    return (
        select(keys[0], name.label("name"), keys[1], procedure, unit, kind)
        .join(PROCEDURE, same)
        .where(
            PARAMETER.c.snapshot_id == active_snapshot(Impress.NAME),
            PARAMETER.c.type.in_([measurement_type.value for measurement_type in MeasurementType]),
        )
        .group_by(*keys)
    )


def _counts(connection: Connection) -> dict[tuple[str, str], int]:
    """Numbers of measurements by the keys of parameter and procedure."""
    keys = (CONTEXT.c.parameter_id, CONTEXT.c.procedure_id)
    statement = select(*keys, func.sum(CONTEXT.c.measurements)).group_by(*keys)
    counts = {(row[0], row[1]): int(row[2]) for row in connection.execute(statement)}
    for parameter_id, procedure_id, times in connection.execute(_counted_again()):
        counts[parameter_id, procedure_id] -= int(times)
    return counts


def _counted_again() -> Select[Any]:
    """How often contexts count measurements of a parameter again: those on animals of several genotypes or strains."""
    again = select(MEMBER.c.procedure_run_id, (func.count() - 1).label("times"))
    runs = again.group_by(MEMBER.c.procedure_run_id).having(func.count() > 1).subquery()
    keys = (func.rtrim(MEASUREMENT.c.parameter_id), func.rtrim(MEASUREMENT.c.procedure_id))
    of_runs = MEASUREMENT.c.procedure_run_id == runs.c.procedure_run_id
    return select(*keys, func.sum(runs.c.times)).select_from(runs).join(MEASUREMENT, of_runs).group_by(*keys)


def _has(entry: ParameterEntry, words: list[str]) -> bool:
    text = " ".join(part for part in entry[:4] if part).casefold()
    return all(word in text for word in words)
