"""What workers left in the object store, as the session takes it: in the place of each archive's file source."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from dcc.errors import DccError
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.runtime.log_context import progress_log
from dcc.session.batches.bundles import ARCHIVE, Found, open_bundle
from dcc.session.batches.planning import Batch, plan_round
from dcc.session.batches.worker import PLANS, RESULTS, folder_of
from dcc.session.prepare.archive_checks import Ready
from dcc.sources.base import ActionListing, Block, BlockwiseConnection
from dcc.sources.hosting import Hosting
from dcc.store.objects import ObjectStore
from dcc.tracker.hostings.download_plan import PlannedZip

log = logging.getLogger(__name__)
progress = progress_log(__name__)

_BLOCK = 256 * 1024


class Workers(Protocol):
    """Whoever has batches prepared by workers."""

    def run(self, session_id: int, names: Sequence[str], check: Callable[[], object], results: FromWorkers) -> None:
        """Have batches prepared, by their names in the store; ends when nothing more comes to the `results`.

        `check` is asked now and then, and raises where the session is to stop.
        """
        ...


class WorkerConnection(BlockwiseConnection):
    """Stands for the connection to a file source whose archive a worker has fetched; see `Connection`."""

    def __init__(self, folder: Path, found: Found) -> None:
        self._label, self._archive, self._found = "a worker", folder / ARCHIVE, found

    def list_action(self, action: Action) -> ActionListing:
        """Nothing is listed there."""
        raise NotImplementedError

    def read_md5(self, action: Action, name: str) -> str | None:  # noqa: ARG002 - it is of one archive
        """The checksum that lay beside the archive; see `Connection.read_md5`."""
        return self._found.published

    def close(self) -> None:
        """There is nothing to close."""

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:  # noqa: ARG002
        with self._archive.open("rb") as file:
            file.seek(offset)
            while block := file.read(_BLOCK):
                yield block


class FromWorkers:
    """What workers left for a session; a context manager that removes it, and where it was unpacked. For threads."""

    def __init__(self, store: ObjectStore, session_id: int, scratch: Path) -> None:
        self._store, self._folder, self._scratch = store, folder_of(session_id), scratch
        self._keys: dict[ZipKey, str] = {}
        self._taken: dict[ZipKey, tuple[Path, Found] | None] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> FromWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        try:
            for key in self._store.keys(f"{self._folder}/"):
                self._store.delete(key)
        except DccError as error:
            log.warning("What workers left for the session stays in the store: %s", error)

    def put_plan(self, name: str, batch: Batch) -> None:
        """Put a batch where its worker finds it."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        path = self._scratch / "batch.json"
        path.write_text(batch.to_json(), "utf-8")
        self._store.put(f"{self._folder}/{PLANS}/{name}", path)

    def look(self) -> int:
        """Look what there is by now; how many archives."""
        for action in Action:
            place = f"{self._folder}/{RESULTS}/{action}/"
            for key in self._store.keys(place):
                name = key.removeprefix(place).rpartition(".")[0]
                self._keys[ZipKey(action, name)] = key
        return len(self._keys)

    def has(self, key: ZipKey) -> bool:
        """Whether something was left of an archive."""
        return key in self._keys

    def connection(self, key: ZipKey, hosting: Hosting) -> WorkerConnection | None:
        """What serves in the place of a connection, if a worker fetched this copy of an archive."""
        taken = self._take(key)
        return None if taken is None or not taken[1].is_of(hosting) else WorkerConnection(*taken)

    def ready(self, key: ZipKey) -> Ready | None:
        """What a worker found in an archive, and where the files are that it prepared."""
        with self._lock:
            taken = self._taken.get(key)
        if taken is None or taken[1].problems is None:
            return None
        return Ready(taken[1].md5, taken[1].problems, taken[0])

    def _take(self, key: ZipKey) -> tuple[Path, Found] | None:
        """Get what was left of an archive, once; what cannot be had is done by the session itself."""
        with self._lock:
            if key in self._taken or key not in self._keys:
                return self._taken.get(key)
        taken = None
        folder = self._scratch / key.action / key.file_name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._store.get(self._keys[key], folder / "bundle")
            taken = folder, open_bundle(folder / "bundle", folder)
            (folder / "bundle").unlink()
        except (DccError, OSError, ValueError) as error:
            log.warning("What a worker left of %s cannot be had, and is made anew: %s", key, error)
        with self._lock:
            self._taken[key] = taken
        return taken


def have_prepared(
    workers: Workers,
    results: FromWorkers,
    session_id: int,
    planned: Iterable[PlannedZip],
    rates: Mapping[int, float],
    connections: int,
    check: Callable[[], object],
) -> None:
    """Have workers fetch and prepare what is planned, in rounds, as long as a round brings something.

    In a round each file source has no more than so many `connections`. What no worker did is left to the session.
    """
    waiting = list(planned)
    number, before = 0, 0
    while waiting:
        batches = plan_round(waiting, rates, connections)
        if not batches:
            return
        names = []
        for batch in batches:
            number += 1
            names.append(f"batch_{number}")
            results.put_plan(names[-1], batch)
        workers.run(session_id, names, check, results)
        there = results.look()
        progress.info("Workers have prepared %d archives in %d batches", there, number)
        if there == before:
            return
        before = there
        tried = {one.key for batch in batches for one in batch.archives}
        waiting = [one for one in waiting if one.key not in tried]
