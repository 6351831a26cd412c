"""The manifest of a backup set, `manifest.json`, written last; and the sets in a directory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, SecretStr, TypeAdapter
from sqlalchemy.engine import make_url

from dcc.databases.engines import database_label
from dcc.errors import BackupError
from dcc.operations.backups.row_copies import TableSum
from dcc.settings import Settings

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
STAGING_INDEX: Final = "staging.jsonl.gz"
STAGING_FILES: Final = "staging"
SET_NAME: Final = re.compile(r"dcc-[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?").fullmatch

_MADE_BY: Final = "dcc backup"


@dataclass(frozen=True, slots=True)
class SetFile:
    """A file of a set: its name, bytes and SHA-256."""

    name: Annotated[str, Field(pattern=r"^[a-z_]+\.(?:db|jsonl\.gz)$")]
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DatabaseOfSet:
    """A database of a set: its file, schema, tables, and the kind of database that it was read from."""

    file: SetFile
    revision: str
    kind: str
    tables: Mapping[str, TableSum]


@dataclass(frozen=True, slots=True)
class StagingOfSet:
    """Staging of a set: the file with the list, the number of files and bytes; whether it has the files too."""

    index: SetFile
    files: int
    size_bytes: int
    copied: bool


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The description of a set. `sessions` are those that were active; `seconds` is how long the backup took."""

    created: datetime
    platform_version: str
    seconds: float
    with_secrets: bool
    sessions: tuple[int, ...]
    tracker: DatabaseOfSet
    qc: DatabaseOfSet
    staging: StagingOfSet
    settings: Mapping[str, str]

    @property
    def rows(self) -> int:
        """The rows of all tables of both databases."""
        return sum(table.rows for database in (self.tracker, self.qc) for table in database.tables.values())


def write_manifest(directory: Path, manifest: BackupManifest) -> None:
    """Write the manifest of a set, readable by this user only."""
    content = {"made_by": _MADE_BY, "format_version": FORMAT_VERSION} | asdict(manifest)
    content["created"] = f"{manifest.created:%Y-%m-%dT%H:%M:%SZ}"
    path = directory / MANIFEST
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_manifest(directory: Path) -> BackupManifest:
    """Read the manifest of a set. Raises BackupError if there is none, or one of a later format."""
    path = directory / MANIFEST
    try:
        read: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if read["made_by"] != _MADE_BY:
            raise ValueError(read["made_by"])
        version = int(read["format_version"])
        if version <= FORMAT_VERSION:
            # Sets of earlier versions name one session at most.
            sessions = read["sessions"] if "sessions" in read else [read["session"]]
            created = datetime.strptime(read["created"], "%Y-%m-%dT%H:%M:%SZ")
            known = {"created": created, "sessions": [session for session in sessions if session is not None]}
            return TypeAdapter(BackupManifest).validate_python(read | known)
    except FileNotFoundError as error:
        raise BackupError(
            f"{directory} holds no whole backup: {MANIFEST} is missing. Name a directory that dcc backup has made."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{path} is damaged, or no manifest of a backup. Use another backup.") from error
    except OSError as error:
        raise BackupError(f"{path} could not be read: {error.strerror}. Check its permissions and the disk.") from error
    raise BackupError(
        f"{directory} has the format {version}, and this version reads {FORMAT_VERSION} at most. Use the version of "
        f"dcc that made it ({read.get('platform_version')}), or a later one."
    )


def shown_settings(settings: Settings) -> dict[str, str]:
    """The settings that differ from the defaults, by environment variable, without secrets."""
    shown: dict[str, str] = {}
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if value is None or value == field.get_default(call_default_factory=True):
            continue
        if isinstance(value, SecretStr):
            value = database_label(make_url(value.get_secret_value())) if name.endswith("_url") else "***"
        shown[f"DCC_{name.upper()}"] = str(value)
    return shown


def sets_in(directory: Path) -> list[Path]:
    """The complete sets in a directory, oldest first."""
    try:
        named = [path for path in directory.iterdir() if SET_NAME(path.name)]
    except OSError as error:
        raise BackupError(
            f"The directory {directory} could not be read: {error.strerror}. Check the path and its permissions."
        ) from error
    return sorted((path for path in named if (path / MANIFEST).is_file()), key=_age)


def _age(path: Path) -> tuple[str, int]:
    moment, _, number = path.name.removeprefix("dcc-").partition("Z-")
    return moment.rstrip("Z"), int(number or 0)


def find_set(directory: Path) -> Path:
    """The directory itself if it is a set, else the newest set in it. Raises BackupError if there is none."""
    if (directory / MANIFEST).is_file():
        return directory
    found = sets_in(directory)
    if not found:
        raise BackupError(
            f"{directory} holds no whole backup: {MANIFEST} is missing. Name a directory that dcc backup has made."
        )
    return found[-1]
