"""Everything that `dcc explain` explains, by its name: errors, rules, causes, phases, statuses, sessions, checks.

Where the whole platform is not installed, as at a centre, none names a command that cannot run there. `make pages`
writes docs/errors.md by this module.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from dcc import errors
from dcc.declarations import ACTOR_NAMES, Declaration, acting, acts_in, declared
from dcc.errors import DccError
from dcc.messages import filled, names_in
from dcc.outcomes import FAILED_ENDS, SESSION_MEANINGS, EndReason
from dcc.phases import Phase, Status
from dcc.reports.causes.errors import ERROR_KINDS, LISTING
from dcc.reports.checks import OF_GROUPS, OTHERS
from dcc.rules.catalogue import CATALOGUE, GROUPS, UNWAIVABLE
from dcc.runtime.installed_packages import has_platform
from dcc.tracker.database import REFERENCE_ROWS
from dcc.vocabulary import Actor


@dataclass(frozen=True, slots=True)
class Section:
    """Errors of one kind: the heading under which docs/errors.md lists them, and what to do, by id.

    `acts` is who acts on those that are no cause of anything in a submission, of which nothing is declared.
    """

    heading: str
    acts: Actor
    advice: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Explanation:
    """An error as it is explained: its id, its name in the tracker, what it means, what to do, who does it."""

    id: str
    name: str
    meaning: str
    advice: str
    who: str


SECTIONS: Final = (
    Section(
        "The platform and its set-up",
        Actor.DCC,
        {
            "internal-fault": "Report it with the output of `dcc --debug`; nothing is lost.",
            "helper-ended": "If it repeats, memory is short.",
            "configuration": "Correct what the message names.",
            "database-outdated": "Run `dcc init`. Newer tables need a newer version.",
            "tracker-outdated": "Run `dcc init`. `DCC_TRACKER_URL` names the tracker.",
            "qc-database-outdated": "Run `dcc init`. `DCC_QC_URL` names it.",
            "dagster-storage-outdated": "Run `dcc init --production`.",
            "database-server-unfit": "Use the version or character set in the message.",
            "reference-data": "Correct it, then `dcc reference refresh`.",
            "export": "Check the path, its permissions and its disk.",
            "backup": "Check the path and its disk, or use another set.",
            "storage-not-empty": "Name an empty database, or confirm as the message says.",
            "storage-unfinished": "Repeat the command: `dcc restore` or `dcc migrate-storage`.",
            "store-refused": "Correct `DCC_STORE` or its key's rights.",
            "copy-failed": "Correct what the message names, then copy again.",
            "not-delegated": "Ask that centre. If it agrees, give the command in the message.",
            "built-on": "Withdraw those in the message first, the latest before others.",
            "not-found": "See `dcc centre list`, `dcc source list`, `dcc zips`, `dcc session list`.",
            "disk-full": "Free space, or run `dcc staging clean`.",
            "cleaning": "Check its permissions and disk; clean again.",
            "archive-removed": "`dcc retry` downloads it again.",
            "staged-document-lost": "Find out who else writes there.",
            "stored-object-lost": "Find out who else writes there.",
        },
    ),
    Section(
        "Others at work",
        Actor.NOBODY,
        {
            "session-active": "Wait (`dcc session list`), or stop the process in the message.",
            "session-time-limit": "The next session continues. See `DCC_SESSION_TIME_LIMIT`.",
            "session-lost": "If it repeats, the machine stalls for longer than `DCC_LEASE_TIMEOUT`.",
            "export-active": "Wait, or use another directory.",
            "daemon-active": "Stop it, or use `dcc ui --without-daemon`.",
            "storage-in-use": "Stop it, then repeat.",
            "backup-active": "Wait, or use another directory.",
        },
    ),
    Section(
        "Databases and the store",
        Actor.DCC,
        {
            "unreachable": "Check the network and the server.",
            "database-unreachable": "Check its server and disk.",
            "tracker-unreachable": "Check its server and disk (`DCC_TRACKER_URL`).",
            "qc-database-unreachable": "Check its server and disk (`DCC_QC_URL`).",
            "dagster-storage": "Check its disk or server. The next session shows the work.",
            "dagster-unreachable": "Check the server of `DCC_DAGSTER_URL`.",
            "store-unreachable": "Check the server of `DCC_STORE`.",
        },
    ),
    Section(
        "File sources",
        Actor.DCC,
        {
            "source": "Run `dcc source test ID`.",
            "source-misconfigured": "Correct it: `dcc source change ID`.",
            "source-unreachable": "If it lasts, ask whether it moved, or mount the folder.",
            "source-timeout": "If it is always slow, raise the limit in the message.",
            "login-refused": "Ask the centre, then `dcc source change ID`.",
            "host-key-unknown": (
                "Compare the fingerprint with the centre's, then `dcc source test ID --accept-host-key`."
            ),
            "host-key-changed": (
                "Ask the centre. If it confirms the fingerprint: `dcc source test ID --accept-host-key`."
            ),
            "certificate-refused": ("Have it corrected, or trust it: `dcc source change ID --tls-fingerprint`."),
            "certificate-changed": "Ask the centre. Accept the fingerprint only if it confirms it.",
            "listing-failed": "Correct the base path, or ask for the right to list it.",
            "listing-shrunk": "Ask the centre whether it removed them.",
            "file-missing": "The centre removed or renamed it.",
            "transfer-failed": "A later try continues it.",
            "file-not-readable": "Correct its permissions.",
            "file-changed": "A later session takes it.",
            "size-mismatch": "If it repeats, ask whether it was still uploaded.",
            "bad-checksum-file": "Write the `.md5` again with `md5sum`, or remove it.",
            "checksum-mismatch": "Correct the file or its `.md5`.",
            "reference-unreachable": "Check its address.",
            "report-not-sent": "Correct `DCC_SMTP_URL`, `DCC_REPORT_TO` or `DCC_REPORT_DIRECTORY`.",
            "notification-not-sent": "Correct what the message names.",
        },
    ),
    Section(
        "Submissions",
        Actor.CENTRE,
        {
            "faulty-data": "Correct what the message names.",
            "bad-file-name": "Rename it as [For centres](centres.md) says.",
            "archive": "Make it again, check it with `dcc validate`, and replace it under the same name.",
            "corrupt-archive": "Replace it under the same name.",
            "encrypted-archive": "Replace it by one without a password, under the same name.",
            "unsafe-archive": "Replace it by one without them, under the same name.",
            "oversized-archive": ("Split it. The operator sets `DCC_MAX_ARCHIVE_BYTES` and `DCC_MAX_ARCHIVE_RATIO`."),
            "empty-archive": "Replace it by one with documents, under the same name.",
            "duplicate-member": "Give each document its own name, and replace the archive under the same name.",
            "manifest": "Correct it or its manifest, and replace it under the same name.",
            "member-ignored": "If it is a document, end its name with `.xml`.",
            "member-not-opened": "Submit its content in a `.zip` archive of its own.",
            "document": "Correct what the message names; submit it in a new archive.",
            "conversion": (
                "Correct the rows and columns in the message ([CSV tables](csv.md)); submit the file in a new archive."
            ),
            "not-well-formed": "Export it again and check it with `dcc validate`.",
            "schema-violation": "Correct the lines in the message; check it with `dcc validate`.",
            "wrong-document-kind": (
                "Name specimen documents `….specimen.impc.xml`, procedure documents `….experiment.impc.xml`."
            ),
            "forbidden-markup": "Remove the `<!DOCTYPE …>`.",
        },
    ),
)


_BEGINNING: Final = """\
# Errors

