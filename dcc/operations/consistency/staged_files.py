"""Rules about the staging area: no incomplete file under its final name, no leftovers. A missing file is no fault."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dcc.databases.list_parameters import IDS
from dcc.errors import BadFileNameError
from dcc.naming import Action
from dcc.operations.consistency.inconsistency import Inconsistency, download_state, zip_pages
from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS, Phase
from dcc.runtime.checksums import md5_of_open_file
from dcc.store.staging import Staging
from dcc.tracker.models import XmlFile, ZipAction, ZipFile
from dcc.tracker.states import EXTRACTING, State
from dcc.tracker.submission_rows import state_of, zip_key_of

_RETRY: Final = "Have it downloaded again: dcc retry {key}"
_CHUNK: Final = 500
_UNFINISHED: Final = (".part", ".part.json")
_UNPACKING: Final = ".unpacking-"


def staged_archives(connection: Connection, staging: Staging) -> Iterator[Inconsistency]:
    """C9."""
    for page in zip_pages(connection):
        for row in filter(_arrived, page):
            key = zip_key_of(row)
            try:
                wrong = _wrong_file("archive", staging.archive(key), row.size_bytes, row.content_md5)
            except (FileNotFoundError, BadFileNameError):
                continue
            except OSError as error:
                wrong = f"The archive in staging cannot be read: {os.strerror(error.errno or 0)}."
            if wrong is not None:
                yield Inconsistency("C9", str(key), f"{wrong} {_RETRY.format(key=key)}")


def _arrived(row: Row[Any]) -> bool:
    """Whether the archive of a submission arrived, with the download that counts."""
    download = download_state(row)
    return row.phase_id >= Phase.UNZIP and download is not None and download.phase >= Phase.UNZIP


def staged_documents(connection: Connection, staging: Staging) -> Iterator[Inconsistency]:
    """C10. If the folder of an archive exists, all of its documents are there."""
    query = select(XmlFile.zip_id, XmlFile.fname, XmlFile.size_bytes, XmlFile.content_md5).where(
        XmlFile.zip_id.in_(IDS), XmlFile.content_md5.is_not(None)
    )
    for page in zip_pages(connection):
        arrived = {row.download_id: zip_key_of(row) for row in page if row.phase_id >= Phase.UNZIP and row.download_id}
        folders = {download: key for download, key in arrived.items() if _has_contents(staging, key)}
        for row in connection.execute(query, {"ids": list(folders)}) if folders else ():
            key = folders[row.zip_id]
            path = staging.contents(key) / row.fname
            try:
                wrong = _wrong_file("document", path, row.size_bytes or 0, row.content_md5)
            except OSError as error:
                wrong = f"The document cannot be read in staging: {os.strerror(error.errno or 0)}."
            if wrong is not None:
                yield Inconsistency("C10", f"{key} {row.fname}", f"{wrong} {_RETRY.format(key=key)}")


def _has_contents(staging: Staging, key: ZipKey) -> bool:
    try:
        return staging.contents(key).is_dir()
    except BadFileNameError:
        return False


_CAME: Final = {"archive": ("arrived", "arrived"), "document": ("were extracted", "was extracted")}


def _wrong_file(noun: str, path: Path, size_bytes: int, md5: str | None) -> str | None:
    """What is wrong with an archive or document in staging; None for nothing. Raises OSError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != size_bytes:
            return f"The {noun} in staging has {size:,} bytes; {size_bytes:,} {_CAME[noun][0]}."
        if md5 is not None and md5_of_open_file(file) != md5:
            return f"The {noun} in staging has not the MD5 of the one that {_CAME[noun][1]}, {md5}."
    return None


def unfinished_files(connection: Connection, staging: Staging) -> Iterator[Inconsistency]:
    """C11. Only when no session is active: then every unfinished file waits to be continued."""
    for action in Action:
        found = _unfinished_files(staging.root / action)
        while chunk := list(islice(found, _CHUNK)):
            states = _states(connection, action, {archive for archive, _ in chunk if archive is not None})
            for archive, name in chunk:
                wrong = None
                if archive is None:
                    wrong = "It was being unpacked. The next session removes it: dcc crawl"
                elif archive not in states:
                    wrong = "The tracker knows no such archive. Remove the file."
                elif not _may_have_part(states[archive]):
                    wrong = (
                        f"It is part of an archive that is {states[archive]}: its download is over. Remove the file."
                    )
                if wrong is not None:
                    yield Inconsistency("C11", f"{action}/{name}", wrong)


def _unfinished_files(folder: Path) -> Iterator[tuple[str | None, str]]:
    """The names of unfinished files, each with that of its archive; None for an unfinished extraction."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            ending = next((ending for ending in _UNFINISHED if entry.name.endswith(ending)), None)
            if ending is not None:
                yield entry.name.removesuffix(ending), entry.name
            elif entry.name.startswith(".") and _UNPACKING in entry.name:
                yield None, entry.name


def _states(connection: Connection, action: Action, names: Iterable[str]) -> dict[str, State]:
    query = (
        select(ZipFile.file_name, ZipAction.phase_id, ZipAction.status_id)
        .join(ZipFile)
        .where(ZipFile.file_name.in_(list(names)), ZipAction.todo_id == ACTION_IDS[action])
    )
    return {row.file_name: state_of(row) for row in connection.execute(query)}


def _may_have_part(state: State) -> bool:
    """Whether a submission in this state may be downloaded, or may continue a download."""
    return state.phase < Phase.UNZIP or state == EXTRACTING
