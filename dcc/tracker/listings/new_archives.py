"""Records the archives that a source lists and has not hosted before; other sources may have them already."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from sqlalchemy import select

from dcc.databases.list_parameters import IDS, rows_about, rows_with
from dcc.databases.transactions import insert_rows
from dcc.errors import BadFileNameError
from dcc.messages import mark
from dcc.naming import ArchiveName
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase
from dcc.sources.base import ListedFile, SourceAddress
from dcc.sources.listing_watch import ListingWatch
from dcc.tracker import progress
from dcc.tracker.crawls import FUTURE_DATE, SIZE_DIFFERS, UNUSUAL_SIZE
from dcc.tracker.database import exception_id
from dcc.tracker.hostings.changed_archives import last_hostings, loaded_submissions
from dcc.tracker.listings.comparing import ATTRIBUTES, attributes, differ
from dcc.tracker.listings.findings import ListingFinding, earlier_sizes, future_message, size_message, unusual_size
from dcc.tracker.listings.listing_basis import ListingBasis, RecordedListing
from dcc.tracker.models import FileSource, FileSourceHasZip, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.problems import problem_columns
from dcc.tracker.states import REFUSED, WAITING
from dcc.tracker.submission_rows import KEY, state_of, submission_key_of

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
_KNOWN: Final = (
    select(
        *KEY,
        ZipFile.id.label("zip_id"),
        ZipFile.centre_id,
        ZipAction.id.label("za_id"),
        ZipAction.phase_id,
        ZipAction.status_id,
        _LISTED_SIZE.label("size_bytes"),
    )
    .select_from(ZipFile)
    .outerjoin(ZipAction)
    .where(ZipFile.file_name.in_(IDS))
)
"""Archives with each of their submissions."""


def record_new(
    basis: ListingBasis, address: SourceAddress, new: Mapping[SubmissionKey, ListedFile], result: RecordedListing
) -> None:
    """Record what a source lists of archives that it has not hosted before, part by part."""
    files = iter(new.items())
    # It reports progress as a listing does, but has no time limit: the archives are listed already.
    watch = ListingWatch(address.label, math.inf, basis.on_progress)
    recorded = 0
    while part := dict(islice(files, _AT_ONCE)):
        _Part(basis, address, part).record(result)
        recorded += len(part)
        watch.say(f"recorded {recorded:,} of {len(new):,} new archives so far")


class _Part:
    """Some of the new archives. `known` are the rows of those whose submissions are known; `zips` the ids of archives.

    `names` are the parsed names; `refused` the reasons of those that do not conform.
    """

    def __init__(self, basis: ListingBasis, address: SourceAddress, new: Mapping[SubmissionKey, ListedFile]) -> None:
        self._basis, self._address, self._new = basis, address, new
        self._names: dict[str, ArchiveName] = {}
        self._refused: dict[str, Problem] = {}
        for file_name in dict.fromkeys(key.file_name for key in new):
            parsed = basis.parse(file_name)
            if isinstance(parsed, ArchiveName):
                self._names[file_name] = parsed
            else:
                self._refused[file_name] = parsed
        self._known: dict[SubmissionKey, Any] = {}
        self._zips: dict[str, int] = {}
        conforming: dict[int, ArchiveName] = {}
        for row in rows_about(basis.connection, _KNOWN, (key.file_name for key in new)):
            self._zips[row.file_name] = row.zip_id
            if row.za_id is not None and (key := submission_key_of(row)) in new:
                self._known[key] = row
            if row.centre_id is None and row.file_name in self._names:
                conforming[row.zip_id] = self._names[row.file_name]
        basis.note_names(conforming)

    def record(self, result: RecordedListing) -> None:
        """Add what is not known, and let known submissions be fetched from here that could not be before."""
        self._add_archives()
        added = self._add_submissions()
        ids = {key: row.za_id for key, row in self._known.items()} | added
        refused = [key for key, row in self._known.items() if state_of(row) == REFUSED]
        self._basis.accept({key: ids[key] for key in filter(self._conforms, refused)}, result)
        taken = self._take_own_copies()
        # If another copy proved bad and this one is fetched now, the other's size does not matter any more.
        sizes = {
            key: row.size_bytes
            for key, row in self._known.items()
            if row.za_id not in taken and differ(row.size_bytes, self._new[key].size_bytes)
        }
        loaded = loaded_submissions(self._basis.connection, [ids[key] for key in sizes])
        for key, file in self._new.items():
            is_fetched = key not in added or self._conforms(key)
            if is_fetched and self._basis.is_unsettled(file, changed=True):
                result.unsettled[key] = file
            if key in added and self._conforms(key):
                result.new_zips.append(key)
            elif key in added:
                result.refused_zips.append((key, self._refused[key.file_name].message))
            if key in sizes:
                message = size_message(self._address, key, sizes[key], file, loaded=ids[key] in loaded)
                result.findings.append(ListingFinding(SIZE_DIFFERS, key, ids[key], message))
        self._add_hostings(ids, result)
        result.findings += [*self._unusual(added), *self._in_the_future(added)]

    def _conforms(self, key: SubmissionKey) -> bool:
        return key.file_name in self._names

    def _add_archives(self) -> None:
        sizes = {key.file_name: file.size_bytes for key, file in self._new.items()}
        missing = [name for name in sizes if name not in self._zips]
        rows = [
            {
                "file_name": file_name,
                "centre_id": (name := self._names.get(file_name)) and self._basis.centres[name.centre],
                "created": name and name.created,
                "inc": name and name.inc,
                "size_bytes": sizes[file_name],
            }
            for file_name in missing
        ]
        self._zips.update(zip(missing, insert_rows(self._basis.connection, ZipFile, rows), strict=True))

    def _add_submissions(self) -> dict[SubmissionKey, int]:
        connection = self._basis.connection
        added = [key for key in self._new if key not in self._known]
        states = {key: WAITING if self._conforms(key) else REFUSED for key in added}
        ids = dict(zip(added, progress.add_zip_actions(connection, states, self._zips), strict=True))
        reasons = {ids[key]: self._refused[key.file_name] for key in added if not self._conforms(key)}
        if reasons:
            kind = {"exception_id": exception_id(connection, BadFileNameError.short_name(), BadFileNameError.summary())}
            log = [{"za_id": za_id, **kind, **problem_columns(problem)} for za_id, problem in reasons.items()]
            insert_rows(connection, ZipActionLog.__table__, log)
        return ids

    def _add_hostings(self, ids: Mapping[SubmissionKey, int], result: RecordedListing) -> None:
        rows = [
            {
                "za_id": ids[key],
                "file_source_id": self._address.id,
                "num_retries": 0,
                "first_listed": self._basis.now,
                "uploading_since": self._basis.now if key in result.unsettled else None,
                **dict(zip(ATTRIBUTES, attributes(file), strict=True)),
            }
            for key, file in self._new.items()
        ]
        insert_rows(self._basis.connection, FileSourceHasZip, rows)

    def _take_own_copies(self) -> set[int]:
        """Let archives be downloaded again that failed on others' sources, and that their own centre has now, and those
        with another size; returns these.
        """
        failed = {
            row.za_id
            for key, row in self._known.items()
            if (state := state_of(row)).failed
            and state.phase > Phase.ZIP_MD5
            and self._conforms(key)
            and self._names[key.file_name].centre == self._address.centre
        }
        connection = self._basis.connection
        last = last_hostings(connection, failed)
        own_sources = select(FileSource.id).where(FileSource.centre_id == self._basis.centres[self._address.centre])
        query = select(FileSourceHasZip.za_id).where(FileSourceHasZip.file_source_id.in_(own_sources))
        from_own = {row.za_id for row in rows_with(connection, query, FileSourceHasZip.id, last.values())}
        changed = {row.za_id for key, row in self._known.items() if differ(row.size_bytes, self._new[key].size_bytes)}
        reopened = failed - (from_own - changed) - loaded_submissions(connection, failed)
        self._basis.reopen(reopened, mark("Another file source, of its own centre, has it now."))
        return reopened

    def _in_the_future(self, added: Mapping[SubmissionKey, int]) -> list[ListingFinding]:
        """Findings about new archives whose names have a date in the future; a day is allowed for time zones."""
        latest = self._basis.now.date() + timedelta(days=1)
        return [
            ListingFinding(FUTURE_DATE, key, added[key], future_message(self._address, key, day))
            for key in filter(self._conforms, added)
            if (day := self._names[key.file_name].created) > latest
        ]

    def _unusual(self, added: Mapping[SubmissionKey, int]) -> list[ListingFinding]:
        """Findings about new archives whose size is unusual for their centre; one statement for each centre."""
        by_centre: dict[str, list[SubmissionKey]] = defaultdict(list)
        for key in filter(self._conforms, added):
            by_centre[self._names[key.file_name].centre].append(key)
        found = []
        for centre, keys in sorted(by_centre.items()):
            names_here = {key.file_name for key in keys}
            before = earlier_sizes(self._basis.connection, self._basis.centres[centre], names_here)
            found += [
                ListingFinding(UNUSUAL_SIZE, key, added[key], text)
                for key in keys
                if (text := unusual_size(key, self._new[key].size_bytes, before)) is not None
            ]
        return found