A command that fails prints the id of its error in brackets: `Error (tracker-outdated): ...`. The command
`dcc explain tracker-outdated` says the same as this page; it also knows [rules](rules.md) and causes. The tracker, JSON
and reports use the name, `BadFileNameError` for `bad-file-name`. Brackets say who acts, if not who the section names.
"""


def errors_page() -> str:
    """The page of docs/ that lists every error, in Markdown."""
    entries = {entry.id: entry for entry in explanations()}
    return "\n".join([_BEGINNING, *(_section(each, [entries[one] for one in each.advice]) for each in SECTIONS)])


def _section(section: Section, entries: Sequence[Explanation]) -> str:
    usual, _ = Counter(entry.who for entry in entries).most_common(1)[0]
    lines = [
        f"- `{entry.id}`{'' if entry.who == usual else f' ({entry.who})'}: {entry.meaning} {entry.advice}"
        for entry in entries
    ]
    return "\n".join([f"## {section.heading}", "", f"Who acts: {usual}.", "", *lines, ""])


def explain(name: str) -> Explanation | None:
    """The error with an id (`bad-file-name`) or a name (`BadFileNameError`); None if there is none."""
    return next((entry for entry in explanations() if name in (entry.id, entry.name)), None)


def error_kinds() -> dict[str, type[DccError]]:
    """The kinds of errors by their ids."""
    found = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DccError))
    return {kind.error_id(): kind for kind in found}


def explanations() -> list[Explanation]:
    """Every error, in the order of the document."""
    kinds = error_kinds()
    return [
        Explanation(
            one,
            kind.short_name(),
            kind.summary(),
            advice,
            who=", ".join(ACTOR_NAMES[actor] for actor in acting(one) or (section.acts,)),
        )
        for section in SECTIONS
        for one, advice in section.advice.items()
        if (kind := kinds.get(one)) is not None
    ]


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


def all_explanations() -> Mapping[str, Sequence[Explanation]]:
    """Everything explained, by headings."""
    return {
        "Errors": explanations(),
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
    entry = explain(name)
    return replace(entry, who=_who_by_cause(entry.id)) if entry and entry.id in ERROR_KINDS else entry


def rule_explained(name: str) -> Explanation | None:
    """The rule with an id, explained like an error, with those who act on its causes; None if there is none."""
    rule = CATALOGUE.get(name) or CATALOGUE.get(name.upper())
    if rule is None:
        return None
    platform = has_platform()
    advice = [f"`dcc data findings --rule {rule.id} --each` lists what it found."] if platform else []
    advice += _remedies(declared(rule.id).values())
    if rule.needs:
        ages = ": `dcc reference list` says how old they are" if platform else ""
        advice.append(f"It is judged by reference data ({', '.join(rule.needs)}){ages}.")
    if rule.id not in UNWAIVABLE and set(acting(rule.id)) != {Actor.DCC}:
        advice.append("`dcc rules waive` sets the rule aside." if platform else "The DCC can set the rule aside.")
    meaning = f"{rule.demand} When that is not met: {rule.severity}."
    return Explanation(rule.id, "", meaning, " ".join(advice), _who_by_cause(rule.id))


def cause_explained(name: str) -> Explanation | None:
    """A cause of `dcc data causes` that is no error or rule, such as `listing:changed`, also named `changed`."""
    name = name if name in ERROR_KINDS else LISTING + name
    if name not in ERROR_KINDS:
        return None
    declarations = list(declared(name).values())
    meaning, advice = f"{_named(declarations[0].cause)}.", " ".join(_remedies(declarations))
    return Explanation(name, "", meaning, advice, _who_by_cause(name))


def state_explained(*names: str) -> Explanation | None:
    """A phase, a status, or both, of submissions and documents; None for any other names."""
    lower = [name.lower() for name in names]
    phases, statuses = ([name for name in lower if name in known] for known in (PHASES, STATUSES))
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
    return _who({actor: [_named(cause) for cause in causes] for actor, causes in acting(kind).items()})


def _who_in(phases: Sequence[str], statuses: Sequence[str]) -> str:
    """Who acts in a phase, on a status, which for some phases is another, or on both."""
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


def _remedies(declarations: Iterable[Declaration]) -> list[str]:
    """The distinct remedies; at a centre, what centres read."""
    platform = has_platform()
    return list(
        dict.fromkeys(_named(" ".join(declaration.what_to_do(at_centre=not platform))) for declaration in declarations)
    )


def _named(text: str) -> str:
    """A declared text with the names of its details in the form of commands: `<value>`."""
    return filled(text, {name: f"<{name}>" for name in names_in(text)})


if __name__ == "__main__":
    sys.stdout.write(errors_page())
