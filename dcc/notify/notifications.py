"""Notifications for sessions, sensors and commands.

Unless said otherwise, nothing here raises: a session's work stands, whether or not anybody was notified. Each function
returns sentences for its caller, and logs what could not be sent as warnings.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from dcc.errors import DccError, fault_of
from dcc.messages import Message
from dcc.notify import outages
from dcc.notify.channels.base import Channel
from dcc.notify.channels.open_channels import notifies, open_channels
from dcc.notify.composer import Composer
from dcc.notify.messages import Audience, NewsItem, NewsKind, Notification
from dcc.notify.notifiers import SessionNotifier, notify_owners, remind_centres
from dcc.notify.rounds import PlannedNotification, Round
from dcc.session.sessions import Session
from dcc.settings import Settings

_MAX_SESSIONS = 20
_SESSIONS_SENT_AGAIN = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NotificationResult:
    """What a round did: `sentences` for people, the number of messages `sent` by channel, and of those that failed."""

    sentences: tuple[str, ...] = ()
    sent: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0


def notify_after_session(
    tracker: Engine,
    settings: Settings,
    session: Session,
    *,
    ended: bool = True,
    broke_off: str | None = None,
) -> list[str]:
    """Send the news of a session: outages at once; once it has `ended`, its results for each centre.

    `broke_off` is the reason if it broke off.
    """
    if not notifies(settings):
        return []
    well = ended and broke_off is None
    troubles = [outages.broken_session(session.id, session.group, broke_off)] if broke_off is not None else []
    troubles += [outages.session_of_dead_process(dead, taken_up=well) for dead in session.dead]
    # A session of all centres did the work of each group.
    groups = [None, *settings.centre_groups] if session.group is None else [session.group.name]
    fine = {str(label): label for label in map(outages.label_of_sessions, groups)}

    def work(round_: Round) -> None:
        _notify_outages(round_, session.id, troubles, fine if well else {})
        if ended:
            _notify_sessions(round_, session.id)
            notify_owners(round_)

    return list(_guarded(tracker, settings, work).sentences)


def notify_due(
    tracker: Engine,
    settings: Settings,
    states: Iterable[outages.WatchedState] = (),
    *,
    ends_others_of: outages.SubjectKind | None = None,
    remind_at: datetime | None = None,
) -> NotificationResult:
    """Send all due news: failed messages, sessions that ended without sending, outages. For sensors.

    `states` are of what the tracker does not know. Other open outages of the kind `ends_others_of` end without a
    message. Centres are reminded of archives that failed long before the time `remind_at`.
    """
    if not notifies(settings):
        return NotificationResult()
    known = list(states)
    troubles = [state.outage for state in known if state.outage is not None]
    fine = {state.subject: state.label for state in known if state.outage is None}

    def work(round_: Round) -> None:
        _notify_outages(round_, None, troubles, fine, dead=True, ends_others_of=ends_others_of)
        _notify_sessions(round_, None)
        if remind_at is not None:
            remind_centres(round_, remind_at)
        notify_owners(round_)

    return _guarded(tracker, settings, work)


def notify_session(
    tracker: Engine, settings: Settings, session_id: int, *, centre: str | None = None
) -> NotificationResult:
    """Send the due news of one finished session, for all centres or one."""

    def work(round_: Round) -> None:
        SessionNotifier(round_, session_id, centre).notify()

    return _guarded(tracker, settings, work)


def plan(
    tracker: Engine, settings: Settings, session_id: int | None = None, *, centre: str | None = None
) -> tuple[list[PlannedNotification], list[str]]:
    """The messages that would be sent, of one session or of everything due, and sentences. Nothing is sent or recorded.

    Raises DccError.
    """
    round_ = Round(tracker, settings, dry=True)
    if session_id is None and centre is None:
        _notify_outages(round_, None, (), {}, dead=True)
    for number in [session_id] if session_id is not None else _due_sessions(round_, None):
        SessionNotifier(round_, number, centre).notify()
    if session_id is None or centre is not None:
        notify_owners(round_, centre)
    return round_.planned, round_.conclude()


def send_test(settings: Settings, address: str) -> str:
    """Send a test to an e-mail address; returns a sentence. Raises NotificationNotSentError."""
    from dcc.notify.channels.mail import MailChannel

    message = Composer(settings).test(uuid.uuid4().hex)
    MailChannel(settings).send(message, address, seconds=settings.notify_seconds)
    return f"A test was sent to {address}."


def notify_tracker_outage(settings: Settings, error: DccError) -> list[str]:
    """Notify wranglers once that the tracker cannot be reached. A file remembers it, because the ledger is in the
    tracker.
    """
    trouble = outages.OutageEntry(outages.TRACKER, "", outages.TRACKER, str(error), reported=False)
    opened = open_channels(settings)
    sentences: list[str] = []
    failed: set[str] = set()
    for channel, recipient in opened.recipients(Audience.WRANGLERS):
        if channel.name in failed:
            continue
        path: Path | None = None
        try:
            path = outages.claim_tracker_outage(settings, channel.name, recipient)
            if path is None:
                continue
            _send_alone(settings, channel, recipient, [trouble], {})
            sentences.append(f"{recipient} was notified that the tracker is away.")
        except (DccError, OSError) as failure:
            if path is not None and not getattr(failure, "may_have_arrived", False):
                path.unlink(missing_ok=True)
            if not getattr(failure, "recipient_refused", False):
                failed.add(channel.name)
            sentences.append(_warned(failure))
    return [*opened.problems, *sentences]


def _notify_tracker_recovery(settings: Settings) -> list[str]:
    claims = outages.outage_claims(settings)
    if not claims:
        return []
    sentences: list[str] = []
    # The round says which channels cannot be used.
    for channel, recipient in open_channels(settings).recipients(Audience.WRANGLERS):
        path = outages.outage_claim_path(settings, channel.name, recipient)
        if path not in claims:
            continue
        claims.remove(path)
        try:
            # The process that removes the file sends the message.
            path.unlink()
        except FileNotFoundError:
            continue
        try:
            _send_alone(settings, channel, recipient, [], {outages.TRACKER: outages.Recovery(outages.TRACKER)})
        except DccError as failure:
            if not getattr(failure, "may_have_arrived", False):
                outages.claim_tracker_outage(settings, channel.name, recipient)
            sentences.append(_warned(failure))
    # Of those whom the settings do not name any more.
    for path in claims:
        path.unlink(missing_ok=True)
    return sentences


def _send_alone(
    settings: Settings,
    channel: Channel,
    recipient: str,
    away: Sequence[outages.OutageEntry],
    back: Mapping[str, outages.Recovery],
) -> None:
    message = Composer(settings).outages(uuid.uuid4().hex, away, back)
    channel.send(message, recipient, seconds=settings.notify_seconds)


def _guarded(tracker: Engine, settings: Settings, work: Callable[[Round], None]) -> NotificationResult:
    """Run a round, and turn each error into a sentence."""
    sentences: list[str] = []
    sent: dict[str, int] = {}
    failed = 0
    try:
        round_ = Round(tracker, settings)
        try:
            repeating = [channel.name for channel in round_.opened.channels if channel.repeats]
            for channel, recipient in round_.ledger.record_interrupted(repeating):
                sentences.append(
                    f"A process died while it sent a notification by {channel} to {recipient}: nobody knows whether it "
                    "arrived, and it is not sent again. See: dcc notify --list"
                )
                log.warning("%s", sentences[-1])
            sentences += _notify_tracker_recovery(settings)
            work(round_)
        finally:
            sentences += round_.conclude()
            sent, failed = dict(round_.sent), round_.failed
    except (DccError, SQLAlchemyError, OSError) as error:
        sentences.append(_warned(error))
        failed += 1
    except Exception as error:
        log.exception("Notifications met a fault")
        sentences.append(f"Notifications met a fault of the platform: {fault_of(error)}. Report it.")
        failed += 1
    return NotificationResult(tuple(sentences), sent, failed)


def _notify_sessions(round_: Round, session_id: int | None) -> None:
    numbers = _due_sessions(round_, session_id)
    for number in numbers:
        SessionNotifier(round_, number).notify()
        # Failed messages that are not due any more: a later session has sent the same news.
        round_.ledger.drop_failed(number, before=round_.began)
    if numbers:
        with round_.tracker.connect() as connection:
            under_way = outages.oldest_under_way(connection)
        # A session that takes longer than later ones is looked at when it ends.
        round_.ledger.record_session(max(numbers) if under_way is None else min(max(numbers), under_way - 1))


def _due_sessions(round_: Round, session_id: int | None) -> list[int]:
    """Sessions with possible news: this one, those that ended since the last one sent, those with failed messages."""
    last = round_.ledger.last_session()
    with round_.tracker.connect() as connection:
        # Sessions before the first notification are history; nobody waits for them.
        ended = outages.sessions_after(connection, last, _MAX_SESSIONS if last else 1)
    again = round_.ledger.sessions_due()[:_SESSIONS_SENT_AGAIN]
    wanted = {*ended, *again, *([] if session_id is None else [session_id])}
    return sorted(wanted)


def _notify_outages(
    round_: Round,
    session_id: int | None,
    troubles: Iterable[outages.OutageEntry],
    fine: Mapping[str, Message | str],
    *,
    dead: bool = False,
    ends_others_of: outages.SubjectKind | None = None,
) -> None:
    """Send outages and recoveries, with `dead` those of dead sessions too.

    `fine` are the subjects that work, with their labels. `ends_others_of`: see `notify_due`.
    """
    with round_.tracker.connect() as connection:
        lost = outages.lost_from_store(connection, round_.settings)
        away = [*troubles, *lost, *outages.unreachable_sources(connection, round_.settings, session_id)]
        fine = {**fine, outages.ARCHIVES: outages.ARCHIVES}
        if dead:
            away += outages.dead_sessions(connection, round_.settings)
    reported = {(channel.name, recipient) for channel, recipient in round_.opened.recipients(Audience.REPORTED)}
    for channel, recipient in round_.opened.recipients(Audience.WRANGLERS):
        own = [trouble for trouble in away if not trouble.reported or (channel.name, recipient) in reported]
        _notify_outages_to(round_, channel, recipient, own, fine, ends_others_of)


def _notify_outages_to(
    round_: Round,
    channel: Channel,
    recipient: str,
    away: Sequence[outages.OutageEntry],
    fine: Mapping[str, Message | str],
    ends_others_of: outages.SubjectKind | None,
) -> None:
    ledger = round_.ledger
    open_outages = ledger.open_outages(channel.name, recipient)
    with round_.tracker.connect() as connection:
        back = outages.ended_outages(connection, open_outages, away)
    still = {trouble.subject for trouble in away if not trouble.over}
    well = [subject for subject in fine if subject in open_outages and subject not in still]
    back |= {subject: outages.Recovery(fine[subject]) for subject in well}
    if ends_others_of is not None:
        others = open_outages.keys() - still - fine.keys()
        back |= {subject: None for subject in others if subject.startswith(ends_others_of)}
    for subject in [subject for subject, recovery in back.items() if recovery is None]:
        if not round_.dry:
            ledger.end_outage(open_outages[subject])
        del back[subject]
    # An outage that continues is one outage, whichever session or run met it.
    by_item = {trouble.item: trouble for trouble in away if trouble.subject not in open_outages}
    recoveries = {NewsItem(NewsKind.RECOVERY, subject, open_outages[subject]): subject for subject in back}

    def compose(message_id: str, items: Sequence[NewsItem], _: Channel) -> Notification:
        told = {recoveries[item] for item in items if item in recoveries}
        recovered = {subject: recovery for subject, recovery in back.items() if recovery and subject in told}
        return round_.composer.outages(message_id, [by_item[item] for item in items if item in by_item], recovered)

    now = round_.notify(channel, recipient, [*by_item, *recoveries], compose)
    if round_.dry:
        return
    for item in now:
        if item in by_item and by_item[item].over:
            ledger.end_outage(item.ledger_key(channel.name, recipient))
    # This includes recoveries that an earlier round sent before it died: else the next outage would be taken for this
    # one.
    for item in ledger.closed_items(list(recoveries), channel.name, recipient):
        ledger.end_outage(open_outages[recoveries[item]])


def _warned(error: Exception) -> str:
    sentence = str(error) if isinstance(error, DccError) else f"Notifications were not sent ({type(error).__name__})."
    log.warning("%s", sentence)
    return sentence
