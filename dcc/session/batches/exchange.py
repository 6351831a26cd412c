"""The folder of the object store that workers share with the process that gave them batches: a session or a replay.

A batch is given as a plan, by its name. A worker looks for its plan before it leaves a result: without it nobody waits.
"""

from __future__ import annotations

import logging
import shutil
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final, Protocol, TypeVar

from dcc.errors import DccError, NotFoundError, StoreUnreachableError
from dcc.runtime.private_files import scratch_directory
from dcc.settings import Settings
from dcc.store.objects import ObjectStore

log = logging.getLogger(__name__)
T = TypeVar("T")

LEFT_SINCE: Final = timedelta(days=1)
"""Age at which leftovers of killed processes are removed from the store; a batch takes half a minute."""

WORKER_SCRATCH: Final = ".batches"
"""The folder of staging in which workers of this machine have their scratch directories."""

SESSION_SCRATCH: Final = ".workers-"
"""The name, without the session's id, of the folder of staging for what workers left for a session."""

SESSIONS, REPLAYS = "sessions", "replays"
"""The folders of the store with a folder for each session, and for each replay, and its workers."""
_PLANS, _RESULTS = "plans", "results"


def is_replay(work: str) -> bool:
    """Whether batches are of a replay, and not of a session; see `Exchange`."""
    return work.startswith(f"{REPLAYS}/")


class Workers(Protocol):
    """Runs workers that prepare batches."""

    def run(self, results: Exchange, names: Sequence[str], check: Callable[[], object]) -> None:
        """Have batches prepared, by their names in the store; returns when nothing more comes to the `results`.

        `check` is called now and then, and raises if the work must stop.
        """
        ...


class Exchange(ABC):
    """The side of the process that gives batches. All methods raise as the store.

    `work` is all that workers get: the folder of a session, or the key of what a replay goes by. `OF` is the work in
    messages, and `LEFT_UNTIL` when leftovers in the store are removed.
    """

    OF: ClassVar[str]
    LEFT_UNTIL: ClassVar[str]

    def __init__(self, store: ObjectStore, folder: str, scratch: Path) -> None:
        self.store, self.folder, self.scratch = store, folder, scratch
        self.work = folder
        self._is_away = False

    def put_plan(self, name: str, path: Path) -> None:
        """Store the plan of a batch for its worker."""
        self.store.put(_plan(self.folder, name), path)

    def withdraw_plans(self) -> None:
        """Remove the plans of batches: a worker that still works on one stops."""
        delete_below(self.store, f"{self.folder}/{_PLANS}/")

    def have_prepared(self, workers: Workers, names: Sequence[str], check: Callable[[], object]) -> int:
        """Have `workers` prepare batches; returns the number of archives that are there then."""
        workers.run(self, names, check)
        # What is there counts, even if the store is away as plans are withdrawn.
        self.look()
        self.withdraw_plans()
        return self.look()

    def results(self) -> dict[str, str]:
        """The keys of the results that are there, by their names."""
        place = f"{self.folder}/{_RESULTS}/"
        return {key.removeprefix(place).rpartition(".")[0]: key for key in self.store.keys(place)}

    def opened(self, key: str, bundle: Path, open_bundle: Callable[[Path], T], *, what: object) -> T | None:
        """A result, got as the file `bundle` and opened; None for what cannot be read, which is logged as `what`.

        A store that stays away is asked no more: each result would wait for it.
        """
        if self._is_away:
            return None
        try:
            bundle.parent.mkdir(parents=True, exist_ok=True)
            self.store.get(key, bundle)
            found = open_bundle(bundle)
            bundle.unlink()
        except (DccError, OSError, ValueError) as error:
            log.warning("What a worker left of %s cannot be read, and is made again: %s", what, error)
            self._is_away |= isinstance(error, StoreUnreachableError)
            return None
        return found

    @abstractmethod
    def look(self) -> int:
        """Look for results; returns the number of archives."""

    def remove(self) -> None:
        """Remove all of it; what the store refuses to remove stays there for a while."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        try:
            delete_below(self.store, f"{self.folder}/")
        except DccError as error:
            log.warning("What workers left for %s stays in the store %s: %s", self.OF, self.LEFT_UNTIL, error)


class WorkerBatch:
    """The side of a worker: a batch, whose plan is the file `plan` in a folder of its own, `scratch`."""

    def __init__(self, store: ObjectStore, folder: str, name: str, scratch: Path) -> None:
        self.store, self.scratch, self.plan = store, scratch, scratch / "plan"
        self._folder, self._name = folder, name
        found = store.keys(f"{_plan(folder, name)}.")
        if not found:
            raise NotFoundError(f"The store {store.url} has no batch {name}: nobody waits for it any more.")
        self._key = found[0]
        store.get(self._key, self.plan)

    @property
    def is_waited_for(self) -> bool:
        """Whether results are still wanted."""
        return self.store.exists(self._key)

    def leave(self, name: str, path: Path) -> bool:
        """Leave a result, if it is still wanted; returns whether it is."""
        if not self.is_waited_for:
            log.info("Nobody waits for %s of %s any more", self._name, self._folder)
            return False
        self.store.put(f"{self._folder}/{_RESULTS}/{name}", path)
        return True


@contextmanager
def taken_batch(settings: Settings, folder: str, name: str) -> Iterator[WorkerBatch]:
    """A batch, by its name in the folder of a session or replay. Raises NotFoundError if it was withdrawn."""
    with scratch_directory(settings.staging_directory / WORKER_SCRATCH) as scratch:
        yield WorkerBatch(ObjectStore(settings), folder, name, scratch)


def unpack(bundle: Path, folder: Path) -> None:
    """Unpack the files of a bundle into a folder. Raises OSError, and ValueError for what is none."""
    try:
        with tarfile.open(bundle) as tar:
            for member in tar:
                if member.isfile():
                    _unpack_file(tar, member, folder)
    except tarfile.TarError as error:
        raise ValueError(f"{bundle.name} is no bundle: {error}") from error


def _unpack_file(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Unpack one file; the filters of `tar.extract` are not in the Python 3.11.2 of Debian 12."""
    path = folder / member.name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"The bundle holds {member.name!r}, which leads outside.")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None  # noqa: S101 - for the type checker: it is a file
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def delete_below(store: ObjectStore, prefix: str) -> None:
    """Delete all objects with a prefix. Raises as the store."""
    for key in store.keys(prefix):
        store.delete(key)


def remove_old_replays(store: ObjectStore) -> None:
    """Delete what killed replays left more than a day ago. Raises as the store."""
    before = f"{(datetime.now(UTC) - LEFT_SINCE).date()}"
    for key in store.keys(f"{REPLAYS}/"):
        if key.removeprefix(f"{REPLAYS}/") < before:
            store.delete(key)


def _plan(folder: str, name: str) -> str:
    return f"{folder}/{_PLANS}/{name}"
