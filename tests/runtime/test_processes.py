"""Processes: how much memory they take, what of them is nobody else's, and those that work for others."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dcc.errors import ConfigurationError, InternalFaultError
from dcc.runtime.processes import environment_without_secrets
from dcc.runtime.worker_processes import WorkerProcesses

with_pools = pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="It is glibc that has pools.")


def run(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What a program prints, in an environment that says nothing about pools but `environment`."""
    mine = {name: value for name, value in os.environ.items() if name not in {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"}}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env={**mine, **(environment or {})}, capture_output=True, text=True, check=True)
    return done.stdout


PARSES_AT_ONCE = """
import ctypes, os, sys, threading
from lxml import etree
from dcc.runtime.processes import give_threads_their_own_memory, keep_freed_memory_together

if sys.argv[1] != "as ever":
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
    ("how", "said", "pools"),
    [
        ("as ever", {}, 5),
        ("together", {}, 2),
        ("together", {"MALLOC_ARENA_MAX": "16"}, 5),
        ("together", {"GLIBC_TUNABLES": "glibc.malloc.arena_max=16"}, 5),
        ("apart", {}, 5),
        ("apart", {"MALLOC_ARENA_MAX": "3"}, 3),
    ],
)
def test_threads_share_memory_unless_they_parse_at_once_or_the_operator_says_otherwise(
    how: str, said: Mapping[str, str], pools: int
) -> None:
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


COMMAND = """
import os, stat, subprocess, sys
os.umask(int(sys.argv[2], 8))
from dcc.cli import main

def made(**_):
    open(sys.argv[1], "w").close()
    os.mkdir(sys.argv[1] + ".d")
    print(open("/proc/self/limits").read(), flush=True)
    subprocess.run([sys.executable, "-c", "import os; print('pools', os.environ.get('MALLOC_ARENA_MAX'))"], check=True)

main.dcc.main = made
main.main()
"""


@pytest.mark.parametrize(("umask", "file", "directory"), [("0", 0o640, 0o750), ("077", 0o600, 0o700)])
def test_the_command_protects_itself_and_its_files_before_anything_else_and_its_processes_share_memory(
    tmp_path: Path, umask: str, file: int, directory: int
) -> None:
    """Whatever the umask: one that lets everybody write, and a stricter one, which stays."""
    path = tmp_path / "made"
    printed = run(COMMAND, str(path), umask)
    assert "Max core file size        0                    0" in printed
    assert "CS_GNU_LIBC_VERSION" not in os.confstr_names or printed.endswith("\npools 2\n")
    assert stat.S_IMODE(path.stat().st_mode) == file
    assert stat.S_IMODE(Path(f"{path}.d").stat().st_mode) == directory


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
    assert b"worker_processes" in seen
    assert b"DCC_LOG_LEVEL=debug" in seen
    assert SECRET.encode() not in seen
    assert environment_without_secrets().keys() >= {"PATH", "DCC_LOG_LEVEL"}


def test_a_process_loads_the_platform_that_started_it_and_none_that_lies_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody starts the installed platform in a checkout of another version."""
    (tmp_path / "dcc").mkdir()
    (tmp_path / "dcc" / "__init__.py").write_text("raise SystemExit('another version')")
    monkeypatch.chdir(tmp_path)
    processes = WorkerProcesses(1, int)
    try:
        assert processes.submit("a.xml", divmod, 3).result() == (0, 0)
    finally:
        processes.stop()


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


def test_a_process_that_is_killed_before_it_begins_costs_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is sent more to begin with than its connection holds."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nmkdir {tmp_path}/killed 2>/dev/null && kill -9 $$\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    processes = WorkerProcesses(1, len, bytes(10_000_000))
    try:
        assert processes.submit("a.xml", divmod, 3).result() == (3_333_333, 1)
    finally:
        processes.stop()


class _UnportableError(Exception):
    """It cannot be sent to another process."""

    def __reduce__(self) -> str:
        raise TypeError


def _fail(_: int) -> None:
    raise _UnportableError("a fault")


def test_what_cannot_be_sent_from_a_process_is_told_as_a_fault() -> None:
    processes = WorkerProcesses(1, int)
    try:
        with pytest.raises(InternalFaultError, match="a fault"):
            processes.submit("a.xml", _fail).result()
    finally:
        processes.stop()


def test_that_no_process_can_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    processes = WorkerProcesses(1, int)
    try:
        assert isinstance(processes.submit("a.xml", divmod, 3).exception(60), FileNotFoundError)
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
