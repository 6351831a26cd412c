"""The archives of each batch, of one source, about half a minute's work; and what a worker leaves of each."""

from __future__ import annotations

import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from dcc.naming import MANIFEST_FORMATS, manifest_beside
from dcc.outcomes import Problem, ZipKey
from dcc.session.batches.exchange import unpack
from dcc.sources.base import Validators
from dcc.sources.hosting import EarlierCopy, Hosting
from dcc.store.staging import PREPARED_FILE, Origin
from dcc.tracker.hostings.download_plan import PlannedZip
from dcc.tracker.problems import problem_columns, problem_of

T = TypeVar("T")

BATCH_SECONDS: Final = 30.0
MAX_ARCHIVES: Final = 500
MAX_BYTES: Final = 500_000_000

ARCHIVE: Final = "archive.zip"
_FOUND: Final = "found.json"

_EACH_SECONDS: Final = 0.05
"""Seconds for an archive besides its bytes: to fetch it, open it, and leave it in the store."""
_PREPARE_RATE: Final = 1_000_000
"""Bytes of archives that are prepared in a second, for documents compressed to a tenth (docs/scale.md)."""
_UNKNOWN_RATE: Final = 1_000_000
_UNKNOWN_BYTES: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class BatchArchive:
    """An archive as listed; `earlier`: the copy of it that the session has from there."""

    key: ZipKey
    centre: str | None
    hosting: Hosting
    published: str | None
    earlier: EarlierCopy | None = None

    def expected_seconds(self, rate: float) -> float:
        """The expected seconds of work on it, for a source that sends `rate` bytes a second."""
        return _size_or_guess(self.hosting.size_bytes) / rate + seconds_to_prepare(self.hosting.size_bytes)


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Archives of one source for one worker, over one connection."""

    source_id: int
    archives: tuple[BatchArchive, ...]


BATCH_TYPE: Final = TypeAdapter(PlannedBatch)
"""Batches as they are stored in the object store, without secrets."""


def plan_round(planned: Iterable[PlannedZip], rates: Mapping[int, float], connections: int) -> list[PlannedBatch]:
    """The batches for workers at one time: of each source at most as many as its `connections`.

    Archives keep their order and come from their preferred source; bad copies, and archives without a source, are left
    to the session. `rates` are the known speeds of sources in bytes a second, by id. A later round has the remaining
    batches of a source.
    """
    by_source: dict[int, list[BatchArchive]] = defaultdict(list)
    for submission in planned:
        hosting = submission.hostings[0] if submission.hostings else None
        if hosting is not None and hosting.bad is None:
            is_producer = hosting.own and hosting.has_md5
            published = None if is_producer else submission.published
            by_source[hosting.source_id].append(BatchArchive(submission.key, submission.centre, hosting, published))
    batches = []
    for source_id, archives in by_source.items():
        waiting = iter(_batches(source_id, archives, rates.get(source_id, _UNKNOWN_RATE)))
        batches.append([batch for _, batch in zip(range(connections), waiting, strict=False)])
    # Sources take turns, so that few workers do not all wait for one server.
    return [some[turn] for turn in range(connections) for some in batches if turn < len(some)]


def _batches(source_id: int, archives: Iterable[BatchArchive], rate: float) -> Iterable[PlannedBatch]:
    seconds = Bound[BatchArchive](lambda one: one.expected_seconds(rate), BATCH_SECONDS)
    size = Bound[BatchArchive](lambda one: one.hosting.size_bytes or 0, MAX_BYTES)
    for group in together(archives, MAX_ARCHIVES, seconds, size):
        yield PlannedBatch(source_id, tuple(group))


def seconds_to_prepare(size_bytes: int | None) -> float:
    """The expected seconds of work on an archive that is not fetched from a source."""
    return _EACH_SECONDS + _size_or_guess(size_bytes) / _PREPARE_RATE


def _size_or_guess(size_bytes: int | None) -> int:
    return _UNKNOWN_BYTES if size_bytes is None else size_bytes


class Bound(NamedTuple, Generic[T]):
    """A bound on pieces of work together: the `most` that the sum of a `measure` of each may be."""

    measure: Callable[[T], float]
    most: float


def together(works: Iterable[T], limit: int, *bounds: Bound[T]) -> Iterator[list[T]]:
    """Pieces of work in their order, `limit` at most together, and as many as all bounds permit."""
    group: list[T] = []
    reached = [0.0 for _ in bounds]
    for work in works:
        own = [bound.measure(work) for bound in bounds]
        reached = [so_far + more for so_far, more in zip(reached, own, strict=True)]
        is_too_much = any(so_far > bound.most for so_far, bound in zip(reached, bounds, strict=True))
        if group and (is_too_much or len(group) == limit):
            yield group
            group, reached = [], own
        group.append(work)
    if group:
        yield group


def _row(problem: Problem) -> dict[str, Any]:
    """A problem as in the tracker's logs, with its kind and place."""
    place = {"kind": problem.kind, "line": problem.line, "col": problem.column, "severity": problem.severity.value}
    return place | problem_columns(problem)


_ProblemRow = Annotated[Problem, PlainSerializer(_row), PlainValidator(lambda row: problem_of(SimpleNamespace(**row)))]


@dataclass(frozen=True, slots=True)
class WorkerFindings:
    """A worker's findings: the copy that it fetched, its checksums, and the problems of each document by its name.

    `published` is the MD5 published beside the copy, and `validators` the server's tag and time of it. `problems` is
    None if the archive could not be opened. `is_sent`: it is not the one that the session has.
    """

    copy: Origin
    published: str | None
    md5: str
    problems: Mapping[str, tuple[_ProblemRow, ...]] | None
    validators: Validators | None = None
    is_sent: bool = True


_FINDINGS_TYPE: Final = TypeAdapter(WorkerFindings)


def write_bundle(bundle: Path, archive: Path, contents: Path, findings: WorkerFindings) -> None:
    """Put an archive, its manifest, the prepared files among its `contents`, and what was found into one file."""
    found_file = bundle.parent / _FOUND
    found_file.write_bytes(_FINDINGS_TYPE.dump_json(findings))
    with tarfile.open(bundle, "w") as tar:
        if findings.is_sent:
            tar.add(archive, ARCHIVE)
        tar.add(found_file, _FOUND)
        for suffix in MANIFEST_FORMATS:
            manifest = archive.with_name(manifest_beside(archive.name, suffix))
            if manifest.exists():
                tar.add(manifest, manifest_beside(ARCHIVE, suffix))
        for part in sorted(contents.glob(f"{PREPARED_FILE}*")):
            tar.add(part, part.name)


def open_bundle(bundle: Path) -> WorkerFindings:
    """Unpack a bundle into its folder. Raises OSError and ValueError for other files."""
    unpack(bundle, bundle.parent)
    return _FINDINGS_TYPE.validate_json((bundle.parent / _FOUND).read_bytes())
