"""What may stand where a finding is, and which of that is most like what does.

Reference data are asked for the names alone, those of the snapshots in use: colonies, strains, projects, pipelines, and
the options of the parameters that findings are about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Select, select

from dcc.messages import Details
from dcc.qc.models import (
    ImpressIncrement,
    ImpressOntologyOption,
    ImpressOption,
    ImpressParameter,
    ImpressPipeline,
    ImpressProcedure,
    KnownColony,
    KnownProject,
    KnownStatusCode,
    KnownStrain,
    ReferenceSnapshot,
)
from dcc.reference.impress import Impress
from dcc.reference.snapshots import Colonies, Projects, StatusCodes, Strains

MOST_SHOWN: Final = 50
"""How many permitted values are told."""

_LONGEST: Final = 200
_LEAST_ALIKE: Final = 0.6
_COMPARED: Final = 30

_OF_COLONIES: Final = ("S4", "E7")
_OF_STRAINS: Final = ("S2",)
_OF_PROJECTS: Final = ("S12", "E2")
_OF_PIPELINES: Final = ("E1", "X3")
_OF_PROCEDURES: Final = ("P1",)
_OF_CODES: Final = ("S11", "E6", "P7")
_OF_PARAMETERS: Final = ("P3",)
_OF_OPTIONS: Final = ("P10",)
_OF_TERMS: Final = ("P12",)
_OF_INCREMENTS: Final = ("P16", "P18")


class Names:
    """A set of names, of which it finds the one that is most like a text without comparing it with all."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all: Final = tuple(dict.fromkeys(names))
        self._folded: dict[str, str] = {}
        self._with_pair: dict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(self.all):
            self._folded.setdefault(_folded(name), name)
            for pair in _pairs(name):
                self._with_pair[pair].append(number)

    def nearest(self, text: str, *, same_digits: bool = False) -> str | None:
        """The name that is most like a text; None where none is like it, or has the `same_digits`."""
        text = text[:_LONGEST]
        same = self._folded.get(_folded(text))
        if same is not None:
            return same
        shared: Counter[int] = Counter()
        for pair in _pairs(text):
            shared.update(self._with_pair.get(pair, ()))
        best, alike, digits = None, _LEAST_ALIKE, _digits(text)
        matcher = SequenceMatcher(b=text.casefold(), autojunk=False)
        for number, _ in shared.most_common(_COMPARED):
            if same_digits and _digits(self.all[number]) != digits:
                continue
            matcher.set_seq1(self.all[number][:_LONGEST].casefold())
            if matcher.ratio() > alike:
                best, alike = self.all[number], matcher.ratio()
        return best


def _folded(name: str) -> str:
    """A name without what people get wrong most: capitals, blanks, punctuation."""
    return "".join(filter(str.isalnum, name.casefold()))


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def _pairs(name: str) -> set[str]:
    folded = name[:_LONGEST].casefold()
    return {folded[start : start + 3] for start in range(max(len(folded) - 2, 1))}


