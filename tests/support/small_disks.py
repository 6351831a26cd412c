"""A small file system of a test's own, which fills up as a disk does and can be made larger."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    """The folder at which the file system is mounted."""

    path: Path

    def resize(self, size_bytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size_bytes}", self.path], check=True)

    def fill(self, leave: int = 0) -> None:
        """Write a file until no more than so many bytes are free."""
        free = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize
        with (self.path / "ballast").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free - leave, 1))

    def make_room(self) -> None:
        (self.path / "ballast").unlink()


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Have a file that not even root can write to; the test is skipped where this user may not mount."""
    with _mounted(path, "--bind", path):
        subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
        yield


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount one at `path`; the test is skipped where this user may not."""
    path.mkdir(parents=True)
    with _mounted(path, "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "tmpfs"):
        yield SmallDisk(path)


@contextmanager
def _mounted(path: Path, *options: str | Path) -> Iterator[None]:
    mounted = os.geteuid() == 0 and subprocess.run(["mount", *options, path], check=False).returncode == 0
    if not mounted:
        pytest.skip("only root may mount a file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
