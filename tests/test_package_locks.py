"""`.ci/apt-get` waits for who has the package manager; tried with apt itself, in directories of its own."""

import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / ".ci" / "apt-get"
HELD_SECONDS = 1.0
LOCKS = {
    "lists/lock": ["update", "-qq"],
    "dpkg/lock-frontend": ["install", "-qq", "-y"],
    "dpkg/lock": ["install", "-qq", "-y"],
    "cache/archives/lock": ["clean"],
}

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="there is no apt-get")


def machine(folder: Path) -> Path:
    """A package manager of its own: no package, no list."""
    for part in ("lists/partial", "dpkg", "cache/archives/partial", "etc"):
        (folder / part).mkdir(parents=True)
    (folder / "dpkg" / "status").touch()
    (folder / "etc" / "sources.list").touch()
    (folder / "apt.conf").write_text(
        f'Dir::State "{folder}"; Dir::State::lists "{folder}/lists"; Dir::State::status "{folder}/dpkg/status";\n'
        f'Dir::Cache "{folder}/cache"; Dir::Etc "{folder}/etc"; APT::Sandbox::User "";\n'
    )
    return folder


def apt_get(machine: Path, *arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "APT_CONFIG": str(machine / "apt.conf"), "APT_SECONDS": str(seconds)}
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Another process has the lock."""
    taken, told = os.pipe()
    child = os.fork()
    if child == 0:
        with lock.open("w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(told, b"!")
            signal.pause()
    os.read(taken, 1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(taken)
        os.close(told)


def test_it_waits_for_a_lock(tmp_path: Path) -> None:
    machines = {lock: machine(tmp_path / str(number)) for number, lock in enumerate(LOCKS)}
    with ThreadPoolExecutor(len(LOCKS)) as threads:
        with ExitStack() as locks:
            for lock, one in machines.items():
                locks.enter_context(held(one / lock))
            waiting = {lock: threads.submit(apt_get, machines[lock], *LOCKS[lock], seconds=60) for lock in LOCKS}
            ended_early = wait(waiting.values(), HELD_SECONDS, FIRST_COMPLETED).done
        ended = {lock: one.result().returncode for lock, one in waiting.items()}
    assert (ended_early, ended) == (set(), dict.fromkeys(LOCKS, 0))


@pytest.mark.parametrize("script", ["install", "install-servers"])
def test_the_scripts_use_it(script: str) -> None:
    lines = (PROGRAM.parent / script).read_text("utf-8").splitlines()
    used = [line for line in lines if "apt-get update" in line or "apt-get install -qq" in line]
    assert used
    assert all(line.count("apt-get") == line.count(".ci/apt-get") for line in used)
