"""A report as an object of JSON: the facts of the page, and its texts in the same language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from enum import Enum, IntEnum
from typing import Any, Final

from dcc.outcomes import Problem, ZipKey
from dcc.reports.causes.cause import Cause
from dcc.reports.causes.cause import as_json as cause_as_json
from dcc.reports.languages import Catalogue
from dcc.reports.submissions import labels, model
from dcc.reports.submissions.model import LONGEST_VALUE, MAX_HOSTS, MAX_PERMITTED, MAX_REASONS, shortened
from dcc.reports.submissions.sentences import (
    decision_sentence,
    next_sentences,
    outcome_text,
    session_outcome,
    who_acts_on,
)
from dcc.tracker.queries.zip_stories import DownloadStory

FORMAT: Final = 1
"""Number of the form of the object: grows when something in it changes its meaning."""


def as_json(report: model.Report, catalogue: Catalogue) -> dict[str, Any]:
    """A report as an object that `json.dumps` takes; times are ISO 8601 in UTC, phases and statuses their names."""
    common = {
        "format": FORMAT,
        "language": catalogue.code,
        **_fields(report, "made", "outcome", "tone", "centre", "centre_name", "causes_total", "qc_missing"),
        "causes": [_cause(cause, catalogue) for cause in report.causes],
        "findings_total": report.found,
    }
    if isinstance(report, model.SubmissionReport):
        return {"kind": "submission", **common, **_submission(report, catalogue)}
    common |= _summary(report, catalogue)
    if isinstance(report, model.CentreReport):
        return {"kind": "centre", **common, "accepted": _accepted(report.accepted), "pictures": _pictures(report)}
    label = session_outcome(catalogue, report.outcome)
    names = ("session", "started", "finished", "failed_step", "task_errors", "seconds", "document_states", "proposals")
    sections = [
        {**_fields(section, "kind", "total"), "notes": [_note(note, catalogue) for note in section.notes]}
        for section in report.sections
    ]
    told = {**_fields(report, *names, "sources_in_trouble"), "sections": sections}
    return {"kind": "session", **common, **told, "said": label}


def _submission(report: model.SubmissionReport, catalogue: Catalogue) -> dict[str, Any]:
    words = outcome_text(report)
    return {
        **_fields(report, "phase", "status", "changed", "size_bytes", "md5", "created", "inc", "reopenings"),
        **_fields(report, "attempts_total", "documents_total", "documents_failed"),
        "zip": str(report.key),
        "action": report.key.action.value,
        "file_name": report.key.file_name,
        "headline": catalogue.say(words.headline),
        "explanation": catalogue.say(words.explanation),
        "who_acts": who_acts_on(report, catalogue),
        "next": [catalogue.say(sentence) for sentence in next_sentences(report)],
        "decisions": [
            {
                **_fields(decision, "kind", "decided_by", "reason", "created"),
                "said": decision_sentence(decision, catalogue),
            }
            for decision in report.decisions
        ],
        "hosts": [{**_fields(host), "label": catalogue.tell(host.label)} for host in report.hosts[:MAX_HOSTS]],
        "hosts_total": len(report.hosts),
        "attempts": [_attempt(attempt, catalogue) for attempt in report.attempts],
        "reasons": [_reason(reason, catalogue) for reason in report.reasons],
        "documents": [_document(document, catalogue) for document in report.documents],
        "document_states": _ready(report.states),
        "accepted": _accepted(report.accepted),
        "pictures": _pictures(report),
        "crawl_findings": [
            {**_fields(finding), "message": shortened(catalogue.tell(finding.said))} for finding in report.findings
        ],
        "removals": [_reason(reason, catalogue) for reason in report.removals],
    }


def _summary(report: model.CentreReport | model.SessionReport, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **_fields(report, "sources_total", "outcomes", "states", "zips_total"),
        "standing": catalogue.say(labels.TONE_LABELS[report.tone]),
        "sources": [_source(source, catalogue) for source in report.sources],
        "zips": [_zip(line, catalogue) for line in report.zips],
    }


def _zip(line: model.ZipLine, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **_fields(line),
        **_fields(line, "tone"),
        "zip": str(line.key),
        "said": catalogue.say(labels.OUTCOME_TEXTS[line.outcome].short),
    }


def _attempt(attempt: DownloadStory, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **_fields(attempt, "id", "source", "requested", "received", "bytes", "phase", "status", "outcome"),
        "label": catalogue.tell(attempt.label),
        "said": catalogue.say(labels.PHASE_LABELS[attempt.phase]),
        "reasons": [_reason(reason, catalogue) for reason in attempt.reasons[-MAX_REASONS:]],
    }


def _reason(reason: Problem, catalogue: Catalogue) -> dict[str, Any]:
    return {**_fields(reason, "kind", "recorded"), "message": shortened(catalogue.tell(reason.fact))}


def _note(note: model.Note, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **_fields(note, "total", "centre", "failed_at", "documents_total"),
        "name": catalogue.tell(note.name),
        "problems": [
            {**_fields(problem), "message": shortened(catalogue.tell(problem.marked))} for problem in note.problems
        ],
        "documents": [_note(document, catalogue) for document in note.documents],
    }


def _document(document: model.DocumentReport, catalogue: Catalogue) -> dict[str, Any]:
    steps = [{**_fields(step), "said": catalogue.say(labels.STANDING_LABELS[step.standing])} for step in document.steps]
    return {**_fields(document), "steps": steps}


def _cause(cause: Cause, catalogue: Catalogue) -> dict[str, Any]:
    shown: dict[str, Any] = dict(cause_as_json(cause, catalogue))
    example = dict(shown["example"])
    for name in ("zip", "document", "value", "element", "nearest", "expected"):
        example[name] = None if example[name] is None else shortened(str(example[name]), LONGEST_VALUE)
    example["message"] = shortened(catalogue.tell(cause.example.message))
    example["permitted"] = [shortened(value, LONGEST_VALUE) for value in cause.example.permitted[:MAX_PERMITTED]]
    return {
        **shown,
        "subject": shortened(cause.subject, LONGEST_VALUE),
        "title": shortened(str(shown["title"])),
        "remedy": shortened(str(shown["remedy"])),
        "who_acts": cause.who_acts(catalogue),
        "example": example,
    }


def _accepted(accepted: model.AcceptedData | None) -> dict[str, Any] | None:
    return None if accepted is None else {**_fields(accepted), "measurements": accepted.measurements}


def _source(source: model.SourceReport, catalogue: Catalogue) -> dict[str, Any]:
    shown = _fields(replace(source, not_taken=()))
    del shown["title"]
    shown["not_taken"] = [
        {
            "entry": None if row.entry is None else shortened(row.entry, LONGEST_VALUE),
            "why": row.why.value,
            "acts": row.acts.value,
            "reason": shortened(row.reason(catalogue)),
            "number": row.number,
        }
        for row in source.not_taken
    ]
    if (error := source.crawl_error) is not None:
        shown["crawl"]["error"]["message"] = shortened(catalogue.tell(error.marked))
    return shown


def _pictures(report: model.SubmissionReport | model.CentreReport) -> list[dict[str, Any]]:
    return [_fields(picture, "name", "title", "caption", "rule", "alt", "outliers") for picture in report.pictures]


def _fields(value: Any, *names: str) -> dict[str, Any]:
    """The fields of these names that a value has, or all."""
    if not names and hasattr(value, "as_json"):
        return {name: _ready(each) for name, each in value.as_json().items()}
    wanted = [name for name in names if hasattr(value, name)] or value.__dataclass_fields__
    return {name: _ready(getattr(value, name)) for name in wanted}


def _ready(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, ZipKey):
        return str(value)
    if hasattr(value, "__dataclass_fields__"):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(_ready(key)): _ready(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_ready(one) for one in value]
    return value
