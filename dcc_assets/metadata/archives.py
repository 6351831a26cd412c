"""A submission's results, as Dagster shows them on its partition.

An asset's partition is materialised when the archive got that far, and also at the asset whose check it failed. There
it has the phase, the reason, the documents and the lines, like the check's result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from dagster import AssetKey, MetadataValue

from dcc.data_outcomes import SubmissionData
from dcc.declarations import ACTOR_NAMES, acts_in
from dcc.errors import MemberIgnoredError
from dcc.messages import byte_size, count_of
from dcc.outcomes import HELD, DocumentOutcome, Problem, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase, Status
from dcc.reports.checks import OF_PHASES
from dcc.store.staging import Staging
from dcc_assets import graph
from dcc_assets.metadata.links import (
    Link,
    board_of_centre,
    linked_documents,
    links,
    page_of_partition,
    report_of_submission,
    xml_of_documents,
)
from dcc_dagster.metadata import Metadata, first_rows, table, utc_timestamp
from dcc_dagster.partition_events import CheckVerdict, MaterialisedPartition, PartitionReport

DOCUMENTS_SHOWN: Final = 200
"""Documents in a table; the rest are counted."""
ERRORS_SHOWN: Final = 100
"""Error lines in a table; `dcc show` has them all."""

_STEPS: Final = (
    ("Download", graph.ZIP_DOWNLOADS),
    ("Documents", graph.XML_DOCUMENTS),
    ("Validation", graph.VALIDATED_DOCUMENTS),
    ("Data", graph.UPLOADED_DATA),
    ("Integrity", graph.DATA_INTEGRITY),
)


def archive_report(outcome: SubmissionOutcome, staging: Staging) -> PartitionReport:
    """A submission's results: the assets that it reached, and the checks that it failed or passed."""
    return PartitionReport(
        outcome.key.partition,
        tuple(_materialised(outcome, staging)),
        tuple(_verdicts(outcome, staging)),
        utc_timestamp(outcome.finished),
        graph.ZIP_ACTION_PARTITIONS.name,
    )


def complete_archive_report(outcome: SubmissionOutcome, staging: Staging) -> PartitionReport:
    """As `archive_report`, including the submission itself: that it exists, its name accepted or refused."""
    report = archive_report(outcome, staging)
    if outcome.phase is Phase.ZIP_NAME and outcome.failed:
        return replace(report, is_complete=True)
    passed = f"{outcome.key.file_name} follows the naming convention."
    name = CheckVerdict(graph.CHECK_OF_PHASE[Phase.ZIP_NAME], passed, about(outcome), passed=True, always=False)
    others = tuple(verdict for verdict in report.verdicts if verdict.check != name.check)
    materialised = MaterialisedPartition(
        graph.ZIP_ACTIONS,
        about(outcome)
        | {"action": outcome.key.action.value}
        | ({} if outcome.source is None else {"file source": outcome.source})
        | _first_listed(outcome)
        | _decisions(outcome)
        | _links(outcome, graph.ZIP_ACTIONS),
        None if outcome.source is None else f"Found on {outcome.source}.",
    )
    return replace(
        report, materialised=(materialised, *report.materialised), verdicts=(name, *others), is_complete=True
    )


def _materialised(outcome: SubmissionOutcome, staging: Staging) -> Iterator[MaterialisedPartition]:
    held = next((reason.message for reason in outcome.reasons if reason.kind == HELD), None)
    if held is not None:
        known = about(outcome) | {"action": outcome.key.action.value, "held": held}
        yield MaterialisedPartition(graph.ZIP_ACTIONS, known | _links(outcome, graph.ZIP_ACTIONS))
    if outcome.downloaded:
        yield MaterialisedPartition(
            graph.ZIP_DOWNLOADS,
            about(outcome) | _transfer(outcome) | _place(outcome, staging) | _links(outcome, graph.ZIP_DOWNLOADS),
            _received(outcome),
        )
    if outcome.extracted:
        counts: Metadata = {
            "documents": len(outcome.documents),
            "bytes": sum(document.size_bytes for document in outcome.documents),
            "folder": MetadataValue.path(str(staging.contents(outcome.key))),
        }
        documents = linked_documents(outcome.key, [document.file_name for document in outcome.documents])
        known = about(outcome) | counts | documents | _ignored(outcome) | _links(outcome, graph.XML_DOCUMENTS)
        yield MaterialisedPartition(graph.XML_DOCUMENTS, known)
    if outcome.succeeded:
        valid: Metadata = {"valid": len(outcome.documents), "errors": 0}
        known = about(outcome) | valid | _documents(outcome) | _links(outcome, graph.VALIDATED_DOCUMENTS)
        yield MaterialisedPartition(graph.VALIDATED_DOCUMENTS, known)


