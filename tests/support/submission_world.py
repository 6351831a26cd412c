"""An installation with a submission in every state that a report may be asked of.

`submission_desk` is one that all tests of a run share, to be read only.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from dcc.cli.demo import submissions
from dcc.qc.models import DOCUMENT
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.json_form import report_as_json
from dcc.reports.submissions.model import Report, SubmissionReport
from dcc.reports.submissions.page import render_html
from tests.support.asking import column_in, execute_in
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.prepared_installations import PreparedInstallations, opened_installation
from tests.support.report_pages import Page

NAME_REFUSED = "add/H.2013-02-31.1.impc.zip"
HOSTILE = "add/<script>alert(1)<script>\u202e'\".impc.zip"
CHECKSUM_WRONG = "add/H.2013-11-01.1.impc.zip"
UNREADABLE = "add/H.2013-11-01.2.impc.zip"
PARTLY_VALID = "add/H.2013-11-01.3.impc.zip"
GOOD = "add/H.2013-10-31.1.impc.zip"
WITH_FINDINGS = "add/H.2013-11-02.1.impc.zip"
REPEATED = "add/H.2013-11-03.1.impc.zip"
LATE = "add/H.2013-10-30.1.impc.zip"
HELD = "edit/H.2013-11-05.1.impc.zip"
WITHDRAWN = "add/H.2013-11-06.1.impc.zip"
DONE = "add/H.2013-10-29.1.impc.zip"
NOT_ARRIVED = "add/H.2013-11-07.1.impc.zip"
HOLD_THRESHOLD = 2
HOSTILE_COLONY = "<img src=x onerror=alert(1)>\u202e"


def wrong_form(stem: str, *, first: int = 50, mice: int = 3) -> dict[str, bytes]:
    """A specimen document whose animals have an attribute that the schema does not know."""
    ((name, document),) = specimens(stem, first=first, mice=mice).items()
    return {name: document.replace(b"gender=", b"sex=")}


def unknown_colony(stem: str, first: int, mice: int = 3) -> dict[str, bytes]:
    """A specimen document with animals of a colony that nobody registered, whose name is hostile."""
    ((name, document),) = specimens(stem, first=first, mice=mice).items()
    escaped = HOSTILE_COLONY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode()
    before, colony, after = document.partition(b'colonyID="')
    assert colony
    return {name: before + colony + escaped + b'"' + after.partition(b'"')[2]}


def submit_first(data: DataInstallation) -> None:
    """Have it receive a submission that is in order, one in part, one with findings, one whose name is refused."""
    data.put(GOOD, specimens(), experiments())
    data.put(PARTLY_VALID, wrong_form("2013-11-01.3"), specimens("2013-11-01.4", first=60))
    data.put(WITH_FINDINGS, unknown_colony("2013-11-02.1", 70), experiments("2013-11-02.1", first=70, animals=5))
    data.folder.put(NAME_REFUSED, b"PK")
    data.run()


def populate(data: DataInstallation) -> DataInstallation:
    """Have it receive a submission of every kind, in several sessions; returns it with the settings that this took."""
    careful = data.with_settings(hold_threshold=HOLD_THRESHOLD)
    careful.put(DONE, specimens("2013-10-29.1", first=200))
    careful.put(WITHDRAWN, specimens("2013-11-06.1", first=90))
    careful.folder.put(HOSTILE, b"PK")
    careful.folder.put(UNREADABLE, b"PK no archive")
    content = careful.folder.put(CHECKSUM_WRONG, submissions.archive(specimens("2013-11-01.1", first=100)))
    md5 = hashlib.md5(content + b"other", usedforsecurity=False).hexdigest()
    (careful.folder.path / f"{CHECKSUM_WRONG}.md5").write_text(f"{md5}  {CHECKSUM_WRONG.partition('/')[2]}\n")
    submit_first(careful)
    careful.put(REPEATED, specimens("2013-11-03.1", first=120))
    careful.put(LATE, specimens("2013-10-30.1", first=130))
    careful.run(HELD, specimens("2013-11-05.1"))
    careful.base.process_again(REPEATED)
    # As it is when it is processed again later: times are kept to the second.
    _applied_earlier(careful, REPEATED)
    careful.take_up()
    who = {"author": "someone", "reason": "the wrong plate"}
    careful.withdraw(WITHDRAWN, **who)
    careful.put(NOT_ARRIVED, specimens("2013-11-07.1", first=140))
    careful.base.crawl()
    (careful.folder.path / NOT_ARRIVED).unlink()
    careful.base.run_session(crawl=False)
    return careful


def _applied_earlier(data: DataInstallation, key: str) -> None:
    mine = (DOCUMENT.c.zip_file == key.partition("/")[2]) & (DOCUMENT.c.applied_at.is_not(None))
    (applied,) = column_in(data.qc, select(DOCUMENT.c.applied_at).where(mine))
    execute_in(data.qc, update(DOCUMENT).where(mine).values(applied_at=applied - timedelta(hours=1)))


@dataclass
class Desk:
    """An installation with submissions of every kind, and connections to ask about them."""

    data: DataInstallation
    tracker: Connection
    qc: Connection

    def catalogue(self, language: str = "en") -> Catalogue:
        return load_catalogue(language, self.data.settings)

    def report(self, key: str) -> SubmissionReport:
        """What is collected of a zip action, without pictures."""
        return collect_submission(self.tracker, self.qc, key_of(key), self.data.settings)

    def page(self, key: str) -> Page:
        return self.page_of(self.report(key))

    def page_of(self, report: Report) -> Page:
        return Page(render_html(report, self.catalogue(), self.data.settings))

    def json(self, report: Report) -> dict[str, Any]:
        """The report as a program reads it."""
        shown = json.loads(json.dumps(report_as_json(report, self.catalogue())))
        assert isinstance(shown, dict)
        return shown


@pytest.fixture(scope="session")
def submission_desk(prepared_installations: PreparedInstallations) -> Iterator[Desk]:
    data = opened_installation(prepared_installations.root_of(populate)).with_settings(hold_threshold=HOLD_THRESHOLD)
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        yield Desk(data, tracker, qc)
    data.close()
