"""The check of a document's content against all rules.

The document is walked once, as it comes: what is held of it is a batch of entities, for which the QC database is asked
at once.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dcc_resources.integrity import (
    added_rules,
    experiment_rules,
    media_rules,
    procedure_rules,
    series_rules,
    specimen_rules,
    value_rules,
)
from dcc_resources.integrity.context import Answers, Context, DocumentContext
from dcc_resources.integrity.elements import (
    TYPE_OF,
    BlockEnd,
    ParameterElement,
    ParameterUse,
    ProcedureUse,
    Step,
    files_of,
    key_of,
    metadata_of_media,
    results_of,
    top_level_parameters,
)
from dcc_resources.integrity.experiment_rules import key_of_experiment
from dcc_resources.integrity.findings import REFERENCE_RULE, Fault, Finding, Severity
from dcc_resources.integrity.registry import RULES, Rule, rules_for
from dcc_resources.qc_database.contents import (
    Block,
    Content,
    Entity,
    Experiment,
    Housing,
    Line,
    MediaParameter,
    MediaSampleParameter,
    ParameterAssociation,
    Procedure,
    SeriesMediaParameter,
    SeriesParameter,
    Specimen,
)
from dcc_resources.reference_data.snapshots import Snapshot

RULE_MODULES = (
    specimen_rules,
    experiment_rules,
    procedure_rules,
    value_rules,
    series_rules,
    media_rules,
    added_rules,
)
"""The modules that register the rules."""

_log = logging.getLogger(__name__)
_BATCH = 500
_ENTITY_NAMES: dict[type, str] = {Housing: "housing", Line: "line", Experiment: "experiment"}


def all_rules() -> Mapping[str, Rule]:
    """Every rule that a document's content is checked against, by its id."""
    return RULES


def check_contents(
    contents: Iterable[Content], document: DocumentContext, without: Collection[str] = ()
) -> Iterator[Finding]:
    """What the rules find wrong with a document, in document order but for the ends of batches.

    For reference data that are not at hand there is one `unchecked` finding, of the rule `reference`, before the first
    finding that it could have judged; it names the rules that were skipped. A rule that breaks down has one `unchecked`
    finding, and the others go on. Nothing below an element with a fatal finding is checked. `without` are ids of rules
    to leave out, such as those that the upload has judged already.
    """
    return _Checking(document, frozenset(without)).run(contents)


