"""A control connection to an FTP server, logged in: ftplib, with time limits and names as bytes; what listings say.

Text is Latin-1 here, in which every byte is a character: so names in any encoding pass through unharmed. MLSD is RFC
3659's. LIST has no standard: servers imitate `ls -l` or MS-DOS's `dir`.
"""

# ruff: noqa: S321 - FTP is what some centres offer; ftps is the protocol to choose where there is a choice.

from __future__ import annotations

import contextlib
import ftplib
import re
import socket
import ssl
from collections.abc import Iterator
from datetime import datetime

from dcc.errors import LoginRefusedError, SourceError, SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark
from dcc.redaction import redact
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.sources.access import Credential, Endpoint
from dcc.sources.base import SourceAddress
from dcc.sources.certificates import ServerCertificates, unverified_context
from dcc.sources.listing import Entry, EntryKind
from dcc.sources.platform_connection import LOGIN_REFUSED
from dcc.sources.remote_names import printable
from dcc.sources.request_turns import turn_of
from dcc.sources.sockets import open_socket, shut_down

_UNIX = re.compile(
    rb"(?P<kind>[-a-zA-Z])[-rwxsStTlL]{9}[.+@]?\s+"
    rb"\d+\s+"
    rb"(?:\S+\s+){1,6}?"
    rb"(?P<size>\d+|\d+,\s*\d+)\s+"
    rb"(?:[^\s\d]\S*\s+\d{1,2}|\d{1,2}\.?\s+[^\s\d]\S*|\d{4}-\d\d-\d\d)\s+(?:\d{1,2}:\d\d(?::\d\d)?|\d{4}) "
    rb"(?P<name>.+)",
    re.DOTALL,
)
_DOS = re.compile(
    rb"\d\d-\d\d-(?:\d\d|\d{4})\s+\d\d:\d\d(?:[AP]M)?\s+(?:(?P<directory><[A-Z]+>)|(?P<size>[\d,.]+))\s+(?P<name>.+)",
    re.DOTALL,
)
_TIME = re.compile(r"[0-9]{14}(\.[0-9]+)?")
_TOTAL = re.compile(rb"\w+ +\d+\s*")
_UNIX_KINDS = {b"-": EntryKind.FILE, b"d": EntryKind.DIRECTORY, b"l": EntryKind.LINK}
_MLSD_KINDS = {b"file": EntryKind.FILE, b"dir": EntryKind.DIRECTORY, b"cdir": EntryKind.DIRECTORY}


def parse_mlsd_line(line: bytes) -> Entry | None:
    """An entry from a line of MLSD; None for the directory itself and its parent. Raises ValueError."""
    head, _, name = line.partition(b" ")
    facts = {key.lower(): value for key, _, value in (fact.partition(b"=") for fact in head.split(b";"))}
    if not name:
        raise ValueError(f"a line of MLSD has no name: {printable(line)}")
    kind = facts.get(b"type", b"file").lower()
    if kind in (b"cdir", b"pdir"):
        return None
    if kind.startswith((b"os.unix=slink", b"os.unix=symlink", b"os.unix=link")):
        return Entry(name, EntryKind.LINK)
    size = facts.get(b"size", b"")
    return Entry(
        name,
        _MLSD_KINDS.get(kind, EntryKind.OTHER),
        int(size) if size.isdigit() else None,
        parse_time(facts.get(b"modify", b"").decode("ascii", "replace")),
    )


def parse_list_line(line: bytes) -> Entry | None:
    """An entry from a line of LIST, without its time, which is too coarse to be of use; None for a total.

    Raises ValueError for a line of another form, because ignoring it could lose an archive.
    """
    if not line or _TOTAL.fullmatch(line):
        return None
    match = _UNIX.fullmatch(line)
    if match is not None:
        kind = _UNIX_KINDS.get(match["kind"], EntryKind.OTHER)
        if kind is EntryKind.LINK:
            return Entry(match["name"].partition(b" -> ")[0], kind)
        return Entry(match["name"], kind, int(match["size"]) if match["size"].isdigit() else None)
    match = _DOS.fullmatch(line)
    if match is None:
        raise ValueError(f"a line of LIST has an unknown form: {printable(line)}")
    if match["directory"]:
        return Entry(match["name"], EntryKind.DIRECTORY if match["directory"] == b"<DIR>" else EntryKind.OTHER)
    return Entry(match["name"], EntryKind.FILE, int(match["size"].replace(b",", b"").replace(b".", b"")))


def parse_time(text: str) -> int | None:
    """Seconds since 1970 from `YYYYMMDDHHMMSS[.sss]`, which is UTC (RFC 3659 section 2.3); None for anything else."""
    with contextlib.suppress(ValueError):
        if _TIME.fullmatch(text):
            return int(datetime.fromisoformat(f"{text[:8]}T{text[8:14]}+00:00").timestamp())
    return None


