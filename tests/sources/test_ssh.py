"""Logging in over SSH, trusting a server's host key, and files from OpenSSH."""

import dataclasses
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from pydantic import SecretStr

from benchmarks.servers import ServerProcess
from dcc.errors import (
    FileNotReadableError,
    HostKeyChangedError,
    HostKeyUnknownError,
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
from dcc.sources.sftp.bounds import BoundedPackets
from dcc.sources.sftp.client import FileReader
from dcc.sources.sftp.ssh import fetch_host_key
from tests.support.ports import free_port
from tests.support.raising import raising
from tests.support.served_sources import fetched, list_add
from tests.support.servers import SftpServer, Share, server_program
from tests.support.waiting import wait_until

pytestmark = pytest.mark.servers

PASSPHRASE = "open sesame"


def listed(address: SourceAddress, settings: Settings) -> list[str]:
    """Log in and list; the names."""
    return [file.name for file in list_add(address, settings).zips]


def fingerprint(line: str) -> str:
    """A key's fingerprint as OpenSSH tells it."""
    server_program("ssh-keygen")
    command = ["ssh-keygen", "-l", "-f", "-"]
    return subprocess.run(command, input=line, capture_output=True, text=True, check=True).stdout.split()[1]


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A private key that no server knows."""
    key = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


class TestHostKeys:
    """Only a server whose key was accepted is logged into."""

    def test_a_server_whose_key_was_never_accepted(self, sftp_server: Share, source_settings: Settings) -> None:
        with pytest.raises(HostKeyUnknownError) as caught:
            connect(sftp_server.address(host_keys=()), source_settings)
        shown = fetch_host_key(sftp_server.hostname, source_settings)
        assert shown.line in sftp_server.host_keys
        assert fingerprint(shown.line) == shown.fingerprint
        assert shown.fingerprint in str(caught.value)
        assert "dcc source test 1 --accept-host-key" in str(caught.value)

    def test_a_server_that_shows_another_key_gets_no_password(
        self, sftp_server: Share, password_sftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        logins: list[str] = []
        other = password_sftp_server(on_login=logins.append)
        with pytest.raises(HostKeyChangedError) as caught:
            connect(other.address(host_keys=sftp_server.host_keys), source_settings)
        assert fingerprint(sftp_server.host_keys[0]) in str(caught.value)
        assert fingerprint(other.host_keys[0]) in str(caught.value)
        assert "ask the centre's administrator" in str(caught.value)
        assert logins == []
        listed(other.address(), source_settings)
        assert logins == [other.username]

    def test_any_of_a_servers_keys_may_be_the_one_that_is_pinned(
        self, sftp_server: Share, source_settings: Settings
    ) -> None:
        sftp_server.put("add/a.zip")
        assert len(sftp_server.host_keys) == 3
        for key in sftp_server.host_keys:
            assert listed(sftp_server.address(host_keys=(key,)), source_settings) == ["a.zip"]

    def test_keys_of_a_known_hosts_file_are_trusted_and_revoked_ones_refused_even_if_pinned(
        self, sftp_server: Share, source_settings: Settings, tmp_path: Path
    ) -> None:
        sftp_server.put("add/a.zip")
        host, port = sftp_server.hostname.split(":")
        known_hosts = tmp_path / "known_hosts"
        settings = source_settings.model_copy(update={"known_hosts": known_hosts})
        known_hosts.write_text(f"# keys\n\n[{host}]:{port} {sftp_server.host_keys[1]} a comment\n")
        assert listed(sftp_server.address(host_keys=()), settings) == ["a.zip"]
        known_hosts.write_text(f"@revoked [{host}]:{port} {sftp_server.host_keys[0]}\n")
        with pytest.raises(HostKeyChangedError, match="revoked"):
            connect(sftp_server.address(host_keys=sftp_server.host_keys[:1]), settings)

    def test_a_pinned_key_that_is_none(self, sftp_server: Share, source_settings: Settings) -> None:
        with pytest.raises(SourceMisconfiguredError, match="no SSH host key"):
            connect(sftp_server.address(host_keys=("ssh-ed25519 AAAA",)), source_settings)


class TestKeys:
    """Private keys of any type, with and without passphrase, wherever they are kept."""

    @pytest.mark.parametrize(
        ("kind", "passphrase", "accesskey"),
        [
            ("ed25519", PASSPHRASE, "{key}"),
            ("ecdsa", "", "{key}"),
            ("rsa", "", "{key}"),
            ("rsa", "", "env:TEST_KEY"),
            ("ed25519", "another passphrase", "key:{key}?passphrase=env:TEST_PASSPHRASE"),
        ],
    )
    def test_a_key(
        self,
        kind: str,
        passphrase: str,
        accesskey: str,
        openssh: SftpServer,
        sftp_server: Share,
        source_settings: Settings,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        sftp_server.put("add/a.zip")
        key = openssh.new_key(kind, passphrase)
        monkeypatch.setenv("TEST_KEY", key.read_text())
        monkeypatch.setenv("TEST_PASSPHRASE", passphrase)
        settings = source_settings.model_copy(update={"key_passphrase": SecretStr(PASSPHRASE)})
        assert listed(sftp_server.address(accesskey=SecretStr(accesskey.format(key=key))), settings) == ["a.zip"]

    def test_a_passphrase_that_is_missing_or_wrong(
        self, openssh: SftpServer, sftp_server: Share, source_settings: Settings
    ) -> None:
        key = openssh.new_key(passphrase=PASSPHRASE)
        for given, reason in (
            (None, f": The private key {key} needs a passphrase.*DCC_KEY_PASSPHRASE"),
            ("wrong", f": The private key {key} cannot be used. Check its passphrase"),
        ):
            settings = source_settings.model_copy(update={"key_passphrase": given and SecretStr(given)})
            with pytest.raises(SourceMisconfiguredError, match=reason) as caught:
                connect(sftp_server.address(accesskey=SecretStr(f"key:{key}")), settings)
            assert "PRIVATE KEY" not in str(caught.value)

    def test_a_key_that_the_server_does_not_know(
        self, sftp_server: Share, source_settings: Settings, stranger: Path
    ) -> None:
        with pytest.raises(LoginRefusedError, match=r"refused .* with the private key .*stranger") as caught:
            connect(sftp_server.address(accesskey=SecretStr(f"key:{stranger}")), source_settings)
        in_german = load_catalogue("de", source_settings).tell(caught.value.translatable)
        assert f"der private Schlüssel {stranger}" in in_german

    def test_a_password_where_the_server_wants_a_key(self, sftp_server: Share, source_settings: Settings) -> None:
        with pytest.raises(LoginRefusedError, match=r"accepts no login of .* by password, only by publickey") as caught:
            connect(sftp_server.address(accesskey=SecretStr("hunter2")), source_settings)
        assert "hunter2" not in str(caught.value)

    def test_a_key_where_the_server_wants_a_password(
        self, openssh: SftpServer, password_sftp_server: Callable[..., Share], source_settings: Settings
    ) -> None:
        share = password_sftp_server()
        with pytest.raises(LoginRefusedError, match="only by password"):
            connect(share.address(accesskey=SecretStr(f"key:{openssh.key}")), source_settings)


@pytest.mark.parametrize("interactive", [False, True])
def test_a_password_may_be_asked_for_by_a_question(
    interactive: bool, password_sftp_server: Callable[..., Share], source_settings: Settings
) -> None:
    share = password_sftp_server(interactive=interactive)
    share.put("add/a.zip")
    assert listed(share.address(), source_settings) == ["a.zip"]


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, servers_folder: Path) -> Iterator[Callable[[Path], None]]:
    """An SSH agent of the test's own; called with a private key, it takes it in."""
    server_program("ssh-agent")
    socket_path = servers_folder / f"agent-{os.getpid()}"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_path))

    def add(key: Path) -> None:
        subprocess.run(["ssh-add", "-q", str(key)], check=True)

    try:
        while not socket_path.exists():
            assert process.poll() is None
        yield add
    finally:
        process.terminate()
        process.wait()
        socket_path.unlink(missing_ok=True)


