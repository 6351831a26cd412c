"""IMPReSS: which parameters each procedure of a pipeline has, and what their values may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from dcc.reference.snapshots import Snapshot


class ParameterType(StrEnum):
    """The element that a parameter is submitted as."""

    SIMPLE = "simpleParameter"
    ONTOLOGY = "ontologyParameter"
    SERIES = "seriesParameter"
    MEDIA = "mediaParameter"
    MEDIA_SAMPLE = "mediaSampleParameter"
    SERIES_MEDIA = "seriesMediaParameter"
    METADATA = "procedureMetadata"


class ValueType(StrEnum):
    """How a value is read."""

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
    """A rule for increments: a permitted incrementValue (`text`; "" permits any) or how many there are at least.

    `kind` is `repeat`, `float` or `datetime`; "" where none is given.
    """

    text: str
    kind: str
    unit: str
    minimum: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a procedure.

    `value_type` is as IMPReSS gives it, usually one of ValueType, "" where none is given. `qc_minimum` and
    `qc_maximum` are None unless values are to be compared with them. `is_important` says of metadata that results which
    differ in it cannot be compared.
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


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of a pipeline: its parameters by their key, and the keys of those that must be submitted.

    A retired parameter need not be, even where IMPReSS still calls it required.
    """

    key: str
    is_active: bool
    parameters: Mapping[str, Parameter]
    required: frozenset[str]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: its procedures by their key, which includes the version (IMPC_CBC_001)."""

    key: str
    procedures: Mapping[str, Procedure]
    name: str = ""


def required_of(parameters: Mapping[str, Parameter]) -> frozenset[str]:
    """The keys of those parameters that must be submitted."""
    return frozenset(key for key, parameter in parameters.items() if parameter.is_required and parameter.is_active)


@dataclass(frozen=True, slots=True)
class Impress(Snapshot):
    """The pipelines of IMPReSS by their key."""

    NAME: ClassVar[str] = "impress"

    pipelines: Mapping[str, Pipeline]

    @property
    def rows(self) -> int:
        """How many parameters there are, those of a procedure in several pipelines counted in each."""
        return sum(
            len(procedure.parameters)
            for pipeline in self.pipelines.values()
            for procedure in pipeline.procedures.values()
        )

    @property
    def entries(self) -> Mapping[Any, object]:
        """The parameters by the keys of pipeline, procedure and parameter."""
        return {
            (pipeline.key, procedure.key, parameter.key): parameter
            for pipeline in self.pipelines.values()
            for procedure in pipeline.procedures.values()
            for parameter in procedure.parameters.values()
        }