_BLOCK = 1024 * 1024
_MAX_LINE = 16 * 1024
_MAX_HEARD = 8 * 1024

LONGEST_REPLY = 64 * 1024
FAILURES = (*ftplib.all_errors, ValueError)
"""Exceptions of ftplib if a server breaks off, refuses, or answers with rubbish."""


class FtpSession(ftplib.FTP_TLS):
    """ftplib's client over a socket with time limits; with TLS if it has `certificates` and `auth` is called.

    Raises as ftplib (FAILURES), and CertificateChangedError.
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
        self._peer = control.getpeername()
        self._heard = b""
        # The data connection's, while it is being made; `idle` is that of both afterwards.
        self.timeout = settings.connect_timeout
        self._idle = settings.idle_timeout
        control.settimeout(settings.idle_timeout)
        control.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.data: socket.socket | None = None
        self._type: str | None = None
        self._block: memoryview | None = None
        self.features: frozenset[str] = frozenset()
        self._await_turn = turn_of(endpoint.host, settings)

    def putcmd(self, line: str) -> None:
        """Send a command in its turn."""
        self._await_turn()
        super().putcmd(line)

    def getline(self) -> str:
        """The next line of a reply, without its end: ftplib's reading through a text file takes five times as long."""
        while (end := self._heard.find(b"\n")) < 0:
            if len(self._heard) > self.maxline:
                raise ftplib.error_proto(f"a line of its reply is longer than {self.maxline:,} characters")
            # None after another thread has closed it.
            more = b"" if self.sock is None else self.sock.recv(_MAX_HEARD)
            if not more:
                raise EOFError
            self._heard += more
        line, self._heard = self._heard[:end], self._heard[end + 1 :]
        return line.rstrip(b"\r").decode(self.encoding)

    def getmultiline(self) -> str:
        """A reply, whose lines could go on without end."""
        lines = [self.getline()]
        if lines[0][3:4] != "-":
            return lines[0]
        code, length = lines[0][:3], 0
        while lines[-1][:3] != code or lines[-1][3:4] == "-":
            lines.append(self.getline())
            length += len(lines[-1]) + 1
            if length > LONGEST_REPLY:
                raise ftplib.error_proto(f"its reply is longer than {LONGEST_REPLY:,} characters")
        return "\n".join(lines)

    def use_type(self, kind: str) -> None:
        """Set the type of transfers to text (`A`) or binary (`I`); no request if it is set already."""
        if self._type != kind:
            self.voidcmd(f"TYPE {kind}")
            self._type = kind

    def auth(self) -> str:
        """As ftplib's, but `interrupt` ends the handshake, too: the former socket cannot be shut down any more."""
        reply = self.voidcmd("AUTH TLS")
        if self.sock is None:
            raise EOFError
        wrap = self.context.wrap_socket
        secure = self.sock = wrap(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        secure.do_handshake()
        return reply

    def begin_tls(self) -> None:
        """Encrypt the control connection, and check that the server is the right one."""
        self.auth()
        # Earlier data may be anybody's.
        self._heard = b""
        if self._certificates is not None and isinstance(self.sock, ssl.SSLSocket):
            self._certificates.check(self.sock)

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, None]:
        """As ftplib's, but the data connection resumes the TLS session of the control connection; never returns a size.

        Servers require that so that nobody else can take the data (vsftpd's `require_ssl_reuse`). The server must also
        show the certificate of the control connection, so that nobody else can send them.
        """
        self.data = connection = self._connected_data()
        try:
            if rest is not None:
                self.sendcmd(f"REST {rest}")
            reply = self.sendcmd(cmd)
            if reply.startswith("2"):
                # Some servers send this before the reply that RFC 959 wants.
                reply = self.getresp()
            if not reply.startswith("1"):
                raise ftplib.error_reply(reply)
            if isinstance(self.sock, ssl.SSLSocket):
                connection = self.data = self._secured(connection, self.sock)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(self._idle)
        return connection, None

    def _connected_data(self) -> socket.socket:
        """A connection to the server's data port, on its own host, whatever host it names."""
        if self.af == socket.AF_INET:
            _, port = ftplib.parse227(self.sendcmd("PASV"))
        else:
            _, port = ftplib.parse229(self.sendcmd("EPSV"), self._peer)
        connection = socket.socket(self.af, socket.SOCK_STREAM)
        try:
            connection.settimeout(self.timeout)
            connection.connect((self._peer[0], port, *self._peer[2:]))
        except BaseException:
            connection.close()
            raise
        return connection

    def _secured(self, connection: socket.socket, control: ssl.SSLSocket) -> ssl.SSLSocket:
        secure = self.context.wrap_socket(connection, server_hostname=self.host, session=control.session)
        try:
            if self._certificates is not None:
                self._certificates.check_same(secure, control)
        except BaseException:
            secure.close()
            raise
        return secure

    def lines(self, command: str) -> Iterator[bytes]:
        """The lines of a listing command, without their ends; raises FAILURES unless the server ends well."""
        with self.transfercmd(command) as connection, connection.makefile("rb") as file:
            while line := file.readline(_MAX_LINE + 1):
                if len(line) > _MAX_LINE:
                    raise ftplib.error_proto("a line is too long")
                yield line.rstrip(b"\r\n")
        reply = self.voidresp()
        if "failed to open directory" in reply.lower():
            # vsftpd reports a directory that it may not read as an empty one.
            raise ftplib.error_perm(reply)

    def blocks(self, path: str, offset: int) -> Iterator[memoryview]:
        """The bytes of a file from `offset` on, until the server ends; raises FAILURES unless it ends well.

        Each block of at most 1 MiB is valid until the next is requested, which uses the same memory.
        """
        skip = 0
        self.use_type("I")
        try:
            connection = self.transfercmd(f"RETR {path}", offset or None)
        except (ftplib.error_perm, ftplib.error_reply) as error:
            if offset == 0 or str(error).startswith("550"):
                raise
            # A server without REST sends the file from its beginning.
            connection, skip = self.transfercmd(f"RETR {path}"), offset
        if self._block is None:
            self._block = memoryview(bytearray(_BLOCK))
        block = self._block
        with connection:
            while count := connection.recv_into(block):
                if skip < count:
                    yield block[skip:count]
                skip = max(skip - count, 0)
        self.voidresp()

    def size_of(self, path: str) -> int | None:
        """The size of a regular file, links followed; None if there is none."""
        with _nothing_told():
            self.use_type("I")
            return self.size(path)
        return None

    def time_of(self, path: str) -> int | None:
        """The time of a file's last change, in seconds since 1970; None if unknown."""
        with _nothing_told():
            return parse_time(self.voidcmd(f"MDTM {path}")[4:].strip())
        return None

    def learn_features(self) -> None:
        """Ask for the server's features, and for UTF-8."""
        with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
            answer = self.sendcmd("FEAT")
            self.features = frozenset(line.split()[0].upper() for line in answer.splitlines()[1:-1] if line.split())
        if "UTF8" in self.features:
            with contextlib.suppress(ftplib.error_perm, ftplib.error_reply):
                self.sendcmd("OPTS UTF8 ON")

    def interrupt(self) -> None:
        """Make a wait of another thread fail."""
        shut_down(self.data)
        shut_down(self.sock)

    def abandon(self) -> None:
        """Close everything at once, without a word to the server: it may not be listening."""
        self.interrupt()
        if self.data is not None:
            self.data.close()
        with contextlib.suppress(OSError):
            self.close()


