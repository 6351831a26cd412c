"""Files over SFTP from OpenSSH: nothing but what it sent arrives, by every cipher and whatever comes between."""

import dataclasses
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock, patch

import pytest

from dcc.errors import FileNotReadableError, SourceError, SourceTimeoutError, TransferFailedError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.connect import connect
from dcc.sources.sftp.bounds import BoundedPackets
from dcc.sources.sftp.client import FileReader
from tests.support.raising import raising
from tests.support.servers import SftpServer, Share

CHANGED_AT = [200_000, 400_000, 700_001]
SIZES = [0, 1, 32_755, 32_768, 261_119, 261_120, 261_121, 5_000_000]


def bytes_of(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def fetch(share: Share, settings: Settings, size: int) -> bytearray:
    """What arrives of the archive of that size, even if it does not arrive whole."""
    received = bytearray()
    with connect(share.address(), settings) as connection:
        connection.fetch(Action.ADD, f"{size}.zip", received.extend, size=size)
    return received


@pytest.fixture
def agreed_keys() -> Iterator[Mock]:
    """Is called whenever keys are agreed on."""
    agree = BoundedPackets.set_inbound_cipher
    with patch.object(BoundedPackets, "set_inbound_cipher", autospec=True, side_effect=agree) as agreed:
        yield agreed


@pytest.mark.servers
class TestOpenSsh:
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
                    received = bytearray()
                    connection.fetch(Action.ADD, f"{size}.zip", received.extend, size=size)
                    assert received == bytes_of(size)
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
