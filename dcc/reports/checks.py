"""The checks of the Dagster UI that are neither phases nor groups of rules: what each demands, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Check:
    """What a check demands, when it passes again, and what the DCC does about one that fails."""

    demand: str
    to_do: str


CHECKS: Final[Mapping[str, Check]] = {
    "reachable": Check(
        "The server accepted the login, and all three directories could be listed. A failure says the reason, who "
        "acts and what to do. The check passes again with the first crawl that lists all directories.",
        "`dcc source test ID` connects to the source, step by step.",
    ),
    "crawl_overdue": Check(
        "The source was listed completely within DCC_CRAWL_OVERDUE_HOURS, by default a day. An error means that no "
        "session tried, a warning that the server could not be listed. The check passes again with the next crawl "
        "that lists the source.",
        "`dcc session list` shows whether sessions run, `dcc source why ID` why the source was not listed.",
    ),
    "centre_silent": Check(
        "The centre submitted a new archive within DCC_CENTRE_SILENT_DAYS, by default thirty days. The check passes "
        "again with the next new archive that a crawl finds.",
        "Ask the centre whether it has data to submit. `dcc status` lists silent centres.",
    ),
    "submissions_overdue": Check(
        "All submissions of the centre came to quality control within DCC_OVERDUE_DAYS, by default three days. An "
        "error means that a submission waits for the DCC. A warning means that a submission failed and waits for the "
        "centre, until it is corrected, or removed from the centre's server.",
        "`dcc zips --centre CODE` lists its submissions, and `dcc show` tells what one waits for.",
    ),
    "archive_copies": Check(
        "Every archive in the store has a good copy in a replica, as of the last audit.",
        "`dcc archive status` names the archives without one. Ask the centre for them, then run `dcc archive repair`.",
    ),
    "archive_replicas": Check(
        "The last audit could read every replica of the archive store, and each took the copies that it lacked.",
        "See to its server, its disk or its credentials. Then run `dcc archive repair`, or wait for the next audit.",
    ),
    "fresh": Check(
        "A snapshot of the reference data exists, and its source confirmed it within DCC_REFERENCE_MAX_AGE_DAYS days.",
        "`dcc reference refresh` retrieves them again.",
    ),
}
"""Each by its name."""
