"""A connection to a web server: the standard library's HTTP client over a socket with time limits.

One request at a time; the connection is kept for the next one if the server permits it. Proxies of the environment are
not used, as for the other protocols. Redirects are followed only within the same server, because another one would get
the user name and password.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote, urljoin, urlsplit

from pydantic import SecretStr

from dcc.errors import SourceError, SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark, message
from dcc.redaction import keep_secret, redact
from dcc.runtime.time_limits import time_limit
from dcc.settings import Settings
from dcc.settings.hosts import WEB_PORTS
from dcc.sources.access import Credential, Endpoint
from dcc.sources.certificates import ServerCertificates, unverified_context
from dcc.sources.remote_names import printable
from dcc.sources.request_turns import turn_of
from dcc.sources.sockets import open_socket, shut_down

FAILURES = (http.client.HTTPException, OSError, ValueError)
"""Exceptions of the client if a server breaks off, refuses, or answers with rubbish."""

REDIRECTS = (301, 302, 303, 307, 308)
_BLOCK = 256 * 1024
_MAX_REDIRECTS = 5
_PATH_CHARACTERS = "/%!$&'()*+,;=:@~"


class UnusableAnswerError(http.client.HTTPException):
    """The server's answer cannot be used; the message says why, without secrets."""

    def __init__(self, text: str, **details: object) -> None:
        self.translatable = message(text, **details)
        super().__init__(str(self.translatable))


