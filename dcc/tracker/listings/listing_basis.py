"""What a listing is recorded by, and what was recorded of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, update

from dcc.errors import BadFileNameError
from dcc.messages import Message, mark
from dcc.naming import ArchiveName, NamingConvention
from dcc.outcomes import CrawlCounts, Problem, SubmissionKey
from dcc.sources.base import ListedFile
from dcc.sources.listing_watch import ignore_progress
from dcc.tracker import progress
from dcc.tracker.listings.findings import ListingFinding
from dcc.tracker.models import ZipFile
from dcc.tracker.reopened_by import CRAWL


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
    new_zips: list[SubmissionKey] = field(default_factory=list)
    refused_zips: list[tuple[SubmissionKey, str]] = field(default_factory=list)
    accepted_zips: list[SubmissionKey] = field(default_factory=list)
    findings: list[ListingFinding] = field(default_factory=list)
    shrunk: list[Message] = field(default_factory=list)
    unsettled: dict[SubmissionKey, ListedFile] = field(default_factory=dict)

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

    def parse(self, file_name: str) -> ArchiveName | Problem:
        """The parsed name of an archive, or why it is refused."""
        try:
            return self.naming.parse_archive_name(file_name, self.centres)
        except BadFileNameError as error:
            return Problem.of(error)

    def note_names(self, names: Mapping[int, ArchiveName]) -> None:
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

    def accept(self, refused: Mapping[SubmissionKey, int], result: RecordedListing) -> None:
        """Let refused submissions wait for their download."""
        reason = mark("The file name conforms: its centre or the naming convention has been registered since.")
        self.reopen(refused.values(), reason)
        result.accepted_zips.extend(refused)
