"""Everything that `dcc explain` explains, by its name: errors, rules, causes, phases, statuses, sessions, checks.

Where the whole platform is not installed, as at a centre, none names a command that cannot run there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from dcc.cli.shell import error_advice
from dcc.cli.shell.error_advice import Explanation, named, remedies
from dcc.declarations import ACTOR_NAMES, acting, acts_in, declared
from dcc.error_declarations import ERROR_KINDS, LISTING
from dcc.outcomes import FAILED_ENDS, SESSION_MEANINGS, EndReason
from dcc.phases import Phase, Status
from dcc.reports.checks import OF_GROUPS, OTHERS
from dcc.rules.catalogue import CATALOGUE, GROUPS, UNWAIVABLE
from dcc.runtime.installed_packages import has_platform
from dcc.tracker.reference_rows import REFERENCE_ROWS
from dcc.vocabulary import Actor

PHASES: Final = {row.short_name: row.description for row in REFERENCE_ROWS["phase"]}
STATUSES: Final = {row.short_name: row.description for row in REFERENCE_ROWS["a_status"]}
_GROUPS: Final = {group.name: group for group in GROUPS}
_WORDS: Final = {
    "active": "A process works on the session.",
    "open": "The session waits for a run to continue it.",
    "succeeded": "A task of the session did all its work.",
    "partial": (
        "A crawl did not list all directories of a source, or one of them lists far fewer archives than before. What "
        "it did list is taken. The session ends with faults."
    ),
    "interrupted": (
        "Somebody ended the command, with Ctrl-C or a signal: its exit code is 130, and its session is stopped. The "
        "next session continues the work."
    ),
}
"""Further words that tell of sessions and their commands."""
NEW_NAMES: Final = {
    "heard_from": "centre_silent",
    "through_in_time": "submissions_overdue",
    "crawled_lately": "crawl_overdue",
    "partly": "partial",
}
"""The new name of each check and word that was renamed."""

_PREFIX: Final = re.compile(r"^Centre[A-Za-z]+SetValidator_")
_OF_UNFETCHED_MEDIA: Final = frozenset(
    (
        "mediaParameter_MediaUnavailable",
        "MediaSampleParameter_mediaNotAvailable",
        "seriesMediaParameter_mediaNotAvailable",
    )
)
"""The ids of the existing validator for what no rule checks here."""


def all_explanations() -> Mapping[str, Sequence[Explanation]]:
    """Everything explained, by headings."""
    return {
        "Errors": error_advice.explanations(),
        "Phases": [found for name in PHASES if (found := state_explained(name))],
        "Statuses": [found for name in STATUSES if (found := state_explained(name))],
        "Sessions": [found for name in (*EndReason, *_WORDS) if (found := session_explained(name))],
        "Checks": [found for name in (*OTHERS, *OF_GROUPS) if (found := check_explained(name))],
        "Rules": [found for name in CATALOGUE if (found := rule_explained(name))],
    }


def known_names() -> list[str]:
    """Every name that is explained."""
    explained = [one for some in all_explanations().values() for one in some]
    return list(
        dict.fromkeys([*(one.id for one in explained), *(one.name for one in explained if one.name), *ERROR_KINDS])
    )


def error_explained(name: str) -> Explanation | None:
    """The error with an id or name, with those who act on its causes; None if there is none."""
    entry = error_advice.explain(name)
    return replace(entry, who=_who_by_cause(entry.id)) if entry and entry.id in ERROR_KINDS else entry


def rule_explained(name: str) -> Explanation | None:
    """The rule with an id, explained like an error, with those who act on its causes; None if there is none."""
    rule = CATALOGUE.get(name) or CATALOGUE.get(name.upper())
    if rule is None:
        return None
    platform = has_platform()
    advice = [f"`dcc data findings --rule {rule.id} --each` lists what it found."] if platform else []
    advice += remedies(declared(rule.id).values())
    if rule.needs:
        ages = ": `dcc reference list` says how old they are" if platform else ""
        advice.append(f"It is judged by reference data ({', '.join(rule.needs)}){ages}.")
    if rule.id not in UNWAIVABLE and set(acting(rule.id)) != {Actor.DCC}:
        advice.append("`dcc rules waive` sets the rule aside." if platform else "The DCC can set the rule aside.")
    meaning = f"{rule.demand} When that is not met: {rule.severity}."
    if rule.package:
        meaning += f" The package {rule.package} adds this rule."
    return Explanation(rule.id, "", meaning, " ".join(advice), _who_by_cause(rule.id))


def rules_known_as(name: str) -> tuple[str, Sequence[str]]:
    """What an id of the existing validator, with its prefix or without, is here, and the rules to look at; or none."""
    known = _PREFIX.sub("", name)
    if known in _OF_UNFETCHED_MEDIA:
        return f"Nothing checks {name} here: no rule fetches media. P20 judges their URLs.", ["P20"]
    rules = [rule.id for rule in CATALOGUE.values() if known in rule.known_as]
    return f"{name} of the existing validator is {' or '.join(rules)} here.", rules


def cause_explained(name: str) -> Explanation | None:
    """A cause of `dcc data causes` that is no error or rule, such as `listing:changed`, also named `changed`."""
    name = name if name in ERROR_KINDS else LISTING + name
    if name not in ERROR_KINDS:
        return None
    declarations = list(declared(name).values())
    meaning, advice = f"{named(declarations[0].cause)}.", " ".join(remedies(declarations))
    return Explanation(name, "", meaning, advice, _who_by_cause(name))


def state_explained(*names: str) -> Explanation | None:
    """A phase, a status, or both, of submissions and documents; None for any other names."""
    lower = [name.lower() for name in names]
    phases, statuses = [name for name in lower if name in PHASES], [name for name in lower if name in STATUSES]
    if len(phases) > 1 or len(statuses) > 1 or len(phases) + len(statuses) < len(names):
        return None
    meaning = " ".join([*(PHASES[name] for name in phases), *(STATUSES[name] for name in statuses)])
    options = " ".join([*(f"--phase {name}" for name in phases), *(f"--status {name}" for name in statuses)])
    advice = f"`dcc zips {options}` lists the submissions there; `dcc show` explains each." if has_platform() else ""
    return Explanation(" ".join([*phases, *statuses]), "", meaning, advice, _who_in(phases, statuses))


def session_explained(name: str) -> Explanation | None:
    """Why a session ended, or another word that tells of one; None for any other name."""
    name = name.lower()
    if name in set(EndReason):
        meaning = f"A session ended so: {SESSION_MEANINGS[EndReason(name)]}."
        advice = "`dcc session list` has the sessions that ended so; `dcc session show` explains each."
    elif name in _WORDS:
        meaning, advice = _WORDS[name], "`dcc session list` lists all sessions."
    else:
        return None
    actor = Actor.DCC if name in FAILED_ENDS else Actor.NOBODY
    if name == "partial":
        advice, actor = "`dcc status` names the directory. Ask the centre what became of it.", Actor.CENTRE
    return Explanation(name, "", meaning, advice if has_platform() else "", ACTOR_NAMES[actor])


def check_explained(name: str) -> Explanation | None:
    """A check of the Dagster UI that is no phase; None for any other name."""
    if name in OTHERS:
        to_do = OTHERS[name].to_do if has_platform() else ""
        return Explanation(name, "", OTHERS[name].demand, to_do, ACTOR_NAMES[Actor.DCC])
    if name not in OF_GROUPS:
        return None
    actors: dict[Actor, list[str]] = {}
    for rule in _GROUPS[name].rules:
        actors.setdefault(next(iter(acting(rule)), Actor.DCC), []).append(rule)
    return Explanation(name, "", OF_GROUPS[name].demand, OF_GROUPS[name].to_do, _who_usually_first(actors))


def _who_by_cause(kind: str) -> str:
    """Who acts on a rule or error, who usually does first, the others each with the causes that they act on."""
    return _who({actor: [named(cause) for cause in causes] for actor, causes in acting(kind).items()})


def _who_in(phases: Sequence[str], statuses: Sequence[str]) -> str:
    """Who acts in a phase, on a status, which for some phases is another, or on both."""
    if (list(phases), list(statuses)) == ([Phase.UPLOAD.short_name], [Status.PENDING.short_name]):
        return _who({Actor.NOBODY: [], Actor.DCC: ["what waits to be confirmed"]})
    found: dict[Actor, list[str]] = {}
    for phase, status in product(Phase, Status):
        if phase.short_name in (phases or PHASES) and status.short_name in (statuses or STATUSES):
            found.setdefault(acts_in(phase, status), []).append(phase.short_name)
    if phases and len(found) > 1:
        del found[Actor.NOBODY]
    return _who_usually_first(found)


def _who_usually_first(found: Mapping[Actor, Sequence[str]]) -> str:
    return _who(dict(sorted(found.items(), key=lambda one: -len(one[1]))))


def _who(found: Mapping[Actor, Sequence[str]]) -> str:
    (usual, _), *others = found.items()
    named = (f"{ACTOR_NAMES[actor]} for: {', '.join(what)}" for actor, what in others)
    return "; ".join([ACTOR_NAMES[usual], *named])
