"""Random histories, lived for real and by the model: what differs after any session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dcc.qc.database import init_qc_database, open_qc_database
from dcc.qc.database import writing as writing_qc
from dcc.qc.reference import snapshots
from dcc.reference.loading import load_shipped
from dcc.settings import Settings
from dcc.tracker.database import init_tracker, open_tracker, writing
from dcc.tracker.register import delegations
from tests.histories.expected import LOADED, Expected
from tests.histories.happenings import (
    Away,
    Crawled,
    Delegated,
    Happening,
    Place,
    Published,
    Removed,
    Retried,
    Uploaded,
    Uploading,
    history,
)
from tests.histories.life import CENTRES, QUIET_SECONDS, Holdings, Life


@dataclass
class Outcome:
    """What came of a history: what was done, in words, what differs, and how many sessions and loaded archives."""

    seed: int
    done: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    sessions: int = 0
    states: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Prepared:
    """Databases that every life begins with, in a folder."""

    folder: Path

    def settings(self, home: Path) -> Settings:
        """The settings of an installation in `home`."""
        return Settings(
            home=home,
            tracker_url=f"sqlite:///{home}/tracker.db",
            qc_url=f"sqlite:///{home}/qc.db",
            dagster_events=False,
            quiet_seconds=QUIET_SECONDS,
            retry_delay=0.01,
            max_retries=1,
            min_free_bytes=0,
        )

    def make(self) -> None:
        """Make them."""
        settings = self.settings(self.folder)
        tracker, qc = open_tracker(settings), open_qc_database(settings)
        init_tracker(tracker)
        init_qc_database(qc)
        with writing_qc(qc) as connection:
            for snapshot in load_shipped():
                snapshots.save(connection, snapshot)
        tracker.dispose()
        qc.dispose()

    @contextmanager
    def life(self, home: Path) -> Iterator[Life]:
        """A life in `home`, which is removed after it."""
        home.mkdir(mode=0o700)
        for name in ("tracker.db", "qc.db"):
            shutil.copy(self.folder / name, home / name)
        settings = self.settings(home)
        life = Life(home, settings, open_tracker(settings), open_qc_database(settings))
        try:
            life.begin()
            yield life
        finally:
            life.tracker.dispose()
            life.qc.dispose()
            shutil.rmtree(home)


def live(prepared: Prepared, home: Path, seed: int) -> Outcome:
    """Live the history of a seed; ends with the first session after which something differs."""
    outcome, expected = Outcome(seed), Expected()
    with prepared.life(home) as life:
        for happening in history(seed):
            if not _befall(happening, life, expected):
                continue
            outcome.done.append(_told(happening))
            if isinstance(happening, Crawled | Retried):
                outcome.sessions += 1
                here, there = life.holdings(), expected.holdings()
                outcome.states |= set(here.states.values())
                outcome.differences = list(_differences(here, there))
                if outcome.differences:
                    break
    return outcome


def _befall(happening: Happening, life: Life, expected: Expected) -> bool:
    """Let it happen, for real and in the model; whether it can."""
    match happening:
        case Uploaded(place, copy):
            if (place, copy.archive) in expected.growing:
                return False
            life.upload(place, copy)
            expected.lying[place, copy.archive] = copy, life.clock
        case Uploading(place, copy):
            if (place, copy.archive) in expected.growing:
                return False
            life.begin_upload(place, copy)
            expected.growing[place, copy.archive] = copy, life.clock
        case Removed(place, archive):
            if (place, archive) in expected.growing:
                return False
            life.remove(place, archive)
            expected.lying.pop((place, archive), None)
            expected.checksums.pop((place, archive), None)
        case Published(place, archive, copy):
            if (place, archive) not in expected.lying:
                return False
            life.publish(place, archive, copy)
            if copy is None:
                expected.checksums.pop((place, archive), None)
            else:
                expected.checksums[place, archive] = copy
        case Away(place):
            life.go_away(place)
            expected.away.add(place)
        case Delegated(in_force):
            _delegate(life, in_force)
            expected.delegated = in_force
        case Crawled():
            life.crawl()
            expected.crawl()
        case Retried(archive):
            record = expected.records.get(archive)
            # What would be loaded on top of what was loaded is another story, and so is half of what grows.
            growing = any((place, archive) in expected.growing for place in Place)
            if record is None or record.state == LOADED or growing:
                return False
            life.retry(archive)
            expected.retry(archive)
    return True


def _delegate(life: Life, in_force: bool) -> None:
    owner, other = CENTRES[Place.OWN], CENTRES[Place.MIRROR]
    with writing(life.tracker) as connection:
        given = bool(delegations.list_delegations(connection))
        if in_force and not given:
            delegations.delegate(connection, owner, other, recorded_by="tester")
        elif given and not in_force:
            delegations.revoke(connection, owner, other, revoked_by="tester")


def _differences(here: Holdings, there: Holdings) -> Iterator[str]:
    for name in Holdings.__dataclass_fields__:
        held, expected = getattr(here, name), getattr(there, name)
        if held != expected:
            yield f"{name}: held {held}, expected {expected}"


def _told(happening: Happening) -> str:
    match happening:
        case Uploaded(place, copy):
            return f"uploaded to {place}: {copy}"
        case Uploading(place, copy):
            return f"being uploaded to {place}: {copy}"
        case Removed(place, archive):
            return f"removed from {place}: {archive}"
        case Published(place, archive, copy):
            return f"checksum beside {archive} at {place}: {'none' if copy is None else copy}"
        case Away(place):
            return f"away in the next session: {place}"
        case Delegated(in_force):
            return "delegated" if in_force else "delegation revoked"
        case Crawled():
            return "SESSION"
        case Retried(archive):
            return f"RETRY of {archive}"
