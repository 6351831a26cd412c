"""What a file source showed, written to the tracker set by set (seed 000 section 4; defects 6, 7, 20, 38, 39).

One source's listing is compared with what is known of that source in one query; the number of statements depends on
how much is new, in steps of `_CHUNK` names, never on how much is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from sqlalchemy import Connection, bindparam, select, update

from dcc_resources.errors import BadFileNameError
from dcc_resources.file_sources.base import ActionListing, ListedFile, SourceAddress
from dcc_resources.naming import NamingConvention, ZipName
from dcc_resources.outcomes import ZipKey
from dcc_resources.tracker import progress
from dcc_resources.tracker.database import exception_id, insert_rows
from dcc_resources.tracker.known_hostings import (
    REFUSED,
    KnownHosting,
    attributes,
    change_message,
    compare_with_known,
    completed,
    differ,
    size_message,
)
from dcc_resources.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipActionLog, ZipFile
from dcc_resources.tracker.progress import NewZipAction
from dcc_resources.tracker.reference import ACTIONS_BY_ID
from dcc_resources.tracker.states import WAITING

_CHUNK = 500
_NEW_AT_ONCE = 5_000
"""New archives that are recorded together: rows of more would fill the memory when a file source is listed first."""
_MOST_FINDINGS = 200

ParsedName: TypeAlias = tuple[ZipName | None, str | None]
"""What a file name says, or why it is refused."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a listed archive that a wrangler must know."""

    kind: str
    key: ZipKey
    za_id: int | None
    message: str


