"""People hear of an archive of unusual size, and of a listing that shrank, wherever they look."""

from __future__ import annotations

import os
from datetime import timedelta
from email.message import EmailMessage

import pytest
from aiosmtpd.smtp import Envelope
from sqlalchemy import update

from dcc.tracker.models import CrawlFinding, utc_now
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, specimens
from tests.support.mail_server import Starter

REPORT_TO, NOTIFY_TO = "wrangler@dcc.example", "operator@dcc.example"
LARGE = "add/H.2013-11-01.1.impc.zip"
UNUSUAL = f"{LARGE} has 300,"
SHRUNK = "the directory add lists 10 archives, and held 20 before"
GONE = "add: 10 archives of file source 1"

Mails = list[tuple[Envelope, EmailMessage]]

pytestmark = [only_sqlite, pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")]


def number(inc: int) -> str:
    return f"2013-10-31.{inc}"


def plain(mails: Mails, address: str) -> str:
    """The texts that an address received."""
    return "\n".join(
        " ".join(body.get_content().split())
        for envelope, message in mails
        if envelope.rcpt_tos == [address] and (body := message.get_body(("plain",))) is not None
    )


@pytest.fixture
def folder(dcc: Dcc) -> Folder:
    """The folder of a source."""
    return dcc.add_folder()


@pytest.fixture
def told(dcc: Dcc, folder: Folder, mail_server: Starter) -> Mails:
    """The mails of an installation with twenty archives of the usual size, fetched by a session."""
    server = mail_server()
    for inc in range(20):
        folder.put(f"add/H.{number(inc)}.impc.zip", specimens(stem=number(inc)))
    dcc.environment |= {
        "DCC_SMTP_URL": f"smtp://127.0.0.1:{server.port}",
        "DCC_REPORT_TO": REPORT_TO,
        "DCC_NOTIFY_TO": NOTIFY_TO,
    }
    dcc("crawl")
    server.received.clear()
    return server.received


def test_an_archive_of_unusual_size_is_told_and_shown_for_a_week(dcc: Dcc, folder: Folder, told: Mails) -> None:
    content = specimens(stem="2013-11-01.1") | {"noise.bin": os.urandom(300_000)}
    folder.put(LARGE, content)
    assert UNUSUAL in dcc("crawl", exit_code=1).stdout
    assert UNUSUAL in plain(told, REPORT_TO)
    for _ in range(2):
        assert UNUSUAL in dcc("status").stdout
        assert UNUSUAL in dcc("show", LARGE).stdout
        assert "listing:unusual_size" in dcc("data", "causes").stdout
        # Later crawls find nothing new, and nobody may have looked before.
        dcc("crawl", "--all")
    dcc.change_tracker(update(CrawlFinding).values(created=utc_now() - timedelta(days=8)))
    assert UNUSUAL not in dcc("status").stdout


def test_a_listing_that_shrank_is_told_and_again_when_it_is_believed(dcc: Dcc, folder: Folder, told: Mails) -> None:
    for inc in range(10):
        (folder.path / f"add/H.{number(inc)}.impc.zip").unlink()
    shown = dcc("crawl", "--all", exit_code=4).stdout
    assert SHRUNK in shown
    assert "partial file source 1 (" in shown
    subjects = [str(message["Subject"]) for envelope, message in told if NOTIFY_TO in envelope.rcpt_tos]
    assert [subject.startswith("DCC: Listed in part: file source 1 (") for subject in subjects] == [True]
    for address in (REPORT_TO, NOTIFY_TO):
        assert SHRUNK in plain(told, address)
    assert SHRUNK in " ".join(dcc("status").stdout.split())
    assert "listing-shrunk" in dcc("data", "causes").stdout
    told.clear()
    assert GONE in dcc("crawl", "--all").stdout
    assert GONE in plain(told, REPORT_TO)
    assert GONE in dcc("status").stdout
