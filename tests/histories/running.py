"""Random histories, lived for real and by the model: what differs after any session."""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dcc.qc.database import open_qc_database
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from tests.histories import happenings, submission_histories
from tests.histories.expected import Expected
from tests.histories.happenings import Happening
from tests.histories.life import QUIET_SECONDS, Holdings, Life
from tests.histories.model import Model
from tests.histories.records import Standing
from tests.histories.submission_histories import Wish
from tests.histories.submissions import HOLD_ABOVE
from tests.histories.submitting import Centre
from tests.support.databases import MAKERS, MariaDb
from tests.support.prepared_databases import PreparedDatabases, PreparedFile

_AT_ONCE: Final = ("variants", "proposals", "duplicates", "held", "waits", "on_hold", "acknowledged")
"""What of the standing of submissions is settled before the next session."""
_SESSIONS: Final = ("crawl", "retry")
_UNSEEN: Final = ("submit", "take_away", "leave_out")
"""What changes nothing before the next session."""
_Lived = TypeVar("_Lived", Life, Centre)
Lent = Callable[[], AbstractContextManager[str]]
"""Lends a database that is as it was made: its URL."""


@dataclass
class Outcome:
    """What came of a history: what was done, in words, what differs, and how many sessions and loaded archives."""

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
    outcome, expected = Outcome(), Expected()
    with prepared.life(Life) as life:
        for happening in happenings.history(seed):
            if _happens(happening, expected, life, outcome) and happening[0] in _SESSIONS:
                here = life.holdings()
                outcome.sessions += 1
                outcome.states |= set(here.states.values())
                outcome.differences = list(_differences(here, expected.holdings()))
            if outcome.differences:
                break
    return outcome


def submit(prepared: Prepared, seed: int) -> Outcome:
    """Live the history of submissions of a seed; ends with the first happening after which something differs."""
    outcome, model = Outcome(), Model()
    with prepared.life(Centre) as centre:
        for happening in submission_histories.history(seed):
            if not _happens(happening, model, centre, outcome) or happening[0] in _UNSEEN:
                continue
            # What others are to be judged again by, the next session sees to.
            is_settled = happening[0] == "crawl"
            outcome.sessions += is_settled or Wish.RETRY in happening
            here = centre.standing()
            outcome.states |= set(here.archives.values())
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


def _happens(happening: Happening, model: object, real: object, outcome: Outcome) -> bool:
    """Let it happen, in the model and for real; whether it can."""
    what, *to_what = happening
    if getattr(model, what)(*to_what) is False:
        return False
    getattr(real, what)(*to_what)
    outcome.done.append(" ".join(map(str, happening)))
    return True


def _differences(here: Holdings | Standing, there: Holdings | Standing, names: Collection[str] = ()) -> Iterator[str]:
    for name in names or here.__dataclass_fields__:
        held, expected = getattr(here, name), getattr(there, name)
        if isinstance(held, dict):
            keys = [key for key in held.keys() | expected.keys() if held.get(key) != expected.get(key)]
            held, expected = ({key: each[key] for key in keys if key in each} for each in (held, expected))
        if held != expected:
            yield f"{name}: held {held}, expected {expected}"
