"""Reminds centres of archives that failed long ago and were neither corrected nor removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dcc.notify.channels.base import Channel
from dcc.notify.digests import addresses_of
from dcc.notify.messages import Audience, Item, Kind, Message
from dcc.notify.outages import centre_ids
from dcc.notify.rounds import Round
from dcc.reports.overdue import LateCentre, late_centres
from dcc.tracker.register.centres import CentreEntry, list_centres


def remind_centres(round_: Round, now: datetime) -> None:
    """Remind each centre of its late archives by e-mail, once until none of them is left. Raises as `Round.tell`."""
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
            # Wranglers, and programs, are told of the check that failed.
            continue
        told = round_.ledger.open_outages(channel.name, recipient).get(subject)
        if late.failed and centre.is_active and told is None:
            round_.tell(channel, recipient, [reminder], compose)
        elif not late.failed and told is not None:
            round_.ledger.end_outage(told)
