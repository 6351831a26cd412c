"""`.ci/apt-get` waits for who has the package manager; tried with apt itself, in directories of its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent.parent / ".ci" / "apt-get"
HELD_SECONDS = 3.0
LOCKS = {
    "lists/lock": ["update", "-qq"],
    "dpkg/lock-frontend": ["install", "-qq", "-y"],
    "dpkg/lock": ["install", "-qq", "-y"],
    "cache/archives/lock": ["clean"],
}

pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="there is no apt-get")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A package manager of its own: no package, no list."""
    for folder in ("lists/partial", "dpkg", "cache/archives/partial", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dpkg" / "status").touch()
    (tmp_path / "etc" / "sources.list").touch()
    (tmp_path / "apt.conf").write_text(
        f'Dir::State "{tmp_path}"; Dir::State::lists "{tmp_path}/lists"; Dir::State::status "{tmp_path}/dpkg/status";\n'
        f'Dir::Cache "{tmp_path}/cache"; Dir::Etc "{tmp_path}/etc"; APT::Sandbox::User "";\n'
    )
    return tmp_path


def apt_get(machine: Path, *arguments: str, seconds: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "APT_CONFIG": str(machine / "apt.conf"), "APT_SECONDS": str(seconds)}
    return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True, check=False)


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """Another process has the lock for a while."""
    taken, told = os.pipe()
    child = os.fork()
    if child == 0:
        with lock.open("w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.write(told, b"!")
            time.sleep(HELD_SECONDS)
            os._exit(0)
    os.read(taken, 1)
    try:
        yield
    finally:
        os.waitpid(child, 0)
        os.close(taken)
        os.close(told)


@pytest.mark.parametrize("lock", LOCKS)
def test_it_waits_for_a_lock(lock: str, machine: Path) -> None:
    with held(machine / lock):
        began = time.monotonic()
        ended = apt_get(machine, *LOCKS[lock], seconds=60)
        waited = time.monotonic() - began
    assert ended.returncode == 0, ended.stderr
    assert waited > HELD_SECONDS - 1


@pytest.mark.parametrize("script", ["install", "install-servers"])
def test_the_scripts_use_it(script: str) -> None:
    lines = (PROGRAM.parent / script).read_text("utf-8").splitlines()
    used = [line for line in lines if "apt-get update" in line or "apt-get install -qq" in line]
    assert used
    assert all(line.count("apt-get") == line.count(".ci/apt-get") for line in used)
