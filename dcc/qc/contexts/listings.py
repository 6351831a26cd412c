"""Data contexts by filter, their history, and the overviews, as commands list them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, case, func, select, true

from dcc.qc.contexts.metadata_groups import EMPTY_GROUP
from dcc.qc.models import (
    ContextHistory,
    DataContext,
    Document,
    Experiment,
    MetadataGroup,
    OverviewAnimalProcedure,
    OverviewGenotype,
    Specimen,
)
from dcc.qc.models.views import OVERVIEW_STRAIN
from dcc.vocabulary import ContextEvent, ContextState, DocumentState, Validity

_NAMED: Final = ("centre", "pipeline", "procedure", "parameter", "genotype", "strain")
_COLUMNS: Final = {"procedure": "procedure_id", "parameter": "parameter_id", "strain": "strain_id"}


@dataclass(frozen=True, slots=True)
class ContextFilter:
    """Selects contexts by all given values; without any, all.

    `states` are alternatives; none selects any state.
    """

    centre: str | None = None
    pipeline: str | None = None
    procedure: str | None = None
    parameter: str | None = None
    genotype: str | None = None
    strain: str | None = None
    states: Collection[ContextState] = ()

    @property
    def means_all(self) -> bool:
        """Whether nothing is given."""
        return not self.states and all(getattr(self, name) is None for name in _NAMED)

    def condition(self) -> ColumnElement[bool]:
        """The condition on rows of `data_context`."""
        table = DataContext.__table__.c
        condition: ColumnElement[bool] = true()
        for name in _NAMED:
            value = getattr(self, name)
            if value is not None:
                condition &= table[_COLUMNS.get(name, name)] == value
        if self.states:
            condition &= table.state.in_([state.value for state in self.states])
        return condition


_CONTEXT: Final = DataContext.__table__.c
_HISTORY: Final = ContextHistory.__table__.c
_DOCUMENT: Final = Document.__table__.c
_KEY: Final = (
    _CONTEXT.centre,
    _CONTEXT.pipeline,
    _CONTEXT.genotype,
    _CONTEXT.strain_id,
    _CONTEXT.procedure_id,
    _CONTEXT.parameter_id,
)


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A data context; `issues` is the number of open ones."""

    centre: str
    pipeline: str
    genotype: str
    strain: str
    procedure: str
    parameter: str
    measurements: int
    checksum: str
    state: ContextState
    issues: int
    changed: datetime


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An event of a data context: by a document (its submission and name), or by a person with a reason."""

    centre: str
    pipeline: str
    genotype: str
    strain: str
    procedure: str
    parameter: str
    event: ContextEvent
    state: ContextState
    measurements: int
    zip_action: str | None
    document: str | None
    author: str | None
    reason: str | None
    created: datetime


def list_contexts(connection: Connection, wanted: ContextFilter) -> list[ContextEntry]:
    """The selected contexts, by their key."""
    columns = (_CONTEXT.measurements, _CONTEXT.checksum, _CONTEXT.state, _CONTEXT.issues, _CONTEXT.changed)
    rows = connection.execute(select(*_KEY, *columns).where(wanted.condition()).order_by(*_KEY))
    return [ContextEntry(*row[:8], ContextState(row.state), *row[9:]) for row in rows]


def list_history(connection: Connection, wanted: ContextFilter) -> list[HistoryEntry]:
    """The events of the selected contexts, oldest first."""
    columns = (_HISTORY.event, _HISTORY.state, _HISTORY.measurements, _DOCUMENT.action, _DOCUMENT.zip_file)
    told = (_DOCUMENT.file_name, _HISTORY.author, _HISTORY.reason, _HISTORY.created)
    statement = (
        select(*_KEY, *columns, *told)
        .select_from(ContextHistory.__table__)
        .join(DataContext.__table__, _CONTEXT.id == _HISTORY.context_id)
        .outerjoin(Document.__table__, _DOCUMENT.id == _HISTORY.document_id)
        .where(wanted.condition())
        .order_by(_HISTORY.id)
    )
    return [
        HistoryEntry(
            *row[:6],
            ContextEvent(row[6]),
            ContextState(row[7]),
            row[8],
            None if row.zip_file is None else f"{row.action}/{row.zip_file}",
            *row[11:],
        )
        for row in connection.execute(statement)
    ]


def newest_history(connection: Connection) -> int:
    """The newest id of `context_history`; 0 without events."""
    return connection.scalar(select(func.max(_HISTORY.id))) or 0


@dataclass(frozen=True, slots=True)
class OverviewCoverage:
    """How many current specimens and experiments overviews cover: those that were judged and are valid.

    `waiting` counts documents that the overviews do not take account of yet.
    """

    specimens: int
    specimens_covered: int
    experiments: int
    experiments_covered: int
    waiting: int

    @property
    def is_partial(self) -> bool:
        """Whether some are left out."""
        return (self.specimens, self.experiments) != (self.specimens_covered, self.experiments_covered)


def overview_coverage(connection: Connection, centre: str | None = None) -> OverviewCoverage:
    """What the overviews cover, of one centre if it is given."""

    def current_and_valid(table: Table) -> tuple[int, int]:
        valid = func.sum(case((table.c.validity == Validity.VALID, 1), else_=0))
        query = select(func.count(), func.coalesce(valid, 0)).where(table.c.is_current, *_at(table, centre))
        current, covered = connection.execute(query).one()
        return int(current), int(covered)

    waiting = select(func.count()).where(_DOCUMENT.state == DocumentState.APPLIED, _DOCUMENT.overviews_built.is_(False))
    of_centre = waiting.where(*_at(Document.__table__, centre))
    specimens, experiments = current_and_valid(Specimen.__table__), current_and_valid(Experiment.__table__)
    return OverviewCoverage(*specimens, *experiments, waiting=connection.scalar(of_centre) or 0)


def _at(table: Table, centre: str | None) -> list[ColumnElement[bool]]:
    return [] if centre is None else [table.c.centre == centre]


_OVERVIEWS: Final = {
    "genotypes": OverviewGenotype.__table__,
    "strains": OVERVIEW_STRAIN,
    "animals": OverviewAnimalProcedure.__table__,
    "metadata-groups": MetadataGroup.__table__,
}
OVERVIEWS: Final = tuple(_OVERVIEWS)
"""The overviews by name."""


def list_overview(connection: Connection, name: str, centre: str | None = None) -> list[dict[str, Any]]:
    """The rows of an overview, column name to value; of one centre if it is given.

    Strains are those of the centre's specimens (counted everywhere), metadata groups those of its runs. The checksum of
    a group without circumstances is empty.
    """
    table, genotype, animal = _OVERVIEWS[name], OverviewGenotype.__table__.c, OverviewAnimalProcedure.__table__.c
    statement = select(table).order_by(*table.primary_key)
    if centre is not None and "centre" in table.c:
        statement = statement.where(table.c.centre == centre)
    elif centre is not None and name == "strains":
        statement = statement.where(table.c.strain_id.in_(select(genotype.strain_id).where(genotype.centre == centre)))
    elif centre is not None:
        groups = select(animal.metadata_group).where(animal.centre == centre)
        statement = statement.where(table.c.checksum.in_(groups))
    return [
        {column: "" if value == EMPTY_GROUP else value for column, value in row.items()}
        for row in connection.execute(statement).mappings()
    ]
