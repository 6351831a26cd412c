"""Random histories, lived for real and by the model: what differs after any session."""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dcc.databases.transactions import writing
from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from dcc.tracker.register import centres
from tests.histories import submission_histories, wishes
from tests.histories.expected import LOADED, Expected
from tests.histories.happenings import (
    Away,
    Crawled,
    Delegated,
    Happening,
    LeftOut,
    Place,
    Published,
    Removed,
    Retried,
    Uploaded,
    Uploading,
    history,
)
from tests.histories.life import CENTRES, QUIET_SECONDS, Holdings, Life
from tests.histories.model import Model
from tests.histories.records import Standing
from tests.histories.submission_histories import (
    Confirmed,
    Decided,
    Finished,
    Restored,
    Submitted,
    Taken,
    Waived,
    Wish,
    Wished,
    Withdrawn,
)
from tests.histories.submissions import HOLD_ABOVE
from tests.histories.submitting import Centre
from tests.support.databases import MAKERS, MariaDb
from tests.support.prepared_databases import PreparedDatabases, PreparedFile

_AT_ONCE: Final = ("variants", "proposals", "duplicates", "held", "waits", "on_hold", "acknowledged")
"""What of the standing of submissions is settled before the next session."""
_Lived = TypeVar("_Lived", Life, Centre)
Lent = Callable[[], AbstractContextManager[str]]
"""Lends a database that is as it was made: its URL."""


@dataclass
class Outcome:
    """What came of a history: what was done, in words, what differs, and how many sessions and loaded archives."""

    seed: int
    done: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    sessions: int = 0
    states: set[str] = field(default_factory=set)


class Prepared:
    """Databases that every life begins with; lives share what their engines know of statements.

    They are SQLite's, in a folder, or those of a server.
    """

    def __init__(self, folder: Path, server: MariaDb | None = None) -> None:
        self._home = folder / "home"
        self._statements: dict[object, object] = {}
        self._databases = [self._prepared(name, folder / name, server) for name in ("tracker", "qc_with_reference")]

    def _prepared(self, name: str, folder: Path, server: MariaDb | None) -> Lent:
        make = MAKERS[name]
        if server is not None:
            return PreparedDatabases(name, server.url, make, server.connect).lend
        folder.mkdir()
        file = PreparedFile(folder, make)

        @contextmanager
        def copied() -> Iterator[str]:
            file.copy_to(self._home / f"{name}.db")
            yield f"sqlite:///{self._home}/{name}.db"

        return copied

    @contextmanager
    def life(self, kind: type[_Lived]) -> Iterator[_Lived]:
        """A life of some kind, of which nothing is left after it."""
        self._home.mkdir(mode=0o700)
        with ExitStack() as lent:
            lent.callback(shutil.rmtree, self._home)
            settings = _settings(self._home, *(lent.enter_context(lend()) for lend in self._databases))
            life = kind(self._home, settings, open_tracker(settings), open_qc_database(settings))
            for engine in (life.tracker, life.qc):
                lent.callback(engine.dispose)
                engine.update_execution_options(compiled_cache=self._statements)
            life.begin()
            yield life


def _settings(home: Path, tracker_url: str, qc_url: str) -> Settings:
    return Settings(
        home=home,
        tracker_url=tracker_url,
        qc_url=qc_url,
        dagster_events=False,
        quiet_seconds=QUIET_SECONDS,
        retry_delay=0.01,
        max_retries=1,
        min_free_bytes=0,
        hold_threshold=HOLD_ABOVE,
        # In the model no source is left alone, however often it was away.
        source_failure_limit=100,
    )


def live(prepared: Prepared, seed: int) -> Outcome:
    """Live the history of a seed; ends with the first session after which something differs."""
    outcome, expected = Outcome(seed), Expected()
    with prepared.life(Life) as life:
        for happening in history(seed):
            if not _befall(happening, life, expected):
                continue
            outcome.done.append(str(happening))
            if isinstance(happening, Crawled | Retried):
                outcome.sessions += 1
                here, there = life.holdings(), expected.holdings()
                outcome.states |= set(here.states.values())
                outcome.differences = list(_differences(here, there))
                if outcome.differences:
                    break
    return outcome


