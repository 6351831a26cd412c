"""News of a session for each centre: submissions that were accepted, that failed, and that wait for a person.

Only news: the ledger has an item for the outcome of each submission, so that one that fails in the same way in every
session is reported once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, select

from dcc.notify.messages import NewsItem, NewsKind
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.causes.cause import Cause
from dcc.reports.submissions.model import Outcome, SubmissionLine
from dcc.reports.submissions.stored_reports import qc_at_hand
from dcc.reports.submissions.submission_lines import submissions_of_session
from dcc.settings import Settings
from dcc.tracker.crawls import require_session
from dcc.tracker.hostings.missing_archives import count_open
from dcc.tracker.models import ZipAction, ZipDownload, ZipFile
from dcc.tracker.queries.session_submissions import session_submission_ids, session_submissions
from dcc.tracker.register.centres import CentreEntry, centre_ids, list_centres
from dcc.tracker.submission_rows import KEY, archive_md5, newest_downloads, submission_key_of

_NO_NEWS: Final = frozenset(
    {
        Outcome.WAITING,
        Outcome.GONE,
        Outcome.ON_HOLD,
        Outcome.FOREIGN,
        Outcome.DECLINED,
        Outcome.UNDER_WAY,
        Outcome.TO_BE_TAKEN,
        Outcome.IN_ORDER,
        Outcome.BEHIND_DECISION,
        Outcome.WITHDRAWN,
        Outcome.COPY_OF_WITHDRAWN,
        Outcome.LEFT_OUT,
    }
)
"""Outcomes that digests leave out; `owner_notification` reports archives on other centres' servers."""
_MAX_CAUSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Digest:
    """What happened to a centre's submissions in a session; `lines` begin with the worst.

    `proposals`: of how many of its archives the withdrawal is proposed.
    """

    session: int
    centre: CentreEntry
    centre_id: int
    lines: tuple[SubmissionLine, ...]
    items: Mapping[SubmissionKey, NewsItem]
    proposals: int = 0

    @property
    def item(self) -> NewsItem:
        """The digest itself, as an item of the ledger."""
        return NewsItem(
            NewsKind.DIGEST, f"session {self.session}, {self.centre.short_name}", "", self.session, self.centre_id
        )

    @property
    def accepted(self) -> tuple[SubmissionLine, ...]:
        """Accepted submissions."""
        return tuple(line for line in self.lines if not line.tone.needs_somebody)

    @property
    def bad(self) -> tuple[SubmissionLine, ...]:
        """Submissions on which a person must act."""
        return tuple(line for line in self.lines if line.tone.needs_somebody)

    def only(self, items: Collection[NewsItem]) -> Digest:
        """The digest of the submissions that are among `items`."""
        wanted = set(items)
        return replace(self, lines=tuple(line for line in self.lines if self.items[line.key] in wanted))


def collect_digests(
    connection: Connection, settings: Settings, session_id: int, centre: str | None = None
) -> list[Digest]:
    """The digests of a finished session, for all centres or one; centres without news are left out.

    Raises NotFoundError.
    """
    session = require_session(connection, session_id)
    touched = session_submission_ids(connection, session)
    # As reports do: the tracker alone does not tell whether any of the data were accepted.
    with qc_at_hand(settings) as (qc, _):
        lines = [
            line
            for line in submissions_of_session(connection, session, touched, qc)
            if not line.needs_nobody
            and (
                line.outcome not in _NO_NEWS
                or (Phase.XSD <= settings.last_phase <= line.phase and line.status is Status.DONE)
            )
        ]
    if not lines:
        return []
    of_centre = _by_centre(connection, touched, lines)
    md5s = _md5s(connection, touched)
    ids, proposals = centre_ids(connection), count_open(connection)
    return [
        Digest(
            session=session_id,
            centre=entry,
            centre_id=ids[entry.short_name],
            lines=tuple(of_centre[entry.short_name]),
            items={
                line.key: _item(line, md5s.get(line.key), session_id, ids[entry.short_name])
                for line in of_centre[entry.short_name]
            },
            proposals=proposals.get(entry.short_name, 0),
        )
        for entry in list_centres(connection)
        if entry.short_name in of_centre and centre in (None, entry.short_name)
    ]


def causes_of(
    tracker: Engine, settings: Settings, session_id: int, keys: Collection[SubmissionKey]
) -> dict[str | None, list[Cause]]:
    """The causes of errors in these submissions of a session, and in its crawls, by centre.

    Without those of the QC database if there is none.
    """
    from dcc.reports.causes.collecting import find_causes

    with tracker.connect() as connection, qc_at_hand(settings) as (qc, _):
        found = find_causes(connection, qc, session_id, settings, limit=_MAX_CAUSES, only=keys).causes
    causes: dict[str | None, list[Cause]] = defaultdict(list)
    for cause in found:
        causes[cause.centre].append(cause)
    return dict(causes)


def _item(line: SubmissionLine, md5: str | None, session_id: int, centre_id: int) -> NewsItem:
    changed = "" if line.changed is None else f" changed {line.changed}"
    what = f"accepted {md5}"
    if line.outcome is Outcome.CHANGED:
        # Each change is reported once, whatever becomes of its other data.
        what = changed.strip()
    elif line.tone.needs_somebody:
        # Documents that were corrected or submitted again are news as well.
        what = f"{line.outcome} {line.phase.short_name} {line.failed}/{line.documents} {md5}{changed}"
    return NewsItem(NewsKind.ZIP, str(line.key), what, session_id, centre_id)


def _by_centre(
    connection: Connection, touched: Select[Any], lines: Sequence[SubmissionLine]
) -> dict[str, list[SubmissionLine]]:
    """Each line with the centre in its archive's name or, without one, with the centres whose sources had it."""
    hosts: dict[SubmissionKey, tuple[str, ...]] = {}
    if any(line.centre is None for line in lines):
        unnamed = ZipFile.centre_id.is_(None)
        hosts = {zipped.key: zipped.hosts for zipped in session_submissions(connection, touched, unnamed)}
    found: dict[str, list[SubmissionLine]] = defaultdict(list)
    for line in lines:
        for code in (line.centre,) if line.centre is not None else hosts.get(line.key, ()):
            found[code].append(line)
    return found


def _md5s(connection: Connection, touched: Select[Any]) -> dict[SubmissionKey, str | None]:
    """The MD5 of the archive of each submission of a query of ids that was ever fetched."""
    latest = newest_downloads(touched)
    query = (
        select(*KEY, archive_md5().label("md5"))
        .select_from(ZipAction)
        .join(ZipFile)
        .join(latest, latest.c.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.id == latest.c.download_id)
    )
    return {submission_key_of(row): row.md5 for row in connection.execute(query)}
