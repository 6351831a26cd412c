"""Which data contexts are meant."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from sqlalchemy import ColumnElement, true

from dcc_resources.qc_database.models import DataContext
from dcc_resources.qc_database.vocabulary import ContextState

_COLUMNS: Final = {"procedure": "procedure_id", "parameter": "parameter_id", "strain": "strain_id"}


@dataclass(frozen=True, slots=True)
class ContextFilter:
    """Those contexts that agree in everything that is given; all of them where nothing is."""

    centre: str | None = None
    pipeline: str | None = None
    procedure: str | None = None
    parameter: str | None = None
    genotype: str | None = None
    strain: str | None = None
    state: ContextState | None = None

    @property
    def means_all(self) -> bool:
        """Whether nothing is given."""
        return all(getattr(self, field.name) is None for field in fields(self))

    def condition(self) -> ColumnElement[bool]:
        """The condition on rows of `data_context`."""
        table = DataContext.__table__.c
        condition: ColumnElement[bool] = true()
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                condition &= table[_COLUMNS.get(field.name, field.name)] == str(value)
        return condition
