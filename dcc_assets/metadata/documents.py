"""Results of a submission's documents after validation, as Dagster shows them on its partition.

One event for a phase and submission if all is well. A check has a result when it failed, and when it passes after a
failure. A warning (yellow) needs no correction: a document that waits for confirmation or was withdrawn, or a rule that
could not be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from dagster import AssetCheckKey, AssetCheckSeverity, AssetKey

from dcc.data_outcomes import DocumentData, FindingEntry, SubmissionData, left_out_message
from dcc.declarations import ACTOR_NAMES, acts_on
from dcc.errors import InternalFaultError, StagedDocumentLostError
from dcc.messages import count_of
from dcc.outcomes import WAS_CONFIRMED
from dcc.phases import Phase, Status
from dcc.reports.checks import OF_PHASES
from dcc.rules.catalogue import GROUPS, RuleGroup
from dcc.tracker.states import JUDGED_FAULTY, WITHDRAWN
from dcc.vocabulary import FAILING, Actor, Severity
from dcc_assets.graph import CHECK_OF_GROUP, DATA_INTEGRITY, QC, UPLOAD_CHECK, UPLOADED_DATA, ZIP_ACTION_PARTITIONS
from dcc_assets.metadata.archives import DOCUMENTS_SHOWN, ERRORS_SHOWN, about, documents_table, links_to_steps
from dcc_assets.metadata.links import linked_documents, links, report_of_centre, report_of_submission
from dcc_dagster.metadata import Metadata, first_rows, table, utc_timestamp
from dcc_dagster.partition_events import CheckVerdict, MaterialisedPartition, PartitionReport

SHOWN_PHASES: Final = (Phase.UPLOAD, Phase.DATA, Phase.QC)
"""The phases shown on submissions; what is built of centres is shown on these."""

_Found = tuple[str, FindingEntry]
"""A finding, after the name of its document."""
_NOT_UPLOADED: Final = frozenset({InternalFaultError.short_name(), StagedDocumentLostError.short_name()})
"""Errors other than findings of rules that keep a document from the upload."""
_FINDING_COLUMNS: Final = ("severity", "rule", "document", "line", "value", "message", "judged by")


def _advice(actor: Actor, what_to_do: str) -> Metadata:
    return {"Who acts": ACTOR_NAMES[actor], "What to do": what_to_do}


_REFUSED: Final = _advice(
    Actor.CENTRE,
    "Send the centre the report. The data to add exist already, or the data to edit or delete do not exist. The centre "
    "submits a corrected document. If the document only came too early, run `dcc retry`, or press Materialize here.",
)
_HELD: Final = _advice(
    Actor.DCC,
    "See what it would change: `dcc data plan`. Ask the centre whether it wants this, then run `dcc data confirm`.",
)
_CONFIRMED: Final = _advice(Actor.NOBODY, f"No action needed: it {WAS_CONFIRMED}.")
_WITHDRAWN: Final = _advice(
    Actor.NOBODY,
    "No action needed: it was withdrawn with `dcc data undo`. `dcc retry` loads it again.",
)
_LEFT_OUT: Final = _advice(
    Actor.NOBODY,
    "No action needed: DCC_LEFT_OUT_STEPS leaves the step out.",
)
_JUDGED: Final = (
    "If the centre acts, send it the report. The check passes when the centre submits corrected or missing data, when "
    "the registry has the missing entry, or when you waive the rule (`dcc rules waive`)."
)
_UNCHECKED: Final = _advice(
    Actor.DCC,
    "Update the reference data: `dcc reference refresh`. The next session checks again.",
)


def data_report(outcome: SubmissionData) -> PartitionReport | None:
    """The report of the phase that was reached; None for a phase that is not shown on submissions.

    For the phase data, `outcome.documents` must be all of the submission's: a check is about all of them.
    """
    materialised: Sequence[MaterialisedPartition] = ()
    verdicts: Sequence[CheckVerdict] = ()
    if outcome.reached is Phase.UPLOAD:
        materialised, verdicts = _upload(outcome)
    elif outcome.reached is Phase.DATA:
        materialised, verdicts = _integrity(outcome)
    elif outcome.reached is Phase.CONTEXT and (lacking := _lacking(outcome.documents, Phase.CONTEXT)):
        # Quality control is not reached without contexts: its asset says why.
        reason = _cancelled(lacking, Phase.CONTEXT)
        materialised = [_quality_control(outcome, {"reason": reason}, reason)]
    elif outcome.reached is not Phase.QC:
        return None
    elif outcome.phase is Phase.QC:
        waiting = sum(d.phase is Phase.QC and d.status is not Status.DONE for d in outcome.documents)
        is_done = outcome.status is Status.DONE
        said = "Quality control is done." if is_done else "Waits for a wrangler: `dcc qc done`."
        materialised = [_quality_control(outcome, {"documents waiting": waiting}, said)]
    finished = utc_timestamp(outcome.finished)
    return PartitionReport(outcome.key.partition, materialised, verdicts, finished, ZIP_ACTION_PARTITIONS.name)


def data_reports(outcomes: Iterable[SubmissionData]) -> Iterator[PartitionReport]:
    """The reports of the phases that are shown on submissions."""
    return (report for outcome in outcomes if (report := data_report(outcome)) is not None)


def _upload(outcome: SubmissionData) -> tuple[Sequence[MaterialisedPartition], Sequence[CheckVerdict]]:
    faulty = [document for document in outcome.documents if _not_uploaded(document)]
    if faulty:
        headline = _upload_headline(faulty, len(outcome.documents))
        failed = any(document.status is Status.FAILED for document in faulty)
        severity = AssetCheckSeverity.ERROR if failed else AssetCheckSeverity.WARN
        held = any(document.held for document in faulty)
        cancelled = _LEFT_OUT if _lacking(faulty, Phase.UPLOAD) else _WITHDRAWN
        unapplied = any(document.unapplied for document in faulty)
        advice = _REFUSED if failed else _HELD if held else _CONFIRMED if unapplied else cancelled
        metadata = _failure(outcome, UPLOAD_CHECK, Phase.UPLOAD, headline) | advice | _refusals(faulty)
        kinds = {rule for document in faulty for rule, _ in document.finding_counts} | _NOT_UPLOADED
        return (), [CheckVerdict(UPLOAD_CHECK, headline, metadata, passed=False, severity=severity, kinds=kinds)]
    if not outcome.state.is_past(Phase.UPLOAD):
        return (), ()
    documents = linked_documents(outcome.key, [document.file_name for document in outcome.documents])
    shown = about(outcome) | _uploaded(outcome.documents) | documents | _links(outcome, UPLOADED_DATA)
    materialised = MaterialisedPartition(UPLOADED_DATA, shown)
    return (materialised,), [
        CheckVerdict(UPLOAD_CHECK, OF_PHASES[Phase.UPLOAD].passed, about(outcome), passed=True, always=False)
    ]


def _not_uploaded(document: DocumentData) -> bool:
    if document.phase is not Phase.UPLOAD:
        return False
    return document.held or document.unapplied or document.status in {Status.FAILED, Status.CANCELLED}


def _upload_headline(faulty: Sequence[DocumentData], total: int) -> str:
    failed = [document for document in faulty if document.status is Status.FAILED]
    held = sum(document.held for document in faulty)
    left_out = _lacking(faulty, Phase.UPLOAD)
    withdrawn = sum(document.status is Status.CANCELLED for document in faulty) - left_out
    documents, parts = count_of(total, "document"), []
    if failed:
        parts.append(f"{len(failed)} of {documents} could not be uploaded. First: {_why(failed[0])}")
    if held:
        parts.append(f"To be confirmed with `dcc data confirm`: {held} of {documents}.")
    if unapplied := sum(document.unapplied for document in faulty):
        parts.append(f"Confirmed, for the next session to apply: {unapplied} of {documents}.")
    if withdrawn:
        parts.append(f"Withdrawn with `dcc data undo`: {withdrawn} of {documents}.")
    if left_out:
        parts.append(_cancelled(left_out, Phase.UPLOAD))
    return " ".join(parts)


def _lacking(documents: Iterable[DocumentData], phase: Phase) -> int:
    """How many documents the settings leave a step out of."""
    return sum(phase in document.left_out for document in documents)


def _cancelled(documents: int, phase: Phase) -> str:
    return f"Cancelled for {count_of(documents, 'document')}. {left_out_message(phase)}"


def _why(document: DocumentData) -> str:
    if document.reason:
        return document.reason
    if document.findings:
        return _sentence(document.file_name, document.findings[0])
    return f"{document.file_name} failed."


def _refusals(faulty: Sequence[DocumentData]) -> Metadata:
    reasons = [(document.file_name, document.reason) for document in faulty if document.reason]
    told = first_rows("reasons", ("document", "reason"), reasons, ERRORS_SHOWN)
    return told | _findings(_worst(faulty), _count(faulty).total())


def _uploaded(documents: Sequence[DocumentData]) -> Metadata:
    counts, procedures = Counter[str](), Counter[str]()
    for document in documents:
        counts.update(document.said)
        procedures.update(document.procedures)
    late = [(document.file_name,) for document in documents if document.late]
    return {
        "documents": len(documents),
        **{name: counts[name] for name in sorted(counts) if counts[name]},
        **first_rows("late", ("document",), late, DOCUMENTS_SHOWN),
        **first_rows("procedures", ("procedure", "measurements"), procedures.most_common(), DOCUMENTS_SHOWN),
    }


def _integrity(outcome: SubmissionData) -> tuple[Sequence[MaterialisedPartition], Sequence[CheckVerdict]]:
    if left_out := _lacking(outcome.documents, Phase.DATA):
        return (), [_not_made(outcome, group, _cancelled(left_out, Phase.DATA)) for group in GROUPS]
    verdicts = [_group_verdict(outcome, group) for group in GROUPS]
    if not all(_was_judged(document) for document in outcome.documents):
        verdicts = [verdict for verdict in verdicts if not verdict.passed]
    if not outcome.state.is_past(Phase.DATA):
        return (), verdicts
    counts = _count(outcome.documents)
    materialised = MaterialisedPartition(
        DATA_INTEGRITY,
        about(outcome)
        | {"documents": len(outcome.documents)}
        | _links(outcome, DATA_INTEGRITY)
        | _tally(counts)
        | _findings(_worst(outcome.documents), counts.total()),
    )
    return (materialised,), verdicts


def _was_judged(document: DocumentData) -> bool:
    """Whether a document's findings are complete: it was judged, or withdrawn."""
    return document.state.is_past(Phase.DATA) or document.state in (JUDGED_FAULTY, WITHDRAWN)