def _verdicts(outcome: SubmissionOutcome, staging: Staging) -> Iterator[CheckVerdict]:
    failed = {outcome.phase} if outcome.failed else set()
    failed |= {document.phase for document in outcome.documents if document.status is Status.FAILED}
    for phase, check in graph.CHECK_OF_PHASE.items():
        if phase in failed:
            headline = _headline(outcome, phase)
            failure = _failure(outcome, phase, headline, staging)
            yield CheckVerdict(check, headline, failure, passed=False, kinds=_kinds_of(outcome, phase))
        elif _passed(outcome, phase):
            yield CheckVerdict(check, OF_PHASES[phase].passed, about(outcome), passed=True, always=False)


def _passed(outcome: SubmissionOutcome, phase: Phase) -> bool:
    """Whether a check that did not fail was made."""
    if phase in {Phase.ZIP_NAME, Phase.DOWNLOAD, Phase.ZIP_MD5}:
        return outcome.downloaded
    if phase is Phase.UNZIP:
        return outcome.extracted
    if phase is Phase.XML_NAME:
        return bool(outcome.documents)
    return outcome.succeeded or any(
        document.phase >= Phase.XSD and document.status is Status.DONE for document in outcome.documents
    )


def _headline(outcome: SubmissionOutcome, phase: Phase) -> str:
    if faulty := _failed_documents(outcome, phase):
        what = "broke the naming convention" if phase is Phase.XML_NAME else "failed validation"
        example = next((f" First: {_placed(faulty[0], error)}: {error.message}" for error in faulty[0].errors), "")
        return f"{len(faulty)} of {count_of(len(outcome.documents), 'document')} {what}.{example}"
    reason = outcome.main_reason
    return reason.message if reason else f"{outcome.key} failed in the phase {phase.short_name}."


def _failure(outcome: SubmissionOutcome, phase: Phase, headline: str, staging: Staging) -> Metadata:
    metadata: Metadata = {
        **about(outcome),
        "phase": phase.short_name,
        "status": Status.FAILED.short_name,
        "reason": headline,
        "Who acts": ACTOR_NAMES[acts_in(phase, Status.FAILED)],
        "What to do": OF_PHASES[phase].to_do,
        **_decisions(outcome),
        **_links(outcome, graph.CHECK_OF_PHASE[phase].asset_key),
    }
    if faulty := _failed_documents(outcome, phase):
        metadata |= _errors(faulty) | _documents(outcome)
    else:
        reasons = [(reason.kind, reason.message) for reason in outcome.reasons]
        metadata |= first_rows("reasons", ("error", "message"), reasons, ERRORS_SHOWN) | _transfer(outcome)
    if outcome.downloaded:
        metadata |= _place(outcome, staging)
    return metadata


def _kinds_of(outcome: SubmissionOutcome, phase: Phase) -> frozenset[str]:
    if faulty := _failed_documents(outcome, phase):
        return frozenset(error.kind for document in faulty for error in document.errors)
    if phase is Phase.DOWNLOAD or outcome.main_reason is None:
        return frozenset(reason.kind for reason in outcome.reasons)
    return frozenset({outcome.main_reason.kind})


def _failed_documents(outcome: SubmissionOutcome, phase: Phase) -> list[DocumentOutcome]:
    return [d for d in outcome.documents if d.phase is phase and d.status is Status.FAILED]


def _placed(document: DocumentOutcome, error: Problem) -> str:
    return f"{document.file_name}, {error.place}" if error.place else document.file_name


def about(outcome: SubmissionOutcome | SubmissionData) -> Metadata:
    """The submission, and its centre."""
    return {"zip": str(outcome.key), "centre": outcome.centre or "unknown"}


