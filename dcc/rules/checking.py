"""Checks a document's content against all rules.

The document is read once, as a stream: in memory is one batch of entities, for which the QC database is queried at
once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dcc.documents.contents import (
    Block,
    Content,
    Entity,
    Housing,
    MediaParameter,
    MediaSampleParameter,
    Metadata,
    OntologyParameter,
    ParameterAssociation,
    Procedure,
    SeriesMediaParameter,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
    Specimen,
    element_name,
)
from dcc.documents.forms import path_of_centre
from dcc.naming import DocumentKind
from dcc.reference.impress import Procedure as ProcedureDefinition
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
from dcc.rules.accepted_elements import SHAPES, AcceptedElements, SkippedElements, UnknownParts, definition_of
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
    has_media,
    metadata_of_media,
    results_of,
    runs_of,
    specimens_asked_for,
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
_SIMPLE = frozenset({SimpleParameter, OntologyParameter, Metadata})


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
    return _Checking(document, rules, SkippedElements(rules, accepted)).run(contents)


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

    `found` has the findings in the present entity, or centre element. `required` counts the results that the procedures
    of the present centre element require, `excused` those that a status stands for. `repeated` has the known runs of
    centres with so many experiments that each batch would read them all again.
    """

    document: DocumentContext
    rules: RulesByKind
    skipped: SkippedElements
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
        centre, today = above.block.centre, self.document.today
        rules = self.rules.of(type(entity))
        is_known = self.skipped.knows_entity(entity, centre, today)
        # An entity with a status code has no procedure to check.
        has_status = not isinstance(entity, Specimen | Housing) and entity.status_codes
        procedure = None if isinstance(entity, Specimen) or has_status else entity.procedure
        definition, unknown = None, UnknownParts(False, [])
        if procedure is not None:
            definition = above.pipeline.procedures.get(procedure.procedure_id) if above.pipeline is not None else None
            unknown = self.skipped.unknown_in(procedure, definition)
            if definition is not None and definition.required:
                self.required[definition.key] += len(definition.required)
                self.excused[definition.key] += excused_in(procedure, definition.required)
        has_unknown = unknown.itself or bool(unknown.parameters)
        if is_known and not rules.always_asked and not has_unknown:
            return
        at = above._replace(path=above.path + step, entity=entity)
        if self.judge(entity, at, rules.always_asked if is_known else rules.rules) and not is_known:
            self.skipped.remember_entity(entity, centre, today)
        if procedure is not None and has_unknown:
            self.procedure(procedure, definition, unknown, at)

    def procedure(
        self,
        procedure: Procedure,
        definition: ProcedureDefinition | None,
        unknown: UnknownParts,
        above: Context,
    ) -> None:
        """Check those parts of a procedure that are `unknown`."""
        at = above._replace(
            path=f"{above.path}/procedure",
            procedure=procedure,
            procedure_definition=definition,
            results=results_of(procedure),
        )
        if unknown.itself:
            is_valid = self.judge(ProcedureUse(procedure), at)
            if definition is None and self.document.reference.impress is not None:
                return
            if self.judge(procedure, at) and is_valid:
                self.skipped.remember(procedure, definition, None, Procedure, ProcedureUse)
        for parameters in unknown.parameters:
            self.parameters(parameters, at)
        if has_media(procedure):
            for step in metadata_of_media(procedure):
                self.parameter(step, at)

    def parameters(self, parameters: Sequence[ParameterElement], above: Context) -> None:
        """Check the parameters of one kind in a procedure."""
        kind = type(parameters[0])
        name = TYPE_OF[kind]
        definitions = above.procedure_definition
        for number, parameter in enumerate(parameters, 1):
            step = ElementStep(parameter, f"/{name}[{number}]")
            if self.skipped.may_pass(ParameterUse) and self.skipped.knows_element(parameter, definitions):
                if isinstance(parameter, SeriesParameter) and not self.skipped.knows_values(parameter, definitions):
                    self.values(parameter, step.path, above)
            elif self.parameter(step, above) and kind in SHAPES:
                definition = definition_of(parameter, definitions)
                self.skipped.remember(parameter, definitions, definition, kind, ParameterUse)

    def parameter(self, step: ElementStep, above: Context) -> bool:
        """Check a parameter; returns whether it was looked at, and only its values may be wrong."""
        element, path = step
        definitions = above.procedure_definition
        definition = definition_of(element, definitions)
        at = above._replace(path=above.path + path, parameter_definition=definition)
        kind = TYPE_OF[type(element)]
        is_valid = self.judge(ParameterUse(element, kind), at)
        if definitions is not None and (definition is None or definition.type is not kind):
            return False
        is_valid = self.judge(element, at) and is_valid
        if type(element) not in _SIMPLE:
            self.inside(element, at)
        return is_valid

    def values(self, series: SeriesParameter, path: str, above: Context) -> None:
        """Check the values of a series in which nothing else is wrong."""
        definition = definition_of(series, above.procedure_definition)
        self.inside(series, above._replace(path=above.path + path, parameter_definition=definition))

    def inside(self, element: ParameterElement, at: Context) -> None:
        definition = at.parameter_definition
        if isinstance(element, SeriesParameter):
            within = definition or at.procedure_definition
            for number, value in enumerate(element.values, 1):
                if not self.skipped.knows_element(value, within):
                    below = at._replace(path=f"{at.path}/value[{number}]")
                    if self.judge(value, below):
                        self.skipped.remember(value, within, definition, SeriesValue)
        elif isinstance(element, MediaParameter):
            self.associations(element.associations, at)
        elif isinstance(element, MediaSampleParameter):
            for path, file in files_of(element):
                below = at._replace(path=at.path + path)
                self.judge(file, below)
                self.associations(file.associations, below)
        elif isinstance(element, SeriesMediaParameter):
            for number, media in enumerate(element.values, 1):
                below = at._replace(path=f"{at.path}/value[{number}]")
                self.judge(media, below)
                self.associations(media.associations, below)

    def associations(self, associations: tuple[ParameterAssociation, ...], at: Context) -> None:
        for number, association in enumerate(associations, 1):
            self.judge(association, at._replace(path=f"{at.path}/parameterAssociation[{number}]"))

    def judge(self, element: Any, at: Context, rules: Sequence[Rule] | None = None) -> bool:
        """Check an element against its rules; returns whether there is no finding. Reports `unchecked` once a document.

        `rules` are those to use, if not all.
        """
        is_valid = True
        kind = type(element)
        if kind not in self.skipped.met:
            self.meet(kind, at)
        for rule in self.rules.of(kind).rules if rules is None else rules:
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
        self.skipped.met.add(kind)
        for needed in self.rules.of(kind).missing:
            self.once(_missing(needed, at))


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
