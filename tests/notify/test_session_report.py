"""The report of a session: what it says to a wrangler, and how it is sent."""

import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from dcc.cli.demo import submissions
from dcc.errors import ConfigurationError, NotFoundError
from dcc.notify.session_report import send_session_report
from dcc.operations.session_work import open_session
from dcc.reports.submissions.collecting import collect_session
from dcc.reports.submissions.model import Tone
from dcc.runtime.clock import utc_now
from dcc.settings import load_settings
from dcc.sources.crawl_policy import Pause
from dcc.tracker.crawls import list_sessions
from dcc.tracker.register.file_sources import change_source
from dcc.tracker.register.source_schedules import set_pause
from tests.support.asking import in_reading, in_writing
from tests.support.data_installations import DataInstallation, experiments
from tests.support.data_installations import specimens as data_specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, Installation, specimens, until_the_next_second
from tests.support.mail_server import PASSWORD, QUOTED, Starter
from tests.support.ports import free_port
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_installations import begun_installation
from tests.support.servers import Authority
from tests.support.session_reports import session_report

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")

TO = "wrangler@dcc.example, head@dcc.example"


def one_line(text: str) -> str:
    """The text without its line breaks and indents."""
    return " ".join(text.split())


@dataclass
class Troubled:
    """A session with one zip that is valid and others that are not."""

    installation: Installation
    folder: Folder
    session: int
    other_source: int


