"""Notifications by e-mail: plain text with HTML beside it, a message a recipient, a thread a centre."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Final

from dcc.errors import NotificationNotSentError
from dcc.notify.channels.mail_transport import MailTransport, Wording, sender_of
from dcc.notify.messages import Audience, Message
from dcc.settings import Settings
from dcc.settings.mail_addresses import parse_smtp_url

_WORDING: Final = Wording("The notification", "DCC_SMTP_URL and DCC_REPORT_FROM", NotificationNotSentError)
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_SUBJECT: Final = 200
_ANSWER_SECONDS: Final = 10.0


class MailChannel:
    """Sends notifications by the mail server of the settings: see `MailTransport`."""

    name = "mail"
    repeats = False
    attaches = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sender = sender_of(settings)
        self._server = parse_smtp_url(settings.smtp_url)

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:
        """See `Channel.recipients`: whoever gets the session report is not told what is in it."""
        if audience is Audience.CENTRE:
            return list(addresses) if self._settings.notify_centres else []
        wranglers = self._settings.notify_addresses
        if audience is not Audience.WRANGLERS:
            return [address for address in wranglers if address not in self._settings.report_addresses]
        return list(wranglers)

    def send(self, message: Message, recipient: str, *, seconds: float) -> None:
        """See `Channel.send`."""
        answer_seconds = min(_ANSWER_SECONDS, self._settings.connect_timeout, seconds)
        transport = MailTransport(
            self._server, self._settings, _WORDING, answer_seconds=answer_seconds, send_seconds=seconds
        )
        try:
            letter = self.letter(message, recipient)
        except (ValueError, IndexError) as error:
            raise NotificationNotSentError(
                f"The notification was not sent: no e-mail can be addressed to {recipient!r}. Correct the address."
            ) from error
        try:
            transport.deliver(letter, [recipient])
        except NotificationNotSentError as error:
            error.may_have_arrived = transport.may_have_arrived
            raise

    def letter(self, message: Message, recipient: str) -> EmailMessage:
        """The e-mail of a message. Nothing that centres wrote can begin a header: line breaks become spaces."""
        letter = EmailMessage(policy=SMTP)
        domain = self._sender.rpartition("@")[2]
        letter["Subject"] = _one_line(message.subject)
        letter["From"] = self._sender
        letter["To"] = Address(addr_spec=recipient)
        wranglers = self._settings.notify_addresses
        if message.centre is not None and wranglers:
            letter["Reply-To"] = ", ".join(wranglers)
        letter["Date"] = formatdate(localtime=False)
        letter["Message-ID"] = f"<dcc-{message.id}@{domain}>"
        # Mail programs put together what refers to the same message, though nobody ever sent that one.
        digest = hashlib.sha256(f"{self._sender}\0{message.thread}".encode()).hexdigest()[:24]
        letter["In-Reply-To"] = letter["References"] = f"<dcc-thread-{digest}@{domain}>"
        # So that no holiday notice answers (RFC 3834), nor a program that knows only the older sign.
        letter["Auto-Submitted"] = "auto-generated"
        letter["Precedence"] = "bulk"
        letter.set_content(message.text, charset="utf-8", cte="quoted-printable")
        if message.html:
            letter.add_alternative(message.html, subtype="html", charset="utf-8", cte="quoted-printable")
        for attachment in message.attachments:
            main, _, sub = attachment.media_type.partition("/")
            name = _one_line(attachment.name)
            letter.add_attachment(attachment.content, maintype=main, subtype=sub, filename=name)
        # Setting the content takes away what is said of it.
        letter["Content-Language"] = message.language.replace("_", "-")
        return letter


def _one_line(text: str) -> str:
    return _UNFIT.sub(" ", text).strip()[:_LONGEST_SUBJECT]
