"""The ledger of notifications: nothing is told twice, whoever tells and whoever dies."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import ColumnElement, Engine, select, update

from dcc.notify.ledger import MAX_ATTEMPTS, Claim, Ledger, SendState
from dcc.notify.messages import NewsItem, NewsKind
from dcc.runtime.clock import utc_now
from dcc.tracker.models import CrawlingSession, NotificationRow
from tests.support.asking import column_in, execute_in
from tests.support.databases import only_sqlite, seed_centre
from tests.support.threads import at_once

ITEMS = [
    NewsItem(NewsKind.DIGEST, "session 1, H"),
    *(NewsItem(NewsKind.ZIP, f"add/{number}.zip", "failed") for number in range(3)),
]


def states(tracker: Engine) -> list[str]:
    """The states of what is in the ledger, in order."""
    return column_in(tracker, select(NotificationRow.state).order_by(NotificationRow.id))


@pytest.mark.both_databases
def test_of_many_who_want_to_tell_the_same_one_does(tracker: Engine) -> None:
    """Each with connections of its own, also what was not sent at first."""
    for state in (SendState.FAILED, SendState.SENT):
        claims = at_once(*[lambda: Ledger(tracker).claim(ITEMS, "mail", "a@b")] * 4)
        assert sorted(len(claim.items) for claim in claims) == [0, 0, 0, len(ITEMS)]
        (won,) = [claim for claim in claims if claim.items]
        assert Ledger(tracker).begin(won)
        Ledger(tracker).record_result(won, state)
    assert Ledger(tracker).unsent(ITEMS, "mail", "a@b") == []
    assert Ledger(tracker).unsent(ITEMS, "mail", "c@d") == ITEMS
    assert Ledger(tracker).unsent(ITEMS, "log", "a@b") == ITEMS


@pytest.mark.both_databases
def test_what_was_not_sent_is_claimed_anew_until_it_is_given_up(tracker: Engine) -> None:
    ledger = Ledger(tracker)
    for _ in range(2):
        claim = ledger.claim(ITEMS, "mail", "a@b")
        assert list(claim.items) == ITEMS
        assert ledger.begin(claim)
        ledger.record_result(claim, SendState.FAILED, "It is down.")
    assert ledger.closed_items(ITEMS, "mail", "a@b") == []
    execute_in(tracker, update(NotificationRow).values(attempts=MAX_ATTEMPTS))
    assert ledger.claim(ITEMS, "mail", "a@b").items == ()
    assert ledger.closed_items(ITEMS, "mail", "a@b") == ITEMS


@only_sqlite
def test_a_mail_server_may_be_down_for_a_weekend_though_a_sensor_looks_every_minute(
    tracker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried at once at first, then ever more rarely, and not dropped meanwhile: else an hour used up all attempts."""
    seed_centre(tracker)
    now = utc_now()
    execute_in(tracker, CrawlingSession.__table__.insert().values(start_time=now, status=0, created=now))
    ledger, item = Ledger(tracker), NewsItem(NewsKind.DIGEST, "session 1, H", "", 1)
    told = NewsItem(NewsKind.ZIP, "add/1.zip", "failed", 1)
    send(ledger, [told])
    failed(ledger, [NewsItem(NewsKind.OUTAGE, "file source 1", "1", 1)])
    assert (ledger.sessions_due(), ledger.open_outages("webhook", "hook")) == ([], {})
    tried: list[int] = []
    for minute in range(3 * 24 * 60):
        time = now + timedelta(minutes=minute)
        monkeypatch.setattr("dcc.notify.ledger.utc_now", lambda time=time: time)
        if tried and minute % 60 and minute > tried[0] + 60:
            continue
        is_due = ledger.sessions_due() == [1] or not tried
        assert ledger.unsent([item], "mail", "a@b") == ([item] if is_due else [])
        if is_due:
            claim = ledger.claim([item], "mail", "a@b")
            assert ledger.begin(claim)
            ledger.record_result(claim, SendState.FAILED, "It is down.")
            tried.append(minute)
        ledger.drop_failed(1, before=time)
    assert tried[:8] == [0, 1, 2, 3, 4, 5, 7, 11]
    assert 20 < len(tried) < MAX_ATTEMPTS
    assert tried[-1] > 3 * 24 * 60 - 200
    assert NewsKind.OUTAGE in [row.kind for row in ledger.entries()]
    for number in (2, 3):
        execute_in(tracker, CrawlingSession.__table__.insert().values(start_time=now, status=0, created=now))
        failed(ledger, [NewsItem(NewsKind.DIGEST, f"session {number}, H", "", number)])
    assert ledger.sessions_due()[:2] == [3, 2]
    for number in (3, 1):
        ledger.record_session(number)
    assert (ledger.last_session(), {row.channel for row in ledger.entries()}) == (3, {"mail", "webhook"})
    assert ledger.unsent([told], "mail", "a@b") == []


