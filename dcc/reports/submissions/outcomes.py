"""The outcome of a submission, and the steps of a document, from phase and status."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from dcc.phases import Phase, Status
from dcc.reports.submissions.model import Outcome, PhaseStep, Standing, Tone
from dcc.tracker.hostings.foreign_archives import HeldArchive
from dcc.tracker.queries.zip_action_lists import StateCount
from dcc.tracker.states import SET_ASIDE

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
    Outcome.COPY_OF_WITHDRAWN: Tone.WAIT,
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
    foreign: HeldArchive | None = None,
    waits_for_data: bool = False,
    waits_for_older: bool = False,
    changed: bool = False,
    of_withdrawn: bool = False,
) -> Outcome:
    """The outcome of a submission in that state, whose documents are in `states`.

    `held`: one of them waits to be confirmed. `left_out`: the settings leave a step out of one of them. `taken`: some
    of its data were accepted; None where that is not known, and then the states tell. `foreign`: it is held, or was
    turned down, on another centre's source. `waits_for_data`: its failed documents only wait for other data.
    `waits_for_older`: an older archive of its centre comes first. `changed`: the archive changed after its data were
    accepted. `of_withdrawn`: none of its documents was taken, as they are the same as some that were withdrawn since.
    """
    outcome = _outcome_of_state(phase, status, list(states), held=held, taken=taken, left_out=left_out)
    if outcome is Outcome.WAITING and foreign is not None:
        outcome = Outcome.FOREIGN if foreign.declined is None else Outcome.DECLINED
    elif outcome in (Outcome.DONE, Outcome.TO_BE_LOOKED_AT) and of_withdrawn:
        outcome = Outcome.COPY_OF_WITHDRAWN
    elif outcome is Outcome.TO_BE_TAKEN and waits_for_older:
        outcome = Outcome.IN_ORDER
    elif outcome in (Outcome.NOTHING_TAKEN, Outcome.PARTLY_TAKEN) and waits_for_data:
        outcome = Outcome.WAITS_FOR_DATA
    return Outcome.CHANGED if changed and _TONES[outcome] not in (Tone.BAD, Tone.WARN) else outcome


def _outcome_of_state(
    phase: Phase, status: Status, states: Sequence[StateCount], *, held: bool, taken: bool | None, left_out: bool
) -> Outcome:
    if status is Status.FAILED and phase in _ARCHIVE_FAILURES:
        return _ARCHIVE_FAILURES[phase]
    if phase in (Phase.ZIP_NAME, Phase.DOWNLOAD):
        return Outcome.WITHDRAWN if (phase, status) == SET_ASIDE else Outcome.WAITING
    if status is Status.FAILED:
        some = _some_accepted(states) if taken is None else taken or _under_way(states)
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


def _under_way(states: Iterable[StateCount]) -> bool:
    """Whether documents are whole and on their way."""
    return any(state.phase >= Phase.XSD and state.status is not Status.FAILED for state in states)


def _some_accepted(states: Iterable[StateCount]) -> bool:
    return any(
        state.phase > Phase.UPLOAD
        or (state.phase >= Phase.XSD and state.status not in (Status.FAILED, Status.CANCELLED))
        for state in states
    )


def tone_of(outcome: Outcome) -> Tone:
    """How good an outcome is."""
    return _TONES[outcome]


def steps_of(phase: Phase, status: Status, left_out: Collection[Phase] = ()) -> tuple[PhaseStep, ...]:
    """How far a document in that state is in each of its phases; the settings may leave some out.

    What failed in the check of its contents goes on in its other parts: only the faulty ones are left out.
    """
    in_part = (phase, status) == (Phase.DATA, Status.FAILED)
    return tuple(
        PhaseStep(each, Standing.LEFT_OUT if each in left_out else _standing(each, phase, status, in_part))
        for each in DOCUMENT_PHASES
    )


def _standing(each: Phase, phase: Phase, status: Status, in_part: bool) -> Standing:
    if each < phase:
        return Standing.PASSED
    if each is phase:
        return _STANDINGS[status]
    return Standing.IN_PART if in_part else Standing.NOT_REACHED
