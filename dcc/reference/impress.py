"""IMPReSS: the parameters of each procedure of a pipeline, and their permitted values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from dcc.reference.snapshots import Snapshot


class ParameterType(StrEnum):
    """The element in which a parameter is submitted."""

    SIMPLE = "simpleParameter"
    ONTOLOGY = "ontologyParameter"
    SERIES = "seriesParameter"
    MEDIA = "mediaParameter"
    MEDIA_SAMPLE = "mediaSampleParameter"
    SERIES_MEDIA = "seriesMediaParameter"
    METADATA = "procedureMetadata"


class ValueType(StrEnum):
    """The type of a value."""

    TEXT = "TEXT"
    INT = "INT"
    FLOAT = "FLOAT"
    BOOL = "BOOL"
    IMAGE = "IMAGE"
    DATETIME = "DATETIME"
    DATE = "DATE"
    TIME = "TIME"


@dataclass(frozen=True, slots=True)
class Option:
    """A permitted value; one that is not active is retired."""

    name: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class Increment:
    """A rule for increments: a permitted incrementValue (`text`; "" permits any) or a minimal number of them.

    `kind` is `repeat`, `float` or `datetime`; "" if none is given.
    """

    text: str
    kind: str
    unit: str
    minimum: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure.

    `value_type` is IMPReSS's own, usually one of ValueType, "" if none is given. `qc_minimum` and `qc_maximum` are None
    unless values must be compared with them. `is_important`, for metadata: results with different values cannot be
    compared. `retired_terms` are those of its terms that are listed only as retired.
    """

    key: str
    type: ParameterType
    value_type: str
    unit: str
    is_required: bool
    is_active: bool
    options: tuple[Option, ...]
    increments: tuple[Increment, ...]
    ontology_terms: tuple[str, ...]
    qc_minimum: float | None
    qc_maximum: float | None
    name: str = ""
    is_important: bool = False
    retired_terms: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of a pipeline: its parameters by their key, and the keys of the required ones.

    A retired parameter is not required, even if IMPReSS still says so. `level` is what it is done on: experiment (an
    animal), line (a colony) or housing; "" if none is given.
    """

    key: str
    is_active: bool
    parameters: Mapping[str, Parameter]
    required: frozenset[str]
    name: str = ""
    is_mandatory: bool = False
    level: str = ""


@dataclass(frozen=True, slots=True)
class ProcedureDue:
    """When a pipeline asks for a procedure first: at an age in weeks, or of embryos at a stage, such as E15.5."""

    weeks: float | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: its procedures by their key, which includes the version (IMPC_CBC_001), and when they are due."""

    key: str
    procedures: Mapping[str, Procedure]
    name: str = ""
    due: Mapping[str, ProcedureDue] = field(default_factory=dict)


def required_of(parameters: Mapping[str, Parameter]) -> frozenset[str]:
    """The keys of the required ones among some parameters."""
    return frozenset(key for key, parameter in parameters.items() if parameter.is_required and parameter.is_active)


def retired_among(terms: Collection[tuple[str, bool]]) -> frozenset[str]:
    """Those among some terms, each with whether it is active, that are nowhere active."""
    return frozenset(term for term, _ in terms) - {term for term, is_active in terms if is_active}


@dataclass(frozen=True, slots=True)
class Impress(Snapshot):
    """The pipelines of IMPReSS by their key."""

    NAME: ClassVar[str] = "impress"

    pipelines: Mapping[str, Pipeline]

    @property
    def entries(self) -> Mapping[Any, object]:
        """The parameters by the keys of pipeline, procedure and parameter."""
        return {
            (pipeline.key, procedure.key, parameter.key): parameter
            for pipeline in self.pipelines.values()
            for procedure in pipeline.procedures.values()
            for parameter in procedure.parameters.values()
        }
