"""An interrupt ends what runs, even where Python cannot raise it."""

import signal
import subprocess
import sys

import pytest

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