@dataclass(frozen=True, slots=True)
class Site:
    """A web server as one source uses it. `certificates` is for https; `credential` has the password, if any."""

    label: Message | str
    scheme: str
    endpoint: Endpoint
    username: str
    credential: Credential = field(repr=False)
    certificates: ServerCertificates | None = None

    @property
    def authorization(self) -> SecretStr | None:
        """The header of basic authentication (RFC 7617, in UTF-8); None without user name and password."""
        if not self.username and self.credential.password is None:
            return None
        password = self.credential.password.get_secret_value() if self.credential.password is not None else ""
        proof = base64.b64encode(f"{self.username}:{password}".encode()).decode("ascii")
        keep_secret(proof if password else None)
        return SecretStr(f"Basic {proof}")

    def resolve(self, target: str, link: str) -> str | None:
        """The target (path and query) of a link found at `target`; None if it leads to another server."""
        parts = urlsplit(urljoin(f"{self.origin}{target}", link))
        port = parts.port or WEB_PORTS.get(parts.scheme)
        if (parts.scheme, parts.hostname, port) != (self.scheme, self.endpoint.host.lower(), self.endpoint.port):
            return None
        path = quote(parts.path or "/", safe=_PATH_CHARACTERS)
        return f"{path}?{quote(parts.query, safe=_PATH_CHARACTERS + '?')}" if parts.query else path

    @property
    def origin(self) -> str:
        """Scheme, host and port as a URL without a path."""
        host = f"[{self.endpoint.host}]" if ":" in self.endpoint.host else self.endpoint.host
        return f"{self.scheme}://{host.lower()}:{self.endpoint.port}"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's answer to one request: its status, its headers, and its target after redirects.

    `length` is that of the body, None if the server does not announce it.
    """

    status: int
    headers: http.client.HTTPMessage
    target: str
    length: int | None
    _client: HttpClient = field(repr=False)
    _response: http.client.HTTPResponse = field(repr=False)

    def blocks(self) -> Iterator[bytes]:
        """The body, in blocks of at most 256 KiB. Raises FAILURES, also if it ends before its length."""
        received = 0
        while block := self._read():
            received += len(block)
            yield block
        if self.length is not None and received < self.length:
            raise http.client.IncompleteRead(b"", self.length - received)
        self._response.close()

    def _read(self) -> bytes:
        # Between the chunks of a chunked body a server may trickle bytes that no read returns.
        with self._client.limit() if self._response.chunked else contextlib.nullcontext():
            return self._response.read1(_BLOCK)

    @property
    def phrase(self) -> str:
        """The status for people: `404 Not Found`."""
        with contextlib.suppress(ValueError):
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        return str(self.status)


class HttpClient:
    """Sends requests to one server; it is connected from the beginning.

    Its constructor raises SourceTimeoutError, SourceUnreachableError and CertificateRefusedError; so may every request,
    which connects again if the server has closed the connection.
    """

    def __init__(self, site: Site, settings: Settings) -> None:
        self._site, self._settings = site, settings
        self._socket: socket.socket | None = None
        self._http: http.client.HTTPConnection | None = None
        self._abandoned = False
        self._await_turn = turn_of(site.endpoint.host, settings)
        self._connect()

    @contextlib.contextmanager
    def ask(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, *, follow: bool = True
    ) -> Iterator[HttpResponse]:
        """Send a request and yield the answer, redirects within the server followed if `follow`. Raises FAILURES.

        An answer whose body is not read to its end costs the connection.
        """
        self._abandoned = False
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._exchange(method, target, headers or {})
            answer = HttpResponse(response.status, response.headers, target, response.length, self, response)
            try:
                if not follow or answer.status not in REDIRECTS:
                    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
                    if encoding not in ("", "identity") and answer.status in (200, 206):
                        raise UnusableAnswerError(mark("it compresses what it sends although it was asked not to"))
                    yield answer
                    return
                target = self._redirected(answer)
            finally:
                if method == "HEAD":
                    response.close()
                elif not response.isclosed():
                    self.close()
        raise UnusableAnswerError(mark("it sent more than {number} redirects"), number=_MAX_REDIRECTS)

    def limit(self, seconds: float | None = None) -> contextlib.AbstractContextManager[None]:
        """Limit the block to `seconds`, by default the limit of idleness. Raises TimeoutError."""
        return time_limit(self._settings.idle_timeout if seconds is None else seconds, self.abandon)

    def abandon(self) -> None:
        """Close the connection at once; a thread that waits for it stops waiting. May be called from another thread."""
        self._abandoned = True
        shut_down(self._socket)

    def close(self) -> None:
        """Close the connection; the next request makes a new one."""
        shut_down(self._socket)
        if self._http is not None:
            self._http.close()
        if self._socket is not None:
            self._socket.close()
        self._http = self._socket = None

    def _connect(self) -> http.client.HTTPConnection:
        site = self._site
        connection = open_socket(site.label, site.endpoint, self._settings.connect_timeout)
        self._socket = connection
        try:
            if site.certificates is not None:
                connection = self._socket = self._encrypted(connection, site.certificates)
            connection.settimeout(self._settings.idle_timeout)
        except BaseException:
            self.close()
            raise
        http_connection = http.client.HTTPConnection(*site.endpoint)
        http_connection.default_port = WEB_PORTS[site.scheme]
        # Otherwise it would connect by itself, with neither time limit nor encryption.
        http_connection.auto_open = 0
        http_connection.sock = connection
        self._http = http_connection
        return http_connection

    def _encrypted(self, plain: socket.socket, certificates: ServerCertificates) -> ssl.SSLSocket:
        site, seconds = self._site, self._settings.login_timeout
        secure = self._begin_tls(plain, certificates.context)
        try:
            with time_limit(seconds, lambda: shut_down(secure)):
                secure.do_handshake()
            certificates.check(secure)
        except BaseException as error:
            secure.close()
            if isinstance(error, ssl.SSLCertVerificationError):
                raise certificates.refused(error, self._shown_certificate) from error
            if isinstance(error, TimeoutError):
                text = mark(
                    "the server did not complete the TLS handshake within {seconds} s. Check that the port is "
                    "that of its web server; DCC_LOGIN_TIMEOUT sets the limit."
                )
                raise SourceTimeoutError(text, source=site.label, seconds=seconds) from error
            if isinstance(error, OSError):
                text = mark("the TLS handshake failed ({reason}). Check that the server speaks https on this port.")
                raise SourceUnreachableError(text, source=site.label, reason=describe(error)) from error
            raise
        return secure

    def _begin_tls(self, plain: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """The socket for a handshake still to be done: until then, only the new socket can be shut down."""
        secure = context.wrap_socket(plain, server_hostname=self._site.endpoint.host, do_handshake_on_connect=False)
        secure.settimeout(self._settings.login_timeout)
        return secure

    def _shown_certificate(self) -> bytes | None:
        site, settings = self._site, self._settings
        with contextlib.suppress(OSError, ValueError, SourceError):
            plain = open_socket(site.label, site.endpoint, settings.connect_timeout)
            with (
                self._begin_tls(plain, unverified_context()) as secure,
                time_limit(settings.login_timeout, lambda: shut_down(secure)),
            ):
                secure.do_handshake()
                return secure.getpeercert(binary_form=True)
        return None

    def _exchange(self, method: str, target: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        kept = self._http
        if kept is None or kept.sock is None:
            self.close()
            return self._send(self._connect(), method, target, headers)
        try:
            return self._send(kept, method, target, headers)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            if self._abandoned:
                raise
            # Servers close idle connections; this request has had no answer yet.
            self.close()
            return self._send(self._connect(), method, target, headers)

    def _send(
        self, connection: http.client.HTTPConnection, method: str, target: str, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        sent = {"User-Agent": "dcc", "Accept-Encoding": "identity", **headers}
        authorization = self._site.authorization
        if authorization is not None:
            sent["Authorization"] = authorization.get_secret_value()
        self._await_turn()
        try:
            with self.limit():
                connection.request(method, target, headers=sent)
                return connection.getresponse()
        except BaseException:
            self.close()
            raise

    def _redirected(self, answer: HttpResponse) -> str:
        location = answer.headers.get("Location")
        if location is None:
            raise UnusableAnswerError(mark("it answered {phrase} without saying where to"), phrase=answer.phrase)
        target = self._site.resolve(answer.target, location)
        if target is None:
            raise UnusableAnswerError(
                mark(
                    "it sends one on to {url}, which is another server and is not followed; if it is the right one, "
                    "correct the file source"
                ),
                url=self._printable_url(urljoin(self._site.origin + answer.target, location)),
            )
        return target

    def _printable_url(self, url: str) -> str:
        """A server's URL for messages: without user, password and query, in printable characters."""
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
        return redact(printable(shown.encode("utf-8", "replace")), self._site.credential.secrets)


def describe(error: BaseException) -> Message:
    """An error of FAILURES, in words without anything that the server sent."""
    if isinstance(error, UnusableAnswerError):
        return error.translatable
    if isinstance(error, http.client.RemoteDisconnected):
        return Message("the server closed the connection")
    if isinstance(error, http.client.IncompleteRead):
        if error.expected:
            text = mark("the server closed the connection in the middle, {number} bytes missing")
            return message(text, number=error.expected)
        return message(mark("the server closed the connection in the middle"))
    if isinstance(error, ssl.SSLError) and error.reason:
        return Message(f"TLS: {error.reason}")
    if isinstance(error, OSError) and error.strerror:
        return Message(error.strerror)
    return message(mark("the server's answer is no HTTP"))
