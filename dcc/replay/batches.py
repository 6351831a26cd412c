"""What workers prepare for a replay, which does everything itself that no worker did.

The replay leaves in the store what to go by, as a bundle: a `Replayer`, schemas, and the file or folder of proposed
rules. The run names its key, which has its checksum: a worker loads nothing else that could do anything.

A batch has parts, each with a result of its own. Its plan also has the archives that workers cannot fetch.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from dcc.errors import DccError, StoredObjectLostError, StoreRefusedError, StoreUnreachableError
from dcc.naming import MANIFEST_FORMATS, manifest_beside
from dcc.replay import worker
from dcc.replay.replayer import ArchiveToOpen, OpenedDocument, Replayer
from dcc.replay.stored_archives import ArchiveBytes, FetchedArchive, StoredArchive
from dcc.runtime.logging_setup import NOTICE
from dcc.runtime.private_files import scratch_directory
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.batches.exchange import (
    WORKER_SCRATCH,
    Exchange,
    WorkerBatch,
    Workers,
    new_folder_of_replay,
    remove_old_replays,
    unpack,
)
from dcc.session.batches.planning import BATCH_SECONDS, MAX_ARCHIVES, MAX_BYTES, Bound, seconds_to_prepare, together
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind
from dcc.store.copies import named_replicas
from dcc.store.objects import ObjectStore
from dcc.store.staging import Staging

log = logging.getLogger(__name__)

_REPLAYER: Final = "replayer"
_BUNDLE: Final = "bundle"
_SCHEMAS, _RULES, _SENT = "schemas", "rules", "sent"
_PARTS, _OPENED = "parts.json", "opened.json"
_PARTS_TYPE: Final = TypeAdapter(dict[int, list[FetchedArchive]])
_OPENED_TYPE: Final = TypeAdapter(list[list[OpenedDocument]])

Part = list[StoredArchive]


def write_bundle(bundle: Path, replayer: Replayer) -> None:
    """Put what a worker goes by into one file. Raises OSError."""
    with tarfile.open(bundle, "w") as tar:
        _add(tar, _REPLAYER, pickle.dumps(replayer))
        if (schemas := replayer.setup.xsd_dir) is not None:
            for path in schemas.rglob("*.xsd"):
                tar.add(path.resolve(), f"{_SCHEMAS}/{path.relative_to(schemas)}")
        if replayer.rules is not None and (rules := Path(replayer.rules)).exists():
            tar.add(rules.resolve(), f"{_RULES}/{rules.resolve().name}", filter=_without_caches)


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name or "/." in member.name else member


def _replayer(store: ObjectStore, key: str, folder: Path) -> Replayer:
    store.get(key, folder / "bundle.tar")
    unpack(folder / "bundle.tar", folder)
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


def write_plan(
    path: Path, parts: Mapping[int, Sequence[FetchedArchive]], sent: Iterator[tuple[FetchedArchive, Path]]
) -> None:
    """Put the parts of a batch by their numbers, and the archives to send, each with its manifest, into one file."""
    with tarfile.open(path, "w") as tar:
        _add(tar, _PARTS, _PARTS_TYPE.dump_json({number: list(some) for number, some in parts.items()}))
        for archive, found in sent:
            manifests = (found.with_name(manifest_beside(found.name, suffix)) for suffix in MANIFEST_FORMATS)
            for each in (found, *manifests):
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


def prepare_replay_batch(settings: Settings, bundle: str, name: str) -> int:
    """Open and prepare the archives of a batch by its name beside the bundle; returns the number of archives.

    A process without secrets does it, and ends with it, so that proposed rules are used for nothing else. A part that
    fails is left to the replay; one that takes longer than DCC_WORKER_PATIENCE ends the batch. If the replay withdraws
    the batch, nothing more is stored. Raises NotFoundError for a missing batch, TimeoutError, and as the store.
    """
    store, done = ObjectStore(settings), 0
    with scratch_directory(settings.staging_directory / WORKER_SCRATCH) as folder:
        given = WorkerBatch(store, bundle.rpartition("/")[0], name, folder / "plan.tar")
        unpack(folder / "plan.tar", folder)
        replayer = _replayer(store, bundle, folder)
        with processes_of(replayer, 1) as run, closing(ArchiveBytes(settings, folder / "archives")) as stored:
            part = _Part(replayer, run, stored, folder, settings.worker_patience)
            for number, archives in _PARTS_TYPE.validate_json((folder / _PARTS).read_bytes()).items():
                if not given.is_waited_for:
                    log.info("The replay no longer waits for %s, which it does by itself", name)
                    break
                try:
                    result = part.prepare(archives)
                except TimeoutError:
                    raise
                except (DccError, OSError, ValueError) as error:
                    log.warning("%s and those with it are left to the replay: %s", archives[0].key, error)
                    continue
                given.leave(f"{number}", result)
                done += len(archives)
    return done


@dataclass(frozen=True)
class _Part:
    replayer: Replayer
    run: worker.Run
    stored: ArchiveBytes
    folder: Path
    patience: float

    def prepare(self, archives: Sequence[FetchedArchive]) -> Path:
        """The file with the result. Raises TimeoutError, DccError, OSError, and ValueError for odd texts."""
        try:
            to_open = [
                ArchiveToOpen(archive.key, archive.centre, self._fetch(archive), archive.md5) for archive in archives
            ]
            opened = self.run("prepare", f"{archives[0].key}", to_open).result(self.patience)
        finally:
            for one in archives:
                self.stored.release(one)
        result, root = self.folder / "result.tar", self.replayer.root
        with tarfile.open(result, "w") as tar:
            _add(tar, _OPENED, _OPENED_TYPE.dump_json(opened))
            for path in root.glob("*.rows*"):
                tar.add(path, path.name)
                path.unlink()
            for one in archives:
                contents = self.replayer.staging.contents(one.key)
                for path in contents.glob("*"):
                    tar.add(path, path.relative_to(root))
                shutil.rmtree(contents, ignore_errors=True)
        return result

    def _fetch(self, archive: FetchedArchive) -> Path:
        sent = self.folder / _SENT / f"{archive.download_id}" / archive.key.file_name
        found = sent if sent.exists() else self.stored.fetch(archive)
        if found is None:
            raise StoredObjectLostError(f"This worker has no copy of {archive.key}.")
        return found


def take_result(result: Path, root: Path) -> list[list[OpenedDocument]]:
    """The documents of a part's archives, whose files are unpacked below the root of a replay.

    Raises OSError, and ValueError for what is no result.
    """
    folder = result.with_suffix("")
    unpack(result, folder)
    found = _OPENED_TYPE.validate_json((folder / _OPENED).read_bytes())
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / _OPENED:
            target = root / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    shutil.rmtree(folder)
    return [
        [one._replace(prepared=str(root / Path(one.prepared).name)) if one.prepared else one for one in some]
        for some in found
    ]


class ReplayWorkerResults(Exchange):
    """The results of workers for the `parts` of a replay. Threads may share it."""

    OF, LEFT_UNTIL = "the replay", "for a day"

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
        seconds = Bound[tuple[int, Part]](lambda one: _seconds(one[1]), BATCH_SECONDS)
        size = Bound[tuple[int, Part]](lambda one: _size(one[1]), MAX_BYTES)
        numbered = together(enumerate(self._parts), MAX_ARCHIVES, seconds, size)
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
        is_shared = any("://" in replica.url for replica in named_replicas(self._settings))
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
        bundle = self.scratch / f"{number}.tar"
        part = self._parts[number]
        opened = self.opened(
            self._keys[number],
            bundle,
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
            bundle = results.put_bundle()
            results.have_prepared(workers, bundle, results.put_batches(), lambda: on_progress(results.look()))
        except (StoreUnreachableError, StoreRefusedError) as error:
            log.warning("Workers cannot be used: %s", error, extra={NOTICE: True})
        of = sum(map(len, parts))
        if results.archives < of:
            text = "Workers prepared %d of %d archives. This machine prepares the others."
            log.warning(text, results.archives, of, extra={NOTICE: True})
        yield results
    finally:
        results.remove()


def parts_of(archives: Sequence[StoredArchive], limit: int) -> Iterator[Part]:
    """Archives in their order, at `limit` so many together, and not more than half a minute's work."""
    seconds = Bound[StoredArchive](lambda one: _seconds([one]), BATCH_SECONDS)
    size = Bound[StoredArchive](lambda one: _size([one]), MAX_BYTES)
    return together(archives, limit, seconds, size)


def _seconds(part: Part) -> float:
    return sum(seconds_to_prepare(archive.size_bytes) for archive in part)


def _size(part: Part) -> int:
    return sum(archive.size_bytes or 0 for archive in part)
