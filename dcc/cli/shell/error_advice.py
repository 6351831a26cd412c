"""What to do about each error: what `dcc explain` prints and docs/errors.md lists.

An entry for each id of `dcc.errors`, in Markdown. Who acts is what is declared of the error, as in causes and reports;
so is what to do about a source or submission, unless `SECTIONS` says it. `make pages` writes the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dcc import errors
from dcc.declarations import ACTOR_NAMES, Declaration, acting, declared
from dcc.error_declarations import kind_of
from dcc.errors import DccError
from dcc.messages import filled, names_in
from dcc.runtime.installed_packages import has_platform
from dcc.vocabulary import Actor


@dataclass(frozen=True, slots=True)
class Section:
    """Errors of one kind: the heading under which docs/errors.md lists them, and what to do, by id.

    `acts` is who acts on those that are no cause of anything in a submission, of which nothing is declared. All below
    the class `of` are among them: without an advice, what is declared says what to do.
    """

    heading: str
    acts: Actor
    advice: Mapping[str, str]
    of: type[DccError] | None = None


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
            "source-unreachable": "If it lasts, ask whether it moved, or mount the folder.",
            "source-timeout": "If it is always slow, raise the limit in the message.",
            "host-key-changed": (
                "Ask the centre. If it confirms the fingerprint: `dcc source test ID --accept-host-key`."
            ),
            "file-missing": "The centre removed or renamed it.",
            "file-not-readable": "Correct its permissions.",
            "file-changed": "A later session takes it.",
            "size-mismatch": "If it repeats, ask whether it was still uploaded.",
            "reference-unreachable": "Check its address.",
            "report-not-sent": "Correct `DCC_SMTP_URL`, `DCC_REPORT_TO` or `DCC_REPORT_DIRECTORY`.",
            "notification-not-sent": "Correct what the message names.",
        },
        of=errors.SourceError,
    ),
    Section(
        "Submissions",
        Actor.CENTRE,
        {
            "bad-file-name": "Rename it as [Submit your data](centres.md) says.",
            "encrypted-archive": "Replace it by one without a password, under the same name.",
            "unsafe-archive": "Replace it by one without them, under the same name.",
            "oversized-archive": "Split it. The operator sets `DCC_MAX_ARCHIVE_BYTES` and `DCC_MAX_ARCHIVE_RATIO`.",
            "manifest": "Correct it or its manifest, and replace it under the same name.",
            "member-ignored": "If it is a document, end its name with `.xml`; name tables as [Tables](csv.md) says.",
            "member-not-opened": "Submit its content in a `.zip` archive of its own.",
            "conversion": (
                "Correct the rows and columns in the message ([Tables](csv.md)); submit the file in a new archive."
            ),
            "not-well-formed": "Export it again and check it with `dcc validate`.",
            "forbidden-markup": "Remove the `<!DOCTYPE …>`.",
        },
        of=errors.FaultyDataError,
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
    return "\n".join([_BEGINNING, *(_section(each, list(_explanations_in(each))) for each in SECTIONS)])


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
    return [entry for section in SECTIONS for entry in _explanations_in(section)]


def _explanations_in(section: Section) -> Iterator[Explanation]:
    kinds = error_kinds()
    below = [one for one, kind in kinds.items() if section.of is not None and issubclass(kind, section.of)]
    for one in dict.fromkeys([*below, *section.advice]):
        name = kinds[one].short_name()
        code = kind_of(name) if one in below else one
        advice = section.advice.get(one) or " ".join(remedies(declared(code).values()))
        who = ", ".join(ACTOR_NAMES[actor] for actor in acting(code) or (section.acts,))
        yield Explanation(one, name, kinds[one].summary(), advice, who)


def remedies(declarations: Iterable[Declaration]) -> list[str]:
    """The distinct remedies; at a centre, what centres read."""
    at_centre = not has_platform()
    return list(dict.fromkeys(named(" ".join(one.what_to_do(at_centre=at_centre))) for one in declarations))


def named(text: str) -> str:
    """A declared text with the names of its details in the form of commands: `<value>`."""
    return filled(text, {name: f"<{name}>" for name in names_in(text)})


if __name__ == "__main__":
    sys.stdout.write(errors_page())
