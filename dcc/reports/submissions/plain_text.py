"""A report in plain text, for the terminal: what became of it, what to correct, what was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dcc.naming import Action
from dcc.reports.causes.cause import Cause
from dcc.reports.languages import Catalogue, mark, mark_plural
from dcc.reports.submissions import sentences
from dcc.reports.submissions.labels import (
    KIND_LABELS,
    OUTCOME_TEXTS,
    PHASE_LABELS,
    STANDING_LABELS,
    TONE_LABELS,
)
from dcc.reports.submissions.limits import MOST_PERMITTED, shortened
from dcc.reports.submissions.model import (
    Accepted,
    CentreReport,
    DocumentReport,
    EntityCount,
    Report,
    SessionReport,
    SourceReport,
    SubmissionReport,
    ZipLine,
)
from dcc.runtime.legible_text import legible
from dcc.runtime.wrapping import wrapped

WIDTH: Final = 100
"""The characters of a line unless a terminal has another width."""
_MOST_CAUSES: Final = 10
_MOST_DOCUMENTS: Final = 20
_MOST_ZIPS: Final = 20
_MOST_PROCEDURES: Final = 20
_LONGEST: Final = 500


def render_text(report: Report, catalogue: Catalogue, width: int = WIDTH) -> str:
    """A summary of a report, in the language of a catalogue.

    Lines have at most `width` characters, or one word that is longer: names stay whole, so that they can be copied.
    """
    match report:
        case SubmissionReport():
            lines = _submission(report, catalogue)
        case CentreReport():
            lines = _centre(report, catalogue)
        case SessionReport():
            lines = _session(report, catalogue)
    return "\n".join(piece for line in lines for piece in _broken(line, width)) + "\n"


def _submission(report: SubmissionReport, catalogue: Catalogue) -> Iterator[str]:
    texts = OUTCOME_TEXTS[report.outcome]
    whose = "" if report.centre is None else f" ({report.centre_name or report.centre})"
    yield from _texts(f"{report.key}{whose}")
    yield from _texts(f"{catalogue.say(texts.headline)}.", 2)
    yield from _texts(catalogue.say(texts.explanation), 2)
    for reason in sentences.whole_reasons(report):
        yield from _texts(catalogue.tell(reason.fact), 2)
    yield from _texts(f"{catalogue.say('Who acts')}: {sentences.who_acts_on(report, catalogue)}", 2)
    for sentence in sentences.notes(report, catalogue):
        yield from _texts(sentence, 2)
    yield from _cause_lines(report, catalogue, tell_zip=False)
    yield from _title(catalogue.say("What happens next"))
    for sentence in sentences.next_sentences(report):
        yield from _texts(catalogue.say(sentence), 2)
    if report.key.action is Action.DELETE:
        yield from _deleted_lines(report.accepted, catalogue)
    else:
        yield from _accepted_lines(report.accepted, catalogue)
    if report.documents:
        yield from _title(catalogue.say("The documents"))
        for document in report.documents[:_MOST_DOCUMENTS]:
            yield from _texts(_document_line(document, catalogue), 2)
        yield from _more(report.documents_total - min(len(report.documents), _MOST_DOCUMENTS), catalogue)


def _document_line(document: DocumentReport, catalogue: Catalogue) -> str:
    worst = next((step for step in document.steps if step.phase is document.phase), document.steps[-1])
    state = f"{catalogue.say(PHASE_LABELS[worst.phase])} {catalogue.say(STANDING_LABELS[worst.standing])}"
    parts = [state, *sentences.document_notes(catalogue, document)]
    if document.errors:
        parts.insert(1, catalogue.say_plural("one error", "{number} errors", document.errors))
    return f"{document.file_name}: {', '.join(parts)}"


def _centre(report: CentreReport, catalogue: Catalogue) -> Iterator[str]:
    yield from _texts(f"{report.centre}, {report.centre_name}: {catalogue.say(TONE_LABELS[report.tone])}")
    yield from _summary(report, catalogue)


def _session(report: SessionReport, catalogue: Catalogue) -> Iterator[str]:
    when = catalogue.moment(report.started)
    yield from _texts(
        f"{catalogue.say('Session {number}', number=report.session)}, {when}: "
        f"{sentences.session_outcome(catalogue, report.outcome)}"
    )
    yield from _summary(report, catalogue)


def _summary(report: CentreReport | SessionReport, catalogue: Catalogue) -> Iterator[str]:
    yield f"  {catalogue.say('Archives')}: {catalogue.number(report.zips_total)}"
    for outcome, count in report.outcomes.items():
        yield f"    {catalogue.say(OUTCOME_TEXTS[outcome].short)}: {catalogue.number(count)}"
    yield from _cause_lines(report, catalogue, tell_zip=True)
    yield from _zip_lines(report.zips, report.zips_total, catalogue)
    if isinstance(report, CentreReport):
        yield from _accepted_lines(report.accepted, catalogue)
    yield from _source_lines(report, catalogue)
    yield from _more(report.sources_total - len(report.sources), catalogue)


def _cause_lines(report: Report, catalogue: Catalogue, *, tell_zip: bool) -> Iterator[str]:
    shown = report.causes[:_MOST_CAUSES]
    for title, some in (
        (sentences.title_of_failing(report), [cause for cause in shown if cause.fails and not cause.clears_by_itself]),
        (mark("What clears by itself"), [cause for cause in shown if cause.fails and cause.clears_by_itself]),
        (mark("What to know"), [cause for cause in shown if not cause.fails]),
    ):
        if some:
            yield from _title(catalogue.say(title))
            yield from _listed_causes(some, catalogue, tell_zip=tell_zip)
    yield from _more(report.causes_total - len(shown), catalogue)


def _listed_causes(causes: Iterable[Cause], catalogue: Catalogue, *, tell_zip: bool) -> Iterator[str]:
    for number, cause in enumerate(causes, 1):
        yield from _texts(f"{number}. {cause.title(catalogue)}", 2)
        yield from _texts(f"{cause.who_acts(catalogue)} {cause.remedy_for_centre(catalogue)}", 5)
        yield from _texts(example_line(cause, catalogue, tell_zip=tell_zip), 5)


def example_line(cause: Cause, catalogue: Catalogue, *, tell_zip: bool) -> str:
    """Where a cause was found, and what; with the value that was perhaps meant, or those that are permitted."""
    example = cause.example
    parts = [example.zip if tell_zip or not example.document else None, example.document]
    if example.line is not None and example.column is not None:
        place = catalogue.say("line {line}, column {column}", line=example.line, column=example.column)
        parts.append(place)
    elif example.line is not None:
        parts.append(catalogue.say("line {line}", line=example.line))
    place = ", ".join(filter(None, parts))
    text = f"{place}: {catalogue.tell(example.message)}" if place else catalogue.tell(example.message)
    if example.nearest:
        text += f" {catalogue.say('Perhaps meant')}: {example.nearest}"
    elif example.permitted:
        text += f" {catalogue.say('Permitted')}: {', '.join(example.permitted[:MOST_PERMITTED])}"
    return text


def _accepted_lines(accepted: Accepted | None, catalogue: Catalogue) -> Iterator[str]:
    if accepted is None or not (accepted.entities or accepted.procedures):
        return
    yield from _title(catalogue.say("What was accepted"))
    for entity in accepted.entities:
        yield from _counted(mark("{kind}: {accepted} of {submitted}"), entity, _else_of(entity), catalogue)
    for procedure in accepted.procedures[:_MOST_PROCEDURES]:
        name = f"{procedure.name} ({procedure.procedure})" if procedure.name else procedure.procedure
        count = catalogue.say_plural("one measurement", "{number} measurements", procedure.accepted)
        yield from _texts(f"{name}: {count}", 2)
    yield from _more(accepted.procedures_total - min(len(accepted.procedures), _MOST_PROCEDURES), catalogue)


def _deleted_lines(accepted: Accepted | None, catalogue: Catalogue) -> Iterator[str]:
    if accepted is None or not accepted.entities:
        return
    yield from _title(catalogue.say("What was deleted"))
    for entity in accepted.entities:
        not_taken = ((entity.refused, _NOT_TAKEN),)
        yield from _counted(mark("{kind}: {deleted} of {submitted} deleted"), entity, not_taken, catalogue)


def _counted(words: str, entity: EntityCount, also: Iterable[tuple[int, str]], catalogue: Catalogue) -> Iterator[str]:
    """A line on one kind of entities, with further counts where these are no noughts."""
    text = catalogue.say(
        words,
        kind=catalogue.say(KIND_LABELS[entity.kind]),
        accepted=catalogue.number(entity.accepted),
        deleted=catalogue.number(entity.ended),
        submitted=catalogue.number(entity.named),
    )
    further = [catalogue.say(words, number=catalogue.number(count)) for count, words in also if count]
    yield from _texts("; ".join([text, *further]), 2)


_NOT_TAKEN: Final = mark("{number} not taken")


def _else_of(one: EntityCount) -> tuple[tuple[int, str], ...]:
    """What became of what does not count as accepted, and of what was there before."""
    return (
        (one.faulty, mark("{number} with errors")),
        (one.animal_faulty, mark("{number} not counted, because an animal has errors")),
        (one.refused, _NOT_TAKEN),
        (one.unchecked, mark("{number} not checked yet")),
        (one.superseded, mark("{number} replaced or deleted since")),
        (one.ended, mark("{number} of the earlier ones replaced or deleted")),
    )


def _zip_lines(zips: tuple[ZipLine, ...], total: int, catalogue: Catalogue) -> Iterator[str]:
    if not zips:
        return
    yield from _title(catalogue.say("The archives"))
    for line in zips[:_MOST_ZIPS]:
        failed = ""
        if line.to_be_corrected:
            texts = mark_plural(
                ", {failed} of {number} document to be corrected", ", {failed} of {number} documents to be corrected"
            )
            failed = catalogue.say_plural(*texts, line.documents, failed=catalogue.number(line.to_be_corrected))
        nobody = f". {catalogue.say('Nobody has to act.')}" if line.needs_nobody else ""
        yield from _texts(f"{line.key}: {catalogue.say(OUTCOME_TEXTS[line.outcome].short)}{failed}{nobody}", 2)
    yield from _more(total - min(len(zips), _MOST_ZIPS), catalogue)


def _source_lines(report: CentreReport | SessionReport, catalogue: Catalogue) -> Iterator[str]:
    sources: tuple[SourceReport, ...] = report.sources
    if not sources:
        return
    shown = {str(cause.example.message) for cause in report.causes[:_MOST_CAUSES]}
    yield from _title(catalogue.say("The sources"))
    for source in sources:
        crawled = catalogue.say("It was never crawled.")
        if source.crawl is not None:
            crawled = sentences.crawl_sentence(catalogue, source.crawl)
        if source.done is not None:
            crawled += f" {sentences.statistics_sentence(catalogue, source.done)}"
        yield from _texts(f"{catalogue.say('Source {number}', number=source.source)} ({source.label}): {crawled}", 2)
        if source.crawl is not None and source.crawl.error is not None:
            if source.crawl.error.message not in shown:
                yield from _texts(catalogue.tell(source.crawl.error.marked), 4)
            shown.add(source.crawl.error.message)
        for row in source.not_taken[:_MOST_CAUSES]:
            if row.entry is None and str(row.message.problem) in shown:
                continue
            entry = "" if row.entry is None else f"{row.entry}: "
            yield from _texts(entry + row.reason(catalogue), 4)
        yield from _more(source.not_taken_total - min(len(source.not_taken), _MOST_CAUSES), catalogue, 4)


def _title(text: str) -> Iterable[str]:
    return "", text


def _more(number: int, catalogue: Catalogue, indent: int = 2) -> Iterator[str]:
    if number > 0:
        yield " " * indent + catalogue.say_plural("... and one more", "... and {number} more", number)


def _texts(text: str, indent: int = 0) -> list[str]:
    """A text as one indented line; none if it is empty."""
    shown = shortened(legible(" ".join(text.split())), _LONGEST)
    return [" " * indent + shown] if shown else []


def _broken(line: str, width: int) -> list[str]:
    """A line, broken into lines no wider than `width`, further ones indented by two more."""
    indent = len(line) - len(line.lstrip(" "))
    return wrapped(line, width, " " * (indent + 2), break_words=False)
