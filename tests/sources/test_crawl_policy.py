"""Whether a source is due: its age, its windows, its pause, and how long one that fails is left alone."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.sources.crawl_policy import (
    CrawlPolicy,
    DueReason,
    PastCrawls,
    Pause,
    Schedule,
    Windows,
    crawl_due,
    overdue_at,
    parse_age,
    shown_age,
)

NOW = datetime(2026, 3, 4, 12)  # a Wednesday, in UTC without a zone
HOUR = timedelta(hours=1)
LONDON = "20:00-06:00 Europe/London"


def listed(hours: float) -> PastCrawls:
    return PastCrawls(listed=NOW - hours * HOUR)


def seen_uploading(hours: float) -> PastCrawls:
    return PastCrawls(listed=NOW - hours * HOUR, has_uploads=True)


def policy(every: str = "", windows: str = "", pause: Pause | None = None, schedule: str = "") -> CrawlPolicy:
    return CrawlPolicy(
        parse_age(every) if every else None,
        Windows.parse(windows) if windows else None,
        pause,
        Schedule.parse(schedule) if schedule else None,
    )


@pytest.mark.parametrize(
    ("given", "past", "why", "hours"),
    [
        (policy(), listed(0), DueReason.DUE, None),
        (policy("6h"), PastCrawls(), DueReason.DUE, None),
        (policy("6h"), listed(1), DueReason.RECENT, 4.7),
        (policy("6h"), listed(5.8), DueReason.DUE, None),
        # Clocks of machines differ a little; what is later than that a wrong clock has set.
        (policy("6h"), listed(-0.1), DueReason.RECENT, 5.8),
        (policy("6h"), listed(-9_000), DueReason.DUE, None),
        (policy(schedule="Mon 06:00"), listed(-9_000), DueReason.DUE, None),
        (policy(), PastCrawls(NOW, 3, NOW + 9_000 * HOUR), DueReason.DUE, None),
        (policy(windows=LONDON), PastCrawls(), DueReason.CLOSED, 8),
        (policy(windows="Mon-Fri 08:00-13:00"), PastCrawls(), DueReason.DUE, None),
        (policy(windows="Sat-Sun 00:00-24:00"), PastCrawls(), DueReason.CLOSED, 60),
        (policy(windows="Wed 00:00-24:00"), PastCrawls(), DueReason.DUE, None),
        (policy(windows="Sat-Wed 13:00-14:00, Wed 11:30-12:30"), PastCrawls(), DueReason.DUE, None),
        (policy("1d", "20:00-06:00 Asia/Tokyo"), listed(20), DueReason.RECENT, 2.8),
        # It is due in the last window before its age is reached, if one opens.
        (policy("2d", "03:00-04:00"), listed(25), DueReason.RECENT, 15),
        (policy("1h", "03:00-04:00"), listed(9), DueReason.CLOSED, 15),
        (policy(schedule="Mon 06:00"), PastCrawls(), DueReason.DUE, None),
        (policy(schedule="Mon 06:00"), listed(54.1), DueReason.DUE, None),
        (policy(schedule="Mon 06:00"), listed(54), DueReason.RECENT, 114),
        (policy(schedule="Mon-Fri 06:00, 18:30 Asia/Tokyo"), listed(2), DueReason.RECENT, 9),
        (policy("1d", schedule="Mon 06:00"), listed(20), DueReason.RECENT, 2.8),
        (policy("2w", schedule="Mon 06:00"), listed(20), DueReason.RECENT, 114),
        (policy(windows="20:00-21:00", schedule="Wed 06:00"), listed(20), DueReason.CLOSED, 8),
        # What was being uploaded is listed again after an hour.
        (policy(), seen_uploading(0), DueReason.DUE, None),
        (policy("7d"), seen_uploading(0.5), DueReason.RECENT, 0.45),
        (policy("7d"), seen_uploading(1), DueReason.DUE, None),
        (policy("30m"), seen_uploading(0.2), DueReason.RECENT, 0.275),
        (policy(schedule="Mon 06:00"), seen_uploading(1), DueReason.DUE, None),
        (policy("7d", LONDON), seen_uploading(9), DueReason.CLOSED, 8),
        (policy("7d"), PastCrawls(NOW - HOUR, 3, NOW, has_uploads=True), DueReason.FAILING, 1),
        (policy("7d", pause=Pause("move", "ann", NOW)), seen_uploading(1), DueReason.PAUSED, None),
        (policy(), PastCrawls(NOW, 2, NOW), DueReason.DUE, None),
        (policy(), PastCrawls(NOW, 3, NOW), DueReason.FAILING, 1),
        (policy(), PastCrawls(NOW, 6, NOW), DueReason.FAILING, 8),
        (policy(), PastCrawls(NOW, 60, NOW), DueReason.FAILING, 24),
        (policy(), PastCrawls(NOW, 3, NOW - HOUR), DueReason.DUE, None),
        (policy(windows=LONDON), PastCrawls(NOW, 4, NOW), DueReason.FAILING, 8),
        (policy(pause=Pause("move", "ann", NOW)), PastCrawls(), DueReason.PAUSED, None),
        (policy(pause=Pause("move", "ann", NOW, NOW + HOUR)), PastCrawls(), DueReason.PAUSED, 1),
        (policy(pause=Pause("move", "ann", NOW, NOW)), PastCrawls(), DueReason.DUE, None),
    ],
)
def test_why_a_source_is_crawled_or_not_and_until_when(
    given: CrawlPolicy, past: PastCrawls, why: DueReason, hours: float | None
) -> None:
    found = crawl_due(given, past, NOW, failure_limit=3)
    assert (found.why, found.until) == (why, None if hours is None else NOW + hours * HOUR), str(found)
    named = crawl_due(given, past, NOW, failure_limit=3, is_named=True)
    assert named.why == (DueReason.PAUSED if why is DueReason.PAUSED else DueReason.DUE)


@pytest.mark.parametrize(
    ("given", "hours"),
    [(policy(), 24), (policy("2d"), 72), (policy(windows="Sun 00:00-02:00"), 108), (policy(schedule="Thu 12:00"), 48)],
)
def test_a_source_is_overdue_after_its_own_schedule(given: CrawlPolicy, hours: int) -> None:
    """The last one can be listed from Sunday on, 84 hours after NOW."""
    assert overdue_at(given, NOW, 24 * HOUR) == NOW + hours * HOUR


WINDOWS = (
    LONDON,
    "Mon-Fri 18:00-08:00, Sat-Sun 00:00-24:00 Asia/Tokyo",
    "01:00-05:00 America/New_York",
    "Sun 00:00-02:00",
)
SCHEDULES = ("06:00 Europe/London", "Mon 06:00, Thu 18:30 Asia/Tokyo")
AGES = st.sampled_from(["", "8h", "1d", "2d", "1w"])
HOURS_AGO = st.integers(0, 500).map(lambda tenths: NOW - tenths * HOUR / 10)
PAUSES = st.none() | st.integers(-9, 99).map(lambda hours: Pause("a move", "ann", NOW, NOW + hours * HOUR))
POLICIES = st.builds(policy, AGES, st.sampled_from(["", *WINDOWS]), PAUSES) | st.builds(
    policy, AGES, pause=PAUSES, schedule=st.sampled_from(SCHEDULES)
)
PASTS = st.builds(
    PastCrawls, st.none() | HOURS_AGO, st.sampled_from([0, 3, 6]), st.none() | HOURS_AGO, has_uploads=st.booleans()
)


@given(POLICIES, PASTS)
def test_a_source_is_due_when_it_was_said_and_not_before(given: CrawlPolicy, past: PastCrawls) -> None:
    """Also over the next change of clocks in America, four days after NOW."""
    at = NOW
    for _ in DueReason:
        found = crawl_due(given, past, at, failure_limit=3)
        if found.is_due:
            break
        assert found.until is not None
        assert found.until > at
        for before in (at + (found.until - at) / 2, found.until - timedelta(seconds=1)):
            assert not crawl_due(given, past, before, failure_limit=3).is_due
        at = found.until
    assert found.is_due
    assert given.windows is None or given.windows.is_open(at)


@given(AGES.filter(bool), st.sampled_from(["", *WINDOWS]), HOURS_AGO)
def test_no_listing_is_older_than_its_age_when_windows_allow_it(every: str, windows: str, listed_at: datetime) -> None:
    given = policy(every, windows)
    found = crawl_due(given, PastCrawls(listed_at), listed_at, failure_limit=3)
    assert found.until is not None
    latest = listed_at + parse_age(every)
    assert found.until <= (latest if given.windows is None else given.windows.opens(latest))


def test_windows_keep_to_the_clock_of_their_zone() -> None:
    windows = Windows.parse(LONDON)
    assert [windows.opens(datetime(2026, month, 2, 12)).hour for month in (1, 7)] == [20, 19]
    assert windows.is_open(datetime(2026, 7, 2, 4, 59))
    assert not windows.is_open(datetime(2026, 7, 2, 5))
    assert windows.opens(datetime(2026, 7, 2, 5)) == datetime(2026, 7, 2, 19)
    # Where it is the day before still, it began the day before that.
    assert Windows.parse("Mon 23:00-22:00 Etc/GMT+12").is_open(datetime(2026, 3, 4, 9))


@pytest.mark.parametrize("text", ["", "20:00", "20-06", "25:00-26:00", "20:00-06:00 Nowhere/Else", "Xyz 20:00-21:00"])
def test_a_window_that_cannot_be_read_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no window .* Write such as"):
        Windows.parse(text)


@pytest.mark.parametrize("text", ["", "Mon", "06:00-07:00", "25:00", "Mon 06:00 Nowhere/Else", "0 6 * * 1"])
def test_a_schedule_that_cannot_be_read_says_what_to_write(text: str) -> None:
    zone = r" \('No time zone found with key Nowhere/Else'\)" if "Nowhere" in text else ""
    with pytest.raises(ValueError, match=rf"is no schedule{zone}\. Write such as"):
        Schedule.parse(text)


def test_ages_are_shown_as_they_are_written() -> None:
    for text in ("90m", "6h", "5d", "2w"):
        assert shown_age(parse_age(text)) == text
    with pytest.raises(ValueError, match="such as 6h"):
        parse_age("6 hours")
