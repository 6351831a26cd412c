"""What waits for a source's threads: in order, kept for one of them, and never held up by one that is slow."""

import threading

from dcc.session.fetching.sharing import TransferQueue

PATIENCE = 20.0


def _queue(workers: int, *sizes: int | None) -> TransferQueue[int | None]:
    queue = TransferQueue[int | None](workers, lambda size: size)
    for size in sizes:
        queue.put(size)
    return queue


def test_what_is_kept_for_a_thread_is_its_share_and_no_more_than_it_may_have() -> None:
    assert _queue(2, *range(10)).keep(0, 8, 1_000) == (0, 1, 2, 3, 4)
    assert _queue(1, *range(10)).keep(0, 8, 1_000) == tuple(range(8))
    assert _queue(1, *[400] * 10).keep(0, 8, 1_000) == (400, 400, 400)
    assert _queue(4, 1, 2, 3).keep(0, 8, 1_000) == ()
    assert _queue(1, 5, None, 6).keep(0, 8, 1_000) == (5,), "what has no size is not kept"


def test_nothing_is_added_while_half_is_left() -> None:
    queue = _queue(1, *range(20))
    assert len(queue.keep(0, 8, 1_000)) == 8
    for number in range(3):
        assert queue.take(0) == number
        assert queue.keep(0, 8, 1_000) == ()
    assert queue.take(0) == 3
    assert queue.keep(0, 8, 1_000) == (4, 5, 6, 7, 8, 9, 10, 11)


def test_a_thread_takes_what_is_kept_for_it_then_what_waits_then_the_end_of_what_is_kept_for_another() -> None:
    queue = _queue(2, 1, 2, 3, 4)
    assert queue.keep(1, 8, 1_000) == (1, 2)
    assert [queue.take(0), queue.take(1)] == [3, 1]
    queue = _queue(2, 1, 2, 3, 4)
    queue.keep(1, 8, 1_000)
    assert [queue.take(0) for _ in range(4)] == [3, 4, 2, 1]


def test_who_waits_gets_what_is_put_and_hears_of_the_end() -> None:
    queue = _queue(1)
    taken: list[int | None] = []

    def take_all() -> None:
        while (item := queue.take(0)) is not None:
            taken.append(item)

    thread = threading.Thread(target=take_all)
    thread.start()
    queue.put(7)
    while not taken:
        assert thread.is_alive()
    queue.stop()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert taken == [7]
    queue.put(8)
    assert queue.take(0) is None
