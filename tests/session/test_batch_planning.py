"""Batches of archives for workers: every archive in one of them, none of them too much for one worker."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.session.batches import planning
from dcc.session.batches.planning import BATCH_SECONDS, MAX_BYTES, PlannedBatch, plan_round
from dcc.sources.hosting import CopyFault, Hosting, KnownBadCopy
from dcc.tracker.hostings.download_plan import PlannedZip

SIZES = st.none() | st.integers(0, 20_000) | st.integers(0, 2 * MAX_BYTES)
RATES = st.dictionaries(st.integers(1, 3), st.floats(1_000, 1e9))


def planned(number: int, source_id: int, size: int | None, *, bad: bool = False) -> PlannedZip:
    """An archive that waits, at one file source."""
    known = KnownBadCopy("0" * 32, CopyFault.DAMAGED) if bad else None
    hosting = Hosting(number, source_id, size, 1_400_000_000, has_md5=False, bad=known)
    return PlannedZip(number, number, ZipKey(Action.ADD, f"H.2014-01-01.{number}.impc.zip"), "H", (hosting,))


def archives(most: int) -> st.SearchStrategy[list[PlannedZip]]:
    """Archives of some file sources, a few of which are known to be bad."""
    one = st.tuples(st.integers(1, 3), SIZES, st.integers(0, 9))
    return st.lists(one, max_size=most).map(
        lambda told: [planned(n, source, size, bad=bad == 0) for n, (source, size, bad) in enumerate(told, 1)]
    )


def rounds(waiting: list[PlannedZip], rates: dict[int, float], connections: int) -> list[list[PlannedBatch]]:
    """The batches of all rounds, as a session gives them out."""
    found = []
    while batches := plan_round(waiting, rates, connections):
        found.append(batches)
        given_out = {archive.key for batch in batches for archive in batch.archives}
        waiting = [one for one in waiting if one.key not in given_out]
    return found


@given(archives(60), RATES, st.integers(1, 4))
def test_every_archive_is_in_one_batch_in_its_order_and_no_batch_is_more_than_one_worker_should_have(
    waiting: list[PlannedZip], rates: dict[int, float], connections: int
) -> None:
    given_out: dict[int, list[Hosting]] = {source: [] for source in (1, 2, 3)}
    for batches in rounds(waiting, rates, connections):
        assert max(Counter(batch.source_id for batch in batches).values()) <= connections
        for batch in batches:
            assert batch.archives
            given_out[batch.source_id] += [archive.hosting for archive in batch.archives]
            # One that is too large by itself has a batch of its own.
            if len(batch.archives) > 1:
                rate = rates.get(batch.source_id, planning._UNKNOWN_RATE)
                assert sum(archive.expected_seconds(rate) for archive in batch.archives) <= BATCH_SECONDS + 1e-6
                assert sum(archive.hosting.size_bytes or 0 for archive in batch.archives) <= MAX_BYTES
    for source, hostings in given_out.items():
        assert hostings == [
            one.hostings[0] for one in waiting if one.hostings[0].bad is None and one.hostings[0].source_id == source
        ]


def test_batches_of_a_known_source_are_about_half_a_minute() -> None:
    """A batch is filled as long as it fits: only the last of a source may be shorter than that by an archive."""
    waiting = [planned(number, 1, 500_000) for number in range(1, 201)]
    for rate in (100_000.0, 1_000_000.0, 50_000_000.0):
        batches = [batch for some in rounds(waiting, {1: rate}, 2) for batch in some]
        for batch in batches[:-1]:
            each = batch.archives[0].expected_seconds(rate)
            assert BATCH_SECONDS - each <= each * len(batch.archives) <= BATCH_SECONDS