def _not_made(outcome: SubmissionData, group: RuleGroup, headline: str) -> CheckVerdict:
    check = CHECK_OF_GROUP[group.name]
    metadata = _failure(outcome, check, Phase.DATA, headline) | _LEFT_OUT
    kinds = frozenset(group.rules)
    return CheckVerdict(check, headline, metadata, passed=False, severity=AssetCheckSeverity.WARN, kinds=kinds)


def _group_verdict(outcome: SubmissionData, group: RuleGroup) -> CheckVerdict:
    check, rules, documents = CHECK_OF_GROUP[group.name], frozenset(group.rules), outcome.documents
    counts, found = _count(documents, rules), _worst(documents, rules)
    of_severity: Counter[Severity] = Counter()
    for (_, severity), number in counts.items():
        of_severity[severity] += number
    errors, unchecked = sum(of_severity[severity] for severity in FAILING), of_severity[Severity.UNCHECKED]
    if not errors and not unchecked:
        text = f"{count_of(counts.total(), 'warning')}, none that fails a document." if counts else "No findings."
        return CheckVerdict(check, text, about(outcome) | _tally(counts), passed=True, always=False)
    told = FAILING if errors else (Severity.UNCHECKED,)
    example = next((f" First: {_sentence(*one)}" for one in found if one[1].severity in told), "")
    if errors:
        faulty = sum(_fails(document, rules) for document in documents)
        headline = f"{count_of(errors, 'error')} in {faulty} of {count_of(len(documents), 'document')}.{example}"
    else:
        headline = f"{count_of(unchecked, 'check')} could not be made. The centre need not act.{example}"
    return CheckVerdict(
        check,
        headline,
        _failure(outcome, check, Phase.DATA, headline)
        | (_judged(found) if errors else _UNCHECKED)
        | _tally(counts)
        | _findings(found, counts.total()),
        passed=False,
        severity=AssetCheckSeverity.ERROR if errors else AssetCheckSeverity.WARN,
        kinds=rules,
    )


