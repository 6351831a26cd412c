"""Results of a submission's documents after validation, as Dagster shows them on its partition.

One event for a phase and submission if all is well. A check has a result when it failed, and when it passes after a
failure. A warning (yellow) needs no correction: a document that waits for confirmation or was withdrawn, or a rule that
could not be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dagster import AssetCheckKey, AssetCheckSeverity, AssetKey

from dcc.data_outcomes import DocumentData, FindingEntry, ZipData, left_out_message
from dcc.declarations import ACTOR_NAMES, acts_on
from dcc.errors import InternalFaultError, StagedDocumentLostError
from dcc.messages import count_of
from dcc.phases import Phase, Status
from dcc.rules.catalogue import GROUPS, RuleGroup
from dcc.vocabulary import Actor, Severity
from dcc_assets.keys import CHECK_OF_GROUP, DATA_INTEGRITY, QC, UPLOAD_CHECK, UPLOADED_DATA, ZIP_ACTIONS
from dcc_assets.metadata.archives import DOCUMENTS_SHOWN, ERRORS_SHOWN, about, documents_table, links_to_steps
from dcc_assets.metadata.links import linked_documents, links, report_of_centre, report_of_zip
from dcc_dagster.metadata import Metadata, table, utc_timestamp
from dcc_dagster.partition_events import Materialised, Report, Verdict

SHOWN_PHASES: Final = (Phase.UPLOAD, Phase.DATA, Phase.QC)
"""The phases shown on submissions; contexts and overviews are shown on centres."""

_WORST_FIRST: Final = (Severity.FATAL, Severity.ERROR, Severity.WARNING, Severity.UNCHECKED)
_FAILING: Final = frozenset({Severity.FATAL, Severity.ERROR})
_NOT_UPLOADED: Final = frozenset({InternalFaultError.short_name(), StagedDocumentLostError.short_name()})
"""Errors other than findings of rules that keep a document from the upload."""
_Wanted = Callable[[str], bool]
"""Selects findings by their rule."""
_FINDING_COLUMNS: Final = ("severity", "rule", "document", "line", "value", "message", "judged by")


_Advice = tuple[Actor, str]
"""Who acts, and what to do."""
_REFUSED: Final = (
    Actor.CENTRE,
    "Send the centre the report. The data to add exist already, or the data to edit or delete do not exist. The centre "
    "submits a corrected document. If the document only came too early, run `dcc retry`, or press Materialize here.",
)
_HELD: Final = (
    Actor.DCC,
    "See what it would change: `dcc data plan`. Ask the centre whether it wants this, then run `dcc data confirm`.",
)
_WITHDRAWN: Final = (
    Actor.NOBODY,
    "No action needed: it was withdrawn with `dcc data undo`. `dcc retry` loads it again.",
)
_LEFT_OUT: Final = (
    Actor.NOBODY,
    "No action needed: DCC_LEFT_OUT_STEPS leaves the step out.",
)
_JUDGED: Final = (
    "Send the centre the report. The check passes when the centre submits corrected or missing data, when the registry "
    "has the missing entry, or when you waive the rule (`dcc rules waive`)."
)
_UNCHECKED: Final = (
    Actor.DCC,
    "Update the reference data: `dcc reference refresh`. The next session checks again.",
)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A finding with the name of its document."""

    document: str
    finding: FindingEntry


def data_report(outcome: ZipData) -> Report | None:
    """The report of the phase that was reached; None for a phase that is not shown on submissions.

    For the phase data, `outcome.documents` must be all of the submission's: a check is about all of them.
    """
    if outcome.reached is Phase.UPLOAD:
        materialised, verdicts = _upload(outcome)
    elif outcome.reached is Phase.DATA:
        materialised, verdicts = _integrity(outcome)
    elif outcome.reached is Phase.CONTEXT and _lacking(outcome.documents, Phase.CONTEXT):
        materialised, verdicts = _without_contexts(outcome), []
    elif outcome.reached is Phase.QC:
        materialised, verdicts = _quality_control(outcome), []
    else:
        return None
    return Report(
        outcome.key.partition, materialised, tuple(verdicts), utc_timestamp(outcome.finished), ZIP_ACTIONS.name
    )


