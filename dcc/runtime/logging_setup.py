"""Where the log goes and what its lines look like: text, a line a message, or JSON, an object a line.

Nothing is logged unless DCC_LOG_FORMAT, DCC_LOG_LEVEL or DCC_LOG_FILE asks for it; a command's messages to its user are
separate. Names and texts from outside are escaped, so that none can imitate a line of the log. Messages of other
packages are kept from WARNING on.
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
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Final

from dcc.configuration_file import configured_variables
from dcc.errors import ConfigurationError
from dcc.redaction import redacted
from dcc.runtime.legible_text import legible
from dcc.runtime.log_context import FIELDS, log_context
from dcc.runtime.private_files import SHARED_FILE, make_directory

NOTICE: Final = "is_notice"
"""Marks a log message that is also shown at the terminal: `extra={NOTICE: True}`."""

RAISED: Final = "is_raised"
"""Marks a log message of an error that is also raised, so that a command tells it itself: `extra={RAISED: True}`."""

OWN_LOGGERS: Final = ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors", "dcc_definitions")
"""The loggers whose level the settings set, with those below them."""

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_FORMATS: Final = ("text", "json")
_PLAIN: Final = re.compile(r"[\w./:@+,~-]+", re.ASCII)
_LONGEST_AT_ONCE: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogPlan:
    """The log of the settings; `file` None: standard error. `home`: DCC_HOME, if the file is in it."""

    form: str
    level: int
    file: Path | None
    home: Path | None = None

    @property
    def is_json_on_stderr(self) -> bool:
        """Whether a program reads standard error and expects only messages there."""
        return self.file is None and self.form == "json"


def plan_from_environment(environment: Mapping[str, str] = os.environ) -> LogPlan | None:
    """The log of the environment's and the configuration file's settings; None without one.

    Reads the settings without importing `dcc.settings`, which takes longer than short commands do. Raises
    ConfigurationError with the name of a wrong setting.
    """
    variables = configured_variables(environment)
    form, level, file = (variables.get(f"DCC_LOG_{name}") for name in ("FORMAT", "LEVEL", "FILE"))
    if form is None and level is None and file is None:
        return None
    if form is not None and form not in _FORMATS:
        raise ConfigurationError(f"DCC_LOG_FORMAT is {form!r}. Set it to {' or '.join(_FORMATS)}.")
    if level is not None and level not in _LEVELS:
        raise ConfigurationError(f"DCC_LOG_LEVEL is {level!r}. Set it to one of {', '.join(_LEVELS)}.")
    try:
        path = None if file is None else Path(file).expanduser().absolute()
        home = Path(variables.get("DCC_HOME", "~/.dcc")).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigurationError(
            f"DCC_LOG_FILE is {file!r}, and it or DCC_HOME names a home directory that is not known. Correct it."
        ) from error
    return LogPlan(
        form or "text", _LEVELS[level or "info"], path, home if path is not None and home in path.parents else None
    )


class TextFormatter(logging.Formatter):
    """`<time> <LEVEL> <logger> [<subject>] <message>`, followed by an indented traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line with its traceback."""
        about = " ".join(f"{name}={_word(value)}" for name, value in _about().items())
        head = f"{_time(record)} {record.levelname} {record.name}[{record.process}]"
        line = f"{head} {f'[{about}] ' if about else ''}{_escaped(_message(record))}"
        return "\n    ".join([line, *map(_escaped, _traceback(record).splitlines())])


class JsonFormatter(logging.Formatter):
    """An object on one line: time, level, logger, message, process, subject, and the exception if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Format an object."""
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
        # In ASCII, so that no character ends the line for any reader.
        return json.dumps(entry)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    # Dagster, which gets messages first, puts its run and step before them.
    meta = getattr(record, "dagster_meta", None)
    original = meta.get("orig_message") if isinstance(meta, Mapping) else None
    return redacted(original if isinstance(original, str) else record.getMessage())


def _about() -> dict[str, str | int]:
    about = log_context()
    facts = {name: about[name] for name in FIELDS if name in about}
    return {name: redacted(value) if isinstance(value, str) else value for name, value in facts.items()}


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_text:
        # As `dcc.redaction` left it if the exception contained a secret, or as another handler wrote it.
        return redacted(record.exc_text)
    if not record.exc_info or record.exc_info[0] is None:
        return ""
    return redacted(logging.Formatter().formatException(record.exc_info))


def _escaped(text: str) -> str:
    return legible(text.replace("\\", "\\\\"))


def _word(value: str | int) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class _ErrorOutput(logging.Handler):
    """Writes to the present standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _LogFile(logging.FileHandler):
    """Appends complete messages to a file, beside other processes; the file may be moved away at any time.

    Dagster makes the library close all handlers, and goes on logging: a later message opens the file again.
    """

    def __init__(self, path: Path) -> None:
        self._complained = False
        super().__init__(path)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.stream is not None and self._is_gone(self.stream.fileno()):
                self.close()
            super().emit(record)
        except Exception:
            self.handleError(record)

    def _open(self) -> TextIOWrapper:
        # A message that fits into the buffer is written at once, so that those of other processes stay beside it.
        return open(
            self.baseFilename,
            "a",
            _LONGEST_AT_ONCE,
            "utf-8",
            "backslashreplace",
            opener=lambda path, flags: os.open(path, flags, SHARED_FILE),
        )

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the library's
        """Report once, at the terminal, that the log is incomplete; work goes on."""
        if self._complained:
            return
        self._complained = True
        error = sys.exc_info()[1]
        reason = getattr(error, "strerror", None) or error
        with suppress(Exception):
            sys.stderr.write(f"Warning: The log {self.baseFilename} could not be written ({_escaped(str(reason))}).\n")

    def close(self) -> None:
        """Close the file; that its end could not be written was reported."""
        with suppress(OSError):
            super().close()

    def _is_gone(self, opened: int) -> bool:
        try:
            return not os.path.samestat(os.fstat(opened), Path(self.baseFilename).stat())
        except OSError:
            return True


_plan: LogPlan | None = None
_for_good: Final = ExitStack()


def log_plan() -> LogPlan | None:
    """The log of this process; None without one."""
    return _plan


@contextmanager
def logging_as(plan: LogPlan | None) -> Iterator[None]:
    """Log while the block runs. Raises ConfigurationError if the file cannot be written."""
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
    """Log from now until this process ends, unless it logs already. Raises as `logging_as`."""
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
