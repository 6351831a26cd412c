"""Processes that work for this one by `concurrent.futures`, and are told none of its secrets."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import popen_spawn_posix, reduction, resource_tracker, spawn
from multiprocessing.context import SpawnContext, SpawnProcess, set_spawning_popen
from multiprocessing.util import Finalize
from typing import Any

from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import end_with_parent, environment_without_secrets, forbid_core_dumps


def worker_processes(number: int, begin: Callable[..., object], *given: Any) -> ProcessPoolExecutor:
    """So many processes, each of which calls `begin` with what is given before it does anything else.

    They end with the thread that gives them the first work, and so with this process, however it ends.
    """
    return ProcessPoolExecutor(number, mp_context=_Context(), initializer=_begin, initargs=(os.getpid(), begin, given))


def _begin(parent: int, begin: Callable[..., object], given: tuple[Any, ...]) -> None:
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    forbid_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_logging(plan_from_environment())
    begin(*given)


class _Popen(popen_spawn_posix.Popen):
    """Starts a process as `multiprocessing` does, but for its environment, in which are no secrets.

    What this process's main module loads is not loaded there either.
    """

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        tracker = int(resource_tracker.getfd() or 0)
        told = spawn.get_preparation_data(process_obj.name)
        for name in ("init_main_from_name", "init_main_from_path"):
            told.pop(name, None)
        message = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(told, message)
            reduction.dump(process_obj, message)
        finally:
            set_spawning_popen(None)
        parent_r, child_w = os.pipe()
        child_r, parent_w = os.pipe()
        self.finalizer = Finalize(self, _close, (parent_r, parent_w))
        try:
            command = spawn.get_command_line(tracker_fd=tracker, pipe_handle=child_r)
            hands = [*self._fds, tracker, child_r, child_w]
            started = subprocess.Popen(command, env=environment_without_secrets(), pass_fds=hands)
        finally:
            os.close(child_r)
            os.close(child_w)
        # It is waited for by `multiprocessing`.
        started.returncode = 0
        self.pid, self.sentinel = started.pid, parent_r
        with open(parent_w, "wb", closefd=False) as file:
            file.write(message.getbuffer())


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:  # noqa: N802
        return _Popen(process_obj)


class _Context(SpawnContext):
    Process = _Process
