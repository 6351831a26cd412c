"""Where the log goes and what its lines look like: text, a line a message, or JSON, an object a line.

Nothing is logged unless DCC_LOG_FORMAT, DCC_LOG_LEVEL or DCC_LOG_FILE asks for it; what a command has to say to whom
runs it is not the log's. Names and texts from outside are escaped, so that none can pass for a line of the log. Other
packages' messages are kept from WARNING on.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final

from dcc.errors import ConfigurationError
from dcc.redaction import redacted
from dcc.runtime.log_context import FIELDS, log_context
from dcc.runtime.private_files import make_directory

NOTICE: Final = "is_notice"
"""The attribute of a log message that people at a terminal are told too: `extra={NOTICE: True}`."""

OWN_LOGGERS: Final = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors", "dcc_definitions")
"""The loggers that the level of the settings is about, with those below them."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORMATS: Final = ("text", "json")
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\\]")
_PLAIN: Final = re.compile(r"[\w./:@+,~-]+", re.ASCII)
_PRIVATE: Final = 0o640


@dataclass(frozen=True, slots=True)
class LogPlan:
    """A log as the settings ask for it; `file` None: on standard error. `home`: DCC_HOME, where it is in that."""

    form: str
    level: int
    file: Path | None
    home: Path | None = None

    @property
    def is_json_on_stderr(self) -> bool:
        """Whether standard error is read by a program, to which everything on it should be a message."""
        return self.file is None and self.form == "json"


def plan_from_environment(environment: Mapping[str, str] = os.environ) -> LogPlan | None:
    """The log that the environment asks for; None where it asks for none.

    The same settings as in `dcc.settings`, whose import takes longer than short commands do. Raises
    ConfigurationError that names the wrong setting.
    """
    said = {name.upper(): text for name, text in environment.items() if text}
    form, level, file = (said.get(f"DCC_LOG_{name}") for name in ("FORMAT", "LEVEL", "FILE"))
    if form is None and level is None and file is None:
        return None
    if form is not None and form not in _FORMATS:
        raise ConfigurationError(f"DCC_LOG_FORMAT is {form!r}. Set it to {' or '.join(_FORMATS)}.")
    if level is not None and level not in _LEVELS:
        raise ConfigurationError(f"DCC_LOG_LEVEL is {level!r}. Set it to one of {', '.join(_LEVELS)}.")
    try:
        path = None if file is None else Path(file).expanduser().absolute()
        home = Path(said.get("DCC_HOME", "~/.dcc")).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigurationError(
            f"DCC_LOG_FILE is {file!r}, and it or DCC_HOME names a home directory that is not known. Correct it."
        ) from error
    return LogPlan(
        form or "text", _LEVELS[level or "info"], path, home if path is not None and home in path.parents else None
    )


class TextFormatter(logging.Formatter):
    """`<time> <LEVEL> <logger> [<what it is about>] <message>`; a traceback follows, each line of it indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of the traceback."""
        about = " ".join(f"{name}={_word(value)}" for name, value in _about().items())
        head = f"{_time(record)} {record.levelname} {record.name}[{record.process}]"
        line = f"{head} {f'[{about}] ' if about else ''}{_escaped(_message(record))}"
        return "\n    ".join([line, *map(_escaped, _traceback(record).splitlines())])