def _fails(document: DocumentData, rules: Collection[str]) -> bool:
    """Whether a document has a finding of one of these rules that fails it."""
    return any(rule in rules and severity.fails for rule, severity in document.finding_counts)


def _quality_control(outcome: SubmissionData, more: Metadata, description: str) -> MaterialisedPartition:
    state = {"phase": outcome.phase.short_name, "status": outcome.status.short_name}
    return MaterialisedPartition(QC, about(outcome) | state | more | _links(outcome, QC), description)


def _sentence(document: str, finding: FindingEntry) -> str:
    place = document if finding.line is None else f"{document}, line {finding.line}"
    return f"{place}: {finding.message} ({finding.rule})"


def _judged(found: Sequence[_Found]) -> Metadata:
    errors = (finding for _, finding in found if finding.severity.fails)
    actors = dict.fromkeys(ACTOR_NAMES[acts_on(error.code, error.severity)] for error in errors)
    return {"Who acts": ", ".join(actors), "What to do": _JUDGED}


def _links(outcome: SubmissionData, excluding: AssetKey) -> Metadata:
    """Links from a submission's event to its report; after a failure or at the end also to earlier steps."""
    wanted = [("Submission report", report_of_submission(outcome.key))]
    if outcome.status is Status.FAILED or excluding == QC:
        if outcome.centre:
            wanted.append(("Report on the centre", report_of_centre(outcome.centre)))
        wanted += links_to_steps(outcome.key.partition, excluding)
    return {"Links": links(wanted)}


