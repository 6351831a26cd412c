"""A report as an object of JSON: the facts of the page, and its texts in the same language."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from dcc.outcomes import Problem
from dcc.reports.causes.cause import Cause, cause_as_json
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
from dcc.runtime.json_values import fields_of, json_ready
from dcc.tracker.queries.submission_stories import DownloadStory

FORMAT: Final = 1
"""Number of the form of the object: grows when something in it changes its meaning."""


def report_as_json(report: model.Report, catalogue: Catalogue) -> dict[str, Any]:
    """A report as an object that `json.dumps` takes; times are ISO 8601 in UTC, phases and statuses their names."""
    return dict(json_ready(_facts(report, catalogue)))


def _facts(report: model.Report, catalogue: Catalogue) -> dict[str, Any]:
    some = ("kind", "made", "outcome", "tone", "centre", "centre_name", "causes_total", "qc_missing")
    common = {
        "format": FORMAT,
        "language": catalogue.code,
        # Not every kind of report has an outcome, or a centre.
        **fields_of(report, *(name for name in some if hasattr(report, name))),
        "causes": [_cause(cause, catalogue, at_centre=not report.is_for_wranglers) for cause in report.causes],
        "findings_total": report.found,
    }
    if isinstance(report, model.SubmissionReport):
        return common | _submission(report, catalogue)
    common |= _summary(report, catalogue)
    if isinstance(report, model.CentreReport):
        return {**common, "accepted": report.accepted, "pictures": _pictures(report)}
    names = ("session", "started", "finished", "failed_step", "task_errors", "seconds", "document_states", "proposals")
    sections = [
        {**fields_of(section, "kind", "total"), "notes": [_note(note, catalogue) for note in section.notes]}
        for section in report.sections
    ]
    told = {**fields_of(report, *names, "sources_in_trouble"), "said": session_outcome(catalogue, report.outcome)}
    return {**common, **told, "sections": sections}


def _submission(report: model.SubmissionReport, catalogue: Catalogue) -> dict[str, Any]:
    words = outcome_text(report)
    return {
        **fields_of(report, "phase", "status", "changed", "size_bytes", "md5", "created", "inc", "reopenings"),
        **fields_of(report, "attempts_total", "documents_total", "documents_failed", "to_be_corrected"),
        "zip": str(report.key),
        "action": report.key.action.value,
        "file_name": report.key.file_name,
        "headline": catalogue.say(words.headline),
        "explanation": catalogue.say(words.explanation),
        "who_acts": who_acts_on(report, catalogue),
        "next": [catalogue.say(sentence) for sentence in next_sentences(report)],
        "waits": [catalogue.tell(wait) for wait in report.waits],
        "decisions": [
            {
                **fields_of(decision, "kind", "decided_by", "reason", "created"),
                "said": decision_sentence(decision, catalogue),
            }
            for decision in report.decisions
        ],
        "hosts": [{**json_ready(host), "label": catalogue.tell(host.label)} for host in report.hosts[:MAX_HOSTS]],
        "hosts_total": len(report.hosts),
        "attempts": [_attempt(attempt, catalogue) for attempt in report.attempts],
        "reasons": [_reason(reason, catalogue) for reason in report.reasons],
        "documents": [_document(document, catalogue) for document in report.documents],
        "document_states": report.states,
        "accepted": report.accepted,
        "pictures": _pictures(report),
        "crawl_findings": [
            {**json_ready(finding), "message": shortened(catalogue.tell(finding.said))} for finding in report.findings
        ],
        "removals": [_reason(reason, catalogue) for reason in report.removals],
    }


def _summary(report: model.CentreReport | model.SessionReport, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **fields_of(report, "sources_total", "outcomes", "states", "zips_total"),
        "standing": catalogue.say(labels.TONE_LABELS[report.tone]),
        "sources": [_source(source, catalogue) for source in report.sources],
        "zips": [_zip(line, catalogue) for line in report.zips],
    }


def _zip(line: model.SubmissionLine, catalogue: Catalogue) -> dict[str, Any]:
    return {
        "key": str(line.key),
        **fields_of(line, "centre", "counts_for", "phase", "status", "outcome", "tone", "size_bytes", "documents"),
        **fields_of(line, "failed", "clearing", "to_be_corrected", "changed", "acts", "needs_nobody"),
        "zip": str(line.key),
        "said": catalogue.say(labels.OUTCOME_TEXTS[line.outcome].short),
    }


def _attempt(attempt: DownloadStory, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **fields_of(attempt, "id", "source", "requested", "received", "bytes", "phase", "status", "outcome"),
        "label": catalogue.tell(attempt.label),
        "said": catalogue.say(labels.PHASE_LABELS[attempt.phase]),
        "reasons": [_reason(reason, catalogue) for reason in attempt.reasons[-MAX_REASONS:]],
    }


def _reason(reason: Problem, catalogue: Catalogue) -> dict[str, Any]:
    return {**fields_of(reason, "kind", "recorded"), "message": shortened(catalogue.tell(reason.fact))}


def _note(note: model.Note, catalogue: Catalogue) -> dict[str, Any]:
    return {
        **fields_of(note, "total", "centre", "failed_at", "documents_total"),
        "name": catalogue.tell(note.name),
        "problems": [
            {**json_ready(problem), "message": shortened(catalogue.tell(problem.marked))} for problem in note.problems
        ],
        "documents": [_note(document, catalogue) for document in note.documents],
    }


def _document(document: model.DocumentReport, catalogue: Catalogue) -> dict[str, Any]:
    steps = [
        {**json_ready(step), "said": catalogue.say(labels.STANDING_LABELS[step.standing])} for step in document.steps
    ]
    return {**json_ready(document), "steps": steps}


def _cause(cause: Cause, catalogue: Catalogue, *, at_centre: bool) -> dict[str, Any]:
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
        "remedy": shortened(cause.remedy_for_centre(catalogue) if at_centre else cause.remedy(catalogue)),
        "who_acts": cause.who_acts(catalogue),
        "example": example,
    }


def _source(source: model.SourceReport, catalogue: Catalogue) -> dict[str, Any]:
    shown: dict[str, Any] = json_ready(replace(source, not_taken=()))
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
    return [fields_of(picture, "name", "title", "caption", "rule", "alt", "outliers") for picture in report.pictures]
