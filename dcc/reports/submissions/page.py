"""A report as one self-contained HTML page: no script, nothing from the network, readable on paper and on a phone."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.replay.verdicts import Replay
from dcc.reports.causes.cause import ACTOR_SENTENCES
from dcc.reports.languages import Catalogue
from dcc.reports.submissions import labels, sentences
from dcc.reports.submissions.model import (
    MAX_HOSTS,
    MAX_PERMITTED,
    MAX_PICTURE_BYTES,
    MAX_REASONS,
    Report,
    SessionReport,
    SubmissionReport,
    shortened,
)
from dcc.reports.submissions.templates import render
from dcc.runtime.clock import utc_now
from dcc.settings import Settings

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause
    from dcc.reports.plots.picture import Picture

_STYLE: Final = "reports/style.css"
_ONLY_WHERE_ANY: Final = ("animal_faulty", "refused", "unchecked", "superseded", "ended")
"""Columns of what was accepted that are shown where they hold more than noughts."""
_MAX_LINES: Final = 500
_SIGNS: Final = {"good": "✓", "wait": "…", "warn": "!", "bad": "✗"}


class Image(NamedTuple):
    """A picture in the page; sizes in pixels of CSS."""

    title: str
    caption: str
    alt: str
    source: Markup
    width: int
    height: int


class PageLocation(NamedTuple):
    """Where a page is served beside others: the address of the list of them, and of its findings as a spreadsheet."""

    home: str
    spreadsheet: str | None = None


class Images(NamedTuple):
    """The pictures of a page, the rules by which values are marked in them, each once, and how many were left out since
    the page would be too large.
    """

    shown: Sequence[Image]
    rules: Sequence[str]
    left_out: int


def render_html(
    report: Report,
    catalogue: Catalogue,
    settings: Settings,
    *,
    link_of_submission: Callable[[SubmissionKey], str] | None = None,
    link_of_document: Callable[[SubmissionKey, str], str] | None = None,
    place: PageLocation | None = None,
) -> str:
    """The page of a report in the language of a catalogue.

    `link_of_submission` tells the path of the page of a submission, and `link_of_document` that of a document's XML by
    its name. These and `place` are for pages that are served beside others.

    A DCC's own templates are taken from the directory that `settings` name (DCC_TEMPLATES_DIRECTORY). Raises
    ConfigurationError when one of them cannot be used.
    """
    values: dict[str, Any] = {
        **report_values(report, report.causes, catalogue, link_of_submission),
        **common_values(catalogue, settings, place=place),
        "signs": _SIGNS,
        "most_reasons": MAX_REASONS,
        "action_words": labels.ACTION_LABELS,
        "phase_words": labels.PHASE_LABELS,
        "phase_meanings": labels.PHASE_MEANINGS,
        "standing_words": labels.STANDING_LABELS,
        "standing_signs": labels.STANDING_SIGNS,
        "kind_words": labels.KIND_LABELS,
        "context_words": labels.CONTEXT_LABELS,
        "actor_words": {actor.value: sentence for actor, sentence in ACTOR_SENTENCES.items()},
        "not_taken_reason": lambda row: row.reason(catalogue),
        "link_of_document": link_of_document,
        "images": images_of(() if isinstance(report, SessionReport) else report.pictures),
    }
    return render(f"reports/{report.kind}.html", values, own=settings.templates_directory)


def render_replay(replay: Replay, catalogue: Catalogue, settings: Settings) -> str:
    """The page of a replay. Raises ConfigurationError as `render_html`."""
    values = {
        **common_values(catalogue, settings),
        "report": {"made": utc_now()},
        "replay": replay,
        "causes": replay.causes,
        "changes": sorted(replay.changes, key=lambda one: not one.is_verdict),
        "most": _MAX_LINES,
    }
    return render("reports/replay.html", values, own=settings.templates_directory)


def common_values(
    catalogue: Catalogue,
    settings: Settings,
    *,
    place: PageLocation | None = None,
    more_style: str = "",
    form_action: str = "'none'",
) -> dict[str, Any]:
    """What every page needs; with `more_style`, and where its forms may lead as a source of its security policy."""
    style = render(_STYLE, {}, own=settings.templates_directory).replace("</", "<\\/") + more_style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # A page may load its own style, known by its checksum, and pictures that are in it.
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    return {
        **sentences.functions(catalogue),
        "environment": settings.environment,
        "language": catalogue.tag,
        "direction": catalogue.direction,
        "style": Markup(style),  # noqa: S704
        "content_security_policy": f"{policy}; form-action {form_action}",
        "shortened": shortened,
        "place": place,
    }


def cause_values(
    causes: Sequence[Cause],
    catalogue: Catalogue,
    link_of_submission: Callable[[SubmissionKey], str] | None,
    *,
    contacts: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the parts of a page that show causes need; with `contacts` of centres, they are for wranglers."""

    def link_of_example(cause: Cause) -> str | None:
        action, _, file_name = (cause.example.zip or "").partition("/")
        if link_of_submission is None or not file_name or action not in set(Action):
            return None
        return link_of_submission(SubmissionKey(Action(action), file_name))

    return {
        **sentences.functions(catalogue),
        "title_of_failing": sentences.WHAT_TO_CORRECT,
        "is_acknowledged": False,
        "failing": [cause for cause in causes if cause.fails and not cause.clears_by_itself],
        "clearing": [cause for cause in causes if cause.fails and cause.clears_by_itself],
        "warning": [cause for cause in causes if not cause.fails],
        "most_permitted": MAX_PERMITTED,
        "contacts": contacts,
        "link_of_submission": link_of_submission,
        "link_of_example": link_of_example,
    }


