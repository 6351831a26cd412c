"""Records the listing of a source in the tracker.

One query compares a listing with what is known of the source. The number of statements depends on the number of new
archives, in steps of 500 names, never on that of known ones.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeAlias

from sqlalchemy import Connection, bindparam, select, update

from dcc.databases.transactions import insert_rows
from dcc.errors import BadFileNameError
from dcc.messages import Message, mark, message
from dcc.naming import Action, NamingConvention, ZipName
from dcc.outcomes import Problem, ZipKey
from dcc.phases import ACTIONS_BY_ID, Phase, Status
from dcc.sources.base import ActionListing, DeltaStrategy, ListedFile, ListedTwice, SourceAddress
from dcc.sources.listing_watch import ListingWatch, ignore_progress
from dcc.tracker import progress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.database import exception_id
from dcc.tracker.hostings.changed_archives import last_hostings, loaded_zips, withdrawn_zips
from dcc.tracker.hostings.missing_archives import close_returned, propose_withdrawals
from dcc.tracker.hostings.unusual_sizes import UNUSUAL_SIZE, earlier_sizes, unusual_size
from dcc.tracker.listings.comparing import (
    ATTRIBUTES,
    Absent,
    KnownHosting,
    attributes,
    change_message,
    compare_with_known,
    completed,
    content_differs,
    credible,
    differ,
    known_hostings,
    manifest_differs,
    size_message,
    uploading_message,
)
from dcc.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipActionLog, ZipFile
from dcc.tracker.problems import message_columns, problem_columns
from dcc.tracker.progress import NewZipAction
from dcc.tracker.register.delegations import load_delegations
from dcc.tracker.states import NOT_ARRIVED, REFUSED, SET_ASIDE, WAITING
from dcc.tracker.submission_rows import IDS, KEY, change_about, key_of, rows_about

CHANGED: Final = "changed"
SIZE_DIFFERS: Final = "size_differs"
TAKEN_ANEW: Final = "taken_anew"
MANIFEST_CHANGED: Final = "manifest_changed"
UPLOADING: Final = "uploading"
CONFIRMED_GONE: Final = "gone"
PROPOSED: Final = "withdrawal_proposed"
LISTED_TWICE: Final = "listed_twice"
FOLDER_TWICE: Final = "folder_twice"
ONLY_NOTED: Final = frozenset({TAKEN_ANEW, MANIFEST_CHANGED, UPLOADING, CONFIRMED_GONE, LISTED_TWICE, FOLDER_TWICE})
"""Kinds of findings that a crawl tells as notes."""

_LEAST_LOST = 3
_NEW_AT_ONCE = 5_000
"""The most new archives recorded together: more rows would fill the memory at a source's first listing."""
_MOST_FINDINGS = 200

ParsedName: TypeAlias = tuple[ZipName | None, Problem | None]
"""The parsed name of a file, or why it is refused."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a listed archive, or a directory (`add/`), for a wrangler."""

    kind: str
    key: ZipKey | str
    za_id: int | None
    said: Message

    @property
    def message(self) -> str:
        """What it says, in English."""
        return str(self.said)


@dataclass
class RecordedListing:
    """The result of recording one listing; counts are of archives.

    `shrunk` are directories that lost so much that the next listing decides; `unsettled` are archives that may still be
    being uploaded: they are not fetched before a second listing (`ListingRecorder.settle`).
    """

    listed: int = 0
    known: int = 0
    gone: int = 0
    changed: int = 0
    new_zips: list[ZipKey] = field(default_factory=list)
    refused_zips: list[tuple[ZipKey, str]] = field(default_factory=list)
    accepted_zips: list[ZipKey] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    shrunk: list[Message] = field(default_factory=list)
    unsettled: dict[ZipKey, ListedFile] = field(default_factory=dict)