class TestAgents:
    """With an empty access key, the keys of the SSH agent are tried."""

    def test_the_key_that_the_server_knows_is_found_among_others(
        self,
        agent: Callable[[Path], None],
        openssh: SftpServer,
        sftp_server: Share,
        source_settings: Settings,
        stranger: Path,
    ) -> None:
        sftp_server.put("add/a.zip")
        agent(stranger)
        agent(openssh.key)
        assert listed(sftp_server.address(accesskey=SecretStr("")), source_settings) == ["a.zip"]

    def test_no_key_that_the_server_knows(
        self, agent: Callable[[Path], None], sftp_server: Share, source_settings: Settings, stranger: Path
    ) -> None:
        agent(stranger)
        with pytest.raises(LoginRefusedError, match="an agent's key"):
            connect(sftp_server.address(accesskey=SecretStr("")), source_settings)

    def test_no_agent(self, sftp_server: Share, source_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        with pytest.raises(LoginRefusedError, match="no SSH agent is running"):
            connect(sftp_server.address(accesskey=SecretStr("")), source_settings)


def test_a_server_that_goes_silent_or_away_during_the_login(
    sftp_server: Share, cutting_proxy: Callable[..., Share], source_settings: Settings
) -> None:
    settings = source_settings.model_copy(update={"login_timeout": 0.7})
    for limit in (1_500, 2_500):
        with pytest.raises(SourceTimeoutError, match="DCC_LOGIN_TIMEOUT"):
            connect(cutting_proxy(sftp_server, stall_after=limit).address(), settings)
    for limit in (10, 1_500, 2_500):
        with pytest.raises(SourceUnreachableError):
            connect(cutting_proxy(sftp_server, cut_after=limit).address(), source_settings)


def test_a_server_without_sftp(openssh: SftpServer, sftp_server: Share, source_settings: Settings) -> None:
    """Many centres' servers offer a shell alone."""
    key = openssh.new_key()
    authorised = openssh.folder / "authorized_keys"
    lines = authorised.read_text().splitlines()
    authorised.write_text("\n".join([*lines[:-1], f'command="echo Welcome!" {lines[-1]}']) + "\n")
    with pytest.raises(SourceUnreachableError, match="opening an SFTP session"):
        connect(sftp_server.address(accesskey=SecretStr(f"key:{key}")), source_settings)


class TestAlgorithms:
    """What OpenSSH itself does not offer any more is not agreed to."""

    @pytest.mark.parametrize(
        "weak",
        [
            "Ciphers aes128-cbc,aes192-cbc,aes256-cbc,3des-cbc",
            "Ciphers aes128-ctr\nMACs hmac-sha1,hmac-md5",
            "KexAlgorithms diffie-hellman-group14-sha1",
            "HostKeyAlgorithms ssh-rsa",
        ],
    )
    def test_a_server_that_offers_only_weak_ones_is_not_talked_to(
        self, weak: str, openssh: SftpServer, tmp_path: Path, source_settings: Settings
    ) -> None:
        port = free_port()
        host_key = f"HostKey {openssh.folder / 'host_rsa'}"
        (tmp_path / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nPidFile none\n{host_key}\n{weak}\n"
        )
        command = [server_program("sshd"), "-D", "-e", "-f", str(tmp_path / "sshd_config")]
        with ServerProcess(command, port, tmp_path / "log") as server:
            with pytest.raises(SourceUnreachableError, match="no SSH session could be begun"):
                fetch_host_key(server.hostname, source_settings)
            # A server writes down why it ended a connection after it has ended it.
            wait_until(lambda: "no matching" in (tmp_path / "log").read_text())


CHANGED_AT = [200_000, 400_000, 700_001]
SIZES = [0, 1, 32_755, 32_768, 261_119, 261_120, 261_121, 5_000_000]


def bytes_of(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def fetch(share: Share, settings: Settings, size: int) -> bytes:
    """What arrives of the archive of that size."""
    with connect(share.address(), settings) as connection:
        return fetched(connection, f"{size}.zip", size)


@pytest.fixture
def agreed_keys() -> Iterator[Mock]:
    """Is called whenever keys are agreed on."""
    agree = BoundedPackets.set_inbound_cipher
    with patch.object(BoundedPackets, "set_inbound_cipher", autospec=True, side_effect=agree) as agreed:
        yield agreed


class TestTransfers:
    """Nothing but what OpenSSH sent arrives, by every cipher and whatever comes between."""

    def test_a_file_that_this_user_may_not_read_is_told_as_such(
        self, sftp_server: SftpServer, source_settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The test's server runs as root, to whom it sends everything; the client raises this for its refusal."""
        monkeypatch.setattr(FileReader, "blocks", raising(PermissionError("Permission denied")))
        with pytest.raises(FileNotReadableError, match="this user may not read it"):
            fetch(sftp_server, source_settings, 1)

    @pytest.mark.parametrize(
        ("options", "gcm"),
        [
            (["Ciphers aes128-gcm@openssh.com"], True),
            (["Ciphers aes256-gcm@openssh.com", "RekeyLimit 1M"], True),
            (["Ciphers aes256-ctr", "MACs hmac-sha2-256-etm@openssh.com", "RekeyLimit 1M"], False),
            (["Ciphers aes128-ctr", "MACs hmac-sha2-512"], False),
        ],
        ids=["gcm", "gcm, new keys", "encrypt then mac, new keys", "mac then encrypt"],
    )
    def test_files_arrive_as_they_are_by_every_cipher_and_while_the_server_changes_keys(
        self,
        options: list[str],
        gcm: bool,
        tmp_path: Path,
        openssh: SftpServer,
        sftp_server: Share,
        source_settings: Settings,
        agreed_keys: Mock,
    ) -> None:
        for key in openssh.folder.glob("host_*"):
            shutil.copy(key, tmp_path)
        with SftpServer(tmp_path, *options) as server:
            share = dataclasses.replace(sftp_server, hostname=server.hostname, **server.login)
            with connect(share.address(), source_settings) as connection:
                for size in SIZES:
                    share.put(f"add/{size}.zip", bytes_of(size))
                    assert fetched(connection, f"{size}.zip", size) == bytes_of(size)
        assert {agreed.kwargs["aead"] for agreed in agreed_keys.call_args_list} == {gcm}
        assert (agreed_keys.call_count > 3) == ("RekeyLimit 1M" in options)

    def test_files_arrive_as_they_are_while_we_change_keys(
        self,
        sftp_server: Share,
        source_settings: Settings,
        agreed_keys: Mock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # A server may send several megabytes before it answers the wish for new keys.
        monkeypatch.setattr(BoundedPackets, "REKEY_BYTES", 8_000_000)
        sftp_server.put("add/40000000.zip", bytes_of(40_000_000))
        assert fetch(sftp_server, source_settings, 40_000_000) == bytes_of(40_000_000)
        assert agreed_keys.call_count > 2

    @pytest.mark.parametrize(
        ("fault", "at", "error", "said", "least"),
        [
            *(("flip_at", at, TransferFailedError, "broke off while sending", at - 150_000) for at in CHANGED_AT),
            ("cut_after", 100_000, TransferFailedError, r"broke off while sending .*closed the connection", 0),
            ("cut_after", 700_001, TransferFailedError, r"broke off while sending .*closed the connection", 0),
            ("stall_after", 700_001, SourceTimeoutError, "stalled while sending", 0),
        ],
    )
    def test_what_is_passed_on_before_a_fault_is_what_the_server_sent(
        self,
        fault: str,
        at: int,
        error: type[SourceError],
        said: str,
        least: int,
        sftp_server: Share,
        cutting_proxy: Callable[..., Share],
        source_settings: Settings,
    ) -> None:
        """Neither what was changed on its way nor what follows; a server that goes silent is not waited for."""
        settings = source_settings.model_copy(update={"idle_timeout": 0.5} if fault == "stall_after" else {})
        share = cutting_proxy(sftp_server, **{fault: at})
        content = bytes_of(1_000_000)
        share.put("add/a.zip", content)
        received = bytearray()
        with connect(share.address(), settings) as connection, pytest.raises(error, match=said):
            connection.fetch(Action.ADD, "a.zip", received.extend, size=len(content))
        assert least <= len(received) < at
        assert content.startswith(received)
