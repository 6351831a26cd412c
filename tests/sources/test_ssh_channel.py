"""Data of an SSH channel, read by who waits for them: nothing but what the server sent, whatever comes between."""

from __future__ import annotations

import dataclasses
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EOF, MSG_CHANNEL_WINDOW_ADJUST, MSG_IGNORE
from paramiko.packet import NeedRekeyException

from dcc.errors import SourceTimeoutError, TransferFailedError
from dcc.naming import Action
from dcc.settings import Settings
from dcc.sources.connect import connect
from dcc.sources.sftp.ssh_channel import ChannelReader
from dcc.sources.sftp.ssh_gcm_packets import LONGEST_PACKET
from dcc.sources.sftp.ssh_packets import BoundedPackets, Pipe
from tests.support.servers import SftpServer, Share

SIZES = [0, 1, 32_755, 32_768, 261_119, 261_120, 261_121, 5_000_000]
CHANNEL = 3


def bytes_of(count: int) -> bytes:
    return random.Random(count).randbytes(count)


def fetch(share: Share, settings: Settings, size: int) -> bytearray:
    """What arrives of the archive of that size, even if it does not arrive whole."""
    received = bytearray()
    with connect(share.address(), settings) as connection:
        connection.fetch(Action.ADD, f"{size}.zip", received.extend, size=size)
    return received


