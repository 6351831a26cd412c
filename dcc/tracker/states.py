"""States in which the tracker has submissions, downloads and documents, and the order of states.

States are totally ordered: those without failure by phase, then by status; a failure is above all others, an earlier
failure above a later one. A reported state is taken if it is above the present one (`advance`), so that neither the
order of reports nor a repeated report matters. A parent's state is computed from its children (`roll_up`): documents to
their download, the latest download to its submission.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dcc.phases import Phase, State, Status

WAITING: Final = State(Phase.ZIP_NAME, Status.DONE)
"""The state of a submission that waits for its download."""

CANCELLED: Final = State(Phase.ZIP_NAME, Status.CANCELLED)
"""The state of a submission that a person cancelled before it was loaded."""

REFUSED: Final = State(Phase.ZIP_NAME, Status.FAILED)
"""The state of a submission whose file name is refused."""

DOWNLOADING: Final = State(Phase.DOWNLOAD, Status.RUNNING)
NOT_DOWNLOADED: Final = State(Phase.DOWNLOAD, Status.FAILED)
WRONG_CHECKSUM: Final = State(Phase.ZIP_MD5, Status.FAILED)
NOT_ARRIVED: Final = frozenset({NOT_DOWNLOADED, WRONG_CHECKSUM})
"""States of a submission whose archive no source has delivered; sessions try again."""

REQUESTED: Final = State(Phase.DOWNLOAD, Status.PENDING)
"""State of a download that has not begun."""

EXTRACTING: Final = State(Phase.UNZIP, Status.RUNNING)
EXTRACTED: Final = State(Phase.UNZIP, Status.DONE)
NOT_EXTRACTED: Final = State(Phase.UNZIP, Status.FAILED)

REFUSED_BY_NAME: Final = State(Phase.XML_NAME, Status.FAILED)
"""State of a document whose name, or kind, is refused."""

VALID: Final = State(Phase.XSD, Status.DONE)
"""State of a document that satisfies its schema, and may be uploaded."""

NOT_UPLOADED: Final = State(Phase.UPLOAD, Status.PENDING)
"""State of a document that waits for its upload, as for its confirmation, or for an older archive."""
UPLOADING: Final = State(Phase.UPLOAD, Status.RUNNING)
UPLOADED: Final = State(Phase.UPLOAD, Status.DONE)
UPLOAD_FAILED: Final = State(Phase.UPLOAD, Status.FAILED)
WITHDRAWN: Final = State(Phase.UPLOAD, Status.CANCELLED)

JUDGED_WELL: Final = State(Phase.DATA, Status.DONE)
JUDGED_FAULTY: Final = State(Phase.DATA, Status.FAILED)

AWAITING_QC: Final = State(Phase.QC, Status.PENDING)
"""State of a document that waits for a wrangler, not for a session."""
QC_DONE: Final = State(Phase.QC, Status.DONE)


def _rank(state: State) -> tuple[bool, int, int]:
    if state.failed:
        return True, -state.phase, 0
    return False, state.phase, state.status


def advance(old: State, new: State) -> State:
    """The state after `new` is reported over `old`: the higher one."""
    return new if _rank(new) > _rank(old) else old


def roll_up(children: Iterable[State]) -> State | None:
    """The parent's state for these children: the earliest failure, else the least advanced; None without any."""
    states = set(children)
    if not states:
        return None
    highest = max(states, key=_rank)
    return highest if highest.failed else min(states, key=_rank)
