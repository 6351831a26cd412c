"""What to do about each error: what `dcc explain` prints and docs/errors.md lists.

An entry for each id of `dcc.errors`, in Markdown. The document and this table are held in step by a test. Who acts is
what is declared of the error, as in causes and reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dcc import errors
from dcc.errors import DccError


@dataclass(frozen=True, slots=True)
class Section:
    """Errors of one kind: the heading under which docs/errors.md lists them, and what to do, by id.

    `who` acts on those that are no cause of anything in a submission, of which nothing is declared.
    """

    heading: str
    who: str
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
        "operator",
        {
            "internal-fault": (
                "Report it with the log, or with what `dcc --debug` prints. Nothing is lost: the next session takes "
                "up what was not done."
            ),
            "helper-ended": (
                "Nothing: the document is read once more. If it happens again, the machine is short of memory: see "
                "its log for the OOM killer."
            ),
            "configuration": (
                "Correct what the message names: an option (`--help` describes each), or a setting (`dcc settings` "
                "lists each with its value)."
            ),
            "database-outdated": (
                "`dcc init` makes the tables or brings them up to date; an older version of the platform cannot use "
                "newer tables."
            ),
            "tracker-outdated": (
                "`dcc init` makes the tracker's tables or brings them up to date; an older version of the platform "
                "cannot use newer tables. `DCC_TRACKER_URL` says which database it is; without it, it is in "
                "`DCC_HOME`."
            ),
            "qc-database-outdated": (
                "`dcc init` makes the QC database's tables or brings them up to date; an older version of the "
                "platform cannot use newer tables. `DCC_QC_URL` says which database it is; without it, it is in "
                "`DCC_HOME`."
            ),
            "dagster-storage-outdated": (
                "`dcc init --production` makes Dagster's tables, or brings them to the installed Dagster."
            ),
            "database-server-unfit": (
                "Use a server of the version, or make the database with the character set, that the message names."
            ),
            "reference-data": (
                "Put the set where the message says, or retrieve it anew: `dcc reference refresh`. The last good "
                "one stays in use."
            ),
            "export": "See to the path, its permissions and the space on its disk; then export again.",
            "backup": "See to the path and its disk; a set that is not whole cannot be restored: use another.",
            "storage-not-empty": (
                "Name an empty database, or say that what is there is to be replaced, as the message tells."
            ),
            "storage-unfinished": "Give the command that broke off again: `dcc restore` or `dcc migrate-storage`.",
            "store-refused": (
                "Correct `DCC_STORE` and its credentials, or have the key's rights given; `dcc doctor` tries the store."
            ),
            "copy-failed": "Nothing of the source was changed. Correct what the message names, then copy again.",
            "not-delegated": (
                "Ask the centre whose data they are. If it agrees, record that with the command that the message "
                "names, and do it again."
            ),
            "built-on": "Withdraw those that the message names first, the latest before the others.",
            "not-found": "Look the name up: `dcc centre list`, `dcc source list`, `dcc zips`, `dcc sessions`.",
            "disk-full": (
                "Free some space, or clean staging (`dcc staging clean`); the next session takes up what waited."
            ),
            "cleaning": "See to the permissions of the staging area and its disk; then clean again.",
            "archive-removed": "Nothing: it was kept as long as it was to be. `dcc retry` fetches it anew.",
            "staged-document-lost": (
                "Nothing: its archive is fetched anew by the next session. See who else writes to the staging area."
            ),
            "stored-object-lost": (
                "Nothing: the next session makes it anew. See who else deletes or writes where `DCC_STORE` is, and to "
                "its disks."
            ),
        },
    ),
    Section(
        "Others at work",
        "nobody",
        {
            "session-active": "Wait until it ends (`dcc sessions`), or stop the process that the message names.",
            "session-lost": (
                "Nothing: the next session goes on. If it happens again, the machine stalls for longer than "
                "`DCC_LEASE_TIMEOUT`."
            ),
            "export-active": "Wait until it is done, or export to another directory.",
            "daemon-active": "One daemon is enough: use `dcc ui --without-daemon` beside it, or stop it.",
            "backup-active": "Wait until it is done, or back up to another directory.",
        },
    ),
    Section(
        "Databases and the store",
        "operator",
        {
            "unreachable": "See to the network and to the server that the message names; the next session tries again.",
            "database-unreachable": (
                "See that the server runs and has space. A session waits `DCC_DATABASE_RETRY` seconds before it "
                "gives up."
            ),
            "tracker-unreachable": (
                "See that the tracker's server runs and has space (`DCC_TRACKER_URL`), then run the command again. "
                "A session waits `DCC_DATABASE_RETRY` seconds before it gives up; the next one goes on."
            ),
            "qc-database-unreachable": (
                "See that the QC database's server runs and has space (`DCC_QC_URL`). Documents go on waiting; the "
                "next session goes on with them."
            ),
            "dagster-storage": (
                "The work is done and in the tracker; see to the disk or database that the message names. The next "
                "session shows it."
            ),
            "dagster-unreachable": "See that the server of `DCC_DAGSTER_URL` runs.",
            "store-unreachable": (
                "See to the server of `DCC_STORE` and the network. It is tried again for `DCC_STORE_RETRY` seconds; "
                "the next session goes on."
            ),
        },
    ),
    Section(
        "File sources",
        "operator",
        {
            "source": "See the message; `dcc source test ID` goes through the connection.",
            "source-misconfigured": (
                "Correct the source: `dcc source change ID`; an access key that refers to a variable or file needs "
                "that to be there."
            ),
            "source-unreachable": (
                "Nothing at first: every session tries again. If it lasts, ask whether the server moved. Of a folder "
                "of this machine: correct the base path with `dcc source change ID`, or mount its disk."
            ),
            "source-timeout": "Nothing at first. A server that is always slow: raise the limit that the message names.",
            "login-refused": (
                "Ask the centre for the user name and the password or key that are valid, then `dcc source change ID`."
            ),
            "host-key-unknown": (
                "Compare the fingerprint with the one that the centre's administrator gives, then `dcc source test "
                "ID --accept-host-key`."
            ),
            "host-key-changed": (
                "Ask the centre whether the server was set up anew. Only when they confirm the new fingerprint: "
                "`dcc source test ID --accept-host-key`."
            ),
            "certificate-refused": (
                "Have the certificate corrected, or name its authority or fingerprint: `dcc source change "
                "--tls-ca`, `--tls-fingerprint`."
            ),
            "certificate-changed": (
                "Ask the centre whether it was renewed; accept the new fingerprint only when they confirm it."
            ),
            "listing-failed": "Correct the base path, or ask the centre for the right to list the directory.",
            "listing-shrunk": (
                "Ask the centre whether it took the archives away. The next crawl decides: it takes them for gone, or "
                "finds them back."
            ),
            "file-missing": "Nothing: the next crawl lists what is there. The centre removed or renamed it.",
            "transfer-failed": "Nothing: other sources and later sessions try again, and go on from what had arrived.",
            "file-changed": "Nothing: a later session takes it when it is complete.",
            "size-mismatch": (
                "Nothing at first: it is fetched anew. If it happens again, ask the centre whether it was still "
                "being uploaded."
            ),
            "checksum-mismatch": "The centre corrects the file or its `.md5`; every session tries again.",
            "reference-unreachable": (
                "Nothing: the last good reference data stay in use. See that the address is right."
            ),
            "report-not-sent": (
                "See to what the message names: `DCC_SMTP_URL`, `DCC_REPORT_TO` or `DCC_REPORT_DIRECTORY`."
            ),
            "notification-not-sent": (
                "See to what the message names, such as `DCC_SMTP_URL` or `DCC_NOTIFY_WEBHOOK`; the next session sends "
                "what was not sent."
            ),
        },
    ),
    Section(
        "Submissions",
        "centre",
        {
            "faulty-data": "Ask the centre to correct what the message names.",
            "bad-file-name": (
                "Rename the file as [For centres](centres.md#what) says; a document is submitted in a new archive."
            ),
            "archive": (
                "Make the archive anew, test it with `dcc validate`, and put it in place of the bad one, under the "
                "same name. The next session fetches it."
            ),
            "corrupt-archive": (
                "It is damaged on the server, not only in transfer: put a good one in its place, under the same name. "
                "The next session fetches it."
            ),
            "encrypted-archive": "Put it in its place without a password, under the same name.",
            "unsafe-archive": (
                "Make it without paths, links or absolute names, and put it in its place, under the same name."
            ),
            "oversized-archive": (
                "Split it into several. The operator sets the limits: `DCC_MAX_ARCHIVE_BYTES`, `DCC_MAX_ARCHIVE_RATIO`."
            ),
            "empty-archive": ("Put the documents into the archive, and that in its place, under the same name."),
            "duplicate-member": (
                "Give each document a name of its own, and put the archive in its place, under the same name."
            ),
            "manifest": (
                "Correct the archive or its manifest (`dcc manifest` writes one), and put it in its place, under the "
                "same name."
            ),
            "member-ignored": "Nothing, unless it should have been taken: then give it a name that ends in `.xml`.",
            "member-not-opened": "Submit what it holds in a `.zip` archive of its own.",
            "document": "Correct what the message names, and submit the document in a new archive.",
            "not-well-formed": (
                "The document is no XML from the line named on: export it anew, and check it with `dcc validate`."
            ),
            "schema-violation": "Correct the lines named; `dcc validate` checks before the upload.",
            "wrong-document-kind": (
                "Name documents of specimens `….specimen.impc.xml`, those of procedures `….experiment.impc.xml`."
            ),
            "forbidden-markup": "Leave the `<!DOCTYPE …>` out.",
        },
    ),
)


def explain(name: str) -> Explanation | None:
    """The error with an id (`bad-file-name`) or a name (`BadFileNameError`); None if there is none."""
    return next((entry for entry in explanations() if name in (entry.id, entry.name)), None)


def explanations() -> list[Explanation]:
    """Every error, in the order of the document."""
    kinds = {kind.error_id(): kind for kind in vars(errors).values() if _is_kind(kind)}
    return [
        Explanation(one, kind.short_name(), kind.summary(), advice, who_acts(one) or section.who)
        for section in SECTIONS
        for one, advice in section.advice.items()
        if (kind := kinds.get(one)) is not None
    ]


def who_acts(rule: str) -> str:
    """Those who act on what a rule or error finds; empty where nothing is declared of it."""
    from dcc.declarations import ACTOR_NAMES, acting
    from dcc.reports.causes.errors import ERROR_KINDS  # noqa: F401 - declares the errors

    return ", ".join(ACTOR_NAMES[one] for one in acting(rule))


def _is_kind(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, DccError)
