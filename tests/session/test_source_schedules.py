"""A month of hundreds of sources with schedules of their own, by a simulated clock."""

import math
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from dcc.sources.crawl_policy import CrawlPolicy, DueReason, PastCrawls, Pause, Schedule, Windows, crawl_due
from dcc_sensors.sessions import DUE_SECONDS
from tests.support.trials import EVERYWHERE

BEGIN = datetime(2026, 3, 1)  # with the change of clocks in Europe at its end
END = BEGIN + timedelta(days=31)
SOURCES = 1_000 if EVERYWHERE else 150
LIMIT = 3
WINDOWS = (
    "20:00-06:00 Europe/London",
    "Mon-Fri 18:00-08:00, Sat-Sun 00:00-24:00 Asia/Tokyo",
    "01:00-05:00 America/New_York",
)


SCHEDULES = ("06:00 Europe/London", "Mon 06:00, Thu 18:30 Asia/Tokyo")


@dataclass
class Site:
    """A source, which cannot be reached between the times of `away`."""

    number: int
    policy: CrawlPolicy
    away: tuple[datetime, datetime]
    past: PastCrawls = field(default_factory=PastCrawls)
    begun: list[datetime] = field(default_factory=list)
    tried: list[datetime] = field(default_factory=list)


def sites(chance: random.Random) -> list[Site]:
    found = []
    for number in range(SOURCES):
        every = timedelta(hours=chance.choice((8, 12, 24, 48, 168)))
        windows = Windows.parse(chance.choice(WINDOWS)) if number % 3 == 0 else None
        since = BEGIN + chance.random() * timedelta(days=25)
        pause = Pause("a move", "ann", BEGIN, since) if number % 50 == 7 else None
        away = (since, since + timedelta(days=2)) if number % 20 == 1 else (END, END)
        schedule = Schedule.parse(chance.choice(SCHEDULES)) if number % 10 == 4 else None
        policy = CrawlPolicy(every, windows, pause) if schedule is None else CrawlPolicy(pause=pause, schedule=schedule)
        found.append(Site(number, policy, away))
    return found


def crawl(site: Site, begin: datetime, end: datetime) -> None:
    """List a source, which takes so long."""
    site.tried.append(begin)
    if site.away[0] <= begin < site.away[1]:
        site.past = PastCrawls(site.past.listed, site.past.failures + 1, end)
    else:
        site.past = PastCrawls(listed=begin)
        site.begun.append(begin)


@pytest.mark.parametrize("between", [DUE_SECONDS, 3600], ids=["the sensor", "an hourly schedule"])
def test_a_month_of_many_sources_keeps_their_ages_and_windows(between: int) -> None:
    chance = random.Random(29)
    all_sites = sites(chance)
    not_before = dict.fromkeys(range(len(all_sites)), BEGIN)
    waits: set[DueReason] = set()
    at = 0.0
    while (now := BEGIN + timedelta(seconds=at)) < END:
        # A source is not due before the time that `crawl_due` says. A few are asked: at each look, or each ten minutes.
        few = 2 if EVERYWHERE or chance.random() < between / 600 else 0
        asked = [site for site in all_sites if not_before[site.number] <= now]
        assert not any(
            crawl_due(site.policy, site.past, now, LIMIT).is_due
            for site in chance.sample(all_sites, few)
            if site not in asked
        )
        ready = []
        for site in asked:
            found = crawl_due(site.policy, site.past, now, LIMIT)
            waits.add(found.why)
            if found.is_due:
                ready.append(site)
            else:
                assert found.until is not None
                not_before[site.number] = found.until
        # As long as a session with slow servers takes.
        ended = at
        for site in ready:
            begin = at + chance.uniform(0, 300)
            end = begin + chance.uniform(1, 60)
            crawl(site, BEGIN + timedelta(seconds=begin), BEGIN + timedelta(seconds=end))
            ended = max(ended, end)
        # The next look after the session.
        at = max(at + between, math.ceil(ended / between) * between)
    assert waits == set(DueReason) - {DueReason.INACTIVE}
    for site in all_sites:
        assert site.begun, site
        check(site, timedelta(seconds=between))


def check(site: Site, between: timedelta) -> None:
    """It was listed as its age, schedule and windows say; seldom while it was away, never in a pause.

    Between two looks nothing is listed, so that it may be late by that, or miss its window; the sensor looks often
    enough for all ages.
    """
    slack = timedelta(minutes=15) + between  # one session, and the look after it
    late = timedelta() if between <= timedelta(minutes=1) else slack
    every = site.policy.every or timedelta()
    for begin, following in zip(site.begun, [*site.begun[1:], END], strict=True):
        latest = begin + every + late if site.policy.schedule is None else site.policy.schedule.after(begin) + slack
        if site.policy.windows is not None:
            ready = begin + 0.95 * every
            latest = max(latest, *map(site.policy.windows.opens, (ready, ready + late))) + slack
        if not (begin <= site.away[1] and following >= site.away[0]):
            assert following <= latest or following == END, (site, begin, following)
        if site.policy.windows is not None:
            assert any(a <= begin < b + slack for a, b in site.policy.windows.around(begin, begin))
    assert len([at for at in site.tried if site.away[0] <= at < site.away[1]]) <= 9 + LIMIT
    assert site.begun[-1] >= END - every - timedelta(days=4)
    pause = site.policy.pause
    assert pause is None or pause.until is None or site.tried[0] >= pause.until