@dataclass
class RecordedListing:
    """What recording one listing came to; counts are of archives."""

    listed: int = 0
    known: int = 0
    gone: int = 0
    changed: int = 0
    new_zips: list[ZipKey] = field(default_factory=list)
    refused_zips: list[tuple[ZipKey, str]] = field(default_factory=list)
    accepted_zips: list[ZipKey] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class ListingRecorder:
    """Writes listings within the caller's write transaction.

    `centres` maps the short names of all registered centres to their ids.
    """

    connection: Connection
    session_id: int
    naming: NamingConvention
    centres: Mapping[str, int]
    now: datetime

    def record(self, address: SourceAddress, listings: Sequence[ActionListing]) -> RecordedListing:
        """Record what `listings`, each a directory that could be listed, show of one source."""
        compared = compare_with_known(self.connection, address.id, listings)
        result = RecordedListing(listed=compared.listed, known=compared.listed - len(compared.new))
        self._record_gone(compared.gone)
        result.gone = len(compared.gone)
        self._record_seen_again(address, compared.noteworthy, result)
        self._reconsider_names(compared.noteworthy, result)
        self._record_new(address, compared.new, result)
        self._write_findings(address, result.findings)
        return result

    def _record_gone(self, hosting_ids: list[int]) -> None:
        for ids in _chunks(hosting_ids):
            self.connection.execute(
                update(FileSourceHasZip).where(FileSourceHasZip.id.in_(ids)).values(gone_since=self.now)
            )

    def _record_seen_again(
        self, address: SourceAddress, seen: Mapping[ZipKey, tuple[KnownHosting, ListedFile]], result: RecordedListing
    ) -> None:
        """Report what changed since it was last listed, and note how it is listed at present."""
        rows, sizes = [], []
        for key, (entry, file) in seen.items():
            changed = differ(entry.size_bytes, file.size_bytes) or differ(entry.modified, file.modified)
            present = file if changed else completed(file, entry)
            if present.size_bytes != entry.size_bytes and entry.to_download:
                sizes.append({"zip": entry.zip_id, "size": present.size_bytes})
            if changed:
                result.changed += 1
                result.findings.append(Finding("changed", key, entry.za_id, change_message(address, key, entry, file)))
            if entry.gone or attributes(present) != attributes(entry):
                rows.append(_hosting_values(entry.hosting_id, present))
        if rows:
            self.connection.execute(_UPDATE_HOSTING, rows)
        if sizes:
            self.connection.execute(
                update(ZipFile.__table__).where(ZipFile.id == bindparam("zip")).values(size_bytes=bindparam("size")),
                sizes,
            )

    def _reconsider_names(
        self, seen: Mapping[ZipKey, tuple[KnownHosting, ListedFile]], result: RecordedListing
    ) -> None:
        """Accept archives refused before whose names conform by now, their centre having been registered."""
        refused = {key: entry for key, (entry, _) in seen.items() if entry.state == REFUSED}
        names = {entry.zip_id: name for key, entry in refused.items() if (name := self._parse(key.file_name)[0])}
        self._note_names(names)
        self._accept({key: entry.za_id for key, entry in refused.items() if entry.zip_id in names}, result)

    def _note_names(self, names: Mapping[int, ZipName]) -> None:
        """Note what the names of archives, by id, say."""
        if not names:
            return
        self.connection.execute(
            update(ZipFile.__table__)
            .where(ZipFile.id == bindparam("zip"))
            .values(centre_id=bindparam("centre"), created=bindparam("day"), inc=bindparam("number")),
            [
                {"zip": zip_id, "centre": self.centres[name.centre], "day": name.created, "number": name.inc}
                for zip_id, name in names.items()
            ],
        )

    def _accept(self, refused: Mapping[ZipKey, int], result: RecordedListing) -> None:
        """Let zip actions that were refused wait for download."""
        if not refused:
            return
        progress.reopen(
            self.connection,
            list(refused.values()),
            requested_by="crawl",
            reason="The file name conforms: its centre or the naming convention has been registered since.",
        )
        result.accepted_zips.extend(refused)

    def _record_new(self, address: SourceAddress, new: Mapping[ZipKey, ListedFile], result: RecordedListing) -> None:
        files = iter(new.items())
        while part := dict(islice(files, _NEW_AT_ONCE)):
            self._record_some_new(address, part, result)

    def _record_some_new(
        self, address: SourceAddress, new: Mapping[ZipKey, ListedFile], result: RecordedListing
    ) -> None:
        parsed = {key.file_name: self._parse(key.file_name) for key in new}
        zips, known = self._zip_files(new, parsed)
        actions, added, refused = self._zip_actions(new, zips, known, parsed)
        self._accept(refused, result)
        insert_rows(
            self.connection,
            FileSourceHasZip.__table__,
            [
                {
                    "za_id": actions[key],
                    "file_source_id": address.id,
                    "num_retries": 0,
                    "size_bytes": file.size_bytes,
                    "modified": file.modified,
                    "has_md5": file.has_md5,
                }
                for key, file in new.items()
            ],
        )
        for key, reason in added.items():
            if reason is None:
                result.new_zips.append(key)
            else:
                result.refused_zips.append((key, reason))
        for key, file in new.items():
            listed_before = zips[key.file_name][1]
            if differ(listed_before, file.size_bytes):
                result.findings.append(
                    Finding("size_differs", key, actions[key], size_message(address, key, listed_before, file))
                )

    def _zip_files(
        self, new: Mapping[ZipKey, ListedFile], parsed: Mapping[str, ParsedName]
    ) -> tuple[dict[str, tuple[int, int | None]], dict[int, str]]:
        """Id and size so far of every archive in `new`, by file name, and the names, by id, of those known before.

        Those not known yet are added. What the name of a known one says is noted if it did not conform so far.
        """
        sizes = {key.file_name: file.size_bytes for key, file in new.items()}
        found: dict[str, tuple[int, int | None]] = {}
        unread: dict[int, ZipName] = {}
        for names in _chunks(list(sizes)):
            query = select(ZipFile.file_name, ZipFile.id, ZipFile.size_bytes, ZipFile.centre_id)
            for file_name, number, size, centre in self.connection.execute(query.where(ZipFile.file_name.in_(names))):
                found[file_name] = number, size
                if centre is None and (name := self._parse(file_name)[0]) is not None:
                    unread[number] = name
        self._note_names(unread)
        known = {number: name for name, (number, _) in found.items()}
        missing = [name for name in sizes if name not in found]
        rows = []
        for file_name in missing:
            name, _ = parsed[file_name]
            rows.append(
                {
                    "file_name": file_name,
                    "centre_id": name and self.centres[name.centre],
                    "created": name and name.created,
                    "inc": name and name.inc,
                    "size_bytes": sizes[file_name],
                }
            )
        ids = insert_rows(self.connection, ZipFile.__table__, rows) if rows else []
        found.update({name: (number, sizes[name]) for name, number in zip(missing, ids, strict=True)})
        return found, known

    def _zip_actions(
        self,
        new: Mapping[ZipKey, ListedFile],
        zips: Mapping[str, tuple[int, int | None]],
        known: Mapping[int, str],
        parsed: Mapping[str, ParsedName],
    ) -> tuple[dict[ZipKey, int], dict[ZipKey, str | None], dict[ZipKey, int]]:
        """Ids of the zip actions in `new`; those first seen here, each with the reason if it is refused; and ids of
        those refused before whose names conform.
        """
        ids: dict[ZipKey, int] = {}
        refused: dict[ZipKey, int] = {}
        for zip_ids in _chunks(list(known)):
            query = select(
                ZipAction.zip_id, ZipAction.todo_id, ZipAction.id, ZipAction.phase_id, ZipAction.status_id
            ).where(ZipAction.zip_id.in_(zip_ids))
            for zip_id, todo, za_id, phase, status in self.connection.execute(query):
                key = ZipKey(ACTIONS_BY_ID[todo], known[zip_id])
                ids[key] = za_id
                if (phase, status) == REFUSED and key in new and parsed[key.file_name][0] is not None:
                    refused[key] = za_id
        added = {key: parsed[key.file_name][1] for key in new if key not in ids}
        rows = [
            NewZipAction(zips[key.file_name][0], key.action, WAITING if reason is None else REFUSED)
            for key, reason in added.items()
        ]
        ids.update(zip(added, progress.add_zip_actions(self.connection, rows), strict=True))
        self._log_refusals({ids[key]: reason for key, reason in added.items() if reason is not None})
        return ids, added, refused

    def _log_refusals(self, reasons: Mapping[int, str]) -> None:
        if not reasons:
            return
        kind = exception_id(self.connection, BadFileNameError.short_name(), BadFileNameError.summary())
        insert_rows(
            self.connection,
            ZipActionLog.__table__,
            [{"za_id": za_id, "exception_id": kind, "message": reason} for za_id, reason in reasons.items()],
        )

    def _write_findings(self, address: SourceAddress, findings: Sequence[Finding]) -> None:
        if not findings:
            return
        rows = [
            {
                "session_id": self.session_id,
                "file_source_id": address.id,
                "za_id": finding.za_id,
                "file_name": str(finding.key)[:160],
                "kind": finding.kind,
                "message": finding.message,
                "created": self.now,
            }
            for finding in findings[:_MOST_FINDINGS]
        ]
        insert_rows(self.connection, CrawlFinding.__table__, rows)

    def _parse(self, file_name: str) -> ParsedName:
        try:
            return self.naming.parse_zip_name(file_name, self.centres), None
        except BadFileNameError as error:
            return None, str(error)


_UPDATE_HOSTING = (
    update(FileSourceHasZip.__table__)
    .where(FileSourceHasZip.id == bindparam("hosting"))
    .values(size_bytes=bindparam("size"), modified=bindparam("time"), has_md5=bindparam("checksum"), gone_since=None)
)


def _hosting_values(hosting_id: int, file: ListedFile) -> dict[str, object]:
    return {"hosting": hosting_id, "size": file.size_bytes, "time": file.modified, "checksum": file.has_md5}


def _chunks(items: list[str] | list[int]) -> Iterator[list[str] | list[int]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
