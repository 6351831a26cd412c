"""Processes: how much memory they take, what of them is nobody else's, and those that work for others."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dcc.errors import ConfigurationError
from dcc.runtime.processes import environment_without_secrets
from dcc.runtime.worker_processes import WorkerProcesses

with_pools = pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="It is glibc that has pools.")
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


@with_pools
def test_what_one_thread_has_freed_the_next_one_takes() -> None:
    sizes = taken("together")
    (document, _), (_, after_four), (_, after_all) = sizes[0], sizes[3], sizes[-1]
    assert document > 5_000_000
    assert after_all < after_four + document / 2


@with_pools
def test_without_that_each_thread_would_leave_the_memory_of_a_document() -> None:
    """Or the test above would hold nothing. On one core there are eight pools, on two sixteen."""
    sizes = taken("apart")
    (document, _), (_, after_four), (_, after_all) = sizes[0], sizes[3], sizes[-1]
    assert after_all > after_four + 2 * document


@with_pools
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


@with_pools
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


@with_pools
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


@with_pools
def test_a_command_has_the_processes_that_it_starts_do_the_same() -> None:
    """As `dcc daemon` starts Dagster's, and they those of the runs."""
    assert run(COMMAND_LINE) == "2\n"


SECRET = "correct horse battery staple"
ENDS = """
import os, resource, signal, sys
from pathlib import Path
{protected}
os.chdir(sys.argv[1])
print(Path("/proc/self/limits").read_text())
sys.stdout.flush()
if sys.argv[2] == "abort":
    os.abort()
os.kill(os.getpid(), int(sys.argv[2]))
"""
PROTECTED = """
from dcc.runtime.processes import forbid_core_dumps
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
forbid_core_dumps()
"""
"""Whatever the limit of this machine is, the process begins with the largest one."""


@pytest.mark.parametrize("how", ["abort", str(int(signal.SIGSEGV)), str(int(signal.SIGQUIT))])
def test_a_process_that_holds_secrets_leaves_no_core_dump(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", ENDS.format(protected=PROTECTED), str(tmp_path), how]
    process = subprocess.Popen(
        command, env=os.environ | {"CENTRE_PASSWORD": SECRET}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    limits = process.stdout.read().decode()
    process.stdout.close()
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -os.WTERMSIG(status)
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert list(tmp_path.iterdir()) == []
    (cores,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert cores.split()[4:6] == ["0", "0"]


NOBODY = 65_534
HOLDS_SECRETS = f"""
import ctypes, os, sys
from dcc.runtime.processes import forbid_core_dumps
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
# Linux protects who has changed the user: here as any process of that user begins.
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "protected":
    forbid_core_dumps()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="It is Linux that can keep memory private.")
@pytest.mark.parametrize("protected", [True, False])
def test_memory_and_environment_are_closed_to_other_processes_of_the_same_user(protected: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("Only root can become another user.")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS_SECRETS, "protected" if protected else "open"],
        env=os.environ | {"CENTRE_PASSWORD": SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    for place in ("environ", "maps"):
        seen = subprocess.run(
            ["cat", f"/proc/{process.pid}/{place}"], user=NOBODY, cwd="/", capture_output=True, check=False
        )
        assert (seen.stdout == b"") is protected, place
        assert (b"Permission denied" in seen.stderr) is protected, place
    process.communicate()


WITHOUT_UMASK = """
import os, stat, sys
os.umask(0)
from dcc.cli import main
main.dcc.main = lambda **_: open(sys.argv[1], "w").close() or os.mkdir(sys.argv[1] + ".d") or print(
    open("/proc/self/limits").read())
main.main()
"""


def test_the_command_protects_itself_and_its_files_before_anything_else(tmp_path: Path) -> None:
    """Whatever the umask: here one that lets everybody write."""
    path = tmp_path / "made"
    done = subprocess.run([sys.executable, "-c", WITHOUT_UMASK, str(path)], capture_output=True, text=True, check=True)
    assert "Max core file size        0                    0" in done.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(Path(f"{path}.d").stat().st_mode) == 0o750


def test_a_stricter_umask_stays(tmp_path: Path) -> None:
    stricter = WITHOUT_UMASK.replace("os.umask(0)", "os.umask(0o077)")
    path = tmp_path / "made"
    subprocess.run([sys.executable, "-c", stricter, str(path)], capture_output=True, check=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _own_surroundings(_: object) -> bytes:
    return Path("/proc/self/environ").read_bytes() + Path("/proc/self/cmdline").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="Where there is no /proc, nobody looks there.")
def test_the_process_that_reads_documents_is_given_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DCC_TRACKER_URL",
        "DCC_QC_URL",
        "DCC_SMTP_URL",
        "DCC_KEY_PASSPHRASE",
        "CENTRE_PASSWORD",
        "SSH_AUTH_SOCK",
    ):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("DCC_LOG_LEVEL", "debug")
    processes = WorkerProcesses(1, id, 0)
    seen = processes.submit("a.xml", _own_surroundings).result()
    processes.stop()
    assert b"multiprocessing" in seen
    assert b"DCC_LOG_LEVEL=debug" in seen
    assert SECRET.encode() not in seen
    assert environment_without_secrets().keys() >= {"PATH", "DCC_LOG_LEVEL"}


TASKS = 20


def _begin_at_the_second_try(mark: Path, kind: type[Exception]) -> str:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return "begun"
    if kind is OSError:
        raise ConfigurationError("The schemas cannot be read.") from OSError("Input/output error")
    raise kind


def _begin_never() -> None:
    raise ConfigurationError("There is no such module of rules.")


def _work(begun: str, number: int) -> tuple[str, int]:
    return begun, number


@pytest.mark.parametrize("kind", [MemoryError, OSError])
def test_a_process_that_cannot_begin_once_costs_no_task(tmp_path: Path, kind: type[Exception]) -> None:
    processes = WorkerProcesses(2, _begin_at_the_second_try, tmp_path / "mark", kind)
    try:
        done = [processes.submit(f"{number}", _work, number) for number in range(TASKS)]
        assert [one.result() for one in done] == [("begun", number) for number in range(TASKS)]
    finally:
        processes.stop()


def test_tasks_fail_by_what_lets_no_process_begin() -> None:
    processes = WorkerProcesses(2, _begin_never)
    try:
        for number in range(3):
            with pytest.raises(ConfigurationError, match="There is no such module of rules"):
                processes.submit(f"{number}", _work, number).result()
    finally:
        processes.stop()
