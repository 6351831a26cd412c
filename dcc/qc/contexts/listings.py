"""Data contexts by filter, their numbers by centre, their history, and the overviews, as commands list them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, Table, and_, case, cast, func, select, true

from dcc.data_outcomes import ContextCounts
from dcc.databases.list_parameters import equal, rows_with
from dcc.qc.contexts.membership import ContextKey
from dcc.qc.contexts.metadata_groups import EMPTY_GROUP
from dcc.qc.models import CONTEXT, DOCUMENT, EXPERIMENT, GROUP, HISTORY, OVERVIEW_ANIMAL, OVERVIEW_GENOTYPE, SPECIMEN
from dcc.qc.models.views import OVERVIEW_STRAIN
from dcc.vocabulary import ContextEvent, ContextState, DocumentState, Validity

_KEY: Final = {name.removesuffix("_id"): CONTEXT.c[name] for name in ContextKey._fields}
"""The columns of a context's key, by the names that commands give them."""


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
        return not self.states and all(getattr(self, name) is None for name in _KEY)

    def condition(self) -> ColumnElement[bool]:
        """The condition on rows of `data_context`."""
        chosen = equal(*((column, getattr(self, name)) for name, column in _KEY.items()))
        if self.states:
            chosen.append(CONTEXT.c.state.in_([state.value for state in self.states]))
        return and_(true(), *chosen)


@dataclass(frozen=True, slots=True)
class _OfContext:
    centre: str
    pipeline: str
    genotype: str
    strain: str
    procedure: str
    parameter: str


@dataclass(frozen=True, slots=True)
class ContextEntry(_OfContext):
    """A data context, with columns of its row; `issues` is the number of open ones."""

    measurements: int
    checksum: str
    state: ContextState
    issues: int
    changed: datetime


@dataclass(frozen=True, slots=True)
class HistoryEntry(_OfContext):
    """An event of a data context: by a document (its submission and name), or by a person with a reason."""

    event: ContextEvent
    state: ContextState
    measurements: int
    zip_action: str | None
    document: str | None
    author: str | None
    reason: str | None
    created: datetime


_NAMED_KEY: Final = tuple(column.label(name) for name, column in _KEY.items())


def list_contexts(connection: Connection, criteria: ContextFilter) -> list[ContextEntry]:
    """The selected contexts, by their key."""
    shown = (CONTEXT.c[each.name] for each in fields(ContextEntry) if each.name not in _KEY)
    rows = connection.execute(select(*_NAMED_KEY, *shown).where(criteria.condition()).order_by(*_KEY.values()))
    return [ContextEntry(**dict(row._mapping) | {"state": ContextState(row.state)}) for row in rows]


def list_history(connection: Connection, criteria: ContextFilter) -> list[HistoryEntry]:
    """The events of the selected contexts, oldest first."""
    names = ("event", "state", "measurements", "author", "reason", "created")
    submission = (DOCUMENT.c.action + "/" + DOCUMENT.c.zip_file).label("zip_action")
    statement = (
        select(*_NAMED_KEY, *(HISTORY.c[name] for name in names), submission, DOCUMENT.c.file_name.label("document"))
        .select_from(HISTORY)
        .join(CONTEXT, CONTEXT.c.id == HISTORY.c.context_id)
        .outerjoin(DOCUMENT, DOCUMENT.c.id == HISTORY.c.document_id)
        .where(criteria.condition())
        .order_by(HISTORY.c.id)
    )
    return [
        HistoryEntry(**dict(row._mapping) | {"event": ContextEvent(row.event), "state": ContextState(row.state)})
        for row in connection.execute(statement)
    ]


def count_contexts(connection: Connection, centres: Collection[str] | None = None) -> tuple[ContextCounts, ...]:
    """The data contexts of all centres that have any, or of those of `centres`, in the order of centres."""
    states: dict[str, Counter[ContextState]] = defaultdict(Counter)
    procedures: dict[str, Counter[str]] = defaultdict(Counter)
    columns = (CONTEXT.c.centre, CONTEXT.c.state, CONTEXT.c.procedure_id)
    statement = select(*columns, func.count(), func.sum(CONTEXT.c.measurements)).group_by(*columns)
    for centre, state, procedure, contexts, measurements in rows_with(connection, statement, CONTEXT.c.centre, centres):
        states[centre][ContextState(state)] += contexts
        procedures[centre][procedure] += int(measurements)
    return tuple(
        ContextCounts(
            centre,
            dict(states[centre]),
            measurements=procedures[centre].total(),
            procedures={name: number for name, number in procedures[centre].items() if number},
        )
        for centre in sorted(states)
    )


def newest_history(connection: Connection) -> int:
    """The newest id of `context_history`; 0 without events."""
    return connection.scalar(select(func.max(HISTORY.c.id))) or 0


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
        query = select(func.count(), func.coalesce(valid, 0)).where(
            table.c.is_current, *equal((table.c.centre, centre))
        )
        current, covered = connection.execute(query).one()
        return int(current), int(covered)

    waiting = select(func.count()).where(
        DOCUMENT.c.state == DocumentState.APPLIED, DOCUMENT.c.overviews_built.is_(False)
    )
    of_centre = waiting.where(*equal((DOCUMENT.c.centre, centre)))
    specimens, experiments = current_and_valid(SPECIMEN), current_and_valid(EXPERIMENT)
    return OverviewCoverage(*specimens, *experiments, waiting=connection.scalar(of_centre) or 0)


_OVERVIEWS: Final = {
    "genotypes": OVERVIEW_GENOTYPE,
    "strains": OVERVIEW_STRAIN,
    "animals": OVERVIEW_ANIMAL,
    "metadata-groups": GROUP,
}


def list_overview(connection: Connection, name: str, centre: str | None = None) -> list[dict[str, Any]]:
    """The rows of an overview, column name to value; of one centre if it is given.

    Strains are those of the centre's specimens, which alone are counted then; metadata groups are those of its runs.
    The checksum of runs without circumstances is empty, and they are no group.
    """
    table = _OVERVIEWS[name]
    statement = select(table).order_by(*table.primary_key)
    if name == "metadata-groups":
        statement = statement.where(table.c.checksum != EMPTY_GROUP)
    if centre is not None and "centre" in table.c:
        statement = statement.where(table.c.centre == centre)
    elif centre is not None and name == "strains":
        own = OVERVIEW_GENOTYPE.c
        counted = cast(func.sum(own.specimens), BigInteger).label("specimens")
        of_centre = select(own.strain_id, counted).where(own.centre == centre).group_by(own.strain_id).subquery()
        strains = table.join(of_centre, of_centre.c.strain_id == table.c.strain_id)
        statement = select(table.c.strain_id, table.c.name, of_centre.c.specimens)
        statement = statement.select_from(strains).order_by(table.c.strain_id)
    elif centre is not None:
        groups = select(OVERVIEW_ANIMAL.c.metadata_group).where(OVERVIEW_ANIMAL.c.centre == centre)
        statement = statement.where(table.c.checksum.in_(groups))
    return [
        {column: "" if value == EMPTY_GROUP else value for column, value in row.items()}
        for row in connection.execute(statement).mappings()
    ]