def _first_listed(outcome: SubmissionOutcome) -> Metadata:
    if outcome.first_listed is None:
        return {}
    moment, source = outcome.first_listed
    return {"first listed": f"{moment:%Y-%m-%d %H:%M} UTC, by {source}"}


def _decisions(outcome: SubmissionOutcome) -> Metadata:
    return {"decision": "; ".join(outcome.decisions)} if outcome.decisions else {}


def _links(outcome: SubmissionOutcome, excluding: AssetKey) -> Metadata:
    """Links from a submission's event to its report, source and board, and to the steps before a failure."""
    wanted = [("Submission report", report_of_submission(outcome.key))]
    if outcome.source_partition is not None and excluding in {graph.ZIP_ACTIONS, graph.ZIP_DOWNLOADS}:
        wanted.append(("File source", page_of_partition(graph.FILE_SOURCE_LISTINGS, outcome.source_partition)))
    if outcome.centre is not None:
        wanted.append(("Tracking board", board_of_centre(outcome.centre)))
    if outcome.failed:
        wanted += links_to_steps(outcome.key.partition, excluding)
    return {"Links": links(wanted)}


def links_to_steps(partition: str, excluding: AssetKey) -> list[Link]:
    """Links to the submission on other assets' pages."""
    return [(text, page_of_partition(asset, partition)) for text, asset in _STEPS if asset != excluding]


def _received(outcome: SubmissionOutcome) -> str | None:
    if outcome.size_bytes is None or not outcome.transfer_seconds:
        return None
    return f"{byte_size(outcome.size_bytes)} in {outcome.transfer_seconds:.1f} s from {outcome.source or 'its source'}."


def _transfer(outcome: SubmissionOutcome) -> Metadata:
    size, seconds = outcome.size_bytes, outcome.transfer_seconds
    # Not if it was only found; one that staging had already was processed without an attempt.
    tried = outcome.attempts > 0 or outcome.downloaded
    facts: dict[str, float | int | str | None] = {
        "attempts": outcome.attempts if tried else None,
        "seconds": float(round(outcome.seconds, 3)) if tried else None,
        "transfer": None if outcome.fetched is None else outcome.fetched.replace("_", " "),
        "file source": outcome.source,
        "bytes": size,
        "transfer seconds": None if seconds is None else float(round(seconds, 3)),
        "bytes per second": round(size / seconds) if size and seconds else None,
        "MD5": outcome.md5,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _place(outcome: SubmissionOutcome, staging: Staging) -> Metadata:
    return {"archive": MetadataValue.path(str(staging.archive(outcome.key)))}


def _ignored(outcome: SubmissionOutcome) -> Metadata:
    ignored = [(r.message,) for r in outcome.reasons if r.kind == MemberIgnoredError.short_name()]
    return first_rows("left aside", ("entry",), ignored, ERRORS_SHOWN)


def _documents(outcome: SubmissionOutcome) -> Metadata:
    rows = [(d.file_name, d.phase.short_name, d.status.short_name, len(d.errors)) for d in outcome.documents]
    return documents_table(outcome.key, rows, "errors")


def documents_table(key: SubmissionKey, rows: list[tuple[str, str, str, int]], counted: str) -> Metadata:
    """The table of documents, those that failed first, with links to their XML; `counted` is the last column."""
    rows = sorted(rows, key=lambda row: row[2] != Status.FAILED.short_name)
    found = first_rows("documents", ("document", "phase", "status", counted), rows, DOCUMENTS_SHOWN)
    return found | xml_of_documents(key, [row[0] for row in rows])


def _errors(documents: Sequence[DocumentOutcome]) -> Metadata:
    """The number, kinds and lines of errors; docs/errors.md explains each kind under its id."""
    errors = [(document.file_name, error) for document in documents for error in document.errors]
    kinds = Counter(error.kind for _, error in errors)
    return {
        "errors in all": len(errors),
        "documents with errors": len(documents),
        "kinds of error": table(("error", "errors"), kinds.most_common()),
        **first_rows(
            "errors",
            ("document", "line", "column", "message"),
            [(name, error.line, error.column, error.message) for name, error in errors],
            ERRORS_SHOWN,
        ),
    }
