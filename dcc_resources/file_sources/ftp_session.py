"""A control connection to an FTP server, logged in: ftplib, with time limits and names as bytes.

Text is Latin-1 here, in which every byte is a character: so names in any encoding pass through unharmed.
"""

# ruff: noqa: S321 - FTP is what some centres offer; ftps is the protocol to choose where there is a choice.

from __future__ import annotations

import contextlib
import ftplib
import re
import socket
import ssl
from collections.abc import Iterator

from dcc_resources.errors import (
    LoginRefusedError,
    SourceError,
    SourceTimeoutError,
    SourceUnreachableError,
)
from dcc_resources.file_sources.access import Credential, Endpoint
from dcc_resources.file_sources.base import SourceAddress
from dcc_resources.file_sources.certificates import ServerCertificates, unverified_context
from dcc_resources.file_sources.ftp_listing import parse_time
from dcc_resources.file_sources.remote_names import printable
from dcc_resources.file_sources.sockets import open_socket, shut_down, time_limit
from dcc_resources.redaction import redact
from dcc_resources.settings import Settings

_BLOCK = 256 * 1024
_MAX_LINE = 16 * 1024

LONGEST_REPLY = 64 * 1024
"""Characters of one reply on the control connection, all its lines together."""

FAILURES = (*ftplib.all_errors, ValueError)
"""What ftplib raises when a server breaks off, refuses, or answers with rubbish."""


