"""An encrypted SSH connection to a server, and the login over it: by password, private key or agent."""

from __future__ import annotations

import io
import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import paramiko
from pydantic import SecretStr

from dcc.errors import ConfigurationError, LoginRefusedError, SourceError, SourceTimeoutError, SourceUnreachableError
from dcc.messages import Message, mark, message
from dcc.redaction import redact
from dcc.settings import Settings
from dcc.sources.access import Credential, Endpoint, parse_hostname, resolve_accesskey
from dcc.sources.base import SourceAddress
from dcc.sources.host_keys import SSH_PORT, HostKey, check_host_key, trusted_keys
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
    DCC_LOGIN_TIMEOUT begins with the TCP connection, and ends at `login_deadline`, of `time.monotonic`.
    """

    def __init__(
        self, label: Message | str, endpoint: Endpoint, settings: Settings, first_algorithms: Sequence[str] = ()
    ) -> None:
        self.label = label
        self._await_turn = turn_of(endpoint.host, settings)
        self._socket = open_socket(label, endpoint, settings.connect_timeout)
        self.login_deadline = time.monotonic() + settings.login_timeout
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
            text = mark(
                "the server did not begin an SSH session within {timeout} s. Check that the port is that of its "
                "SSH server; DCC_LOGIN_TIMEOUT sets the limit."
            )
            raise SourceTimeoutError(text, source=self.label, timeout=timeout)
        if not transport.is_active():
            failure = transport.get_exception()
            text = mark("no SSH session could be begun ({reason}). Check that the port is that of an SSH server.")
            raise SourceUnreachableError(text, source=self.label, reason=Message(describe(failure))) from failure

    @property
    def login_seconds(self) -> float:
        """Seconds left for the login, at least a tenth."""
        return max(self.login_deadline - time.monotonic(), 0.1)

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


def describe(failure: BaseException | None) -> str:
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


_KEY_CLASSES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


def open_ssh_connection(address: SourceAddress, settings: Settings, label: Message | str) -> SshConnection:
    """Connect to a server that messages call `label`, check its host key, and log in.

    A password is also sent if the server asks for it interactively; without password and key, the keys of the SSH agent
    are used. Raises HostKeyUnknownError or HostKeyChangedError before anything secret is sent; LoginRefusedError,
    SourceTimeoutError, SourceUnreachableError; and ConfigurationError for an invalid address or access key. No message
    contains a secret.
    """
    endpoint = parse_hostname(address.hostname, SSH_PORT)
    trusted = trusted_keys(address, endpoint, settings.known_hosts)
    credential = resolve_accesskey(address.accesskey, settings.key_passphrase)
    connection = SshConnection(label, endpoint, settings, trusted.algorithms)
    try:
        check_host_key(address, connection.host_key, trusted)
        login = _Login(connection.transport, address, credential, connection.login_deadline)
        if credential.password is not None:
            login.attempt(credential.password.get_secret_value())
        elif credential.private_key is not None:
            login.attempt(load_private_key(credential, credential.private_key))
        else:
            login.attempt_by_agent()
    except BaseException:
        connection.close()
        raise
    return connection


def load_private_key(credential: Credential, private_key: SecretStr) -> paramiko.PKey:
    """The private key of a credential, of any type and format. Raises ConfigurationError, without its text."""
    text, origin = private_key.get_secret_value(), str(credential.origin)
    origin = f"{origin[0].upper()}{origin[1:]}"
    passphrase = credential.passphrase.get_secret_value() if credential.passphrase is not None else None
    reasons = []
    for key_class in _KEY_CLASSES:
        try:
            return key_class.from_private_key(io.StringIO(text), passphrase)
        except paramiko.PasswordRequiredException as error:
            raise ConfigurationError(
                f"{origin} needs a passphrase. Name it as key:PATH?passphrase=env:NAME, or set DCC_KEY_PASSPHRASE."
            ) from error
        except Exception as error:
            # Classes raise different exceptions for a foreign or damaged key.
            reasons.append(type(error).__name__)
    hint = "Check its passphrase, and that it" if passphrase is not None else "Check that it"
    raise ConfigurationError(
        f"{origin} cannot be used. {hint} is an Ed25519, ECDSA or RSA key in "
        f"OpenSSH or PEM format (tried: {', '.join(reasons)})."
    )


@dataclass(frozen=True, slots=True)
class _Login:
    transport: BoundedTransport
    address: SourceAddress
    credential: Credential
    deadline: float

    def attempt_by_agent(self) -> None:
        agent = paramiko.Agent()
        try:
            refusal: LoginRefusedError | None = None
            for key in agent.get_keys():
                try:
                    return self.attempt(key)
                except LoginRefusedError as error:
                    refusal = error
                    if not self.transport.is_active():
                        break
        finally:
            agent.close()
        if refusal is not None:
            raise refusal
        missing = "the SSH agent holds no key" if os.environ.get("SSH_AUTH_SOCK") else "no SSH agent is running"
        text = mark(
            "DCC cannot log in: the access key is empty and {missing}. Give a password or a key (key:PATH), or add a "
            "key to the agent."
        )
        raise self._error(LoginRefusedError, text, missing=Message(missing))

    def attempt(self, proof: str | paramiko.PKey) -> None:
        self.transport.auth_timeout = max(self.deadline - time.monotonic(), 0.1)
        by_key = isinstance(proof, paramiko.PKey)
        try:
            if isinstance(proof, paramiko.PKey):
                further = self.transport.auth_publickey(self.address.username, proof)
            else:
                further = self.transport.auth_password(self.address.username, proof)
        except paramiko.BadAuthenticationType as error:
            text = mark(
                "the server accepts no login of '{username}' by {means}, only by {wanted}. Change the access key."
            )
            means = message(mark("key")) if by_key else message(mark("password"))
            raise self._error(LoginRefusedError, text, means=means, wanted=", ".join(error.allowed_types)) from error
        except paramiko.AuthenticationException as error:
            if time.monotonic() >= self.deadline:
                text = mark(
                    "the server did not answer the login of '{username}' in time. Try again; DCC_LOGIN_TIMEOUT sets "
                    "the limit."
                )
                raise self._error(SourceTimeoutError, text) from error
            text = mark(
                "the server refused '{username}' with {what}. Check the user name and password (a private key is "
                "written key:PATH)."
            )
            if by_key:
                text = mark(
                    "the server refused '{username}' with {what}. Check the user name, and that the server knows the "
                    "key."
                )
            by_agent = by_key and self.credential.private_key is None
            what = message(mark("an agent's key")) if by_agent else self.credential.origin
            raise self._error(LoginRefusedError, text, what=what) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            text = mark("the connection broke off during login ({reason}). Try again.")
            reason = redact(describe(error), self.credential.secrets)
            raise self._error(SourceUnreachableError, text, reason=Message(reason)) from error
        if further:
            text = mark(
                "the server wants more than one proof of '{username}' (next: {further}), which is not supported. Ask "
                "the centre for a login by key alone."
            )
            raise self._error(LoginRefusedError, text, further=", ".join(further))

    def _error(self, kind: type[SourceError], text: str, **details: Any) -> SourceError:
        return kind(text, source=self.address.label, username=self.address.username, **details)
