"""How commands select submissions: by name, by filters, or by a file with names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from dcc.cli.shell.context import ask_in_production, options, yes_option
from dcc.cli.shell.parameter_types import MOMENT
from dcc.errors import NotFoundError
from dcc.messages import count_of
from dcc.naming import Action
from dcc.phases import Phase, Status

if TYPE_CHECKING:
    from dcc.tracker.queries.submission_filters import SubmissionFilter
    from dcc.tracker.queries.submission_lists import SelectedSubmission


_FILTERS = (
    click.option("--centre", metavar="CODE", help="Only of this centre (ILAR code), by name or else by source."),
    click.option("--action", type=click.Choice([action.value for action in Action]), help="Only of this action."),
    click.option("--phase", type=click.Choice([phase.short_name for phase in Phase]), help="Only in this phase."),
    click.option("--status", "state", type=click.Choice([s.short_name for s in Status]), help="Only in this status."),
    click.option("--code", metavar="ID", help="Only with this error or rule, as `dcc explain` has it."),
    click.option(
        "--since",
        type=MOMENT,
        help="Only those that changed from then on, such as 2026-11-21 or 2026-11-21T14:30, in UTC.",
    ),
    click.option("--name", metavar="PATTERN", help="Only archives with such a name; * and ? stand for anything."),
    click.option("--quarantine", is_flag=True, help="Only those that met a fault of the platform."),
)


filter_options = options(*_FILTERS)
"""The options that filter submissions."""


bulk_options = options(
    click.argument("zip_actions", metavar="[ACTION/ZIP]...", nargs=-1),
    *_FILTERS,
    click.option(
        "--file",
        "listed",
        type=click.File(encoding="utf-8"),
        metavar="LIST",
        help="Those named in this file, one a line; - reads standard input.",
    ),
    click.option("--dry-run", is_flag=True, help="Only print what would be done."),
    yes_option,
)
"""Names of submissions as arguments, the options that filter them, --file, --dry-run and --yes."""
MANY = 10
"""From more submissions than these on, a person is asked in production."""


def ask_before_many(chosen: Sequence[SelectedSubmission], what: str, *, yes: bool) -> None:
    """Ask in production before many submissions are changed. Raises ConfigurationError if the person says no."""
    if len(chosen) > MANY:
        ask_in_production(f"{count_of(len(chosen), 'submission')}, such as {chosen[0].key}, to be {what}?", yes=yes)


def selection_of(
    zip_actions: Sequence[str], listed: TextIO | None, **filters: Any
) -> tuple[SubmissionFilter, Sequence[str] | None]:
    """What a command's arguments select, as `select_submissions` takes it: by which filter, and by which names, if any.

    Raises UsageError if they select nothing in particular, NotFoundError for unknown codes.
    """
    names = list(zip_actions)
    if listed is not None:
        lines = (line.strip() for line in listed)
        names += [line for line in lines if line and not line.startswith("#")]
    if not (zip_actions or listed or any(value not in (None, False) for value in filters.values())):
        raise click.UsageError("Name archives as ACTION/ZIP, or give filters such as --centre, or --file.")
    return filter_of(**filters), names if zip_actions or listed else None


def filter_of(
    *,
    action: str | None = None,
    phase: str | None = None,
    state: str | None = None,
    code: str | None = None,
    quarantine: bool = False,
    **others: Any,
) -> SubmissionFilter:
    """The filter that options make; `others` are as in `SubmissionFilter`. Raises NotFoundError for an unknown code."""
    from dcc.cli.shell.error_advice import explain
    from dcc.tracker.queries.submission_filters import SubmissionFilter

    entry = None if code is None else explain(code)
    if code is not None and entry is None:
        from dcc.rules.catalogue import CATALOGUE

        if code not in CATALOGUE:
            raise NotFoundError(f"No error or rule has the id {code!r}. See `dcc explain` and `dcc rules list`.")
    return SubmissionFilter(
        action=Action(action) if action else None,
        phase=Phase[phase.upper()] if phase else None,
        status=Status[state.upper()] if state else None,
        kind=code if entry is None else entry.name,
        faulty=quarantine or None,
        **others,
    )