@dataclass(frozen=True)
class ListingRecorder:
    """Writes listings within the caller's write transaction.

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

    def record(
        self, address: SourceAddress, listings: Sequence[ActionListing], *, whole: bool = True
    ) -> RecordedListing:
        """Record `listings` of one source, each of a directory that could be listed.

        `whole`: all of its directories could be listed; otherwise directories that shrank are not decided.
        """
        compared = compare_with_known(self.connection, address.id, listings, self._recent_since)
        result = RecordedListing(listed=compared.listed, known=compared.listed - len(compared.new))
        seen = compared.noteworthy
        if address.delta.compares:
            self._record_absent(address, listings, compared.absent, result, whole=whole)
        elif address.delta is DeltaStrategy.DISABLED:
            seen = {key: pair for key, pair in seen.items() if pair[0].concerns_more_than_listing}
        self._record_seen_again(address, seen, result)
        self._reconsider_names(compared.noteworthy, result)
        self._record_new(address, compared.new, result)
        for listing in listings:
            result.findings += [twice_finding(address, listing.action, one) for one in listing.listed_twice]
        if compared.new or compared.noteworthy:
            close_returned(self.connection, self.now)
        if address.delta is DeltaStrategy.FULL and whole and not result.shrunk:
            self._propose_withdrawals(address, result)
        self._write_findings(address, result.findings)
        return result

    def _propose_withdrawals(self, address: SourceAddress, result: RecordedListing) -> None:
        proposed = Counter(key.action for key in propose_withdrawals(self.connection, address.id, self.now))
        for action, number in sorted(proposed.items()):
            text = proposed_message(address, action, number)
            result.findings.append(Finding(PROPOSED, f"{action}/", None, text))

    @property
    def _recent_since(self) -> float:
        """The time of modification, in seconds since 1970, from which on an archive is recent."""
        looked_at = self._clock if self.looked_at is None else self.looked_at
        return looked_at - self.quiet_seconds - 1 if self.quiet_seconds else math.inf

    @property
    def _clock(self) -> float:
        return self.now.replace(tzinfo=UTC).timestamp()

    def _is_unsettled(self, file: ListedFile, *, changed: bool) -> bool:
        """Whether an archive, new or known, `changed` or not, must be listed once more before it is fetched.

        A future time is as good as none: the server's clock is wrong.
        """
        if not self.quiet_seconds:
            return False
        if file.modified is None or file.modified > self._clock + 1:
            return changed and (file.size_bytes, file.modified) != (None, None)
        return file.modified > self._recent_since

    def _record_absent(
        self,
        address: SourceAddress,
        listings: Sequence[ActionListing],
        absent: Mapping[Action, Absent],
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
                text = confirmed_message(address, listing, len(lost.again))
                result.findings.append(Finding(CONFIRMED_GONE, f"{listing.action}/", None, text))
        self._set(gone, gone_since=self.now, missed_since=None, uploading_since=None)
        self._set(missed, missed_since=self.now)
        result.gone = len(gone)

    def _has_shrunk(self, listing: ActionListing, lost: Absent) -> bool:
        """Whether a directory lost too much since its last listing to be believed at once."""
        if not lost.first:
            return False
        if not listing.zips:
            return True
        before = lost.known - len(lost.again)
        fewer = before - len(listing.zips)
        return fewer >= _LEAST_LOST and fewer > self.shrink_limit * before

    def _record_seen_again(
        self, address: SourceAddress, seen: Mapping[ZipKey, tuple[KnownHosting, ListedFile]], result: RecordedListing
    ) -> None:
        """Report changes since the last listing, and record the present listing."""
        rows, sizes = [], []
        uploading_anew: dict[ZipKey, int] = {}
        changed = {
            key: (entry, file)
            for key, (entry, file) in seen.items()
            if content_differs(entry, file) and (address.delta.compares or entry.to_download)
        }
        # A manifest is read with its archive: another one concerns what was fetched, and lets a failed archive pass.
        manifests = {
            key: entry
            for key, (entry, file) in seen.items()
            if address.delta.compares and key not in changed and entry.was_fetched and manifest_differs(entry, file)
        }
        anew, loaded = self._download_anew(
            address,
            {key: entry for key, (entry, _) in changed.items() if entry.was_fetched}
            | {key: entry for key, entry in manifests.items() if entry.state.failed},
        )
        for key, (entry, file) in seen.items():
            present = file if key in changed else completed(file, entry)
            to_download = entry.to_download or key in anew
            if present.size_bytes != entry.size_bytes and to_download:
                sizes.append({"zip": entry.zip_id, "size": present.size_bytes})
            if key in manifests or (key in changed and not (entry.uploading and entry.to_download)):
                result.changed += 1
                message = change_message(
                    address, key, entry, file, taken_anew=key in anew, loaded=entry.za_id in loaded
                )
                kind = TAKEN_ANEW if key in anew else CHANGED if key in changed else MANIFEST_CHANGED
                result.findings.append(Finding(kind, key, entry.za_id, message))
            # A failed archive may be fetched from here too, after the preferred copy proved bad.
            awaited = to_download or (entry.state.failed and (key in changed or entry.uploading))
            unsettled = awaited and self._is_unsettled(present, changed=key in changed)
            if unsettled:
                result.unsettled[key] = present
                if entry.state in NOT_ARRIVED:
                    uploading_anew[key] = entry.za_id
            is_noted = entry.uploading == unsettled and not (entry.gone or entry.missed)
            if not is_noted or attributes(present) != attributes(entry):
                rows.append(_hosting_values(entry.hosting_id, present) | {"uploading": self.now if unsettled else None})
        self._update(rows, sizes)
        if uploading_anew:
            again = [uploading_anew[key] for key in self._spoken_for(address, uploading_anew)]
            self._reopen(again, mark("It is being uploaded again to its file source."))

    def _download_anew(
        self, address: SourceAddress, done: Mapping[ZipKey, KnownHosting]
    ) -> tuple[set[ZipKey], set[int]]:
        """Let changed archives without uploaded data be downloaded again; returns these, and the ids of the others.

        An archive that failed, or came from this source, is fetched; a withdrawn one is not, because a person decided
        that. Another centre's copy does not undo the own copy's result, unless that centre has a delegation.
        """
        if not done:
            return set(), set()
        ids = [entry.za_id for entry in done.values()]
        loaded = loaded_zips(self.connection, ids)
        kept_back = loaded | withdrawn_zips(self.connection, ids)
        sources = last_hostings(self.connection, ids)
        spoken_for = self._spoken_for(address, done)
        anew = {
            key: entry.za_id
            for key, entry in done.items()
            if entry.za_id not in kept_back
            and entry.state != SET_ASIDE
            and ((entry.state.failed and key in spoken_for) or sources.get(entry.za_id) == entry.hosting_id)
        }
        self._reopen(anew.values(), mark("The archive changed on its file source after its last download."))
        return set(anew), loaded

    def _spoken_for(self, address: SourceAddress, keys: Collection[ZipKey]) -> set[ZipKey]:
        """The archives that a source's centre may submit: its own, and by delegation."""
        owners = {key: name.centre for key in keys if (name := self._parse(key.file_name)[0]) is not None}
        if all(owner == address.centre for owner in owners.values()):
            return set(owners)
        rights = load_delegations(self.connection).rights_of(address.centre)
        return {key for key, owner in owners.items() if rights.permit(owner)}

    def settle(
        self, address: SourceAddress, first: Mapping[ZipKey, ListedFile], listings: Sequence[ActionListing] | None
    ) -> list[Finding]:
        """Record a second listing of unsettled archives; returns messages about those that are still being uploaded.

        `listings` is None if the source could not be listed: then all still count as being uploaded.
        """
        second = _files_of(listings or ())
        found: list[Finding] = []
        settled: list[int] = []
        rows: list[dict[str, object]] = []
        sizes: list[dict[str, object]] = []
        for key, entry in self._hostings(address, first).items():
            before, now = first[key], second.get(key)
            if now is not None and (now.size_bytes, now.modified) == (before.size_bytes, before.modified):
                settled.append(entry.hosting_id)
                continue
            if now is not None:
                rows.append(_hosting_values(entry.hosting_id, now) | {"uploading": self.now})
                sizes.append({"zip": entry.zip_id, "size": now.size_bytes})
            message = uploading_message(address, key, before, now, looked=listings is not None)
            found.append(Finding(UPLOADING, key, entry.za_id, message))
        self._set(settled, uploading_since=None)
        self._update(rows, sizes)
        self._write_findings(address, found)
        return found

    def relist(
        self, address: SourceAddress, keys: Collection[ZipKey], listings: Sequence[ActionListing]
    ) -> dict[ZipKey, ListedFile]:
        """Record the present listing of these archives, if listed; returns those to list once more.

        One that has changed since its data were uploaded is reported, as by a crawl: the next crawl sees no change.
        """
        listed = _files_of(listings)
        hostings = self._hostings(address, keys)
        relisted = {key: listed[key] for key in hostings if key in listed}
        unsettled = {key: file for key, file in relisted.items() if self._is_unsettled(file, changed=True)}
        changed = {key: hostings[key] for key, file in relisted.items() if content_differs(hostings[key], file)}
        loaded = loaded_zips(self.connection, [entry.za_id for entry in changed.values()])
        found = [
            Finding(CHANGED, key, entry.za_id, change_message(address, key, entry, relisted[key], loaded=True))
            for key, entry in changed.items()
            if entry.za_id in loaded
        ]
        rows = [
            _hosting_values(hostings[key].hosting_id, file) | {"uploading": self.now if key in unsettled else None}
            for key, file in relisted.items()
        ]
        self._update(rows)
        self._write_findings(address, found)
        return unsettled

    def _set(self, hosting_ids: Iterable[int], **values: datetime | None) -> None:
        """Change columns of hostings."""
        statement = update(FileSourceHasZip).where(FileSourceHasZip.id.in_(IDS)).values(values)
        change_about(self.connection, statement, hosting_ids)

    def _update(self, rows: Sequence[Mapping[str, object]], sizes: Sequence[Mapping[str, object]] = ()) -> None:
        """Record hostings as they are listed, and the sizes of archives that are still to be downloaded."""
        for statement, values in ((_UPDATE_HOSTING, rows), (_UPDATE_SIZE, sizes)):
            if values:
                self.connection.execute(statement, values)

    def _reopen(self, za_ids: Collection[int], reason: str) -> None:
        progress.reopen(self.connection, sorted(za_ids), requested_by="crawl", reason=reason)

    def _hostings(self, address: SourceAddress, keys: Collection[ZipKey]) -> dict[ZipKey, KnownHosting]:
        """These archives as a source last listed them."""
        return {key: entry for key, entry in known_hostings(self.connection, address.id, keys).items() if key in keys}

    def _reconsider_names(
        self, seen: Mapping[ZipKey, tuple[KnownHosting, ListedFile]], result: RecordedListing
    ) -> None:
        """Accept archives that were refused and whose names conform now, because their centre was registered."""
        refused = {key: entry for key, (entry, _) in seen.items() if entry.state == REFUSED}
        names = {entry.zip_id: name for key, entry in refused.items() if (name := self._parse(key.file_name)[0])}
        self._note_names(names)
        self._accept({key: entry.za_id for key, entry in refused.items() if entry.zip_id in names}, result)

    def _note_names(self, names: Mapping[int, ZipName]) -> None:
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

    def _accept(self, refused: Mapping[ZipKey, int], result: RecordedListing) -> None:
        """Let refused submissions wait for their download."""
        reason = mark("The file name conforms: its centre or the naming convention has been registered since.")
        self._reopen(refused.values(), reason)
        result.accepted_zips.extend(refused)

    def _record_new(self, address: SourceAddress, new: Mapping[ZipKey, ListedFile], result: RecordedListing) -> None:
        files = iter(new.items())
        # It reports progress as a listing does, but has no time limit: the archives are listed already.
        watch = ListingWatch(address.label, math.inf, self.on_progress)
        recorded = 0
        while part := dict(islice(files, _NEW_AT_ONCE)):
            self._record_some_new(address, part, result)
            recorded += len(part)
            watch.say(f"recorded {recorded:,} of {len(new):,} new archives so far")

    def _record_some_new(
        self, address: SourceAddress, new: Mapping[ZipKey, ListedFile], result: RecordedListing
    ) -> None:
        parsed = {key.file_name: self._parse(key.file_name) for key in new}
        zips, known = self._zip_files(new, parsed)
        actions, added, refused, failed = self._zip_actions(new, zips, known, parsed)
        self._accept(refused, result)
        taken = self._take_own_copies(address, failed, parsed)
        settled = {key for key, reason in added.items() if reason is not None}
        result.unsettled |= {
            key: file for key, file in new.items() if key not in settled and self._is_unsettled(file, changed=True)
        }
        insert_rows(
            self.connection,
            FileSourceHasZip,
            [
                {
                    "za_id": actions[key],
                    "file_source_id": address.id,
                    "num_retries": 0,
                    "uploading_since": self.now if key in result.unsettled else None,
                }
                | dict(zip(ATTRIBUTES, attributes(file), strict=True))
                for key, file in new.items()
            ],
        )
        for key, reason in added.items():
            if reason is None:
                result.new_zips.append(key)
            else:
                result.refused_zips.append((key, reason.message))
        for key, file in new.items():
            listed_before = zips[key.file_name][1]
            # If another copy proved bad and this one is fetched now, the other's size does not matter any more.
            if actions[key] not in taken and differ(listed_before, file.size_bytes):
                result.findings.append(
                    Finding(SIZE_DIFFERS, key, actions[key], size_message(address, key, listed_before, file))
                )

        names = {key: parsed[key.file_name][0] for key in result.new_zips[-len(new) :] if key in new}
        result.findings += self._unusual(new, {key: name for key, name in names.items() if name is not None}, actions)

    def _unusual(
        self, new: Mapping[ZipKey, ListedFile], names: Mapping[ZipKey, ZipName], actions: Mapping[ZipKey, int]
    ) -> list[Finding]:
        """Findings about new archives whose size is unusual for their centre; one statement for each centre."""
        found = []
        for centre in sorted({name.centre for name in names.values()}):
            sizes = {key: new[key].size_bytes for key, name in names.items() if name.centre == centre}
            before = earlier_sizes(self.connection, self.centres[centre], {key.file_name for key in sizes})
            found += [
                Finding(UNUSUAL_SIZE, key, actions[key], text)
                for key, size in sizes.items()
                if (text := unusual_size(key, size, before)) is not None
            ]
        return found

    def _take_own_copies(
        self, address: SourceAddress, failed: Mapping[ZipKey, int], parsed: Mapping[str, ParsedName]
    ) -> set[int]:
        """Let archives be downloaded again that failed on others' sources, and that their own centre has now; returns
        these.
        """
        names = {key: parsed[key.file_name][0] for key in failed}
        own = {failed[key] for key, name in names.items() if name is not None and name.centre == address.centre}
        anew = own - loaded_zips(self.connection, own)
        self._reopen(anew, mark("A file source of its own centre has it now."))
        return anew

    def _zip_files(
        self, new: Mapping[ZipKey, ListedFile], parsed: Mapping[str, ParsedName]
    ) -> tuple[dict[str, tuple[int, int | None]], dict[int, str]]:
        """Id and size so far of every archive in `new`, by file name, and the names, by id, of known ones.

        Unknown ones are added. The parsed name of a known one is recorded if it did not conform before.
        """
        sizes = {key.file_name: file.size_bytes for key, file in new.items()}
        found: dict[str, tuple[int, int | None]] = {}
        unread: dict[int, ZipName] = {}
        columns = (ZipFile.file_name, ZipFile.id, ZipFile.size_bytes, ZipFile.centre_id)
        query = select(*columns).where(ZipFile.file_name.in_(IDS))
        for file_name, number, size, centre in rows_about(self.connection, query, sizes):
            found[file_name] = number, size
            if centre is None and (name := self._parse(file_name)[0]) is not None:
                unread[number] = name
        self._note_names(unread)
        known = {number: name for name, (number, _) in found.items()}
        missing = [name for name in sizes if name not in found]
        rows = [
            {
                "file_name": file_name,
                "centre_id": (name := parsed[file_name][0]) and self.centres[name.centre],
                "created": name and name.created,
                "inc": name and name.inc,
                "size_bytes": sizes[file_name],
            }
            for file_name in missing
        ]
        ids = insert_rows(self.connection, ZipFile, rows)
        found.update({name: (number, sizes[name]) for name, number in zip(missing, ids, strict=True)})
        return found, known

    def _zip_actions(
        self,
        new: Mapping[ZipKey, ListedFile],
        zips: Mapping[str, tuple[int, int | None]],
        known: Mapping[int, str],
        parsed: Mapping[str, ParsedName],
    ) -> tuple[dict[ZipKey, int], dict[ZipKey, Problem | None], dict[ZipKey, int], dict[ZipKey, int]]:
        """Ids of the submissions in `new`; those first seen here, each with the reason if it is refused. Then ids of
        refused ones whose names conform now; and of those that failed after they had arrived.
        """
        ids: dict[ZipKey, int] = {}
        failed: dict[ZipKey, int] = {}
        refused: dict[ZipKey, int] = {}
        columns = (ZipAction.zip_id, ZipAction.todo_id, ZipAction.id, ZipAction.phase_id, ZipAction.status_id)
        query = select(*columns).where(ZipAction.zip_id.in_(IDS))
        for zip_id, todo, za_id, phase, status in rows_about(self.connection, query, known):
            key = ZipKey(ACTIONS_BY_ID[todo], known[zip_id])
            ids[key] = za_id
            if key in new and status == Status.FAILED and phase > Phase.ZIP_MD5:
                failed[key] = za_id
            if (phase, status) == REFUSED and key in new and parsed[key.file_name][0] is not None:
                refused[key] = za_id
        added = {key: parsed[key.file_name][1] for key in new if key not in ids}
        rows = [
            NewZipAction(zips[key.file_name][0], key.action, WAITING if reason is None else REFUSED)
            for key, reason in added.items()
        ]
        ids.update(zip(added, progress.add_zip_actions(self.connection, rows), strict=True))
        self._log_refusals({ids[key]: reason for key, reason in added.items() if reason is not None})
        return ids, added, refused, failed

    def _log_refusals(self, reasons: Mapping[int, Problem]) -> None:
        if not reasons:
            return
        kind = exception_id(self.connection, BadFileNameError.short_name(), BadFileNameError.summary())
        insert_rows(
            self.connection,
            ZipActionLog.__table__,
            [{"za_id": za_id, "exception_id": kind, **problem_columns(problem)} for za_id, problem in reasons.items()],
        )

    def _write_findings(self, address: SourceAddress, findings: Sequence[Finding]) -> None:
        rows = [
            {
                "session_id": self.session_id,
                "file_source_id": address.id,
                "za_id": finding.za_id,
                "file_name": str(finding.key)[:160],
                "kind": finding.kind,
                **message_columns(finding.said),
                "created": self.now,
            }
            for finding in findings[:_MOST_FINDINGS]
        ]
        insert_rows(self.connection, CrawlFinding, rows)

    def _parse(self, file_name: str) -> ParsedName:
        try:
            return self.naming.parse_zip_name(file_name, self.centres), None
        except BadFileNameError as error:
            return None, Problem.of(error)


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


