"""What workers prepare for a replay, which does everything itself that no worker did.

The replay leaves in the store what to go by in one file: a `Replayer`, schemas, and the file or folder of proposed
rules. The run names its key, which has its checksum: a worker loads nothing else that could do anything.

A batch is a part of the archives, and has one result. Its plan also has the archives that workers cannot fetch.
"""

from __future__ import annotations

import logging
import pickle
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Final
from uuid import uuid4

from pydantic import TypeAdapter

from dcc.errors import DccError, StoredObjectLostError, StoreRefusedError, StoreUnreachableError
from dcc.naming import MANIFEST_ENDINGS
from dcc.replay import worker
from dcc.replay.replayer import ArchiveToOpen, Replayer, StepResult
from dcc.replay.stored_archives import ArchiveBytes, FetchedArchive, StoredArchive
from dcc.runtime.clock import utc_today
from dcc.runtime.logging_setup import NOTICE
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.batches.batch_plans import BATCH_SECONDS, MAX_BYTES, Bound, seconds_to_prepare, together
from dcc.session.batches.exchange import REPLAYS, Exchange, Workers, remove_old_replays, taken_batch, unpack
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind
from dcc.store.copies import named_replicas
from dcc.store.objects import ObjectStore
from dcc.store.staging import Staging

log = logging.getLogger(__name__)

_REPLAYER: Final = "replayer"
_SCHEMAS, _RULES, _SENT = "schemas", "rules", "sent"
_ARCHIVES: Final = "archives.json"
_ARCHIVES_TYPE: Final = TypeAdapter(list[FetchedArchive])
_OPENED_TYPE: Final = TypeAdapter(list[StepResult])

Part = list[StoredArchive]


def write_replayer(path: Path, replayer: Replayer) -> None:
    """Put what a worker goes by into one file. Raises OSError."""
    with tarfile.open(path, "w") as tar:
        _add(tar, _REPLAYER, pickle.dumps(replayer))
        if (schemas := replayer.setup.xsd_dir) is not None:
            for path in schemas.rglob("*.xsd"):
                tar.add(path.resolve(), f"{_SCHEMAS}/{path.relative_to(schemas)}")
        if replayer.rules is not None and (rules := Path(replayer.rules)).exists():
            tar.add(rules.resolve(), f"{_RULES}/{rules.resolve().name}", filter=_without_caches)


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name or "/." in member.name else member


def _replayer(store: ObjectStore, key: str, folder: Path) -> Replayer:
    store.get(key, folder / "replayer.tar")
    unpack(folder / "replayer.tar", folder)
    replayer: Replayer = pickle.loads((folder / _REPLAYER).read_bytes())  # noqa: S301 - the run tells its checksum
    rules = next((folder / _RULES).glob("*"), None)
    schemas = None if replayer.setup.xsd_dir is None else folder / _SCHEMAS
    root = folder / "replay"
    root.mkdir()
    return replace(
        replayer,
        root=root,
        setup=replace(replayer.setup, xsd_dir=schemas),
        rules=replayer.rules if rules is None else str(rules),
    )


def write_plan(path: Path, archives: Iterable[FetchedArchive], sent: Iterator[tuple[FetchedArchive, Path]]) -> None:
    """Put what there is to know of a batch's archives, and those to send, each with its manifest, into one file."""
    with tarfile.open(path, "w") as tar:
        _add(tar, _ARCHIVES, _ARCHIVES_TYPE.dump_json(list(archives)))
        for archive, found in sent:
            for each in (found, *(found.with_name(found.name + ending) for ending in MANIFEST_ENDINGS)):
                if each.exists():
                    tar.add(each, f"{_SENT}/{archive.download_id}/{each.name}")


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, BytesIO(content))


@contextmanager
def processes_of(replayer: Replayer, number: int) -> Iterator[worker.Run]:
    """Processes that replay; yields a function of the step, the name of what it works on, and its arguments."""
    processes = WorkerProcesses(number, worker.begin, replayer.rules, pickle.dumps(replayer))
    try:
        yield lambda step, name, *given: processes.submit(name, worker.run, step, pickle.dumps(given))
    finally:
        processes.stop()


def prepare_replay_batch(settings: Settings, replayer_key: str, name: str) -> int:
    """Open and prepare the archives of a batch by its name beside the replayer; returns the number of archives.

    A process without secrets does it, and ends with it, so that proposed rules are used for nothing else. A batch that
    fails, or that the replay withdraws meanwhile, is left to the replay. Raises NotFoundError for a missing batch,
    TimeoutError for one that takes longer than DCC_WORKER_PATIENCE, and as the store.
    """
    with taken_batch(settings, replayer_key.rpartition("/")[0], name) as given:
        folder = given.scratch
        unpack(given.plan, folder)
        replayer = _replayer(given.store, replayer_key, folder)
        with processes_of(replayer, 1) as run, closing(ArchiveBytes(settings, folder / "archives")) as stored:
            archives = _ARCHIVES_TYPE.validate_json((folder / _ARCHIVES).read_bytes())
            try:
                to_open = [
                    ArchiveToOpen(one.key, one.centre, _fetched(one, stored, folder), one.md5) for one in archives
                ]
                opened = run("prepare", f"{archives[0].key}", to_open).result(settings.worker_patience)
                write_result(folder / f"{name}.tar", opened, archives, replayer)
            except TimeoutError:
                raise
            except (DccError, OSError, ValueError) as error:
                log.warning("%s and those with it are left to the replay: %s", archives[0].key, error)
                return 0
        return len(archives) if given.leave(name, folder / f"{name}.tar") else 0


