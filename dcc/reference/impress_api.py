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
from typing import Any, Final, TypeVar

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
    retired_among,
)
from dcc.reference.snapshots import Provenance

Answers = Callable[[str], object]
"""The API's answer at an address: parsed JSON. Raises ReferenceDataError without an answer."""

T = TypeVar("T")
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
            raise _fault(provenance.source, f"pipeline/{number}", f"another pipeline has the key {pipeline.key}")
        pipelines[pipeline.key] = pipeline
    impress = Impress(provenance, pipelines)
    if impress.rows == 0:
        raise ReferenceDataError(
            f"IMPReSS from {provenance.source} has no parameter in any pipeline. Retrieve it again."
        )
    return impress


@dataclass(frozen=True, slots=True)
class _Entry:
    """An object that the API has at an address; each method raises ReferenceDataError for a value of another form."""

    source: str
    address: str
    values: dict[str, Any]

    def fault(self, what: str) -> ReferenceDataError:
        return _fault(self.source, self.address, what)

    def collection(self, name: str) -> list[object]:
        found = self.values.get(name)
        if found is not None and not isinstance(found, list):
            raise self.fault(f"{name} is no list")
        return found or []

    def text(self, name: str, *, needed: bool = False) -> str:
        value = self.values.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise self.fault(f"{name} is {value!r}, which is no text")
        return value.strip()

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return otherwise
        if value not in (True, False):
            raise self.fault(f"{name} is {value!r}, which is neither true nor false")
        return bool(value)

    def number(self, name: str) -> float | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(f"{name} is {value!r}, which is no number")
        try:
            number = float(value)
        except OverflowError as error:
            raise self.fault(f"{name} has {len(str(abs(value))):,} digits, which is more than is held") from error
        if not math.isfinite(number):
            raise self.fault(f"{name} is {value!r}, which is no number")
        return number

    def in_use(self) -> bool:
        return self.flag("isActive", otherwise=True) and not self.flag("isDeprecated")

    def due(self) -> ProcedureDue:
        """When a schedule's procedures are due; nothing for a time without a unit, or at which no mouse lives."""
        unit, stage, time = self.text("timeUnit").lower(), self.text("stage"), None
        try:
            # As a text: of an integer with too many digits for a float, float() would raise another error.
            time = None if self.values.get("time") is None else float(str(self.values["time"]))
        except ValueError:
            raise self.fault(f"time is {self.values['time']!r}, which is no number") from None
        if _EMBRYONIC.fullmatch(stage):
            return ProcedureDue(stage=stage)
        if time is None or not math.isfinite(time):
            return ProcedureDue()
        if unit == "dpc":
            return ProcedureDue(stage=f"E{time:g}")
        weeks = time * _DAYS_IN.get(unit.removesuffix("s"), math.nan) / 7
        return ProcedureDue(weeks=round(weeks, 2)) if 0 <= weeks <= _MAX_WEEKS else ProcedureDue()


def _fault(source: str, address: str, what: str) -> ReferenceDataError:
    return ReferenceDataError(
        f"IMPReSS from {source}: at {address}, {what}. Retrieve it again; what was loaded before stays in use."
    )


