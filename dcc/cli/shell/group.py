"""How `dcc` finds its commands and how it ends: exit codes, one-line errors, interrupts.

A command is imported when it is called, and imports heavy packages (Dagster, lxml, paramiko) when it runs.
"""

from __future__ import annotations

import errno
import importlib
import inspect
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import click

from dcc.cli.shell.next_steps import CommandContext, suggest_next
from dcc.cli.shell.output import print_notice, printable, warn
from dcc.errors import (
    ConfigurationError,
    DatabaseUnreachableError,
    DccError,
    DiskFullError,
    ExportError,
    InternalFaultError,
    NotFoundError,
    fault_of,
)
from dcc.redaction import redacted
from dcc.runtime.disk_space import is_full, no_space_left
from dcc.runtime.installed_packages import OF_PLATFORM, has_platform
from dcc.runtime.logging_setup import NOTICE, RAISED, log_plan, logging_as, plan_from_environment

INTERRUPTED = 130
PIPE_CLOSED = 141

_REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR})
"""What a path itself, or who may use it, is wrong by: no fault of the platform."""
_WHOLE = 200
_NO_TEXT = "dcc.no_text"
_NO_UTF_8 = re.compile("[\ud800-\udfff]")

_PLATFORM_MISSING: Final = "This needs the whole platform, of which {} is not installed: `pip install 'dcc[platform]'`."
_ENDS: Final = {
    0: "all well",
    1: "data problems were found",
    2: "wrong use or configuration, or an unknown name",
    3: "another session is active",
    4: "a file source or database could not be reached",
    InternalFaultError.exit_code: "the platform itself is at fault",
    INTERRUPTED: "interrupted",
}


def _write_exit_codes(formatter: click.HelpFormatter, codes: Mapping[int, str] = _ENDS) -> None:
    """Write exit codes with their meanings into a help."""
    with formatter.section("Exit codes"):
        formatter.write_dl([(f"{code:>3}", meaning) for code, meaning in sorted(codes.items())])


