"""A crawling session that tells of every connection it makes and every file that it opens, makes, moves or removes.

    python -m tests.hostile.audited_session HOME OUTPUT NOTES ALLOWED_READS...

Python's audit events are noted from before the session's first step. Written to OUTPUT, as JSON: the addresses that
were connected to or looked up, the files written outside HOME, those read beside HOME, the ALLOWED_READS, the program
and the system, the programs that were started, the peak of memory in MB, the seconds taken. The processes that it
starts are audited as well, where PYTHONPATH names `startup`: each adds a line to the file NOTES when it begins, and one
for everything of the kind that it does.
"""

import json
import os
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEVICES = ("/dev/null", "/dev/random", "/dev/tty", "/dev/urandom")
SYSTEM = ("/etc", "/usr", "/lib", "/proc", "/sys", "/opt", *DEVICES)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "mkdir",
    "remove",
    "rmdir",
    "rename",
    "link",
    "symlink",
    "chmod",
    "chown",
    "utime",
    "truncate",
    "mkfifo",
    "mknod",
)
CHANGES = {f"os.{name}" for name in _CHANGES} | {"shutil.rmtree"}
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn"}


class Auditor:
    """Notes what happens once it is `watching`."""

    def __init__(self, home: Path, reads: list[str]) -> None:
        paths = [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), str(ROOT), *SYSTEM]
        self._written = str(home.resolve())
        self._read = tuple(os.path.realpath(path) for path in [*paths, *reads, self._written])
        self.watching = False
        self._resolving = threading.local()
        self.seen: dict[str, set[str]] = {"hosts": set(), "writes": set(), "reads": set(), "programs": set()}

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Python calls this for each event."""
        if not self.watching or getattr(self._resolving, "path", False):
            return
        if event == "socket.connect":
            self._add("hosts", str(arguments[1]))
        elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
            self._add("hosts", str(arguments[:2]))
        elif event in STARTS:
            self._add("programs", os.fsdecode(arguments[0]))
        elif event == "open":
            self._note(arguments[0], bool((arguments[2] or 0) & WRITING))
        elif event in CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                self._note(path, True)

    def _note(self, path: object, writes: bool) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        # To resolve a path makes events of its own; those of other threads count meanwhile.
        self._resolving.path = True
        real = os.path.realpath(os.fsdecode(path))
        self._resolving.path = False
        if writes:
            if not _is_in(real, (self._written, *DEVICES)):
                self._add("writes", real)
        elif not _is_in(real, self._read):
            self._add("reads", real)

    def _add(self, kind: str, what: str) -> None:
        self.seen[kind].add(what)


class NotingAuditor(Auditor):
    """Notes at once, in a file that is open: the process may be killed."""

    def __init__(self, home: Path, notes: int) -> None:
        super().__init__(home, [])
        self._notes = notes

    def _add(self, kind: str, what: str) -> None:
        os.write(self._notes, f"{json.dumps([kind, what])}\n".encode())


def audit_helper(home: str, notes: str) -> None:
    """Have this process audited from now on."""
    file = os.open(notes, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    auditor = NotingAuditor(Path(home), file)
    os.write(file, f"{json.dumps(['begun', os.getpid()])}\n".encode())
    sys.addaudithook(auditor)
    auditor.watching = True


def _is_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def peak_megabytes() -> int:
    """The peak of this process's memory; that of `getrusage` is at least that of the process which started it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) // 1024


def main(home: str, output: str, notes: str, reads: list[str]) -> None:
    # Of the environment, processes that are started get what is Python's.
    os.environ.update(PYTHON_AUDITED_HOME=home, PYTHON_AUDITED_NOTES=notes)
    auditor = Auditor(Path(home), reads)
    sys.addaudithook(auditor)

    from dcc.operations.session_work import open_session
    from dcc.session.archives.archive_phases import process_zip_actions
    from dcc.session.source_crawls import crawl_file_sources
    from dcc.settings import load_settings
    from dcc.tracker.database import open_tracker

    settings = load_settings(home=Path(home))
    tracker = open_tracker(settings)
    began = time.monotonic()
    auditor.watching = True
    with open_session(tracker, settings) as session:
        for _ in crawl_file_sources(session):
            pass
        for _ in process_zip_actions(session):
            pass
    auditor.watching = False
    told: dict[str, object] = {name: sorted(found) for name, found in auditor.seen.items()}
    told["megabytes"] = peak_megabytes()
    told["seconds"] = time.monotonic() - began
    Path(output).write_text(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:4], sys.argv[4:])
