"""A month of hundreds of sources with schedules of their own, on servers with limits, by a simulated clock."""

import heapq
import math
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from dcc.session.connection_slots import QueuedProcess, rows_with_slots
from dcc.sources import request_turns
from dcc.sources.crawl_policy import CrawlPolicy, DueReason, PastCrawls, Pause, Schedule, Windows, crawl_due
from dcc.sources.request_turns import Turns
from dcc_sensors.sessions import DUE_SECONDS
from tests.support.trials import EVERYWHERE

BEGIN = datetime(2026, 3, 1)  # with the change of clocks in Europe at its end
END = BEGIN + timedelta(days=31)
REQUESTS = 4  # the login, and the three directories
SOURCES, HOSTS = (1_000, 120) if EVERYWHERE else (150, 18)
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
    server: str
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
        found.append(Site(number, policy, f"server{number % HOSTS}", away))
    return found


@dataclass
class Clock:
    """The time that requests wait by, in seconds since the beginning; to sleep is to remember for how long."""

    now: float = 0.0
    slept: float = 0.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept = seconds


@dataclass
class Host:
    """A server with limits; `open` are its connections now, `most` the most so far, `sent` the times of requests."""

    connections: int
    per_second: float
    turns: Turns
    open: int = 0
    most: int = 0
    sent: list[float] = field(default_factory=list)


class Crawler:
    """Crawls sources as sessions do: each in its place in the line, each request in its turn."""

    def __init__(self, chance: random.Random, clock: Clock, hosts: dict[str, Host]) -> None:
        self.chance, self.clock, self.hosts = chance, clock, hosts

    def crawl(self, due_now: list[Site], now: float) -> float:
        """A session from a time on; returns when it ends."""
        line = {site.number: (site, QueuedProcess(site.number, site.number, site.server, 4)) for site in due_now}
        steps: list[tuple[float, int, int]] = []
        started: set[int] = set()
        while line:
            having = rows_with_slots((one for _, one in line.values()), lambda name: self.hosts[name].connections)
            assert started <= having
            for number in sorted(having - started):
                self._connect(line[number][0], now)
                heapq.heappush(steps, (now, number, REQUESTS))
            started |= having
            now, number, left = heapq.heappop(steps)
            while left:
                heapq.heappush(steps, (self._request(line[number][0].server, now), number, left - 1))
                now, number, left = heapq.heappop(steps)
            started.discard(number)
            self._end(line.pop(number)[0], now)
        return now

    def _connect(self, site: Site, now: float) -> None:
        host = self.hosts[site.server]
        host.open += 1
        host.most = max(host.most, host.open)
        site.tried.append(BEGIN + timedelta(seconds=now))

    def _request(self, server: str, now: float) -> float:
        """Send a request when it is its turn; returns when it is answered."""
        host, self.clock.now = self.hosts[server], now
        host.turns.await_turn()
        sent = now + self.clock.slept
        host.sent.append(sent)
        return sent + self.chance.uniform(0.1, 12)

    def _end(self, site: Site, now: float) -> None:
        self.hosts[site.server].open -= 1
        begin = site.tried[-1]
        if site.away[0] <= begin < site.away[1]:
            site.past = PastCrawls(site.past.listed, site.past.failures + 1, BEGIN + timedelta(seconds=now))
        else:
            site.past = PastCrawls(listed=begin)
            site.begun.append(begin)


@pytest.mark.parametrize("between", [DUE_SECONDS, 3600], ids=["the sensor", "an hourly schedule"])
def test_a_month_of_many_sources_keeps_their_ages_and_windows_and_the_limits_of_servers(
    between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, clock = random.Random(29), Clock()
    monkeypatch.setattr(request_turns, "time", clock)
    all_sites = sites(chance)
    rates = [(1 + number % LIMIT, (0.5, 1.0, 3.0)[number % 3]) for number in range(HOSTS)]
    hosts = {f"server{number}": Host(*rate, Turns(f"server{number}", rate[1])) for number, rate in enumerate(rates)}
    crawler = Crawler(chance, clock, hosts)
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
        ended = crawler.crawl(ready, at)
        # The next look after the session.
        at = max(at + between, math.ceil(ended / between) * between)
    assert waits == set(DueReason) - {DueReason.INACTIVE, DueReason.MAINTENANCE}
    for host in hosts.values():
        assert 0 < host.most <= host.connections
        assert all(b - a >= 1 / host.per_second - 1e-3 for a, b in pairwise(sorted(host.sent)))
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
