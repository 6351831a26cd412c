"""Settings: where each set of reference data comes from, a URL or the path of a file or folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, unquote_plus

from pydantic import AfterValidator, Field

from dcc.redaction import MASK, keep_secret
from dcc.settings.group import SettingsGroup, absolute
from dcc.settings.hosts import split_server

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
        return str(absolute(Path(text)))
    if found[1].lower() not in _SCHEMES:
        raise ValueError("a URL must begin with http:// or https://")
    parts = split_server(text)
    if parts is not None and "@" in parts.netloc:
        raise ValueError("the URL must hold no user name or password; put the file into a folder instead")
    if parts is None or not text.isascii() or re.search(r"[\x00-\x20\x7f]", text):
        raise ValueError("the URL must name a host, and be in ASCII without blanks")
    url = text.partition("#")[0]
    redact_tokens(url)
    return url


def redact_tokens(url: str) -> None:
    """Keep the query of a URL out of logs and errors: a token may be in it."""
    query = url.partition("?")[2]
    alone = [("", unquote_plus(part)) for part in query.split("&") if "=" not in part]
    parameters = [*parse_qsl(query), *alone]
    tokens = [value for name, value in parameters if _SECRET_NAME.search(name) or len(value) >= _LIKE_A_TOKEN]
    keep_secret(query, *tokens)


def shown_source(source: str) -> str:
    """A source as shown and stored: a URL's query is replaced by its fingerprint."""
    place, found, query = source.partition("?")
    if not found or not is_url(source) or _SHOWN.fullmatch(query):
        return source
    return f"{place}?{MASK}#{sha256(query.encode()).hexdigest()[:8]}"


def url_below(url: str, path: str) -> str:
    """The URL of `path` below another URL, with the same query."""
    place, found, query = url.partition("?")
    return f"{place.rstrip('/')}/{path}{found}{query}"


def is_from_source(source: str, configured: str) -> bool:
    """Whether a snapshot's `source` is what a setting names, or in the folder that it names."""
    return shown_source(source) == shown_source(configured) or source.startswith(configured.rstrip("/") + "/")


ReferenceSource = Annotated[str, AfterValidator(parse_source)]
"""A URL or path that reference data are read from."""


class ReferenceSettings(SettingsGroup):
    """Where each set of reference data is read from, and how old it may become."""

    section = "reference"
    title = "Reference data"

    reference_impress: ReferenceSource | None = None
    """IMPReSS: URL of its API, or URL, file or folder with impress.json, or folder with impress/pipeline/list.json."""
    reference_status_codes: ReferenceSource | None = None
    """Status codes: URL, file or folder with status_codes.csv or .tsv: code, description."""
    reference_projects: ReferenceSource | None = None
    """Projects: URL, file or folder with projects.csv: project."""
    reference_colonies: ReferenceSource | None = Field(
        default=None,
        description="Colonies: URL, file or folder with colonies.csv: colony_id, production_centre, status; optional "
        "created, strain_id, gene_id, gene_symbol, allele_id, allele_symbol.",
    )
    reference_strains: ReferenceSource | None = None
    """Strains: URL, file or folder with strains.csv: strain_id, name; or MGI's MGI_Strain.rpt."""
    reference_max_age_days: int = Field(default=30, ge=1, le=3_650)
    """Days after which a set of reference data is stale."""

    @property
    def reference_sources(self) -> Mapping[str, str | None]:
        """Where each set of reference data is read from, by its name; None for what comes with the platform."""
        fields = ReferenceSettings.model_fields.items()
        sources = [name for name, field in fields if field.annotation == ReferenceSource | None]
        return {name.removeprefix("reference_"): getattr(self, name) for name in sources}
