"""What processes and databases take at a moment, from /proc and the databases themselves."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine, func, inspect, select, table, text

from dcc.operations.metrics.disk_metrics import database_bytes, tree_size
from dcc.runtime.processes import give_back_freed_memory
from tests.support.process_trees import children, descendants

_OF_USER = text("SELECT count(*) FROM information_schema.processlist WHERE user = 'dcc'")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """A process: resident bytes, open files, threads, children, and connections over TCP that are open."""

    rss: int
    files: int
    threads: int
    children: int
    connections: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment after a session: `session` counts from 1; `rows` and `sizes` by table and database."""

    session: int
    seconds_since_begin: float
    session_seconds: float
    quiet: bool
    zip_actions: int
    process: ProcessSample
    daemon: Mapping[str, ProcessSample]
    server_connections: int | None
    staging_bytes: int
    rows: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def sample_process(pid: int | None = None) -> ProcessSample:
    """A process, this one by default, which first returns what it has freed: what it still holds may be lost."""
    if pid is None:
        give_back_freed_memory()
    place = Path("/proc") / str(pid or os.getpid())
    # What another thread closes meanwhile is not counted.
    files = [_link(entry) for entry in place.joinpath("fd").iterdir()]
    sockets = {name for name in files if name.startswith("socket:")}
    return ProcessSample(
        rss=int(place.joinpath("statm").read_text().split()[1]) * _PAGE,
        # One is that of listing them.
        files=sum(bool(name) and not name.endswith("/fd") for name in files),
        threads=_threads() if pid is None else len(list(place.joinpath("task").iterdir())),
        children=len(children(pid or os.getpid())),
        connections=len(sockets & _established(place)),
    )


def _threads() -> int:
    """The threads of this process, but for the one that keeps all time limits and outlives them."""
    names = [thread.name for thread in threading.enumerate()]
    return len(names) - min(1, names.count("time limits"))


def _link(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        return ""


def _established(place: Path) -> set[str]:
    found = set()
    for name in ("tcp", "tcp6"):
        for line in place.joinpath("net", name).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "01":
                found.add(f"socket:[{words[9]}]")
    return found


def sample_tree(pid: int) -> dict[str, ProcessSample]:
    """A process and those below it that stay, by what they do: workers of single runs come and go."""
    samples: dict[str, ProcessSample] = {}
    for one in (pid, *descendants(pid)):
        try:
            words = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
            if any(part in b" ".join(words) for part in (b"execute_run", b"multiprocessing", b"worker_processes")):
                continue
            samples[f"{_name(words)} {one}"] = sample_process(one)
        except (OSError, IndexError):
            continue
    return samples


def _name(words: list[bytes]) -> str:
    told = [word.decode() for word in words if word and not word.startswith((b"/", b"-"))]
    return " ".join(told[:3]) or "process"


def count_rows(engine: Engine, prefix: str, schema: str | None = None) -> dict[str, int]:
    """How many rows each table of a database has, by `<prefix>.<table>`."""
    names = inspect(engine).get_table_names(schema=schema)
    with engine.connect() as connection:
        return {
            f"{prefix}.{name}": connection.scalar(select(func.count()).select_from(table(name, schema=schema))) or 0
            for name in names
        }


def server_connections(engine: Engine) -> int | None:
    """How many connections its server has besides the one that asks; None where there is no server."""
    if engine.dialect.name == "sqlite":
        return None
    with engine.connect() as connection:
        return int(connection.execute(_OF_USER).scalar_one()) - 1


def sizes(engines: Mapping[str, Engine], folders: Mapping[str, Path]) -> dict[str, int]:
    """What databases and folders take on disk, by name."""
    found = {name: database_bytes(engine) for name, engine in engines.items()}
    return found | {name: tree_size(folder).size_bytes for name, folder in folders.items()}