class JsonFormatter(logging.Formatter):
    """An object on one line: time, level, logger, message, process, what it is about, and the exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        entry: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            "process": record.process,
            **_about(),
        }
        if trace := _traceback(record):
            entry["exception"] = trace
        # In ASCII: whatever reads it, no character in it ends the line.
        return json.dumps(entry)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    return redacted(_said(record))


def _said(record: logging.LogRecord) -> str:
    # Dagster, which hears of messages first, puts its run and step before them.
    meta = getattr(record, "dagster_meta", None)
    original = meta.get("orig_message") if isinstance(meta, Mapping) else None
    return original if isinstance(original, str) else record.getMessage()


def _about() -> dict[str, str | int]:
    about = log_context()
    said = {name: about[name] for name in FIELDS if name in about}
    return {name: redacted(value) if isinstance(value, str) else value for name, value in said.items()}


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_text:
        # As `dcc.redaction` left it where the exception held a secret, or as another handler wrote it.
        return redacted(record.exc_text)
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return redacted(logging.Formatter().formatException(record.exc_info))


def _escaped(text: str) -> str:
    return _UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if found.group() == "\\":
        return "\\\\"
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _word(value: str | int) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class _ErrorOutput(logging.Handler):
    """Writes to standard error, whatever that is at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _LogFile(logging.Handler):
    """Appends to a file, each message whole, beside other processes; the file may be moved away at any time."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._complained = False
        # The library closes this handler in the end, also if the file cannot be opened.
        self._opened = -1
        self._opened = self._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Append one message."""
        try:
            data = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
            if self._opened >= 0 and self._is_gone():
                os.close(self._opened)
                self._opened = -1
            if self._opened < 0:
                self._opened = self._open()
            while data:
                data = data[os.write(self._opened, data) :]
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the library's
        """Say once, where people look, that the log is not whole; work goes on."""
        if self._complained:
            return
        self._complained = True
        reason = sys.exc_info()[1]
        with suppress(Exception):
            sys.stderr.write(f"Warning: The log {self._path} could not be written ({_escaped(str(reason))}).\n")

    def close(self) -> None:
        """Close the file; a message that comes later opens it again.

        Dagster has the library close all handlers there are, and goes on logging. A number that is closed twice, or
        written to after it, may be another file's by then: of a database, say.
        """
        self.acquire()
        try:
            opened, self._opened = self._opened, -1
            if opened >= 0:
                with suppress(OSError):
                    os.close(opened)
        finally:
            self.release()
        super().close()

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)

    def _is_gone(self) -> bool:
        there = os.fstat(self._opened)
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return True
        return (named.st_dev, named.st_ino) != (there.st_dev, there.st_ino)


_plan: LogPlan | None = None
_for_good: Final = ExitStack()


def log_plan() -> LogPlan | None:
    """The log that this process keeps; None without one."""
    return _plan


@contextmanager
def logging_as(plan: LogPlan | None) -> Iterator[None]:
    """Keep a log while the block runs. Raises ConfigurationError when its file cannot be written to."""
    global _plan
    if plan is None or _plan is not None:
        yield
        return
    handler = _handler(plan)
    root = logging.getLogger()
    own = [logging.getLogger(name) for name in OWN_LOGGERS]
    before = [logger.level for logger in own]
    hook = threading.excepthook
    _plan = plan
    root.addHandler(handler)
    for logger in own:
        logger.setLevel(plan.level)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_end_of_thread
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.captureWarnings(capture=False)
        for logger, level in zip(own, before, strict=True):
            logger.setLevel(level)
        root.removeHandler(handler)
        handler.close()
        _plan = None


def start_logging(plan: LogPlan | None) -> None:
    """Keep a log from now on to the end of this process; nothing where it keeps one already. Raises as `logging_as`."""
    if plan is not None and _plan is None:
        _for_good.enter_context(logging_as(plan))


def _handler(plan: LogPlan) -> logging.Handler:
    handler: logging.Handler
    if plan.file is None:
        handler = _ErrorOutput()
    else:
        try:
            if plan.home is not None:
                make_directory(plan.file.parent)
            handler = _LogFile(plan.file)
        except OSError as error:
            raise ConfigurationError(
                f"The log {plan.file} cannot be written to ({error.strerror or error}). See to its folder and its "
                "permissions, or name another file in DCC_LOG_FILE."
            ) from error
    handler.setFormatter(JsonFormatter() if plan.form == "json" else TextFormatter())
    handler.addFilter(_is_wanted)
    return handler


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] in OWN_LOGGERS


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_type is SystemExit:
        return
    name = "a thread" if ended.thread is None else f"the thread {ended.thread.name}"
    trace: TracebackType | None = ended.exc_traceback
    value = ended.exc_value or ended.exc_type()
    logging.getLogger("dcc.threads").error("An error ended %s", name, exc_info=(ended.exc_type, value, trace))