@contextlib.contextmanager
def _nothing_told() -> Iterator[None]:
    """Continue after a refusal about one file; but raise one with which the server ends the session."""
    try:
        yield
    except (ftplib.error_perm, ftplib.error_reply):
        pass
    except ftplib.error_temp as error:
        # A file that disappears, or is locked, meanwhile must not fail the listing of the others.
        if str(error).startswith("421"):
            raise


def open_ftp_session(
    address: SourceAddress, settings: Settings, endpoint: Endpoint, credential: Credential
) -> FtpSession:
    """Connect to a server and log in, anonymously without a user name; over TLS if the protocol uses it.

    Raises SourceTimeoutError, SourceUnreachableError, CertificateRefusedError and LoginRefusedError, and
    ConfigurationError if the certificate authorities cannot be read; no message contains the password.
    """
    label = address.label
    certificates = ServerCertificates.of_source(address, settings) if address.traits.uses_tls else None
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
            if certificates is not None:
                step = "the TLS handshake"
                session.begin_tls()
            step = "the login"
            _log_in(session, address, credential)
            if certificates is not None:
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


def _shown_certificate(label: Message | str, endpoint: Endpoint, settings: Settings) -> bytes | None:
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
        text = mark(
            "the server did not complete {step} within {login_timeout} s. Check that the port is that of its FTP "
            "server; DCC_LOGIN_TIMEOUT sets the limit."
        )
        return SourceTimeoutError(text, source=label, step=Message(step), login_timeout=settings.login_timeout)
    if not isinstance(error, FAILURES):
        return None
    reason = Message(describe(error, credential))
    if isinstance(error, ftplib.error_perm) and step == "the login":
        return LoginRefusedError(LOGIN_REFUSED, source=label, username=address.username or "anonymous", reason=reason)
    advice = Message(
        "Check that the server offers explicit TLS." if step == "the TLS handshake" else "Try again later."
    )
    text = mark("{step} failed ({reason}). {advice}")
    return SourceUnreachableError(text, source=label, step=Message(step), reason=reason, advice=advice)


def describe(error: BaseException, credential: Credential) -> str:
    """An error of FAILURES for a message: in one line, printable, without the secrets."""
    if isinstance(error, EOFError):
        return "the server closed the connection"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    text = redact(printable(text.encode("latin-1", "replace")), credential.secrets)
    return text if len(text) <= 200 else text[:200] + "…"
