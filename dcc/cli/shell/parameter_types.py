"""Types of arguments and options: numbers within the databases' range, and values that a shell completes.

Completed values (submissions, centres, sources, rules) are looked up in the tracker, in a thread that may take
`SECONDS` after its imports. If anything fails, nothing is offered and nothing printed. Only words without special
characters for any shell are offered: a centre may have named a file otherwise.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from dcc.cli.shell.context import reading_tracker, settings_from_environment

LARGEST_NUMBER = 2**63 - 1
"""The largest number that the databases can store."""


class _Id(click.ParamType[int]):
    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, which may be an unknown id. Fails for other texts and too large numbers."""
        return _within_limit(self, click.INT.convert(value, param, ctx), param, ctx)


class _Count(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number. Fails for other texts, and for a number that is out of range or too large."""
        return _within_limit(self, super().convert(value, param, ctx), param, ctx)


def _within_limit(
    kind: click.ParamType[int], number: int, param: click.Parameter | None, ctx: click.Context | None
) -> int:
    if abs(number) > LARGEST_NUMBER:
        kind.fail(f"{number} is larger than any number here: at most {LARGEST_NUMBER}.", param, ctx)
    return number


class _Moment(click.DateTime):
    def __init__(self, formats: Sequence[str], word: str, example: str) -> None:
        super().__init__(formats)
        self._word, self._example = word, example

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002
        """The word for it in help."""
        return self._word

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The moment. Fails for other texts."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"'{value}' is no {self._word.lower()} such as {self._example}.", param, ctx)


class _Day(_Moment):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The date. Fails for other texts."""
        return super().convert(value, param, ctx).date()


DAY = _Day(["%Y-%m-%d"], "DATE", "2026-11-21")
"""The type of a date, such as 2026-11-21."""

MOMENT = _Moment(
    ["%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], "TIME", "2026-11-21 or 2026-11-21T14:30"
)
"""The type of a time, such as 2026-11-21T14:30; a date stands for its beginning."""

ID = _Id()
"""The type of an id."""

COUNT = _Count(min=1)
"""The type of a number of rows to show or keep."""

SECONDS = 2.0
MAX_VALUES = 100
_WORD = re.compile(r"[\w./+-]+", re.ASCII)


def complete_values(command: click.Command) -> None:
    """Make a command offer values for its parameters, by their names."""
    for parameter in command.params:
        values = VALUES.get(parameter.name or "")
        if values is not None and not isinstance(parameter.type, click.Choice):
            parameter.shell_complete = partial(_offered, values)  # type: ignore[method-assign]


def _offered(values: Callable[[str], Iterable[str]], _ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """At most `MAX_VALUES` of the values that begin with the typed text; none if they are not found in time."""
    found: list[str] = []
    with suppress(Exception):
        # Imports may take long on a busy machine; only the database has a time limit.
        from dcc import settings  # noqa: F401
        from dcc.cli.shell import context  # noqa: F401
        from dcc.tracker import database, models  # noqa: F401

    def look_up() -> None:
        with suppress(Exception):
            for value in values(incomplete):
                if value.startswith(incomplete) and _WORD.fullmatch(value):
                    found.append(value)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return [CompletionItem(value) for value in found[:MAX_VALUES]]


def _zip_actions(incomplete: str) -> Iterable[str]:
    from sqlalchemy import select

    from dcc.naming import Action
    from dcc.tracker.models import ZipAction, ZipFile

    name = incomplete.partition("/")[2]
    queries = {
        action: select(ZipFile.file_name)
        .join(ZipAction, ZipAction.zip_id == ZipFile.id)
        .where(ZipAction.todo_id == action, ZipFile.file_name.startswith(name, autoescape=True))
        .order_by(ZipFile.file_name)
        .limit(MAX_VALUES)
        for action in Action
    }
    with reading_tracker() as connection:
        return [f"{action}/{found}" for action, query in queries.items() for found in connection.scalars(query)]


def _column(model: str, column: str) -> Callable[[str], Iterable[str]]:
    """The values of a column of the tracker: the last ones, if there are many."""

    def look(_: str) -> Iterable[str]:
        from sqlalchemy import select

        from dcc.tracker import models

        values = getattr(getattr(models, model), column)
        query = select(values).order_by(values.desc()).limit(MAX_VALUES)
        with reading_tracker() as connection:
            return [str(one) for one in connection.scalars(query)][::-1]

    return look


_CENTRES = _column("Centre", "short_name")
_SOURCES = _column("FileSource", "id")
_SESSIONS = _column("CrawlingSession", "id")
VALUES: Final[Mapping[str, Callable[[str], Iterable[str]]]] = {
    "zip_action": _zip_actions,
    "zip_actions": _zip_actions,
    "zip_name": _zip_actions,
    "centre": _CENTRES,
    "code": _CENTRES,
    "delegate_code": _CENTRES,
    "source_id": _SOURCES,
    "source_ids": _SOURCES,
    "group": lambda _: settings_from_environment().centre_groups,
    "session": _SESSIONS,
    "session_id": _SESSIONS,
    "rule": lambda _: import_module("dcc.rules.catalogue").CATALOGUE,
    "error_or_rule": lambda _: import_module("dcc.cli.shell.explanations").known_names(),
}
"""The values to offer for a parameter, by its name."""
