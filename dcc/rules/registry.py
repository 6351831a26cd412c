"""The rules, each registered under its id for the kinds of element that it looks at.

A rule is a function of an element and its Context that yields a Fault, with its details by name, for everything it
objects to. It is registered where it is written, with every text about it:

    @rule(
        "S2",
        Specimen,
        message=mark("The strainID '{value}' of the animal '{specimen}' is not known. Give its MGI id."),
        cause=mark("The strain '{value}' is not known"),
        remedy=mark("Correct the strainID, or have the strain registered."),
        cause_by=("value",),
        needs=Strains,
    )
    def strain_is_known(specimen: Specimen, at: Context) -> Iterator[Fault]:
        "An animal's strainID is a known strain."
        if specimen.strain_id not in at.strains.names:
            yield fault(specimen.line, specimen.strain_id, specimen=specimen.specimen_id)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

from dcc.declarations import ORIGIN, VALUE, Declaration, code_of, declaration_of, declare
from dcc.documents.contents import Block
from dcc.errors import InternalFaultError
from dcc.messages import Message
from dcc.reference.loading import ReferenceData
from dcc.reference.snapshots import Snapshot
from dcc.rules.context import Context, NoAnswers
from dcc.rules.elements import JUDGED, BlockEnd
from dcc.rules.findings import Fault, Finding
from dcc.runtime.installed_packages import package_of
from dcc.vocabulary import Actor, Severity

RULE_ID: Final = re.compile(r"[A-Z]+[0-9]+")
"""The form of a rule's id."""
_SUBJECTS: Final = ("S", "E", "P", "X", "Q")
"""The first letters of the catalogue's rules, in its order; others are behind these."""

Check = Callable[[Any, Context], Iterator[Fault]]
AnyCheck = TypeVar("AnyCheck", bound=Check)


@dataclass(frozen=True, slots=True)
class Rule:
    """A registered rule.

    `known_as` are its ids in the field's existing validator; `needs` the reference data without which it cannot be
    checked. The first line of the check's docstring is what the rule demands.

    A rule that `depends_on_shape_only` treats elements of one shape alike (`accepted_elements`) under the same
    definitions of IMPReSS, wherever they are. If also `any_number_passes`, it treats elements alike that differ only in
    a value which is a plain number, if IMPReSS wants any number.

    Only a rule that `needs_other_documents` sees any, in `Context.answers.specimens`: the animals of the same
    centre that the experiment names, or the animal as relatives; see also `dcc.qc.judging.lookups`. It sees the
    experiments on these too, in `Context.answers.runs`. Findings of a rule that `awaits_animals` have the id of a
    missing animal as their value, and end when it arrives.
    """

    id: str
    severity: Severity
    known_as: tuple[str, ...]
    needs: tuple[type[Snapshot], ...]
    check: Check
    needs_other_documents: bool = False
    depends_on_shape_only: bool = False
    any_number_passes: bool = False
    awaits_animals: bool = False

    @property
    def demand(self) -> str:
        """What the rule demands, in a sentence."""
        return (self.check.__doc__ or "").strip().splitlines()[0]

    @property
    def reference_names(self) -> tuple[str, ...]:
        """The names of the reference data that it needs."""
        return tuple(kind.NAME for kind in self.needs)

    def finding(self, fault: Fault, at: Context, element: Any = None) -> Finding:
        """The finding of a fault that the check yielded for an element."""
        if _is_of_package(self.check):
            _require_sound(code_of(self.id, fault.case), fault)
        severity, details, origin = fault.severity or self.severity, fault.details, at.document.origin
        if origin is not None and severity is not Severity.UNCHECKED:
            details = {**details, ORIGIN: origin.place_of(element, fault.line, fault.value)}
        return Finding(
            code_of(self.id, fault.case),
            severity,
            details,
            fault.line,
            at.path + fault.below,
            fault.value,
            at.block.centre,
            _procedure_of(at),
            self.reference_names,
            at.block.position,
            at.entity_kind,
            at.entity.position if at.entity is not None else None,
        )


def _is_of_package(check: Check) -> bool:
    return not str(check.__module__).startswith("dcc.")