class CommandFailedError(click.ClickException):
    """A command ended with an error: one line on standard error, with the error's id, and an exit code."""

    def __init__(self, error: DccError) -> None:
        super().__init__(redacted(str(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]
        self.error_id = error.error_id()
        self.is_told = False

    def show(self, file: Any = None) -> None:
        """Print the message on standard error, unless a program reads that and finds it in the log."""
        if not self.is_told:
            click.echo(f"Error ({self.error_id}): {printable(self.message)}", file=file, err=file is None)


class Command(click.Command):
    """A command whose help ends with examples and exit codes.

    Without `examples` the example is the command alone. `exits` are its own exit codes and meanings; an empty meaning
    is the usual one. 0, 2 and, unless it is `offline` (it opens neither a database nor a file source), 4 are always
    among them.
    """

    context_class = CommandContext

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        exits: Mapping[int, str] | None = None,
        offline: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self._examples, self._exits = examples, dict.fromkeys([0, 2] if offline else [0, 2, 4], "") | dict(exits or {})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and exit codes."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples" if len(self._examples) > 1 else "Example"):
            for line in self._examples or [ctx.command_path]:
                formatter.write(f"  {line}\n")
        _write_exit_codes(formatter, {code: self._meaning(code) for code in self._exits})

    def _meaning(self, code: int) -> str:
        own = self._exits[code]
        return f"{own}; {_ENDS[code]}" if own and code == ConfigurationError.exit_code else own or _ENDS[code]


def command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; see `Command`."""
    return click.command(name, cls=Command, **attributes)


class CommandGroup(Command, click.Group):
    """A group of commands, which `--help` shows in their order.

    `lazy_commands` maps the name of a command that is imported on first use to `module:attribute`.
    """

    command_class = Command

    def __init__(self, *args: Any, lazy_commands: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands.update(lazy_commands or {})

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and exit codes of a group that does something by itself."""
        if self.invoke_without_command:
            super().format_epilog(ctx, formatter)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature of click
        """All command names, in their order."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with; for a wrong name the error lists the nearest ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from dcc.nearest_names import nearest_names

            nearest = nearest_names(args[0], self.list_commands(ctx))
            if not nearest:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(nearest)}?", ctx) from error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported; None if there is none."""
        found: Any = super().get_command(ctx, cmd_name)
        if isinstance(found, str):
            module, attribute = found.split(":")
            found = self.commands[cmd_name] = getattr(importlib.import_module(module), attribute)
        if found is not None and ctx.resilient_parsing:
            # Only a shell that completes parses in this way.
            from dcc.cli.shell.parameter_types import complete_values

            complete_values(found)
        return cast("click.Command | None", found)


class RootGroup(CommandGroup):
    """The `dcc` command itself: turns every way to end into an exit code.

    `sections` are the headings under which `--help` lists the commands, each with its `lazy_commands`. All but the
    `light` ones need the packages of the whole platform; where these are not installed, the help is `light_help`.
    """

    def __init__(
        self,
        *args: Any,
        sections: Mapping[str, Mapping[str, str]],
        light: Collection[str] = (),
        light_help: str = "",
        **options: Any,
    ) -> None:
        lazy_commands = {name: place for section in sections.values() for name, place in section.items()}
        super().__init__(*args, lazy_commands=lazy_commands, **options)
        self._sections, self._light = sections, frozenset(light)
        if not has_platform():
            self.help = inspect.cleandoc(light_help)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in their sections, each with its short help in full."""
        widest = max(map(len, self.list_commands(ctx)))
        for title, section in self._sections.items():
            found = ((name, self.get_command(ctx, name)) for name in section if self.runs_here(name))
            rows = [(name.ljust(widest), command.get_short_help_str(_WHOLE)) for name, command in found if command]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if not has_platform():
            formatter.write_paragraph()
            formatter.write_text("All other commands need the whole platform: `pip install 'dcc[platform]'`.")

    def runs_here(self, name: str) -> bool:
        """Whether the packages of a command are installed."""
        return name in self._light or has_platform()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. Raises CommandFailedError if its packages are not installed."""
        found = super().resolve_command(ctx, args)
        if not self.runs_here(found[0] or ""):
            raise CommandFailedError(ConfigurationError(_PLATFORM_MISSING.format(OF_PLATFORM)))
        return found

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes."""
        super().format_epilog(ctx, formatter)
        _write_exit_codes(formatter)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Read the arguments; --help is printed here."""
        try:
            with _interrupts_as_exits():
                return super().make_context(*args, **options)
        except OSError as error:
            raise CommandFailedError(_as_dcc_error(error)) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the options of `dcc` itself off the arguments, and remember those without text.

        `dcc help COMMAND` is `dcc COMMAND --help`.
        """
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        ctx.meta[_NO_TEXT] = [argument for argument in args if _NO_UTF_8.search(argument)]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; raises only click's own exceptions, which carry the exit code."""
        with _interrupts_as_exits(), ExitStack() as stack:
            try:
                stack.enter_context(logging_as(plan_from_environment()))
            except DccError as error:
                raise CommandFailedError(error) from error
            try:
                # In here, so that it goes where the log goes.
                with _interrupts_as_exits():
                    return self._invoke(ctx)
            except CommandFailedError as error:
                if (plan := log_plan()) is not None:
                    text = f"({error.error_id}) {error.message}"
                    logging.getLogger("dcc.command").exception("%s", text, exc_info=error.__cause__)
                    error.is_told = plan.is_json_on_stderr
                raise

    def _invoke(self, ctx: click.Context) -> object:
        try:
            with _log_messages_shown(logging.WARNING if ctx.params.get("debug") else logging.ERROR):
                result = super().invoke(ctx)
            sys.stdout.flush()
            suggest_next(ctx, 0, self.runs_here)
        except click.exceptions.Exit as error:
            suggest_next(ctx, error.exit_code, self.runs_here)
            raise
        except click.ClickException:
            raise
        except (KeyboardInterrupt, click.Abort):
            _show_traceback(ctx)
            raise
        except BrokenPipeError as error:
            _silence_stdout()
            raise click.exceptions.Exit(PIPE_CLOSED) from error
        except Exception as error:
            _show_traceback(ctx)
            raise CommandFailedError(_as_dcc_error(error, *ctx.meta[_NO_TEXT])) from error
        return result


@contextmanager
def _interrupts_as_exits() -> Iterator[None]:
    """Say that the command was interrupted, and end it with its exit code; click would say that it was aborted."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort) as error:
        print_notice("", "Interrupted.", logging.WARNING)
        raise click.exceptions.Exit(INTERRUPTED) from error


class _OneLineHandler(logging.Handler):
    """Prints log messages of a level or above as warnings, a line each, on standard error; and all notices."""

    def __init__(self, warned_from: int) -> None:
        super().__init__()
        self._warned_from = warned_from

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        if getattr(record, NOTICE, False):
            print_notice("Notice: ", record.getMessage(), logging.WARNING)
        elif record.levelno >= self._warned_from and not getattr(record, RAISED, False):
            warn(record.getMessage())


@contextmanager
def _log_messages_shown(level: int) -> Iterator[None]:
    """Show log messages at `level` or above, and notices; commands report everything else themselves.

    Not if the log goes to standard error itself.
    """
    plan = log_plan()
    if plan is not None and plan.file is None:
        yield
        return
    handler = _OneLineHandler(level)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _show_traceback(ctx: click.Context) -> None:
    if ctx.params.get("debug"):
        click.echo(redacted(traceback.format_exc()), err=True, nl=False)


def _silence_stdout() -> None:
    # The interpreter flushes standard output once more as it ends, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_of_stdout(error: OSError) -> bool:
    """Whether standard output could not be written."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code is click.echo.__code__:
        return not frame.f_locals["err"]
    try:
        # Unwritten output is tried once more.
        sys.stdout.flush()
    except OSError:
        return True
    return False


def _as_dcc_error(error: Exception, *no_text: str) -> DccError:
    """The error that says what happened; `no_text` are arguments that are no text, which may be why."""
    if no_text and isinstance(error, NotFoundError | UnicodeEncodeError):
        return ConfigurationError(
            f"The argument '{printable(no_text[0])}' is not in UTF-8, as all that the databases hold is. "
            "Write it in UTF-8, in a locale such as C.UTF-8."
        )
    if isinstance(error, DccError):
        return error
    if isinstance(error, OSError) and _is_of_stdout(error):
        _silence_stdout()
        return ExportError(
            f"Standard output cannot be written: {error.strerror}. What the command did before stands; "
            "free space there, or have it print elsewhere."
        )
    if isinstance(error, OSError) and is_full(error):
        place = Path(error.filename) if isinstance(error.filename, str) else Path.cwd()
        named = no_space_left(place) if error.filename else "no space left on a disk"
        return DiskFullError(
            f"The command could not write what it had to: {named}. Free some space there, then run it again."
        )
    if isinstance(error, OSError) and error.errno in _REFUSED and isinstance(error.filename, str):
        return ConfigurationError(
            f"{Path(error.filename).absolute()} cannot be read or written: {error.strerror}. See to the permissions of "
            "it and of its directories, name another place, or change to a directory that you may use."
        )
    if isinstance(error, ModuleNotFoundError) and not (error.name or "dcc").startswith("dcc"):
        return ConfigurationError(_PLATFORM_MISSING.format(error.name or "a package"))
    sqlalchemy_errors = sys.modules.get("sqlalchemy.exc")
    if sqlalchemy_errors is not None and isinstance(error, sqlalchemy_errors.OperationalError):
        from dcc.databases.engines import is_contention

        advice = "See that its server runs and has space, then run the command again."
        if is_contention(error):
            advice = "Another process writes to it: run the command again when that is done."
        return DatabaseUnreachableError(f"A database did not answer as it should: {error.orig}. {advice}")
    return InternalFaultError(
        f"The platform itself has a fault: {fault_of(error)}. "
        "Run `dcc --debug` with the same command and report what it prints."
    )
