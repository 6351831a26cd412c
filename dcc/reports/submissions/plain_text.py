"""A report in plain text, for the terminal: what became of it, what to correct, what was accepted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from dcc.reports.causes.cause import Cause
from dcc.reports.languages import Catalogue, mark
from dcc.reports.submissions import labels, model, sentences
from dcc.reports.submissions.model import MAX_PERMITTED, shortened
from dcc.reports.submissions.page import report_values
from dcc.reports.submissions.templates import render
from dcc.runtime.legible_text import wrapped

WIDTH: Final = 100
"""The characters of a line unless a terminal has another width."""
_MAX_CAUSES: Final = 10
_MOST: Final = 20
"""Documents, archives or procedures that are listed."""
_LONGEST: Final = 500


def render_text(report: model.Report, catalogue: Catalogue, width: int = WIDTH) -> str:
    """A summary of a report, in the language of a catalogue.

    Lines have at most `width` characters, or one word that is longer: names stay whole, so that they can be copied.
    """
    values: dict[str, Any] = {
        **report_values(report, report.causes[:_MAX_CAUSES], catalogue),
        "kind": report.kind,
        "accepted": None if isinstance(report, model.SessionReport) else report.accepted,
        "most": _MOST,
        "most_causes": _MAX_CAUSES,
        "example_line": example_line,
        "document_line": partial(_document_line, catalogue),
    }
    if not isinstance(report, model.SubmissionReport):
        values["archives"] = sentences.archives_beside(report, values["sections"])
        values["sources"] = list(_sources(report, catalogue))
    values["counted"] = partial(_counted, catalogue, deletes=values["deletes"])
    lines = render("reports/text.txt", values).splitlines()
    return "".join(f"{piece}\n" for line in lines for piece in _shown(line, width))


def _shown(line: str, width: int) -> list[str]:
    """A line of the template in lines no wider than `width`, further ones indented by two more; none if it is empty."""
    text = shortened(" ".join(line.split()), _LONGEST)
    if line.startswith("# "):
        return ["", *wrapped(text.removeprefix("# "), width, "  ", break_words=False)]
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return wrapped(indent + text, width, f"{indent}  ", break_words=False) if text else []


def _document_line(catalogue: Catalogue, document: model.DocumentReport) -> str:
    worst = next((step for step in document.steps if step.phase is document.phase), document.steps[-1])
    state = f"{catalogue.say(labels.PHASE_LABELS[worst.phase])} {catalogue.say(labels.STANDING_LABELS[worst.standing])}"
    parts = [state, *sentences.document_notes(catalogue, document)]
    if document.errors:
        parts.insert(1, catalogue.say_plural("one error", "{number} errors", document.errors))
    return f"{document.file_name}: {', '.join(parts)}"


def example_line(cause: Cause, catalogue: Catalogue, *, tell_zip: bool) -> str:
    """Where a cause was found, and what; with the value that was perhaps meant, or those that are permitted."""
    example = cause.example
    parts = [example.zip if tell_zip or not example.document else None, example.document]
    parts.append(sentences.place_in_document(catalogue, example.line, example.column))
    place = ", ".join(filter(None, parts))
    text = f"{place}: {catalogue.tell(example.message)}" if place else catalogue.tell(example.message)
    if example.nearest:
        text += f" {catalogue.say('Perhaps meant')}: {example.nearest}"
    elif example.permitted:
        text += f" {catalogue.say('Permitted')}: {', '.join(example.permitted[:MAX_PERMITTED])}"
    return text


def _counted(catalogue: Catalogue, one: model.EntityCount, *, deletes: bool) -> str:
    """What became of one kind of entities that a submission adds, edits or deletes, with counts that are no noughts."""
    text = catalogue.say(
        mark("{kind}: {deleted} of {submitted} deleted") if deletes else mark("{kind}: {accepted} of {submitted}"),
        kind=catalogue.say(labels.KIND_LABELS[one.kind]),
        accepted=catalogue.number(one.accepted),
        deleted=catalogue.number(one.ended),
        submitted=catalogue.number(one.named),
    )
    refused = (one.refused, mark("{number} not taken"))
    others = (
        (one.faulty, mark("{number} with errors")),
        (one.animal_faulty, mark("{number} not counted, because an animal has errors")),
        refused,
        (one.unchecked, mark("{number} not checked yet")),
        (one.superseded, mark("{number} replaced or deleted since")),
        (one.ended, mark("{number} of the earlier ones replaced or deleted")),
    )
    told = (refused,) if deletes else others
    return "; ".join([text, *(catalogue.say(words, number=catalogue.number(count)) for count, words in told if count)])


def _sources(
    report: model.CentreReport | model.SessionReport, catalogue: Catalogue
) -> Iterator[tuple[model.SourceReport, str, list[str]]]:
    """Each source, when it was crawled and what was done, and what troubled it that is not told before."""
    shown = {str(cause.example.message) for cause in report.causes[:_MAX_CAUSES]}
    if isinstance(report, model.SessionReport):
        shown |= {error.message for source in report.sources if (error := source.crawl_error)}
    for source in report.sources:
        crawled, troubles = catalogue.say("It was never crawled."), []
        if source.crawl is not None:
            crawled = sentences.crawl_sentence(catalogue, source.crawl)
        if source.done is not None:
            crawled += f" {sentences.statistics_sentence(catalogue, source.done)}"
        if (error := source.crawl_error) is not None:
            if error.message not in shown:
                troubles.append(catalogue.tell(error.marked))
            shown.add(error.message)
        for row in source.not_taken[:_MAX_CAUSES]:
            if row.entry is not None or str(row.message.problem) not in shown:
                troubles.append(("" if row.entry is None else f"{row.entry}: ") + row.reason(catalogue))
        yield source, crawled, troubles
