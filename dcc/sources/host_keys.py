"""SSH host keys: their form, which are trusted, and what happens with another one.

A key is trusted if it is pinned in the source (`SourceAddress.host_keys`) or listed for its host in the file
DCC_KNOWN_HOSTS. Nothing is ever trusted because it is the first.
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dcc.errors import ConfigurationError, HostKeyChangedError, HostKeyUnknownError
from dcc.messages import mark
from dcc.sources.access import Endpoint
from dcc.sources.base import SourceAddress
from dcc.sources.protocols import PROTOCOLS, SourceProtocol

SSH_PORT = PROTOCOLS[SourceProtocol.SFTP].traits.usual_port


@dataclass(frozen=True, slots=True)
class HostKey:
    """A server's public key: its type (`ssh-ed25519`) and its bytes in base64."""

    type: str
    base64: str

    @classmethod
    def parse(cls, line: str) -> HostKey:
        """Read `<type> <base64>`; anything after it is a comment. Raises ConfigurationError."""
        fields = line.split()
        try:
            blob = base64.b64decode(fields[1], validate=True)
            length = int.from_bytes(blob[:4], "big")
            if blob[4 : 4 + length].decode("ascii") != fields[0]:
                raise ValueError("the type differs from that in the key")
        except (IndexError, ValueError, binascii.Error) as error:
            raise ConfigurationError(
                f"{line!r} is no SSH host key. Write its type and its base64, as in a known_hosts file."
            ) from error
        return cls(fields[0], fields[1])

    @property
    def line(self) -> str:
        """The key in pinned form: `<type> <base64>`."""
        return f"{self.type} {self.base64}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint as OpenSSH shows it: `SHA256:<base64 without padding>`."""
        digest = hashlib.sha256(base64.b64decode(self.base64)).digest()
        return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")

    def __str__(self) -> str:
        return f"{self.type} {self.fingerprint}"


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """The host keys that a server may show, and those that it must not."""

    accepted: tuple[HostKey, ...] = ()
    revoked: tuple[HostKey, ...] = ()

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Host key algorithms to prefer, so that the server shows a known key."""
        names: list[str] = []
        for key in self.accepted:
            names.extend(("rsa-sha2-512", "rsa-sha2-256") if key.type == "ssh-rsa" else (key.type,))
        return tuple(dict.fromkeys(names))


def trusted_keys(address: SourceAddress, endpoint: Endpoint, known_hosts: Path | None) -> TrustedKeys:
    """All keys trusted for a source. Raises ConfigurationError for a malformed key or unreadable file."""
    pinned = tuple(HostKey.parse(line) for line in address.host_keys)
    if known_hosts is None:
        return TrustedKeys(pinned)
    listed = known_host_keys(known_hosts_lines(known_hosts), endpoint)
    return TrustedKeys(tuple(dict.fromkeys(pinned + listed.accepted)), listed.revoked)


def known_hosts_lines(path: Path) -> list[str]:
    """The lines of a file of host keys. Raises ConfigurationError if it cannot be read."""
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise ConfigurationError(
            f"The known hosts file {path} cannot be read ({error.strerror}). Correct DCC_KNOWN_HOSTS."
        ) from error


def known_host_keys(lines: Iterable[str], endpoint: Endpoint) -> TrustedKeys:
    """The keys listed for a host in the lines of an OpenSSH known_hosts file (sshd(8)).

    Understands plain, hashed and wildcard host names, `[host]:port` and `@revoked`. Certificate authorities and lines
    without a key are ignored.
    """
    host = endpoint.host.lower()
    name = host if endpoint.port == SSH_PORT else f"[{host}]:{endpoint.port}"
    accepted: list[HostKey] = []
    revoked: list[HostKey] = []
    for line in lines:
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else None
        if len(fields) < 3 or fields[0].startswith("#") or marker not in (None, "@revoked"):
            continue
        if not _matches(name, fields[0]):
            continue
        try:
            key = HostKey.parse(" ".join(fields[1:3]))
        except ConfigurationError:
            # A damaged or unknown line does not make the others worthless; OpenSSH skips it too.
            continue
        (accepted if marker is None else revoked).append(key)
    return TrustedKeys(tuple(accepted), tuple(revoked))


def _matches(name: str, patterns: str) -> bool:
    if patterns.startswith("|1|"):
        try:
            salt, digest = (base64.b64decode(part) for part in patterns[3:].split("|"))
        except (ValueError, binascii.Error):
            return False
        return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), digest)
    matched = False
    for pattern in patterns.lower().split(","):
        # In known_hosts brackets enclose an address; for fnmatch they would be a set of characters.
        if fnmatch.fnmatchcase(name, pattern.removeprefix("!").replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            matched = True
    return matched


def check_host_key(address: SourceAddress, shown: HostKey, trusted: TrustedKeys) -> None:
    """Refuse a server whose key is not trusted.

    Raises HostKeyUnknownError if no key of the server is known, HostKeyChangedError if it shows another than the known
    ones, or a revoked one.
    """
    if shown in trusted.revoked:
        text = mark(
            "the server shows the host key {shown}, which DCC_KNOWN_HOSTS marks as revoked. Nothing was sent to it. "
            "Ask the centre for the server's new key."
        )
        raise HostKeyChangedError(text, source=address.label, shown=shown)
    if shown in trusted.accepted:
        return
    accept = f"dcc source test {address.id} --accept-host-key"
    if not trusted.accepted:
        text = mark(
            "the server shows the host key {shown}, which has never been accepted. Compare the fingerprint with the "
            "one that the centre's administrator gives; if they agree: {accept} (or --accept-host-key with dcc source "
            "add)."
        )
        raise HostKeyUnknownError(text, source=address.label, shown=shown, accept=accept)
    expected = ", ".join(str(key) for key in trusted.accepted)
    raise HostKeyChangedError(
        mark(
            "the server shows the host key {shown}, but the one accepted is {expected}. Nothing was sent to "
            "it. Either the server was set up again or somebody stands in between: ask the centre's "
            "administrator for the fingerprint, and only if it is {fingerprint}: {accept}."
        ),
        source=address.label,
        shown=shown,
        expected=expected,
        fingerprint=shown.fingerprint,
        accept=accept,
    )
