"""Notifications: who is told what after a session, once, in which words."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from unittest.mock import Mock

import pytest
from pydantic import SecretStr
from sqlalchemy import select, update

from dcc.errors import NotificationNotSentError, TrackerUnreachableError
from dcc.naming import Action
from dcc.notify import rounds
from dcc.notify.channels.mail import MailChannel
from dcc.notify.channels.open_channels import OpenedChannels, notifies
from dcc.notify.composer import Composer
from dcc.notify.digests import collect_digests
from dcc.notify.ledger import Ledger
from dcc.notify.messages import Attachment, Audience, NewsItem, NewsKind, Notification
from dcc.notify.notifications import notify_due, notify_session, notify_tracker_outage, plan
from dcc.notify.rounds import Round
from dcc.operations.doctor.notifications import examine_notifications
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.redaction import keep_secret
from dcc.reports.submissions.model import Outcome
from dcc.runtime.clock import utc_now
from dcc.sources.folder import LocalConnection
from dcc.tracker.hostings.foreign_archives import accept_archive, decline_archive
from dcc.tracker.hostings.owner_notices import NewNotice, NoticeOutcome, add_notices
from dcc.tracker.models import CrawlingSession, SessionLock, ZipAction
from dcc.tracker.register import centres, file_sources
from dcc.vocabulary import DeltaStrategy
from tests.support.asking import execute_in, in_reading, in_writing, value_in
from tests.support.databases import only_sqlite
from tests.support.installations import MODIFIED, Folder, Installation, note_uploaded, specimens, until_the_next_second
from tests.support.mail_server import MailServerForTests, Starter
from tests.support.ports import free_port
from tests.support.raising import raising
from tests.support.sent_statements import sent_statements
from tests.support.session_reports import session_report

WRANGLER = "wrangler@dcc.example"
CENTRE = "data@h.example"
BAD, GOOD = "edit/H.2013-10-31.3.impc.zip", "add/H.2013-10-31.1.impc.zip"
pytestmark = only_sqlite


def broken(stem: str = "2013-10-31.3") -> dict[str, bytes]:
    """A document that does not follow the schema, by its name."""
    ((name, document),) = specimens("H", stem).items()
    return {name: document.replace(b"gender=", b"sex=")}


@dataclass
class Mailing(Installation):
    """An installation with a centre that has an address, and e-mails sent to `server`."""

    folder: Folder
    server: MailServerForTests

    def letters(self, to: str) -> list[EmailMessage]:
        """What an address has received since the last time that this was asked."""
        found = [message for envelope, message in self.server.received if envelope.rcpt_tos == [to]]
        self.server.received[:] = [one for one in self.server.received if one[0].rcpt_tos != [to]]
        return found

    def subjects(self, to: str) -> list[str]:
        """The subjects of these."""
        return [str(letter["Subject"]) for letter in self.letters(to)]


def notified(installation: Installation, folder: Folder, server: MailServerForTests) -> Mailing:
    in_writing(installation.tracker, centres.change_centre, "H", email=CENTRE)
    settings = installation.with_settings(
        notify_centres=True,
        notify_to=WRANGLER,
        smtp_url=SecretStr(f"smtp://127.0.0.1:{server.port}"),
        report_from="dcc@dcc.example",
        until="xsd",
        connect_timeout=5.0,
    ).settings
    return Mailing(installation.tracker, settings, installation.root, folder, server)


@pytest.fixture
def mailing(installation: Installation, folder: Folder, mail_server: Starter) -> Mailing:
    return notified(installation, folder, mail_server())


def html_of(message: EmailMessage, kind: str = "html") -> str:
    """The HTML of an e-mail."""
    return message.get_body((kind,)).get_content()


def text_of(message: EmailMessage) -> str:
    """The plain text of an e-mail on one line."""
    return " ".join(html_of(message, "plain").split())


def test_a_centre_is_told_what_came_through_and_what_did_not_in_one_message(mailing: Mailing) -> None:
    mailing.folder.put(GOOD)
    mailing.folder.put(BAD, broken())
    result = mailing.run_session()
    assert "Notifications were sent: 2 by mail." in result.closing_notices
    (letter,) = mailing.letters(CENTRE)
    said = text_of(letter)
    assert letter["Subject"] == f"H: 1 archive needs a correction and 1 archive accepted (session {result.id})"
    assert BAD in said.partition("Accepted archives")[0]
    assert GOOD in said.partition("Accepted archives")[2]
    assert "Why, and what to do" in said
    assert "H.2013-10-31.3.specimen.impc.xml, line 4" in said
    assert BAD in html_of(letter)
    assert "<script" not in html_of(letter)
    assert (letter["Auto-Submitted"], letter["Reply-To"]) == ("auto-generated", WRANGLER)
    (attachment,) = letter.iter_attachments()
    assert attachment.get_filename() == "edit-H.2013-10-31.3.impc.zip.html"
    assert BAD in attachment.get_content()
    (summary,) = mailing.letters(WRANGLER)
    assert BAD in text_of(summary)
    assert GOOD not in text_of(summary)
    assert (summary["References"] != letter["References"], summary["Reply-To"]) == (True, None)


@pytest.mark.parametrize("fault", ["bad-checksum-file", "file-not-readable"])
def test_a_file_that_the_centre_must_correct_is_told_with_the_centre_as_who_acts(
    mailing: Mailing, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    mailing.folder.put(GOOD)
    if fault == "bad-checksum-file":
        mailing.folder.path.joinpath(f"{GOOD}.md5").write_text("x")
    else:
        monkeypatch.setattr(LocalConnection, "_opened", raising(PermissionError(13, "Permission denied")))
    result = mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert letter["Subject"] == f"H: 1 archive needs a correction (session {result.id})"
    (attachment,) = letter.iter_attachments()
    for told in (text_of(letter), html_of(letter), attachment.get_content()):
        assert "You, at the centre" in told
        assert "Nobody" not in told
        assert "clears by itself" not in told
        assert "You need not do anything" not in told


def test_an_archive_that_a_crawl_only_listed_is_not_told_as_accepted(mailing: Mailing) -> None:
    mailing.folder.put(GOOD)
    crawled = mailing.with_settings(until="zip_name").crawl()
    assert [crawl.new for crawl in crawled.crawls.values()] == [1]
    assert mailing.letters(CENTRE) == []
    until_the_next_second()
    mailing.run_session()
    assert "1 archive accepted" in mailing.subjects(CENTRE)[0]


def test_an_example_is_told_with_its_archive_and_what_a_centre_wrote_does_nothing(mailing: Mailing) -> None:
    ((_, document),) = specimens().items()
    mailing.folder.put(BAD, {"H.2013-10-31.x.specimen.impc.xml": document})
    mailing.folder.put(GOOD, {"H.2013-10-31.1.specimen.impc.xml": document, "manifest.csv": b"file\nmissing.xml\n"})
    mailing.folder.put("add/<img src=x onerror=alert(1)>{{ 7 }}.zip", b"PK")
    mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    for told in (text_of(letter), " ".join(html_of(letter).split())):
        assert f"For example in {BAD}, H.2013-10-31.x.specimen.impc.xml: " in told
        assert f"For example in {GOOD}: H.2013-10-31.1.impc.zip does not hold what its manifest says: " in told
        assert "line ?" not in told
    assert "&lt;img src=x onerror=alert(1)&gt;{{ 7 }}.zip" in html_of(letter)
    assert "<img" not in html_of(letter)
    assert "<img src=x onerror=alert(1)>{{ 7 }}.zip" in text_of(letter)


def test_what_waits_to_be_confirmed_is_not_said_to_need_a_correction(mailing: Mailing) -> None:
    mailing.folder.put(GOOD, broken("2013-10-31.1"))
    mailing.folder.put(BAD, broken())
    session = mailing.run_session()
    (digest,) = in_reading(mailing.tracker, collect_digests, mailing.settings, session.id)
    lines = [replace(line, outcome=Outcome.HELD) if str(line.key) == GOOD else line for line in digest.lines]
    told = Composer(mailing.settings).digest("id", replace(digest, lines=tuple(lines)), [])
    assert "H: 1 archive needs a correction and 1 archive waits to be confirmed" in told.subject
    for said in (told.text, told.html):
        wrong, _, waits = said.partition("Waiting to be confirmed")
        assert BAD in wrong.partition("What needs a correction")[2]
        assert GOOD not in wrong
        assert GOOD in waits


def test_what_only_messages_need_is_not_read_for_a_session_without_news(mailing: Mailing) -> None:
    def reads(session: int) -> int:
        with sent_statements(mailing.tracker) as sent:
            in_reading(mailing.tracker, collect_digests, mailing.settings, session)
        return len(sent)

    mailing.folder.put(GOOD)
    news = mailing.run_session()
    until_the_next_second()
    quiet = mailing.run_session()
    # The MD5s, the ids of centres, what is proposed of them, and who they are.
    assert reads(news.id) - reads(quiet.id) >= 4


def test_open_proposals_of_withdrawals_are_mentioned(installation: Installation, mailing: Mailing) -> None:
    mailing.folder.put(GOOD)
    mailing.folder.put("add/H.2013-11-01.1.impc.zip", specimens(stem="2013-11-01.1"))
    installation.run_session()
    note_uploaded(mailing.tracker)
    in_writing(mailing.tracker, file_sources.change_source, mailing.folder.source_id, delta=DeltaStrategy.FULL)
    (mailing.folder.path / GOOD).unlink()
    mailing.folder.put(BAD, broken())
    result = mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert "1 archive is not on your server any more." in text_of(letter)
    (summary,) = mailing.letters(WRANGLER)
    for said in (text_of(summary), html_of(summary)):
        assert "1 proposed withdrawal to decide on: dcc data proposals" in said
    report = in_reading(mailing.tracker, session_report, result.id).text
    assert "1 proposed withdrawal to decide on: dcc data proposals" in report


def test_nothing_is_told_twice_and_what_fails_again_after_it_came_right_is_news(mailing: Mailing) -> None:
    mailing = mailing.with_settings(notify_attachment_bytes=0)
    mailing.folder.put(BAD, broken())
    first = mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert len(mailing.letters(WRANGLER)) == 1
    # The session itself asked about again, and the same archive with the same fault once more.
    assert notify_session(mailing.tracker, mailing.settings, first.id).sent == {}
    mailing.process_again(BAD)
    assert mailing.server.received == []
    mailing.folder.put(BAD, specimens(stem="2013-10-31.3"), MODIFIED + 60)
    mailing.run_session()
    (told,) = mailing.letters(CENTRE)
    assert "1 archive accepted" in told["Subject"]
    assert told["References"] == letter["References"]
    assert told["Message-ID"] != letter["Message-ID"]
    mailing.folder.put(BAD, broken(), MODIFIED + 120)
    mailing.run_session()
    assert "1 archive needs a correction" in mailing.subjects(CENTRE)[0]
    assert "1 archive needs a correction" in mailing.subjects(WRANGLER)[0]


def test_only_what_is_wrong_with_the_archives_that_are_told_of_is_explained(mailing: Mailing) -> None:
    mailing.folder.put(GOOD)
    mailing.folder.put(BAD, broken())
    mailing.run_session()
    mailing.server.received.clear()
    # It is fetched again with the same fault, which is no news; an archive with the name of another is.
    mailing.folder.put(BAD, broken(), MODIFIED + 60)
    ((name, document),) = specimens().items()
    mailing.folder.put(GOOD.replace("add/", "edit/"), {name: document.replace(b"litterId=", b"litter=")})
    mailing.run_session()
    for address in (CENTRE, WRANGLER):
        (letter,) = mailing.letters(address)
        said = text_of(letter)
        assert 'the attribute "litter"' in said
        assert 'the attribute "sex"' not in said
    mailing.process_again(GOOD)
    assert mailing.server.received == []


def test_an_outage_is_told_at_once_and_again_when_it_is_over_and_not_in_between(mailing: Mailing) -> None:
    mailing = mailing.with_settings(notify_outage_crawls=2)
    away, label = mailing.folder.path.with_name("away"), f"file source {mailing.folder.source_id} (H, file://localhost)"
    for _ in range(2):
        assert mailing.subjects(WRANGLER) == []
        shutil.move(mailing.folder.path, away)
        mailing.run_session()
        assert mailing.subjects(WRANGLER) == []
        mailing.run_session()
        (told,) = mailing.letters(WRANGLER)
        assert told["Subject"] == f"DCC: Outage: {label}"
        assert "cannot be reached" in text_of(told)
        mailing.run_session()
        assert mailing.subjects(WRANGLER) == []
        shutil.move(away, mailing.folder.path)
        # By itself, a session leaves a source alone that failed three times.
        mailing.run_session([mailing.folder.source_id])
        assert mailing.subjects(WRANGLER) == [f"DCC: Back to normal: {label}"]
        mailing.run_session()
    assert mailing.subjects(CENTRE) == []
    # Who gets the session's report reads it there.
    shutil.move(mailing.folder.path, away)
    mailing.with_settings(report_to=WRANGLER, notify_outage_crawls=1).run_session()
    assert [subject.partition(" session ")[0] for subject in mailing.subjects(WRANGLER)] == ["DCC"]


def test_that_a_listing_which_shrank_was_believed_is_told_when_its_outage_ends(mailing: Mailing) -> None:
    """The archives that are gone are news: no later message tells of them."""
    for day in (1, 2, 3):
        mailing.folder.put(f"add/H.2013-11-0{day}.1.impc.zip", specimens(stem=f"2013-11-0{day}.1"))
    mailing.run_session()
    mailing.letters(WRANGLER)
    for path in (mailing.folder.path / "add").iterdir():
        path.unlink()
    mailing.run_session()
    (outage,) = mailing.letters(WRANGLER)
    assert outage["Subject"] == f"DCC: Listed in part: file source {mailing.folder.source_id} (H, file://localhost)"
    assert "the directory add lists 0 archives, and held 3 before" in text_of(outage)
    # A session over another source learns nothing about this one.
    mailing.run_session([mailing.add_folder(name="other").source_id])
    assert mailing.letters(WRANGLER) == []
    mailing.run_session()
    (back,) = mailing.letters(WRANGLER)
    said = "3 archives that it lists no more are taken for gone. Ask the centre whether this is meant."
    for text in (text_of(back), html_of(back)):
        assert said in " ".join(text.split())
    assert back["Subject"] == f"DCC: Back to normal: file source {mailing.folder.source_id} (H, file://localhost)"


def test_that_the_tracker_is_back_is_told_to_those_who_are_still_named(mailing: Mailing) -> None:
    other = "other@dcc.example"
    notify_tracker_outage(
        mailing.with_settings(notify_to=f"{WRANGLER}, {other}").settings, TrackerUnreachableError("It is away.")
    )
    for named in (WRANGLER, other):
        assert mailing.subjects(named) == ["DCC: Outage: tracker database"]
    for expected in (["DCC: Back to normal: tracker database"], []):
        notify_due(mailing.tracker, mailing.settings)
        assert mailing.subjects(WRANGLER) == expected
    assert mailing.subjects(other) == []
    assert list((mailing.settings.home / "notifications").iterdir()) == []


def test_news_of_the_tracker_that_cannot_be_sent_are_sent_when_the_mail_server_is_back(mailing: Mailing) -> None:
    named = mailing.with_settings(notify_to=f"{WRANGLER}, other@dcc.example")
    down = named.with_settings(smtp_url=SecretStr(f"smtp://127.0.0.1:{free_port()}"))
    away = TrackerUnreachableError("It is away.")
    # The second recipient of a channel that failed is not tried.
    (sentence,) = notify_tracker_outage(down.settings, away)
    assert "The notification was not sent: the mail server" in sentence
    # Nor is anybody told where that cannot be recorded.
    no_home = named.settings.model_copy(update={"home": Path("/dev/null")})
    assert notify_tracker_outage(no_home, away) == ["Notifications were not sent (NotADirectoryError)."]
    assert len(notify_tracker_outage(named.settings, away)) == 2
    assert mailing.subjects(WRANGLER) == ["DCC: Outage: tracker database"]
    failed = notify_due(down.tracker, down.settings).sentences
    assert sum("The notification was not sent: the mail server" in sentence for sentence in failed) == 2
    notify_due(named.tracker, named.settings)
    assert mailing.subjects(WRANGLER) == ["DCC: Back to normal: tracker database"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TrackerUnreachableError("It is away."), "It is away."),
        (ZeroDivisionError(), "Notifications met a fault of the platform: ZeroDivisionError (line "),
    ],
)
def test_a_fault_while_news_are_gathered_is_told_in_a_sentence(
    mailing: Mailing, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    monkeypatch.setattr("dcc.notify.notifications.SessionNotifier", Mock(side_effect=error))
    found = notify_session(mailing.tracker, mailing.settings, 1)
    (sentence,) = found.sentences
    assert found.failed == 1
    assert sentence.startswith(told)


def test_a_session_that_breaks_off_is_told_and_so_is_the_next_one_that_does_not(mailing: Mailing) -> None:
    keep_secret("Zug-um-Zug-1")
    for _ in range(2):
        with pytest.raises(RuntimeError), open_session(mailing.tracker, mailing.settings) as session:
            raise RuntimeError("the disk is on fire, and the password Zug-um-Zug-1")
    (told,) = mailing.letters(WRANGLER)
    assert "Zug-um-Zug-1" not in text_of(told) + html_of(told)
    assert told["Subject"] == f"DCC: Outage: session {session.id - 1}"
    assert "the disk is on fire" in text_of(told)
    mailing.run_session()
    assert mailing.subjects(WRANGLER) == ["DCC: Back to normal: sessions"]


def test_a_session_that_takes_longer_than_later_ones_is_looked_at_when_it_ends(mailing: Mailing) -> None:
    first, now = mailing.run_session(), utc_now()
    execute_in(mailing.tracker, CrawlingSession.__table__.insert().values(start_time=now, status=0, created=now))
    mailing.run_session()
    assert Ledger(mailing.tracker).last_session() == first.id


@pytest.mark.parametrize("told_by_sensor", [True, False])
def test_a_session_whose_process_died_is_told_once(mailing: Mailing, told_by_sensor: bool) -> None:
    with open_session(mailing.tracker, mailing.settings) as session:
        session.hand_over()
    long_ago = utc_now() - timedelta(hours=1)
    execute_in(mailing.tracker, update(SessionLock).values(holder="x", host="elsewhere", pid=1, heartbeat=long_ago))
    if told_by_sensor:
        for _ in range(2):
            notify_due(mailing.tracker, mailing.settings)
        assert mailing.subjects(WRANGLER) == [f"DCC: Outage: session {session.id}"]
        with open_session(mailing.tracker, mailing.settings) as unfinished:
            unfinished.hand_over()
        assert mailing.subjects(WRANGLER) == []
    mailing.run_session()
    (told,) = mailing.letters(WRANGLER)
    if told_by_sensor:
        assert told["Subject"] == "DCC: Back to normal: sessions"
    else:
        assert told["Subject"] == f"DCC: Outage: session {session.id}"
        assert "It is over" in text_of(told)
    mailing.run_session()
    assert mailing.server.received == []


def test_a_centre_without_an_address_is_told_to_wranglers_once(mailing: Mailing) -> None:
    in_writing(mailing.tracker, centres.change_centre, "H", email="")
    mailing.folder.put(GOOD)
    mailing.run_session()
    (told,) = mailing.letters(WRANGLER)
    assert told["Subject"] == "DCC: A centre has no e-mail address"
    assert "dcc centre change H --email" in text_of(told)
    mailing.folder.put("add/H.2013-10-31.2.impc.zip", specimens(stem="2013-10-31.2"))
    mailing.run_session()
    assert mailing.server.received == []


def test_a_mail_server_that_is_down_fails_no_session_and_the_next_one_sends_what_is_due(mailing: Mailing) -> None:
    """Doctor finds what is lacking."""
    down = mailing.with_settings(smtp_url=SecretStr(f"smtp://127.0.0.1:{free_port()}"))

    def found(of: Installation) -> dict[str, tuple[str, str]]:
        return {
            one.subject: (one.verdict, one.message)
            for one in in_reading(of.tracker, examine_notifications, of.settings)
        }

    assert found(mailing) == {
        "notifications by e-mail": ("ok", f"The mail server smtp://127.0.0.1:{mailing.server.port} can be used."),
        "notifications of centres": ("warning", "No e-mail address is known of J."),
        "notifications sent": ("ok", "None failed in the last week."),
    }
    mailing.folder.put(BAD, broken())
    result = down.run_session()
    assert any("The notification was not sent: the mail server" in notice for notice in result.closing_notices)
    lacking = found(down.with_settings(notify_webhook=SecretStr("https://hooks.example/x")))
    assert lacking["notifications by e-mail"][0] == "failed"
    assert lacking["notifications by webhook"] == ("warning", "What https://hooks.example:443 gets is not signed.")
    assert lacking["notifications sent"][1].startswith("2 could not be sent")
    mailing.run_session()
    assert f"(session {result.id})" in mailing.subjects(CENTRE)[0]
    assert f"DCC session {result.id}" in mailing.subjects(WRANGLER)[0]
    assert Ledger(mailing.tracker).sessions_due() == []


def test_nobody_is_told_anything_by_default_nor_of_the_past_unless_that_is_asked_for(
    installation: Installation, mailing: Mailing
) -> None:
    """A dry run says what would be sent, and remembers nothing."""
    mailing.folder.put(BAD, broken())
    assert not notifies(installation.settings)
    session = installation.with_settings(until="xsd").run_session().id
    for _ in range(2):
        planned, sentences = plan(mailing.tracker, mailing.settings, session)
        assert [(one.channel, one.recipient) for one in planned] == [("mail", CENTRE), ("mail", WRANGLER)]
        assert sentences == []
    assert plan(mailing.tracker, mailing.settings, session, centre="J") == ([], [])
    assert (mailing.server.received, Ledger(mailing.tracker).entries()) == ([], [])
    until_the_next_second()
    mailing.run_session()
    assert mailing.server.received == []
    assert notify_session(mailing.tracker, mailing.settings, session, centre="H").sent == {"mail": 1}


def test_a_centre_is_written_to_in_its_language_and_wranglers_in_that_of_the_installation(mailing: Mailing) -> None:
    in_writing(mailing.tracker, centres.change_centre, "H", language="de")
    mailing.folder.put(BAD, broken())
    mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert "braucht eine Korrektur" in letter["Subject"]
    assert (letter["Content-Language"], 'lang="de"' in html_of(letter)) == ("de", True)
    assert "1 archive needs a correction" in mailing.subjects(WRANGLER)[0]
    in_writing(mailing.tracker, centres.change_centre, "H", language="xx")
    mailing.folder.put(GOOD)
    result = mailing.run_session()
    assert "1 archive accepted" in mailing.subjects(CENTRE)[0]
    assert any("xx" in notice for notice in result.closing_notices)


def test_a_dcc_s_own_templates_are_used_and_one_with_a_fault_is_named_with_its_line(
    mailing: Mailing, tmp_path: Path
) -> None:
    own = tmp_path / "templates" / "notifications"
    own.mkdir(parents=True)
    (own / "digest.txt").write_text("Ours for {{ centre }}\n\n{% for line in bad %}* {{ line.key }}{% endfor %}\n")
    (own / "digest.html").write_text("<p>\n{{ nothing_of_the_kind }}</p>")
    (own / "summary.txt").write_text("ok\n{% for %}")
    mailing = mailing.with_settings(templates_directory=own.parent)
    mailing.folder.put(BAD, broken())
    result = mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert (letter["Subject"], text_of(letter)) == ("Ours for H", f"* {BAD}")
    assert "What needs a correction" in html_of(letter)
    assert len(mailing.letters(WRANGLER)) == 1
    said = " ".join(result.closing_notices)
    assert "notifications/digest.html" in said
    assert "line 2" in said
    assert "notifications/summary.txt, line 2" in said


def test_no_text_can_add_a_header_to_an_e_mail(installation: Installation) -> None:
    channel = MailChannel(installation.settings)
    nasty = "a\r\nBcc: thief@example.org\u2028\x00b"
    attached = Attachment(nasty, "text/html", b"x")
    message = Notification("0" * 32, NewsKind.DIGEST, nasty, "text", "<p>html</p>", centre="H", attachments=(attached,))
    letter = channel.letter(message, CENTRE)
    assert letter["Subject"] == "a Bcc: thief@example.org b"
    assert letter["To"] == CENTRE
    head = letter.as_bytes().partition(b"\r\n\r\n")[0]
    assert b"\nBcc:" not in letter.as_bytes()
    assert head.count(b"\r\n") == head.count(b"\n")


@dataclass
class Recording:
    """A channel that notes what it is given, and fails as it is told."""

    fault: NotificationNotSentError | Exception | None = None
    repeats: bool = False
    tried: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    name: str = "mail"
    attaches: bool = False
    spared: str = ""

    def recipients(self, audience: object, addresses: object) -> list[str]:
        return ["a", "b", "c", "d"]

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:
        self.tried.append(recipient)
        self.ids.append(message.id)
        if self.fault is not None and recipient != self.spared:
            raise self.fault


def tell_all(installation: Installation, channel: Recording, monkeypatch: pytest.MonkeyPatch) -> Round:
    """One round in which each recipient of a channel is told one thing."""
    monkeypatch.setattr(rounds, "open_channels", lambda _: OpenedChannels([channel]))
    round_ = Round(installation.tracker, installation.settings)
    for own, recipient in round_.opened.recipients(Audience.WRANGLERS):
        round_.notify(
            own,
            recipient,
            [NewsItem(NewsKind.ADDRESS, "x")],
            lambda number, *_: Notification(number, NewsKind.TEST, "s", "t"),
        )
    return round_


def test_a_channel_that_fails_twice_is_left_alone_for_the_round_and_tried_in_the_next(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = Recording(NotificationNotSentError("It is down."))
    round_ = tell_all(installation, failing, monkeypatch)
    assert (failing.tried, round_.failed) == (["a", "b"], 4)
    assert "2 more notifications were not tried" in " ".join(round_.conclude())
    in_turn = Recording(failing.fault, spared="b", name="in turn")
    tell_all(installation, in_turn, monkeypatch)
    assert in_turn.tried == ["a", "b", "c", "d"]
    late = Recording()
    assert tell_all(installation.with_settings(notify_seconds=0), late, monkeypatch).postponed == 4
    assert late.tried == []
    working = Recording()
    assert tell_all(installation, working, monkeypatch).sent == {"mail": 4}
    assert tell_all(installation, working, monkeypatch).sent == {}


def test_refused_addresses_of_one_centre_keep_no_other_mail_from_being_sent(
    mailing: Mailing, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailing.server.refuse = "moved.example"
    mailing = mailing.with_settings(notify_to=f"a@moved.example, b@moved.example, {WRANGLER}")
    round_ = tell_all(mailing, MailChannel(mailing.settings), monkeypatch)
    assert (dict(round_.sent), round_.failed, round_.postponed) == ({"mail": 1}, 2, 0)
    said = round_.conclude()[0]
    assert "refused every recipient (a@moved.example: no such user here). Correct the address, or" in said
    assert "DCC_SMTP_URL" not in said
    assert mailing.subjects(WRANGLER) == ["s"]
    sentences = notify_tracker_outage(mailing.settings, TrackerUnreachableError("It is away."))
    assert sentences[-1] == f"{WRANGLER} was notified that the tracker is away."


def test_what_cannot_be_put_into_words_for_one_keeps_nobody_else_from_being_told(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Recording()
    monkeypatch.setattr(rounds, "open_channels", lambda _: OpenedChannels([channel]))
    round_ = Round(installation.tracker, installation.settings)

    def compose(number: str, items: Sequence[NewsItem], _: object) -> Notification:
        if items[0].subject == "a":
            raise ZeroDivisionError
        return Notification(number, NewsKind.TEST, "s", "t")

    for subject in ("a", "b"):
        round_.notify(channel, "somebody", [NewsItem(NewsKind.ADDRESS, subject)], compose)
    assert (channel.tried, round_.failed, dict(round_.sent)) == (["somebody"], 1, {"mail": 1})
    assert "ZeroDivisionError" in " ".join(round_.conclude())
    assert round_.ledger.unsent([NewsItem(NewsKind.ADDRESS, "a")], "mail", "somebody") != []
    # What ends the round leaves the news to the next one.
    news = [NewsItem(NewsKind.ADDRESS, "c")]
    for error in (TrackerUnreachableError("It is away."), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            round_.notify(channel, "somebody", news, Mock(side_effect=error))
        assert round_.ledger.unsent(news, "mail", "somebody") == news


def test_what_another_process_claims_meanwhile_is_not_sent(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = Recording()
    monkeypatch.setattr(rounds, "open_channels", lambda _: OpenedChannels([channel]))

    def needed(items: Sequence[NewsItem]) -> bool:
        Ledger(installation.tracker).claim(items, channel.name, "a")
        return bool(items)

    round_ = Round(installation.tracker, installation.settings)
    made = Notification("0" * 32, NewsKind.TEST, "s", "t")
    assert round_.notify(channel, "a", [NewsItem(NewsKind.ADDRESS, "x")], lambda *_: made, needed) == ()
    assert channel.tried == []


@pytest.mark.parametrize(("repeats", "again"), [(False, []), (True, ["a", "b", "c", "d"])])
def test_what_may_have_arrived_is_sent_again_only_where_that_can_be_told(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, repeats: bool, again: list[str]
) -> None:
    unsure = NotificationNotSentError("It did not answer.")
    unsure.may_have_arrived = True
    for fault in (unsure, OSError("a fault of the channel")):
        first = Recording(fault, repeats)
        first.name = f"c{repeats}{type(fault).__name__}"[:16]
        sentences = tell_all(installation, first, monkeypatch).sentences
        assert [said.endswith("so it is not sent again.") for said in sentences] == [not repeats] * 2
        assert first.tried == ["a", "b"]
        second = Recording(None, repeats)
        second.name = first.name
        tell_all(installation, second, monkeypatch)
        assert second.tried == (again or ["c", "d"])
        assert (second.ids[:2] == first.ids) is repeats


def test_news_of_the_tracker_that_may_have_arrived_are_not_sent_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = NotificationNotSentError("It did not answer.")
    unsure.may_have_arrived = True
    channel, settings = Recording(unsure), installation.with_settings(notify_log=True).settings
    monkeypatch.setattr("dcc.notify.notifications.open_channels", lambda _: OpenedChannels([channel]))
    for _ in range(2):
        notify_tracker_outage(settings, TrackerUnreachableError("It is away."))
    for _ in range(2):
        notify_due(installation.tracker, settings)
    assert channel.tried == ["a", "b"] * 2


def test_an_owner_is_told_once_in_its_language_of_an_archive_on_the_server_of_another(mailing: Mailing) -> None:
    in_writing(mailing.tracker, centres.change_centre, "J", email="data@j.example", language="de")
    mailing.folder.put("add/J.2013-10-31.1.impc.zip", specimens("J"))
    mailing.run_session()
    (letter,) = mailing.letters("data@j.example")
    assert "Archive anderer betreffen Daten des Zentrums J" in letter["Subject"]
    assert "add/J.2013-10-31.1.impc.zip ist nach Ihrem Zentrum benannt" in text_of(letter)
    mailing.run_session()
    assert mailing.letters("data@j.example") == []


def test_a_decline_that_was_taken_back_is_not_told(mailing: Mailing) -> None:
    mailing.folder.put("add/J.2013-10-31.1.impc.zip", specimens("J"))
    mailing.run_session()
    mailing.letters(CENTRE)
    key = SubmissionKey(Action.ADD, "J.2013-10-31.1.impc.zip")
    in_writing(mailing.tracker, decline_archive, key, declined_by="someone", reason="by mistake")
    in_writing(mailing.tracker, centres.delegate, "J", "H", recorded_by="someone")
    in_writing(mailing.tracker, accept_archive, key, revoked_by="someone")
    notify_due(mailing.tracker, mailing.settings)
    assert mailing.letters(CENTRE) == []
    in_writing(mailing.tracker, centres.revoke_delegation, "J", "H", revoked_by="someone")
    in_writing(mailing.tracker, decline_archive, key, declined_by="someone", reason="by mistake")
    notify_due(mailing.tracker, mailing.settings)
    assert ["by mistake" in text_of(letter) for letter in mailing.letters(CENTRE)] == [True]


def test_a_message_tells_an_owner_what_holds_and_what_was_done(mailing: Mailing) -> None:
    """It does not ask for what the owner has confirmed, and calls deleted data deleted."""
    cases = {
        Action.ADD: ("wants to add", "added data of your centre, and the Data Coordination Centre confirmed that"),
        Action.EDIT: ("wants to change", "changed data of your centre, which has delegated to it"),
        Action.DELETE: ("wants to delete", "deleted data of your centre, which has delegated to it"),
    }
    for action in cases:
        mailing.folder.put(f"{action}/H.2013-10-31.1.impc.zip", specimens("H"))
    mailing.with_settings(notify_centres=False).run_session()
    in_writing(mailing.tracker, centres.change_centre, "J", email="data@j.example")

    def note(action: Action, outcome: NoticeOutcome, *documents: tuple[object, ...]) -> None:
        za_id = value_in(mailing.tracker, select(ZipAction.id).where(ZipAction.todo_id == action))
        counts = {"specimen": 24, "experiment": 1}
        new = [NewNotice("J", za_id, outcome, *document, counts=counts) for document in documents]
        in_writing(mailing.tracker, add_notices, new)

    def letter_of() -> str:
        notify_due(mailing.tracker, mailing.settings)
        (letter,) = mailing.letters("data@j.example")
        return text_of(letter)

    first, second, third = (1, "a.xml"), (2, "b.xml"), (3, "c.xml")
    for action, (wants, did) in cases.items():
        note(action, NoticeOutcome.HELD, first)
        (planned,), _ = plan(mailing.tracker, mailing.settings, centre="J")
        assert planned.recipient == "data@j.example"
        asked = letter_of()
        assert (wants in asked, did in asked) == (True, False)
        what = f"24 animals and 1 experiment by a.xml in {action}/H.2013-10-31.1.impc.zip."
        assert f"Centre H {wants} data of your centre: {what}" in asked
        note(action, NoticeOutcome.REFUSED, third)
        assert "Centre H tried to" in letter_of()
        note(action, NoticeOutcome.HELD, second)
        note(action, NoticeOutcome.CONFIRMED if action is Action.ADD else NoticeOutcome.DONE, first, second)
        done = letter_of()
        assert (done.count(did), wants in done) == (2, False)
        note(action, NoticeOutcome.WITHDRAWN, ())
        assert "was withdrawn" in letter_of()
    notify_due(mailing.tracker, mailing.settings)
    assert mailing.letters("data@j.example") == []
