"""Records the listing of a source in the tracker.

One query compares a listing with what is known of the source. The number of statements depends on the number of new
archives, in steps of 500 names, never on that of known ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection, select

from dcc.databases.transactions import insert_rows
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.sources.base import ActionListing, DeltaStrategy, ListedFile, SourceAddress
from dcc.tracker.hostings.missing_archives import close_returned, propose_withdrawals
from dcc.tracker.listings.basis import ListingBasis, RecordedListing
from dcc.tracker.listings.comparing import Absent, compare_with_known
from dcc.tracker.listings.findings import (
    CONFIRMED_GONE,
    PROPOSED,
    Finding,
    confirmed_message,
    proposed_message,
    shrunk_message,
    twice_finding,
)
from dcc.tracker.listings.known_archives import KnownArchives
from dcc.tracker.listings.new_archives import record_new
from dcc.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.problems import message_columns
from dcc.tracker.submission_rows import IDS, KEY, gathered, key_of, rows_about

_LEAST_LOST: Final = 3
_MOST_FINDINGS: Final = 200


class ListingRecorder:
    """Writes listings of one source within the caller's write transaction."""

    def __init__(self, basis: ListingBasis, address: SourceAddress) -> None:
        self._basis: Final = basis
        self._address: Final = address
        self._known: Final = KnownArchives(basis, address)

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
        self._known.record(seen, result)
        self._known.reconsider_names(compared.noteworthy, result)
        record_new(basis, self._address, compared.new, result)
        for listing in listings:
            result.findings += [twice_finding(self._address, listing.action, one) for one in listing.listed_twice]
        if compared.new or compared.noteworthy:
            close_returned(basis.connection, basis.now)
        if delta is DeltaStrategy.FULL and whole and not result.shrunk:
            self._propose_withdrawals(result)
        self._write_findings(result.findings)
        return result

    def settle(self, first: Mapping[ZipKey, ListedFile], listings: Sequence[ActionListing] | None) -> list[Finding]:
        """Record a second listing of unsettled archives; returns messages about those that are still being uploaded.

        `listings` is None if the source could not be listed: then all still count as being uploaded.
        """
        found = self._known.settle(first, listings)
        self._write_findings(found)
        return found

    def relist(self, keys: Collection[ZipKey], listings: Sequence[ActionListing]) -> dict[ZipKey, ListedFile]:
        """Record the present listing of these archives, if listed; returns those to list once more.

        One that has changed since its data were uploaded is reported, as by a crawl: the next crawl sees no change.
        """
        unsettled, found = self._known.relist(keys, listings)
        self._write_findings(found)
        return unsettled

    def _record_absent(
        self,
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
                text = confirmed_message(self._address, listing, len(lost.again))
                result.findings.append(Finding(CONFIRMED_GONE, f"{listing.action}/", None, text))
        self._known.set_columns(gone, gone_since=self._basis.now, missed_since=None, uploading_since=None)
        self._known.set_columns(missed, missed_since=self._basis.now)
        result.gone = len(gone)

    def _has_shrunk(self, listing: ActionListing, lost: Absent) -> bool:
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
            result.findings.append(Finding(PROPOSED, f"{action}/", None, text))

    def _write_findings(self, findings: Sequence[Finding]) -> None:
        rows = [
            {
                "session_id": self._basis.session_id,
                "file_source_id": self._address.id,
                "za_id": finding.za_id,
                "file_name": str(finding.key)[:160],
                "kind": finding.kind,
                **message_columns(finding.said),
                "created": self._basis.now,
            }
            for finding in findings[:_MOST_FINDINGS]
        ]
        insert_rows(self._basis.connection, CrawlFinding, rows)


def archives_by_source(connection: Connection, keys: Collection[ZipKey]) -> dict[int, set[ZipKey]]:
    """The known archives of each source among these."""
    query = (
        select(FileSourceHasZip.file_source_id, *KEY)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile)
        .where(ZipFile.file_name.in_(IDS))
    )
    rows = rows_about(connection, query, (key.file_name for key in keys))
    found = gathered((row.file_source_id, key) for row in rows if (key := key_of(row)) in keys)
    return {source: set(some) for source, some in found.items()}
