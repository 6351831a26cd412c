"""The outcome of a submission, and the steps of a document, from phase and status."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from dcc.phases import Phase, Status
from dcc.reports.submissions.model import Outcome, Standing, Step, Tone
from dcc.tracker.hostings.foreign_archives import HeldArchive
from dcc.tracker.queries.zip_action_lists import StateCount

if TYPE_CHECKING:
    from dcc.reports.causes.cause import Cause

DOCUMENT_PHASES: Final = (
    Phase.XML_NAME,
    Phase.XSD,
    Phase.UPLOAD,
    Phase.DATA,
    Phase.CONTEXT,
    Phase.OVERVIEW,
    Phase.QC,
)
"""The phases that documents go through, in order."""

_ARCHIVE_FAILURES: Final = {
    Phase.ZIP_NAME: Outcome.NAME_REFUSED,
    Phase.DOWNLOAD: Outcome.NOT_ARRIVED,
    Phase.ZIP_MD5: Outcome.CHECKSUM_WRONG,
    Phase.UNZIP: Outcome.UNREADABLE,
}
_STANDINGS: Final = {
    Status.PENDING: Standing.WAITS,
    Status.RUNNING: Standing.RUNNING,
    Status.DONE: Standing.PASSED,
    Status.CANCELLED: Standing.CANCELLED,
    Status.FAILED: Standing.FAILED,
}
_TONES: Final = {
    Outcome.NAME_REFUSED: Tone.BAD,
    Outcome.WAITING: Tone.WAIT,
    Outcome.FOREIGN: Tone.WARN,
    Outcome.DECLINED: Tone.WAIT,
    Outcome.NOT_ARRIVED: Tone.WARN,
    Outcome.CHECKSUM_WRONG: Tone.BAD,
    Outcome.UNREADABLE: Tone.BAD,
    Outcome.UNDER_WAY: Tone.WAIT,
    Outcome.NOTHING_TAKEN: Tone.BAD,
    Outcome.PARTLY_TAKEN: Tone.WARN,
    Outcome.WAITS_FOR_DATA: Tone.WARN,
    Outcome.HELD: Tone.WARN,
    Outcome.WITHDRAWN: Tone.WAIT,
    Outcome.LEFT_OUT: Tone.WAIT,
    Outcome.TO_BE_TAKEN: Tone.WAIT,
    Outcome.IN_ORDER: Tone.WAIT,
    Outcome.CHANGED: Tone.WARN,
    Outcome.TO_BE_LOOKED_AT: Tone.GOOD,
    Outcome.DONE: Tone.GOOD,
}


def outcome_of(
    phase: Phase,
    status: Status,
    states: Iterable[StateCount],
    *,
    held: bool,
    taken: bool | None,
    left_out: bool = False,
) -> Outcome:
    """What became of a zip action in that state, whose documents are in `states`.

    `held`: one of them waits to be confirmed. `left_out`: the settings leave a step out of one of them. `taken`:
    something of it was taken over; None where that is not known, and then the states tell.
    """
    counts = list(states)
    if status is Status.FAILED and phase in _ARCHIVE_FAILURES:
        return _ARCHIVE_FAILURES[phase]
    if phase in (Phase.ZIP_NAME, Phase.DOWNLOAD):
        return Outcome.WAITING
    if status is Status.FAILED:
        some = _some_taken(counts) if taken is None else taken or _under_way(counts)
        return Outcome.PARTLY_TAKEN if some else Outcome.NOTHING_TAKEN
    if status is Status.CANCELLED:
        return Outcome.LEFT_OUT if left_out or phase > Phase.UPLOAD else Outcome.WITHDRAWN
    if held:
        return Outcome.HELD
    if phase is Phase.QC:
        return Outcome.DONE if status is Status.DONE else Outcome.TO_BE_LOOKED_AT
    if (phase, status) in ((Phase.XSD, Status.DONE), (Phase.UPLOAD, Status.PENDING)):
        return Outcome.TO_BE_TAKEN
    return Outcome.UNDER_WAY


def unless_held(outcome: Outcome, held: HeldArchive | None) -> Outcome:
    """The same, but for an archive that waits since it lies on another centre's source, or was turned down."""
    if held is None or outcome is not Outcome.WAITING:
        return outcome
    return Outcome.FOREIGN if held.declined is None else Outcome.DECLINED


def in_order(outcome: Outcome, *, waits: bool) -> Outcome:
    """The same, but for one to be taken over that waits for an older archive of its centre."""
    return Outcome.IN_ORDER if waits and outcome is Outcome.TO_BE_TAKEN else outcome


def _under_way(states: Iterable[StateCount]) -> bool:
    """Whether documents are whole and on their way."""
    return any(state.phase >= Phase.XSD and state.status is not Status.FAILED for state in states)


def _some_taken(states: Iterable[StateCount]) -> bool:
    return any(
        state.phase > Phase.UPLOAD
        or (state.phase >= Phase.XSD and state.status not in (Status.FAILED, Status.CANCELLED))
        for state in states
    )


def tone_of(outcome: Outcome) -> Tone:
    """How good an outcome is."""
    return _TONES[outcome]


def once_changed(outcome: Outcome) -> Outcome:
    """What became of a zip action whose archive changed after its data were taken over: it is not in order any more."""
    return outcome if _TONES[outcome] in (Tone.BAD, Tone.WARN) else Outcome.CHANGED


def only_waits(outcome: Outcome, causes: Iterable[Cause]) -> bool:
    """Whether what failed of a submission clears by itself: as long as other data are missing, nobody has to act."""
    failing = [cause for cause in causes if cause.fails]
    return is_faulty(outcome) and bool(failing) and all(cause.clears_by_itself for cause in failing)


def is_faulty(outcome: Outcome) -> bool:
    """Whether documents failed, so that somebody must act unless what failed clears by itself."""
    return outcome in (Outcome.NOTHING_TAKEN, Outcome.PARTLY_TAKEN)


def steps_of(phase: Phase, status: Status, left_out: Collection[Phase] = ()) -> tuple[Step, ...]:
    """How far a document in that state is in each of its phases, of which the settings leave some out.

    What failed in the check of its contents goes on in its other parts: only what is at fault is left out.
    """
    in_part = (phase, status) == (Phase.DATA, Status.FAILED)
    return tuple(
        Step(each, Standing.LEFT_OUT if each in left_out else _standing(each, phase, status, in_part))
        for each in DOCUMENT_PHASES
    )


def _standing(each: Phase, phase: Phase, status: Status, in_part: bool) -> Standing:
    if each < phase:
        return Standing.PASSED
    if each is phase:
        return _STANDINGS[status]
    return Standing.IN_PART if in_part else Standing.NOT_REACHED