def _failure(outcome: SubmissionData, check: AssetCheckKey, phase: Phase, headline: str) -> Metadata:
    rows = [
        (d.file_name, d.phase.short_name, d.status.short_name, sum(d.finding_counts.values()))
        for d in outcome.documents
    ]
    return {
        **about(outcome),
        "phase": phase.short_name,
        "status": outcome.status.short_name,
        "reason": headline,
        **_links(outcome, check.asset_key),
        **documents_table(outcome.key, rows, "findings"),
    }


def _count(documents: Iterable[DocumentData], rules: Collection[str] | None = None) -> Counter[tuple[str, Severity]]:
    """The number of findings by rule and severity; of these rules, or of all."""
    counts: Counter[tuple[str, Severity]] = Counter()
    for document in documents:
        for (rule, severity), number in document.finding_counts.items():
            if rules is None or rule in rules:
                counts[rule, severity] += number
    return counts


def _tally(counts: Mapping[tuple[str, Severity], int]) -> Metadata:
    """The table of counts by rule, the worst and most frequent first; nothing without counts."""
    rows = sorted(
        ((rule, severity, number) for (rule, severity), number in counts.items()),
        key=lambda row: (row[1].rank, -row[2], row[0]),
    )
    if not rows:
        return {}
    return {"rules": table(("rule", "severity", "findings"), [(rule, str(s), number) for rule, s, number in rows])}


def _worst(documents: Iterable[DocumentData], rules: Collection[str] | None = None) -> list[_Found]:
    """The findings, the worst first, each after the name of its document; of these rules, or of all."""
    found = [
        (document.file_name, finding)
        for document in documents
        for finding in document.findings
        if rules is None or finding.rule in rules
    ]
    return sorted(found, key=lambda one: one[1].severity.rank)


def _findings(found: Sequence[_Found], total: int) -> Metadata:
    """The table of findings, the worst first, of a `total` number of them; nothing without findings."""
    rows = [
        (one.severity.value, one.rule, document, one.line, one.value, one.message, one.snapshot)
        for document, one in found[:ERRORS_SHOWN]
    ]
    return first_rows("findings", _FINDING_COLUMNS, rows, ERRORS_SHOWN, total)
