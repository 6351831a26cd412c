"""Processes that work for this one by `concurrent.futures`, without its secrets."""

from __future__ import annotations

import io
import logging
import os
import pickle
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import popen_spawn_posix, reduction, resource_tracker, spawn
from multiprocessing.context import SpawnContext, SpawnProcess, set_spawning_popen
from multiprocessing.util import Finalize
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from dcc.errors import DccError, HelperEndedError, InternalFaultError, fault_of, keep_place
from dcc.runtime.log_context import log_context, logging_about, with_log_context
from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import end_with_parent, environment_without_secrets, forbid_core_dumps

log = logging.getLogger(__name__)
E = TypeVar("E", bound=Exception)


@dataclass(eq=False)
class _Piece:
    """A task and its future; `name` is its name in messages."""

    name: str
    work: Callable[..., Any]
    given: tuple[Any, ...]
    future: Future[Any] = field(default_factory=Future)


class WorkerProcesses:
    """A number of processes, each of which first calls `begin` with the given arguments.

    Each task is first given what `begin` returned, or raises the DccError that `begin` raised. A process whose `begin`
    fails otherwise, or by an OSError, ends.

    They end with this process, however it ends. If one of them dies, for example without memory, the others go on. The
    tasks of dead processes are repeated one by one in a separate process, so that a task that kills its process each
    time costs no other.
    """

    def __init__(self, number: int, begin: Callable[..., object], *given: Any) -> None:
        self._number, self._begin, self._given = number, begin, given
        self._context = dict(log_context())
        self._pool: ProcessPoolExecutor | None = None
        self._alone: ProcessPoolExecutor | None = None
        self._suspects: deque[_Piece] = deque()
        # One thread starts all processes: they end with the thread that started them.
        self._to_do: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._keeper = Thread(target=with_log_context(self._keep), name="processes", daemon=True)
        self._keeper.start()

    def submit(self, name: str, work: Callable[..., Any], *given: Any) -> Future[Any]:
        """Submit a task; its future raises HelperEndedError if the task killed its process."""
        piece = _Piece(name, work, given)
        self._to_do.put(partial(self._give, piece))
        return piece.future

    def stop(self) -> None:
        """Kill the processes; their tasks have no result."""
        self._to_do.put(None)
        self._keeper.join()

    def _keep(self) -> None:
        while (step := self._to_do.get()) is not None:
            step()
        for pool in (self._pool, self._alone):
            if pool is not None:
                processes = list((pool._processes or {}).values())
                pool.shutdown(wait=False, cancel_futures=True)
                for process in processes:
                    process.kill()

    def _give(self, piece: _Piece) -> None:
        """Submit a task to the processes."""
        if self._pool is None:
            self._pool = self._new_pool(self._number)
        pool = self._pool
        try:
            done = pool.submit(_guarded, self._context, piece.work, piece.given)
        except BrokenProcessPool:
            self._pool = None
            self._give(piece)
        except Exception as error:  # such as that no process can be started
            piece.future.set_exception(error)
        else:
            done.add_done_callback(lambda done: self._to_do.put(partial(self._take, piece, pool, done)))

    def _take(self, piece: _Piece, pool: ProcessPoolExecutor, done: Future[Any]) -> None:
        """Take the result of a task."""
        if not _has_ended(done):
            _hand_on(done, piece.future)
            return
        if pool is self._pool:
            self._pool = None
            log.warning("A process that works for this one ended before its work was done")
        self._suspects.append(piece)
        if len(self._suspects) == 1:
            self._try_first()

    def _try_first(self) -> None:
        """Run the first suspect task in a process by itself."""
        if self._alone is None:
            self._alone = self._new_pool(1)
        piece = self._suspects[0]
        try:
            done = self._alone.submit(_guarded, self._context, piece.work, piece.given)
        except BrokenProcessPool:
            self._alone = None
            self._try_first()
        else:
            done.add_done_callback(lambda done: self._to_do.put(partial(self._take_alone, done)))

    def _take_alone(self, done: Future[Any]) -> None:
        piece = self._suspects.popleft()
        if _has_ended(done):
            self._alone = None
            piece.future.set_exception(
                HelperEndedError(
                    f"The process that works on {piece.name} ended before its work was done. Nothing of it was kept. "
                    "Try again; see the memory of this machine if it happens again."
                )
            )
        else:
            _hand_on(done, piece.future)
        if self._suspects:
            self._try_first()

    def _new_pool(self, number: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            number, mp_context=_Context(), initializer=_begin, initargs=(os.getpid(), self._begin, self._given)
        )


@dataclass
class _ThisProcess:
    """What `begin` returned in this process, or the error that each task raises instead."""

    result: Any = None
    error: DccError | None = None


_this_process = _ThisProcess()


def _has_ended(done: Future[Any]) -> bool:
    return not done.cancelled() and isinstance(done.exception(), BrokenProcessPool)


def _hand_on(done: Future[Any], future: Future[Any]) -> None:
    if done.cancelled():
        future.cancel()
    elif (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())


def _guarded(context: dict[str, Any], work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Run a task in a process, and make its exception portable."""
    with logging_about(**context):
        try:
            if _this_process.error is not None:
                raise _this_process.error
            return work(_this_process.result, *given)
        except Exception as error:
            if not isinstance(error, DccError):
                log.error("A process of the platform met a fault of the platform", exc_info=error)  # noqa: TRY400
            raise portable(error) from error


def portable(error: E) -> E | InternalFaultError:
    """An exception that can be sent to another process: itself, or an InternalFaultError instead."""
    keep_place(error)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    except Exception:
        return InternalFaultError(fault_of(error))
    return error


def _begin(parent: int, begin: Callable[..., object], given: tuple[Any, ...]) -> None:
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    forbid_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_logging(plan_from_environment())
    try:
        _this_process.result = begin(*given)
    except DccError as error:
        # Memory, open files and disks may serve the next process: this one ends, and its tasks are tried alone.
        if isinstance(error.__cause__, OSError):
            raise
        _this_process.error = portable(error)


class _Popen(popen_spawn_posix.Popen):
    """Starts a process as `multiprocessing` does, but without secrets in its environment.

    The process does not load this process's main module either.
    """

    _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        tracker = int(resource_tracker.getfd() or 0)
        preparation = spawn.get_preparation_data(process_obj.name)
        # It begins in this process's directory, which it may be unable to change to once more.
        for name in ("init_main_from_name", "init_main_from_path", "dir"):
            preparation.pop(name, None)
        message = io.BytesIO()
        set_spawning_popen(self)
        try:
            reduction.dump(preparation, message)
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
