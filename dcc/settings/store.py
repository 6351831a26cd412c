"""Settings: the object store, which several machines share, and the archive store, which keeps what arrived."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator, Field, SecretStr, field_validator

from dcc.settings.group import SettingsGroup, absolute, checked_by
from dcc.settings.hosts import split_server

WANTED: Final = "write s3://bucket/prefix or the path of a directory"
_WANTED_REPLICA: Final = "write s3://bucket/prefix, sftp://user@host/path or the path of a directory"

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_SCHEMES: Final = ("file", "s3", "gs", "az")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9](/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*/?")
LONGEST_REPLICA: Final = 255
_OPTIONAL: Final = " optional"


def parse_store(text: str, *, wanted: str = WANTED) -> str:
    """A store as it is used: the URL of a bucket, or an absolute path; `wanted` is what a message advises.

    Raises ValueError, which does not repeat the text: it may hold a password.
    """
    text = text.strip()
    found = _URL.fullmatch(text)
    if found is not None and found[1].lower() not in _SCHEMES:
        raise ValueError(f"it is of a kind that no store is: {wanted}")
    if found is not None and found[1].lower() != "file":
        if not _BUCKET.fullmatch(found[2]):
            raise ValueError(f"it names no bucket, or holds more than a bucket and a prefix: {wanted}")
        return f"{found[1].lower()}://{found[2].rstrip('/')}"
    path = text if found is None else found[2]
    if found is not None and not path.startswith("/"):
        raise ValueError("a URL with file:// must go on with an absolute path")
    return str(absolute(Path(path)))


class NamedReplica(NamedTuple):
    """A replica of the archive store: its URL, or the path of its directory, and whether it is required."""

    url: str
    is_required: bool


def parse_replicas(text: str) -> list[NamedReplica]:
    """The replicas of a list with commas, such as `/srv/archive, s3://bucket/prefix optional`.

    Raises ValueError, which does not repeat the text: it may hold a password.
    """
    found: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        url = part.removesuffix(_OPTIONAL).strip()
        is_sftp = url.lower().startswith("sftp://")
        found[_parse_sftp(url) if is_sftp else parse_store(url, wanted=_WANTED_REPLICA)] = url == part
    if not any(found.values()):
        raise ValueError("at least one replica must not be optional")
    if max(map(len, found)) > LONGEST_REPLICA:
        raise ValueError(f"a replica may have {LONGEST_REPLICA} characters at most")
    return [NamedReplica(*item) for item in found.items()]


def _parse_sftp(url: str) -> str:
    parts = split_server(url)
    if (
        parts is None
        or not parts.username
        or parts.password is not None
        or parts.query
        or parts.fragment
        or parts.path in ("", "/")
    ):
        raise ValueError("it must be such as sftp://user@host/path, without a password")
    return f"sftp://{parts.netloc}{parts.path.rstrip('/')}"


def parse_endpoint(text: str) -> str:
    """The URL of a server that speaks S3. Raises ValueError, which does not repeat the text."""
    parts = split_server(text.strip())
    if parts is None or parts.scheme not in ("http", "https") or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("it must be such as https://s3.example.org:9000, without a user name or password")
    return text.strip().rstrip("/")


class StoreSettings(SettingsGroup):
    """Which stores there are, and how they are logged in to."""

    section = "object_store"
    title = "The object store"

    store: Annotated[str, AfterValidator(parse_store)] | None = None
    """Object store: s3://bucket/prefix or a shared directory; else DCC_HOME/store."""
    store_endpoint: Annotated[str, AfterValidator(parse_endpoint)] | None = None
    """URL of the S3 server; else Amazon's."""
    store_access_key_id: str | None = None
    """Name of the S3 key; else as the AWS command finds it."""
    store_secret_access_key: SecretStr | None = None
    """Secret of the S3 key."""
    store_retry: float = Field(default=60.0, ge=0)
    """Seconds for which a session tries a store that is away."""
    archive_replicas: str | None = None
    """Archive store: directories, s3://, sftp:// between commas; else DCC_HOME/archive."""
    archive_access_key: SecretStr | None = None
    """Key of SFTP replicas: key:PATH, file:PATH or env:NAME."""

    archive_audit_days: int = Field(default=30, ge=1, le=36_500)
    """Days within which nightly audits read every copy."""

    archive_keep_days: int | None = Field(default=None, ge=1, le=36_500)
    """Days after which archives leave the archive store; else never."""

    _names_replicas = field_validator("archive_replicas")(checked_by(parse_replicas))
