"""`dcc notify`: what is sent, to whom; and where unusual archives and listings are shown."""

import os
from datetime import timedelta

import pytest
from sqlalchemy import update

from dcc.runtime.clock import utc_now
from dcc.tracker.models import CrawlFinding
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import specimens
from tests.support.mail_server import PASSWORD, QUOTED, Starter
from tests.support.ports import free_port
from tests.support.submission_world import wrong_form

CENTRE, WRANGLER = "data@h.example", "wrangler@dcc.example"
BAD = "edit/H.2013-10-31.3.impc.zip"
pytestmark = [only_sqlite, pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")]


@pytest.fixture
def bad_session(dcc: Dcc) -> Dcc:
    """A session with an archive that fails, of which nobody was notified."""
    dcc.add_folder().put(BAD, wrong_form("2013-10-31.3"))
    dcc("centre", "change", "H", "--email", CENTRE)
    dcc("crawl", exit_code=1)
    return dcc


def asking(dcc: Dcc, mail_port: int) -> Dcc:
    """The same installation, with notifications asked for."""
    dcc.environment |= {
        "DCC_NOTIFY_CENTRES": "true",
        "DCC_NOTIFY_TO": WRANGLER,
        "DCC_SMTP_URL": f"smtp://dcc:{QUOTED}@127.0.0.1:{mail_port}",
        "DCC_NOTIFY_WEBHOOK": f"http://127.0.0.1:{free_port()}/T0K3N-of-the-url",
        "DCC_NOTIFY_WEBHOOK_SECRET": "signing-key-4711",
    }
    dcc.secrets += [PASSWORD, QUOTED, "T0K3N", "signing-key-4711"]
    return dcc


def test_it_shows_sends_and_lists(bad_session: Dcc, mail_server: Starter) -> None:
    dcc, server = bad_session, mail_server(login=True)
    for wrong in ("--session 99", "--session 1 --centre X", "--centre H", "--dry-run --list"):
        dcc("notify", *wrong.split(), exit_code=2)
    for ignored in ("--test a@b.example --session 1", "--list --session 1 --centre H"):
        assert "--session not with --test" in " ".join(dcc("notify", *ignored.split(), exit_code=2).stderr.split())
    assert "Nobody is notified" in dcc("notify", "--dry-run").stdout
    assert "Nobody is notified" in dcc("notify").stdout
    asking(dcc, server.port)
    shown = dcc("notify", "--dry-run", "--session", 1).stdout
    assert f"By mail to {CENTRE}: H: 1 archive needs a correction (session 1)" in shown
    assert "[edit-H.2013-10-31.3.impc.zip.html, " in shown
    planned = dcc.json("notify", "--dry-run")["planned"]
    assert [(one["channel"], one["recipient"], one["kind"]) for one in planned if one["channel"] == "mail"] == [
        ("mail", CENTRE, "digest"),
        ("mail", WRANGLER, "session"),
    ]
    assert server.received == []
    # The webhook's server is down: it is told so, and the e-mails are sent.
    told = dcc.json("notify", exit_code=4)
    assert (told["sent"], told["failed"]) == ({"mail": 2}, 1)
    assert server.logins == [("dcc", PASSWORD)] * 2
    assert dcc.json("notify", exit_code=4)["sent"] == {}
    listed = dcc.json("notify", "--list")
    assert {(one["channel"], one["recipient"], one["state"]) for one in listed} == {
        ("mail", CENTRE, "sent"),
        ("mail", WRANGLER, "sent"),
        ("webhook", listed[-1]["recipient"], "failed"),
    }
    assert "session 1, H" in dcc("notify", "--list", "--session", 1).stdout
    assert "T0K3N" not in dcc("settings").stdout


def test_a_test_is_sent_to_any_address(dcc: Dcc, mail_server: Starter) -> None:
    server = mail_server()
    dcc.environment["DCC_SMTP_URL"] = f"smtp://127.0.0.1:{server.port}"
    for environment, subject in (("", "DCC: a test of notifications"), ("test", "[test] DCC: a test of notifications")):
        dcc.environment["DCC_ENVIRONMENT"] = environment
        assert dcc("notify", "--test", "me@example.org").stdout == "A test was sent to me@example.org.\n"
        envelope, message = server.received[-1]
        assert (envelope.rcpt_tos, message["Subject"]) == (["me@example.org"], subject)
    assert "is not one e-mail address" in dcc.error("notify", "--test", "me", exit_code=2)
    dcc.environment["DCC_SMTP_URL"] = f"smtp://127.0.0.1:{free_port()}"
    assert "could not be reached" in dcc.error("notify", "--test", "me@example.org", exit_code=4)


def test_an_archive_of_unusual_size_is_told_and_shown_for_a_week(dcc: Dcc) -> None:
    stems = [f"2013-10-31.{inc}" for inc in range(20)]
    folder = dcc.collect({f"add/H.{stem}.impc.zip": specimens(stem=stem) for stem in stems})
    large = "add/H.2013-11-01.1.impc.zip"
    folder.put(large, specimens(stem="2013-11-01.1") | {"noise.bin": os.urandom(300_000)})
    unusual = f"{large} has a size of 300."
    assert unusual in dcc("crawl", exit_code=1).stdout
    for _ in range(2):
        assert unusual in dcc("status").stdout
        assert unusual in dcc("show", large).stdout
        assert "listing:unusual_size" in dcc("data", "causes").stdout
        # Later crawls find nothing new, and nobody may have looked before.
        dcc("crawl", "--all")
    dcc.change_tracker(update(CrawlFinding).values(created=utc_now() - timedelta(days=8)))
    assert unusual not in dcc("status").stdout


def test_a_listing_that_shrank_is_shown_and_again_when_it_is_believed(dcc: Dcc) -> None:
    stems = [f"2013-10-31.{inc}" for inc in range(20)]
    folder = dcc.collect({f"add/H.{stem}.impc.zip": specimens(stem=stem) for stem in stems})
    for stem in stems[10:]:
        (folder.path / f"add/H.{stem}.impc.zip").unlink()
    shrank, gone = "the directory add lists 10 archives, and held 20 before", "add: 10 archives of file source 1"
    shown = dcc("crawl", "--all", exit_code=4).stdout
    assert "partial file source 1 (" in shown
    for text in (shown, dcc("status").stdout):
        assert shrank in " ".join(text.split())
    assert "listing-shrunk" in dcc("data", "causes").stdout
    assert gone in dcc("crawl", "--all").stdout
    assert gone in dcc("status").stdout
