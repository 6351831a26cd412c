"""Which process does the work of a run: tags say so, by which others can finish the run if that process dies.

Dagster hides tags that begin with `.dagster/`, and copies all tags to runs that repeat a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dagster import DagsterInstance, DagsterRun

from dcc.runtime.processes import Process

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


def tag_as_started(instance: DagsterInstance, run: DagsterRun) -> None:
    """Tag a run with this process, unless a process has begun it."""
    if process_in(own_tags(instance, run)) is None:
        instance.add_run_tags(run.run_id, process_tag(STARTED_TAG))


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
