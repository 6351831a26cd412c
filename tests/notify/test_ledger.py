"""The ledger of notifications: nothing is told twice, whoever tells and whoever dies."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, select, update

from dcc.notify.ledger import MAX_ATTEMPTS, Ledger, SendState
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


def test_of_many_who_want_to_tell_the_same_one_does(tracker: Engine) -> None:
    """Each with connections of its own."""
    claims = at_once(4, lambda: Ledger(tracker).claim(ITEMS, "mail", "a@b"))
    assert sorted(len(claim.items) for claim in claims) == [0, 0, 0, len(ITEMS)]
    (won,) = [claim for claim in claims if claim.items]
    assert Ledger(tracker).begin(won)
    Ledger(tracker).record_result(won, SendState.SENT)
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
    execute_in(tracker, update(NotificationRow).values(attempts=MAX_ATTEMPTS))
    assert ledger.claim(ITEMS, "mail", "a@b").items == ()


@only_sqlite
def test_a_mail_server_may_be_down_for_a_weekend_though_a_sensor_looks_every_minute(
    tracker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried at once at first, then ever more rarely, and not dropped meanwhile: else an hour used up all attempts."""
    seed_centre(tracker)
    now = utc_now()
    execute_in(tracker, CrawlingSession.__table__.insert().values(start_time=now, status=0, created=now))
    ledger, item = Ledger(tracker), NewsItem(NewsKind.DIGEST, "session 1, H", "", 1)
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
    assert failed(ledger, ITEMS) == first
    more = failed(ledger, [*ITEMS, NewsItem(NewsKind.ZIP, "add/more.zip", "failed")])
    some = failed(ledger, ITEMS[:2])
    assert len({first, more, some}) == 3
    assert failed(ledger, ITEMS) not in (first, more, some)


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
    ledger = Ledger(tracker)

    def told(number: int, what: str) -> bool:
        claim = ledger.claim(
            [NewsItem(NewsKind.DIGEST, f"session {number}"), NewsItem(NewsKind.ZIP, "add/x", what)], "mail", "a@b"
        )
        ledger.begin(claim)
        ledger.record_result(claim, SendState.SENT)
        return len(claim.items) == 2

    assert [told(*one) for one in enumerate(["failed", "failed", "accepted", "failed", "failed"])] == [
        *(True, False, True, True, False)
    ]


@only_sqlite
def test_names_of_any_length_and_script_are_told_apart(tracker: Engine) -> None:
    ledger = Ledger(tracker)
    items = [NewsItem(NewsKind.ZIP, "ü" * 300 + end) for end in ("a", "A", "\udcff")]
    claim = ledger.claim(items[:2], "mail", "x" * 250 + "@host")
    assert len(claim.items) == 2
    assert ledger.unsent(items[:2], "mail", claim.recipient) == []
