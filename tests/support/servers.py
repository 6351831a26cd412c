"""Fixtures: real file servers on loopback, of OpenSSH and vsftpd, and the machinery for breaking them.

`sftp_server`, `ftp_server` and `ftps_server` give a `Share`: an empty folder of the test's own that a server serves,
and its address. The processes behind them live as long as the test run. Where a server is not installed the test is
skipped, or fails if CI=true. Faults are in tests/support/faulty_servers.py: `faulty_ftp_server`,
`password_sftp_server` and `cutting_proxy` are fixtures too.
"""

import datetime
import ipaddress
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import SecretStr
from sqlalchemy import Engine

from benchmarks.circumstances import program
from benchmarks.servers import OpenSsh, Vsftpd
from dcc.settings import Settings, load_settings
from dcc.sources.base import SourceAddress
from dcc.sources.host_keys import HostKey
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.register import file_sources
from tests.support.asking import in_writing
from tests.support.faulty_servers import CuttingProxy, FaultyFtpServer, PasswordSftpServer
from tests.support.ports import free_port

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Share:
    """A folder that a server serves: what the tests put below `root` is at `base_path` of the server."""

    root: Path
    protocol: SourceProtocol
    hostname: str
    username: str = ""
    accesskey: str = ""
    base_path: str = ""
    host_keys: tuple[str, ...] = ()
    ca_file: Path | None = None

    def address(self, **changes: Any) -> SourceAddress:
        """The share as a file source, number 1 of centre H unless `changes` says otherwise."""
        place = (self.hostname, self.username, SecretStr(self.accesskey), self.base_path)
        return replace(SourceAddress(1, "H", self.protocol, *place, host_keys=self.host_keys), **changes)

    def put(self, key: str, content: bytes = b"an archive", modified: int = 1_400_000_000) -> Path:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (modified, modified))
        return path


def add_pinned(tracker: Engine, address: SourceAddress) -> int:
    """Register a file source, its host keys pinned; its id."""
    keys = [HostKey.parse(line) for line in address.host_keys]
    return in_writing(tracker, file_sources.add_source, address, keys)


def server_program(name: str) -> str:
    """Path of an installed server; skips the test if there is none, or fails it if CI=true."""
    try:
        return program(name)
    except FileNotFoundError:
        unavailable(f"{name} is not installed. Run .ci/install-servers.")


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it if CI=true: something that it needs is not on this machine."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class SftpServer(OpenSsh):
    """OpenSSH's sshd."""

    def __init__(self, folder: Path, *options: str) -> None:
        for name in ("sshd", "ssh-keygen"):
            server_program(name)
        super().__init__(folder, *options, port=free_port())


class FtpServer(Vsftpd):
    """vsftpd, which must be started by root."""

    def __init__(
        self, folder: Path, root: Path, certificate: Path | None = None, ports: Sequence[int] | None = None
    ) -> None:
        if os.geteuid() != 0:
            unavailable("vsftpd needs root.")
        server_program("vsftpd")
        super().__init__(folder, root, certificate, ports or [free_port()])