def report_values(
    report: Report,
    causes: Sequence[Cause],
    catalogue: Catalogue,
    link_of_submission: Callable[[SubmissionKey], str] | None = None,
) -> dict[str, Any]:
    """What a page or text on a report needs that shows these causes."""
    contacts: Mapping[str, str] | None = {} if report.is_for_wranglers else None
    values = {
        **cause_values(causes, catalogue, link_of_submission, contacts=contacts),
        "report": report,
        "outcome_words": labels.OUTCOME_TEXTS,
        "tone_words": labels.TONE_LABELS,
        "section_titles": labels.SECTION_TITLES,
        "sections": sentences.sections_beside(report, causes) if isinstance(report, SessionReport) else [],
        "deletes": False,
    }
    return values | _submission_values(report, catalogue) if isinstance(report, SubmissionReport) else values


def _submission_values(report: SubmissionReport, catalogue: Catalogue) -> dict[str, Any]:
    entities = () if report.accepted is None else report.accepted.entities
    deletes = report.key.action is Action.DELETE
    told = {name: any(getattr(entity, name) for entity in entities) for name in _ONLY_WHERE_ANY}
    return {
        "words": sentences.outcome_text(report),
        "title_of_failing": sentences.title_of_failing(report),
        "is_acknowledged": sentences.is_acknowledged(report),
        "who_acts": sentences.who_acts_on(report, catalogue),
        "next_sentences": sentences.next_sentences(report),
        "whole_reasons": sentences.whole_reasons(report),
        "deletes": deletes,
        "notes": sentences.notes(report, catalogue),
        "hosts": report.hosts[:MAX_HOSTS],
        "told": {**told, "ended": deletes or told["ended"]},
        "shown_phases": sentences.SHOWN_PHASES,
        "shown_steps": sentences.shown_steps,
        "unlisted_states": sentences.states_sentence(report, catalogue),
    }


def images_of(pictures: Sequence[Picture]) -> Images:
    """Pictures as a page has them in itself, as many as are not too large."""
    shown: list[Image] = []
    rules: dict[str, None] = {}
    left = MAX_PICTURE_BYTES
    for picture in pictures:
        source = f"data:image/svg+xml;base64,{base64.b64encode(picture.svg.encode()).decode()}"
        if len(source) > left:
            continue
        left -= len(source)
        width, height = (round(inches * 96) for inches in picture.size)
        shown.append(Image(picture.title, picture.caption, picture.alt, Markup(source), width, height))  # noqa: S704
        if picture.rule:
            rules[picture.rule] = None
    return Images(shown, list(rules), len(pictures) - len(shown))
