"""Notifications: who is told what after a session, once, in which words (issue 6, item 6)."""

from __future__ import annotations

from email.message import EmailMessage

import pytest
from pydantic import SecretStr

from dcc_resources.tracker import registry
from dcc_resources.tracker.database import writing
from tests.installations import Folder, Installation, specimens
from tests.mail_server import MailServerForTests, Starter

WRANGLER = "wrangler@dcc.example"
CENTRE = "data@h.example"
BAD, GOOD = "edit/H.2013-10-31.3.impc.zip", "add/H.2013-10-31.1.impc.zip"


def broken(stem: str = "2013-10-31.3") -> dict[str, bytes]:
    """A document that does not follow the schema, by its name."""
    ((name, document),) = specimens("H", stem).items()
    return {name: document.replace(b"gender=", b"sex=")}


def notified(installation: Installation, server: MailServerForTests, **changes: object) -> Installation:
    """The installation with a centre that has an address, and e-mails sent to a server."""
    with writing(installation.tracker) as connection:
        registry.change_centre(connection, "H", email=CENTRE)
    settings: dict[str, object] = {
        "notify_centres": True,
        "notify_to": WRANGLER,
        "smtp_url": SecretStr(f"smtp://127.0.0.1:{server.port}"),
        "report_from": "dcc@dcc.example",
        "until": "xsd",
        "connect_timeout": 5.0,
    }
    return installation.with_settings(**{**settings, **changes})


def letters(server: MailServerForTests, to: str) -> list[EmailMessage]:
    """What an address has received so far."""
    return [message for envelope, message in server.received if envelope.rcpt_tos == [to]]


def text_of(message: EmailMessage) -> str:
    """The plain text of an e-mail on one line."""
    part = message.get_body(("plain",))
    assert part is not None
    return " ".join(part.get_content().split())


@pytest.fixture
def folder(installation: Installation) -> Folder:
    return installation.add_folder("H")


def test_a_centre_is_told_what_came_through_and_what_did_not_in_one_message(
    installation: Installation, folder: Folder, mail_server: Starter
) -> None:
    server = mail_server()
    folder.put(GOOD)
    folder.put(BAD, broken())
    result = notified(installation, server).run_session()
    assert "Notifications were sent: 2 by mail." in result.closing_notices
    (letter,) = letters(server, CENTRE)
    said = text_of(letter)
    assert letter["Subject"] == (f"H: 1 archive needs a hand and 1 archive came through (session {result.id})")
    assert BAD in said.partition("What came through")[0]
    assert GOOD in said.partition("What came through")[2]
    assert "Element <mouse>" in said or "attribute" in said
    (summary,) = letters(server, WRANGLER)
    assert BAD in text_of(summary)
    assert GOOD not in text_of(summary)
    html = letter.get_body(("html",))
    assert html is not None
    assert "<script" not in html.get_content()
    (attachment,) = letter.iter_attachments()
    assert attachment.get_filename() == "edit-H.2013-10-31.3.impc.zip.html"
    assert BAD in attachment.get_content()
