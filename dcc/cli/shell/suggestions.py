"""How each command ends with the command that comes next: one line on standard error.

What follows what is in `next_steps`. Nothing is suggested with --json, where standard error is a log, where an
error has said what to do, and with DCC_SUGGESTIONS=false.
"""

from __future__ import annotations

import os
import shlex
import string
from collections.abc import Iterable, Mapping
from typing import Any

import click

from dcc.cli.shell.next_steps import NEXT, Step
from dcc.cli.shell.output import printable
from dcc.runtime.logging_setup import log_plan

_FACTS = "dcc.facts"
_RUN = "dcc.run"
_NO = frozenset({"0", "off", "f", "false", "n", "no"})


class CommandContext(click.Context):
    """The context of a command that does something, which it remembers for what is suggested afterwards."""

    def invoke(self, callback: Any, /, *arguments: Any, **options: Any) -> Any:
        """Run the command."""
        self.meta[_RUN] = self
        return super().invoke(callback, *arguments, **options)


def know(**facts: object) -> None:
    """Tell what the command that runs has found, for the steps that depend on it; what is empty is not known."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta.setdefault(_FACTS, {}).update(facts)


def suggest_next(root: click.Context, exit_code: int) -> None:
    """Print what comes after the command that ended with `exit_code`, if anything does."""
    ran = root.meta.get(_RUN)
    if ran is None or not _is_wanted(os.environ) or ran.params.get("as_json"):
        return
    plan = log_plan()
    if plan is not None and plan.file is None:
        return
    known = {**ran.params, **root.meta.get(_FACTS, {})}
    line = next_line(NEXT.get(ran.command_path.partition(" ")[2], ()), exit_code, known)
    if line is not None:
        click.secho(line, err=True, dim=True)


def next_line(steps: Iterable[Step], exit_code: int, known: Mapping[str, object]) -> str | None:
    """`Next: dcc crawl  # what for`, of the first step that follows this exit code and of which all is known."""
    for step in steps:
        values = {name: _word(known.get(name)) for name in fields(step)}
        if exit_code in step.codes and all(values.values()):
            return f"Next: {step.command.format(**values)}  # {step.why}"
    return None


def fields(step: Step) -> list[str]:
    """The names of what a step needs to know."""
    named = [name for _, name, _, _ in string.Formatter().parse(step.command) if name]
    return [*named, *([step.needs] if step.needs else [])]


def _word(value: object) -> str:
    """A value as a word of a shell's command line, the first one of several; empty if it is not known."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    if value is None or value is False or value == "":
        return ""
    return shlex.quote(printable(value))


def _is_wanted(environment: Mapping[str, str]) -> bool:
    # Read by itself: the settings take longer to import than some commands to run.
    said = {name.upper(): text for name, text in environment.items()}
    return said.get("DCC_SUGGESTIONS", "").lower() not in _NO
