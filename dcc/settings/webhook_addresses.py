"""The URL of a webhook, as the settings give it: its path or query may be what lets one write to it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from dcc.redaction import keep_secret
from dcc.settings.host_names import is_host_name

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook's address; `target` is what is asked of the server: path and query."""

    host: str
    port: int
    encrypted: bool
    target: SecretStr

    @property
    def label(self) -> str:
        """How messages name it: `https://host:port`, without its path."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.encrypted else 'http'}://{host}:{self.port}"


def parse_webhook(url: SecretStr) -> Webhook:
    """The webhook of a URL. Raises ValueError, which repeats nothing of the URL: it may hold a secret."""
    wanted = "write https://host/path, or http:// within your own network"
    text = url.get_secret_value().strip()
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"it is no URL: {wanted}") from None
    if parts.scheme not in _PORTS or not is_host_name(parts.hostname or "") or port == 0:
        raise ValueError(f"it has no host, or begins with neither https:// nor http://: {wanted}")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError(f"it has a user name, a password or a fragment, which are not sent: {wanted}")
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"it has characters that URLs have not, such as spaces: percent-encode them, and {wanted}")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if len(target) > len("/1234567"):
        keep_secret(target)
    return Webhook(str(parts.hostname), port or _PORTS[parts.scheme], parts.scheme == "https", SecretStr(target))
