"""What makes a server's TLS certificate trusted, over https and ftps, and what a server with another one is told."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import TLS_DTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer

from dcc.errors import CertificateChangedError, CertificateRefusedError, ConfigurationError, SourceTimeoutError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.certificates import ServerCertificates, parse_fingerprint, read_authorities
from dcc.sources.connect import connect
from dcc.sources.protocols import SourceProtocol
from tests.support.ports import free_port
from tests.support.servers import Authority, FtpServer
from tests.support.talking_servers import greeting, serving
from tests.support.web_server import WebServer

NAME = "H.2013-10-31.1.impc.zip"
CONTENT = b"an archive"
PASSWORD = "only for the right server"

Served = Callable[..., SourceAddress]


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """The authority that signs, and another one."""
    return Authority(tmp_path_factory.mktemp("right")), Authority(tmp_path_factory.mktemp("wrong"), "Others")


@pytest.fixture(params=["https", pytest.param("ftps", marks=pytest.mark.servers)])
def served(request: pytest.FixtureRequest, tmp_path: Path, servers_folder: Path) -> Iterator[Served]:
    """Serves an archive with a certificate, by our web server and by vsftpd; gives its address."""
    with contextlib.ExitStack() as stack:

        def serve(certificate: Path, **trust: Any) -> SourceAddress:
            root = servers_folder / f"tls-{request.param}-{id(stack)}"
            (root / "add").mkdir(parents=True, exist_ok=True)
            (root / "add" / NAME).write_bytes(CONTENT)
            folder = root / f"server-{free_port()}"
            if request.param == "ftps":
                server = stack.enter_context(FtpServer(folder, root, certificate))
                return source(SourceProtocol.FTPS, server.hostname, **trust)
            web = stack.enter_context(WebServer(root, password=PASSWORD, certificate=certificate))
            return source(SourceProtocol.HTTPS, web.hostname, **trust)

        yield serve


def source(protocol: SourceProtocol, hostname: str, **trust: Any) -> SourceAddress:
    username = "centre" if protocol is SourceProtocol.HTTPS else ""
    return SourceAddress(7, "H", protocol, hostname, username, SecretStr(PASSWORD), "/", **trust)


def fetched(address: SourceAddress, settings: Settings | None = None) -> bytes:
    """List the source and fetch its archive."""
    content = bytearray()
    with connect(address, settings or Settings(connect_timeout=5, login_timeout=5, idle_timeout=5)) as connection:
        assert [file.name for file in connection.list_action(Action.ADD).zips] == [NAME]
        connection.fetch(Action.ADD, NAME, content.extend, size=len(CONTENT))
    return bytes(content)


def fingerprint(certificate: Path) -> str:
    """As an administrator reads it off."""
    shown = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-fingerprint", "-sha256"], capture_output=True, text=True
    )
    return shown.stdout.strip()


def pem(authority: Authority) -> tuple[str, ...]:
    return tuple(one.pem for one in read_authorities(authority.ca_file))


def test_an_unknown_authority_is_refused_with_the_fingerprint_that_the_server_has(
    served: Served, authorities: tuple[Authority, Authority]
) -> None:
    certificate = authorities[0].issue()
    with pytest.raises(CertificateRefusedError) as caught:
        fetched(served(certificate))
    shown = parse_fingerprint(fingerprint(certificate))
    assert f"dcc source change 7 --tls-fingerprint {shown}" in str(caught.value)
    assert "dcc source change 7 --tls-ca FILE" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({}, "unable to get local issuer"),
        ({"self_signed": True}, "self.signed"),
        ({"days": -1}, "expired"),
        ({"host": "other.example"}, "mismatch"),
    ],
)
def test_what_the_authority_of_a_source_does_not_vouch_for_is_refused_unless_it_is_pinned(
    served: Served, authorities: tuple[Authority, Authority], how: dict[str, Any], reason: str
) -> None:
    """A wrong authority, a self-signed, an expired certificate, one for another host."""
    right, wrong = authorities
    certificate = right.issue(**how)
    address = served(certificate, tls_authorities=pem(right if how else wrong))
    with pytest.raises(CertificateRefusedError, match=reason):
        fetched(address)
    pinned = replace(address, tls_authorities=(), tls_fingerprints=(fingerprint(certificate),))
    assert fetched(pinned) == CONTENT


def test_the_authority_of_a_source_counts_in_place_of_all_others_and_agrees_with_a_pinned_certificate(
    served: Served, authorities: tuple[Authority, Authority]
) -> None:
    right, wrong = authorities
    certificate = right.issue()
    address = served(certificate)

    def trusting(*those: Authority, **pinned: Any) -> SourceAddress:
        return replace(address, tls_authorities=tuple(one for each in those for one in pem(each)), **pinned)

    assert fetched(trusting(right)) == CONTENT
    assert fetched(trusting(wrong, right)) == CONTENT
    with pytest.raises(CertificateRefusedError):
        fetched(trusting(wrong), Settings(tls_ca_file=right.ca_file))
    pinned = (fingerprint(certificate),)
    assert fetched(trusting(right, tls_fingerprints=pinned)) == CONTENT
    with pytest.raises(CertificateRefusedError, match="unable to get local issuer"):
        fetched(trusting(wrong, tls_fingerprints=pinned))
    with pytest.raises(CertificateChangedError):
        fetched(trusting(right, tls_fingerprints=("SHA256:" + 32 * "00",)))


def test_a_changed_certificate_is_refused_with_both_fingerprints(
    served: Served, authorities: tuple[Authority, Authority]
) -> None:
    right, _ = authorities
    old, new = right.issue(file_name="old.pem"), right.issue(file_name="new.pem")
    before, after = parse_fingerprint(fingerprint(old)), parse_fingerprint(fingerprint(new))
    address = served(new, tls_fingerprints=(before,))
    with pytest.raises(CertificateChangedError) as caught:
        fetched(address, Settings(tls_ca_file=right.ca_file))
    said = str(caught.value)
    assert f"shows the TLS certificate {after}, but the one accepted is {before}" in said
    assert said.endswith(f"dcc source change 7 --tls-fingerprint {after}")
    assert fetched(replace(address, tls_fingerprints=(before, after))) == CONTENT


def test_a_password_is_sent_to_no_server_with_another_certificate(
    tmp_path: Path, authorities: tuple[Authority, Authority]
) -> None:
    with WebServer(tmp_path, password=PASSWORD, certificate=authorities[0].issue()) as web:
        with pytest.raises(CertificateChangedError):
            fetched(source(SourceProtocol.HTTPS, web.hostname, tls_fingerprints=("00" * 32,)))
        assert web.requests == []


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1")
@pytest.mark.parametrize("way", ["by the system", "by an authority of its own", "by fingerprint"])
def test_versions_of_tls_below_1_2_are_refused_however_openssl_is_set_up(
    tmp_path: Path, authorities: tuple[Authority, Authority], way: str
) -> None:
    right, _ = authorities
    certificate = right.issue()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    old.load_cert_chain(certificate)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    trust: dict[str, Any] = {"by an authority of its own": {"tls_authorities": pem(right)}}.get(way, {})
    trust |= {"tls_fingerprints": (fingerprint(certificate),)} if way == "by fingerprint" else {}
    with WebServer(tmp_path, certificate=old) as web:
        address = source(SourceProtocol.HTTPS, web.hostname, **trust)
        context = ServerCertificates.of_source(address, Settings(tls_ca_file=right.ca_file)).context
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS"):
            agreed_version(context, web)
        # The two agree as soon as the older version is allowed.
        context.minimum_version = ssl.TLSVersion.TLSv1
        assert agreed_version(context, web) == "TLSv1.1"


def agreed_version(context: ssl.SSLContext, web: WebServer) -> str | None:
    plain = socket.create_connection(("127.0.0.1", web.port), timeout=5)
    with plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
        return secure.version()


def test_a_handshake_that_stalls_ends_with_the_limit_of_the_login() -> None:
    def stall(connection: socket.socket) -> None:
        connection.sendall(b"220 Hello\r\n")
        connection.recv(1000)
        greeting(b"234 Begin\r\n")(connection)

    began = time.monotonic()
    with serving(stall) as (hostname, _), pytest.raises(SourceTimeoutError, match="the TLS handshake within 1 s"):
        connect(source(SourceProtocol.FTPS, hostname), Settings(login_timeout=1, idle_timeout=10))
    assert time.monotonic() - began < 5


@contextlib.contextmanager
def ftps_with_two_certificates(root: Path, control: Path, data: Path) -> Iterator[str]:
    """An FTPS server whose transfers come with another certificate, as if somebody sat in their way."""
    import threading

    from OpenSSL import SSL

    def context(certificate: Path) -> SSL.Context:
        made = SSL.Context(SSL.TLS_SERVER_METHOD)
        made.use_certificate_file(str(certificate))
        made.use_privatekey_file(str(certificate))
        return made

    class Data(TLS_DTPHandler):  # type: ignore[misc]
        def secure_connection(self, _context: Any) -> None:
            super().secure_connection(context(data))

    class Handler(TLS_FTPHandler):  # type: ignore[misc]
        dtp_handler = Data
        ssl_context = context(control)
        authorizer = DummyAuthorizer()

    Handler.authorizer.add_anonymous(str(root))
    server = FTPServer(("127.0.0.1", 0), Handler)
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            server.serve_forever(timeout=0.05, blocking=False)
        server.close_all()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.address[1]}"
    finally:
        stopping.set()
        thread.join(5)


def test_transfers_must_show_the_certificate_of_the_login(
    tmp_path: Path, authorities: tuple[Authority, Authority]
) -> None:
    """Also another one that the authority signed for the same host."""
    right, _ = authorities
    first, second = right.issue(file_name="first.pem"), right.issue(file_name="second.pem")
    (tmp_path / "add").mkdir()
    (tmp_path / "add" / NAME).write_bytes(CONTENT)
    trusts: list[dict[str, Any]] = [{"tls_authorities": pem(right)}, {"tls_fingerprints": (fingerprint(first),)}]
    with ftps_with_two_certificates(tmp_path, first, first) as hostname:
        for trust in trusts:
            assert fetched(source(SourceProtocol.FTPS, hostname, **trust)) == CONTENT
    with ftps_with_two_certificates(tmp_path, first, second) as hostname:
        for trust in trusts:
            with pytest.raises(CertificateChangedError, match="where it transfers files"):
                fetched(source(SourceProtocol.FTPS, hostname, **trust))


def test_a_file_without_usable_certificates_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_authorities(path)
    certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    for content, reason in (
        (b"", "0 certificates"),
        (certificate, "damaged"),
        (b"\xff\x00", "0 certificates"),
        (certificate * 21, "21 certificates"),
    ):
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=reason):
            read_authorities(path)
