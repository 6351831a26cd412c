"""Where notifications go: e-mail addresses, the URLs of mail server and webhook, whose path may be a secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from pydantic import SecretStr

from dcc.redaction import keep_secret
from dcc.settings.hosts import WEB_PORTS, is_host_name, shown_host, split_server

_ADDRESS = re.compile(r"[^\s@,:;<>\"\x00-\x1f\x7f]+@([^\s@,;<>\"\x00-\x1f\x7f]+)")
_LITERAL = re.compile(r"\[[0-9A-Za-z.:]+\]")
_MAIL_PORTS = {("smtp", False): 25, ("smtp", True): 587, ("smtps", False): 465, ("smtps", True): 465}
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
        return _label("smtps" if self.encrypted else "smtp", self.host, self.port)


def _label(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a list between commas, each once.

    Raises ValueError, which names the wrong one, unless it may be a URL with a password.
    """
    addresses = dict.fromkeys(part.strip() for part in text.split(",") if part.strip())
    for address in addresses:
        found = _ADDRESS.fullmatch(address)
        if found is None or not (is_host_name(found[1]) or _LITERAL.fullmatch(found[1])):
            raise ValueError(f"{shown_host(address)} is no e-mail address; write name@host, and commas between several")
    return tuple(addresses)


def parse_smtp_url(url: SecretStr) -> MailServer:
    """The mail server of a URL. Raises ValueError, which repeats nothing of the URL: it may hold a password."""
    wanted = "write smtp://user:password@host:port or smtps://..., with %40 for an @ in the user name or password"
    parts = split_server(url.get_secret_value().strip())
    if parts is None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"it has no host, or more behind it than a port: {wanted}")
    if parts.scheme not in ("smtp", "smtps"):
        raise ValueError(f"it begins with neither smtp:// nor smtps://: {wanted}")
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(username) != bool(password):
        raise ValueError("it has a user name without a password, or the reverse: give both or none")
    if not (username + password).isascii() or re.search(r"[\x00-\x1f\x7f]", username + password):
        raise ValueError("its user name or password has characters beyond ASCII, which SMTP logins cannot carry")
    return MailServer(
        host=str(parts.hostname),
        port=parts.port or _MAIL_PORTS[parts.scheme, bool(username)],
        encrypted=parts.scheme == "smtps",
        username=username,
        password=SecretStr(password),
    )


def parse_lineage_receiver(text: str) -> None:
    """See that a text is the URL of a web server, or the absolute path of a file. Raises ValueError, which repeats none
    of it: it may hold a password.
    """
    wanted = "write https://host/path, http:// within your own network, or the absolute path of a file"
    parts = split_server(text)
    is_server = parts is not None and parts.scheme in WEB_PORTS
    if not is_server and ("://" in text or not text.startswith("/")):
        raise ValueError(f"it is neither the URL of a server nor a path: {wanted}")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's address; `target` is what a request asks for: path and query."""

    host: str
    port: int
    encrypted: bool
    target: SecretStr

    @property
    def label(self) -> str:
        """How messages name it: `https://host:port`, without its path."""
        return _label("https" if self.encrypted else "http", self.host, self.port)


def parse_webhook(url: SecretStr) -> Webhook:
    """The webhook of a URL. Raises ValueError, which repeats nothing of the URL: it may hold a secret."""
    wanted = "write https://host/path, or http:// within your own network"
    text = url.get_secret_value().strip()
    parts = split_server(text)
    if parts is None or parts.scheme not in WEB_PORTS:
        raise ValueError(f"it has no host, or begins with neither https:// nor http://: {wanted}")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError(f"it has a user name, a password or a fragment, which are not sent: {wanted}")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"it has characters that URLs have not, such as spaces: percent-encode them, and {wanted}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if len(target) > len("/1234567"):
        keep_secret(target)
    return Webhook(
        str(parts.hostname), parts.port or WEB_PORTS[parts.scheme], parts.scheme == "https", SecretStr(target)
    )