class FtpSession(ftplib.FTP_TLS):
    """ftplib's client over a socket of ours; with TLS if it has `certificates` and `auth` is called.

    Raises what ftplib raises (FAILURES), and CertificateChangedError.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        control: socket.socket,
        settings: Settings,
        certificates: ServerCertificates | None,
    ) -> None:
        super().__init__(context=None if certificates is None else certificates.context, encoding="latin-1")
        self._certificates = certificates
        self.host, self.port = endpoint
        self.sock = control
        self.af = control.family
        self.file = control.makefile("r", encoding=self.encoding)
        # The data connection's, while it is being made; `idle` is that of both once they are.
        self.timeout = settings.connect_timeout
        self._idle = settings.idle_timeout
        control.settimeout(settings.idle_timeout)
        control.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.data: socket.socket | None = None
        self._type: str | None = None
        self.features: frozenset[str] = frozenset()

    def getmultiline(self) -> str:
        """A reply, whose lines may go on without end."""
        lines = [self.getline()]
        if lines[0][3:4] != "-":
            return lines[0]
        code, length = lines[0][:3], 0
        while not lines[1:] or lines[-1][:3] != code or lines[-1][3:4] == "-":
            lines.append(self.getline())
            length += len(lines[-1]) + 1
            if length > LONGEST_REPLY:
                raise ftplib.error_proto(f"its reply is longer than {LONGEST_REPLY:,} characters")
        return "\n".join(lines)

    def use_type(self, kind: str) -> None:
        """Have what is transferred come as text (`A`) or as it is (`I`); that it does already costs no round trip."""
        if self._type != kind:
            self._type = None
            self.voidcmd(f"TYPE {kind}")
            self._type = kind

    def begin_tls(self) -> None:
        """Encrypt the control connection, and see that the server is the right one."""
        self.auth()
        if self._certificates is not None and isinstance(self.sock, ssl.SSLSocket):
            self._certificates.check(self.sock)

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        """As ftplib's, but the data connection takes up the TLS session of the control connection.

        Servers ask for that so that nobody else can take the data (vsftpd's `require_ssl_reuse`); and the server must
        show the certificate of the control connection, so that nobody else can send them.
        """
        connection, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        self.data = connection
        if isinstance(self.sock, ssl.SSLSocket):
            connection = self.data = self.context.wrap_socket(
                connection, server_hostname=self.host, session=self.sock.session
            )
            if self._certificates is not None:
                self._certificates.check_same(connection, self.sock)
        connection.settimeout(self._idle)
        return connection, size

    def lines(self, command: str) -> Iterator[bytes]:
        """The lines, without their ends, that a listing command sends; raises FAILURES unless the server ends well."""
        with self.transfercmd(command) as connection, connection.makefile("rb") as file:
            while line := file.readline(_MAX_LINE + 1):
                if len(line) > _MAX_LINE:
                    raise ftplib.error_proto("a line is too long")
                yield line.rstrip(b"\r\n")
        reply = self.voidresp()
        if "failed to open directory" in reply.lower():
            # vsftpd reports a directory that it may not read as an empty one.
            raise ftplib.error_perm(reply)

    def blocks(self, path: str, offset: int) -> Iterator[bytes]:
        """The bytes of a file from `offset` on, until the server ends; raises FAILURES unless it ends well."""
        skip = 0
        self.use_type("I")
        try:
            connection = self.transfercmd(f"RETR {path}", offset or None)
        except (ftplib.error_perm, ftplib.error_reply) as error:
            if offset == 0 or str(error).startswith("550"):
                raise
            # A server without REST sends the file from its beginning.
            connection, skip = self.transfercmd(f"RETR {path}"), offset
        with connection:
            while block := connection.recv(_BLOCK):
                kept = block[skip:]
                skip -= len(block) - len(kept)
                if kept:
                    yield kept
        self.voidresp()

    def size_of(self, path: str) -> int | None:
        """Size of a regular file, links followed; None if there is none."""
        with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
            self.use_type("I")
            return self.size(path)
        return None

    def time_of(self, path: str) -> int | None:
        """When a file was modified, in seconds since 1970; None if the server does not tell."""
        with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
            return parse_time(self.voidcmd(f"MDTM {path}")[4:].strip())
        return None

    def learn_features(self) -> None:
        """Ask the server what it can do, and to speak UTF-8."""
        with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
            answer = self.sendcmd("FEAT")
            self.features = frozenset(line.split()[0].upper() for line in answer.splitlines()[1:-1] if line.split())
        if "UTF8" in self.features:
            with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
                self.sendcmd("OPTS UTF8 ON")

    def interrupt(self) -> None:
        """Make whatever another thread is waiting for fail."""
        shut_down(self.data)
        shut_down(self.sock)

    def abandon(self) -> None:
        """Close everything at once, without a word to the server: it may not be listening."""
        self.interrupt()
        if self.data is not None:
            self.data.close()
        with contextlib.suppress(OSError):
            self.close()


def open_session(
    address: SourceAddress, settings: Settings, endpoint: Endpoint, credential: Credential, *, tls: bool
) -> FtpSession:
    """Connect to a server and log in, anonymously if there is no user name.

    Raises SourceTimeoutError, SourceUnreachableError, CertificateRefusedError and LoginRefusedError, and
    ConfigurationError if the certificate authorities cannot be read; no message holds the password.
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
        # Of ftplib's errors only the text of the server is of use, and that may repeat the password.
        raise raised from (None if isinstance(error, ftplib.Error) else error)
    return session


def _shown_certificate(label: str, endpoint: Endpoint, settings: Settings) -> bytes | None:
    """The certificate that the server shows, unverified, over a connection of its own; None if it shows none."""
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
            f"{label}: the server did not complete {step} within {settings.login_timeout:g} seconds. Check that the "
            "port is that of its FTP server; DCC_LOGIN_TIMEOUT sets the limit."
        )
    if not isinstance(error, FAILURES):
        return None
    reason = describe(error, credential)
    if isinstance(error, ftplib.error_perm) and step == "the login":
        return LoginRefusedError(
            f"{label}: the server refused the login of {address.username or 'anonymous'!r} ({reason}). "
            "Check the user name and password."
        )
    advice = "Check that the server offers explicit TLS." if step == "the TLS handshake" else "Try again later."
    return SourceUnreachableError(f"{label}: {step} failed ({reason}). {advice}")


def describe(error: BaseException, credential: Credential) -> str:
    """What one of FAILURES says, fit for a message: in one line, printable, without the secrets."""
    if isinstance(error, EOFError):
        return "the server closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    text = redact(printable(text.encode("latin-1", "replace")), credential.secrets)
    return text if len(text) <= 200 else text[:200] + "…"
