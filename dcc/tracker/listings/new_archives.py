"""Records the archives of a listing that the source has not hosted before.

An archive, or its submission, may be known from another source. The number of statements grows with the number of new
archives, in steps of 500 names.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from sqlalchemy import select

from dcc.databases.transactions import insert_rows
from dcc.errors import BadFileNameError
from dcc.messages import mark
from dcc.naming import ZipName
from dcc.outcomes import Problem, ZipKey
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.sources.base import ListedFile, SourceAddress
from dcc.sources.listing_watch import ListingWatch
from dcc.tracker import progress
from dcc.tracker.database import exception_id
from dcc.tracker.hostings.changed_archives import loaded_zips
from dcc.tracker.hostings.unusual_sizes import UNUSUAL_SIZE, earlier_sizes, unusual_size
from dcc.tracker.listings.basis import ListingBasis, ParsedName, RecordedListing
from dcc.tracker.listings.comparing import ATTRIBUTES, attributes, differ
from dcc.tracker.listings.findings import SIZE_DIFFERS, Finding, size_message
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.problems import problem_columns
from dcc.tracker.progress import NewZipAction
from dcc.tracker.states import REFUSED, WAITING
from dcc.tracker.submission_rows import IDS, rows_about

_AT_ONCE: Final = 5_000
"""The most archives recorded together: more rows would fill the memory at a source's first listing."""


_LISTED_SIZE: Final = (
    select(FileSourceHasZip.size_bytes)
    .where(FileSourceHasZip.za_id == ZipAction.id, FileSourceHasZip.size_bytes.is_not(None))
    .order_by(FileSourceHasZip.id)
    .limit(1)
    .correlate(ZipAction)
    .scalar_subquery()
)


@dataclass(frozen=True, slots=True)
class _Archive:
    """A row of an archive: its id, and whether it was known before."""

    id: int
    is_known: bool


@dataclass(frozen=True, slots=True)
class _Submissions:
    """The `ids` of new archives' submissions.

    `added` are those first seen now, each with the reason if its name is refused. Of known ones, `sizes` are those that
    another source lists, `conforming` are those whose refused names conform now, `failed` those that failed after their
    archive had arrived; both by id.
    """

    ids: Mapping[ZipKey, int]
    added: Mapping[ZipKey, Problem | None]
    sizes: Mapping[ZipKey, int | None]
    conforming: Mapping[ZipKey, int]
    failed: Mapping[ZipKey, int]


