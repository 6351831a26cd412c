"""Sentences of a report, made from its facts in the language of a catalogue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dcc.messages import mark, mark_plural
from dcc.naming import Action
from dcc.outcomes import SESSION_MEANINGS, WAS_CONFIRMED, AttemptOutcome, CrawlOutcome, EndReason, Problem
from dcc.phases import Phase, Status
from dcc.reports.languages import Catalogue
from dcc.reports.submissions import labels
from dcc.reports.submissions.model import (
    CentreReport,
    DocumentReport,
    Note,
    Noted,
    Outcome,
    PhaseStep,
    Section,
    SessionReport,
    SubmissionLine,
    SubmissionReport,
)
from dcc.tracker.crawls import CrawlEntry
from dcc.tracker.decisions import Decision, DecisionKind
from dcc.tracker.queries.state_counts import StateCount
from dcc.tracker.queries.submission_stories import DownloadStory, first_listing
from dcc.tracker.session_statistics import SourceStatistics, seconds_text
from dcc.vocabulary import Actor

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause

SHOWN_PHASES: Final = (Phase.XML_NAME, Phase.XSD, Phase.UPLOAD, Phase.DATA, Phase.QC)
"""The phases that are columns of the table of documents: nobody has to do anything in the others."""

WHAT_TO_CORRECT: Final = mark("What to correct")
"""The heading of causes that somebody must act on."""
_ARCHIVE_OUTCOMES: Final = (
    Outcome.NAME_REFUSED,
    Outcome.NOT_ARRIVED,
    Outcome.CHECKSUM_WRONG,
    Outcome.UNREADABLE,
    Outcome.FOREIGN,
    Outcome.DECLINED,
)
_AS_CAUSES_TELL: Final = (Outcome.WAITS_FOR_DATA, Outcome.WAITING, Outcome.NOT_ARRIVED, Outcome.UNDER_WAY)
"""Outcomes without a fault of their own, on which somebody acts if a cause says so, or what it waits for."""
_MAX_WHOLE: Final = 3


def next_sentences(report: SubmissionReport) -> tuple[str, ...]:
    """What happens next, as texts for a catalogue: of the ways to correct a fault only those that apply here."""
    if is_acknowledged(report):
        return (labels.ACKNOWLEDGED_NEXT,)
    before = sum(state.count for state in report.states if state.status is Status.FAILED and state.phase < Phase.DATA)
    left_out = set()
    if not before:
        left_out.add(labels.SUBMIT_AGAIN)
    if report.to_be_corrected <= before:
        left_out.add(labels.SUBMIT_FOR_EDIT)
    also = (labels.CHANGED_SINCE,) if report.changed and report.outcome is not Outcome.CHANGED else ()
    said = (sentence for sentence in labels.OUTCOME_TEXTS[report.outcome].next if sentence not in left_out)
    return (*also, *(_of_action(sentence, report.key.action) for sentence in said))


def _of_action(sentence: str, action: Action) -> str:
    return labels.OF_DELETIONS.get(sentence, sentence) if action is Action.DELETE else sentence


def outcome_text(report: SubmissionReport) -> labels.OutcomeText:
    """The texts of the outcome of a report; of what was acknowledged, without what to correct."""
    texts = labels.OUTCOME_TEXTS[report.outcome]
    if report.outcome is Outcome.PARTLY_TAKEN and is_acknowledged(report):
        return texts._replace(headline=texts.short, explanation=labels.ACKNOWLEDGED_EXPLANATION)
    return texts


def is_acknowledged(report: SubmissionReport) -> bool:
    """Whether somebody said of the submission that nobody has to act."""
    return any(decision.kind is DecisionKind.ACKNOWLEDGE for decision in report.decisions)


def title_of_failing(report: SubmissionReport) -> str:
    """The heading of what makes it fail, as a text for a catalogue."""
    return mark("What was wrong") if is_acknowledged(report) else WHAT_TO_CORRECT


def who_acts(catalogue: Catalogue, outcome: Outcome, actors: Collection[Actor]) -> str:
    """Who acts on a submission: if somebody must correct something, the `actors` of what makes it fail.

    In other outcomes, and without such actors, it is who the outcome tells.
    """
    texts, acting = labels.OUTCOME_TEXTS[outcome], set(actors) - {Actor.NOBODY}
    if not acting or not (texts.actor is Actor.CENTRE or outcome in _AS_CAUSES_TELL):
        return catalogue.say(texts.acts or labels.ACTOR_LABELS[texts.actor])
    first = next(actor for actor in (Actor.REGISTRY, Actor.CENTRE, Actor.DCC) if actor in acting)
    who = catalogue.say(labels.ACTOR_LABELS[first])
    return catalogue.say(labels.ALSO_DCC, who=who) if Actor.DCC in acting and first is not Actor.DCC else who


def who_acts_on(report: SubmissionReport, catalogue: Catalogue) -> str:
    """Who acts on the submission of a report."""
    if is_acknowledged(report):
        return catalogue.say("Nobody: it is decided")
    return who_acts(catalogue, report.outcome, {*report.awaited, *(one.acts for one in report.causes if one.fails)})


def next_of_line(line: SubmissionLine) -> str:
    """What to do first about a submission of a summary, as a text for a catalogue: it may know only the phase."""
    if line.changed:
        return labels.CHANGED_SINCE
    first = labels.OUTCOME_TEXTS[line.outcome].next[0]
    said = labels.SUBMIT_FOR_EDIT if first == labels.SUBMIT_AGAIN and line.phase is Phase.DATA else first
    return _of_action(said, line.key.action)


def shown_steps(document: DocumentReport) -> tuple[PhaseStep, ...]:
    """The steps of a document that the table shows, in the order of its columns."""
    return tuple(step for step in document.steps if step.phase in SHOWN_PHASES)


def whole_reasons(report: SubmissionReport) -> tuple[Problem, ...]:
    """Why the archive failed or is not taken as a whole, unless causes tell: the latest reasons, each once."""
    if report.outcome not in _ARCHIVE_OUTCOMES or any(cause.fails for cause in report.causes):
        return ()
    reasons = (report.attempts[-1].reasons if report.attempts else ()) or report.reasons
    latest = {reason.message: reason for reason in reasons}
    return tuple(latest.values())[-_MAX_WHOLE:]


def notes(report: SubmissionReport, catalogue: Catalogue) -> list[str]:
    """What else there is to know of a submission, a sentence each."""
    documents = report.documents
    late = sum(one.late and not one.without_effect for one in documents)
    repeated = sum(one.repeated for one in documents)
    counted = (
        (report.held if report.outcome is not Outcome.HELD else 0, _HELD),
        (late, _LATE),
        (repeated, _REPEATED),
        (0 if report.accepted is None else report.accepted.copies_of_withdrawn, _OF_WITHDRAWN),
    )
    sentences = [catalogue.say_plural(*texts, number) for number, texts in counted if number]
    decided = (decision_sentence(decision, catalogue) for decision in report.decisions)
    sentences = [*decided, *map(catalogue.tell, report.waits), *sentences]
    if (first := first_listing(report.hosts)) is not None:
        said = mark("It was first seen on {moment}, on {source}.")
        sentences.append(catalogue.say(said, moment=catalogue.moment(first.moment), source=catalogue.tell(first.label)))
    if report.removals:
        sentences.append(catalogue.say("The Data Coordination Centre no longer keeps a copy of the archive."))
    return sentences


def decision_sentence(decision: Decision, catalogue: Catalogue) -> str:
    """What was decided, by whom, when and why, and until when it holds."""
    known = {"by": decision.decided_by, "moment": catalogue.moment(decision.created), "reason": decision.reason}
    return catalogue.say(_DECISIONS[decision.kind], **known)


_DECISIONS: Final = {
    DecisionKind.HOLD: mark("On hold since {moment} by {by}, until it is released: {reason}"),
    DecisionKind.QUARANTINE: mark("In quarantine since {moment} by {by}, until it is released: {reason}"),
    DecisionKind.ACKNOWLEDGE: mark("Nobody has to act, said {by} on {moment}, until it is tried again: {reason}"),
}
_HELD: Final = mark_plural(
    "One document waits to be confirmed by the Data Coordination Centre.",
    "{number} documents wait to be confirmed by the Data Coordination Centre.",
)
_LATE: Final = mark_plural(
    "One document came late: newer documents of your centre were taken before it. It was taken anyway. Check that this "
    "is what you want.",
    "{number} documents came late: newer documents of your centre were taken before them. They were taken anyway. "
    "Check that this is what you want.",
)
_REPEATED: Final = mark_plural(
    "One document had been taken before, and was not taken twice.",
    "{number} documents had been taken before, and were not taken twice.",
)
_OF_WITHDRAWN: Final = mark_plural(
    "One of its documents is the same as one that was withdrawn since: nothing of it counts. To have it taken, ask the "
    "Data Coordination Centre.",
    "{number} of its documents are the same as some that were withdrawn since: nothing of them counts. To have them "
    "taken, ask the Data Coordination Centre.",
)


def document_notes(catalogue: Catalogue, document: DocumentReport) -> list[str]:
    """What else there is to know of a document, a few words each."""
    measurements = document.counts.get("measurements", 0)
    notes = (
        (document.place, catalogue.say("lies in the archive at {place}", place=document.place)),
        (document.held, catalogue.say("waits to be confirmed")),
        (document.confirmed, catalogue.say(WAS_CONFIRMED)),
        (document.late, catalogue.say("came after newer documents")),
        (document.repeated, catalogue.say("was taken before")),
        (document.warnings, catalogue.say_plural("one warning", "{number} warnings", document.warnings)),
        (measurements, catalogue.say_plural("one measurement", "{number} measurements", measurements)),
    )
    return [note for holds, note in notes if holds]


def attempt_sentence(catalogue: Catalogue, attempt: DownloadStory) -> str:
    """The outcome of an attempt to fetch an archive."""
    if attempt.outcome is AttemptOutcome.CANCELLED:
        return catalogue.say("It did not arrive: the session ended, or left its source alone.")
    if attempt.outcome is AttemptOutcome.ABORTED:
        return catalogue.say("The transfer broke off.")
    if attempt.status is not Status.FAILED:
        if attempt.phase is Phase.DOWNLOAD and attempt.status is not Status.DONE:
            return catalogue.say("It is under way, or was interrupted.")
        if attempt.outcome is AttemptOutcome.NOT_MODIFIED:
            return catalogue.say("It has not changed, so nothing was sent.")
        return catalogue.say("It arrived.")
    if attempt.phase > Phase.UNZIP:
        return catalogue.say("It arrived; some of its documents failed.")
    return catalogue.say("It failed: {check}.", check=catalogue.say(labels.PHASE_LABELS[attempt.phase]))


def states_sentence(report: SubmissionReport, catalogue: Catalogue) -> str:
    """How many documents passed and failed, of all of them, listed or not."""
    failed = report.documents_failed
    return catalogue.say(
        "Of all documents {failed} failed and {others} did not.",
        failed=catalogue.number(failed),
        others=catalogue.number(report.documents_total - failed),
    )


def how_often(catalogue: Catalogue, cause: Cause) -> str:
    """How often a cause was found, and in how many documents."""
    places = catalogue.say_plural("in one place", "in {number} places", cause.findings)
    if cause.documents <= 1:
        return places
    documents = catalogue.say_plural("in one document", "in {number} documents", cause.documents)
    return catalogue.list([places, documents])


def cleared(catalogue: Catalogue, cause: Cause) -> str:
    """How many of its documents and archives fail for nothing else.

    Empty for a cause without any, for one that no later archive clears, or for a warning that nobody has to act on.
    """
    if (cause.clears_by_itself and not cause.fails) or (cause.declaration is not None and cause.declaration.stays):
        return ""
    parts = []
    if cause.documents:
        texts = mark_plural("{clears} of {number} document", "{clears} of {number} documents")
        parts.append(catalogue.say_plural(*texts, cause.documents, clears=catalogue.number(cause.clears_documents)))
    if cause.zips:
        texts = mark_plural("{clears} of {number} archive", "{clears} of {number} archives")
        parts.append(catalogue.say_plural(*texts, cause.zips, clears=catalogue.number(cause.clears_zips)))
    return catalogue.list(parts)


def crawl_sentence(catalogue: Catalogue, crawl: CrawlEntry) -> str:
    """When a source was crawled, and what it had."""
    told = {"moment": catalogue.moment(crawl.started), "outcome": catalogue.say(labels.CRAWL_LABELS[crawl.outcome])}
    if crawl.outcome is CrawlOutcome.FAILED:
        return catalogue.say("Crawled on {moment}: {outcome}.", **told)
    parts = [
        catalogue.say_plural("one archive", "{number} archives", crawl.listed),
        catalogue.say_plural("one new", "{number} new", crawl.new),
        catalogue.say_plural("one known", "{number} known", crawl.known),
    ]
    for number, texts in (
        (crawl.elsewhere, mark_plural("one known from another source", "{number} known from other sources")),
        (crawl.changed, mark_plural("one changed", "{number} changed")),
        (crawl.refused, mark_plural("one refused by its name", "{number} refused by their names")),
        (crawl.ignored, mark_plural("one other entry left alone", "{number} other entries left alone")),
        (crawl.gone, mark_plural("one gone", "{number} gone")),
    ):
        if number:
            parts.append(catalogue.say_plural(*texts, number))
    return catalogue.say("Crawled on {moment}: {outcome} ({what}).", **told, what=catalogue.list(parts))


def session_outcome(catalogue: Catalogue, outcome: str) -> str:
    """The outcome of a session, in its word, and what that means."""
    return catalogue.say(
        "{outcome}: {meaning}",
        outcome=catalogue.say(labels.SESSION_LABELS[outcome]),
        meaning=catalogue.say(SESSION_MEANINGS[outcome]),
    )


def troubles_sentence(catalogue: Catalogue, report: SessionReport) -> str:
    """What needs somebody after a session, in numbers; without anything, that all is well, or its outcome."""
    noted = {section.kind: section.total for section in report.sections}
    counts = (
        (noted.get(Noted.FAILED), mark_plural("{number} failed submission", "{number} failed submissions")),
        (
            noted.get(Noted.WITHOUT_ROOM),
            mark_plural("{number} submission without room", "{number} submissions without room"),
        ),
        (report.sources_in_trouble, mark_plural("{number} file source in trouble", "{number} file sources in trouble")),
        (
            noted.get(Noted.HELD),
            mark_plural("{number} submission to be confirmed", "{number} submissions to be confirmed"),
        ),
        (noted.get(Noted.FINDINGS), mark_plural("{number} finding", "{number} findings")),
    )
    told = ", ".join(catalogue.say_plural(*texts, number) for number, texts in counts if number)
    is_well = report.outcome == EndReason.FINISHED
    return told or catalogue.say(mark("all well") if is_well else labels.SESSION_LABELS[report.outcome])


def crawl_errors(catalogue: Catalogue, report: SessionReport) -> list[str]:
    """Why sources could not be listed, a sentence each that names the source."""
    errors = []
    for source in report.sources:
        if (error := source.crawl_error) is not None:
            title, why = catalogue.tell(source.title), catalogue.tell(error.marked)
            is_named = why.casefold().startswith(title.casefold())
            errors.append(why if is_named else f"{title}: {why}")
    return errors


def sections_beside(report: SessionReport, causes: Sequence[Cause]) -> list[Section]:
    """The sections of a session without what crawls noticed that the shown `causes` tell in the same words."""
    told = {str(cause.example.message) for cause in causes}
    sections = []
    for section in report.sections:
        notes = section.notes
        if section.kind is Noted.FINDINGS:
            notes = tuple(note for note in notes if not {problem.message for problem in note.problems} <= told)
        if total := section.total - len(section.notes) + len(notes):
            sections.append(replace(section, notes=notes, total=total))
    return sections


def archives_beside(report: CentreReport | SessionReport, sections: Sequence[Section]) -> list[SubmissionLine]:
    """The archives of a summary, without those that the `sections` tell as failed."""
    told = {str(note.name) for section in sections if section.kind is Noted.FAILED for note in section.notes}
    return [line for line in report.zips if line.needs_nobody or str(line.key) not in told]


def more(catalogue: Catalogue, total: int, shown: int) -> str:
    """How many more there are than those that are shown; empty if these are all."""
    return catalogue.say_plural("... and one more", "... and {number} more", total - shown) if total > shown else ""


def note_title(catalogue: Catalogue, note: Note) -> str:
    """What a note of a session is about, and where that failed; empty if it is about neither archive nor document."""
    name = catalogue.tell(note.name)
    title = f"{name} ({note.centre})" if note.centre else name
    if note.failed_at is None:
        return f"{title}:" if title else ""
    failed = catalogue.say("{name}: failed at {phase}", name=title, phase=note.failed_at.short_name)
    counted = (
        (note.total, mark_plural("one error", "{number} errors")),
        (note.documents_total, mark_plural("in one document", "in {number} documents")),
    )
    return ", ".join([failed, *(catalogue.say_plural(*texts, number) for number, texts in counted if number)])


def problem_sentence(catalogue: Catalogue, problem: Problem) -> str:
    """A problem with its place in its document."""
    place = place_in_document(catalogue, problem.line, problem.column)
    return ": ".join(filter(None, (place, problem.rule, catalogue.tell(problem.marked))))


def place_in_document(catalogue: Catalogue, line: int | None, column: int | None) -> str:
    """A line and column, as far as they are known."""
    if line is None:
        return ""
    if column is None:
        return catalogue.say("line {line}", line=line)
    return catalogue.say("line {line}, column {column}", line=line, column=column)


def states_text(states: Sequence[StateCount]) -> str:
    """How many are in each phase and status, in the words that commands take: `xsd done 1, data failed 3`."""
    return ", ".join(f"{each.phase.short_name} {each.status.short_name} {each.count:,}" for each in states)


def statistics_sentence(catalogue: Catalogue, done: SourceStatistics) -> str:
    """What a session did with a source."""
    return catalogue.say(
        "Archives fetched: {fetched} ({size}); documents of all archives processed: {documents}; errors and findings: "
        "{findings}; archives that failed: {failed}.",
        fetched=catalogue.number(done.fetched),
        size=catalogue.size(done.bytes),
        documents=catalogue.number(done.documents),
        findings=catalogue.number(done.findings),
        failed=catalogue.number(done.failed),
    )


def functions(catalogue: Catalogue) -> dict[str, Any]:
    """What templates call, by name: the functions of a catalogue, and those here that take it first."""
    with_catalogue: tuple[Callable[..., object], ...] = (
        *(attempt_sentence, cleared, crawl_errors, crawl_sentence, document_notes, how_often, more, note_title),
        *(problem_sentence, session_outcome, statistics_sentence, troubles_sentence),
    )
    return {
        **catalogue.functions,
        "catalogue": catalogue,
        **{function.__name__: partial(function, catalogue) for function in with_catalogue},
        "states_text": states_text,
        "seconds_text": seconds_text,
    }
