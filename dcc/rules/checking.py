"""Checks a document's content against all rules.

The document is read once, as a stream: in memory is one batch of entities, for which the QC database is queried at
once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from dcc.documents.contents import (
    Block,
    Content,
    Entity,
    Housing,
    MediaParameter,
    MediaSampleParameter,
    ParameterAssociation,
    Procedure,
    SeriesMediaParameter,
    SeriesParameter,
    Specimen,
    element_name,
)
from dcc.documents.forms import path_of_centre
from dcc.naming import DocumentKind
from dcc.reference.snapshots import Snapshot
from dcc.rules import (  # noqa: F401 - they register the rules of the platform
    experiment_rules,
    media_rules,
    procedure_rules,
    series_rules,
    specimen_rules,
    status_rules,
    value_rules,
)
from dcc.rules.accepted_elements import AcceptedElements
from dcc.rules.context import NOTHING_ASKED, Answers, Context, DocumentContext, RunKey
from dcc.rules.elements import (
    TYPE_OF,
    BlockEnd,
    ElementStep,
    ParameterElement,
    ParameterUse,
    ProcedureUse,
    RequiredResults,
    excused_in,
    files_of,
    key_of,
    metadata_of_media,
    results_of,
    runs_of,
    specimens_asked_for,
    top_level_parameters,
)
from dcc.rules.findings import BROKEN_CASE, BROKEN_IN_PACKAGE, REFERENCE_RULE, Fault, Finding
from dcc.rules.registry import RULES, Rule, RulesByKind, catalogue_place
from dcc.rules.upload import DUPLICATE, EXPERIMENT_EXISTS, HAS_EXPERIMENTS, NOT_STORED, SPECIMEN_EXISTS, UPLOAD_RULES
from dcc.runtime.installed_packages import RULES as ADDED_RULES
from dcc.runtime.installed_packages import error_of, load_added, package_of
from dcc.vocabulary import Severity

load_added(ADDED_RULES)

ABOUT_SPECIMENS = frozenset(rule.id for rule in RULES.values() if rule.needs_other_documents)
"""The rules that look at specimens, or experiments on them, of other documents, in the QC database."""
AWAITING_SPECIMENS = frozenset(rule.id for rule in RULES.values() if rule.awaits_animals)
"""Those about missing specimens, which may have been submitted before or may come yet."""
JUDGED_TOGETHER = ABOUT_SPECIMENS | {SPECIMEN_EXISTS, EXPERIMENT_EXISTS, HAS_EXPERIMENTS, DUPLICATE}
"""The rules that `dcc validate` judges as far as the other documents are among its files."""
LEFT_TO_SESSIONS = UPLOAD_RULES - JUDGED_TOGETHER - {NOT_STORED}
"""The rules that `dcc validate` does not judge: only the databases can tell."""

_log = logging.getLogger(__name__)
_BATCH = 500
_MANY_RUNS = 100


def all_rules() -> Mapping[str, Rule]:
    """Every rule that a document's content is checked against, by its id."""
    return RULES


def check_contents(
    contents: Iterable[Content],
    document: DocumentContext,
    without: Collection[str] = (),
    accepted: AcceptedElements | None = None,
) -> Iterator[Finding]:
    """The findings in a document, in document order except at the ends of batches.

    For missing reference data there is one `unchecked` finding, of the rule `reference`, before the first finding
    that they could have judged; it names the skipped rules. A rule that breaks down has one `unchecked` finding,
    and the others go on. Nothing below an element with a fatal finding is checked. `without` are ids of rules to
    leave out. `accepted` has the accepted elements of other documents: it is added to, and emptied if rules or
    reference data have changed.
    """
    accepted = AcceptedElements() if accepted is None else accepted
    rules = accepted.rules(document.reference, frozenset(without))
    return _Checking(document, rules, accepted).run(contents)


def refused_blocks(findings: Iterable[Finding]) -> set[int | None]:
    """The positions of the centre elements below which nothing is checked."""
    return {one.block for one in findings if one.severity is Severity.FATAL and one.entity is None}


def check_against_others(
    contents: Iterable[Content],
    document: DocumentContext,
    refused: Collection[int | None],
    rules: Collection[str] = ABOUT_SPECIMENS,
) -> Iterator[Finding]:
    """The findings of rules about other documents, in a document whose `refused_blocks` are known."""
    found = check_contents(contents, document, RULES.keys() - rules)
    return (one for one in found if one.rule in rules and one.block not in refused)