@dataclass
class _Checking:
    document: DocumentContext
    without: frozenset[str]
    said: set[tuple[str, str]] = field(default_factory=set)
    plans: dict[type, list[tuple[Rule, list[type[Snapshot]]]]] = field(default_factory=dict)

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
                found = list(self.judge(content, self.block_context(content)))
                yield from found
                if not any(finding.severity is Severity.FATAL for finding in found):
                    block = content
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

    def block_context(self, block: Block) -> Context:
        root = "centreSpecimenSet" if block.pipeline is None else "centreProcedureSet"
        impress = self.document.reference.impress
        pipeline = impress.pipelines.get(block.pipeline or "") if impress is not None else None
        return Context(self.document, f"/{root}/centre[{block.position}]", block, pipeline=pipeline)

    def end(self, block: Block | None, held: int) -> Iterator[Finding]:
        if block is not None:
            yield from self.judge(BlockEnd(block, held), self.block_context(block))

    def batch(self, block: Block | None, entities: list[Entity], numbers: Counter[str]) -> Iterator[Finding]:
        if block is None or not entities:
            return
        above = self.block_context(block)._replace(answers=self.ask(block, entities))
        for entity in entities:
            name = entity.kind if isinstance(entity, Specimen) else _ENTITY_NAMES[type(entity)]
            numbers[name] += 1
            at = above._replace(path=f"{above.path}/{name}[{numbers[name]}]", entity=entity)
            yield from self.judge(entity, at)
            if isinstance(entity, Specimen) or entity.procedure is None:
                continue
            if isinstance(entity, Housing) or not entity.status_codes:
                yield from self.procedure(entity.procedure, at)

    def ask(self, block: Block, entities: list[Entity]) -> Answers:
        ids: set[str] = set()
        keys = set()
        for entity in entities:
            if isinstance(entity, Specimen):
                ids.add(entity.specimen_id)
                ids.update(related.specimen_id for related in entity.related_specimens)
            elif isinstance(entity, Experiment):
                ids.update(entity.specimen_ids)
                keys.add(key_of_experiment(entity))
        if "E9" in self.without:
            keys.clear()
        lookups = self.document.lookups
        return Answers(
            lookups.known_specimens(block.centre, ids) if ids else {},
            lookups.known_experiments(block.centre, keys) if keys else {},
        )

    def procedure(self, procedure: Procedure, above: Context) -> Iterator[Finding]:
        definition = above.pipeline.procedures.get(procedure.procedure_id) if above.pipeline is not None else None
        at = above._replace(
            path=f"{above.path}/procedure",
            procedure=procedure,
            procedure_definition=definition,
            results=results_of(procedure),
        )
        yield from self.judge(ProcedureUse(procedure), at)
        if definition is None and self.document.reference.impress is not None:
            return
        yield from self.judge(procedure, at)
        for step in top_level_parameters(procedure):
            yield from self.parameter(step, at)
        for step in metadata_of_media(procedure):
            yield from self.parameter(step, at)

    def parameter(self, step: Step, above: Context) -> Iterator[Finding]:
        element = step.parameter
        definitions = above.procedure_definition
        definition = definitions.parameters.get(key_of(element.parameter_id)) if definitions is not None else None
        at = above._replace(path=above.path + step.path, parameter_definition=definition)
        kind = TYPE_OF[type(element)]
        yield from self.judge(ParameterUse(element, kind), at)
        if definitions is not None and (definition is None or definition.type is not kind):
            return
        yield from self.judge(element, at)
        yield from self.inside(element, at)

    def inside(self, element: ParameterElement, at: Context) -> Iterator[Finding]:
        if isinstance(element, SeriesParameter):
            for number, value in enumerate(element.values, 1):
                yield from self.judge(value, at._replace(path=f"{at.path}/value[{number}]"))
        elif isinstance(element, MediaParameter):
            yield from self.associations(element.associations, at)
        elif isinstance(element, MediaSampleParameter):
            for path, file in files_of(element):
                below = at._replace(path=at.path + path)
                yield from self.judge(file, below)
                yield from self.associations(file.associations, below)
        elif isinstance(element, SeriesMediaParameter):
            for number, media in enumerate(element.values, 1):
                below = at._replace(path=f"{at.path}/value[{number}]")
                yield from self.judge(media, below)
                yield from self.associations(media.associations, below)

    def associations(self, associations: tuple[ParameterAssociation, ...], at: Context) -> Iterator[Finding]:
        for number, association in enumerate(associations, 1):
            yield from self.judge(association, at._replace(path=f"{at.path}/parameterAssociation[{number}]"))

    def judge(self, element: object, at: Context) -> Iterator[Finding]:
        """What the rules for an element find; what could not be checked is said once a document."""
        for rule, missing in self.rules(type(element)):
            if missing:
                yield from self.once(_missing(kind, at) for kind in missing)
                continue
            try:
                for fault in rule.check(element, at):
                    finding = rule.finding(fault, at)
                    if finding.severity is Severity.UNCHECKED:
                        yield from self.once([finding])
                    else:
                        yield finding
            except MemoryError:
                raise
            except Exception as error:
                yield from self.broken(rule, error, at)

    def broken(self, rule: Rule, error: Exception, at: Context) -> Iterator[Finding]:
        """That a rule broke down: the platform's fault, which is said once and keeps no other rule from its work."""
        message = (
            f"The rule {rule.id} broke down with a {type(error).__name__}, so that not everything was checked. This is "
            "a fault of the platform and not of the centre: report it, and have the document checked again."
        )
        fault = Fault(message, at.block.line, severity=Severity.UNCHECKED)
        for finding in self.once([rule.finding(fault, at)]):
            place = (rule.id, at.path, at.document.document_id)
            _log.error("Rule %s broke down at %s of document %d.", *place, exc_info=error)
            yield finding

    def once(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Those that were not said yet."""
        for finding in findings:
            if (finding.rule, finding.message) not in self.said:
                self.said.add((finding.rule, finding.message))
                yield finding

    def rules(self, kind: type) -> list[tuple[Rule, list[type[Snapshot]]]]:
        """The rules for a kind of element, each with the reference data that are missing and still to be said."""
        plan = self.plans.get(kind)
        if plan is None:
            absent = [(rule, self.absent(rule)) for rule in rules_for(kind) if rule.id not in self.without]
            # Said where it is met first, so that nothing is said of rules that the document gives no cause to apply.
            plan = [(rule, missing) for rule, missing in absent if not missing]
            self.plans[kind] = plan
            return absent
        return plan

    def absent(self, rule: Rule) -> list[type[Snapshot]]:
        return [kind for kind in rule.needs if self.document.reference.find(kind) is None]


def _missing(kind: type[Snapshot], at: Context) -> Finding:
    skipped = ", ".join(rule.id for rule in RULES.values() if kind in rule.needs)
    return Finding(
        REFERENCE_RULE,
        Severity.UNCHECKED,
        f"There are no reference data '{kind.NAME}': the rules {skipped} were skipped. Load them, and check the "
        "document again.",
        at.block.line,
        at.path,
        kind.NAME,
        references=(kind.NAME,),
    )