def archives_by_source(connection: Connection, keys: Collection[ZipKey]) -> dict[int, set[ZipKey]]:
    """The known archives of each source among these."""
    query = (
        select(FileSourceHasZip.file_source_id, *KEY)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(ZipFile.file_name.in_(IDS))
    )
    found: dict[int, set[ZipKey]] = defaultdict(set)
    for row in rows_about(connection, query, (key.file_name for key in keys)):
        if (key := key_of(row)) in keys:
            found[row.file_source_id].add(key)
    return found


def _files_of(listings: Sequence[ActionListing]) -> dict[ZipKey, ListedFile]:
    return {
        ZipKey(listing.action, stored_name(file.name)): credible(file) for listing in listings for file in listing.zips
    }


def _hosting_values(hosting_id: int, file: ListedFile) -> dict[str, object]:
    return {"hosting": hosting_id} | {f"{name}_now": getattr(file, name) for name in ATTRIBUTES}


def shrunk_message(listing: ActionListing, lost: Absent) -> Message:
    """The message about a directory that lost too much to be believed."""
    listed = len(listing.zips)
    text = mark("the directory {directory} lists {number} archives, and held {before} before")
    if listing.missing:
        text = mark("the directory {directory} is gone, and held {before} before")
    elif listed == 1:
        text = mark("the directory {directory} lists one archive, and held {before} before")
    return message(text, directory=listing.action.value, number=listed, before=lost.known)