def data_reports(outcomes: Iterable[ZipData]) -> Iterator[Report]:
    """The reports of the phases that are shown on submissions."""
    return (report for outcome in outcomes if (report := data_report(outcome)) is not None)


def _upload(outcome: ZipData) -> tuple[Sequence[Materialised], list[Verdict]]:
    faulty = [document for document in outcome.documents if _not_uploaded(document)]
    if faulty:
        headline = _upload_headline(faulty, len(outcome.documents))
        failed = any(_failed(document, Phase.UPLOAD) for document in faulty)
        severity = AssetCheckSeverity.ERROR if failed else AssetCheckSeverity.WARN
        held = any(document.held for document in faulty)
        cancelled = _LEFT_OUT if _lacking(faulty, Phase.UPLOAD) else _WITHDRAWN
        advice = _REFUSED if failed else _HELD if held else cancelled
        metadata = _failure(outcome, UPLOAD_CHECK, Phase.UPLOAD, headline) | _advice(advice) | _refusals(faulty)
        kinds = {rule for document in faulty for rule, _ in document.finding_counts} | _NOT_UPLOADED
        return (), [Verdict(UPLOAD_CHECK, False, headline, metadata, severity=severity, kinds=kinds)]
    if not _whole(outcome, Phase.UPLOAD):
        return (), []
    documents = linked_documents(outcome.key, [document.file_name for document in outcome.documents])
    shown = about(outcome) | _uploaded(outcome.documents) | documents | _links(outcome, UPLOADED_DATA)
    materialised = Materialised(UPLOADED_DATA, shown)
    return (materialised,), [Verdict(UPLOAD_CHECK, True, "Every document was uploaded.", about(outcome), always=False)]


def _not_uploaded(document: DocumentData) -> bool:
    if document.phase is not Phase.UPLOAD:
        return False
    return document.held or document.status in {Status.FAILED, Status.CANCELLED}


def _upload_headline(faulty: Sequence[DocumentData], total: int) -> str:
    failed = [document for document in faulty if document.status is Status.FAILED]
    held = sum(document.held for document in faulty)
    left_out = _lacking(faulty, Phase.UPLOAD)
    withdrawn = sum(document.status is Status.CANCELLED for document in faulty) - left_out
    parts = []
    if failed:
        parts.append(f"{len(failed)} of {total} documents could not be uploaded. First: {_why(failed[0])}")
    if held:
        parts.append(f"{held} of {total} documents wait for `dcc data confirm`.")
    if withdrawn:
        parts.append(f"{withdrawn} of {total} documents were withdrawn with `dcc data undo`.")
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
        return _sentence(_Placed(document.file_name, document.findings[0]))
    return f"{document.file_name} failed."


def _refusals(faulty: Sequence[DocumentData]) -> Metadata:
    reasons = [(document.file_name, document.reason) for document in faulty if document.reason]
    metadata: Metadata = {"reasons": table(("document", "reason"), reasons[:ERRORS_SHOWN])} if reasons else {}
    return metadata | _findings(faulty, _any_rule)


def _uploaded(documents: Sequence[DocumentData]) -> Metadata:
    counts, procedures = Counter[str](), Counter[str]()
    for document in documents:
        counts.update(document.said)
        procedures.update(document.procedures)
    metadata: Metadata = {
        "documents": len(documents),
        **{name: counts[name] for name in sorted(counts) if counts[name]},
    }
    if late := [document.file_name for document in documents if document.late]:
        metadata["late"] = table(("document",), [(name,) for name in late[:DOCUMENTS_SHOWN]])
    if procedures:
        metadata["procedures"] = table(("procedure", "measurements"), procedures.most_common(DOCUMENTS_SHOWN))
    return metadata


