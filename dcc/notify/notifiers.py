"""The messages about a finished session, and those to centres outside sessions.

Of a session: a digest for each centre, a summary for wranglers, missing addresses. Besides, centres get messages about
what others did with their data, and about archives that failed long ago. Each round reads the notices of the last days;
the ledger knows which were sent. Of each archive and document only the latest notice is sent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Final

from dcc.errors import DccError
from dcc.notify.channels.base import Channel
from dcc.notify.digests import Digest, causes_of, collect_digests
from dcc.notify.messages import Attachment, Audience, NewsItem, NewsKind, Notification
from dcc.notify.rounds import Round
from dcc.outcomes import SubmissionKey
from dcc.reports.causes.cause import Cause
from dcc.reports.overdue import LateCentre, late_centres
from dcc.reports.submissions.stored_reports import qc_at_hand
from dcc.runtime.clock import utc_now
from dcc.tracker.hostings.foreign_archives import declines_of
from dcc.tracker.hostings.owner_notices import Notice, NoticeOutcome, notices_since
from dcc.tracker.register.centres import CentreEntry, centre_ids, list_centres

_LOOKED_BACK: Final = timedelta(days=30)
_MAX_REPORTS: Final = 5
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


class SessionNotifier:
    """The news of one session, for all centres or one. Costly parts are computed when a recipient needs them."""

    def __init__(self, round_: Round, session_id: int, centre: str | None = None) -> None:
        self._round, self._session_id, self._centre = round_, session_id, centre
        self._causes: dict[frozenset[SubmissionKey], Mapping[str | None, Sequence[Cause]]] = {}

    def notify(self) -> None:
        """Send all recipients their news. Raises as `Round.notify`."""
        digests = self._digests
        if not digests:
            return
        self._tell_missing_addresses()
        for digest in digests:
            items = [digest.item, *(digest.items[line.key] for line in digest.lines)]
            self._round.notify_centre(digest.centre, items, partial(self._compose_digest, digest), _has_zips)
        if self._centre is None:
            self._tell_wranglers()

    @cached_property
    def _digests(self) -> list[Digest]:
        with self._round.tracker.connect() as connection:
            return collect_digests(connection, self._round.settings, self._session_id, self._centre)

    def _causes_of(self, digests: Sequence[Digest]) -> Mapping[str | None, Sequence[Cause]]:
        """The causes of what is bad in these digests, counted once for all recipients that get the same archives."""
        keys = frozenset(line.key for digest in digests for line in digest.bad)
        if keys not in self._causes:
            self._causes[keys] = causes_of(self._round.tracker, self._round.settings, self._session_id, keys)
        return self._causes[keys]

    def _tell_missing_addresses(self) -> None:
        if not self._round.settings.notify_centres:
            return
        missing = {
            NewsItem(NewsKind.ADDRESS, f"centre {code}", "", None, digest.centre_id): code
            for digest in self._digests
            if not digest.centre.addresses and (code := digest.centre.short_name)
        }

        def compose(message_id: str, items: Sequence[NewsItem], _: Channel) -> Notification:
            return self._round.composer.missing_addresses(message_id, [missing[item] for item in items])

        for channel, recipient in self._round.opened.recipients(Audience.WRANGLERS):
            self._round.notify(channel, recipient, list(missing), compose)

    def _tell_wranglers(self) -> None:
        troubled = [digest for digest in self._digests if digest.bad]
        well = [str(line.key) for digest in self._digests for line in digest.accepted]
        summary = NewsItem(NewsKind.SESSION, f"session {self._session_id}", "", self._session_id)
        items = {digest.items[line.key]: digest for digest in troubled for line in digest.bad}

        def compose(message_id: str, told: Sequence[NewsItem], _: Channel) -> Notification:
            shown = [one for digest in troubled if (one := digest.only(told)).bad]
            return self._round.composer.summary(message_id, shown, self._causes_of(shown))

        for channel, recipient in self._round.opened.recipients(Audience.SUMMARY):
            if well and not self._round.dry:
                self._round.ledger.forget(well, channel.name, recipient)
            self._round.notify(channel, recipient, [summary, *items], compose, _has_zips)

    def _compose_digest(
        self, digest: Digest, message_id: str, told: Sequence[NewsItem], channel: Channel
    ) -> Notification:
        shown = digest.only(told)
        causes = self._causes_of([shown]).get(digest.centre.short_name, ()) if shown.bad else ()
        attached = self._reports(shown) if channel.attaches and shown.bad else ()
        return self._round.composer.digest(message_id, shown, causes, attached)

    def _reports(self, digest: Digest) -> list[Attachment]:
        """The submission reports on which a person must act, without plots, as many as a message may carry."""
        left = self._round.settings.notify_attachment_bytes
        attached: list[Attachment] = []
        for line in digest.bad[:_MAX_REPORTS] if left else ():
            try:
                page = self._page(digest, line.key).encode("utf-8", "backslashreplace")
            except DccError as error:
                self._round.sentences.append(f"The report of {line.key} could not be attached: {error}")
                continue
            if len(page) <= left:
                left -= len(page)
                name = _UNFIT.sub("_", f"{line.key.action}-{line.key.file_name}")[:100]
                attached.append(Attachment(f"{name}.html", "text/html", page))
        return attached

    def _page(self, digest: Digest, key: SubmissionKey) -> str:
        from dcc.reports.submissions.collecting import collect_submission
        from dcc.reports.submissions.page import render_html

        settings, catalogue = self._round.settings, self._round.composer.catalogue(digest.centre.language)
        with self._round.tracker.connect() as connection, qc_at_hand(settings) as (qc, missing):
            report = collect_submission(connection, qc, key, settings, qc_missing=missing)
        return render_html(report, catalogue, settings)


def _has_zips(items: Sequence[NewsItem]) -> bool:
    """Whether a digest or summary has a new submission; without one it is not worth a message."""
    kinds = {item.kind for item in items}
    return NewsKind.ZIP in kinds and len(kinds) > 1


def notify_owners(round_: Round, centre: str | None = None) -> None:
    """Notify the owners of data, or one of them, of new notices. Raises as `Round.notify`."""
    if not round_.opened.channels:
        return
    with round_.tracker.connect() as connection:
        notices = notices_since(connection, utc_now() - _LOOKED_BACK, centre)
        if not notices:
            return
        in_force = declines_of(connection, [notice.za_id for notice in notices])
        centres = {entry.short_name: entry for entry in list_centres(connection)}
        ids = centre_ids(connection)
    of_owners: dict[str, list[Notice]] = defaultdict(list)
    for notice in _latest(notices):
        if notice.outcome is NoticeOutcome.DECLINED and not notice.file_name and notice.za_id not in in_force:
            # It was taken back. Where the archive is not held again, no later notice says so.
            continue
        of_owners[notice.owner].append(notice)
    for owner, some in of_owners.items():
        _notify_owner(round_, centres[owner], ids[owner], some)


def _notify_owner(round_: Round, owner: CentreEntry, owner_id: int, notices: Sequence[Notice]) -> None:
    items: dict[NewsItem, Notice] = {}
    for notice in notices:
        subject, what = f"{notice.key} {notice.file_name}".strip(), f"{notice.outcome} {notice.id}"
        items[NewsItem(NewsKind.OWNER, subject, what, centre_id=owner_id)] = notice

    def compose(message_id: str, told: Sequence[NewsItem], _: Channel) -> Notification:
        return round_.composer.owner_notification(message_id, owner, [items[item] for item in told])

    round_.notify_centre(owner, list(items), compose)


def _latest(notices: Sequence[Notice]) -> list[Notice]:
    """The notices that no later one replaces (of the same document, or of its whole archive), oldest first."""
    found: list[Notice] = []
    replaced: set[tuple[str, str, str]] = set()
    for notice in reversed(notices):
        of_archive = notice.owner, str(notice.key)
        if (*of_archive, notice.file_name) not in replaced and (*of_archive, "") not in replaced:
            found.append(notice)
        replaced.add((*of_archive, notice.file_name))
    return found[::-1]


def remind_centres(round_: Round, now: datetime) -> None:
    """Remind each centre by e-mail of archives that failed long ago, once. Raises as `Round.notify`."""
    with round_.tracker.connect() as connection:
        late = late_centres(connection, round_.settings, now)
        centres, ids = list_centres(connection), centre_ids(connection)
    for centre in centres:
        _remind(round_, centre, ids[centre.short_name], late.get(centre.short_name, LateCentre()), now)


def _remind(round_: Round, centre: CentreEntry, centre_id: int, late: LateCentre, now: datetime) -> None:
    subject = f"late archives of {centre.short_name}"
    reminder = NewsItem(NewsKind.OUTAGE, subject, f"{now:%Y-%m-%d}", None, centre_id)

    def compose(message_id: str, _items: Sequence[NewsItem], _channel: Channel) -> Notification:
        return round_.composer.late_archives(message_id, centre, late)

    for channel, recipient in round_.opened.recipients(Audience.CENTRE, centre.addresses):
        if recipient not in centre.addresses:
            # Wranglers and programs get the failed check instead.
            continue
        open_outage = round_.ledger.open_outages(channel.name, recipient).get(subject)
        if late.failed and centre.is_active and open_outage is None:
            round_.notify(channel, recipient, [reminder], compose)
        elif not late.failed and open_outage is not None:
            round_.ledger.end_outage(open_outage)
