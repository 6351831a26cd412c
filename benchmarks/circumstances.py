"""Where and with which versions something was measured."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version

from benchmarks.measuring import ROOT

_PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"

TOOLS = {
    "sftp": ["ssh", "-V"],
    "lftp": ["lftp", "--version"],
    "curl": ["curl", "--version"],
    "vsftpd": ["vsftpd", "-v"],
    "unzip": ["unzip", "-v"],
    "md5sum": ["md5sum", "--version"],
    "xmllint": ["xmllint", "--version"],
    "sqlite3": ["sqlite3", "--version"],
    "mariadb": ["mariadbd", "--version"],
    "redis": ["redis-server", "--version"],
    "taskset": ["taskset", "--version"],
}
"""How each tool that is measured beside the platform tells its version, by the name that benchmarks give it."""

_STEPS = 20_000_000
_PACKAGES = ("dcc", "dagster", "lxml", "paramiko", "sqlalchemy")


def installed(commands: Iterable[str]) -> bool:
    """Whether all of these commands are there."""
    return all(shutil.which(command, path=_PATH) for command in commands)


def program(command: str) -> str:
    """Where a command is. Raises FileNotFoundError when it is not installed."""
    found = shutil.which(command, path=_PATH)
    if found is None:
        raise FileNotFoundError(f"{command} is not installed. As root, make bench installs it.")
    return found


def missing(tools: Iterable[str]) -> list[str]:
    """Those that are not installed."""
    return sorted(tool for tool in set(tools) if not installed(TOOLS[tool][:1]))


def circumstances() -> dict[str, str]:
    """The time, the state of the code, the machine, how busy it was, and how fast."""
    return {
        "measured": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "pace": f"{_seconds_of_a_loop():.2f} s for a loop of {_STEPS // 1_000_000} million steps in Python",
    }


def _commit() -> str:
    """The commit that was measured, and whether modules differ from it; `unknown` outside of a git repository."""
    asked = (["rev-parse", "--short=10", "HEAD"], ["status", "--porcelain", "--", "*.py"])
    try:
        commit, changed = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True, text=True).stdout.strip()
            for words in asked
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes" if changed else commit


def _seconds_of_a_loop() -> float:
    """How fast the machine is at present: one that is shared with others is twice as fast in one hour as in another."""
    began = time.perf_counter()
    for _ in range(_STEPS):
        pass
    return time.perf_counter() - began


def versions(tools: Iterable[str]) -> dict[str, str]:
    """The versions of Python, of the platform's packages and of `tools`."""
    told = {"Python": platform.python_version()} | {package: version(package) for package in _PACKAGES}
    for tool in tools:
        command, *words = TOOLS[tool]
        if installed([command]):
            told[tool] = _first_line([program(command), *words])
    return told


def _first_line(command: list[str]) -> str:
    # vsftpd tells its version on what should be its input.
    with tempfile.TemporaryFile("w+") as answer:
        subprocess.run(command, stdin=answer, stdout=answer, stderr=answer)
        answer.seek(0)
        return next((line.strip() for line in answer if line.strip()), "unknown")