class Authority:
    """A certificate authority of the tests' own; its certificate is in `ca_file`."""

    def __init__(self, folder: Path, name: str = "Tests' authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._folder = folder
        certificate = (
            self._begin(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, host: str = _LOOPBACK, *, file_name: str = "", days: int = 2, self_signed: bool = False) -> Path:
        """A file with a key and a certificate for a host name or address, valid for so many days to come.

        With `days` below 0 it has expired; `self_signed`: by its own key, and not by this authority.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name: x509.GeneralName
        try:
            name = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
        certificate = (
            self._begin(subject, key, days, issuer=subject if self_signed else self._name)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .sign(key if self_signed else self._key, hashes.SHA256())
        )
        path = self._folder / (file_name or f"{host}.pem")
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return path

    def _begin(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 2, issuer: x509.Name | None = None
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """A folder for the servers' own files. Not pytest's: vsftpd's anonymous user must reach what is below it."""
    folder = Path(tempfile.mkdtemp(prefix="dcc-servers-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def served_root(servers_folder: Path) -> Path:
    """The folder that all servers serve; each test has a folder of its own below it."""
    root = servers_folder / "served"
    root.mkdir()
    return root


@pytest.fixture
def served_folder(served_root: Path) -> Iterator[Path]:
    """An empty folder of the test's own below `served_root`."""
    folder = Path(tempfile.mkdtemp(prefix="base-", dir=served_root))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def authority(servers_folder: Path) -> Authority:
    """The authority that signs the FTPS server's certificate."""
    return Authority(servers_folder)


@pytest.fixture(scope="session")
def openssh(servers_folder: Path) -> Iterator[SftpServer]:
    with SftpServer(servers_folder / "sshd") as server:
        yield server


@pytest.fixture(scope="session")
def vsftpd(servers_folder: Path, served_root: Path) -> Iterator[FtpServer]:
    with FtpServer(servers_folder / "ftp", served_root) as server:
        yield server


@pytest.fixture(scope="session")
def vsftpd_tls(servers_folder: Path, served_root: Path, authority: Authority) -> Iterator[FtpServer]:
    with FtpServer(servers_folder / "ftps", served_root, authority.issue()) as server:
        yield server


@pytest.fixture
def sftp_server(openssh: SftpServer, served_folder: Path) -> Share:
    """A folder served by OpenSSH, with a key to log in."""
    return Share(served_folder, SourceProtocol.SFTP, openssh.hostname, base_path=str(served_folder), **openssh.login)


@pytest.fixture
def ftp_server(vsftpd: FtpServer, served_folder: Path) -> Share:
    """A folder served by vsftpd, anonymously."""
    return Share(served_folder, SourceProtocol.FTP, vsftpd.hostname, base_path=f"/{served_folder.name}")


@pytest.fixture
def ftps_server(vsftpd_tls: FtpServer, served_folder: Path, authority: Authority) -> Share:
    """A folder served by vsftpd with TLS, anonymously. Settings need `tls_ca_file=share.ca_file`."""
    return Share(
        served_folder,
        SourceProtocol.FTPS,
        vsftpd_tls.hostname,
        base_path=f"/{served_folder.name}",
        ca_file=authority.ca_file,
    )


@pytest.fixture
def local_folder(served_folder: Path) -> Share:
    """A folder as a file source of its own."""
    return Share(served_folder, SourceProtocol.FILE, "localhost", base_path=str(served_folder))


@pytest.fixture
def faulty_ftp_server(served_folder: Path) -> Iterator[Callable[..., Share]]:
    """Starts a pyftpdlib server on the test's folder: `faulty_ftp_server(cut_after=1000)`; see FaultyFtpServer."""
    with ExitStack() as stack:

        def start(**faults: Any) -> Share:
            server = stack.enter_context(FaultyFtpServer(served_folder, **faults))
            return Share(
                served_folder, SourceProtocol.FTP, server.hostname, username=server.username, accesskey=server.password
            )

        yield start


@pytest.fixture
def password_sftp_server(served_folder: Path) -> Iterator[Callable[..., Share]]:
    """Starts an asyncssh server with password login on the test's folder; see PasswordSftpServer."""
    with ExitStack() as stack:

        def start(**options: Any) -> Share:
            server = stack.enter_context(PasswordSftpServer(served_folder, **options))
            return Share(
                served_folder,
                SourceProtocol.SFTP,
                server.hostname,
                username=server.username,
                accesskey=server.password,
                host_keys=(server.host_key,),
            )

        yield start


@pytest.fixture
def cutting_proxy() -> Iterator[Callable[..., Share]]:
    """Puts a proxy with faults before a share: `cutting_proxy(sftp_server, cut_after=1000)`; see CuttingProxy."""
    with ExitStack() as stack:

        def start(share: Share, **faults: Any) -> Share:
            proxy = stack.enter_context(CuttingProxy(share.hostname, **faults))
            return replace(share, hostname=proxy.hostname)

        yield start


@pytest.fixture
def source_settings(tmp_path: Path, authority: Authority) -> Settings:
    """Settings that trust the FTPS server's authority, with time limits that a busy machine keeps."""
    return load_settings(
        home=tmp_path,
        connect_timeout=20,
        login_timeout=20,
        list_timeout=60,
        idle_timeout=20,
        tls_ca_file=authority.ca_file,
    )


KINDS_OF_SERVERS = ["sftp_server", "ftp_server", "local_folder", "web_folder"]
"""Fixtures: a share for each kind of protocol. `any_share` has further servers of some."""
FILE_SERVERS = ["sftp_server", "ftp_server", "ftps_server", "faulty_ftp_server", "local_folder"]


@pytest.fixture(params=[*FILE_SERVERS, "web_folder"])
def any_share(request: pytest.FixtureRequest) -> Share:
    """A folder, served by each of the servers in turn: with and without TLS, with and without MLSD."""
    found = request.getfixturevalue(request.param)
    share: Share = found if isinstance(found, Share) else found()
    return share
