"""Notifications by webhook: a signed JSON object by POST, repeated while the server fails.

The signature follows common practice: `X-DCC-Signature: sha256=<hex>` is the HMAC-SHA256, under the key of
DCC_NOTIFY_WEBHOOK_SECRET, of the header `X-DCC-Timestamp` (seconds since 1970), a full stop and the body. A receiver
that refuses old timestamps is safe from replayed messages. `X-DCC-Id` is the message's id in each attempt.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import ssl
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import SecretStr

from dcc.errors import NotificationNotSentError
from dcc.notify.messages import Audience, Notification
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.settings.recipients import parse_webhook
from dcc.sources.certificates import tls_context
from dcc.sources.sockets import shut_down

VERSION: Final = 1
"""The version of the JSON objects, raised with each change that may break a reader."""

_TRIES: Final = 3
_FIRST_PAUSE: Final = 0.5
_TRY_SECONDS: Final = 10.0
_TRY_AGAIN: Final = frozenset({408, 425, 429, *range(500, 600)})


class _FailedPost(NamedTuple):
    """Why a request failed. `is_passing`: another try may help."""

    problem: str
    is_passing: bool = False
    may_have_arrived: bool = False


class WebhookChannel:
    """Posts notifications to one URL. Follows no redirect, and verifies the server's certificate."""

    name = "webhook"
    repeats = True
    attaches = False

    def __init__(self, settings: Settings, *, pause: float = _FIRST_PAUSE) -> None:
        self._hook = parse_webhook(settings.notify_webhook or SecretStr(""))
        self._secret, self._settings, self._pause = settings.notify_webhook_secret, settings, pause

    def recipients(self, audience: Audience, addresses: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - it gets all
        """See `Channel.recipients`: the server gets everything; news of sessions come by centre."""
        return [] if audience is Audience.SUMMARY else [self._hook.label]

    def send(self, message: Notification, recipient: str, *, seconds: float) -> None:  # noqa: ARG002
        """See `Channel.send`."""
        body = self.body(message)
        until = time.monotonic() + seconds
        arrived = False
        for number in range(_TRIES):
            failure = self._post(message.id, body, min(_TRY_SECONDS, until - time.monotonic()))
            if failure is None:
                return
            problem, arrived = failure.problem, arrived or failure.may_have_arrived
            pause = self._pause * 2**number
            if not failure.is_passing or number == _TRIES - 1 or time.monotonic() + pause >= until:
                break
            time.sleep(pause)
        error = NotificationNotSentError(
            f"The notification was not sent: the webhook {self._hook.label} {problem}. Check DCC_NOTIFY_WEBHOOK and "
            "that its server is up."
        )
        error.may_have_arrived = arrived
        raise error

    def body(self, message: Notification) -> bytes:
        """The JSON object, in ASCII."""
        values = {
            "version": VERSION,
            "id": message.id,
            "kind": str(message.kind),
            "session": message.session,
            "centre": message.centre,
            "language": message.language,
            "subject": message.subject,
            "text": message.text,
            "data": message.data,
        }
        return json.dumps(values, sort_keys=True).encode("ascii")

    def headers(self, message_id: str, body: bytes, timestamp: int) -> dict[str, str]:
        """The headers of a request, with a signature if there is a key."""
        values = {
            "Content-Type": "application/json",
            "User-Agent": "dcc",
            "X-DCC-Id": message_id,
            "X-DCC-Timestamp": str(timestamp),
        }
        if self._secret is not None:
            key = self._secret.get_secret_value().encode()
            proof = hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
            values["X-DCC-Signature"] = f"sha256={proof}"
        return values

    def _post(self, message_id: str, body: bytes, seconds: float) -> _FailedPost | None:
        """Try once; returns None if the server took it."""
        hook, connection = self._hook, http.client.HTTPConnection(self._hook.host, self._hook.port, timeout=seconds)
        if hook.encrypted:
            context = tls_context(self._settings)
            connection = http.client.HTTPSConnection(hook.host, hook.port, timeout=seconds, context=context)
        sent = False
        try:
            with time_limit(seconds, lambda: shut_down(connection.sock)):
                connection.connect()
                sent = True
                connection.request(
                    "POST",
                    self._hook.target.get_secret_value(),
                    body=body,
                    headers=self.headers(message_id, body, int(time.time())),
                )
                status = connection.getresponse().status
        except ssl.SSLCertVerificationError as error:
            return _FailedPost(f"has a TLS certificate that could not be verified ({error.verify_message})")
        except TimeoutError:
            return _FailedPost("did not answer in time", is_passing=True, may_have_arrived=sent)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            return _FailedPost(f"could not be reached ({reason})", is_passing=True, may_have_arrived=sent)
        finally:
            connection.close()
        if 200 <= status < 300:
            return None
        answered = f"answered {status} {http.client.responses.get(status, '')}".rstrip()
        if 300 <= status < 400:
            return _FailedPost(f"{answered}, and redirects are not followed")
        return _FailedPost(answered, is_passing=status in _TRY_AGAIN)
