"""Messages to centres outside sessions: what others did with their data, and archives that failed long ago.

Each round reads the notices of the last days; the ledger knows which were sent. Of each archive and document only the
latest notice is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from dcc.databases.columns import utc_now
from dcc.notify.channels.base import Channel
from dcc.notify.digests import addresses_of
from dcc.notify.messages import Audience, Item, Kind, Message
from dcc.notify.outages import centre_ids
from dcc.notify.rounds import Round
from dcc.reports.overdue import LateCentre, late_centres
from dcc.tracker.hostings.owner_notices import Notice, notices_since
from dcc.tracker.register.centres import CentreEntry, list_centres

_LOOKED_BACK: Final = timedelta(days=30)


def notify_owners(round_: Round, centre: str | None = None) -> None:
    """Notify the owners of data, or one of them, of new notices. Raises as `Round.notify`."""
    if not round_.channels:
        return
    with round_.tracker.connect() as connection:
        notices = notices_since(connection, utc_now() - _LOOKED_BACK, centre)
        if not notices:
            return
        centres = {entry.short_name: entry for entry in list_centres(connection)}
        ids = centre_ids(connection)
    of_owners: dict[str, list[Notice]] = defaultdict(list)
    for notice in _latest(notices):
        of_owners[notice.owner].append(notice)
    for owner, some in of_owners.items():
        items = {_item(notice, ids[owner]): notice for notice in some}
        compose = partial(_compose, round_, centres[owner], items)
        for channel, recipient in round_.recipients(Audience.CENTRE, addresses_of(centres[owner])):
            round_.notify(channel, recipient, list(items), compose)


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


def _compose(
    round_: Round, owner: CentreEntry, notices: dict[Item, Notice], message_id: str, told: Sequence[Item], _: Channel
) -> Message:
    return round_.composer.owner_news(message_id, owner, [notices[item] for item in told])


def _item(notice: Notice, owner_id: int) -> Item:
    return Item(Kind.OWNER, f"{notice.key} {notice.file_name}".strip(), f"{notice.outcome} {notice.id}", None, owner_id)


def remind_centres(round_: Round, now: datetime) -> None:
    """Remind each centre by e-mail of archives that failed long ago, once. Raises as `Round.notify`."""
    with round_.tracker.connect() as connection:
        late = late_centres(connection, round_.settings, now)
        centres, ids = list_centres(connection), centre_ids(connection)
    for centre in centres:
        _remind(round_, centre, ids[centre.short_name], late.get(centre.short_name, LateCentre()), now)


def _remind(round_: Round, centre: CentreEntry, centre_id: int, late: LateCentre, now: datetime) -> None:
    subject = f"late archives of {centre.short_name}"
    reminder = Item(Kind.OUTAGE, subject, f"{now:%Y-%m-%d}", None, centre_id)

    def compose(message_id: str, _items: Sequence[Item], _channel: Channel) -> Message:
        return round_.composer.late_archives(message_id, centre, late)

    addresses = addresses_of(centre)
    for channel, recipient in round_.recipients(Audience.CENTRE, addresses):
        if recipient not in addresses:
            # Wranglers and programs get the failed check instead.
            continue
        open_outage = round_.ledger.open_outages(channel.name, recipient).get(subject)
        if late.failed and centre.is_active and open_outage is None:
            round_.notify(channel, recipient, [reminder], compose)
        elif not late.failed and open_outage is not None:
            round_.ledger.end_outage(open_outage)
