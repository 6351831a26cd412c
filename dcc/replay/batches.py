"""A worker's work on a batch of a replay: open and prepare stored archives, and leave what is found there.

The replay leaves in the store what to go by, as a bundle: a `Replayer`, schemas, and the file or folder of proposed
rules. The run names its key, which has its checksum: a worker loads nothing else that could do anything.

A batch has parts, each with a result of its own. Its plan also has the archives that workers cannot fetch.
"""

from __future__ import annotations

import logging
import pickle
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from dcc.errors import DccError, StoredObjectLostError
from dcc.naming import MANIFEST_FORMATS, manifest_beside
from dcc.replay import worker
from dcc.replay.replayer import ArchiveToOpen, OpenedDocument, Replayer
from dcc.replay.stored_archives import ArchiveBytes, FetchedArchive
from dcc.runtime.private_files import scratch_directory
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.batches.exchange import WORKER_SCRATCH, WorkerBatch, unpack
from dcc.settings import Settings
from dcc.store.objects import ObjectStore

log = logging.getLogger(__name__)

_REPLAYER: Final = "replayer"
_SCHEMAS, _RULES, _SENT = "schemas", "rules", "sent"
_PARTS, _OPENED = "parts.json", "opened.json"
_PARTS_TYPE: Final = TypeAdapter(dict[int, list[FetchedArchive]])
_OPENED_TYPE: Final = TypeAdapter(list[list[OpenedDocument]])


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
    """The replayer of a bundle, for the worker's folder."""
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
    """Prepares the archives of a part, one part at a time."""

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
