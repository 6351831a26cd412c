"""The rules' queries to the QC database: answers for a batch of entities in a few statements."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import date
from typing import Final

from sqlalchemy import Connection, bindparam, select

from dcc.databases.list_parameters import portions, rows_with
from dcc.qc.models import EXPERIMENT, SPECIMEN
from dcc.rules.context import ExperimentKey, KnownSpecimen, Where

_SPECIMENS: Final = (
    select(*(SPECIMEN.c[name] for name in ("centre", "specimen_id", "document_id", "line", "gender", "dob", "lexical")))
    .where(
        SPECIMEN.c.centre == bindparam("of_centre"),
        SPECIMEN.c.specimen_id.in_(bindparam("names", expanding=True)),
        SPECIMEN.c.is_current,
    )
    .order_by(SPECIMEN.c.id)
)


class SqlLookups:
    """The `Lookups` of a database connection: a statement for every 2,000 names.

    Names are compared exactly, even if the database treats texts as equal that differ in trailing blanks.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def known_specimens(self, centre: str, ids: Collection[str]) -> Mapping[str, tuple[KnownSpecimen, ...]]:
        """The current specimens of a centre that have one of the ids, by their id."""
        found: dict[str, tuple[KnownSpecimen, ...]] = {}
        wanted = frozenset(ids)
        for chunk in portions(wanted):
            rows = self._connection.execute(_SPECIMENS, {"of_centre": centre, "names": chunk}).all()
            for of_centre, specimen_id, document_id, line, gender, dob, lexical in rows:
                if of_centre == centre and specimen_id in wanted:
                    known = KnownSpecimen(Where(document_id, line), gender, _born(dob, lexical))
                    found[specimen_id] = (*found.get(specimen_id, ()), known)
        return found

    def known_experiments(
        self, centre: str, keys: Collection[ExperimentKey]
    ) -> Mapping[ExperimentKey, tuple[Where, ...]]:
        """The places of a centre's current experiments with one of the keys, by their key."""
        columns = (EXPERIMENT.c.centre, *(EXPERIMENT.c[name] for name in ExperimentKey._fields))
        asked = select(*columns, EXPERIMENT.c.document_id, EXPERIMENT.c.line).order_by(EXPERIMENT.c.id)
        found: dict[ExperimentKey, tuple[Where, ...]] = defaultdict(tuple)
        wanted = frozenset(keys)
        here = asked.where(EXPERIMENT.c.centre == centre, EXPERIMENT.c.is_current)
        names = {key.experiment_id for key in wanted}
        for row in rows_with(self._connection, here, EXPERIMENT.c.experiment_id, names):
            key = ExperimentKey(row.experiment_id, row.sequence_id, row.procedure_id)
            if row.centre == centre and key in wanted:
                found[key] += (Where(row.document_id, row.line),)
        return dict(found)


def _born(dob: date | None, lexical: str | None) -> str | None:
    """The xs:date of a mouse's birth as written."""
    written = json.loads(lexical).get("DOB") if lexical else None
    if written is not None:
        return str(written)
    return None if dob is None else dob.isoformat()