def _require_sound(code: str, fault: Fault) -> None:
    """Refuse a fault of a package's rule that no message can be made of. Raises TypeError and ValueError."""
    declaration = declaration_of(code)
    if declaration is None:
        raise ValueError(f"no case {fault.case!r} is declared")
    if lacking := declaration.lacks(fault.details):
        raise ValueError(f"the message lacks {', '.join(sorted(lacking))}")
    if unshared := {*declaration.cause_by} - fault.details.keys() - {VALUE}:
        raise ValueError(f"the cause lacks {', '.join(sorted(unshared))}")
    if not isinstance(fault.line, int):
        raise TypeError(f"the line is of the type {type(fault.line).__name__}")
    if not isinstance(fault.value, str | None):
        raise TypeError(f"the value is of the type {type(fault.value).__name__}")
    for name, detail in fault.details.items():
        if not isinstance(detail, str | int | float | list | tuple | Message | None):
            raise TypeError(f"the detail {name} is of the type {type(detail).__name__}")


def _procedure_of(at: Context) -> str | None:
    procedure = at.procedure or getattr(at.entity, "procedure", None)
    return None if procedure is None else str(procedure.procedure_id)


def _without_answers(check: Check) -> Check:
    """A check that breaks down if it looks at other documents, whose answers it would take for complete."""
    none = NoAnswers()
    return wraps(check)(lambda element, at: check(element, at._replace(answers=none)))


RULES: dict[str, Rule] = {}
"""All rules by their id. Import dcc.rules.checking to have it complete."""

_BY_KIND: dict[type, tuple[Rule, ...]] = {}
"""The rules for a kind of element, in any order."""
_SAYS_NOTHING: Final = Declaration(cause="", remedy="")


def kinds_of(rule_id: str) -> frozenset[type]:
    """The kinds of element that a registered rule is for."""
    return frozenset(kind for kind, rules in _BY_KIND.items() if any(rule.id == rule_id for rule in rules))


def catalogue_place(rule_id: str) -> tuple[int, int, str]:
    """A sort key for rules: the order of the catalogue, in which an element's rules are checked too."""
    letters = rule_id.rstrip("0123456789")
    place = _SUBJECTS.index(letters) if letters in _SUBJECTS else len(_SUBJECTS)
    return place, int(rule_id[len(letters) :] or 0), letters


def rule(
    rule_id: str,
    *on: type,
    severity: Severity = Severity.ERROR,
    message: str | None = None,
    cause: str | None = None,
    remedy: str | None = None,
    acts: Actor | None = None,
    cause_by: tuple[str, ...] | None = None,
    like: Declaration = _SAYS_NOTHING,
    cases: Mapping[str, Declaration | str] | None = None,
    known_as: str | tuple[str, ...] = (),
    needs: type[Snapshot] | tuple[type[Snapshot], ...] = (),
    needs_other_documents: bool = False,
    depends_on_shape_only: bool = False,
    any_number_passes: bool = False,
    awaits_animals: bool = False,
) -> Callable[[AnyCheck], AnyCheck]:
    """Register a check as the rule `rule_id` for the kinds of element `on`, with the declaration of its findings.

    For `message`, `cause`, `remedy`, `acts` and `cause_by` see Declaration; missing ones are those of `like`, which
    several rules may share. `cases` are further declarations, by the `case` of their faults, or messages where nothing
    else differs. Raises InternalFaultError for an id that is taken or has another form, for a kind that is not judged,
    and for a missing text or docstring. In a package, also for a cause or remedy that names more than `cause_by`.
    """

    def register(check: AnyCheck) -> AnyCheck:
        _require_well_formed(rule_id, on, check, needs_other_documents=needs_other_documents)
        own: dict[str, Any] = {"message": message, "cause": cause, "remedy": remedy, "acts": acts, "cause_by": cause_by}
        declaration = replace(like, **{name: one for name, one in own.items() if one is not None})
        for name in ("message", "cause", "remedy"):
            if not getattr(declaration, name):
                raise InternalFaultError(f"The rule {rule_id} declares no {name}. Give it one.")
        declarations = {rule_id: declaration}
        for case, further in (cases or {}).items():
            of_case = replace(declaration, message=further) if isinstance(further, str) else further
            declarations[code_of(rule_id, case)] = of_case
        for code, one in declarations.items():
            if (stray := one.stray_names()) and _is_of_package(check):
                raise InternalFaultError(
                    f"The cause or remedy of {code} names {', '.join(sorted(stray))}. Name it in `cause_by`, too."
                )
            declare(code, one)
        names = (known_as,) if isinstance(known_as, str) else known_as
        kinds = needs if isinstance(needs, tuple) else (needs,)
        registered = Rule(
            rule_id,
            severity,
            names,
            kinds,
            _without_answers(check) if _is_of_package(check) and not needs_other_documents else check,
            needs_other_documents,
            depends_on_shape_only,
            any_number_passes,
            awaits_animals,
        )
        RULES[rule_id] = registered
        for kind in on:
            _BY_KIND[kind] = (*_BY_KIND.get(kind, ()), registered)
        return check

    return register


