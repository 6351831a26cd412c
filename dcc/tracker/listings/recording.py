"""Records the listing of a source in the tracker: what changed of archives that it hosts, and which are gone.

`new_archives` has those that are new to it. One query compares a listing with what is known of the source. The number
of statements depends on the number of new archives, in steps of 500 names, never on that of known ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from dcc.databases.list_parameters import IDS, change_about, rows_with
from dcc.messages import mark
from dcc.naming import Action, ArchiveName
from dcc.outcomes import SubmissionKey
from dcc.sources.base import ActionListing, ListedFile, SourceAddress
from dcc.tracker.archive_names import stored_name
from dcc.tracker.crawls import CHANGED, MANIFEST_CHANGED, SIZE_DIFFERS
from dcc.tracker.hostings.changed_archives import last_hostings, loaded_submissions, withdrawn_submissions
from dcc.tracker.hostings.missing_archives import close_returned, propose_withdrawals
from dcc.tracker.listings.comparing import (
    ATTRIBUTES,
    AbsentHostings,
    KnownHosting,
    SeenArchive,
    attributes,
    compare_with_known,
    completed,
    content_differs,
    credible,
    known_hostings,
    manifest_differs,
)
from dcc.tracker.listings.findings import (
    CLOCK_MOVED,
    CONFIRMED_GONE,
    FOLDER_TWICE,
    LISTED_TWICE,
    PROPOSED,
    TAKEN_ANEW,
    UPLOADING,
    ListingFinding,
    change_message,
    clock_message,
    confirmed_message,
    proposed_message,
    record_findings,
    shrunk_message,
    twice_finding,
    uploading_message,
)
from dcc.tracker.listings.listing_basis import ListingBasis, RecordedListing
from dcc.tracker.listings.new_archives import record_new
from dcc.tracker.listings.unchanged import as_fetched, set_times, with_another_clock
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.register.centres import load_delegations
from dcc.tracker.states import CANCELLED, NOT_ARRIVED, REFUSED
from dcc.tracker.submission_rows import KEY, group_pairs, submission_key_of
from dcc.vocabulary import DeltaStrategy

Seen = Mapping[SubmissionKey, SeenArchive]


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
        compared = compare_with_known(basis.connection, self._address, listings, basis.recent_since)
        result = RecordedListing(listed=compared.listed, known=compared.listed - len(compared.new))
        seen = compared.noteworthy
        if delta.compares:
            self._record_absent(listings, compared.absent, result, whole=whole)
        elif delta is DeltaStrategy.DISABLED:
            seen = {key: one for key, one in seen.items() if one.known.concerns_more_than_listing}
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
        self, first: Mapping[SubmissionKey, ListedFile], listings: Sequence[ActionListing] | None
    ) -> list[ListingFinding]:
        """Record a second listing of unsettled archives; returns messages about those that are still being uploaded.

        `listings` is None if the source could not be listed: then all still count as being uploaded.
        """
        second = _files_of(listings or ())
        found: list[ListingFinding] = []
        settled: dict[SubmissionKey, SeenArchive] = {}
        rows: list[dict[str, object]] = []
        sizes: list[dict[str, object]] = []
        for key, known in self._hostings(first).items():
            before, now = first[key], second.get(key)
            if now is not None and (now.size_bytes, now.modified) == (before.size_bytes, before.modified):
                settled[key] = SeenArchive(known, now)
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
        self._set_columns([one.known.hosting_id for one in settled.values()], uploading_since=None)
        self._update(rows, sizes)
        self._write_findings(found)
        return found

    def relist(
        self, keys: Collection[SubmissionKey], listings: Sequence[ActionListing]
    ) -> dict[SubmissionKey, ListedFile]:
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
        settled = {key: SeenArchive(hostings[key], file) for key, file in relisted.items() if key not in unsettled}
        self._download_again(settled, *self._changed(settled))
        loaded = loaded_submissions(self._basis.connection, [known.za_id for known in changed.values()])
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
        content -= self._unchanged({key: seen[key] for key in content if seen[key].known.za_id in loaded}, result)
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
        refused = {key: one.known for key, one in seen.items() if one.known.state == REFUSED}
        parsed = {known.zip_id: self._basis.parse(key.file_name) for key, known in refused.items()}
        names = {zip_id: name for zip_id, name in parsed.items() if isinstance(name, ArchiveName)}
        self._basis.note_names(names)
        self._basis.accept({key: known.za_id for key, known in refused.items() if known.zip_id in names}, result)

    def _set_columns(self, hosting_ids: Iterable[int], **values: datetime | None) -> None:
        statement = update(FileSourceHasZip).where(FileSourceHasZip.id.in_(IDS)).values(values)
        change_about(self._basis.connection, statement, hosting_ids)

    def _changed(self, seen: Seen) -> tuple[set[SubmissionKey], set[SubmissionKey]]:
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
        self, seen: Seen, content: Collection[SubmissionKey], manifests: Collection[SubmissionKey]
    ) -> tuple[set[SubmissionKey], set[int]]:
        """Let changed archives without uploaded data be downloaded again.

        Returns them, and the ids of submissions with uploaded data.

        An archive that failed, or came from this source, is fetched; a withdrawn one is not, because a person decided
        that. Another centre's copy does not undo the own copy's result, unless that centre has a delegation. One that
        was being uploaded has changed, whatever the listing before this one said.
        """
        done = {
            key: known
            for key, (known, _file) in seen.items()
            if known.was_fetched and (key in content or known.uploading or (key in manifests and known.state.failed))
        }
        connection, ids = self._basis.connection, [known.za_id for known in done.values()]
        loaded = loaded_submissions(connection, ids)
        kept_back = loaded | withdrawn_submissions(connection, ids)
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

    def _unchanged(self, changed: Seen, result: RecordedListing) -> set[SubmissionKey]:
        """Those that are listed otherwise, and are no other archives than those whose data were uploaded."""
        same = as_fetched(self._basis.connection, changed)
        for shift, moved in with_another_clock({key: changed[key] for key in changed.keys() - same}).items():
            set_times(self._basis.connection, [changed[key].known.hosting_id for key in moved], shift)
            for action, number in sorted(Counter(key.action for key in moved).items()):
                text = clock_message(self._address, action, number, shift)
                result.findings.append(ListingFinding(CLOCK_MOVED, f"{action}/", None, text))
            same |= moved
        return same

    def _permitted_keys(self, keys: Collection[SubmissionKey]) -> set[SubmissionKey]:
        """The archives that a source's centre may submit: its own, and by delegation."""
        centre = self._address.centre
        parsed = {key: self._basis.parse(key.file_name) for key in keys}
        owners = {key: name.centre for key, name in parsed.items() if isinstance(name, ArchiveName)}
        if all(owner == centre for owner in owners.values()):
            return set(owners)
        rights = load_delegations(self._basis.connection).rights_of(centre)
        return {key for key, owner in owners.items() if rights.permit(owner)}

    def _hostings(self, keys: Collection[SubmissionKey]) -> dict[SubmissionKey, KnownHosting]:
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
        """Record missing archives: as gone, or as missed if a directory lost too much at once.

        Those that lie where the source is no longer listed are gone, and no reason to ask the centre.
        """
        gone: list[int] = []
        missed: list[int] = []
        for listing in listings:
            lost = absent[listing.action]
            gone += lost.left_out
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
        keys = propose_withdrawals(self._basis.connection, self._address, self._basis.now)
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


def _files_of(listings: Sequence[ActionListing]) -> dict[SubmissionKey, ListedFile]:
    return {
        SubmissionKey(listing.action, stored_name(file.name)): credible(file)
        for listing in listings
        for file in listing.zips
    }


def archives_by_source(connection: Connection, keys: Collection[SubmissionKey]) -> dict[int, set[SubmissionKey]]:
    """The known archives of each source among these."""
    query = (
        select(FileSourceHasZip.file_source_id, *KEY)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
    )
    rows = rows_with(connection, query, ZipFile.file_name, (key.file_name for key in keys))
    found = group_pairs((row.file_source_id, key) for row in rows if (key := submission_key_of(row)) in keys)
    return {source: set(some) for source, some in found.items()}