@pytest.fixture(scope="module")
def troubled(prepared_files: dict[str, PreparedFile], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """One for all tests, on SQLite: they tell of its session, whatever came after it."""
    data = begun_installation(tmp_path_factory.mktemp("troubled"), prepared_files)
    installation, folder = data.base, data.folder
    broken = next(iter(specimens("H", "2013-10-31.3").items()))
    gone = installation.add_folder("J", "gone")
    folder.put("add/H.2013-10-31.1.impc.zip")
    folder.put("add/H.2013-10-31.2.impc.zip", b"PK no archive")
    document = broken[1].replace(b"gender=", b"sex=")
    assert document != broken[1]
    folder.put("edit/H.2013-10-31.3.impc.zip", submissions.archive({broken[0]: document}))
    folder.put("add/copy of H.impc.zip")
    shutil.rmtree(gone.path)
    result = installation.run_session()
    yield Troubled(installation, folder, result.id, gone.source_id)
    data.tracker.dispose()
    data.qc.dispose()


def test_the_report_gives_a_wrangler_every_reason(troubled: Troubled) -> None:
    report = in_reading(troubled.installation.tracker, session_report, troubled.session)
    text = one_line(report.text)
    assert report.subject == f"DCC session {troubled.session}: 3 failed submissions, 1 file source in trouble"
    assert text.startswith(f"Session {troubled.session}, ")
    assert (
        "UTC: faults: a source, a server or the platform kept it from a part of its work 3 failed submissions" in text
    )
    assert "listed (4 archives, 3 new, 0 known and one refused by its name)" in text
    assert f"Source {troubled.folder.source_id} (H, file://localhost{troubled.folder.path}): Crawled on " in text
    assert f"file source {troubled.other_source} (J, file://localhost): the folder" in text
    assert text.index(f"file source {troubled.other_source} (J, ") < text.index("Archives: "), "first of all"
    assert "Failed: Crawl of" not in text, "why it failed is told already"
    assert "cannot be reached (No such file or directory)" in text
    assert "Archives: zip_name failed 1, unzip failed 1, xsd done 1, xsd failed 1" in text
    assert "Documents: xsd done 1, xsd failed 1" in text
    assert "add/H.2013-10-31.2.impc.zip (H, Centre H): failed at unzip" in text
    assert "edit/H.2013-10-31.3.impc.zip (H, Centre H): failed at xsd" in text
    assert "H.2013-10-31.3.specimen.impc.xml: failed at xsd" in text
    assert 'line 4, column 5: Element <mouse> may not have the attribute "sex".' in text
    assert "... and one more" in text
    assert "add/copy of H.impc.zip (H, Centre H): failed at zip_name" in text
    assert "does not follow <centre>.<yyyy-mm-dd>.<number>.impc.zip" in text
    before, _, after = text.partition("The other archives")
    assert "add/H.2013-10-31.1.impc.zip" not in before
    assert "edit/H.2013-10-31.3.impc.zip" not in after, "what failed is told once"
    parts = (
        "3 failed submissions",
        "What to correct",
        "What failed",
        "The other archives",
        "The sources",
        "How it went",
    )
    assert sorted(parts, key=text.index) == list(parts), "what needs somebody comes first"
    assert max(len(line) for line in report.text.splitlines()) <= 120
    with troubled.installation.tracker.connect() as connection, pytest.raises(NotFoundError, match="dcc session list"):
        session_report(connection, troubled.session + 1)


def test_the_report_tells_of_data_that_fail_that_are_held_and_that_came_late(data: DataInstallation) -> None:
    """What is held and late is reported; a warning is no error."""
    careful = data.with_settings(hold_threshold=2)
    careful.run("add/H.2013-11-01.1.impc.zip", data_specimens("2013-11-01.1"))
    edit, late = "edit/H.2013-11-02.1.impc.zip", "add/H.2013-10-30.1.impc.zip"
    careful.put(edit, data_specimens("2013-11-02.1"))
    careful.put(late, data_specimens("2013-10-30.1", first=101))
    careful.run("add/H.2013-11-03.1.impc.zip", experiments("2013-11-03.1", animals=1, first=201))
    session = in_reading(careful.tracker, list_sessions)[0].id
    report = in_reading(careful.tracker, session_report, session)
    text = one_line(report.text)
    assert report.subject == f"DCC session {session}: 1 failed submission, 1 submission to be confirmed"
    assert "H.2013-11-03.1.experiment.impc.xml: failed at data, one error line 4: E4: The specimen" in text
    waits = text.partition("Documents to be confirmed")[2].partition("Documents that came late")[0]
    assert edit in waits
    assert "It would replace or remove 3 specimens" in waits
    assert f"dcc data confirm {edit}" in waits
    came_late = text.partition("Documents that came late")[2].partition("The other archives")[0]
    assert late in came_late
    assert "one of 2013-11-01 of the same centre was uploaded before it" in came_late
    assert edit not in came_late


@only_sqlite
def test_a_session_without_anything_amiss_says_so(installation: Installation) -> None:
    installation.add_folder().put("add/H.2013-10-31.1.impc.zip")
    session = installation.run_session().id
    report = in_reading(installation.tracker, session_report, session)
    assert report.subject == f"DCC session {session}: all well"
    assert "UTC: finished: all its work was done, whatever was wrong with the data all well" in one_line(report.text)
    # One of two sources in trouble is enough for a warning.
    shutil.rmtree(installation.add_folder("J", "gone").path)
    sessions = [session, installation.run_session().id]
    seen = [in_reading(installation.tracker, collect_session, None, one, installation.settings) for one in sessions]
    assert [one.tone for one in seen] == [Tone.WAIT, Tone.WARN]


@only_sqlite
def test_what_a_crawl_noticed_is_told_once_and_counted_still(installation: Installation) -> None:
    installation.add_folder().put("add/H.2099-10-31.1.impc.zip")
    session = installation.run_session().id
    report = in_reading(installation.tracker, session_report, session)
    assert report.subject == f"DCC session {session}: 1 finding"
    assert one_line(report.text).count("which is in the future") == 1


@only_sqlite
def test_the_report_of_an_earlier_session_does_not_tell_what_is_now(installation: Installation) -> None:
    installation.add_folder().put("add/H.2013-10-31.1.impc.zip", b"PK no archive")
    paused = installation.add_folder("J", "paused").source_id
    pause = Pause("a move", "ann", utc_now(), None)
    in_writing(installation.tracker, set_pause, paused, pause)
    in_writing(installation.tracker, change_source, installation.add_folder("J", "rare").source_id, every="6h")
    sessions = [installation.run_session().id for _ in range(2)]
    texts = [one_line(in_reading(installation.tracker, session_report, session).text) for session in sessions]
    assert ["Sources that are left alone" in text for text in texts] == [False, True]
    assert f"file source {paused} (J, file://localhost):" in texts[1], "commands take its number"
    assert "Sources that were listed not long ago: 1." in texts[1]
    sources = [text.partition("The sources")[2] for text in texts]
    assert [source.count("add/H.2013-10-31.1.impc.zip") for source in sources] == [0, 0], "it failed in the first alone"


@only_sqlite
def test_what_centres_wrote_cannot_steer_a_terminal_or_forge_lines(installation: Installation) -> None:
    document = next(iter(specimens().items()))
    text = document[1].replace(b'gender="', b'gender="&#x9b;31m&#10;Subject: x ', 1)
    installation.add_folder().put("add/H.2013-10-31.1.impc.zip", {document[0]: text})
    session = installation.run_session().id
    report = in_reading(installation.tracker, session_report, session)
    assert "failed at xsd" in report.text
    assert not [c for c in report.text if not c.isprintable() and c != "\n"]
    assert not [line for line in report.text.splitlines() if line.startswith("Subject:")]


def sent(troubled: Troubled, **settings: object) -> list[str]:
    changes = {"report_to": TO, "report_from": "dcc@dcc.example", "connect_timeout": 3.0, **settings}
    changes["smtp_url"] = SecretStr(str(changes.get("smtp_url", "smtp://localhost")))
    installation = troubled.installation.with_settings(**changes)
    return send_session_report(installation.tracker, installation.settings, troubled.session)


@pytest.mark.parametrize("from_the_start", [True, False])
def test_it_is_sent_encrypted_with_a_login(
    troubled: Troubled, mail_server: Starter, authority: Authority, from_the_start: bool
) -> None:
    server = mail_server(authority.issue(), from_the_start=from_the_start, login=True)
    scheme = "smtps" if from_the_start else "smtp"
    url = f"{scheme}://dcc:{QUOTED}@127.0.0.1:{server.port}"
    (said,) = sent(troubled, smtp_url=url, tls_ca_file=authority.ca_file)
    assert "was sent by e-mail" in said
    assert (server.logins, server.encrypted) == ([("dcc", PASSWORD)], [True])
    (said,) = sent(troubled, smtp_url=url)
    assert "could not be verified" in said
    assert "DCC_TLS_CA_FILE" in said
    assert len(server.received) == 1


def test_a_refused_login_is_told_without_the_password_which_no_other_machine_gets_unencrypted(
    troubled: Troubled, mail_server: Starter, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = mail_server(login=True)
    url = f"smtp://dcc:{QUOTED}x@127.0.0.1:{server.port}"
    with caplog.at_level(logging.DEBUG):
        (said,) = sent(troubled, smtp_url=url)
    assert set(server.logins) == {("dcc", PASSWORD + "x")}
    assert said.startswith(f"The report was not sent: the mail server smtp://127.0.0.1:{server.port} refused the login")
    assert "not ***" in said
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("dcc")]
    assert said in logged[-1]
    for text in (said, *logged):
        assert PASSWORD not in text
        assert QUOTED not in text
    server.logins.clear()
    monkeypatch.setattr("dcc.notify.channels.mail.is_loopback", lambda _: False)
    (said,) = sent(troubled, smtp_url=url)
    assert "offers no encryption" in said
    assert server.logins == []


def test_the_report_is_sent_by_e_mail_and_refused_recipients_are_named(
    troubled: Troubled, mail_server: Starter
) -> None:
    server = mail_server()
    url = f"smtp://127.0.0.1:{server.port}"
    (said,) = sent(troubled, smtp_url=url)
    assert said == f"The report of session {troubled.session} was sent by e-mail to {TO} ({url})."
    server.refuse = "head@dcc.example"
    (said,) = sent(troubled, smtp_url=url)
    assert "refused head@dcc.example; the report was sent to wrangler@dcc.example. Correct" in said
    assert [envelope.rcpt_tos for envelope, _ in server.received] == [TO.split(", "), ["wrangler@dcc.example"]]
    (envelope, message), _ = server.received
    assert envelope.mail_from == "dcc@dcc.example"
    assert message["Subject"] == f"DCC session {troubled.session}: 3 failed submissions, 1 file source in trouble"
    assert (message["Auto-Submitted"], bool(message["Date"] and message["Message-ID"])) == ("auto-generated", True)
    assert "edit/H.2013-10-31.3.impc.zip (H, Centre H): failed at xsd" in one_line(message.get_content())
    (said,) = sent(troubled, smtp_url=url, report_to="head@dcc.example")
    assert "head@dcc.example: no such user here" in said or "550" in said


def test_a_mail_server_that_is_down_gives_one_clear_warning_and_the_other_channels_work(
    troubled: Troubled, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    url = f"smtp://dcc:{QUOTED}@127.0.0.1:{port}"
    directory = tmp_path / "reports" / "new"
    said = sent(troubled, smtp_url=url, report_directory=directory)
    path = directory / f"session-{troubled.session:06}.txt"
    assert said == [
        f"The report of session {troubled.session} was written to {path}.",
        f"The report was not sent: the mail server smtp://127.0.0.1:{port} could not be reached (Connection refused). "
        "Check DCC_SMTP_URL, DCC_REPORT_TO and DCC_REPORT_FROM, and that the server is up.",
    ]
    assert [record.levelname for record in caplog.records if "mail server" in record.getMessage()] == ["WARNING"]
    assert list(directory.iterdir()) == [path]
    assert path.read_text("utf-8").startswith(f"DCC session {troubled.session}: 3 failed")
    (refused,) = sent(troubled, report_to="", report_directory=path)
    assert "could not be written" in refused
    assert "DCC_REPORT_DIRECTORY" in refused


def test_no_report_is_sent_by_default_or_of_quiet_sessions_unless_wanted(troubled: Troubled, tmp_path: Path) -> None:
    assert sent(troubled, report_to="") == []
    quiet = troubled.installation.with_settings(report_directory=tmp_path / "reports", report_quiet_sessions=False)
    assert len(send_session_report(quiet.tracker, quiet.settings, troubled.session)) == 1
    until_the_next_second()
    session = quiet.run_session([troubled.folder.source_id]).id
    assert send_session_report(quiet.tracker, quiet.settings, session) == []
    wanted = quiet.with_settings(report_quiet_sessions=True)
    assert len(send_session_report(wanted.tracker, wanted.settings, session)) == 1


@only_sqlite
def test_a_session_that_nobody_went_on_with_gets_its_report_from_the_next_one(
    installation: Installation, tmp_path: Path
) -> None:
    reporting = installation.with_settings(report_directory=tmp_path / "reports", report_quiet_sessions=True)
    reports = []
    for _ in range(3):
        with open_session(reporting.tracker, reporting.settings) as session:
            session.hand_over()
        reports.append(sorted(path.name for path in (tmp_path / "reports").glob("*")))
    assert reports == [[], ["session-000001.txt"], ["session-000001.txt", "session-000002.txt"]]


def test_settings_that_cannot_serve_are_refused_without_showing_the_password() -> None:
    for changes, problem in (
        ({"report_to": "wrangler"}, "DCC_REPORT_TO.*'wrangler' is no e-mail address"),
        ({"report_to": "a@b\r\nBcc: c@d", "smtp_url": "smtp://h"}, "DCC_REPORT_TO"),
        ({"report_from": "a@b, c@d"}, "DCC_REPORT_FROM"),
        ({"smtp_url": f"http://dcc:{QUOTED}@host"}, "DCC_SMTP_URL.*neither smtp://"),
        ({"smtp_url": "smtp://dcc@host"}, "DCC_SMTP_URL.*without a password"),
        ({"smtp_url": f"smtp://dcc:{QUOTED}@host/path"}, "DCC_SMTP_URL"),
        ({"smtp_url": f"smtp://dcc:%C3%BC{QUOTED}@host"}, "DCC_SMTP_URL.*ASCII"),
    ):
        with pytest.raises(ConfigurationError, match=problem) as failure:
            load_settings(**changes)
        assert PASSWORD not in str(failure.value)
        assert QUOTED not in str(failure.value)
