"""E-mail addresses and the mail server's URL, as the settings give them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from dcc.settings.host_names import is_host_name, named_unless_secret

_ADDRESS = re.compile(r"[^\s@,:;<>\"\x00-\x1f\x7f]+@([^\s@,;<>\"\x00-\x1f\x7f]+)")
_LITERAL = re.compile(r"\[[0-9A-Za-z.:]+\]")
_PORTS = {("smtp", False): 25, ("smtp", True): 587, ("smtps", False): 465, ("smtps", True): 465}
"""Ports by scheme and whether one logs in: mail is relayed on 25 and submitted on 587 and 465 (RFC 8314)."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """A mail server; `encrypted`: by TLS from the start."""

    host: str
    port: int
    encrypted: bool
    username: str
    password: SecretStr

    @property
    def label(self) -> str:
        """How messages name the server: `smtp://host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'smtps' if self.encrypted else 'smtp'}://{host}:{self.port}"


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a list between commas, each once.

    Raises ValueError, which names the one at fault, unless it may be a URL with a password.
    """
    addresses = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for address in addresses:
        if not _is_address(address):
            raise ValueError(
                f"{named_unless_secret(address)} is no e-mail address; write name@host, and commas between several"
            )
    return tuple(addresses)


def _is_address(text: str) -> bool:
    found = _ADDRESS.fullmatch(text)
    return found is not None and (is_host_name(found[1]) or _LITERAL.fullmatch(found[1]) is not None)


def parse_smtp_url(url: SecretStr) -> MailServer:
    """The mail server of a URL. Raises ValueError, which repeats nothing of the URL: it may hold a password."""
    wanted = "write smtp://user:password@host:port or smtps://..., with %40 for an @ in the user name or password"
    try:
        parts = urlsplit(url.get_secret_value().strip())
        port = parts.port
    except ValueError:
        raise ValueError(f"it is no URL: {wanted}") from None
    if parts.scheme not in ("smtp", "smtps"):
        raise ValueError(f"it begins with neither smtp:// nor smtps://: {wanted}")
    if (
        not is_host_name(parts.hostname or "")
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or port == 0
    ):
        raise ValueError(f"it has no host, or more behind it than a port: {wanted}")
    host = str(parts.hostname)
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(username) != bool(password):
        raise ValueError("it has a user name without a password, or the reverse: give both or none")
    if not (username + password).isascii() or re.search(r"[\x00-\x1f\x7f]", username + password):
        raise ValueError("its user name or password has characters beyond ASCII, which SMTP logins cannot carry")
    return MailServer(
        host=host,
        port=port or _PORTS[parts.scheme, bool(username)],
        encrypted=parts.scheme == "smtps",
        username=username,
        password=SecretStr(password),
    )
