"""Records the listing of a source in the tracker.

An archive that is new to a source, or its submission, may be known from another one. One query compares a listing with
what is known of the source. The number of statements depends on the number of new archives, in steps of 500 names,
never on that of known ones.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, bindparam, select, update

from dcc.databases.list_parameters import IDS, change_about, rows_about, rows_with
from dcc.databases.transactions import insert_rows
from dcc.errors import BadFileNameError
from dcc.messages import Message, mark
from dcc.naming import Action, NamingConvention, ZipName
from dcc.outcomes import CrawlCounts, Problem, ZipKey
from dcc.phases import Phase
from dcc.sources.base import ActionListing, DeltaStrategy, ListedFile, SourceAddress
from dcc.sources.listing_watch import ListingWatch, ignore_progress
from dcc.tracker import progress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.crawls import CHANGED, FUTURE_DATE, MANIFEST_CHANGED, SIZE_DIFFERS, UNUSUAL_SIZE
from dcc.tracker.database import exception_id
from dcc.tracker.hostings.changed_archives import last_hostings, loaded_zips, withdrawn_zips
from dcc.tracker.hostings.missing_archives import close_returned, propose_withdrawals
from dcc.tracker.listings.comparing import (
    ATTRIBUTES,
    AbsentHostings,
    KnownHosting,
    attributes,
    compare_with_known,
    completed,
    content_differs,
    credible,
    differ,
    known_hostings,
    manifest_differs,
)
from dcc.tracker.listings.findings import (
    CONFIRMED_GONE,
    FOLDER_TWICE,
    LISTED_TWICE,
    PROPOSED,
    TAKEN_ANEW,
    UPLOADING,
    ListingFinding,
    change_message,
    confirmed_message,
    earlier_sizes,
    future_message,
    proposed_message,
    record_findings,
    shrunk_message,
    size_message,
    twice_finding,
    unusual_size,
    uploading_message,
)
from dcc.tracker.models import FileSource, FileSourceHasZip, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.problems import problem_columns
from dcc.tracker.progress import NewZipAction
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.reopened_by import CRAWL
from dcc.tracker.states import CANCELLED, NOT_ARRIVED, REFUSED, WAITING
from dcc.tracker.submission_rows import KEY, group_pairs, state_of, zip_key_of

ParsedName: TypeAlias = tuple[ZipName | None, Problem | None]


@dataclass
class RecordedListing:
    """The result of recording one listing; counts are of archives.

    `shrunk` are directories that lost so much that the next listing decides; `unsettled` are archives that may still be
    being uploaded: they are not fetched before a second listing (`ListingRecorder.record_second_listing`).
    """

    listed: int = 0
    known: int = 0
    gone: int = 0
    changed: int = 0
    new_zips: list[ZipKey] = field(default_factory=list)
    refused_zips: list[tuple[ZipKey, str]] = field(default_factory=list)
    accepted_zips: list[ZipKey] = field(default_factory=list)
    findings: list[ListingFinding] = field(default_factory=list)
    shrunk: list[Message] = field(default_factory=list)
    unsettled: dict[ZipKey, ListedFile] = field(default_factory=dict)

    def counts(self, ignored: int) -> CrawlCounts:
        """The counts of the crawl, which also `ignored` entries."""
        return CrawlCounts(
            listed=self.listed,
            new=len(self.new_zips),
            known=self.known,
            changed=self.changed,
            refused=len(self.refused_zips),
            ignored=ignored,
            gone=self.gone,
        )


@dataclass(frozen=True)
class ListingBasis:
    """What listings are recorded by, within the caller's write transaction.

    `centres` maps the short names of all registered centres to their ids. `quiet_seconds` is how long an archive must
    have been unchanged (0: any time), `shrink_limit` the share of its archives that a directory may lose. `looked_at`:
    when the listing began, in seconds since 1970; None: at `now`. `on_progress` is called with the progress.
    """

    connection: Connection
    session_id: int
    naming: NamingConvention
    centres: Mapping[str, int]
    now: datetime
    quiet_seconds: float = 0
    shrink_limit: float = 1
    looked_at: float | None = None
    on_progress: Callable[[str], object] = ignore_progress

    @property
    def recent_since(self) -> float:
        """The time of modification, in seconds since 1970, from which on an archive is recent."""
        looked_at = self._clock if self.looked_at is None else self.looked_at
        return looked_at - self.quiet_seconds - 1 if self.quiet_seconds else math.inf

    @property
    def _clock(self) -> float:
        return self.now.replace(tzinfo=UTC).timestamp()

    def is_unsettled(self, file: ListedFile, *, changed: bool) -> bool:
        """Whether an archive, new or known, `changed` or not, must be listed once more before it is fetched.

        A future time is as good as none: the server's clock is wrong.
        """
        if not self.quiet_seconds:
            return False
        if file.modified is None or file.modified > self._clock + 1:
            return changed and (file.size_bytes, file.modified) != (None, None)
        return file.modified > self.recent_since

    def parse(self, file_name: str) -> ParsedName:
        """The parsed name of an archive, or why it is refused."""
        try:
            return self.naming.parse_zip_name(file_name, self.centres), None
        except BadFileNameError as error:
            return None, Problem.of(error)

    def note_names(self, names: Mapping[int, ZipName]) -> None:
        """Record the parsed names of archives, by id."""
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

    def reopen(self, za_ids: Collection[int], reason: str) -> None:
        """Let submissions wait for their download again."""
        progress.reopen(self.connection, sorted(za_ids), requested_by=CRAWL, reason=reason)

    def accept(self, refused: Mapping[ZipKey, int], result: RecordedListing) -> None:
        """Let refused submissions wait for their download."""
        reason = mark("The file name conforms: its centre or the naming convention has been registered since.")
        self.reopen(refused.values(), reason)
        result.accepted_zips.extend(refused)


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
    basis: ListingBasis, address: SourceAddress, new: Mapping[ZipKey, ListedFile], result: RecordedListing
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

    def __init__(self, basis: ListingBasis, address: SourceAddress, new: Mapping[ZipKey, ListedFile]) -> None:
        self._basis, self._address, self._new = basis, address, new
        self._names: dict[str, ZipName] = {}
        self._refused: dict[str, Problem] = {}
        for file_name in dict.fromkeys(key.file_name for key in new):
            name, reason = basis.parse(file_name)
            if name is not None:
                self._names[file_name] = name
            if reason is not None:
                self._refused[file_name] = reason
        self._known: dict[ZipKey, Any] = {}
        self._zips: dict[str, int] = {}
        conforming: dict[int, ZipName] = {}
        for row in rows_about(basis.connection, _KNOWN, (key.file_name for key in new)):
            self._zips[row.file_name] = row.zip_id
            if row.za_id is not None and (key := zip_key_of(row)) in new:
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
        loaded = loaded_zips(self._basis.connection, [ids[key] for key in sizes])
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

    def _conforms(self, key: ZipKey) -> bool:
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

    def _add_submissions(self) -> dict[ZipKey, int]:
        connection = self._basis.connection
        added = [key for key in self._new if key not in self._known]
        rows = [
            NewZipAction(self._zips[key.file_name], key.action, WAITING if self._conforms(key) else REFUSED)
            for key in added
        ]
        ids = dict(zip(added, progress.add_zip_actions(connection, rows), strict=True))
        reasons = {ids[key]: self._refused[key.file_name] for key in added if not self._conforms(key)}
        if reasons:
            kind = {"exception_id": exception_id(connection, BadFileNameError.short_name(), BadFileNameError.summary())}
            log = [{"za_id": za_id, **kind, **problem_columns(problem)} for za_id, problem in reasons.items()]
            insert_rows(connection, ZipActionLog.__table__, log)
        return ids

    def _add_hostings(self, ids: Mapping[ZipKey, int], result: RecordedListing) -> None:
        rows = [
            {
                "za_id": ids[key],
                "file_source_id": self._address.id,
                "num_retries": 0,
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
        reopened = failed - (from_own - changed) - loaded_zips(connection, failed)
        self._basis.reopen(reopened, mark("Another file source, of its own centre, has it now."))
        return reopened

    def _in_the_future(self, added: Mapping[ZipKey, int]) -> list[ListingFinding]:
        """Findings about new archives whose names have a date in the future; a day is allowed for time zones."""
        latest = self._basis.now.date() + timedelta(days=1)
        return [
            ListingFinding(FUTURE_DATE, key, added[key], future_message(self._address, key, day))
            for key in filter(self._conforms, added)
            if (day := self._names[key.file_name].created) > latest
        ]

    def _unusual(self, added: Mapping[ZipKey, int]) -> list[ListingFinding]:
        """Findings about new archives whose size is unusual for their centre; one statement for each centre."""
        by_centre: dict[str, list[ZipKey]] = defaultdict(list)
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


Seen = Mapping[ZipKey, tuple[KnownHosting, ListedFile]]
"""Known archives as they were listed before, and as they are listed now."""


_LEAST_LOST: Final = 3
_MAX_FINDINGS: Final = 200
_FEW_SUFFICE: Final = frozenset({SIZE_DIFFERS, TAKEN_ANEW, UPLOADING, LISTED_TWICE, FOLDER_TWICE})
"""Kinds of findings of which a crawl records so many: they hold until the next crawl, which tells no others again."""


class ListingRecorder:
    """Writes listings of one source within the caller's write transaction."""

    def __init__(self, basis: ListingBasis, address: SourceAddress) -> None:
        self._basis: Final = basis
        self._address: Final = address

    def record(self, listings: Sequence[ActionListing], *, whole: bool = True) -> RecordedListing:
        """Record `listings` of the source, each of a directory that could be listed.

        `whole`: all of its directories could be listed; otherwise directories that shrank are not decided.
        """
        basis, delta = self._basis, self._address.delta
        compared = compare_with_known(basis.connection, self._address.id, listings, basis.recent_since)
        result = RecordedListing(listed=compared.listed, known=compared.listed - len(compared.new))
        seen = compared.noteworthy
        if delta.compares:
            self._record_absent(listings, compared.absent, result, whole=whole)
        elif delta is DeltaStrategy.DISABLED:
            seen = {key: pair for key, pair in seen.items() if pair[0].concerns_more_than_listing}
        self._record_known(seen, result)
        self._reconsider_names(compared.noteworthy, result)
        record_new(basis, self._address, compared.new, result)
        for listing in listings:
            result.findings += [twice_finding(self._address, listing.action, one) for one in listing.listed_twice]
        if compared.new or compared.noteworthy:
            close_returned(basis.connection, basis.now)
        if delta is DeltaStrategy.FULL and whole and not result.shrunk:
            self._propose_withdrawals(result)
        self._write_findings(result.findings)
        return result

    def record_second_listing(
        self, first: Mapping[ZipKey, ListedFile], listings: Sequence[ActionListing] | None
    ) -> list[ListingFinding]:
        """Record a second listing of unsettled archives; returns messages about those that are still being uploaded.

        `listings` is None if the source could not be listed: then all still count as being uploaded.
        """
        second = _files_of(listings or ())
        found: list[ListingFinding] = []
        settled: dict[ZipKey, tuple[KnownHosting, ListedFile]] = {}
        rows: list[dict[str, object]] = []
        sizes: list[dict[str, object]] = []
        for key, known in self._hostings(first).items():
            before, now = first[key], second.get(key)
            if now is not None and (now.size_bytes, now.modified) == (before.size_bytes, before.modified):
                settled[key] = known, now
                # Its checksum and manifest are uploaded after it.
                if known.to_download and attributes(now) != attributes(known):
                    rows.append(self._row(known.hosting_id, now, uploading=False))
                continue
            if now is not None:
                rows.append(self._row(known.hosting_id, now, uploading=True))
                if known.to_download:
                    sizes.append({"zip": known.zip_id, "size": now.size_bytes})
            message = uploading_message(self._address, key, before, now, looked=listings is not None)
            found.append(ListingFinding(UPLOADING, key, known.za_id, message))
        self._download_again(settled, (), ())
        self._set_columns([known.hosting_id for known, _ in settled.values()], uploading_since=None)
        self._update(rows, sizes)
        self._write_findings(found)
        return found

    def relist(self, keys: Collection[ZipKey], listings: Sequence[ActionListing]) -> dict[ZipKey, ListedFile]:
        """Record the present listing of these archives, if listed; returns those to list once more.

        The next crawl sees no change. So one that has changed is downloaded again as by a crawl, or reported if its
        data were uploaded.
        """
        listed = _files_of(listings)
        hostings = self._hostings(keys)
        relisted = {key: listed[key] for key in hostings if key in listed}
        changed = {key: hostings[key] for key, file in relisted.items() if content_differs(hostings[key], file)}
        unsettled = {
            key: file for key, file in relisted.items() if self._basis.is_unsettled(file, changed=key in changed)
        }
        settled = {key: (hostings[key], file) for key, file in relisted.items() if key not in unsettled}
        self._download_again(settled, *self._changed(settled))
        loaded = loaded_zips(self._basis.connection, [known.za_id for known in changed.values()])
        found = [
            ListingFinding(
                CHANGED, key, known.za_id, change_message(self._address, key, known, relisted[key], loaded=True)
            )
            for key, known in changed.items()
            if known.za_id in loaded
        ]
        self._update(
            [self._row(hostings[key].hosting_id, file, uploading=key in unsettled) for key, file in relisted.items()]
        )
        self._write_findings(found)
        return unsettled

    def _record_known(self, seen: Seen, result: RecordedListing) -> None:
        """Report changes since the last listing, and record the present listing."""
        content, manifests = self._changed(seen)
        to_fetch_again, loaded = self._download_again(seen, content, manifests)
        rows, sizes, uploading_anew = [], [], {}
        for key, (known, file) in seen.items():
            changed = key in content
            present = file if changed else completed(file, known)
            to_download = known.to_download or key in to_fetch_again
            if present.size_bytes != known.size_bytes and to_download:
                sizes.append({"zip": known.zip_id, "size": present.size_bytes})
            # A change that is expected while an archive is being uploaded is none.
            if key in manifests or (changed and not (known.uploading and known.to_download)):
                kind = TAKEN_ANEW if key in to_fetch_again else CHANGED if changed else MANIFEST_CHANGED
                facts = {"taken_anew": key in to_fetch_again, "loaded": known.za_id in loaded}
                text = change_message(self._address, key, known, file, **facts)
                result.changed += 1
                result.findings.append(ListingFinding(kind, key, known.za_id, text))
            # A failed archive may be fetched from here too, after the preferred copy proved bad.
            awaited = to_download or (known.state.failed and (changed or known.uploading))
            unsettled = awaited and self._basis.is_unsettled(present, changed=changed)
            if unsettled:
                result.unsettled[key] = present
                if known.state in NOT_ARRIVED:
                    uploading_anew[key] = known.za_id
            is_noted = known.uploading == unsettled and not (known.gone or known.missed)
            if not is_noted or attributes(present) != attributes(known):
                rows.append(self._row(known.hosting_id, present, uploading=unsettled))
        self._update(rows, sizes)
        again = [uploading_anew[key] for key in self._permitted_keys(uploading_anew)]
        self._basis.reopen(again, mark("It is being uploaded again to its file source."))

    def _reconsider_names(self, seen: Seen, result: RecordedListing) -> None:
        """Accept archives that were refused and whose names conform now, because their centre was registered."""
        refused = {key: known for key, (known, _) in seen.items() if known.state == REFUSED}
        names = {known.zip_id: name for key, known in refused.items() if (name := self._basis.parse(key.file_name)[0])}
        self._basis.note_names(names)
        self._basis.accept({key: known.za_id for key, known in refused.items() if known.zip_id in names}, result)

    def _set_columns(self, hosting_ids: Iterable[int], **values: datetime | None) -> None:
        statement = update(FileSourceHasZip).where(FileSourceHasZip.id.in_(IDS)).values(values)
        change_about(self._basis.connection, statement, hosting_ids)

    def _changed(self, seen: Seen) -> tuple[set[ZipKey], set[ZipKey]]:
        """The archives with another content than before, and those with another manifest."""
        compares = self._address.delta.compares
        content = {
            key
            for key, (known, file) in seen.items()
            if content_differs(known, file) and (compares or known.to_download)
        }
        # A manifest is read with its archive: another one concerns what was fetched, and lets a failed archive pass.
        manifests = {
            key
            for key, (known, file) in seen.items()
            if compares and key not in content and known.was_fetched and manifest_differs(known, file)
        }
        return content, manifests

    def _download_again(
        self, seen: Seen, content: Collection[ZipKey], manifests: Collection[ZipKey]
    ) -> tuple[set[ZipKey], set[int]]:
        """Let changed archives without uploaded data be downloaded again; returns these, and the ids of the others.

        An archive that failed, or came from this source, is fetched; a withdrawn one is not, because a person decided
        that. Another centre's copy does not undo the own copy's result, unless that centre has a delegation. One that
        was being uploaded has changed, whatever the listing before this one said.
        """
        done = {
            key: known
            for key, (known, _) in seen.items()
            if known.was_fetched and (key in content or known.uploading or (key in manifests and known.state.failed))
        }
        connection, ids = self._basis.connection, [known.za_id for known in done.values()]
        loaded = loaded_zips(connection, ids)
        kept_back = loaded | withdrawn_zips(connection, ids)
        sources = last_hostings(connection, ids)
        spoken_for = self._permitted_keys(done)
        to_fetch_again = {
            key: known.za_id
            for key, known in done.items()
            if known.za_id not in kept_back
            and known.state != CANCELLED
            and ((known.state.failed and key in spoken_for) or sources.get(known.za_id) == known.hosting_id)
        }
        self._basis.reopen(
            to_fetch_again.values(), mark("The archive changed on its file source after its last download.")
        )
        return set(to_fetch_again), loaded

    def _permitted_keys(self, keys: Collection[ZipKey]) -> set[ZipKey]:
        """The archives that a source's centre may submit: its own, and by delegation."""
        centre = self._address.centre
        owners = {key: name.centre for key in keys if (name := self._basis.parse(key.file_name)[0]) is not None}
        if all(owner == centre for owner in owners.values()):
            return set(owners)
        rights = load_delegations(self._basis.connection).rights_of(centre)
        return {key for key, owner in owners.items() if rights.permit(owner)}

    def _hostings(self, keys: Collection[ZipKey]) -> dict[ZipKey, KnownHosting]:
        known = known_hostings(self._basis.connection, self._address.id, keys)
        return {key: hosting for key, hosting in known.items() if key in keys}

    def _row(self, hosting_id: int, file: ListedFile, *, uploading: bool) -> dict[str, object]:
        listed = {f"{name}_now": getattr(file, name) for name in ATTRIBUTES}
        return {"hosting": hosting_id, "uploading": self._basis.now if uploading else None} | listed

    def _update(self, rows: Sequence[Mapping[str, object]], sizes: Sequence[Mapping[str, object]] = ()) -> None:
        for statement, values in ((_UPDATE_HOSTING, rows), (_UPDATE_SIZE, sizes)):
            if values:
                self._basis.connection.execute(statement, values)

    def _record_absent(
        self,
        listings: Sequence[ActionListing],
        absent: Mapping[Action, AbsentHostings],
        result: RecordedListing,
        *,
        whole: bool,
    ) -> None:
        """Record missing archives: as gone, or as missed if a directory lost too much at once."""
        gone: list[int] = []
        missed: list[int] = []
        for listing in listings:
            lost = absent[listing.action]
            shrunk = self._has_shrunk(listing, lost)
            if not whole and (shrunk or lost.again):
                continue
            if shrunk:
                missed += lost.first
                result.shrunk.append(shrunk_message(listing, lost))
                continue
            gone += lost.all
            if lost.again:
                text = confirmed_message(self._address, listing, len(lost.again))
                result.findings.append(ListingFinding(CONFIRMED_GONE, f"{listing.action}/", None, text))
        self._set_columns(gone, gone_since=self._basis.now, missed_since=None, uploading_since=None)
        self._set_columns(missed, missed_since=self._basis.now)
        result.gone = len(gone)

    def _has_shrunk(self, listing: ActionListing, lost: AbsentHostings) -> bool:
        """Whether a directory lost too much since its last listing to be believed at once."""
        if not lost.first:
            return False
        if not listing.zips:
            return True
        before = lost.known - len(lost.again)
        fewer = before - len(listing.zips)
        return fewer >= _LEAST_LOST and fewer > self._basis.shrink_limit * before

    def _propose_withdrawals(self, result: RecordedListing) -> None:
        keys = propose_withdrawals(self._basis.connection, self._address.id, self._basis.now)
        for action, number in sorted(Counter(key.action for key in keys).items()):
            text = proposed_message(self._address, action, number)
            result.findings.append(ListingFinding(PROPOSED, f"{action}/", None, text))

    def _write_findings(self, findings: Sequence[ListingFinding]) -> None:
        few = islice((finding for finding in findings if finding.kind in _FEW_SUFFICE), _MAX_FINDINGS)
        others = (finding for finding in findings if finding.kind not in _FEW_SUFFICE)
        found = ((self._address.id, finding) for finding in (*others, *few))
        record_findings(self._basis.connection, self._basis.session_id, found, self._basis.now)


_UPDATE_HOSTING = (
    update(FileSourceHasZip.__table__)
    .where(FileSourceHasZip.id == bindparam("hosting"))
    .values(
        gone_since=None,
        missed_since=None,
        uploading_since=bindparam("uploading"),
        **{name: bindparam(f"{name}_now") for name in ATTRIBUTES},
    )
)
_UPDATE_SIZE = update(ZipFile.__table__).where(ZipFile.id == bindparam("zip")).values(size_bytes=bindparam("size"))


def _files_of(listings: Sequence[ActionListing]) -> dict[ZipKey, ListedFile]:
    return {
        ZipKey(listing.action, stored_name(file.name)): credible(file) for listing in listings for file in listing.zips
    }


def archives_by_source(connection: Connection, keys: Collection[ZipKey]) -> dict[int, set[ZipKey]]:
    """The known archives of each source among these."""
    query = (
        select(FileSourceHasZip.file_source_id, *KEY)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
    )
    rows = rows_with(connection, query, ZipFile.file_name, (key.file_name for key in keys))
    found = group_pairs((row.file_source_id, key) for row in rows if (key := zip_key_of(row)) in keys)
    return {source: set(some) for source, some in found.items()}
