"""The values that are permitted where a finding is, and the one that is most like the value found.

They are names of the reference data in use: colonies, strains, projects, pipelines, options of parameters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, select

from dcc.messages import Details
from dcc.nearest_names import nearest_names
from dcc.qc.models import (
    COLONY,
    INCREMENT,
    KNOWN_STATUS_CODE,
    ONTOLOGY_OPTION,
    OPTION,
    PARAMETER,
    PIPELINE,
    PROCEDURE,
    PROJECT,
    STRAIN,
)
from dcc.qc.reference.snapshots import active_snapshot
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Projects, StatusCodes, Strains
from dcc.rules.status_rules import PARAMETER_FAMILY, PROCEDURE_FAMILY, SPECIMEN_FAMILY, code_of

MAX_SHOWN: Final = 50
"""How many permitted values are listed."""

_LONGEST: Final = 200
_COMPARED: Final = 30


class Names:
    """A set of names, which finds the one that is most like a text without comparing it with all."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all: Final = tuple(dict.fromkeys(names))
        self._with_part: dict[str, list[str]] = defaultdict(list)
        for name in self.all:
            for part in _parts(name):
                self._with_part[part].append(name)

    def nearest(self, text: str, *, same_digits: bool = False) -> str | None:
        """The name that is most like a text; None where none is like it, or has the `same_digits`."""
        text = text[:_LONGEST]
        shared = Counter(name for part in _parts(text) for name in self._with_part.get(part, ()))
        likely = [name for name, _ in shared.most_common(_COMPARED)]
        same = [name for name in likely if _folded(name) == _folded(text)]
        if same_digits:
            likely = [name for name in likely if _digits(name) == _digits(text)]
        return next(iter(same or nearest_names(text, likely, 1)), None)


def _folded(name: str) -> str:
    """A name without what people get wrong most: capitals, blanks, punctuation."""
    return "".join(filter(str.isalnum, name.casefold()))


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def _parts(name: str) -> set[str]:
    folded = _folded(name[:_LONGEST])
    return {folded[start : start + 3] for start in range(max(len(folded) - 2, 1))}


@dataclass(frozen=True, slots=True)
class _Kind:
    """The permitted values of some rules: a column of a set of reference data.

    `within` is a column that the `detail` of a finding narrows them by, `centre` that of the centre that they belong
    to. If they are `numerous`, they are not listed, and a value with other digits is not taken for a slip of the pen.
    """

    rules: tuple[str, ...]
    reference: str
    column: Any
    detail: str = ""
    within: Any = None
    only: tuple[Any, ...] = ()
    order: tuple[Any, ...] = ()
    numerous: bool = False
    is_code: bool = False
    centre: Any = None


def _of_parameter(rules: tuple[str, ...], column: Any, *only: Any, numerous: bool = False) -> _Kind:
    table = column.table.c
    order = (table.variant, table.position)
    return _Kind(rules, Impress.NAME, column, "parameter", table.parameter_id, only, order, numerous)


def _of_status(rule: str, family: str) -> _Kind:
    code = KNOWN_STATUS_CODE.c.code
    return _Kind((rule,), StatusCodes.NAME, code, only=(code.startswith(family, autoescape=True),), is_code=True)


_KINDS: Final = (
    _Kind(("S4", "E7"), Colonies.NAME, COLONY.c.colony_id, numerous=True, centre=COLONY.c.production_centre),
    _Kind(("S2",), Strains.NAME, STRAIN.c.strain_id, numerous=True),
    _Kind(("S12", "E2"), Projects.NAME, PROJECT.c.name),
    _of_status("S11", SPECIMEN_FAMILY),
    _of_status("E6", PROCEDURE_FAMILY),
    _of_status("P7", PARAMETER_FAMILY),
    _Kind(("E1", "X3"), Impress.NAME, PIPELINE.c.pipeline),
    _Kind(("P1",), Impress.NAME, PROCEDURE.c.procedure_id, "pipeline", PROCEDURE.c.pipeline),
    _Kind(
        ("P3",),
        Impress.NAME,
        PARAMETER.c.parameter_id,
        "procedure",
        PARAMETER.c.procedure_id,
        order=(PARAMETER.c.procedure_variant, PARAMETER.c.parameter_id),
    ),
    _of_parameter(("P10",), OPTION.c.name, OPTION.c.is_active.is_(True)),
    # Of early snapshots it is not known which terms are retired.
    _of_parameter(("P12",), ONTOLOGY_OPTION.c.ontology_id, ONTOLOGY_OPTION.c.is_active.is_not(False), numerous=True),
    _of_parameter(("P16", "P18"), INCREMENT.c.value, INCREMENT.c.is_active.is_(True), INCREMENT.c.value != ""),
)
_BY_RULE: Final = {rule: kind for kind in _KINDS for rule in kind.rules}


class Permitted:
    """The permitted values of one QC database; each set of names is read once, when it is needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names = lru_cache(maxsize=500)(self._read_names)
        self._nearest = lru_cache(maxsize=5_000)(
            lambda kind, within, whose, text: self._names(kind, within, whose).nearest(text, same_digits=kind.numerous)
        )

    def advice(
        self, rule: str, value: str | None, details: Details, centre: str | None = None
    ) -> tuple[tuple[str, ...], str | None]:
        """The first permitted values, and the nearest of all; none if they are not known.

        Of values that are equally near, one of the `centre` is preferred.
        """
        kind = _BY_RULE.get(rule)
        if value is None or kind is None or (kind.detail and details.get(kind.detail) is None):
            return (), None
        within = str(details.get(kind.detail, ""))
        whose = None if kind.centre is None else centre
        names = self._names(kind, within, whose).all
        text = code_of(value) if kind.is_code else value
        shown = () if kind.numerous and len(names) > MAX_SHOWN else names[:MAX_SHOWN]
        # A code that is meant for something else is no slip of the pen.
        return shown, None if "meant" in details else self._nearest(kind, within, whose, text)

    def _read_names(self, kind: _Kind, within: str, whose: str | None) -> Names:
        of_active = kind.column.table.c.snapshot_id == active_snapshot(kind.reference)
        query = select(kind.column).where(of_active, *kind.only)
        if kind.within is not None:
            query = query.where(kind.within == within)
        own_first = () if whose is None else (kind.centre != whose,)
        return Names(self._connection.scalars(query.order_by(*own_first, *(kind.order or (kind.column,)))))
