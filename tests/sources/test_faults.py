"""File sources that are down, slow, refuse, or lie: each ends within its time limits in the right error."""

import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from dcc.errors import (
    ListingFailedError,
    LoginRefusedError,
    SourceError,
    SourceMisconfiguredError,
    SourceTimeoutError,
    SourceUnreachableError,
    TransferFailedError,
)
from dcc.naming import Action
from dcc.reports.languages import load_catalogue
from dcc.settings import Settings
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.sources.listing import Entry
from dcc.sources.protocols import SourceProtocol
from dcc.sources.sftp.source import SftpConnection
from tests.support.ports import free_port
from tests.support.served_sources import fetched, list_add
from tests.support.servers import Share
from tests.support.talking_servers import greeting, serving

pytestmark = pytest.mark.servers

NAME = "H.2013-10-31.1.impc.zip"
SIZE = 2_000_000
REMOTE = [SourceProtocol.SFTP, SourceProtocol.FTP, SourceProtocol.FTPS]


@pytest.fixture
def impatient(source_settings: Settings) -> Settings:
    """Settings that give a transfer up after a second without a byte."""
    return source_settings.model_copy(update={"idle_timeout": 1.0})


def address_of(protocol: SourceProtocol, hostname: str, **changes: object) -> SourceAddress:
    fields = {"username": "user", "accesskey": SecretStr("hunter2 hunter2"), "base_path": "", **changes}
    return SourceAddress(id=7, centre="H", protocol=protocol, hostname=hostname, **fields)  # type: ignore[arg-type]


def fetch(address: SourceAddress, settings: Settings, offset: int = 0, size: int = SIZE) -> tuple[bytes, Exception]:
    """Fetch a file; what arrived before the error, and the error."""
    received = bytearray()
    with connect(address, settings) as connection, pytest.raises(SourceError) as caught:
        connection.fetch(Action.ADD, NAME, received.extend, size=size, offset=offset)
    return bytes(received), caught.value


def fetch_all(address: SourceAddress, settings: Settings, size: int = SIZE) -> bytes:
    with connect(address, settings) as connection:
        return fetched(connection, NAME, size)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@contextmanager
def refusing() -> Iterator[str]:
    yield f"127.0.0.1:{free_port()}"


@contextmanager
def unknown() -> Iterator[str]:
    yield "no.such.host.invalid"


