"""Opens a session with an FTP server: connection, TLS and login, with an explanation of failures."""

# ruff: noqa: S321 - FTP is what some centres offer; choose ftps if there is a choice.

from __future__ import annotations

import contextlib
import ftplib
import re
import ssl

from dcc.errors import LoginRefusedError, SourceError, SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark
from dcc.redaction import redact
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.sources.access import Credential, Endpoint
from dcc.sources.base import SourceAddress
from dcc.sources.certificates import ServerCertificates, unverified_context
from dcc.sources.ftp.session import FAILURES, FtpSession
from dcc.sources.remote_names import printable
from dcc.sources.request_texts import LOGIN_REFUSED
from dcc.sources.sockets import open_socket


def open_session(
    address: SourceAddress, settings: Settings, endpoint: Endpoint, credential: Credential, *, tls: bool
) -> FtpSession:
    """Connect to a server and log in, anonymously without a user name.

    Raises SourceTimeoutError, SourceUnreachableError, CertificateRefusedError and LoginRefusedError, and
    ConfigurationError if the certificate authorities cannot be read; no message contains the password.
    """
    label = address.label
    certificates = ServerCertificates.of_source(address, settings) if tls else None
    control = open_socket(label, endpoint, settings.connect_timeout)
    try:
        session = FtpSession(endpoint, control, settings, certificates)
    except BaseException:
        control.close()
        raise
    step = "its greeting"
    try:
        with time_limit(settings.login_timeout, session.interrupt):
            session.welcome = session.getresp()
            if tls:
                step = "the TLS handshake"
                session.begin_tls()
            step = "the login"
            _log_in(session, address, credential)
            if tls:
                step = "the protection of transfers"
                session.prot_p()
            session.learn_features()
    except BaseException as error:
        session.abandon()
        if isinstance(error, ssl.SSLCertVerificationError) and certificates is not None:
            raise certificates.refused(error, lambda: _shown_certificate(label, endpoint, settings)) from error
        raised = _explained(error, address, settings, credential, step)
        if raised is None:
            raise
        # Of ftplib's errors only the server's text is of use, and that may repeat the password.
        raise raised from (None if isinstance(error, ftplib.Error) else error)
    return session


def _shown_certificate(label: str, endpoint: Endpoint, settings: Settings) -> bytes | None:
    """The server's certificate, unverified, over a separate connection; None if it shows none."""
    with contextlib.suppress(*FAILURES, SourceError):
        control = open_socket(label, endpoint, settings.connect_timeout)
        session = FtpSession(endpoint, control, settings, ServerCertificates(label, unverified_context()))
        try:
            with time_limit(settings.login_timeout, session.interrupt):
                session.getresp()
                session.auth()
                return session.sock.getpeercert(binary_form=True) if isinstance(session.sock, ssl.SSLSocket) else None
        finally:
            session.abandon()
    return None


def _log_in(session: FtpSession, address: SourceAddress, credential: Credential) -> None:
    password = credential.password.get_secret_value() if credential.password is not None else ""
    user = address.username or "anonymous"
    if re.search(r"[\r\n]", user + password):
        raise ftplib.error_proto("the user name or password holds a line break")
    # FTP_TLS.login would begin TLS by itself.
    ftplib.FTP.login(session, _latin(user), _latin(password))


def _latin(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")


def _explained(
    error: BaseException, address: SourceAddress, settings: Settings, credential: Credential, step: str
) -> Exception | None:
    label = address.label
    if isinstance(error, TimeoutError):
        return SourceTimeoutError(
            mark(
                "the server did not complete {step} within {login_timeout} seconds. Check that the port is "
                "that of its FTP server; DCC_LOGIN_TIMEOUT sets the limit."
            ),
            source=label,
            step=Message(step),
            login_timeout=settings.login_timeout,
        )
    if not isinstance(error, FAILURES):
        return None
    reason = describe(error, credential)
    if isinstance(error, ftplib.error_perm) and step == "the login":
        return LoginRefusedError(
            LOGIN_REFUSED,
            source=label,
            username=address.username or "anonymous",
            reason=Message(reason),
        )
    advice = "Check that the server offers explicit TLS." if step == "the TLS handshake" else "Try again later."
    return SourceUnreachableError(
        mark("{step} failed ({reason}). {advice}"),
        source=label,
        step=Message(step),
        reason=Message(reason),
        advice=Message(advice),
    )


def describe(error: BaseException, credential: Credential) -> str:
    """An error of FAILURES for a message: in one line, printable, without the secrets."""
    if isinstance(error, EOFError):
        return "the server closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    text = redact(printable(text.encode("latin-1", "replace")), credential.secrets)
    return text if len(text) <= 200 else text[:200] + "…"
