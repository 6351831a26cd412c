"""The batches of archives for workers: each of one source, about half a minute's work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from pydantic import TypeAdapter

from dcc.outcomes import SubmissionKey
from dcc.tracker.hostings.download_plan import PlannedSubmission
from dcc.tracker.hostings.hosting import EarlierCopy, Hosting

T = TypeVar("T")

BATCH_SECONDS: Final = 30.0
MAX_ARCHIVES: Final = 500
MAX_BYTES: Final = 500_000_000


_EACH_SECONDS: Final = 0.05
"""Seconds for an archive besides its bytes: to fetch it, open it, and leave it in the store."""
_PREPARE_RATE: Final = 1_000_000
"""Bytes of archives that are prepared in a second, for documents compressed to a tenth (docs/scale.md)."""
_UNKNOWN_RATE: Final = 1_000_000
_UNKNOWN_BYTES: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class BatchArchive:
    """An archive as listed; `earlier`: the copy of it that the session has from there."""

    key: SubmissionKey
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


def plan_round(
    planned: Iterable[PlannedSubmission], rates: Mapping[int, float], connections: int
) -> list[PlannedBatch]:
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