def _integrity(outcome: ZipData) -> tuple[Sequence[Materialised], list[Verdict]]:
    if left_out := _lacking(outcome.documents, Phase.DATA):
        return (), [_not_made(outcome, group, _cancelled(left_out, Phase.DATA)) for group in GROUPS]
    verdicts = [_group_verdict(outcome, group) for group in GROUPS]
    if not all(_was_judged(document) for document in outcome.documents):
        verdicts = [verdict for verdict in verdicts if not verdict.passed]
    if not _whole(outcome, Phase.DATA):
        return (), verdicts
    materialised = Materialised(
        DATA_INTEGRITY,
        about(outcome)
        | {"documents": len(outcome.documents)}
        | _links(outcome, DATA_INTEGRITY)
        | _tally(_count(outcome.documents, _any_rule))
        | _findings(outcome.documents, _any_rule),
    )
    return (materialised,), verdicts


def _was_judged(document: DocumentData) -> bool:
    """Whether a document's findings are complete: it was judged, or withdrawn."""
    if document.phase is Phase.DATA:
        return document.status in {Status.DONE, Status.FAILED}
    return document.phase > Phase.DATA or (document.phase is Phase.UPLOAD and document.status is Status.CANCELLED)


def _not_made(outcome: ZipData, group: RuleGroup, headline: str) -> Verdict:
    check = CHECK_OF_GROUP[group.name]
    metadata = _failure(outcome, check, Phase.DATA, headline) | _advice(_LEFT_OUT)
    kinds = frozenset(group.rules)
    return Verdict(check, False, headline, metadata, severity=AssetCheckSeverity.WARN, kinds=kinds)


def _group_verdict(outcome: ZipData, group: RuleGroup) -> Verdict:
    check, of_group = CHECK_OF_GROUP[group.name], frozenset(group.rules)
    counts = _count(outcome.documents, of_group.__contains__)
    worst = next((severity for severity in _WORST_FIRST if any(s is severity for _, s in counts)), None)
    if worst is None or worst is Severity.WARNING:
        text = (
            "No findings." if worst is None else f"{count_of(counts.total(), 'warning')}, none that fails a document."
        )
        return Verdict(check, True, text, about(outcome) | _tally(counts), always=False)
    headline = _group_headline(outcome.documents, counts, of_group)
    return Verdict(
        check,
        False,
        headline,
        _failure(outcome, check, Phase.DATA, headline)
        | (_judged(outcome.documents, of_group.__contains__) if worst in _FAILING else _advice(_UNCHECKED))
        | _tally(counts)
        | _findings(outcome.documents, of_group.__contains__),
        severity=AssetCheckSeverity.ERROR if worst in _FAILING else AssetCheckSeverity.WARN,
        kinds=of_group,
    )


def _group_headline(
    documents: Sequence[DocumentData], counts: Counter[tuple[str, Severity]], of_group: frozenset[str]
) -> str:
    errors = sum(number for (_, severity), number in counts.items() if severity in _FAILING)
    unchecked = sum(number for (_, severity), number in counts.items() if severity is Severity.UNCHECKED)
    first = next(iter(_worst(documents, of_group.__contains__)), None)
    example = "" if first is None else f" First: {_sentence(first)}"
    if errors:
        faulty = sum(any(r in of_group and s in _FAILING for r, s in d.finding_counts) for d in documents)
        return f"{count_of(errors, 'error')} in {faulty} of {count_of(len(documents), 'document')}.{example}"
    return f"{count_of(unchecked, 'check')} could not be made. The centre need not act.{example}"


def _quality_control(outcome: ZipData) -> Sequence[Materialised]:
    if outcome.phase is not Phase.QC:
        return ()
    waiting = sum(d.phase is Phase.QC and d.status is not Status.DONE for d in outcome.documents)
    state = {"phase": outcome.phase.short_name, "status": outcome.status.short_name}
    description = (
        "Quality control is done." if outcome.status is Status.DONE else "Waits for a wrangler: `dcc qc done`."
    )
    known = about(outcome) | state | {"documents waiting": waiting} | _links(outcome, QC)
    return (Materialised(QC, known, description),)


