"""IMPReSS from the answers of its public API, however they were got.

An answer is what the API says at an address, which is `<kind>/list` (ids and names) or `<kind>/<id>`:

- `pipeline/list` -> `pipeline/<id>`: pipelineKey, name, procedureCollection, scheduleCollection (ids)
- `schedule/<id>`: time (9), timeUnit (Weeks, Days, Months; DPC), stage (E15.5), procedureCollection (ids), isActive
- `procedure/<id>`: procedureKey, name, parameterCollection (ids), isActive, isDeprecated, isMandatory, level
- `parameter/<id>`: parameterKey, name, type, valueType, unit (id), isRequired, isImportant, isOption, isIncrement,
  isActive, isDeprecated, qcCheck, qcMin, qcMax, optionCollection, incrementCollection (ids), ontologyGroupId
- `option/<id>`: name, isActive; `increment/<id>`: incrementString, incrementType, incrementUnit, incrementMin, isActive
- `unit/list`: the units by their id
- `ontologygroup/<id>`: paramOntologyoptionCollection (ids) -> `paramontologyoption/<id>`: ontologyTermId, isActive ->
  `ontologyterm/<id>`: ontologyTerm (MP:0001262)

A collection may hold the objects themselves instead of their ids. Entries whose isDeleted is true are left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from dcc.errors import ReferenceDataError
from dcc.reference.impress import (
    Impress,
    Increment,
    Option,
    Parameter,
    ParameterType,
    Pipeline,
    Procedure,
    ProcedureDue,
    required_of,
)
from dcc.reference.snapshots import Provenance

Answers = Callable[[str], object]
"""The API's answer at an address: parsed JSON. Raises ReferenceDataError without an answer."""

_Answer = dict[str, Any]
_DAYS_IN: Final = {"day": 1.0, "week": 7.0, "month": 365.25 / 12}
_MAX_WEEKS: Final = 520.0
"""More than the age of any mouse."""
_EMBRYONIC: Final = re.compile(r"E\d+(\.\d+)?")


def impress_from_answers(answers: Answers, provenance: Provenance) -> Impress:
    """IMPReSS from the answers.

    Raises ReferenceDataError with the address for an answer that is missing or has another form, and if there is no
    pipeline with a procedure with a parameter.
    """
    reading = _Reading(answers, provenance.source)
    pipelines: dict[str, Pipeline] = {}
    for number in reading.listed("pipeline"):
        pipeline = reading.pipeline(number)
        if pipeline.key in pipelines:
            raise reading.fault(f"pipeline/{number}", f"another pipeline has the key {pipeline.key}")
        pipelines[pipeline.key] = pipeline
    impress = Impress(provenance, pipelines)
    if impress.rows == 0:
        raise ReferenceDataError(
            f"IMPReSS from {provenance.source} has no parameter in any pipeline. Retrieve it again."
        )
    return impress