def _require_well_formed(rule_id: str, on: tuple[type, ...], check: AnyCheck, *, needs_other_documents: bool) -> None:
    if rule_id in RULES:
        first, second = RULES[rule_id].check, check
        places = " and ".join(package_of(one) or str(one.__module__) for one in (first, second))
        raise InternalFaultError(f"Two rules have the id {rule_id}, in {places}. Give one of them another id.")
    if RULE_ID.fullmatch(rule_id) is None:
        raise InternalFaultError(f"{rule_id!r} is no id of a rule. Write capital letters and a number, such as DAY1.")
    if not all(isinstance(kind, type) for kind in on):
        raise InternalFaultError(f"The rule {rule_id} is for {on}. Name classes, such as Experiment.")
    if strange := [kind.__name__ for kind in on if kind not in JUDGED]:
        raise InternalFaultError(
            f"The rule {rule_id} is for {strange[0]}, which is never judged by itself. Name one of "
            f"{', '.join(kind.__name__ for kind in JUDGED)}."
        )
    if needs_other_documents and (outside := [kind.__name__ for kind in on if kind in (Block, BlockEnd)]):
        raise InternalFaultError(
            f"The rule {rule_id} for {outside[0]} needs other documents, which only rules for an experiment or "
            "animal, or what is in one, can see."
        )
    if not (check.__doc__ or "").strip():
        raise InternalFaultError(f"The rule {rule_id} has no docstring. Write there what it demands.")


def rule_of_shape(rule_id: str, *on: type, **declared: Any) -> Callable[[AnyCheck], AnyCheck]:
    """Register a check as `rule` does, of a rule that `depends_on_shape_only`."""
    return rule(rule_id, *on, depends_on_shape_only=True, **declared)


class RulesOfKind(NamedTuple):
    """The rules for a kind of element, whether all `depend_on_shape_only`, and `any_number_passes` in all of them.

    `missing` are the missing reference data.
    """

    rules: list[Rule]
    depend_on_shape_only: bool
    any_number_passes: bool
    missing: list[type[Snapshot]]


class RulesByKind:
    """The rules by kinds of elements, without those left out by their ids, under some reference data.

    Computed once for all documents that are checked under these. A rule without its reference data is left out, and its
    kind of element knows which are missing.
    """

    def __init__(self, reference: ReferenceData, without: Collection[str]) -> None:
        self.reference = reference
        self.without = frozenset(without)
        self._found: dict[type, RulesOfKind] = {}

    def of(self, kind: type) -> RulesOfKind:
        """The rules for elements of a kind."""
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._chosen(kind)
        return found

    def _chosen(self, kind: type) -> RulesOfKind:
        rules, missing = [], []
        for rule in sorted(_BY_KIND.get(kind, ()), key=lambda rule: catalogue_place(rule.id)):
            if rule.id in self.without:
                continue
            lacking = [needed for needed in rule.needs if self.reference.find(needed) is None]
            missing += lacking
            if not lacking:
                rules.append(rule)
        return RulesOfKind(
            rules,
            all(rule.depends_on_shape_only for rule in rules),
            all(rule.any_number_passes for rule in rules),
            missing,
        )
