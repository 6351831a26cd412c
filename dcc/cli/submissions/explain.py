"""`dcc explain`: what an error, rule, phase, status, end of a session or check means, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_list, echo_wrapped, wants_json, warn
from dcc.errors import DccError, FaultyDataError, NotFoundError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcc.cli.shell.error_advice import Explanation

_WIDTH = 100
"""The characters of a line where standard output is no terminal."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")


@command(
    examples=["dcc explain host-key-changed", "dcc explain S4", "dcc explain data failed", "dcc explain centre_silent"],
    offline=True,
)
@click.argument("error_or_rule", metavar="[ID]...", nargs=-1)
@json_option
def explain(error_or_rule: tuple[str, ...]) -> None:
    """Explain the error, rule, phase, status or check ID.

    What it means, what to do about it and who does it.

    The id of an error is in brackets before its message, that of a rule before its finding, that of a cause before it
    in `dcc data causes`. An error's name in the tracker works too, and a rule's id in the existing validator. Phases
    and statuses are those of `dcc status`, also both at once, such as data failed; reasons why sessions ended are those
    of `dcc session list`. Checks are those of the Dagster UI. Without ID, all are listed.

    \b
    JSON: {"id", "name" (in the tracker, empty if it has none), "meaning", "advice", "who" (acts)};
      without ID a list of them
    """
    from dcc.cli.shell import explanations

    names = " ".join(error_or_rule).strip("()").split()
    if not names:
        sections = explanations.all_explanations()
        if wants_json():
            echo_json([entry for entries in sections.values() for entry in entries])
            return
        for place, (title, entries) in enumerate(sections.items()):
            if place:
                click.echo()
            click.secho(title, bold=True)
            echo_list(entries, "id, meaning", indent="  ", flexible=["meaning"])
        return
    entry = _explained(names)
    if wants_json():
        echo_json(entry)
        return
    click.echo(click.style(entry.id, bold=True) + (f" ({entry.name})" if entry.name else ""))
    for title, text in (("means", entry.meaning), ("to do", entry.advice), ("who acts", entry.who)):
        if text:
            body = _LINK.sub(r"\1 (docs/\2)", text)
            echo_wrapped(f"  {title:<9} {' '.join(body.split())}", " " * 12, elsewhere=_WIDTH)


def _explained(names: Sequence[str]) -> Explanation:
    """What names mean, with the facts for what to look at next. Raises NotFoundError with what may be meant."""
    from dcc.cli.shell import error_advice, explanations
    from dcc.nearest_names import nearest_names

    (name, *further) = names
    if not further and (new := explanations.NEW_NAMES.get(name.lower())):
        warn(f"{name} is now {new}.")
        return _explained([new])
    here, rules = explanations.rules_known_as(name)
    if rules and not further:
        warn(here)
        return _explained(rules[:1])
    state = explanations.state_explained(*names)
    if state is not None:
        words = state.id.split()
        note_facts(
            explained_phase=next((word for word in words if word in explanations.PHASES), None),
            explained_status=next((word for word in words if word in explanations.STATUSES), None),
        )
        return state
    if further:
        raise NotFoundError(
            f"{' '.join(names)!r} is no phase with a status, such as data failed. Name one thing, or these two."
        )
    error = explanations.error_explained(name)
    rule = None if error else explanations.rule_explained(name)
    session = explanations.session_explained(name)
    entry = error or rule or explanations.cause_explained(name) or session or explanations.check_explained(name)
    if entry is None:
        nearest = nearest_names(name, explanations.known_names(), 1)
        meant = f"Is {nearest[0]} meant? " if nearest else ""
        raise NotFoundError(
            f"No error, rule, phase, status, session's end or check is named {name!r}. {meant}`dcc explain` lists all."
        )
    kind = error_advice.error_kinds().get(entry.id, DccError)
    note_facts(
        explained_rule=rule and rule.id,
        explained_error=entry.id if issubclass(kind, FaultyDataError) else None,
        of_source=issubclass(kind, SourceError),
        of_platform=error and not issubclass(kind, FaultyDataError | SourceError),
        of_session=entry is session,
    )
    return entry