@contextmanager
def busy() -> Iterator[str]:
    """A listener whose queue is full, so that further connections are neither accepted nor refused."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for one in waiting:
            one.close()


def saying(words: bytes) -> Callable[[], AbstractContextManager[str]]:
    @contextmanager
    def server() -> Iterator[str]:
        with serving(greeting(words)) as (hostname, _):
            yield hostname

    return server


@pytest.mark.parametrize("protocol", [*REMOTE, SourceProtocol.HTTP])
@pytest.mark.parametrize(
    ("server", "limits", "error", "said"),
    [
        (refusing, {}, SourceUnreachableError, r"port \d+ \(Connection"),
        (unknown, {}, SourceUnreachableError, r"the host 'no\.such\.host\.invalid' could not be found"),
        (busy, {"connect_timeout": 0.3}, SourceTimeoutError, r"no connection to 127\.0\.0\.1"),
        (saying(b""), {"login_timeout": 0.5}, SourceTimeoutError, "DCC_LOGIN_TIMEOUT"),
        (saying(b"HTTQ/1.1 400 Bad Request\r\n\r\n"), {"login_timeout": 1.0}, SourceError, "file source 7"),
        (saying(b"\xff\xfe\x00" * 500 + b"\r\n"), {"login_timeout": 1.0}, SourceError, "file source 7"),
    ],
    ids=["refused", "unknown", "busy", "silent", "another protocol", "rubbish"],
)
def test_what_goes_wrong_before_anything_was_opened_is_that_source_s_own_failure(
    protocol: SourceProtocol,
    server: Callable[[], AbstractContextManager[str]],
    limits: dict[str, float],
    error: type[SourceError],
    said: str,
    source_settings: Settings,
) -> None:
    settings = source_settings.model_copy(update=limits)
    with server() as hostname, within(10), pytest.raises(error, match=said) as caught:
        connect(address_of(protocol, hostname), settings)
    assert isinstance(caught.value, SourceUnreachableError | SourceTimeoutError)
    assert str(caught.value).startswith(f"file source 7 (H, {protocol}://{hostname}): ")


@pytest.mark.parametrize(
    ("protocol", "changes", "reason"),
    [
        (SourceProtocol.SFTP, {"hostname": "host:port"}, "has no port between 1 and 65535"),
        (SourceProtocol.HTTP, {"hostname": "user@host"}, "'@'"),
        (SourceProtocol.HTTP, {"hostname": "host/path"}, "no host name"),
        (SourceProtocol.HTTP, {"username": "a:b"}, "colon"),
        (SourceProtocol.FTP, {"accesskey": SecretStr("env:NOT_SET_ANYWHERE")}, "NOT_SET_ANYWHERE"),
        (SourceProtocol.HTTP, {"accesskey": SecretStr("env:NOT_SET_ANYWHERE")}, "NOT_SET_ANYWHERE"),
        (SourceProtocol.FILE, {"base_path": "not/absolute"}, "no absolute path"),
        (SourceProtocol.SFTP, {"base_path": "/a\nb"}, "control characters"),
        (SourceProtocol.HTTP, {"base_path": "a\nb"}, "control characters"),
    ],
)
def test_an_address_that_makes_no_sense(
    protocol: SourceProtocol, changes: dict[str, object], reason: str, source_settings: Settings
) -> None:
    hostname = str(changes.get("hostname", "127.0.0.1"))
    rest = {name: value for name, value in changes.items() if name != "hostname"}
    with pytest.raises(SourceMisconfiguredError, match=rf"file source 7 .*{reason}"):
        connect(address_of(protocol, hostname, **rest), source_settings)


def test_a_folder_that_is_not_there(source_settings: Settings, tmp_path: Path) -> None:
    address = address_of(SourceProtocol.FILE, "localhost", base_path=str(tmp_path / "gone"))
    with pytest.raises(SourceUnreachableError, match="No such file or directory"):
        connect(address, source_settings)


@pytest.mark.parametrize(
    ("server", "how", "said"),
    [
        ("password_sftp_server", {}, "refused .*'centre'"),
        ("faulty_ftp_server", {}, "refused .*'centre'"),
        ("faulty_ftp_server", {"refuse_login": True, "repeat_password": True}, r"\*\*\* is wrong"),
    ],
    ids=["sftp", "ftp", "repeated by the server"],
)
def test_a_wrong_password_is_told_with_who_was_refused_and_not_repeated(
    server: str, how: dict[str, bool], said: str, request: pytest.FixtureRequest, source_settings: Settings
) -> None:
    share: Share = request.getfixturevalue(server)(**how)
    # The second is too short to be looked for in every text.
    for password in ("hunter2 hunter2", "hu7"):
        address = share.address(accesskey=SecretStr(password))
        with pytest.raises(LoginRefusedError, match=said) as caught:
            connect(address, source_settings)
        assert password.split()[0] not in told(caught.value) + repr(address)
        assert caught.value.translatable.all_details["source"] == address.label
        assert "abgelehnt" in load_catalogue("de", source_settings).tell(caught.value.translatable)


def told(error: BaseException) -> str:
    """Everything that a traceback of an error would show."""
    return "".join(traceback.format_exception(error)) + repr(error)


def test_a_user_name_with_a_line_break_is_never_sent(
    faulty_ftp_server: Callable[..., Share], source_settings: Settings
) -> None:
    share = faulty_ftp_server()
    with pytest.raises(SourceError, match="line break"):
        connect(share.address(username="centre\r\nDELE x"), source_settings)


class TestStalls:
    """A server that stalls costs its time limit, not for ever."""

    def test_a_connection_that_goes_silent(
        self, ftps_server: Share, cutting_proxy: Callable[..., Share], impatient: Settings
    ) -> None:
        """Over SFTP: test_ssh.py. The control connection of FTPS carries only the login."""
        ftps_server.put(f"add/{NAME}", os.urandom(SIZE))
        with within(15), pytest.raises(SourceTimeoutError):
            fetch_all(cutting_proxy(ftps_server, stall_after=1500).address(), impatient)


class TestTransfersThatBreakOff:
    """What is cut off is a failed transfer, whatever the server says. Over SFTP: test_ssh.py."""

    @pytest.mark.parametrize(
        ("fault", "error"), [("cut_after", TransferFailedError), ("stall_after", SourceTimeoutError)]
    )
    def test_ftp(
        self, fault: str, error: type[SourceError], faulty_ftp_server: Callable[..., Share], impatient: Settings
    ) -> None:
        content = os.urandom(SIZE)
        share = faulty_ftp_server(**{fault: SIZE // 2})
        share.put(f"add/{NAME}", content)
        with within(10):
            received, raised = fetch(share.address(), impatient)
        assert isinstance(raised, error)
        assert received == content[: SIZE // 2]

    def test_ftp_that_claims_success_is_known_by_what_arrived(
        self, faulty_ftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        """The receiver of the file compares its size with the one listed; nothing may be made up to fill it."""
        content = os.urandom(SIZE)
        share = faulty_ftp_server(cut_after=SIZE // 2, claim_success=True)
        share.put(f"add/{NAME}", content)
        assert fetch_all(share.address(), source_settings) == content[: SIZE // 2]

    @pytest.mark.parametrize("server", ["sftp_server", "ftp_server"])
    def test_the_server_goes_away_in_the_middle_of_a_listing(
        self,
        server: str,
        request: pytest.FixtureRequest,
        cutting_proxy: Callable[..., Share],
        faulty_ftp_server: Callable[..., Share],
        source_settings: Settings,
    ) -> None:
        if server == "sftp_server":
            share = cutting_proxy(request.getfixturevalue(server), cut_after=50_000)
        else:
            share = faulty_ftp_server(cut_after=50_000, faulty_commands=["MLSD"])
        for number in range(2_000):
            share.put(f"add/H.2013-10-31.{number}.impc.zip")
        with within(10), pytest.raises((SourceUnreachableError, ListingFailedError)):
            list_add(share.address(), source_settings)

    @pytest.mark.parametrize("ended", ["connection", "channel", "time"])
    def test_a_connection_that_ends_among_links_is_not_taken_for_broken_links(
        self, ended: str, sftp_server: Share, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Their archives would be taken for gone."""
        sftp_server.put("H.zip", b"x")
        for number in range(5):
            link = sftp_server.root / f"add/H.2013-10-31.{number}.impc.zip"
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(sftp_server.root / "H.zip")
        if ended == "time":
            source_settings = source_settings.model_copy(update={"list_timeout": 0.5})
        with connect(sftp_server.address(), source_settings) as connection:
            assert isinstance(connection, SftpConnection)
            client, asked = connection._client, []
            stat = client.stat
            channel = client._channel

            def stat_twice(path: bytes) -> Entry:
                asked.append(path)
                if len(asked) == 3 and ended == "connection":
                    connection.close()
                elif len(asked) == 3 and ended == "channel":
                    channel.close()
                while len(asked) == 3 and not channel.closed:
                    time.sleep(0.02)
                return stat(path)

            monkeypatch.setattr(client, "stat", stat_twice)
            expected = {"connection": SourceUnreachableError, "channel": ListingFailedError, "time": SourceTimeoutError}
            with within(5), pytest.raises(expected[ended]):
                connection.list_action(Action.ADD)


class TestCertificates:
    """FTPS servers must show a certificate: which, test_tls_trust.py tells."""

    def test_a_server_without_tls_is_not_logged_into(self, ftp_server: Share, source_settings: Settings) -> None:
        with pytest.raises(SourceUnreachableError, match="offers explicit TLS"):
            connect(ftp_server.address(protocol=SourceProtocol.FTPS), source_settings)
