"""Processes that work for this one, without its secrets."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock, Thread, current_thread
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from dcc.errors import DccError, HelperEndedError, InternalFaultError, attach_fault_place, fault_of
from dcc.runtime.log_context import log_context, logging_about, with_log_context
from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import end_with_parent, environment_without_secrets, forbid_core_dumps

log = logging.getLogger(__name__)
B = TypeVar("B")
E = TypeVar("E", bound=Exception)
P = ParamSpec("P")
R = TypeVar("R")
_TRIES: Final = 2
# The path comes first: the directory in which the platform is started is on Python's own.
_PROGRAM: Final = """import sys
sys.path[:] = {path!a}
from dcc.runtime.worker_processes import be_worker
be_worker({descriptor}, {parent})"""


class WorkerProcesses(Generic[B]):
    """A number of processes, each of which first calls `begin` with the given arguments.

    Each task is first given what `begin` returned, or raises the DccError that `begin` raised. A process whose `begin`
    fails otherwise, or by an OSError, ends.

    They end with this process, however it ends. If one of them dies, for example without memory, the others go on. Its
    task is repeated once in a new one: a task that kills its process each time costs no other.
    """

    def __init__(self, number: int, begin: Callable[P, B], *args: P.args, **kwargs: P.kwargs) -> None:
        self._begin = partial(begin, *args, **kwargs)
        self._context = dict(log_context())
        # Each thread has a process of its own, which ends with the thread that started it.
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="processes")
        self._processes: dict[Thread, tuple[subprocess.Popen[bytes], Connection]] = {}
        self._lock = Lock()
        self._is_stopped = False

    def submit(self, name: str, work: Callable[Concatenate[B, P], R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a task; its future raises HelperEndedError if the task killed its process."""
        future: Future[R] = Future()
        self._threads.submit(with_log_context(self._run), future, name, (self._context, work, args, kwargs))
        return future

    def stop(self) -> None:
        """Kill the processes; their tasks have no result."""
        with self._lock:
            self._is_stopped = True
            for process, _ in self._processes.values():
                process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process, connection in self._processes.values():
            process.wait()
            connection.close()

    def _run(self, future: Future[Any], name: str, task: tuple[Any, ...]) -> None:
        """Have a task done by this thread's process, and by another one if that ends."""
        if not future.set_running_or_notify_cancel():
            return
        for _ in range(_TRIES):
            try:
                with self._lock:
                    if self._is_stopped:
                        return
                    if current_thread() not in self._processes:
                        self._processes[current_thread()] = start_worker(self._begin)
                    process, connection = self._processes[current_thread()]
                error, result = _answer(connection, task)
            except EOFError:
                with self._lock:
                    if self._is_stopped:
                        return
                    del self._processes[current_thread()]
                process.wait()
                connection.close()
                log.warning("A process that works for this one ended before its work was done")
                continue
            except Exception as reason:  # such as that no process can be started
                error, result = reason, None
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
            return
        future.set_exception(
            HelperEndedError(
                f"The process that works on {name} ended before its work was done. Nothing of it was kept. Try again; "
                "see the memory of this machine if it happens again."
            )
        )


def start_worker(begin: Callable[[], object]) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a process that calls `begin` and then does tasks; returns it, and the connection for tasks and answers.

    There are no secrets in its environment, and it does not load this process's main module.
    """
    here, there = Pipe()
    with there:
        program = _PROGRAM.format(path=sys.path, descriptor=there.fileno(), parent=os.getpid())
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env=environment_without_secrets(),
            stdin=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
        )
    # One that has ended already is met by its first task.
    with suppress(ConnectionError):
        here.send(begin)
    return process, here


def be_worker(descriptor: int, parent: int) -> None:
    """Be a process that `start_worker` of the process `parent` has started."""
    connection = Connection(descriptor)
    serve(connection, parent, connection.recv())


def _answer(connection: Connection, task: tuple[Any, ...]) -> tuple[Exception | None, Any]:
    """What a process answers to a task: an error, or the result. Raises EOFError if the process ends."""
    try:
        connection.send(task)
        answer: tuple[Exception | None, Any] = connection.recv()
    except OSError as error:
        raise EOFError from error
    return answer


def serve(connection: Connection, parent: int, begin: Callable[[], object]) -> None:
    """Do the tasks that come by a connection, until it is closed, in a process that `parent` has started."""
    begun = _begin(parent, begin)
    while True:
        try:
            context, work, args, kwargs = connection.recv()
        except EOFError:
            return
        try:
            connection.send((None, _guarded(context, begun, work, args, kwargs)))
        except Exception as error:
            connection.send((error, None))


def _guarded(
    context: dict[str, Any], begun: Any, work: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> R:
    """Run a task in a process that has begun, and make its exception portable."""
    with logging_about(**context):
        try:
            if isinstance(begun, DccError):
                raise begun
            return work(begun, *args, **kwargs)
        except Exception as error:
            if not isinstance(error, DccError):
                log.error("A process of the platform met a fault of the platform", exc_info=error)  # noqa: TRY400
            raise portable(error) from error


def portable(error: E) -> E | InternalFaultError:
    """An exception that can be sent to another process: itself, or an InternalFaultError instead."""
    attach_fault_place(error)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
    except Exception:
        return InternalFaultError(fault_of(error))
    return error


def _begin(parent: int, begin: Callable[[], object]) -> object:
    """What `begin` returns in this process, or the error that each task raises instead."""
    end_with_parent()
    if os.getppid() != parent:
        os._exit(0)
    forbid_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    start_logging(plan_from_environment())
    try:
        return begin()
    except DccError as error:
        # Memory, open files and disks may serve the next process: this one ends, and its task is tried once more in a
        # new one.
        if isinstance(error.__cause__, OSError):
            raise
        return portable(error)
