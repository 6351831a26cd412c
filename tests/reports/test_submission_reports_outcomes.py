"""What became of a submission, told from its state; and that every outcome is put into words."""

import itertools
from pathlib import Path

import pytest

from dcc.declarations import acts_in
from dcc.phases import Phase, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions import labels
from dcc.reports.submissions.model import Outcome, Standing, Tone
from dcc.reports.submissions.outcomes import outcome_of, steps_of, tone_of
from dcc.reports.submissions.sentences import who_acts
from dcc.settings import Settings
from dcc.tracker.queries.zip_action_lists import StateCount
from dcc.vocabulary import Actor

P, S = Phase, Status


@pytest.mark.parametrize(
    ("phase", "status", "documents", "outcome"),
    [
        (P.ZIP_NAME, S.FAILED, [], Outcome.NAME_REFUSED),
        (P.ZIP_NAME, S.DONE, [], Outcome.WAITING),
        (P.DOWNLOAD, S.RUNNING, [], Outcome.WAITING),
        (P.DOWNLOAD, S.FAILED, [], Outcome.NOT_ARRIVED),
        (P.ZIP_MD5, S.DONE, [], Outcome.UNDER_WAY),
        (P.ZIP_MD5, S.FAILED, [], Outcome.CHECKSUM_WRONG),
        (P.UNZIP, S.RUNNING, [], Outcome.UNDER_WAY),
        (P.UNZIP, S.FAILED, [], Outcome.UNREADABLE),
        (P.XML_NAME, S.FAILED, [(P.XML_NAME, S.FAILED)], Outcome.NOTHING_TAKEN),
        (P.XML_NAME, S.FAILED, [(P.XML_NAME, S.FAILED), (P.QC, S.DONE)], Outcome.PARTLY_TAKEN),
        (P.XSD, S.RUNNING, [(P.XSD, S.RUNNING)], Outcome.UNDER_WAY),
        (P.XSD, S.FAILED, [(P.XSD, S.FAILED)], Outcome.NOTHING_TAKEN),
        (P.XSD, S.FAILED, [(P.XSD, S.FAILED), (P.XSD, S.DONE)], Outcome.PARTLY_TAKEN),
        (P.XSD, S.DONE, [(P.XSD, S.DONE)], Outcome.TO_BE_TAKEN),
        (P.UPLOAD, S.PENDING, [(P.UPLOAD, S.PENDING)], Outcome.TO_BE_TAKEN),
        (P.UPLOAD, S.FAILED, [(P.UPLOAD, S.FAILED)], Outcome.NOTHING_TAKEN),
        (P.UPLOAD, S.CANCELLED, [(P.UPLOAD, S.CANCELLED)], Outcome.WITHDRAWN),
        (P.DATA, S.RUNNING, [(P.DATA, S.RUNNING)], Outcome.UNDER_WAY),
        (P.DATA, S.FAILED, [(P.DATA, S.FAILED)], Outcome.PARTLY_TAKEN),
        (P.CONTEXT, S.DONE, [(P.CONTEXT, S.DONE)], Outcome.UNDER_WAY),
        (P.QC, S.PENDING, [(P.QC, S.PENDING)], Outcome.TO_BE_LOOKED_AT),
        (P.QC, S.DONE, [(P.QC, S.DONE)], Outcome.DONE),
    ],
)
def test_the_outcome_follows_the_state(
    phase: Phase, status: Status, documents: list[tuple[Phase, Status]], outcome: Outcome
) -> None:
    states = [StateCount(*state, 1) for state in documents]
    assert outcome_of(phase, status, states, held=False, taken=None) is outcome


def test_what_the_qc_database_has_decides_whether_anything_was_taken() -> None:
    states = [StateCount(P.DATA, S.FAILED, 1)]
    assert outcome_of(P.DATA, S.FAILED, states, held=False, taken=False) is Outcome.NOTHING_TAKEN
    assert outcome_of(P.DATA, S.FAILED, states, held=False, taken=True) is Outcome.PARTLY_TAKEN


def test_what_waits_to_be_confirmed_is_said_unless_something_failed() -> None:
    waits = StateCount(P.UPLOAD, S.PENDING, 1)
    assert outcome_of(P.UPLOAD, S.PENDING, [waits], held=True, taken=None) is Outcome.HELD
    failed = [waits, StateCount(P.XSD, S.FAILED, 1)]
    assert outcome_of(P.XSD, S.FAILED, failed, held=True, taken=None) is Outcome.PARTLY_TAKEN


def test_every_state_has_an_outcome_and_every_outcome_its_words() -> None:
    for phase, status in itertools.product(Phase, Status):
        assert outcome_of(phase, status, [], held=False, taken=None) in Outcome
    for outcome in Outcome:
        said = labels.OUTCOME_TEXTS[outcome]
        assert all((said.short, said.headline, said.explanation, *said.next))
        assert said.next
        assert tone_of(outcome) in Tone
    assert len({labels.OUTCOME_TEXTS[outcome].short for outcome in Outcome}) == len(Outcome)


def test_the_outcome_of_a_state_names_who_acts_in_it() -> None:
    for phase, status in itertools.product(Phase, Status):
        if status is not Status.FAILED or phase <= Phase.DATA:
            outcome = outcome_of(phase, status, [], held=False, taken=None)
            assert labels.OUTCOME_TEXTS[outcome].actor is acts_in(phase, status), (phase, status)


@pytest.mark.parametrize(
    ("outcome", "actors", "said"),
    [
        (Outcome.PARTLY_TAKEN, (), "You, at the centre"),
        (Outcome.PARTLY_TAKEN, (Actor.CENTRE, Actor.NOBODY), "You, at the centre"),
        (Outcome.PARTLY_TAKEN, (Actor.CENTRE, Actor.REGISTRY), "You, at the centre, or the registry"),
        (Outcome.NOTHING_TAKEN, (Actor.DCC,), "The Data Coordination Centre"),
        (Outcome.NOTHING_TAKEN, (Actor.DCC, Actor.CENTRE), "You, at the centre; the Data Coordination Centre, too"),
        (Outcome.WAITS_FOR_DATA, (Actor.CENTRE,), "You, at the centre"),
        (Outcome.NOT_ARRIVED, (Actor.CENTRE,), "Nobody, unless you moved the file: every session tries again"),
        (Outcome.TO_BE_LOOKED_AT, (Actor.CENTRE,), "The Data Coordination Centre"),
        (Outcome.WAITING, (), "Nobody: it goes on by itself"),
        (Outcome.WITHDRAWN, (), "Nobody: it is decided"),
        (Outcome.DONE, (), "Nobody: it is done"),
    ],
)
def test_who_acts_on_a_submission_is_who_its_causes_name(
    outcome: Outcome, actors: tuple[Actor, ...], said: str, tmp_path: Path
) -> None:
    assert who_acts(load_catalogue("en", Settings(home=tmp_path)), outcome, actors) == said


def test_a_document_passed_what_comes_before_its_phase_and_not_what_comes_after() -> None:
    steps = {step.phase: step.standing for step in steps_of(P.XSD, S.FAILED)}
    assert steps[P.XML_NAME] is Standing.PASSED
    assert steps[P.XSD] is Standing.FAILED
    assert steps[P.UPLOAD] is steps[P.QC] is Standing.NOT_REACHED