class Permitted:
    """What is permitted, for findings of one QC database; each set of names is asked for once, when it is needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._snapshots: Mapping[str, int] | None = None
        self._nearest = lru_cache(maxsize=5_000)(self._find_nearest)
        self._names = lru_cache(maxsize=500)(self._read_names)

    def advice(self, rule: str, value: str | None, details: Details) -> tuple[tuple[str, ...], str | None]:
        """The first values that are permitted where a finding is, and the nearest of all of them; none if not known."""
        if value is None:
            return (), None
        kind, of = _asked(rule, details)
        if kind is None:
            return (), None
        code = value.partition(":")[0].strip() if rule in _OF_CODES else value
        names = self._names(kind, of)
        shown = names.all[:MOST_SHOWN] if len(names.all) <= MOST_SHOWN or kind not in _UNBOUNDED else ()
        return shown, self._nearest(kind, of, code)

    def _find_nearest(self, kind: str, of: str, text: str) -> str | None:
        return self._names(kind, of).nearest(text, same_digits=kind in _IDENTIFIERS)

    def _read_names(self, kind: str, of: str) -> Names:
        snapshot = self._snapshot(_SETS[kind])
        if snapshot is None:
            return Names(())
        return Names(self._connection.scalars(_QUESTIONS[kind](snapshot, of)))

    def _snapshot(self, name: str) -> int | None:
        if self._snapshots is None:
            table = ReferenceSnapshot.__table__
            rows = self._connection.execute(
                select(table.c.name, table.c.id).where(table.c.is_active).order_by(table.c.id)
            )
            self._snapshots = {row.name: row.id for row in rows}
        return self._snapshots.get(name)


def _asked(rule: str, details: Details) -> tuple[str | None, str]:
    for kind, rules in _KINDS.items():
        if rule in rules:
            name = details.get(_BY_DETAIL[kind]) if kind in _BY_DETAIL else ""
            return (None, "") if name is None else (kind, str(name))
    return None, ""


def nearest_of(values: Sequence[str], text: str | None) -> str | None:
    """The one of a few values that is most like a text."""
    return None if text is None or not values else Names(values).nearest(text)


def _plain(table: Any, column: Any, *conditions: Any) -> Callable[[int, str], Select[Any]]:
    return lambda snapshot, _: (
        select(column).where(table.snapshot_id == snapshot, *conditions).distinct().order_by(column)
    )


def _of_parameter(table: Any, column: Any, *conditions: Any) -> Callable[[int, str], Select[Any]]:
    return lambda snapshot, parameter: (
        select(column)
        .where(table.snapshot_id == snapshot, table.parameter_id == parameter, *conditions)
        .order_by(table.variant, table.position)
    )


_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "colonies": _OF_COLONIES,
    "strains": _OF_STRAINS,
    "projects": _OF_PROJECTS,
    "pipelines": _OF_PIPELINES,
    "codes": _OF_CODES,
    "procedures": _OF_PROCEDURES,
    "parameters": _OF_PARAMETERS,
    "options": _OF_OPTIONS,
    "terms": _OF_TERMS,
    "increments": _OF_INCREMENTS,
}
_UNBOUNDED: Final = frozenset({"colonies", "strains", "terms"})
"""What is so many that its first ones say nothing."""
_IDENTIFIERS: Final = _UNBOUNDED
"""What differs in its digits where it differs at all: another number is another thing, not a slip of the pen."""
_BY_DETAIL: Final = {
    "procedures": "pipeline",
    "parameters": "procedure",
    "options": "parameter",
    "terms": "parameter",
    "increments": "parameter",
}
_SETS: Final = {
    "colonies": Colonies.NAME,
    "strains": Strains.NAME,
    "projects": Projects.NAME,
    "codes": StatusCodes.NAME,
    **dict.fromkeys(("pipelines", "procedures", "parameters", "options", "terms", "increments"), Impress.NAME),
}
_QUESTIONS: Final[Mapping[str, Callable[[int, str], Select[Any]]]] = {
    "colonies": _plain(KnownColony, KnownColony.colony_id),
    "strains": _plain(KnownStrain, KnownStrain.strain_id),
    "projects": _plain(KnownProject, KnownProject.name),
    "pipelines": _plain(ImpressPipeline, ImpressPipeline.pipeline),
    "codes": _plain(KnownStatusCode, KnownStatusCode.code),
    "procedures": lambda snapshot, pipeline: (
        select(ImpressProcedure.procedure_id)
        .where(ImpressProcedure.snapshot_id == snapshot, ImpressProcedure.pipeline == pipeline)
        .order_by(ImpressProcedure.procedure_id)
    ),
    "parameters": lambda snapshot, procedure: (
        select(ImpressParameter.parameter_id)
        .where(ImpressParameter.snapshot_id == snapshot, ImpressParameter.procedure_id == procedure)
        .order_by(ImpressParameter.procedure_variant, ImpressParameter.parameter_id)
    ),
    "options": _of_parameter(ImpressOption, ImpressOption.name, ImpressOption.is_active.is_(True)),
    "terms": _of_parameter(ImpressOntologyOption, ImpressOntologyOption.ontology_id),
    "increments": _of_parameter(
        ImpressIncrement, ImpressIncrement.value, ImpressIncrement.is_active.is_(True), ImpressIncrement.value != ""
    ),
}
