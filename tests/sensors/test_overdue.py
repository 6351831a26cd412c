"""The sensor of what is overdue: its checks are made every ten minutes by the daemon, and people are told once."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from dagster import SkipReason

from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.session.session_request import SessionRequest
from dcc.tracker.register import centres
from dcc_assets.graph import CENTRE_SILENT, CRAWL_OVERDUE, SUBMISSIONS_OVERDUE
from dcc_assets.session_in_dagster import run_session
from dcc_assets.sync import overdue as shown
from dcc_sensors import notifications as watched
from dcc_sensors.notifications import overdue
from tests.sensors.conftest import CENTRE, WRANGLER
from tests.support.asking import in_writing
from tests.support.dagster_instances import Dagster, looked
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.mail_server import MailServerForTests

GOOD = "add/H.2013-10-31.1.impc.zip"

pytestmark = only_sqlite

After = Callable[[float], str]
"""Has the sensor look when so many hours have passed; what it says."""


@pytest.fixture
def after(dagster: Dagster, monkeypatch: pytest.MonkeyPatch) -> After:
    def look(hours: float) -> str:
        with monkeypatch.context() as later:
            for module in (shown, watched):
                later.setattr(module, "utc_now", lambda: utc_now() + timedelta(hours=hours))
            said = looked(overdue, dagster.instance)
        assert isinstance(said, SkipReason)
        assert said.skip_message is not None
        return said.skip_message

    return look


def told(server: MailServerForTests, to: str = WRANGLER) -> list[tuple[str, str]]:
    """The subjects and texts of what was sent since this was asked last, to this address alone."""
    found = []
    for envelope, message in server.received:
        assert envelope.rcpt_tos == [to]
        body = message.get_body(("plain",))
        assert body is not None
        found.append((str(message["Subject"]), body.get_content()))
    server.received.clear()
    return found


def crawl(installation: Installation, dagster: Dagster, until: Phase = Phase.ZIP_NAME) -> None:
    run_session(installation.settings, installation.tracker, dagster.instance, SessionRequest(until=until))


def test_a_source_that_no_session_crawls_is_told_once_and_so_is_that_one_does(
    server: MailServerForTests, installation: Installation, dagster: Dagster, after: After
) -> None:
    installation.add_folder().put(GOOD)
    crawl(installation, dagster)
    assert dagster.checks(CRAWL_OVERDUE) == {"H-1": "passed"}
    listings = dagster.instance.fetch_materializations(CRAWL_OVERDUE.asset_key, limit=10).records
    assert after(0) == "The checks are up to date."
    assert told(server) == []
    after(25)
    # The page of the source goes on showing what was listed.
    assert dagster.instance.fetch_materializations(CRAWL_OVERDUE.asset_key, limit=10).records == listings
    assert dagster.checks(CRAWL_OVERDUE) == {"H-1": "failed"}
    evaluation = dagster.evaluation(CRAWL_OVERDUE, "H-1")
    assert (evaluation.severity.value, evaluation.metadata["hours"].value) == ("ERROR", 25)
    assert "dcc doctor" in evaluation.metadata["What to do"].value
    ((subject, text),) = told(server)
    assert subject == "DCC: Outage: the check crawl_overdue of H-1"
    assert "It was last listed as a whole" in text
    assert "Who acts: DCC." in text
    assert "dcc crawl" in text
    for hours in (25, 26, 50):
        after(hours)
    assert told(server) == []
    crawl(installation, dagster)
    assert dagster.checks(CRAWL_OVERDUE) == {"H-1": "passed"}
    after(0)
    after(0)
    assert [subject for subject, _ in told(server)] == ["DCC: Back to normal: the check crawl_overdue of H-1"]
    after(51)
    assert [subject for subject, _ in told(server)] == ["DCC: Outage: the check crawl_overdue of H-1"]


def test_silent_centres_and_what_is_not_through_are_told_with_who_acts(
    server: MailServerForTests, installation: Installation, dagster: Dagster, after: After
) -> None:
    folder = installation.add_folder()
    folder.put(GOOD)
    crawl(installation, dagster)
    assert dagster.checks(CENTRE_SILENT) == {"H": "passed"}
    after(31 * 24)
    evaluation = dagster.evaluation(CENTRE_SILENT, "H")
    assert (evaluation.severity.value, evaluation.metadata["days"].value) == ("WARN", 31)
    assert (dagster.checks(CENTRE_SILENT), dagster.checks(SUBMISSIONS_OVERDUE)) == ({"H": "failed"}, {"H": "failed"})
    ((subject, text),) = told(server)
    assert "2 more changes" in subject
    assert "H has submitted its last new archive" in text
    assert "Archives of H that are older than DCC_OVERDUE_DAYS (3): 1 waiting" in text
    assert text.count("Who acts: DCC. ") == 3
    folder.put("add/H.2013-11-30.1.impc.zip")
    crawl(installation, dagster)
    assert dagster.checks(CENTRE_SILENT) == {"H": "passed"}


def test_what_is_overdue_is_told_in_the_language_of_the_installation(
    server: MailServerForTests,
    installation: Installation,
    dagster: Dagster,
    after: After,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DCC_LANGUAGE", "de")
    installation.add_folder().put(GOOD)
    crawl(installation, dagster)
    after(25)
    ((subject, text),) = told(server)
    assert subject == "DCC: Ausfall: die Prüfung crawl_overdue von H-1"
    after(31 * 24)
    ((_, later),) = told(server)
    for said in (text, later):
        for english in ("the check", "Who acts", "last listed", "has submitted", "older than", "See its", "Ask the"):
            assert english not in said
    assert "Wer handelt: DCC." in later


def test_a_centre_is_reminded_once_of_what_it_is_to_correct(
    server: MailServerForTests,
    installation: Installation,
    dagster: Dagster,
    after: After,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DCC_NOTIFY_TO", "")
    monkeypatch.setenv("DCC_NOTIFY_CENTRES", "true")
    monkeypatch.setenv("DCC_UNTIL", "xsd")
    in_writing(installation.tracker, centres.change_centre, "H", email=CENTRE, language="de")
    folder = installation.add_folder()
    folder.put(GOOD, b"no archive")
    crawl(installation, dagster, Phase.XSD)
    after(0)
    server.received.clear()
    after(71)
    assert told(server, CENTRE) == []
    after(73)
    ((subject, text),) = told(server, CENTRE)
    assert subject == "DCC: H: 1 Archiv wartet noch auf seine Korrektur"
    assert GOOD in text
    assert "neuen Archiv" in text
    for hours in (74, 120):
        after(hours)
    assert told(server, CENTRE) == []
    (folder.path / GOOD).unlink()
    crawl(installation, dagster, Phase.XSD)
    after(121)
    folder.put("add/H.2013-10-31.2.impc.zip", b"no archive either")
    crawl(installation, dagster, Phase.XSD)
    after(0)
    server.received.clear()
    after(200)
    assert [subject for subject, _ in told(server, CENTRE)] == [subject]
