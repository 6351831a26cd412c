"""Names and addresses of hosts: of file sources, of the web page, and those that requests to it give."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit


def shown_host(text: str) -> str:
    """How a message names text that is no address; hidden if it may hold a password."""
    return "what was given" if re.search(r"[:/?]", text) else repr(text)


def is_host_name(host: str) -> bool:
    """Whether this may be a host's name or address, with nothing in it that belongs elsewhere in a URL."""
    if re.search(r"[\s@/?#\[\]\\\x00-\x1f\x7f]", host):
        return False
    if ":" in host:
        return re.fullmatch(r"[0-9A-Fa-f:.]+(%[\w.-]+)?", host) is not None
    try:
        # Sockets do the same, and fail at a label that is empty or too long as at no server.
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def refuse_cut_password(url: str) -> None:
    """Raise ValueError, which repeats nothing of it, for a URL whose password an @ may cut.

    What is before a slash, or between two @, would count as host and port, and be shown.
    """
    found = _OF_SERVER.fullmatch(url)
    if found is None:
        return
    authority = re.sub(r"\[[^\]]*\]", "", found[1])
    if authority.count("@") > 1 or (":" in authority and "@" in found[2]):
        raise ValueError("an @ that does not end the login may cut its password: write %40 for it")


def split_server(url: str) -> SplitResult | None:
    """The parts of a URL of a server; None if it is no URL, or names no host or an impossible port.

    Raises ValueError as `refuse_cut_password` does.
    """
    refuse_cut_password(url)
    try:
        parts = urlsplit(url)
        named = is_host_name(parts.hostname or "") and parts.port != 0
    except ValueError:
        return None
    return parts if named else None


_OF_SERVER: Final = re.compile(r"[^:/]*://([^/?#]*)(.*)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(?::([0-9]{1,5}))?", re.ASCII)
WEB_PORTS: Final = {"http": 80, "https": 443}
_ANY_ADDRESS: Final = {"0.0.0.0", "::"}  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in lower case, and its port where one is given."""

    host: str
    port: int | None = None

    def is_same(self, other: Authority, scheme: str) -> bool:
        """Whether both name the same host and port; a port that is not given is that of the scheme."""
        usual = WEB_PORTS.get(scheme)
        return self.host == other.host and (self.port or usual) == (other.port or usual)


def parse_authority(text: str) -> Authority | None:
    """The host and port of a Host header; None if it is neither a name nor an address."""
    found = _AUTHORITY.fullmatch(text.strip())
    if found is None:
        return None
    host = found[1].lower().removesuffix(".")
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return None
    return Authority(host, int(found[2]) if found[2] else None) if host else None


def parse_origin(text: str) -> tuple[str, Authority] | None:
    """The scheme, host and port of an Origin header; None for one of no web page, such as `null`."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    authority = parse_authority(parts.netloc)
    if parts.scheme not in WEB_PORTS or authority is None or parts.path or parts.query or parts.fragment:
        return None
    return parts.scheme, authority


def parse_hosts(text: str) -> frozenset[str]:
    """The hosts of a list with commas, whose ports are ignored. Raises ValueError."""
    found = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = f"[{part}]" if part.count(":") > 1 and not part.startswith("[") else part
        authority = parse_authority(address)
        if authority is None or authority.host in _ANY_ADDRESS:
            raise ValueError(
                f"{shown_host(part)} is no name or address of a host: write such as dcc.example.org, 192.0.2.7"
            )
        found.add(authority.host)
    return frozenset(found)


def is_loopback(host: str) -> bool:
    """Whether a host, without brackets, is this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_any_address(host: str) -> bool:
    """Whether a server on this address answers on all addresses of the machine."""
    return host in _ANY_ADDRESS