def _without_contexts(outcome: ZipData) -> Sequence[Materialised]:
    """Quality control is not reached without contexts: its asset says why."""
    reason = _cancelled(_lacking(outcome.documents, Phase.CONTEXT), Phase.CONTEXT)
    state = {"phase": outcome.phase.short_name, "status": outcome.status.short_name, "reason": reason}
    return (Materialised(QC, about(outcome) | state | _links(outcome, QC), reason),)


def _whole(outcome: ZipData, phase: Phase) -> bool:
    """Whether all documents of the submission have passed a phase."""
    if outcome.status is Status.FAILED:
        return outcome.phase > phase
    return (outcome.phase, outcome.status) >= (phase, Status.DONE) and outcome.status is not Status.CANCELLED


def _failed(document: DocumentData, phase: Phase) -> bool:
    return document.phase is phase and document.status is Status.FAILED


def _sentence(placed: _Placed) -> str:
    place = placed.document if placed.finding.line is None else f"{placed.document}, line {placed.finding.line}"
    return f"{place}: {placed.finding.message} ({placed.finding.rule})"


def _advice(advice: _Advice) -> Metadata:
    return {"Who acts": ACTOR_NAMES[advice[0]], "What to do": advice[1]}


def _judged(documents: Sequence[DocumentData], wanted: _Wanted) -> Metadata:
    errors = (placed.finding for placed in _worst(documents, wanted) if placed.finding.severity in _FAILING)
    actors = dict.fromkeys(ACTOR_NAMES[acts_on(error.code, error.severity)] for error in errors)
    return {"Who acts": ", ".join(actors), "What to do": _JUDGED}


def _links(outcome: ZipData, besides: AssetKey) -> Metadata:
    """Links from a submission's event to its report; after a failure or at the end also to earlier steps."""
    wanted = [("Submission report", report_of_zip(outcome.key))]
    if outcome.status is Status.FAILED or besides == QC:
        if outcome.centre:
            wanted.append(("Report on the centre", report_of_centre(outcome.centre)))
        wanted += links_to_steps(outcome.key.partition, besides)
    return {"Links": links(wanted)}


def _failure(outcome: ZipData, check: AssetCheckKey, phase: Phase, headline: str) -> Metadata:
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


def _any_rule(_rule: str) -> bool:
    return True


def _count(documents: Iterable[DocumentData], wanted: _Wanted) -> Counter[tuple[str, Severity]]:
    counts: Counter[tuple[str, Severity]] = Counter()
    for document in documents:
        counts.update({key: number for key, number in document.finding_counts.items() if wanted(key[0])})
    return counts


def _tally(counts: Mapping[tuple[str, Severity], int]) -> Metadata:
    """The table of counts by rule, the worst and most frequent first; nothing without counts."""
    rows = sorted(
        ((rule, severity, number) for (rule, severity), number in counts.items()),
        key=lambda row: (_WORST_FIRST.index(row[1]), -row[2], row[0]),
    )
    if not rows:
        return {}
    return {"rules": table(("rule", "severity", "findings"), [(rule, str(s), number) for rule, s, number in rows])}


def _worst(documents: Iterable[DocumentData], wanted: _Wanted) -> list[_Placed]:
    placed = [
        _Placed(document.file_name, finding)
        for document in documents
        for finding in document.findings
        if wanted(finding.rule) and not finding.is_waived
    ]
    return sorted(placed, key=lambda one: _WORST_FIRST.index(one.finding.severity))


def _findings(documents: Sequence[DocumentData], wanted: _Wanted) -> Metadata:
    """The table of findings, the worst first; nothing without findings."""
    shown = _worst(documents, wanted)[:ERRORS_SHOWN]
    left = _count(documents, wanted).total() - len(shown)
    rows = [_finding_row(placed.document, placed.finding) for placed in shown]
    metadata: Metadata = {"findings": table(_FINDING_COLUMNS, rows)} if rows else {}
    if left > 0:
        metadata["findings not shown"] = left
    return metadata


def _finding_row(document: str, finding: FindingEntry) -> tuple[str | int | None, ...]:
    cells = (document, finding.line, finding.value, finding.message, finding.snapshot)
    return (finding.severity.value, finding.rule, *cells)
