"""Which of a file source's threads fetch: two while they keep the processors busy, all where they would wait."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from dcc.session.fetching import processor_reserve
from dcc.session.fetching.processor_reserve import FIRST, Reserve


class Scripted:
    """Stands for the event that waiting threads wait for, and for the clocks.

    In the course of the n-th wait, the two threads that fetch use `busy[n]` processors together; `called` is the wait
    in which somebody calls the others.
    """

    def __init__(self, threads: Reserve, busy: Sequence[float], called: int | None = None) -> None:
        self.threads, self.busy, self.called = threads, busy, called
        self.waits: list[float] = []
        self.now = 0.0
        self.used = [0.0] * 4
        self.fetching = 0
        self.flag = False

    def wait(self, seconds: float) -> bool:
        if not self.flag:
            number = len(self.waits)
            self.waits.append(seconds)
            self.now += seconds
            for worker in range(FIRST):
                if self.busy[number]:
                    self.used[worker] += self.busy[number] / FIRST * seconds
                    self.fetching = worker
                    self.threads.note_fetched(worker)
            if number == self.called:
                self.threads.call()
        return self.flag

    def set(self) -> None:
        self.flag = True


def _scripted(monkeypatch: pytest.MonkeyPatch, busy: Sequence[float], called: int | None = None) -> Scripted:
    threads = Reserve(4)
    script = Scripted(threads, busy, called)
    monkeypatch.setattr(threads, "_of_use", script)
    clocks = SimpleNamespace(monotonic=lambda: script.now, thread_time=lambda: script.used[script.fetching])
    monkeypatch.setattr(processor_reserve, "time", clocks)
    return script


@pytest.mark.parametrize("worker", range(FIRST))
def test_the_first_two_wait_for_nothing(monkeypatch: pytest.MonkeyPatch, worker: int) -> None:
    script = _scripted(monkeypatch, [])
    script.threads.await_use(worker)
    assert (script.waits, script.flag) == ([], False)


def test_where_nothing_came_in_the_first_twentieth_of_a_second_all_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _scripted(monkeypatch, [0.0])
    script.threads.await_use(2)
    assert script.waits == [0.05]


def test_while_two_keep_the_processors_busy_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _scripted(monkeypatch, [0.1, 0.6, 0.5, 0.4, 0.3])
    script.threads.await_use(2)
    assert script.waits == [0.05, 0.2, 0.2, 0.2, 0.2]


def test_a_source_that_stops_sending_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _scripted(monkeypatch, [0.6, 0.6, 0.0])
    script.threads.await_use(3)
    assert script.waits == [0.05, 0.2, 0.2]


def test_where_one_is_of_use_all_are_and_stay_so(monkeypatch: pytest.MonkeyPatch) -> None:
    script = _scripted(monkeypatch, [0.0])
    script.threads.await_use(2)
    script.threads.note_fetched(2)
    script.threads.await_use(3)
    assert script.waits == [0.05]


@pytest.mark.parametrize("called", [0, 1, 4])
def test_whoever_is_called_waits_no_longer(monkeypatch: pytest.MonkeyPatch, called: int) -> None:
    script = _scripted(monkeypatch, [0.6] * 5, called)
    script.threads.await_use(2)
    assert len(script.waits) == called + 1
