"""`dcc explain`: what an error or a rule means, and what to do about it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option
from dcc.cli.shell.next_steps import know
from dcc.cli.shell.output import echo_json, echo_table
from dcc.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dcc.cli.shell.error_advice import Explanation
    from dcc.reports.causes.cause import Actor

_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")


@click.command()
@click.argument("error_or_rule", metavar="[ID]", required=False)
@json_option
def explain(error_or_rule: str | None, as_json: bool) -> None:
    """Explain the error or rule ID, and what to do about it.

    The id of an error stands in brackets before its message, that of a rule before what it found, that of a cause
    before it in `dcc data causes`; an error's name in the tracker will do too. Without ID, all errors are listed; the
    rules are in `dcc rules list`.

    \b
    Examples:
      dcc explain host-key-changed
      dcc explain S4

    \b
    JSON: {"id", "name" (in the tracker, empty if it has none), "meaning", "advice", "who" (acts)};
      without ID a list of them

    Exit codes: 0; 2 there is no such id.
    """
    from dcc.cli.shell import error_advice

    name = None if error_or_rule is None else error_or_rule.strip("()")
    if name is None:
        entries = error_advice.explanations()
        if as_json:
            echo_json(entries)
        else:
            echo_table(("id", "meaning"), [(entry.id, entry.meaning) for entry in entries], prose=["meaning"])
        return
    rule = rule_explained(name)
    entry = error_advice.explain(name) or rule or cause_explained(name)
    if entry is None:
        raise NotFoundError(f"No error or rule has the id {name!r}. {_alike(name)}")
    know(explained_rule=rule and rule.id)
    if as_json:
        echo_json(entry)
    else:
        _print_explanation(entry)


def rule_explained(name: str) -> Explanation | None:
    """The rule with an id, explained like an error, by those who act according to its causes; None if there is none."""
    from dcc.cli.shell.error_advice import Explanation
    from dcc.reports.causes.cause import Actor
    from dcc.reports.causes.rules import RULE_FACES
    from dcc.rules.catalogue import UNWAIVABLE, rule_entry

    rule = rule_entry(name) or rule_entry(name.upper())
    if rule is None:
        return None
    faces = RULE_FACES[rule.id]
    advice = f"`dcc data findings --rule {rule.id} --each` lists what it found. "
    if rule.needs:
        advice += (
            f"It is judged by reference data ({', '.join(rule.needs)}): `dcc reference list` says how old they are. "
        )
    if rule.id in UNWAIVABLE or all(face.acts is Actor.DCC for face in faces):
        advice += faces[-1].remedy
    else:
        advice += "The centre corrects the data and submits them in `edit`, or the rule is waived: `dcc rules waive`."
    meaning = f"{rule.demand} When that is not met: {rule.severity}."
    return Explanation(rule.id, "", meaning, advice, _who(face.acts for face in faces))


def cause_explained(name: str) -> Explanation | None:
    """What `dcc data causes` calls by an id that is neither an error's nor a rule's, such as `listing:changed`."""
    from dcc.cli.shell.error_advice import Explanation
    from dcc.reports.causes.errors import ERROR_FACES

    faces = ERROR_FACES.get(name)
    if faces is None:
        return None
    return Explanation(name, "", f"{faces[-1].title}.", faces[-1].remedy, _who(face.acts for face in faces))


def _who(acting: Iterable[Actor]) -> str:
    """Those who act, each once; nobody only where there is no one else."""
    from dcc.reports.causes.cause import ACTOR_NAMES, Actor

    acts = dict.fromkeys(acting)
    named = [ACTOR_NAMES[one] for one in acts if one is not Actor.NOBODY]
    return ", ".join(named) or ACTOR_NAMES[Actor.NOBODY]


def _alike(name: str) -> str:
    from difflib import get_close_matches

    from dcc.cli.shell.error_advice import explanations
    from dcc.reports.causes.errors import ERROR_FACES

    known = [*(text for entry in explanations() for text in (entry.id, entry.name)), *ERROR_FACES]
    alike = get_close_matches(name, known, n=1)
    return f"Is {alike[0]} meant? `dcc explain` lists all." if alike else "`dcc explain` lists the ids of errors."


def _print_explanation(entry: Explanation) -> None:
    click.echo(click.style(entry.id, bold=True) + (f" ({entry.name})" if entry.name else ""))
    for title, text in (("means", entry.meaning), ("to do", entry.advice), ("who acts", entry.who)):
        body = _LINK.sub(r"\1 (docs/\2)", text)
        click.echo(click.wrap_text(body, 100, f"  {title:<9} ", " " * 12))
