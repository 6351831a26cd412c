"""A month of 1,000 sources with schedules of their own, on servers with limits, by a simulated clock."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dcc.session.connection_places import InLine, having_places
from dcc.sources.due import Pace, PastCrawls, Pause, Schedule, Why, Windows, due

BEGIN = datetime(2026, 3, 1)  # with the change of clocks in Europe at its end
END = BEGIN + timedelta(days=31)
TICK = timedelta(minutes=1)
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
    pace: Pace
    server: str
    away: tuple[datetime, datetime]
    past: PastCrawls = field(default_factory=PastCrawls)
    begun: list[datetime] = field(default_factory=list)
    tried: list[datetime] = field(default_factory=list)


def sites(chance: random.Random) -> list[Site]:
    found = []
    for number in range(1_000):
        every = timedelta(hours=chance.choice((8, 12, 24, 48, 168)))
        windows = Windows.parse(chance.choice(WINDOWS)) if number % 3 == 0 else None
        since = BEGIN + chance.random() * timedelta(days=25)
        pause = Pause("a move", "ann", BEGIN, since) if number % 50 == 7 else None
        away = (since, since + timedelta(days=2)) if number % 20 == 1 else (END, END)
        schedule = Schedule.parse(chance.choice(SCHEDULES)) if number % 10 == 4 else None
        pace = Pace(every, windows, pause) if schedule is None else Pace(pause=pause, schedule=schedule)
        found.append(Site(number, pace, f"server{number % 120}", away))
    return found


def crawl(due_now: list[Site], now: datetime, chance: random.Random, most: Counter[str]) -> datetime:
    """Crawl sources as a session does, each in its place in the line; returns when it ends."""
    line = {site.number: (site, InLine(site.number, site.number, site.server, 4)) for site in due_now}
    running: list[tuple[datetime, int]] = []
    started: set[int] = set()
    while line:
        having = having_places([one for _, one in line.values()], lambda server: 1 + int(server[6:]) % LIMIT)
        assert started <= having
        busy = Counter(line[number][0].server for number in having)
        for server, count in busy.items():
            most[server] = max(most[server], count)
        for number in having - started:
            line[number][0].tried.append(now)
            heapq.heappush(running, (now + timedelta(seconds=chance.uniform(5, 60)), number))
        started |= having
        ended, number = heapq.heappop(running)
        site, _ = line.pop(number)
        started.discard(number)
        begin, now = site.tried[-1], max(now, ended)
        if site.away[0] <= begin < site.away[1]:
            site.past = PastCrawls(site.past.listed, site.past.failures + 1, ended)
        else:
            site.past = PastCrawls(listed=begin)
            site.begun.append(begin)
    return now


def test_a_month_of_a_thousand_sources_keeps_their_ages_and_windows_and_the_limits_of_servers() -> None:
    chance = random.Random(29)
    all_sites = sites(chance)
    most: Counter[str] = Counter()
    looks = [(BEGIN, site.number) for site in all_sites]
    now = BEGIN
    waits: dict[Why, int] = defaultdict(int)
    while looks and now < END:
        now = max(now, looks[0][0])
        ready = []
        while looks and looks[0][0] <= now:
            site = all_sites[heapq.heappop(looks)[1]]
            found = due(site.pace, site.past, now, LIMIT)
            waits[found.why] += 1
            if found.is_due:
                ready.append(site)
            else:
                assert found.until is not None
                assert found.until > now
                heapq.heappush(looks, (found.until, site.number))
        now = crawl(ready, now, chance, most) + TICK
        for site in ready:
            heapq.heappush(looks, (now, site.number))
    assert set(waits) == set(Why)
    assert all(count <= 1 + int(server[6:]) % LIMIT for server, count in most.items())
    for site in all_sites:
        assert site.begun, site
        check(site)


def check(site: Site) -> None:
    """It was listed as its age, schedule and windows say; seldom while it was away, never in a pause."""
    slack = timedelta(minutes=15)  # one session, and the tick before the next
    every = site.pace.every or timedelta()
    for begin, following in zip(site.begun, [*site.begun[1:], END], strict=True):
        latest = begin + every if site.pace.schedule is None else site.pace.schedule.after(begin) + slack
        if site.pace.windows is not None:
            latest = max(latest, site.pace.windows.opens(begin + 0.95 * every)) + slack
        if not (begin <= site.away[1] and following >= site.away[0]):
            assert following <= latest or following == END, (site, begin, following)
        if site.pace.windows is not None:
            assert any(a <= begin < b + slack for a, b in site.pace.windows.around(begin, begin))
    assert len([at for at in site.tried if site.away[0] <= at < site.away[1]]) <= 9 + LIMIT
    assert site.begun[-1] >= END - every - timedelta(days=4)
    pause = site.pace.pause
    assert pause is None or pause.until is None or site.tried[0] >= pause.until
