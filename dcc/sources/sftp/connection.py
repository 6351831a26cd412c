"""An encrypted SSH connection to a server, before the login."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Sequence

from dcc.errors import SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark
from dcc.settings import Settings
from dcc.sources.access import Endpoint, parse_hostname
from dcc.sources.host_keys import SSH_PORT, HostKey
from dcc.sources.remote_names import printable
from dcc.sources.request_turns import turn_of
from dcc.sources.sftp.bounds import CHANNEL_WINDOW, BoundedTransport
from dcc.sources.sftp.client import SftpClient
from dcc.sources.sockets import open_socket, shut_down

# By far the cheapest cipher for both sides on present processors; paramiko's preference costs twice the time.
_FAST_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")

# Algorithms that OpenSSH no longer offers by default either, and MACs on SHA-1.
_WEAK = re.compile(r"cbc|3des|arcfour|md5|sha1\b|ssh-dss|^ssh-rsa$")

# Seconds by which paramiko's own limits are later than ours: their errors look as if no SSH server were there.
_AFTER_OURS = 60.0

# Its threads log each failure with a trace although the caller gets the same failure as an exception.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


class SshConnection:
    """An encrypted connection whose host key is known but not yet checked, and over which nothing has been sent.

    Raises SourceTimeoutError or SourceUnreachableError. `first_algorithms` are the preferred host key algorithms.
    DCC_LOGIN_TIMEOUT begins with the TCP connection: `login_seconds` are the rest of it.
    """

    def __init__(
        self, label: str, endpoint: Endpoint, settings: Settings, first_algorithms: Sequence[str] = ()
    ) -> None:
        self.label = label
        self._await_turn = turn_of(endpoint.host, settings)
        self._socket = open_socket(label, endpoint, settings.connect_timeout)
        self._login_deadline = time.monotonic() + settings.login_timeout
        try:
            self.transport = BoundedTransport(self._socket)
            self._negotiate(first_algorithms, settings.login_timeout)
        except BaseException:
            self.close()
            raise

    def _negotiate(self, first_algorithms: Sequence[str], timeout: float) -> None:
        transport = self.transport
        options = transport.get_security_options()
        options.ciphers = _first(_FAST_CIPHERS, _strong(options.ciphers))
        options.digests = _strong(options.digests)
        options.kex = _strong(options.kex)
        options.key_types = _first(first_algorithms, _strong(options.key_types))
        transport.banner_timeout = transport.handshake_timeout = timeout + _AFTER_OURS
        transport.auth_timeout = transport.channel_timeout = timeout
        negotiated = threading.Event()
        transport.start_client(event=negotiated)
        if not negotiated.wait(timeout):
            raise SourceTimeoutError(
                mark(
                    "the server did not begin an SSH session within {timeout} seconds. Check that the "
                    "port is that of its SSH server; DCC_LOGIN_TIMEOUT sets the limit."
                ),
                source=self.label,
                timeout=timeout,
            )
        if not transport.is_active():
            failure = transport.get_exception()
            raise SourceUnreachableError(
                mark("no SSH session could be begun ({reason}). Check that the port is that of an SSH server."),
                source=self.label,
                reason=Message(describe(failure)),
            ) from failure

    @property
    def login_seconds(self) -> float:
        """Seconds left for the login, at least a tenth."""
        return max(self._login_deadline - time.monotonic(), 0.1)

    @property
    def host_key(self) -> HostKey:
        """The key that the server proved to own."""
        key = self.transport.get_remote_server_key()
        return HostKey(key.get_name(), key.get_base64())

    def open_sftp(self, timeout: float) -> SftpClient:
        """Begin an SFTP session, after the login; `timeout` stays that of every wait for the server.

        Raises as paramiko and SftpClient.
        """
        channel = self.transport.open_session(window_size=CHANNEL_WINDOW, timeout=timeout)
        channel.settimeout(timeout)
        channel.invoke_subsystem("sftp")
        return SftpClient(channel, self.transport.packetizer, self._await_turn)

    def close(self) -> None:
        """Close the connection at once, without a word to the server: it may not be listening."""
        shut_down(self._socket)
        if hasattr(self, "transport"):
            self.transport.close()
        self._socket.close()


def describe(failure: Exception | None) -> str:
    """A paramiko exception for a message."""
    if failure is None or isinstance(failure, EOFError):
        return "the server closed the connection"
    if isinstance(failure, UnicodeDecodeError):
        return "the server's greeting is not SSH"
    text = failure.strerror if isinstance(failure, OSError) and failure.strerror else str(failure)
    text = printable(" ".join(text.split()).encode("utf-8", "surrogateescape"))
    return text if len(text) <= 200 else text[:200] + "…"


def fetch_host_key(hostname: str, settings: Settings) -> HostKey:
    """Fetch a server's host key, to show its fingerprint and pin it, without a login.

    `hostname` is that of a source (`host`, `host:port`, `[ipv6]:port`). Raises ConfigurationError, SourceTimeoutError
    or SourceUnreachableError.
    """
    endpoint = parse_hostname(hostname, SSH_PORT)
    connection = SshConnection(f"sftp://{hostname}", endpoint, settings)
    try:
        return connection.host_key
    finally:
        connection.close()


def _strong(available: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in available if _WEAK.search(name) is None)


def _first(preferred: Sequence[str], available: Sequence[str]) -> tuple[str, ...]:
    known = [name for name in preferred if name in available]
    return tuple(dict.fromkeys([*known, *available]))
