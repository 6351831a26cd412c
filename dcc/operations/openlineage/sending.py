"""Sends a session's OpenLineage events to a server, or appends them to a file, an event a line.

A receiver that is away fails no session, and holds up none for more than a few seconds.
"""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.errors import DccError
from dcc.redaction import redacted
from dcc.runtime.private_files import SHARED_FILE
from dcc.session.sessions import Session
from dcc.settings import Settings

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

log = logging.getLogger(__name__)

_SECONDS: Final = 30.0
"""The longest time for sending the events of a session."""
_ANSWER_SECONDS: Final = 5.0
_APPENDING: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_ENDPOINT: Final = "/api/v1/lineage"


def send_begin(settings: Settings, session: Session) -> None:
    """Send that a session begins, and that those before it died, without waiting for the receiver."""
    if find_spec("openlineage") is None:
        return

    def send() -> None:
        from dcc.operations.openlineage.events import SessionEvents

        events = [SessionEvents(settings, one.session).died() for one in session.dead]
        try:
            _send(settings, [*events, SessionEvents(settings, session.id).begin()])
        except Exception as error:
            # The end of the session says it aloud, if it is so still.
            log.debug("No lineage event was sent: %s", redacted(str(error)))

    threading.Thread(target=send, name="lineage", daemon=True).start()


def send_end(tracker: Engine, settings: Settings, session_id: int, failure: str | None) -> Iterable[str]:
    """Send what a session did; returns a sentence if that failed, which is also logged. Never raises an Exception."""
    try:
        if find_spec("openlineage") is None:
            raise ModuleNotFoundError("the package openlineage-python is missing: pip install 'dcc[lineage]'")
        from dcc.operations.openlineage.events import SessionEvents, load_session_datasets

        datasets = load_session_datasets(tracker, settings, session_id, is_broken_off=failure is not None)
        _send(settings, SessionEvents(settings, session_id).end(datasets, failure))
    except Exception as error:
        warning = (
            f"The lineage of session {session_id} was not sent to DCC_OPENLINEAGE_URL: {_reason_of(error, settings)}"
        )
        if not isinstance(error, (DccError, OSError, ImportError, SQLAlchemyError)):
            log.warning("%s", warning, exc_info=error)
        else:
            log.warning("%s", warning)
        return (warning,)
    return ()


def _reason_of(error: Exception, settings: Settings) -> str:
    """What was wrong, and where; errors of connections name what the system said, not all that lies above it."""
    if not isinstance(error, (DccError, OSError, ImportError)):
        return type(error).__name__
    if not type(error).__module__.startswith("requests") or getattr(error, "response", None) is not None:
        return redacted(str(error))
    cause: BaseException = error
    while (deeper := cause.__cause__ or cause.__context__) is not None:
        cause = deeper
    where = urlsplit(_target(settings)).netloc.rpartition("@")[2]
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the TLS certificate of the server {where} could not be verified ({cause.verify_message}). Have it "
            "corrected, or name the authority that signed it in DCC_TLS_CA_FILE."
        )
    why = (isinstance(cause, OSError) and cause.strerror) or "it does not answer"
    return f"the server {where} cannot be reached ({why}). See to it; the next session sends its own events."


def _target(settings: Settings) -> str:
    """The URL of the server, or the path of the file."""
    return "" if settings.openlineage_url is None else settings.openlineage_url.get_secret_value()


def _send(settings: Settings, events: Iterable[RunEvent]) -> None:
    deadline = time.monotonic() + _SECONDS
    with _receiver(settings) as send:
        for event in events:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the receiver took more than {_SECONDS:g} s; the other events were left out.")
            send(event)


@contextmanager
def _receiver(settings: Settings) -> Iterator[Callable[[RunEvent], object]]:
    from openlineage.client.serde import Serde
    from openlineage.client.transport.http import HttpConfig, HttpTransport

    target = _target(settings)
    if "://" not in target:
        with os.fdopen(os.open(target, _APPENDING, SHARED_FILE), "a", encoding="utf-8") as file:
            yield lambda event: file.write(f"{Serde.to_json(event)}\n")
        return
    verify: Any = True if settings.tls_ca_file is None else str(settings.tls_ca_file)
    transport = HttpTransport(
        HttpConfig(
            url=target,
            endpoint=urlsplit(target).path.rstrip("/") or _ENDPOINT,
            timeout=_ANSWER_SECONDS,
            retry={"total": 0},
            verify=verify,
        )
    )
    try:
        yield transport.emit
    finally:
        transport.close()
