"""The messages about a finished session: a digest for each centre, a summary for wranglers, missing addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from dcc.errors import DccError
from dcc.notify.channels.base import Channel
from dcc.notify.digests import Digest, causes_of, collect_digests
from dcc.notify.messages import Attachment, Audience, Item, Kind, Message
from dcc.notify.rounds import Round
from dcc.outcomes import ZipKey
from dcc.reports.causes.cause import Cause
from dcc.reports.submissions.stored_reports import qc_at_hand

_MOST_REPORTS: Final = 5
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")


class SessionNews:
    """The news of one session, for all centres or one. Costly parts are computed when a recipient needs them."""

    def __init__(self, round_: Round, session_id: int, centre: str | None = None) -> None:
        self._round, self._session_id, self._centre = round_, session_id, centre

    def notify(self) -> None:
        """Send all recipients their news. Raises as `Round.notify`."""
        digests = self._digests
        if not digests:
            return
        self._tell_missing_addresses()
        for digest in digests:
            for channel, recipient in self._round.recipients(Audience.CENTRE, digest.addresses):
                items = [digest.item, *(digest.items[line.key] for line in digest.lines)]
                self._round.notify(channel, recipient, items, partial(self._compose_digest, digest), _has_zips)
        if self._centre is None:
            self._tell_wranglers()

    @cached_property
    def _digests(self) -> list[Digest]:
        with self._round.tracker.connect() as connection:
            return collect_digests(connection, self._round.settings, self._session_id, self._centre)

    @cached_property
    def _causes(self) -> Mapping[str | None, Sequence[Cause]]:
        return causes_of(self._round.tracker, self._round.settings, self._session_id)

    def _tell_missing_addresses(self) -> None:
        if not self._round.settings.notify_centres:
            return
        missing = {
            Item(Kind.ADDRESS, f"centre {code}", "", None, digest.centre_id): code
            for digest in self._digests
            if not digest.addresses and (code := digest.centre.short_name)
        }

        def compose(message_id: str, items: Sequence[Item], _: Channel) -> Message:
            return self._round.composer.missing_addresses(message_id, [missing[item] for item in items])

        for channel, recipient in self._round.recipients(Audience.WRANGLERS):
            self._round.notify(channel, recipient, list(missing), compose)

    def _tell_wranglers(self) -> None:
        troubled = [digest for digest in self._digests if digest.bad]
        well = [str(line.key) for digest in self._digests for line in digest.accepted]
        summary = Item(Kind.SESSION, f"session {self._session_id}", "", self._session_id)
        items = {digest.items[line.key]: digest for digest in troubled for line in digest.bad}

        def compose(message_id: str, told: Sequence[Item], _: Channel) -> Message:
            shown = [digest.only(told) for digest in troubled]
            return self._round.composer.summary(message_id, [one for one in shown if one.bad], self._causes)

        for channel, recipient in self._round.recipients(Audience.SUMMARY):
            if well and not self._round.dry:
                self._round.ledger.forget(Kind.ZIP, well, channel.name, recipient)
            self._round.notify(channel, recipient, [summary, *items], compose, _has_zips)

    def _compose_digest(self, digest: Digest, message_id: str, told: Sequence[Item], channel: Channel) -> Message:
        shown = digest.only(told)
        causes = self._causes.get(digest.centre.short_name, ()) if shown.bad else ()
        attached = self._reports(shown) if channel.attaches and shown.bad else ()
        return self._round.composer.digest(message_id, shown, causes, attached)

    def _reports(self, digest: Digest) -> list[Attachment]:
        """The submission reports on which a person must act, without plots, as many as a message may carry."""
        left = self._round.settings.notify_attachment_bytes
        attached: list[Attachment] = []
        for line in digest.bad[:_MOST_REPORTS] if left else ():
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

    def _page(self, digest: Digest, key: ZipKey) -> str:
        from dcc.reports.submissions.collecting import collect_submission
        from dcc.reports.submissions.page import render_html

        settings, catalogue = self._round.settings, self._round.composer.catalogue(digest.centre.language)
        with self._round.tracker.connect() as connection, qc_at_hand(settings) as (qc, missing):
            report = collect_submission(connection, qc, key, settings, most_pictures=0, qc_missing=missing)
        return render_html(report, catalogue, settings)


def _has_zips(items: Sequence[Item]) -> bool:
    """Whether a digest or summary has a new submission; without one it is not worth a message."""
    kinds = {item.kind for item in items}
    return Kind.ZIP in kinds and len(kinds) > 1