@dataclass
class _Checking:
    """The check of one document.

    `met` are the kinds of elements that were judged. `found` has the findings in the present entity, or centre element.
    `required` counts the results that the procedures
    of the present centre element require, `excused` those that a status stands for. `repeated` has the known runs of
    centres with so many experiments that each batch would read them all again.
    """

    document: DocumentContext
    rules: RulesByKind
    accepted: AcceptedElements
    met: set[type] = field(default_factory=set)
    said: set[tuple[str, str]] = field(default_factory=set)
    found: list[Finding] = field(default_factory=list)
    required: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    repeated: dict[tuple[str, RunKey], Mapping[str, str]] = field(default_factory=dict)

    def run(self, contents: Iterable[Content]) -> Iterator[Finding]:
        block: Block | None = None
        batch: list[Entity] = []
        held = 0
        numbers: Counter[str] = Counter()
        for content in contents:
            if isinstance(content, Block):
                yield from self.batch(block, batch, numbers)
                yield from self.end(block, held)
                block, batch, held, numbers = None, [], 0, Counter()
                self.judge(content, self.block_context(content))
                if not any(finding.severity is Severity.FATAL for finding in self.found):
                    block = content
                yield from self.take_found()
                continue
            if block is None:
                continue
            held += 1
            batch.append(content)
            if len(batch) == _BATCH:
                yield from self.batch(block, batch, numbers)
                batch = []
        yield from self.batch(block, batch, numbers)
        yield from self.end(block, held)

    def take_found(self) -> list[Finding]:
        found, self.found = self.found, []
        return found

    def block_context(self, block: Block) -> Context:
        kind = DocumentKind.SPECIMEN if block.pipeline is None else DocumentKind.EXPERIMENT
        impress = self.document.reference.impress
        pipeline = impress.pipelines.get(block.pipeline or "") if impress is not None else None
        return Context(self.document, path_of_centre(kind, block.position), block, pipeline=pipeline)

    def end(self, block: Block | None, held: int) -> list[Finding]:
        if block is not None:
            results = {key: RequiredResults(number, self.excused[key]) for key, number in self.required.items()}
            self.judge(BlockEnd(block, held, results), self.block_context(block))
        self.required.clear()
        self.excused.clear()
        return self.take_found()

    def batch(self, block: Block | None, entities: list[Entity], numbers: Counter[str]) -> Iterator[Finding]:
        if block is None or not entities:
            return
        above = self.block_context(block)._replace(answers=self.ask(block, entities))
        # Each is released once it is checked.
        entities.reverse()
        while entities:
            entity = entities.pop()
            name = element_name(entity)
            numbers[name] += 1
            self.entity(entity, f"/{name}[{numbers[name]}]", above)
            if self.found:
                yield from self.take_found()

    def ask(self, block: Block, entities: list[Entity]) -> Answers:
        lookups = self.document.lookups
        if lookups is None or self.rules.without >= ABOUT_SPECIMENS:
            return NOTHING_ASKED
        ids = {each for entity in entities for each in specimens_asked_for(entity)}
        if not ids:
            return NOTHING_ASKED
        runs = {each for entity in entities for each in runs_of(entity)}
        known = {run: self.repeated[block.centre, run] for run in runs if (block.centre, run) in self.repeated}
        if runs := runs - known.keys():
            asked = lookups.known_runs(block.centre, runs)
            known |= asked
            self.repeated |= {(block.centre, run): those for run, those in asked.items() if len(those) > _MANY_RUNS}
        return Answers(lookups.known_specimens(block.centre, ids), known)

    def entity(self, entity: Entity, step: str, above: Context) -> None:
        at = above._replace(path=above.path + step, entity=entity)
        self.judge(entity, at)
        # An entity with a status code has no procedure to check.
        has_status = not isinstance(entity, Specimen | Housing) and entity.status_codes
        if not isinstance(entity, Specimen) and not has_status and entity.procedure is not None:
            self.procedure(entity.procedure, at)

    def procedure(self, procedure: Procedure, above: Context) -> None:
        definition = above.pipeline.procedures.get(procedure.procedure_id) if above.pipeline is not None else None
        if definition is not None and definition.required:
            self.required[definition.key] += len(definition.required)
            self.excused[definition.key] += excused_in(procedure, definition.required)
        at = above._replace(
            path=f"{above.path}/procedure",
            procedure=procedure,
            procedure_definition=definition,
            results=results_of(procedure),
        )
        if not self.accepted.knows(procedure, id(definition)):
            is_valid = self.judge(ProcedureUse(procedure), at)
            if definition is None and self.document.reference.impress is not None:
                return
            if self.judge(procedure, at) and is_valid:
                self.accepted.remember(procedure, id(definition), ProcedureUse)
        for step in chain(top_level_parameters(procedure), metadata_of_media(procedure)):
            if not self.accepted.knows(step.parameter, id(definition)):
                self.parameter(step, at)
            elif isinstance(step.parameter, SeriesParameter):
                # Only its values may be wrong.
                self.inside(step.parameter, _at_parameter(step, at))

    def parameter(self, step: ElementStep, above: Context) -> None:
        element = step.parameter
        definitions = above.procedure_definition
        at = _at_parameter(step, above)
        definition = at.parameter_definition
        kind = TYPE_OF[type(element)]
        is_valid = self.judge(ParameterUse(element, kind), at)
        if definitions is not None and (definition is None or definition.type is not kind):
            return
        if self.judge(element, at) and is_valid:
            self.accepted.remember(element, id(definitions), ParameterUse, parameter=definition)
        self.inside(element, at)

    def inside(self, element: ParameterElement, at: Context) -> None:
        definition = at.parameter_definition
        if isinstance(element, SeriesParameter):
            for number, value in enumerate(element.values, 1):
                if self.accepted.knows(value, id(definition)):
                    continue
                if self.judge(value, at._replace(path=f"{at.path}/value[{number}]")):
                    self.accepted.remember(value, id(definition), parameter=definition)
        elif isinstance(element, MediaParameter):
            self.associations(element.associations, at)
        elif isinstance(element, MediaSampleParameter):
            for path, file in files_of(element):
                below = at._replace(path=at.path + path, parameter_status=element.status)
                self.judge(file, below)
                self.associations(file.associations, below)
        elif isinstance(element, SeriesMediaParameter):
            for number, media in enumerate(element.values, 1):
                below = at._replace(path=f"{at.path}/value[{number}]", parameter_status=element.status)
                self.judge(media, below)
                self.associations(media.associations, below)

    def associations(self, associations: tuple[ParameterAssociation, ...], at: Context) -> None:
        for number, association in enumerate(associations, 1):
            self.judge(association, at._replace(path=f"{at.path}/parameterAssociation[{number}]"))

    def judge(self, element: Any, at: Context) -> bool:
        """Check an element against its rules; returns whether there is no finding.

        Reports `unchecked` once a document.
        """
        is_valid = True
        kind = type(element)
        if kind not in self.met:
            self.meet(kind, at)
        for rule in self.rules.of(kind).rules:
            try:
                for found in rule.check(element, at):
                    is_valid = False
                    finding = rule.finding(found, at, element)
                    if finding.severity is Severity.UNCHECKED:
                        self.once(finding)
                    else:
                        self.found.append(finding)
            except MemoryError:
                raise
            except Exception as error:
                is_valid = False
                self.broken(rule, error, at)
        return is_valid

    def broken(self, rule: Rule, error: Exception, at: Context) -> None:
        """Report that a rule broke down: a fault of the platform, which stops no other rule."""
        package, kind = package_of(rule.check), type(error).__name__
        case, of_package = (BROKEN_CASE, {}) if package is None else (BROKEN_IN_PACKAGE, {"package": package})
        details = {"rule": rule.id, "error": kind, **of_package}
        if self.once(rule.finding(Fault(at.block.line, None, details, case, Severity.UNCHECKED), at)):
            named = rule.id if package is None else f"{rule.id} of the package {package}"
            _log.error("Rule %s broke down at %s: %s", named, at.path, error_of(error), exc_info=error)

    def once(self, finding: Finding) -> bool:
        """Add a finding unless it was reported already; returns whether it was added."""
        key = (finding.code, finding.message)
        is_new = key not in self.said
        if is_new:
            self.said.add(key)
            self.found.append(finding)
        return is_new

    def meet(self, kind: type, at: Context) -> None:
        """Report missing reference data for elements of a kind.

        It is reported when a kind is first met, so that nothing is reported for rules that the document does not need.
        """
        self.met.add(kind)
        for needed in self.rules.of(kind).missing:
            self.once(_missing(needed, at))


def _at_parameter(step: ElementStep, above: Context) -> Context:
    """The context of a parameter below that of its procedure."""
    definitions = above.procedure_definition
    definition = None if definitions is None else definitions.parameters.get(key_of(step.parameter.parameter_id))
    return above._replace(path=above.path + step.path, parameter_definition=definition)


def _missing(kind: type[Snapshot], at: Context) -> Finding:
    skipped = sorted((rule.id for rule in RULES.values() if kind in rule.needs), key=catalogue_place)
    return Finding(
        REFERENCE_RULE,
        Severity.UNCHECKED,
        {"rules": skipped},
        at.block.line,
        at.path,
        kind.NAME,
        references=(kind.NAME,),
    )