@dataclass
class _Reading:
    """The objects read so far; procedures and parameters are shared by pipelines and read once."""

    answers: Answers
    source: str
    known: dict[tuple[str, str], Any] = field(default_factory=dict)

    def listed(self, kind: str) -> dict[str, str]:
        address = f"{kind}/list"
        answer = self.answers(address)
        if not isinstance(answer, dict) or not answer:
            raise _fault(self.source, address, "it is no object of ids and names")
        return {str(key): "" if name is None else str(name) for key, name in answer.items()}

    def entry(self, kind: str, which: object) -> _Entry:
        address = f"{kind}/{which}"
        answer = which if isinstance(which, dict) else self.answers(address)
        if not isinstance(answer, dict):
            raise _fault(self.source, address, "it is no object")
        return _Entry(self.source, f"an entry of {kind}" if isinstance(which, dict) else address, answer)

    def entries(self, kind: str, above: _Entry, name: str) -> list[_Entry]:
        found = [self.entry(kind, which) for which in above.collection(name)]
        return [each for each in found if not each.flag("isDeleted")]

    def once(self, kind: str, which: object, read: Callable[[_Entry], T]) -> T:
        """What is read from an entry, which is read once if it has an id."""
        if isinstance(which, dict):
            return read(self.entry(kind, which))
        key = (kind, str(which))
        if key not in self.known:
            self.known[key] = read(self.entry(kind, which))
        found: T = self.known[key]
        return found

    def pipeline(self, number: str) -> Pipeline:
        entry = self.entry("pipeline", number)
        procedures = {procedure.key: procedure for procedure in self.procedures(entry)}
        due: dict[str, ProcedureDue] = {}
        for schedule in self.entries("schedule", entry, "scheduleCollection"):
            asked = schedule.due() if schedule.in_use() else ProcedureDue()
            for procedure in self.procedures(schedule):
                procedures[procedure.key] = procedure
                if asked != ProcedureDue():
                    due[procedure.key] = min(due.get(procedure.key, asked), asked, key=_order_of_due)
        return Pipeline(entry.text("pipelineKey", needed=True), procedures, entry.text("name"), due)

    def procedures(self, above: _Entry) -> list[Procedure]:
        return [self.once("procedure", which, self.procedure) for which in above.collection("procedureCollection")]

    def procedure(self, entry: _Entry) -> Procedure:
        found = [self.once("parameter", which, self.parameter) for which in entry.collection("parameterCollection")]
        parameters = {parameter.key: parameter for parameter in found}
        return Procedure(
            entry.text("procedureKey", needed=True),
            entry.in_use(),
            parameters,
            required_of(parameters),
            entry.text("name"),
            entry.flag("isMandatory"),
            entry.text("level").lower(),
        )

    def parameter(self, entry: _Entry) -> Parameter:
        type_text = entry.text("type", needed=True)
        if type_text not in set(ParameterType):
            raise entry.fault(f"type is {type_text!r}, which is no element for parameters")
        is_checked = entry.flag("qcCheck")
        terms = self.ontology_terms(entry) if type_text == ParameterType.ONTOLOGY else ()
        return Parameter(
            key=entry.text("parameterKey", needed=True),
            type=ParameterType(type_text),
            value_type=entry.text("valueType"),
            unit=self.unit(entry),
            is_required=entry.flag("isRequired"),
            is_active=entry.in_use(),
            options=self.options(entry) if entry.flag("isOption") else (),
            increments=self.increments(entry) if entry.flag("isIncrement") else (),
            ontology_terms=tuple(term for term, _ in terms),
            qc_minimum=entry.number("qcMin") if is_checked else None,
            qc_maximum=entry.number("qcMax") if is_checked else None,
            name=entry.text("name"),
            is_important=entry.flag("isImportant"),
            retired_terms=retired_among(terms),
        )

    def unit(self, entry: _Entry) -> str:
        which = entry.values.get("unit")
        if which is None:
            return ""
        if ("unit", "list") not in self.known:
            self.known["unit", "list"] = self.listed("unit")
        name = self.known["unit", "list"].get(str(which))
        if name is None:
            raise entry.fault(f"unit is {which!r}, which unit/list does not have")
        return str(name).strip()

    def options(self, above: _Entry) -> tuple[Option, ...]:
        found = self.entries("option", above, "optionCollection")
        return tuple(Option(each.text("name", needed=True), each.flag("isActive", otherwise=True)) for each in found)

    def increments(self, above: _Entry) -> tuple[Increment, ...]:
        return tuple(
            Increment(
                each.text("incrementString"),
                each.text("incrementType"),
                each.text("incrementUnit"),
                int(each.number("incrementMin") or 0),
                each.flag("isActive", otherwise=True),
            )
            for each in self.entries("increment", above, "incrementCollection")
        )

    def ontology_terms(self, entry: _Entry) -> tuple[tuple[str, bool], ...]:
        group = entry.values.get("ontologyGroupId")
        return () if group is None else self.once("ontologygroup", group, self.terms)

    def terms(self, group: _Entry) -> tuple[tuple[str, bool], ...]:
        terms = []
        for choice in self.entries("paramontologyoption", group, "paramOntologyoptionCollection"):
            if choice.values.get("ontologyTermId") is None:
                raise choice.fault("ontologyTermId is missing")
            term = self.entry("ontologyterm", choice.values["ontologyTermId"]).text("ontologyTerm", needed=True)
            terms.append((term, choice.flag("isActive", otherwise=True)))
        return tuple(terms)


def _order_of_due(due: ProcedureDue) -> tuple[float, str]:
    return (-1.0 if due.weeks is None else due.weeks), due.stage
