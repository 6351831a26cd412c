"""Reports in German hold no English but names and values, whatever became of a submission."""

import re

import pytest

from dcc.reports.submissions.collecting import collect_centre, collect_session
from dcc.reports.submissions.model import SubmissionReport
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.tracker.crawls import list_sessions
from tests.reports.test_submission_reports import OUTCOMES
from tests.support.report_pages import Page
from tests.support.submission_world import Desk

ENGLISH = re.compile(
    r"\b(?:the|is|are|of|not|and|with|which|that|than|it|no|has|there|were|be|been|from|by|for|this|have|what|to|or)\b",
    re.IGNORECASE,
)
VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`|„[^“]*“|<[^>]*>|\S*[/@_.]\S*|dcc [a-z]+ \S+|Centre [HJ]")


def english_in(text: str) -> list[str]:
    """The English words of a text, each with what is around it."""
    bare = VALUES.sub("¤", text)
    return [bare[max(0, found.start() - 60) : found.end() + 40] for found in ENGLISH.finditer(bare)]


def all_of(desk: Desk, report: object) -> str:
    """A report as a page, with the words for its pictures, and as plain text, in German."""
    german = desk.catalogue("de")
    page = Page(render_html(report, german, desk.data.settings))  # type: ignore[arg-type]
    pictures = " ".join(page.all("//img/@alt"))
    return f"{page.text} {pictures} {render_text(report, german)}"  # type: ignore[arg-type]


@pytest.mark.parametrize("key", OUTCOMES)
def test_a_report_in_german_holds_no_english(submission_desk: Desk, key: str) -> None:
    report: SubmissionReport = submission_desk.report(key)
    assert english_in(all_of(submission_desk, report)) == []


def test_summaries_in_german_hold_no_english(submission_desk: Desk) -> None:
    desk = submission_desk
    german, settings = desk.catalogue("de"), desk.data.settings
    centre = collect_centre(desk.tracker, desk.qc, "H", settings, catalogue=german)
    assert english_in(all_of(desk, centre)) == []
    (session, *_) = list_sessions(desk.tracker, limit=1)
    shown = collect_session(desk.tracker, desk.qc, session.id, settings)
    assert english_in(all_of(desk, shown)) == []