def send(ledger: Ledger, items: list[NewsItem], channel: str = "mail", recipient: str = "a@b") -> tuple[NewsItem, ...]:
    """What a recipient is told of some things."""
    claim = ledger.claim(items, channel, recipient)
    ledger.begin(claim)
    ledger.record_result(claim, SendState.SENT)
    return claim.items


def failed(ledger: Ledger, items: list[NewsItem]) -> str:
    """The id of a message that tells some things and fails."""
    claim = ledger.claim(items, "webhook", "hook")
    assert set(claim.items) == set(items)
    assert ledger.begin(claim)
    ledger.record_result(claim, SendState.FAILED, "It did not answer.")
    return claim.message_id


def test_a_message_that_is_sent_again_has_its_id_and_one_that_tells_anything_else_another(tracker: Engine) -> None:
    """Else a receiver that knows messages by their ids takes a repeat for news, or news for a repeat."""
    ledger = Ledger(tracker)
    first = failed(ledger, ITEMS)
    ledger.release(ledger.claim(ITEMS, "webhook", "hook"))
    assert failed(ledger, ITEMS) == first
    more = failed(ledger, [*ITEMS, NewsItem(NewsKind.ZIP, "add/more.zip", "failed")])
    some = failed(ledger, ITEMS[:2])
    assert len({first, more, some}) == 3
    assert failed(ledger, ITEMS) not in (first, more, some)


@only_sqlite
def test_who_was_too_slow_sends_nothing_and_takes_back_nothing(tracker: Engine) -> None:
    ledger = Ledger(tracker)
    failed(ledger, ITEMS)

    def lapsed(*of_items: ColumnElement[bool]) -> Claim:
        claim, long_ago = ledger.claim(ITEMS, "webhook", "hook"), utc_now() - timedelta(hours=1)
        execute_in(tracker, update(NotificationRow).where(*of_items).values(changed=long_ago))
        return claim if of_items else replace(claim, since=long_ago)

    slow = lapsed()
    in_part = lapsed(NotificationRow.subject == ITEMS[1].subject)
    other = ledger.claim(ITEMS, "webhook", "hook")
    assert other.items == (ITEMS[1],)
    ledger.release(slow)
    assert [ledger.begin(claim) for claim in (slow, in_part)] == [False, False]
    assert set(states(tracker)) == {SendState.CLAIMED}
    assert [ledger.begin(other) for _ in range(2)] == [True, False]
    for state in (SendState.SENT, SendState.FAILED):
        ledger.record_result(other, state)
    assert states(tracker).count(SendState.SENT) == 1


@pytest.mark.both_databases
@pytest.mark.parametrize("repeating", [False, True])
def test_what_a_process_died_over_is_sent_again_only_where_that_can_be_told(tracker: Engine, repeating: bool) -> None:
    ledger = Ledger(tracker)
    assert ledger.begin(ledger.claim(ITEMS, "mail", "a@b"))
    repeatable = ["mail"] if repeating else []
    assert ledger.record_interrupted(repeatable) == []
    assert set(states(tracker)) == {SendState.SENDING}
    execute_in(tracker, update(NotificationRow).values(changed=utc_now() - timedelta(hours=1)))
    assert ledger.record_interrupted(repeatable) == ([] if repeating else [("mail", "a@b")])
    assert ledger.record_interrupted(repeatable) == []
    assert ledger.unsent(ITEMS, "mail", "a@b") == (ITEMS if repeating else [])


@only_sqlite
def test_the_last_outcome_of_a_zip_action_counts_and_earlier_ones_are_forgotten(tracker: Engine) -> None:
    ledger, name = Ledger(tracker), f"add/{'x' * 300}"
    others, notice = (("log", "a@b"), ("mail", "c@d")), NewsItem(NewsKind.OWNER, name, "held")

    def told(number: int, what: str, *recipient: str) -> bool:
        items = [NewsItem(NewsKind.DIGEST, f"session {number}"), NewsItem(NewsKind.ZIP, name, what)]
        return len(send(ledger, items, *recipient)) == 2

    assert [told(0, "failed", *other) for other in others] == [True, True]
    assert [told(*one) for one in enumerate(["failed", "failed", "accepted", "failed", "failed"])] == [
        *(True, False, True, True, False)
    ]
    assert [told(1, "failed", *other) for other in others] == [False, False]
    assert send(ledger, [notice]) == (notice,)
    assert [told(5, "failed"), told(6, "accepted")] == [False, True]
    assert send(ledger, [notice]) == ()


@only_sqlite
def test_names_of_any_length_and_script_are_told_apart(tracker: Engine) -> None:
    ledger = Ledger(tracker)
    items = [NewsItem(NewsKind.ZIP, "ü" * 300 + end) for end in ("a", "A", "\udcff")]
    claim = ledger.claim(items[:2], "mail", "x" * 250 + "@host")
    assert len(claim.items) == 2
    assert ledger.unsent(items[:2], "mail", claim.recipient) == []
