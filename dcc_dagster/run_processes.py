"""Which process does the work of a run: tags say so, by which others can finish the run if that process dies.

Dagster hides tags that begin with `.dagster/`, and copies all tags to runs that repeat a run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from dagster import DagsterInstance, DagsterRun

from dcc.runtime.processes import Process

log = logging.getLogger(__name__)

LIFE_SECONDS: Final = 300.0
"""The time between two signs of life of a run without a session."""

STARTED_TAG: Final = ".dagster/dcc_started"
"""Tag of every run that a process has begun, before its first step, which may wait for its turn: the process."""
PROCESS_TAG: Final = ".dagster/dcc_process"
"""Tag of runs whose session is open, and of those of commands: the process."""
FORMER_PROCESS_TAG: Final = "dcc/process"
"""The same tag of runs that earlier versions started."""
_TAGS: Final = (PROCESS_TAG, FORMER_PROCESS_TAG, STARTED_TAG)


def process_tag(name: str = PROCESS_TAG) -> dict[str, str]:
    """The tag of a run of this process."""
    process = Process.this()
    return {name: f"{process.host}:{process.pid}:{process.started}"}


@contextmanager
def showing_life(instance: DagsterInstance, run: DagsterRun) -> Iterator[None]:
    """Tag a run with this process, unless a process has begun it, and again every few minutes during the block.

    Other machines see by the time of the last tag that the process lives. A run with a session needs it no more: its
    session shows that.
    """
    tag = process_tag(STARTED_TAG)
    # Another resource of the run may have tagged it since.
    if process_in(own_tags(instance, instance.get_run_by_id(run.run_id) or run)) is not None:
        yield
        return
    instance.add_run_tags(run.run_id, tag)
    is_over = Event()

    def show() -> None:
        while not is_over.wait(LIFE_SECONDS):
            try:
                present = instance.get_run_by_id(run.run_id)
                if present is None or present.is_finished or PROCESS_TAG in own_tags(instance, present):
                    return
                instance.add_run_tags(run.run_id, tag)
            except Exception:
                # Whatever a storage raises: the next time may be better.
                log.info("Run %s could not be tagged with its process", run.run_id, exc_info=True)

    thread = Thread(target=show, name="life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def own_tags(instance: DagsterInstance, run: DagsterRun) -> dict[str, str]:
    """The tags of a run, without those of processes that are copied from the run that it repeats."""
    repeated = None if run.parent_run_id is None else instance.get_run_by_id(run.parent_run_id)
    copied = set() if repeated is None else {(name, repeated.tags.get(name)) for name in _TAGS}
    return {name: text for name, text in run.tags.items() if (name, text) not in copied}


def process_in(tags: Mapping[str, str]) -> Process | None:
    """The process that the tags of a run name; None if none has begun it."""
    for text in (tags[name] for name in _TAGS if name in tags):
        if found := re.fullmatch(r"(.+):(\d{1,9}):(\d*)", text):
            return Process(found[1], int(found[2]), found[3])
    return None
