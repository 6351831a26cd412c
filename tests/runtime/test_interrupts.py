"""An interrupt ends what runs, even where Python cannot raise it."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dcc.runtime.interrupts import interrupted_by_sigterm, raise_missed_interrupts, repeat_lost_interrupts

FILES = Path("/proc/self/fd")
COLLECTED = """
import signal, time, weakref
from dcc.cli.installation.dagster_processes import stop_signals
from dcc.runtime.interrupts import repeat_lost_interrupts

class Collected: pass

def wait_for_an_interrupt() -> None:
    collected = Collected()
    interrupting = weakref.ref(collected, lambda _: signal.raise_signal({number}))
    del collected
    time.sleep(60)
    print("missed")

repeat_lost_interrupts()
{waiting}
"""
UNGUARDED = """
try:
    wait_for_an_interrupt()
except KeyboardInterrupt:
    print("interrupted")
"""
AS_ANOTHER = """
class Stopped(BaseException): pass

def stop(*_) -> None:
    raise Stopped

signal.signal(signal.SIGINT, stop)
try:
    wait_for_an_interrupt()
except Stopped:
    print("interrupted")
"""
"""As Dagster does while a step runs."""
GUARDED = """
with stop_signals():
    wait_for_an_interrupt()
print("interrupted")
"""


@pytest.mark.parametrize(
    ("number", "waiting"),
    [
        (signal.SIGINT, UNGUARDED),
        (signal.SIGINT, AS_ANOTHER),
        (signal.SIGINT, GUARDED),
        (signal.SIGTERM, GUARDED),
    ],
    ids=["unguarded", "as another", "guarded", "sigterm"],
)
def test_an_interrupt_during_a_collection_is_not_lost(number: signal.Signals, waiting: str) -> None:
    code = COLLECTED.format(number=int(number), waiting=waiting)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")


def test_other_errors_during_a_collection_are_printed_as_ever() -> None:
    code = COLLECTED.format(
        number="1 / 0", waiting="signal.setitimer(signal.ITIMER_REAL, 0.5)\nwait_for_an_interrupt()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert ended.returncode == -signal.SIGALRM
    assert "ZeroDivisionError" in ended.stderr


@pytest.mark.parametrize("ending", [GeneratorExit, SystemExit])
def test_what_is_no_interrupt_is_not_repeated(ending: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    repeat_lost_interrupts()
    lost: Any = SimpleNamespace(exc_type=ending)
    sys.unraisablehook(lost)
    assert printed == [lost]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_library_only_notes_is_raised_after_it(number: signal.Signals) -> None:
    noted: list[object] = []
    before, files = signal.signal(number, lambda *_: noted.append(number)), sorted(FILES.iterdir())
    try:
        with pytest.raises(KeyboardInterrupt), raise_missed_interrupts():
            signal.raise_signal(number)
        with raise_missed_interrupts():
            pass
    finally:
        signal.signal(number, before)
    assert (noted, sorted(FILES.iterdir()), signal.set_wakeup_fd(-1)) == ([number], files, -1)


def test_other_threads_have_no_interrupts_to_miss() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(raise_missed_interrupts().__enter__).exception() is None


def test_sigterm_interrupts_during_the_block_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupted_by_sigterm():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
