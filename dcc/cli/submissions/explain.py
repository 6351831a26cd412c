"""`dcc explain`: the meaning of an error, a rule, a phase or a status, and what to do about it."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import click

from dcc.cli.shell.context import json_option
from dcc.cli.shell.group import command
from dcc.cli.shell.next_steps import note_facts
from dcc.cli.shell.output import echo_json, echo_table, echo_wrapped
from dcc.errors import NotFoundError
from dcc.outcomes import END_MEANINGS, EndReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dcc.cli.shell.error_advice import Explanation
    from dcc.declarations import Declaration
    from dcc.vocabulary import Actor

_WIDTH = 100
"""The characters of a line where standard output is no terminal."""
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)")


@command(examples=["dcc explain host-key-changed", "dcc explain S4", "dcc explain xsd"], offline=True)
@click.argument("error_or_rule", metavar="[ID]", required=False)
@json_option
def explain(error_or_rule: str | None, as_json: bool) -> None:
    """Explain the error, rule, phase or status ID, and what to do about it.

    The id of an error is in brackets before its message, that of a rule before its finding, that of a cause before it
    in `dcc data causes`; an error's name in the tracker works too. Phases and statuses are those of `dcc status`,
    and reasons why sessions ended those of `dcc session list`.
    Without ID, all errors are listed; `dcc rules list` has the rules.

    \b
    JSON: {"id", "name" (in the tracker, empty if it has none), "meaning", "advice", "who" (acts)};
      without ID a list of them
    """
    from dcc.cli.shell import error_advice

    name = None if error_or_rule is None else error_or_rule.strip("()")
    if name is None:
        entries = error_advice.explanations()
        if as_json:
            echo_json(entries)
        else:
            echo_table(("id", "meaning"), [(entry.id, entry.meaning) for entry in entries], flexible=["meaning"])
        return
    rule = rule_explained(name)
    entry = error_explained(name) or rule or cause_explained(name) or state_explained(name)
    if entry is None:
        raise NotFoundError(f"No error, rule, phase or status has the id {name!r}. {_alike(name)}")
    note_facts(explained_rule=rule and rule.id)
    if as_json:
        echo_json(entry)
    else:
        _print_explanation(entry)


def error_explained(name: str) -> Explanation | None:
    """The error with an id or name, with those who act on its causes; None if there is none."""
    from dataclasses import replace

    from dcc.cli.shell.error_advice import explain
    from dcc.reports.causes.errors import ERROR_KINDS

    entry = explain(name)
    return entry if entry is None or entry.id not in ERROR_KINDS else replace(entry, who=_who_by_cause(entry.id))


def rule_explained(name: str) -> Explanation | None:
    """The rule with an id, explained like an error, with those who act on its causes; None if there is none."""
    from dcc.cli.shell.error_advice import Explanation
    from dcc.declarations import acting, declared
    from dcc.rules.catalogue import UNWAIVABLE, rule_entry
    from dcc.vocabulary import Actor

    rule = rule_entry(name) or rule_entry(name.upper())
    if rule is None:
        return None
    declarations = tuple(declared(rule.id).values())
    advice = [f"`dcc data findings --rule {rule.id} --each` lists what it found.", *_remedies(declarations)]
    if rule.needs:
        advice.append(
            f"It is judged by reference data ({', '.join(rule.needs)}): `dcc reference list` says how old they are."
        )
    if rule.id not in UNWAIVABLE and set(acting(rule.id)) != {Actor.DCC}:
        advice.append("`dcc rules waive` sets the rule aside.")
    meaning = f"{rule.demand} When that is not met: {rule.severity}."
    return Explanation(rule.id, "", meaning, " ".join(advice), _who_by_cause(rule.id))


def cause_explained(name: str) -> Explanation | None:
    """A cause of `dcc data causes` whose id is neither an error's nor a rule's, such as `listing:changed`."""
    from dcc.cli.shell.error_advice import Explanation
    from dcc.reports.causes.errors import ERROR_KINDS

    if name not in ERROR_KINDS:
        return None
    from dcc.declarations import declared

    declarations = tuple(declared(name).values())
    (first, *_), remedies = declarations, _remedies(declarations)
    return Explanation(name, "", f"{_named(first.cause)}.", " ".join(remedies), _who_by_cause(name))


def state_explained(name: str) -> Explanation | None:
    """A phase or status of submissions and documents, or why a session ended; None for any other name."""
    from dcc.cli.shell.error_advice import Explanation
    from dcc.phases import REFERENCE_ROWS

    for table, option in (("phase", "phase"), ("a_status", "status")):
        for row in REFERENCE_ROWS[table]:
            if row.short_name == name.lower():
                note_facts(explained_state=f"--{option}={row.short_name}")
                advice = (
                    f"`dcc zips --{option} {row.short_name}` lists the submissions there; `dcc show` explains each."
                )
                return Explanation(row.short_name, "", row.description, advice, _who_in(row.short_name))
    if name.lower() in set(EndReason):
        reason = EndReason(name.lower())
        advice = "`dcc session list` has the sessions that ended so; `dcc session show` explains each."
        return Explanation(reason.value, "", f"A session ended so: {END_MEANINGS[reason]}.", advice, "")
    return None


def _who_by_cause(kind: str) -> str:
    """Who acts on a rule or error, who usually does first, the others each with the causes that they act on."""
    from dcc.declarations import acting

    return _who({actor: [_named(cause) for cause in causes] for actor, causes in acting(kind).items()})


def _who_in(state: str) -> str:
    """Who acts in a phase, or on a status, which for some phases is another."""
    from dcc.declarations import acts_in
    from dcc.phases import Phase, Status
    from dcc.vocabulary import Actor

    found: dict[Actor, list[str]] = {}
    for phase, status in product(Phase, Status):
        if state in (phase.short_name, status.short_name):
            found.setdefault(acts_in(phase, status), []).append(phase.short_name)
    if state in {phase.short_name for phase in Phase} and len(found) > 1:
        del found[Actor.NOBODY]
    return _who(dict(sorted(found.items(), key=lambda one: -len(one[1]))))


def _who(acting: Mapping[Actor, Sequence[str]]) -> str:
    from dcc.declarations import ACTOR_NAMES

    (usual, _), *others = acting.items()
    named = (f"{ACTOR_NAMES[actor]} for: {', '.join(what)}" for actor, what in others)
    return "; ".join([ACTOR_NAMES[usual], *named])


def _remedies(declarations: Iterable[Declaration]) -> list[str]:
    """The distinct remedies."""
    return list(dict.fromkeys(_named(one.remedy) for one in declarations))


def _named(text: str) -> str:
    """A declared text with the names of its details in the form of commands: `<value>`."""
    from dcc.messages import filled, names_in

    return filled(text, {name: f"<{name}>" for name in names_in(text)})


def _alike(name: str) -> str:
    from dcc.cli.shell.error_advice import explanations
    from dcc.nearest_names import nearest_names
    from dcc.phases import REFERENCE_ROWS
    from dcc.reports.causes.errors import ERROR_KINDS

    states = [row.short_name for table in ("phase", "a_status") for row in REFERENCE_ROWS[table]]
    states += EndReason
    known = [*(text for entry in explanations() for text in (entry.id, entry.name)), *ERROR_KINDS, *states]
    alike = nearest_names(name, known, 1)
    return f"Is {alike[0]} meant? `dcc explain` lists all." if alike else "`dcc explain` lists the ids of errors."


def _print_explanation(entry: Explanation) -> None:
    click.echo(click.style(entry.id, bold=True) + (f" ({entry.name})" if entry.name else ""))
    for title, text in (("means", entry.meaning), ("to do", entry.advice), ("who acts", entry.who)):
        if not text:
            continue
        body = _LINK.sub(r"\1 (docs/\2)", text)
        echo_wrapped(f"  {title:<9} {' '.join(body.split())}", " " * 12, elsewhere=_WIDTH)
