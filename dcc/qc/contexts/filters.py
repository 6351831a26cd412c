"""Which data contexts are meant."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, true

from dcc.qc.models import DataContext
from dcc.vocabulary import ContextState

_NAMED: Final = ("centre", "pipeline", "procedure", "parameter", "genotype", "strain")
_COLUMNS: Final = {"procedure": "procedure_id", "parameter": "parameter_id", "strain": "strain_id"}


@dataclass(frozen=True, slots=True)
class ContextFilter:
    """Those contexts that agree in everything that is given; all of them where nothing is.

    Of `states` any will do; none, and the state does not matter.
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