@pytest.fixture
def agreed_keys(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by an item whenever keys are agreed on: whether they are those of AES-GCM."""
    agreed: list[bool] = []
    original = BoundedPackets.set_inbound_cipher

    def note(self: BoundedPackets, **keys: Any) -> None:
        agreed.append(keys["aead"])
        original(self, **keys)

    monkeypatch.setattr(BoundedPackets, "set_inbound_cipher", note)
    return agreed


@pytest.mark.servers
class TestOpenSsh:
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
        sftp_server: Share,
        source_settings: Settings,
        agreed_keys: list[bool],
    ) -> None:
        server = SftpServer(tmp_path, *options)
        try:
            share = dataclasses.replace(
                sftp_server, hostname=server.hostname, accesskey=f"key:{server.key}", host_keys=server.host_keys
            )
            with connect(share.address(), source_settings) as connection:
                for size in SIZES:
                    share.put(f"add/{size}.zip", bytes_of(size))
                    received = bytearray()
                    connection.fetch(Action.ADD, f"{size}.zip", received.extend, size=size)
                    assert received == bytes_of(size)
        finally:
            server.stop()
        assert set(agreed_keys) == {gcm}
        assert (len(agreed_keys) > 3) == ("RekeyLimit 1M" in options)

    def test_files_arrive_as_they_are_while_we_change_keys(
        self,
        sftp_server: Share,
        source_settings: Settings,
        agreed_keys: list[bool],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(BoundedPackets, "REKEY_BYTES", 8_000_000)
        sftp_server.put("add/40000000.zip", bytes_of(40_000_000))
        assert fetch(sftp_server, source_settings, 40_000_000) == bytes_of(40_000_000)
        assert len(agreed_keys) > 2

    @pytest.mark.parametrize("at", [200_000, 400_000, 700_001])
    def test_all_is_passed_on_but_what_was_changed_on_its_way_and_what_follows(
        self, at: int, sftp_server: Share, cutting_proxy: Callable[..., Share], source_settings: Settings
    ) -> None:
        proxy = cutting_proxy(sftp_server, flip_at=at)
        assert self._check_prefix(proxy, source_settings, at, TransferFailedError) > at - 150_000

    @pytest.mark.parametrize("at", [100_000, 700_001])
    def test_what_is_passed_on_of_a_server_that_goes_away_is_what_it_sent(
        self, at: int, sftp_server: Share, cutting_proxy: Callable[..., Share], source_settings: Settings
    ) -> None:
        self._check_prefix(cutting_proxy(sftp_server, cut_after=at), source_settings, at, TransferFailedError)

    def test_a_server_that_goes_silent_within_a_packet_is_not_waited_for(
        self, sftp_server: Share, cutting_proxy: Callable[..., Share], source_settings: Settings
    ) -> None:
        settings = source_settings.model_copy(update={"idle_timeout": 0.5})
        proxy = cutting_proxy(sftp_server, stall_after=700_001)
        self._check_prefix(proxy, settings, 700_001, SourceTimeoutError)

    def test_it_is_told_that_data_were_changed_on_their_way_and_that_the_server_went_away(
        self, sftp_server: Share, cutting_proxy: Callable[..., Share], source_settings: Settings
    ) -> None:
        sftp_server.put("add/a.zip", bytes_of(1_000_000))
        for fault, reason in (("flip_at", "a packet was changed on its way"), ("cut_after", "closed the connection")):
            share = cutting_proxy(sftp_server, **{fault: 400_000})
            told = pytest.raises(TransferFailedError, match=f"broke off while sending .*{reason}")
            with connect(share.address(), source_settings) as connection, told:
                connection.fetch(Action.ADD, "a.zip", lambda _: None, size=1_000_000)

    @staticmethod
    def _check_prefix(share: Share, settings: Settings, at: int, error: type[Exception]) -> int:
        content = bytes_of(1_000_000)
        share.put("add/a.zip", content)
        received = bytearray()
        with connect(share.address(), settings) as connection, pytest.raises(error):
            connection.fetch(Action.ADD, "a.zip", received.extend, size=len(content))
        assert len(received) < at
        assert content.startswith(received)
        return len(received)


class Peer:
    """A server's end of a connection whose keys are agreed on, and ours: its packets, and a channel's reader."""

    def __init__(self) -> None:
        self.socket, ours = socket.socketpair()
        ours.settimeout(0.1)
        self.cipher, self.count = AESGCM(bytes(16)), 0
        self.packets = BoundedPackets(ours)
        self.packets.set_inbound_cipher(
            block_engine=self.cipher,
            block_size=16,
            mac_engine=None,
            mac_size=16,
            mac_key=None,
            aead=True,
            iv_in=bytes(12),
        )
        self.channel = paramiko.Channel(CHANNEL)
        self.channel.settimeout(20.0)
        self.channel.in_buffer = pipe = Pipe()
        self.reader = ChannelReader(self.channel, self.packets, pipe)

    def send(self, payload: bytes, padding: int | None = None) -> None:
        """Send a packet; the padding as it is due, or only said to be of that length."""
        due = 4 + -(len(payload) + 5) % 16
        plain = bytes([due if padding is None else padding]) + payload + bytes(due)
        length = struct.pack(">I", len(plain))
        sealed = self.cipher.encrypt(struct.pack(">IQ", 0, self.count), plain, length)
        self.count += 1
        self.socket.sendall(length + sealed)

    def send_data(self, data: bytes, channel: int = CHANNEL, length: int | None = None) -> None:
        """Send data of a channel."""
        self.send(struct.pack(">BII", MSG_CHANNEL_DATA, channel, len(data) if length is None else length) + data)

    def receive(self, count: int) -> bytes:
        """That many bytes of the channel, as they come."""
        received = bytearray()
        while len(received) < count:
            received += self.reader.receive()
        return bytes(received)

    def close(self) -> None:
        self.socket.close()
        self.packets.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Both ends of a connection, without paramiko's thread."""
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def heard(peer: Peer) -> Iterator[list[Any]]:
    """What paramiko's thread got to do with, up to what ended the connection."""
    messages: list[Any] = []

    def run() -> None:
        try:
            while True:
                try:
                    kind, message = peer.packets.read_message()
                except NeedRekeyException:
                    continue
                messages.append((kind, message.asbytes()))
                if kind == MSG_CHANNEL_EOF:
                    peer.channel.in_buffer.close()
        except Exception as error:
            messages.append(error)
            peer.channel.in_buffer.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield messages
    peer.packets.close()
    thread.join()


class TestTurns:
    def test_what_is_for_paramiko_comes_to_its_thread_and_data_to_who_waits_for_them(
        self, peer: Peer, heard: list[Any]
    ) -> None:
        peer.send_data(b"one")
        peer.send(bytes([MSG_IGNORE]) + b"\0\0\0\1x")
        peer.send_data(b"of another", channel=CHANNEL + 1)
        peer.send_data(b"two")
        peer.send_data(b"")
        peer.send(bytes([MSG_CHANNEL_WINDOW_ADJUST]) + struct.pack(">II", CHANNEL, 1_000))
        peer.send_data(b"three")
        assert peer.receive(11) == b"onetwothree"
        peer.send(bytes([MSG_CHANNEL_EOF]) + struct.pack(">I", CHANNEL))
        with pytest.raises(EOFError):
            peer.reader.receive()
        assert [kind for kind, _ in heard] == [
            MSG_IGNORE,
            MSG_CHANNEL_DATA,
            MSG_CHANNEL_WINDOW_ADJUST,
            MSG_CHANNEL_EOF,
        ]
        assert heard[2][1] == struct.pack(">II", CHANNEL, 1_000)

    def test_what_comes_while_nobody_waits_is_kept_in_order_and_answered(self, peer: Peer, heard: list[Any]) -> None:
        peer.send_data(b"one")
        peer.send(bytes([MSG_IGNORE]) + b"\0\0\0\1x")
        peer.send(bytes([MSG_CHANNEL_EOF]) + struct.pack(">I", CHANNEL))
        while len(heard) < 2:
            threading.Event().wait(0.01)
        assert peer.receive(3) == b"one"
        with pytest.raises(EOFError):
            peer.reader.receive()

    def test_nothing_is_read_while_keys_are_changed_but_by_paramikos_thread(self, peer: Peer, heard: list[Any]) -> None:
        peer.packets.turns.changing_keys = True
        peer.send_data(b"before the new keys")
        assert peer.receive(19) == b"before the new keys"
        assert peer.channel.in_buffer.read_ready() is False
        assert peer.packets.turns._count == 0
        assert heard == []

    def test_paramikos_thread_goes_on_where_another_took_what_it_saw_arrive(
        self, peer: Peer, heard: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arrived = peer.packets.arrived
        fill, calls = arrived.fill, threading.Semaphore(0)

        def note() -> None:
            calls.release()
            fill()

        monkeypatch.setattr(arrived, "fill", note)
        monkeypatch.setattr(arrived, "something", lambda: True)
        peer.packets.turns.changing_keys = True
        assert calls.acquire(timeout=20.0)
        assert calls.acquire(timeout=20.0)
        peer.send_data(b"data")
        assert peer.receive(4) == b"data"
        assert heard == []

    def test_who_waits_too_long_gives_up(self, peer: Peer, heard: list[Any]) -> None:
        peer.channel.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.reader.receive()
        assert heard == []

    @pytest.mark.parametrize("data", [bytes_of(200_000), bytes_of(10)])
    def test_data_of_several_packets_come_together(self, data: bytes, peer: Peer, heard: list[Any]) -> None:
        for begin in range(0, len(data), 1_000):
            peer.send_data(data[begin : begin + 1_000])
        assert peer.receive(len(data)) == data


class TestHostilePackets:
    @pytest.mark.parametrize("length", [0, 8, 17, LONGEST_PACKET + 16, 0xFFFFFFF0])
    def test_a_packet_of_a_length_that_none_may_have(self, length: int, peer: Peer, heard: list[Any]) -> None:
        peer.send_data(b"one")
        peer.socket.sendall(struct.pack(">I", length) + bytes(100))
        assert peer.receive(3) == b"one"
        self._check_end(peer, heard, "is announced")

    @pytest.mark.parametrize("padding", [0, 3, 31, 255])
    def test_a_packet_that_says_it_holds_more_padding_than_it_can(
        self, padding: int, peer: Peer, heard: list[Any]
    ) -> None:
        peer.send(bytes(20), padding=padding)
        self._check_end(peer, heard, "of padding")

    @pytest.mark.parametrize("length", [4, 100_000, 0xFFFFFFFF])
    def test_data_that_end_before_they_say(self, length: int, peer: Peer, heard: list[Any]) -> None:
        peer.send_data(b"one", length=length)
        self._check_end(peer, heard, "ends before what it announces")

    def test_a_packet_that_was_changed_leaves_those_before_it_as_they_were(self, peer: Peer, heard: list[Any]) -> None:
        sent = bytes_of(5_000)
        peer.send_data(sent)
        peer.count += 1
        peer.send_data(b"encrypted as if another came before")
        assert peer.receive(5_000) == sent
        self._check_end(peer, heard, "changed on its way")

    def test_a_server_that_never_agrees_on_new_keys(
        self, peer: Peer, heard: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(BoundedPackets, "REKEY_PACKETS", 3)
        for _ in range(10):
            peer.send_data(b"x" * 1_000)
        with pytest.raises(EOFError):
            peer.receive(10_000)
        assert "does not agree on new keys" in str(heard[0])

    @staticmethod
    def _check_end(peer: Peer, heard: list[Any], reason: str) -> None:
        with pytest.raises(EOFError):
            peer.reader.receive()
        (error,) = heard
        assert isinstance(error, paramiko.SSHException)
        assert reason in str(error)
