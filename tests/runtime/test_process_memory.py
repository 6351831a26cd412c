"""A process that works on and on takes no more memory than one that has just begun."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

pytestmark = pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="It is glibc that has pools.")

DOCUMENTS = 12
READS_DOCUMENTS = f"""
import os, sys, threading
from lxml import etree
from dcc.runtime.processes import keep_freed_memory_together

if sys.argv[1] == "together":
    keep_freed_memory_together()
large = b"<d>" + b"<e a='0123456789'>0123456789</e>" * 20_000 + b"</d>"

def resident():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024

class Reader(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.turn, self.ready = threading.Event(), threading.Event()

    def run(self):
        self.kept = [etree.fromstring(b"<d/>")]
        self.ready.set()
        self.turn.wait()
        tree = etree.fromstring(large)
        # What lives on keeps what lies before it from going back to the system.
        self.kept.append(etree.fromstring(b"<d/>"))
        self.taken = resident()
        del tree
        self.ready.set()
        threading.Event().wait()

def wait(reader):
    reader.ready.wait()
    reader.ready.clear()

readers = [Reader() for _ in range({DOCUMENTS})]
for reader in readers:
    reader.start()
    wait(reader)
before = resident()
for reader in readers:
    reader.turn.set()
    wait(reader)
    print(reader.taken - before, resident() - before, flush=True)
"""
"""Reads a large document in one thread after the other; prints what that took, with and after each of them."""


def taken(how: str, environment: Mapping[str, str] | None = None) -> list[tuple[int, int]]:
    """The bytes that the process had taken with each document, and once it had let go of it."""
    lines = [line.split() for line in run(READS_DOCUMENTS, how, environment=environment).splitlines()]
    return [(int(with_it), int(after)) for with_it, after in lines]


def run(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints, in an environment that says nothing about pools but `environment`."""
    mine = {name: value for name, value in os.environ.items() if name not in {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"}}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env={**mine, **(environment or {})}, capture_output=True, text=True, check=True)
    return done.stdout


def test_what_one_thread_has_freed_the_next_one_takes() -> None:
    sizes = taken("together")
    (document, _), (_, after_four), (_, after_all) = sizes[0], sizes[3], sizes[-1]
    assert document > 5_000_000
    assert after_all < after_four + document / 2


def test_without_that_each_thread_would_leave_the_memory_of_a_document() -> None:
    """Or the test above would hold nothing. On one core there are eight pools, on two sixteen."""
    sizes = taken("apart")
    (document, _), (_, after_four), (_, after_all) = sizes[0], sizes[3], sizes[-1]
    assert after_all > after_four + 2 * document


@pytest.mark.parametrize(
    "said",
    [{"MALLOC_ARENA_MAX": "16"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=16"}],
    ids=lambda said: next(iter(said)),
)
def test_what_the_operator_says_counts(said: Mapping[str, str]) -> None:
    sizes = taken("together", said)
    (document, _), (_, after_four), (_, after_all) = sizes[0], sizes[3], sizes[-1]
    assert after_all > after_four + 2 * document


PARSES_AT_ONCE = """
import ctypes, os, sys, threading
from lxml import etree
from dcc.runtime.processes import give_threads_their_own_memory, keep_freed_memory_together

keep_freed_memory_together()
if sys.argv[1] == "apart":
    give_threads_their_own_memory(4)
together = threading.Barrier(4)

def parse():
    together.wait()
    kept = etree.fromstring(b"<d>" + b"<e/>" * 100 + b"</d>")
    together.wait()

threads = [threading.Thread(target=parse) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.dup2(1, 2)
ctypes.CDLL(None).malloc_stats()
"""
"""Prints glibc's statistics of its pools, after four threads parsed documents at once."""


@pytest.mark.parametrize(
    ("how", "said", "pools"), [("together", {}, 2), ("apart", {}, 5), ("apart", {"MALLOC_ARENA_MAX": "3"}, 3)]
)
def test_threads_that_parse_at_once_have_a_pool_each(how: str, said: Mapping[str, str], pools: int) -> None:
    assert run(PARSES_AT_ONCE, how, environment=said).count("Arena ") == pools


LETS_GO_OF_CYCLES = """
import gc, sys
from dcc.runtime.processes import give_back_freed_memory

def resident():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
    return int(line.split()[1]) * 1024

class Connection:
    def __init__(self):
        self.itself = self
        self.buffers = [b"." * 10_000 for _ in range(100)]

gc.collect()
before = resident()
connections = [Connection() for _ in range(20)]
last = b"." * 10_000
del connections
held = resident() - before
give_back_freed_memory()
print(held, resident() - before)
"""


def test_what_is_left_in_cycles_goes_back_to_the_system() -> None:
    held, left = map(int, run(LETS_GO_OF_CYCLES).split())
    assert held > 15_000_000
    assert left < 2_000_000


COMMAND_LINE = """
import os, subprocess, sys
from dcc.cli import main
show = [sys.executable, "-c", "import os; print(os.environ['MALLOC_ARENA_MAX'])"]
main.dcc.main = lambda **_: subprocess.run(show, check=True)
main.main()
"""


def test_a_command_has_the_processes_that_it_starts_do_the_same() -> None:
    """As `dcc daemon` starts Dagster's, and they those of the runs."""
    assert run(COMMAND_LINE) == "2\n"
