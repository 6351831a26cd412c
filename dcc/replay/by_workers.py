"""What workers prepare for a replay, which does everything itself that no worker did."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from dcc.errors import DccError, StoreRefusedError, StoreUnreachableError
from dcc.replay.batches import take_result, write_bundle, write_plan
from dcc.replay.replayer import OpenedDocument, Replayer
from dcc.replay.stored_archives import ArchiveBytes, StoredArchive
from dcc.runtime.logging_setup import NOTICE
from dcc.session.batches.exchange import Exchange, Workers, new_folder_of_replay, remove_old_replays
from dcc.session.batches.planning import seconds_to_prepare, together
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind
from dcc.store.copies import named_replicas
from dcc.store.objects import ObjectStore
from dcc.store.staging import Staging

log = logging.getLogger(__name__)

_BUNDLE: Final = "bundle"

Part = list[StoredArchive]


class ReplayWorkerResults(Exchange):
    """The results of workers for the `parts` of a replay. Threads may share it."""

    def __init__(self, settings: Settings, replayer: Replayer, parts: Sequence[Part]) -> None:
        super().__init__(ObjectStore(settings), new_folder_of_replay(), replayer.root / "exchange")
        self._settings, self._replayer, self._parts = settings, replayer, parts
        self._keys: dict[int, str] = {}

    @property
    def archives(self) -> int:
        """The number of archives that workers have prepared."""
        return sum(len(self._parts[number]) for number in self._keys)

    def look(self) -> int:
        """Look for results; returns the number of archives."""
        self._keys = {int(name): key for name, key in self.results().items()}
        return self.archives

    def put_bundle(self) -> str:
        """Store what workers go by; returns its key."""
        self.scratch.mkdir()
        write_bundle(self.scratch / _BUNDLE, self._replayer)
        return self.store.put(f"{self.folder}/{_BUNDLE}", self.scratch / _BUNDLE)

    def put_batches(self) -> list[str]:
        """Store the batches for workers; returns their names."""
        names = []
        numbered = together(enumerate(self._parts), lambda one: _seconds(one[1]), lambda one: _size(one[1]))
        with closing(ArchiveBytes(self._settings, self.scratch / "archives")) as stored:
            for number, batch in enumerate(numbered, 1):
                names.append(f"batch_{number}")
                archives = [archive for _, part in batch for archive in part]
                write_plan(self.scratch / "plan", dict(batch), self._to_send(archives, stored))
                self.put_plan(names[-1], self.scratch / "plan")
        return names

    def _to_send(self, archives: Sequence[StoredArchive], stored: ArchiveBytes) -> Iterator[tuple[StoredArchive, Path]]:
        """Those of the archives that workers cannot have from elsewhere, as they are here."""
        if self._settings.executor is ExecutorKind.MULTIPROCESS:
            return
        staging = Staging(self._settings.staging_directory)
        is_shared = any("://" in url for url, _ in named_replicas(self._settings))
        for archive in archives:
            if is_shared and archive.sha256 is not None and not staging.has_manifest(archive.key):
                continue
            if (path := stored.fetch(archive)) is not None:
                yield archive, path
                stored.release(archive)

    def take(self, number: int) -> list[list[OpenedDocument]] | None:
        """The documents of a part's archives; None if this process has to prepare them."""
        if number not in self._keys:
            return None
        result = self.scratch / f"{number}.tar"
        try:
            self.store.get(self._keys[number], result)
            opened = take_result(result, self._replayer.root)
            result.unlink()
        except (DccError, OSError, ValueError) as error:
            log.warning("What a worker left for the replay cannot be read, and is made again: %s", error)
            return None
        return opened if len(opened) == len(self._parts[number]) else None


@contextmanager
def prepared_by_workers(
    workers: Workers | None,
    settings: Settings,
    replayer: Replayer,
    parts: Sequence[Part],
    on_progress: Callable[[int], object],
) -> Iterator[ReplayWorkerResults | None]:
    """The results of workers, if there are any, for the parts of a replay; they are removed after the block.

    `on_progress` is called with the number of archives that are there. What workers leave to this process, it notices.
    """
    if workers is None or not parts:
        yield None
        return
    results = ReplayWorkerResults(settings, replayer, parts)
    try:
        try:
            remove_old_replays(results.store)
            bundle = results.put_bundle()
            workers.run(bundle, results.put_batches(), lambda: on_progress(results.look()), results)
            results.withdraw_plans()
            results.look()
        except (StoreUnreachableError, StoreRefusedError) as error:
            log.warning("Workers cannot be used: %s", error, extra={NOTICE: True})
        of = sum(map(len, parts))
        if results.archives < of:
            text = "Workers prepared %d of %d archives. This machine prepares the others."
            log.warning(text, results.archives, of, extra={NOTICE: True})
        yield results
    finally:
        try:
            results.remove()
        except DccError as error:
            log.warning("What workers left for the replay stays in the store for a day: %s", error)


def parts_of(archives: Sequence[StoredArchive], limit: int) -> Iterator[Part]:
    """Archives in their order, at `limit` so many together, and not more than half a minute's work."""
    return together(archives, lambda one: _seconds([one]), lambda one: _size([one]), limit)


def _seconds(part: Part) -> float:
    return sum(seconds_to_prepare(archive.size_bytes) for archive in part)


def _size(part: Part) -> int:
    return sum(archive.size_bytes or 0 for archive in part)
