"""Where a set of reference data is read from, as a setting names it: a URL, or a path of a file or folder."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from dcc.redaction import MASK, keep_secret
from dcc.settings.host_names import is_host_name

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SCHEMES = ("http", "https")
_SECRET_NAME = re.compile(r"auth|code|cred|key|pass|pw|secret|sig|token", re.IGNORECASE)
_LIKE_A_TOKEN = 16
_SHOWN = re.compile(re.escape(MASK) + r"#[0-9a-f]{8}")


def is_url(source: str) -> bool:
    """Whether a source is on a web server."""
    return _URL.match(source) is not None


def parse_source(text: str) -> str:
    """A source as it is used: a URL as it is, a path made absolute.

    Raises ValueError, which does not repeat the text, for a URL that is not of the web or holds a user or password.
    """
    text = text.strip()
    found = _URL.match(text)
    if found is None:
        try:
            return str(Path(text).expanduser().absolute())
        except RuntimeError as error:
            raise ValueError("Path should not begin with the home directory (~) of a user that is not known") from error
    if found[1].lower() not in _SCHEMES:
        raise ValueError("a URL must begin with http:// or https://")
    try:
        parts = urlsplit(text)
        has_host = is_host_name(parts.hostname or "") and parts.port != 0
    except ValueError as error:
        raise ValueError("the URL cannot be read") from error
    if "@" in parts.netloc:
        raise ValueError("the URL must hold no user name or password; put the file into a folder instead")
    if not has_host or not text.isascii() or re.search(r"[\x00-\x20\x7f]", text):
        raise ValueError("the URL must name a host, and be in ASCII without blanks")
    url = text.partition("#")[0]
    keep_tokens(url)
    return url


def keep_tokens(url: str) -> None:
    """Have what a URL asks with taken out of log records and errors: a token may be anywhere in it."""
    query = url.partition("?")[2]
    asked = parse_qsl(query, keep_blank_values=True)
    tokens = [value for name, value in asked if _SECRET_NAME.search(name) or len(value) >= _LIKE_A_TOKEN]
    keep_secret(query, *tokens)


def shown_source(source: str) -> str:
    """A source as it is shown and stored: without what a URL asks with, for which its fingerprint stands."""
    place, found, query = source.partition("?")
    if not found or not is_url(source) or _SHOWN.fullmatch(query):
        return source
    return f"{place}?{MASK}#{sha256(query.encode()).hexdigest()[:8]}"


def below(url: str, path: str) -> str:
    """The URL of what is at a path below another one: it asks with the same."""
    place, found, query = url.partition("?")
    return f"{place.rstrip('/')}/{path}{found}{query}"


def is_from(source: str, configured: str) -> bool:
    """Whether a snapshot's `source` is what a setting names, or in the folder that it names."""
    return shown_source(source) == shown_source(configured) or source.startswith(configured.rstrip("/") + "/")
