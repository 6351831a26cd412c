"""A process of the platform's own that works beside this one, and the messages between them.

It loads what its module imports and nothing else, so that it is there in a tenth of a second. It ends when it is told
to, and when this process goes: it then has nowhere to write. Messages are marshalled, with their length before them.
"""

from __future__ import annotations

import fcntl
import gc
import json
import logging
import marshal
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Queue, SimpleQueue
from threading import Thread
from typing import IO, Any, Final, Protocol, cast

from dcc.errors import DccError, HelperEndedError, InternalFaultError
from dcc.runtime.log_context import log_context, logging_about, with_log_context
from dcc.runtime.logging_setup import plan_from_environment, start_logging
from dcc.runtime.processes import environment_without_secrets, forbid_core_dumps

log = logging.getLogger(__name__)

BYTES_AHEAD: Final = 4_000_000
"""How many bytes of messages may wait in a process until they are taken."""

_LENGTH_BYTES: Final = 8
_PIPE_BYTES: Final = 1_048_576
_START: Final = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


class Out(Protocol):
    """Where messages are written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of it."""

    def flush(self) -> object:
        """Have it go on its way."""


class Helper:
    """A process of this package's own, to be called as `module`'s `main`, and its messages.

    It has the open files `hands` too, by their numbers, and is so many bytes ahead at most.
    """

    def __init__(self, module: str, hands: Sequence[int] = (), bytes_ahead: int = BYTES_AHEAD) -> None:
        command = [sys.executable, "-c", _START.format(path=sys.path, module=module)]
        command += [json.dumps(dict(log_context())), str(bytes_ahead)]
        # It talks to no server and no database: what it does not know it cannot lose.
        environment = environment_without_secrets()
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=hands
        )
        self._out = cast(IO[bytes], self.process.stdin)
        self._in = cast(IO[bytes], self.process.stdout)
        _widen(self._in)

    def send(self, message: object) -> None:
        """Give it a message."""
        # One that has ended has left word why, or will be missed when an answer is waited for.
        with suppress(BrokenPipeError):
            write_message(self._out, message)

    def receive(self) -> Any:
        """Its next message. Raises what it raised, and EOFError when it has ended."""
        return taken(*self.receive_any())

    def receive_any(self) -> Any:
        """The kind of its next message, and the message, also if it raised something. Raises EOFError."""
        return read_message(self._in)

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        # What it was not given any more goes with it.
        with suppress(BrokenPipeError):
            self._out.close()
        self._in.close()


class Postbox:
    """Messages to a `helper`, sent by a thread of their own.

    So whoever has one never waits for the process, which takes none while nobody takes its answers. Raises RuntimeError
    where there is no thread to be had; then the process has been ended.
    """

    def __init__(self, helper: Helper) -> None:
        self.helper = helper
        self._waiting: SimpleQueue[object] = SimpleQueue()
        self._sender = Thread(target=with_log_context(self._send_all), name="messages", daemon=True)
        try:
            self._sender.start()
        except RuntimeError:
            helper.close()
            raise

    def post(self, message: object) -> None:
        """Have a message sent after those before it; it is not None."""
        self._waiting.put(message)

    def close(self) -> None:
        """End the thread and the process, whatever it does."""
        # One that is sending goes on when nobody is there any more to read.
        self.helper.process.kill()
        self._waiting.put(None)
        self._sender.join()
        self.helper.close()

    def _send_all(self) -> None:
        try:
            while (message := self._waiting.get()) is not None:
                self.helper.send(message)
        except Exception:
            # Without the message its answer would be waited for without end.
            log.exception("A process of the platform could not be given a message, and is ended")
            self.helper.process.kill()


def taken(kind: str, message: Any) -> Any:
    """A message of that kind. Raises what the process raised, if that is what it tells."""
    if kind == "raised":
        raise pickle.loads(message)  # noqa: S301 - of a process that this one started
    return message


def ended_early(name: str, code: int | None) -> HelperEndedError:
    """That a process which reads the document of that name has ended with `code`."""
    return HelperEndedError(
        f"The process that reads {name} ended with {code} before its work was done. "
        "Nothing of the document was kept. Try again; see the memory of this machine if it happens again."
    )


def serve(work: Callable[[IO[bytes], Out], None]) -> None:
    """Do the work of a `Helper`, which reads messages and writes others; what it raises is the last one."""
    forbid_core_dumps()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is made here has no cycles, and is gone with its batch.
    gc.disable()
    out = _Outbox(sys.stdout.buffer, int(sys.argv[2]))
    start_logging(plan_from_environment())
    with logging_about(**json.loads(sys.argv[1])):
        try:
            work(sys.stdin.buffer, out)
        except EOFError:
            os._exit(0)
        except Exception as error:
            if not isinstance(error, DccError):
                log.error("A process that reads documents met a fault of the platform", exc_info=error)  # noqa: TRY400
            write_fault(out, error)
    out.finish()


class _Messages(Queue[bytes | None]):
    """Messages that wait, and after which there is nothing; full when they have so many bytes."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._bytes = 0

    def _qsize(self) -> int:
        return self._bytes

    def _put(self, item: bytes | None) -> None:
        super()._put(item)
        self._bytes += len(item or b"-")

    def _get(self) -> bytes | None:
        item: bytes | None = super()._get()
        self._bytes -= len(item or b"-")
        return item


class _Outbox:
    """Writes in a thread of its own, so that work goes on while nobody reads. Some megabytes wait there, no more."""

    def __init__(self, file: IO[bytes], bytes_ahead: int) -> None:
        self._file = file
        self._waiting = _Messages(bytes_ahead)
        self._writer = Thread(target=self._write_all, name="messages", daemon=True)
        self._writer.start()

    def write(self, data: bytes, /) -> None:
        """Have it written when those before it are."""
        self._waiting.put(data)

    def flush(self) -> None:
        """Nothing: what waits is written as soon as it can be."""

    def finish(self) -> None:
        """Wait until all of it is written."""
        self._waiting.put(None)
        self._writer.join()

    def _write_all(self) -> None:
        try:
            while (data := self._waiting.get()) is not None:
                self._file.write(data)
                self._file.flush()
        except BrokenPipeError:
            # Whoever asked is gone.
            os._exit(0)


def write_fault(out: Out, error: Exception) -> None:
    """Have the other process raise an error where it waits for an answer."""
    write_message(out, ("raised", _pickled(error)))


def _pickled(error: Exception) -> bytes:
    """The error for the other process; an InternalFaultError for one that could not be raised there."""
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - made in the line above
    except Exception:
        told = f"{type(error).__name__}: {error}. Nothing of the document was kept. Report this as a fault."
        return pickle.dumps(InternalFaultError(told))
    return pickled


def write_message(file: Out, message: Any) -> None:
    """Write what `marshal` takes."""
    data = marshal.dumps(message)
    file.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)
    file.flush()


def read_message(file: IO[bytes]) -> Any:
    """Read what `write_message` wrote. Raises EOFError where it breaks off."""
    length = file.read(_LENGTH_BYTES)
    data = file.read(int.from_bytes(length, "big"))
    if len(length) < _LENGTH_BYTES or len(data) < int.from_bytes(length, "big"):
        raise EOFError
    # Of a process that this one started, or that started this one. No cycles come, and looking for them takes long.
    looked_for = gc.isenabled()
    gc.disable()
    try:
        return marshal.loads(data)  # noqa: S302
    finally:
        if looked_for:
            gc.enable()


def _widen(pipe: IO[bytes]) -> None:
    """Let the other process go on for longer while this one is busy."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