@dataclass
class _Reading:
    """The objects read so far; procedures and parameters are shared by pipelines and read once."""

    answers: Answers
    source: str
    procedures: dict[str, Procedure] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unit_names: dict[str, str] | None = None

    def fault(self, address: str, what: str) -> ReferenceDataError:
        return ReferenceDataError(
            f"IMPReSS from {self.source}: at {address}, {what}. Retrieve it again; what was loaded before stays in use."
        )

    def listed(self, kind: str) -> dict[str, str]:
        address = f"{kind}/list"
        answer = self.answers(address)
        if not isinstance(answer, dict) or not answer:
            raise self.fault(address, "it is no object of ids and names")
        return {str(key): "" if name is None else str(name) for key, name in answer.items()}

    def entry(self, kind: str, which: object) -> tuple[str, _Answer]:
        address = f"{kind}/{which}"
        answer = which if isinstance(which, dict) else self.answers(address)
        if not isinstance(answer, dict):
            raise self.fault(address, "it is no object")
        return (f"an entry of {kind}" if isinstance(which, dict) else address), answer

    def collection(self, address: str, answer: _Answer, name: str) -> list[object]:
        found = answer.get(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self.fault(address, f"{name} is no list")
        return found

    def entries(self, kind: str, address: str, answer: _Answer, name: str) -> list[tuple[str, _Answer]]:
        found = [self.entry(kind, which) for which in self.collection(address, answer, name)]
        return [(where, each) for where, each in found if not self.flag(where, each, "isDeleted", otherwise=False)]

    def text(self, address: str, answer: _Answer, name: str, *, needed: bool = False) -> str:
        value = answer.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise self.fault(address, f"{name} is {value!r}, which is no text")
        return value.strip()

    def flag(self, address: str, answer: _Answer, name: str, *, otherwise: bool) -> bool:
        value = answer.get(name)
        if value is None:
            return otherwise
        if value not in (True, False):
            raise self.fault(address, f"{name} is {value!r}, which is neither true nor false")
        return bool(value)

    def number(self, address: str, answer: _Answer, name: str) -> float | None:
        value = answer.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(address, f"{name} is {value!r}, which is no number")
        try:
            number = float(value)
        except OverflowError as error:
            digits = len(str(abs(value)))
            raise self.fault(address, f"{name} has {digits:,} digits, which is more than is held") from error
        if not math.isfinite(number):
            raise self.fault(address, f"{name} is {value!r}, which is no number")
        return number

    def in_use(self, address: str, answer: _Answer) -> bool:
        active = self.flag(address, answer, "isActive", otherwise=True)
        return active and not self.flag(address, answer, "isDeprecated", otherwise=False)

    def pipeline(self, number: str) -> Pipeline:
        address, answer = self.entry("pipeline", number)
        procedures: dict[str, Procedure] = {}
        for which in self.collection(address, answer, "procedureCollection"):
            procedure = self.procedure(which)
            procedures[procedure.key] = procedure
        due: dict[str, ProcedureDue] = {}
        for where, schedule in self.entries("schedule", address, answer, "scheduleCollection"):
            asked = self.due(where, schedule) if self.in_use(where, schedule) else ProcedureDue()
            for which in self.collection(where, schedule, "procedureCollection"):
                procedure = self.procedure(which)
                procedures[procedure.key] = procedure
                if asked != ProcedureDue():
                    due[procedure.key] = min(due.get(procedure.key, asked), asked, key=_order_of_due)
        key = self.text(address, answer, "pipelineKey", needed=True)
        return Pipeline(key, procedures, self.text(address, answer, "name"), due)

    def due(self, address: str, answer: _Answer) -> ProcedureDue:
        """When a schedule's procedures are due; nothing for a time without a unit, or at which no mouse lives."""
        unit, stage, time = self.text(address, answer, "timeUnit").lower(), self.text(address, answer, "stage"), None
        try:
            # As a text: of an integer with too many digits for a float, float() would raise another error.
            time = None if answer.get("time") is None else float(str(answer["time"]))
        except ValueError:
            raise self.fault(address, f"time is {answer['time']!r}, which is no number") from None
        if _EMBRYONIC.fullmatch(stage):
            return ProcedureDue(stage=stage)
        if time is None or not math.isfinite(time):
            return ProcedureDue()
        if unit == "dpc":
            return ProcedureDue(stage=f"E{time:g}")
        weeks = time * _DAYS_IN.get(unit.removesuffix("s"), math.nan) / 7
        return ProcedureDue(weeks=round(weeks, 2)) if 0 <= weeks <= _MAX_WEEKS else ProcedureDue()

    def procedure(self, which: object) -> Procedure:
        known = None if isinstance(which, dict) else self.procedures.get(str(which))
        if known is not None:
            return known
        address, answer = self.entry("procedure", which)
        parameters: dict[str, Parameter] = {}
        for each in self.collection(address, answer, "parameterCollection"):
            parameter = self.parameter(each)
            parameters[parameter.key] = parameter
        procedure = Procedure(
            self.text(address, answer, "procedureKey", needed=True),
            self.in_use(address, answer),
            parameters,
            required_of(parameters),
            self.text(address, answer, "name"),
            self.flag(address, answer, "isMandatory", otherwise=False),
            self.text(address, answer, "level").lower(),
        )
        if not isinstance(which, dict):
            self.procedures[str(which)] = procedure
        return procedure

    def parameter(self, which: object) -> Parameter:
        known = None if isinstance(which, dict) else self.parameters.get(str(which))
        if known is not None:
            return known
        address, answer = self.entry("parameter", which)
        type_text = self.text(address, answer, "type", needed=True)
        if type_text not in set(ParameterType):
            raise self.fault(address, f"type is {type_text!r}, which is no element for parameters")
        checked = self.flag(address, answer, "qcCheck", otherwise=False)
        parameter = Parameter(
            key=self.text(address, answer, "parameterKey", needed=True),
            type=ParameterType(type_text),
            value_type=self.text(address, answer, "valueType"),
            unit=self.unit(address, answer),
            is_required=self.flag(address, answer, "isRequired", otherwise=False),
            is_active=self.in_use(address, answer),
            options=self.options(address, answer),
            increments=self.increments(address, answer),
            ontology_terms=self.ontology_terms(address, answer),
            qc_minimum=self.number(address, answer, "qcMin") if checked else None,
            qc_maximum=self.number(address, answer, "qcMax") if checked else None,
            name=self.text(address, answer, "name"),
            is_important=self.flag(address, answer, "isImportant", otherwise=False),
        )
        if not isinstance(which, dict):
            self.parameters[str(which)] = parameter
        return parameter

    def unit(self, address: str, answer: _Answer) -> str:
        which = answer.get("unit")
        if which is None:
            return ""
        if self.unit_names is None:
            self.unit_names = self.listed("unit")
        name = self.unit_names.get(str(which))
        if name is None:
            raise self.fault(address, f"unit is {which!r}, which unit/list does not have")
        return name.strip()

    def options(self, address: str, answer: _Answer) -> tuple[Option, ...]:
        if not self.flag(address, answer, "isOption", otherwise=False):
            return ()
        return tuple(
            Option(self.text(where, each, "name", needed=True), self.flag(where, each, "isActive", otherwise=True))
            for where, each in self.entries("option", address, answer, "optionCollection")
        )

    def increments(self, address: str, answer: _Answer) -> tuple[Increment, ...]:
        if not self.flag(address, answer, "isIncrement", otherwise=False):
            return ()
        return tuple(
            Increment(
                self.text(where, each, "incrementString"),
                self.text(where, each, "incrementType"),
                self.text(where, each, "incrementUnit"),
                int(self.number(where, each, "incrementMin") or 0),
                self.flag(where, each, "isActive", otherwise=True),
            )
            for where, each in self.entries("increment", address, answer, "incrementCollection")
        )

    def ontology_terms(self, address: str, answer: _Answer) -> tuple[str, ...]:
        group = answer.get("ontologyGroupId")
        if group is None or self.text(address, answer, "type") != ParameterType.ONTOLOGY:
            return ()
        if str(group) not in self.groups:
            where, found = self.entry("ontologygroup", group)
            choices = self.entries("paramontologyoption", where, found, "paramOntologyoptionCollection")
            self.groups[str(group)] = tuple(self.term(at, each) for at, each in choices)
        return self.groups[str(group)]

    def term(self, address: str, choice: _Answer) -> str:
        if choice.get("ontologyTermId") is None:
            raise self.fault(address, "ontologyTermId is missing")
        where, term = self.entry("ontologyterm", choice["ontologyTermId"])
        return self.text(where, term, "ontologyTerm", needed=True)


def _order_of_due(due: ProcedureDue) -> tuple[float, str]:
    return (-1.0 if due.weeks is None else due.weeks), due.stage