def confirmed_message(address: SourceAddress, listing: ActionListing, lost: int) -> Message:
    """The message about archives that two listings in a row did not have."""
    text = mark(
        "{directory}: {number} archives of {source} are gone. Two listings in a row did not show them. If the "
        "centre did not take them away on purpose, ask it to put them back."
    )
    if lost == 1:
        text = mark(
            "{directory}: one archive of {source} is gone. Two listings in a row did not show it. If the centre "
            "did not take it away on purpose, ask it to put it back."
        )
    return message(text, directory=listing.action.value, number=lost, source=address.label)


def twice_finding(address: SourceAddress, action: Action, twice: ListedTwice) -> Finding:
    """The finding on an archive or folder that was found at two paths."""
    known = {"taken": f"{action}/{twice.taken}", "other": f"{action}/{twice.other}", "source": address.label}
    if twice.is_folder:
        text = mark("{other} of {source} is the folder {taken} over a link. Its archives are taken from {taken} alone.")
        return Finding(FOLDER_TWICE, f"{action}/", None, message(text, **known))
    text = mark(
        "{source} has two archives of one name: {taken} and {other}. Only {taken} is taken. Ask the centre to remove "
        "or rename the other one."
    )
    key = ZipKey(action, stored_name(twice.taken.rpartition("/")[2]))
    return Finding(LISTED_TWICE, key, None, message(text, **known))


def proposed_message(address: SourceAddress, action: Action, number: int) -> Message:
    """The message about archives whose withdrawal is proposed."""
    text = mark(
        "{directory}: {number} archives of {source} are gone, and the withdrawal of their data is proposed. Decide: "
        "dcc data proposals"
    )
    if number == 1:
        text = mark(
            "{directory}: one archive of {source} is gone, and the withdrawal of its data is proposed. Decide: dcc "
            "data proposals"
        )
    return message(text, directory=action.value, number=number, source=address.label)
