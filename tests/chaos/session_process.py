"""A session in a process of its own that may be told to die at a certain moment.

`run` is what the process does; it is started by a fork server, since to import everything takes longer than a session.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event

from tests.support.environments import clean
from tests.support.prepared_processes import run_here

_FILE_EVENTS: Final = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.utime"})


def run(environment: Mapping[str, str], output: Path, die: tuple[str, int] | None) -> None:
    """Run `dcc crawl` and exit as it does; what it prints goes to the file `output`.

    `die` is a kind of operation (`statement`: of SQL; `file`: on a path below DCC_HOME or staging) and the number of
    the one before which the process is killed. How many there were is in `<output>.counts` when it lives.
    """
    counts = _count_operations(environment["DCC_HOME"], die)
    try:
        run_here(["dcc", "crawl"], Path.cwd(), clean(**environment), output, output)
    finally:
        Path(f"{output}.counts").write_text(json.dumps({kind: next(count) for kind, count in counts.items()}))
        sys.stdout.flush()
        sys.stderr.flush()


def _count_operations(home: str, die: tuple[str, int] | None) -> dict[str, itertools.count[int]]:
    counts = {"statement": itertools.count(1), "file": itertools.count(1)}
    kind, number = die or ("", 0)

    def happens(of_kind: str) -> None:
        if next(counts[of_kind]) == number and of_kind == kind:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_statement(*_: Any) -> None:
        happens("statement")

    def on_event(name: str, arguments: tuple[Any, ...]) -> None:
        if name in _FILE_EVENTS and isinstance(arguments[0], str) and arguments[0].startswith(home):
            happens("file")

    event.listen(Engine, "before_cursor_execute", on_statement)
    event.listen(Engine, "commit", on_statement)
    sys.addaudithook(on_event)
    return counts