def _fetched(archive: FetchedArchive, stored: ArchiveBytes, folder: Path) -> Path:
    sent = folder / _SENT / f"{archive.download_id}" / archive.key.file_name
    found = sent if sent.exists() else stored.fetch(archive)
    if found is None:
        raise StoredObjectLostError(f"This worker has no copy of {archive.key}.")
    return found


def write_result(path: Path, opened: list[StepResult], archives: Iterable[FetchedArchive], replayer: Replayer) -> None:
    """Put the results of a batch, and the files that were prepared of its documents, into one file."""
    with tarfile.open(path, "w") as tar:
        _add(tar, f"{path.stem}.json", _OPENED_TYPE.dump_json(opened))
        contents = (replayer.staging.contents(one.key).glob("*") for one in archives)
        for prepared in chain(replayer.root.glob("*.rows*"), *contents):
            tar.add(prepared, prepared.relative_to(replayer.root))


def take_result(result: Path, root: Path) -> list[StepResult]:
    """The results of the archives of a batch, whose files are unpacked below the root of a replay.

    Raises OSError, and ValueError for what is no result.
    """
    unpack(result, root)
    return _OPENED_TYPE.validate_json((root / f"{result.stem}.json").read_bytes())


class ReplayWorkerResults(Exchange):
    """The results of workers for the `parts` of a replay, each of which is a batch. Threads may share it."""

    OF, LEFT_UNTIL = "the replay", "for a day"

    def __init__(self, settings: Settings, replayer: Replayer, parts: Sequence[Part]) -> None:
        folder = f"{REPLAYS}/{utc_today()}-{uuid4().hex[:12]}"
        super().__init__(ObjectStore(settings), folder, replayer.root / "exchange")
        self._settings, self._replayer = settings, replayer
        self._parts = {_name(number): part for number, part in enumerate(parts)}
        self._keys: dict[str, str] = {}

    @property
    def archives(self) -> int:
        """The number of archives that workers have prepared."""
        return sum(len(self._parts[name]) for name in self._keys)

    def look(self) -> int:
        """Look for results; returns the number of archives."""
        self._keys = self.results()
        return self.archives

    def put_replayer(self) -> None:
        """Store what workers go by."""
        self.scratch.mkdir()
        write_replayer(self.scratch / _REPLAYER, self._replayer)
        self.work = self.store.put(f"{self.folder}/{_REPLAYER}", self.scratch / _REPLAYER)

    def put_batches(self) -> list[str]:
        """Store the batches for workers; returns their names."""
        with closing(ArchiveBytes(self._settings, self.scratch / "archives")) as stored:
            for name, part in self._parts.items():
                write_plan(self.scratch / "plan", part, self._to_send(part, stored))
                self.put_plan(name, self.scratch / "plan")
        return list(self._parts)

    def _to_send(self, archives: Sequence[StoredArchive], stored: ArchiveBytes) -> Iterator[tuple[StoredArchive, Path]]:
        """Those of the archives that workers cannot have from elsewhere, as they are here."""
        if self._settings.executor is ExecutorKind.MULTIPROCESS:
            return
        staging = Staging(self._settings.staging_directory)
        is_shared = any("://" in replica.url for replica in named_replicas(self._settings))
        for archive in archives:
            if is_shared and archive.sha256 is not None and not staging.has_manifest(archive.key):
                continue
            if (path := stored.fetch(archive)) is not None:
                yield archive, path
                stored.release(archive)

    def take(self, number: int) -> list[StepResult] | None:
        """The results of the archives of a part; None if this process has to prepare them."""
        name = _name(number)
        if name not in self._keys:
            return None
        part = self._parts[name]
        opened = self.opened(
            self._keys[name],
            self.scratch / f"{name}.tar",
            lambda result: take_result(result, self._replayer.root),
            what=f"{part[0].key} and those with it",
        )
        return opened if opened is not None and len(opened) == len(part) else None


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
            results.put_replayer()
            results.have_prepared(workers, results.put_batches(), lambda: on_progress(results.look()))
        except (StoreUnreachableError, StoreRefusedError) as error:
            log.warning("Workers cannot be used: %s", error, extra={NOTICE: True})
        of = sum(map(len, parts))
        if results.archives < of:
            text = "Workers prepared %d of %d archives. This machine prepares the others."
            log.warning(text, results.archives, of, extra={NOTICE: True})
        yield results
    finally:
        results.remove()


def _name(number: int) -> str:
    """The name of the batch of a part, which has this number from 0 on; people count from 1."""
    return f"batch_{number + 1}"


def parts_of(archives: Iterable[StoredArchive], limit: int) -> Iterator[Part]:
    """Archives in their order, at most `limit` together, and not more than half a minute's work."""
    seconds = Bound[StoredArchive](lambda one: seconds_to_prepare(one.size_bytes), BATCH_SECONDS)
    size = Bound[StoredArchive](lambda one: one.size_bytes or 0, MAX_BYTES)
    return together(archives, limit, seconds, size)
