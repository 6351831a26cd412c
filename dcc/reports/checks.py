"""The texts of the checks in the Dagster UI: what each demands, and what to do about one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dcc.phases import Phase
from dcc.rules.catalogue import GROUPS


@dataclass(frozen=True, slots=True)
class CheckTexts:
    """What a check demands and when it passes again; what to do about one that fails; and what one says that passed.

    `to_do` is empty if it depends on the failure.
    """

    demand: str
    to_do: str = ""
    passed: str = ""


OF_PHASES: Final[Mapping[Phase, CheckTexts]] = {
    Phase.ZIP_NAME: CheckTexts(
        "The archive's name follows the naming convention and names a registered centre.",
        "Send the centre the reason. It uploads the archive under a correct name. If the centre was not registered, "
        "register it with `dcc centre add`: the next crawl accepts the archive.",
        "The name follows the naming convention.",
    ),
    Phase.DOWNLOAD: CheckTexts(
        "A file source delivered the complete archive, with the size that it had listed.",
        "Wait: sessions try again whenever they may use its source, and `dcc show` says what it waits for. If it keeps "
        "failing, see the check `reachable` of its source.",
        "The complete archive was downloaded.",
    ),
    Phase.ZIP_MD5: CheckTexts(
        "The archive has the checksum that the centre published beside it.",
        "Ask the centre which is right, the archive or the checksum. Sessions fetch the archive again when either "
        "changes. The check passes when they agree.",
        "The archive has the checksum that the centre published.",
    ),
    Phase.UNZIP: CheckTexts(
        "The archive is complete and safe to extract, and holds XML documents.",
        "Ask the centre to upload the whole archive again. The next crawl fetches it. If that takes it for unchanged, "
        "run `dcc retry`, or press Materialize here.",
        "The archive's documents were extracted.",
    ),
    Phase.XML_NAME: CheckTexts(
        "Every document's name follows the naming convention and names a registered centre.",
        "Send the centre the report. It renames the documents and submits them in a new archive.",
        "Every document name follows the naming convention.",
    ),
    Phase.XSD: CheckTexts(
        "Every document is valid against the XML schema of its kind.",
        "Send the centre the report. It corrects the documents and submits them in a new archive. If it replaces this "
        "archive, the next crawl fetches it. If that takes it for unchanged, run `dcc retry`, or press Materialize "
        "here.",
        "Every document is valid.",
    ),
    Phase.UPLOAD: CheckTexts(
        "Every document is in the QC database: none failed, is held or was withdrawn.",
        passed="Every document was uploaded.",
    ),
}
OF_GROUPS: Final[Mapping[str, CheckTexts]] = {
    group.name: CheckTexts(
        f"{group.description} Rules: {', '.join(group.rules)}.",
        f"`dcc explain {group.rules[0]}` explains the first of the rules.",
    )
    for group in GROUPS
}
OTHERS: Final[Mapping[str, CheckTexts]] = {
    "reachable": CheckTexts(
        "The server accepted the login, and all three directories could be listed. A failure says the reason, who "
        "acts and what to do. The check passes again with the first crawl that lists all directories.",
        "`dcc source test ID` connects to the source, step by step.",
    ),
    "crawl_overdue": CheckTexts(
        "The source was listed completely within DCC_CRAWL_OVERDUE_HOURS, by default a day. An error means that no "
        "session tried, a warning that the server could not be listed. The check passes again with the next crawl "
        "that lists the source.",
        "`dcc session list` shows whether sessions run, `dcc source why ID` why the source was not listed.",
    ),
    "centre_silent": CheckTexts(
        "The centre submitted a new archive within DCC_CENTRE_SILENT_DAYS, by default thirty days. The check passes "
        "again with the next new archive that a crawl finds.",
        "Ask the centre whether it has data to submit. `dcc status` lists silent centres.",
    ),
    "submissions_overdue": CheckTexts(
        "All submissions of the centre came to quality control within DCC_OVERDUE_DAYS, by default three days. An "
        "error means that a submission waits for the DCC. A warning means that a submission failed and waits for the "
        "centre, until it is corrected, or removed from the centre's server.",
        "`dcc zips --centre CODE` lists its submissions, and `dcc show` tells what one waits for.",
    ),
    "archive_copies": CheckTexts(
        "Every archive in the store has a good copy in a replica, as of the last audit.",
        "`dcc archive status` names the archives without one. Ask the centre for them, then run `dcc archive repair`.",
    ),
    "archive_replicas": CheckTexts(
        "The last audit could read every replica of the archive store, and each took the copies that it lacked.",
        "See to its server, its disk or its credentials. Then run `dcc archive repair`, or wait for the next audit.",
    ),
    "fresh": CheckTexts(
        "A snapshot of the reference data exists, and its source confirmed it within DCC_REFERENCE_MAX_AGE_DAYS days.",
        "`dcc reference refresh` retrieves them again.",
    ),
}


def check_named(name: str) -> CheckTexts:
    """The texts of a check: of a phase, a group of rules, or another. Raises KeyError."""
    return {**OTHERS, **OF_GROUPS, **{phase.short_name: texts for phase, texts in OF_PHASES.items()}}[name]
