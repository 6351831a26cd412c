"""The causes of what is wrong with a zip, a centre's submissions, or what a session had to do with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from dcc_resources.causes.cause import Cause
from dcc_resources.causes.of_findings import FindingScope, count_causes, with_examples
from dcc_resources.errors import NotFoundError
from dcc_resources.outcomes import ZipKey
from dcc_resources.qc_database.vocabulary import Severity
from dcc_resources.tracker.queries import list_sessions
from dcc_resources.tracker.session_zips import session_zips

MOST: Final = 1_000
"""How many causes are told unless another number is asked for."""

_WORST_FIRST: Final = {severity: -rank for rank, severity in enumerate(Severity)}


def causes_of_zip(tracker: Connection, qc: Connection, key: ZipKey, *, most: int = MOST) -> list[Cause]:
    """The causes of all that is wrong with a zip action and its documents, the worst and largest first."""
    return _collected(qc, FindingScope(zips=[key]), most)


def causes_of_centre(tracker: Connection, qc: Connection, centre: str, *, most: int = MOST) -> list[Cause]:
    """The causes of all that is wrong with a centre's submissions at present, the worst and largest first."""
    return _collected(qc, FindingScope(centre=centre), most)


def causes_of_session(tracker: Connection, qc: Connection, session_id: int, *, most: int = MOST) -> list[Cause]:
    """The causes of what is wrong at present with the zip actions of a session, of each centre by itself.

    The worst and largest come first. Raises NotFoundError.
    """
    sessions = list_sessions(tracker, ids=[session_id])
    if not sessions:
        raise NotFoundError(f"There is no session {session_id}. See `dcc sessions`.")
    keys = [each.key for each in session_zips(tracker, sessions[0])]
    return _collected(qc, FindingScope(zips=keys), most)


def worst_first(causes: Sequence[Cause]) -> list[Cause]:
    """Causes in the order in which they are told: those that fail something before others, the largest first."""
    return sorted(causes, key=_place)


def _place(cause: Cause) -> tuple[bool, int, int, int, str]:
    return (not cause.fails, -cause.findings, -cause.documents, _WORST_FIRST[cause.severity], cause.key)


def _collected(qc: Connection, scope: FindingScope, most: int) -> list[Cause]:
    found = sorted(count_causes(qc, scope), key=lambda item: _place(item[1]))
    return with_examples(qc, found[:most])