class NewArchives:
    """Records what one source lists of archives that it has not hosted before."""

    def __init__(self, basis: ListingBasis, address: SourceAddress) -> None:
        self._basis: Final = basis
        self._address: Final = address

    def record(self, new: Mapping[ZipKey, ListedFile], result: RecordedListing) -> None:
        """Record the archives, part by part."""
        files = iter(new.items())
        # It reports progress as a listing does, but has no time limit: the archives are listed already.
        watch = ListingWatch(self._address.label, math.inf, self._basis.on_progress)
        recorded = 0
        while part := dict(islice(files, _AT_ONCE)):
            self._record_some(part, result)
            recorded += len(part)
            watch.say(f"recorded {recorded:,} of {len(new):,} new archives so far")

    def _record_some(self, new: Mapping[ZipKey, ListedFile], result: RecordedListing) -> None:
        parsed = {key.file_name: self._basis.parse(key.file_name) for key in new}
        archives = self._archives(new, parsed)
        submissions = self._submissions(new, archives, parsed)
        self._basis.accept(submissions.conforming, result)
        taken = self._take_own_copies(submissions.failed, parsed)
        result.unsettled |= {
            key: file
            for key, file in new.items()
            if submissions.added.get(key) is None and self._basis.is_unsettled(file, changed=True)
        }
        self._add_hostings(new, submissions.ids, result.unsettled)
        for key, reason in submissions.added.items():
            if reason is None:
                result.new_zips.append(key)
            else:
                result.refused_zips.append((key, reason.message))
        for key, file in new.items():
            listed_before = submissions.sizes.get(key)
            # If another copy proved bad and this one is fetched now, the other's size does not matter any more.
            if submissions.ids[key] not in taken and differ(listed_before, file.size_bytes):
                message = size_message(self._address, key, listed_before, file)
                result.findings.append(Finding(SIZE_DIFFERS, key, submissions.ids[key], message))
        result.findings += self._unusual(new, submissions, parsed)

    def _archives(self, new: Mapping[ZipKey, ListedFile], parsed: Mapping[str, ParsedName]) -> dict[str, _Archive]:
        """The row of every archive in `new`, by file name; unknown ones are added.

        The parsed name of a known one is recorded if it did not conform before.
        """
        sizes = {key.file_name: file.size_bytes for key, file in new.items()}
        found: dict[str, _Archive] = {}
        conforming: dict[int, ZipName] = {}
        query = select(ZipFile.file_name, ZipFile.id, ZipFile.centre_id).where(ZipFile.file_name.in_(IDS))
        for file_name, number, centre in rows_about(self._basis.connection, query, sizes):
            found[file_name] = _Archive(number, is_known=True)
            if centre is None and (name := parsed[file_name][0]) is not None:
                conforming[number] = name
        self._basis.note_names(conforming)
        missing = [name for name in sizes if name not in found]
        rows = [
            {
                "file_name": file_name,
                "centre_id": (name := parsed[file_name][0]) and self._basis.centres[name.centre],
                "created": name and name.created,
                "inc": name and name.inc,
                "size_bytes": sizes[file_name],
            }
            for file_name in missing
        ]
        ids = insert_rows(self._basis.connection, ZipFile, rows)
        for file_name, number in zip(missing, ids, strict=True):
            found[file_name] = _Archive(number, is_known=False)
        return found

    def _submissions(
        self, new: Mapping[ZipKey, ListedFile], archives: Mapping[str, _Archive], parsed: Mapping[str, ParsedName]
    ) -> _Submissions:
        """The submissions of the archives in `new`; unknown ones are added."""
        ids: dict[ZipKey, int] = {}
        sizes: dict[ZipKey, int | None] = {}
        failed: dict[ZipKey, int] = {}
        conforming: dict[ZipKey, int] = {}
        known = {archive.id: name for name, archive in archives.items() if archive.is_known}
        state = (ZipAction.phase_id, ZipAction.status_id)
        columns = (ZipAction.zip_id, ZipAction.todo_id, ZipAction.id, *state, _LISTED_SIZE)
        query = select(*columns).where(ZipAction.zip_id.in_(IDS))
        for zip_id, todo, za_id, phase, status, size in rows_about(self._basis.connection, query, known):
            key = ZipKey(ACTIONS_BY_ID[todo], known[zip_id])
            ids[key], sizes[key] = za_id, size
            if key in new and status == Status.FAILED and phase > Phase.ZIP_MD5:
                failed[key] = za_id
            if (phase, status) == REFUSED and key in new and parsed[key.file_name][0] is not None:
                conforming[key] = za_id
        added = {key: parsed[key.file_name][1] for key in new if key not in ids}
        rows = [
            NewZipAction(archives[key.file_name].id, key.action, WAITING if reason is None else REFUSED)
            for key, reason in added.items()
        ]
        ids.update(zip(added, progress.add_zip_actions(self._basis.connection, rows), strict=True))
        self._log_refusals({ids[key]: reason for key, reason in added.items() if reason is not None})
        return _Submissions(ids, added, sizes, conforming, failed)

    def _log_refusals(self, reasons: Mapping[int, Problem]) -> None:
        if not reasons:
            return
        kind = exception_id(self._basis.connection, BadFileNameError.short_name(), BadFileNameError.summary())
        insert_rows(
            self._basis.connection,
            ZipActionLog.__table__,
            [{"za_id": za_id, "exception_id": kind, **problem_columns(problem)} for za_id, problem in reasons.items()],
        )

    def _add_hostings(
        self, new: Mapping[ZipKey, ListedFile], ids: Mapping[ZipKey, int], unsettled: Collection[ZipKey]
    ) -> None:
        insert_rows(
            self._basis.connection,
            FileSourceHasZip,
            [
                {
                    "za_id": ids[key],
                    "file_source_id": self._address.id,
                    "num_retries": 0,
                    "uploading_since": self._basis.now if key in unsettled else None,
                }
                | dict(zip(ATTRIBUTES, attributes(file), strict=True))
                for key, file in new.items()
            ],
        )

    def _take_own_copies(self, failed: Mapping[ZipKey, int], parsed: Mapping[str, ParsedName]) -> set[int]:
        """Let archives be downloaded again that failed on others' sources, and that their own centre has now; returns
        these.
        """
        names = {key: parsed[key.file_name][0] for key in failed}
        own = {failed[key] for key, name in names.items() if name is not None and name.centre == self._address.centre}
        anew = own - loaded_zips(self._basis.connection, own)
        self._basis.reopen(anew, mark("A file source of its own centre has it now."))
        return anew

    def _unusual(
        self, new: Mapping[ZipKey, ListedFile], submissions: _Submissions, parsed: Mapping[str, ParsedName]
    ) -> list[Finding]:
        """Findings about new archives whose size is unusual for their centre; one statement for each centre."""
        names = {key: name for key in submissions.added if (name := parsed[key.file_name][0]) is not None}
        found = []
        for centre in sorted({name.centre for name in names.values()}):
            sizes = {key: new[key].size_bytes for key, name in names.items() if name.centre == centre}
            names_here = {key.file_name for key in sizes}
            before = earlier_sizes(self._basis.connection, self._basis.centres[centre], names_here)
            found += [
                Finding(UNUSUAL_SIZE, key, submissions.ids[key], text)
                for key, size in sizes.items()
                if (text := unusual_size(key, size, before)) is not None
            ]
        return found