def submit(prepared: Prepared, seed: int) -> Outcome:
    """Live the history of submissions of a seed; ends with the first happening after which something differs."""
    outcome, model = Outcome(seed), Model()
    with prepared.life(Centre) as centre:
        for happening in submission_histories.history(seed):
            if not _happen(happening, centre, model):
                continue
            outcome.done.append(str(happening))
            is_retry = isinstance(happening, Wished) and happening.wish is Wish.RETRY
            outcome.sessions += is_retry or isinstance(happening, Crawled)
            if isinstance(happening, Submitted | Taken | LeftOut):
                continue
            here = centre.standing()
            outcome.states |= set(here.archives.values())
            # What others are to be judged again by, the next session sees to.
            is_settled = isinstance(happening, Crawled)
            if is_settled:
                model.see_judged_again(here)
            there = model.standing()
            if not model.counts_all:
                here, there = here.without_contexts(), there.without_contexts()
            outcome.differences = list(_differences(here, there, () if is_settled else _AT_ONCE))
            if is_settled:
                outcome.differences += centre.contradictions()
            if outcome.differences:
                break
    return outcome


def _happen(happening: submission_histories.Happening, centre: Centre, model: Model) -> bool:
    """Let it happen, for real and in the model; whether it can."""
    match happening:
        case Submitted(submission):
            centre.submit(submission)
            model.lying[submission.number] = submission, centre.clock
        case Taken(number):
            if number not in model.lying:
                return False
            centre.take_away(number)
            del model.lying[number]
        case Withdrawn(number):
            if number not in model.records:
                return False
            centre.withdraw(model.records[number].submission.key)
            model.withdraw(number)
        case Confirmed(oldest):
            held = sorted(number for number, record in model.records.items() if record.held)
            if not held:
                return False
            submission = model.records[held[0 if oldest else -1]].submission
            centre.confirm(submission.key)
            model.confirm(submission.number)
        case Waived(rule, only_warns):
            centre.waive(rule, only_warns=only_warns)
            model.waivers.append(rule)
        case Restored():
            if not model.waivers:
                return False
            centre.restore()
            model.waivers.pop(0)
        case Finished():
            centre.finish()
            model.contexts.unfinished.clear()
        case Wished(wish, number):
            if number not in model.records or not wishes.fulfil(model, wish, number):
                return False
            centre.fulfil(wish, model.records[number].submission.key)
        case Decided(accepts):
            centre.decide(accepts)
            model.decide(accepts)
        case LeftOut(step):
            centre.leave_out(step)
            model.left_out = step
            model.counts_all &= not step
        case Crawled():
            centre.crawl()
            model.crawl()
    return True


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
        case LeftOut(step):
            life.leave_out(step)
            expected.left_out = step
        case Crawled():
            life.crawl()
            expected.crawl()
        case Retried(archive):
            record = expected.records.get(archive)
            # What would be loaded on top of what was loaded is another story, and so is half of what grows.
            growing = any((place, archive) in expected.growing for place in Place)
            if record is None or record.state == LOADED or record.left_out or growing:
                return False
            life.retry(archive)
            expected.retry(archive)
    return True


def _delegate(life: Life, in_force: bool) -> None:
    owner, other = CENTRES[Place.OWN], CENTRES[Place.MIRROR]
    with writing(life.tracker) as connection:
        given = bool(centres.list_delegations(connection))
        if in_force and not given:
            centres.delegate(connection, owner, other, recorded_by="tester")
        elif given and not in_force:
            centres.revoke_delegation(connection, owner, other, revoked_by="tester")


def _differences(here: Holdings | Standing, there: Holdings | Standing, names: Collection[str] = ()) -> Iterator[str]:
    for name in names or here.__dataclass_fields__:
        held, expected = getattr(here, name), getattr(there, name)
        if isinstance(held, dict):
            keys = [key for key in held.keys() | expected.keys() if held.get(key) != expected.get(key)]
            held, expected = ({key: each[key] for key in keys if key in each} for each in (held, expected))
        if held != expected:
            yield f"{name}: held {held}, expected {expected}"
