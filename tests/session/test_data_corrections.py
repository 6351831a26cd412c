"""What people correct: withdrawals, confirmations, new judgements, quality control; also while a session runs."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select, update

from dcc.errors import ConfigurationError, NotFoundError, StagedDocumentLostError
from dcc.operations.consistency.check import check_consistency
from dcc.phases import Phase, Status
from dcc.qc import models
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts as decide_on
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.sentences import next_sentences
from dcc.session.data import confirmations, withdrawals
from dcc.session.data.document_plans import plan_submission
from dcc.session.data.quality_control import update_qc_states
from dcc.session.data.rechecks import recheck
from dcc.session.data.withdrawals import withdraw_submission
from dcc.tracker.hostings.changed_archives import loaded_submissions
from dcc.tracker.models import DocumentReopening
from dcc.tracker.submission_rows import find_submission
from dcc.vocabulary import ContextEvent, ContextState
from tests.session.test_data_new_causes import rebuilt
from tests.support.asking import execute_in, in_both, rows_in
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, key_of, specimens
from tests.support.prepared_installations import PreparedInstallations
from tests.support.raising import raising

ZIP = "add/H.2013-10-31.1.impc.zip"
LATER = "add/H.2013-11-01.1.impc.zip"
LATER_EXPERIMENTS = "H.2013-11-01.1.experiment.impc.xml"
EDIT = "edit/H.2013-11-01.1.impc.zip"
EDITED = "H.2013-11-01.1.specimen.impc.xml"
WHO = {"author": "someone", "reason": "A mistake."}


def why(data: DataInstallation) -> set[tuple[str, str]]:
    """Who had documents set back, and why."""
    return {(row.requested_by, row.reason) for row in rows_in(data.tracker, select(DocumentReopening))}


# Corrections by centres


def test_what_has_a_wrong_procedure_is_corrected_as_its_report_says(data: DataInstallation) -> None:
    ((name, runs),) = experiments().items()
    wrong = {name: runs.replace(b'procedureID="IMPC_BWT_001"', b'procedureID="IMPC_BWT_009"')}
    data.run(ZIP, specimens() | wrong)
    report = in_both(data, collect_submission, key_of(ZIP), data.settings)
    (cause,) = report.causes
    assert "where that is wrong, delete the old data, and add the new." in cause.remedy(
        load_catalogue("en", data.settings)
    )
    assert "in the directory “edit”, unless the error names another" in "".join(next_sentences(report))
    data.put("delete/H.2013-11-01.1.impc.zip", wrong)
    data.run("add/H.2013-11-01.2.impc.zip", {"H.2013-11-01.2.experiment.impc.xml": runs})
    assert set(data.states().values()) <= {"qc done", "qc pending"}


def test_a_deletion_of_animals_with_experiments_stays_failed_and_a_retry_applies_it(data: DataInstallation) -> None:
    delete = "delete/H.2013-11-01.1.impc.zip"
    data.run(ZIP, specimens(), experiments())
    data.run(delete, specimens("2013-11-01.1"))
    data.run("delete/H.2013-11-02.1.impc.zip", experiments("2013-11-02.1"))
    assert data.states()[delete] == "upload failed"
    data.retry(delete)
    assert data.states()[delete] == "qc done"


# Withdrawals


def test_what_was_withdrawn_after_a_retry_is_taken_when_it_changed_and_proposed_no_more(data: DataInstallation) -> None:
    data.run(ZIP, specimens())
    data.retry(ZIP)
    data.withdraw(ZIP, **WHO)
    with data.tracker.connect() as connection:
        za_id = find_submission(connection, key_of(ZIP)).za_id
        assert loaded_submissions(connection, [za_id or 0]) == set()
    data.run(ZIP, specimens(mice=2))
    data.retry(ZIP)
    assert data.states() == {ZIP: "qc done"}
    assert sum(current for (current,) in data.rows(models.SPECIMEN, "is_current")) == 2


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize("who", ["the command", "a session"])
def test_a_withdrawal_that_was_killed_half_way_is_made_known_to_the_tracker(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """The QC database is written first; whoever comes next tells the tracker."""
    data.run(ZIP, specimens())
    with monkeypatch.context() as patched:
        patched.setattr(withdrawals, "_tell_of_withdrawn", lambda *_, **__: 0)
        data.withdraw(ZIP, **WHO)
    assert data.states() == {ZIP: "qc done"}
    if who == "a session":
        data.take_up()
    else:
        undone = data.withdraw(ZIP, **WHO)
        assert undone.withdrawn == (1,)
    assert data.states() == {ZIP: "upload cancelled"}


# Documents that are held


@pytest.fixture
def held(data: DataInstallation, prepared_installations: PreparedInstallations) -> DataInstallation:
    prepared_installations.begin(data, have_one_held)
    return data.with_settings(hold_threshold=2)


def have_one_held(data: DataInstallation) -> None:
    careful = data.with_settings(hold_threshold=2)
    careful.run(ZIP, specimens())
    held = careful.run(EDIT, specimens("2013-11-01.1")).document(EDITED, Phase.UPLOAD)
    assert (held.held, careful.documents()[EDITED]) == (True, "upload pending")


def confirm(data: DataInstallation, key: str = EDIT) -> list[tuple[str, Status]]:
    found = data.confirm(key, author="someone", reason="It is meant.")
    return [(document.file_name, document.status) for document in found]


def test_animals_are_deleted_after_their_experiments_are_confirmed(data: DataInstallation) -> None:
    data.run(ZIP, specimens(), experiments())
    delete = "delete/H.2013-11-01.1.impc.zip"
    data.put(delete, specimens("2013-11-01.1"), experiments("2013-11-01.2"))
    data = data.with_settings(hold_threshold=2)
    for _ in range(2):
        data.run()
        assert data.states()[delete] == "upload pending"
        assert not data.rows(models.FINDING, "rule")
    for documents in (["H.2013-11-01.2.experiment.impc.xml"], ["H.2013-11-01.1.specimen.impc.xml"]):
        confirmed = data.confirm(delete, **WHO)
        assert [one.file_name for one in confirmed] == documents
        data.run()
    assert data.states()[delete] == "qc done"


def test_nothing_is_confirmed_that_is_not_held_or_without_a_reason_and_what_was_not_applied_is_by_the_next_session(
    held: DataInstallation,
) -> None:
    with pytest.raises(NotFoundError):
        confirm(held, ZIP)
    with pytest.raises(ConfigurationError):
        held.confirm(EDIT, author="someone", reason=" ")
    assert held.documents()[EDITED] == "upload pending"
    staged = held.settings.staging_directory / f"{EDIT}.contents" / EDITED
    kept = staged.read_bytes()
    staged.unlink()
    with pytest.raises(StagedDocumentLostError, match="dcc retry"):
        confirm(held)
    assert (held.documents()[EDITED], held.log(EDITED)) == ("upload pending", ["confirmed"])
    staged.write_bytes(kept)
    held.take_up()
    assert (held.documents()[EDITED], held.log(EDITED)) == ("qc done", [])


@pytest.mark.parametrize("who", ["a person", "a session"])
def test_a_confirmation_that_was_killed_half_way_is_completed(
    held: DataInstallation, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """The QC database has it, and the tracker still says that the document waits for it."""
    with monkeypatch.context() as patched:
        patched.setattr(confirmations, "documents_by_id", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            confirm(held)
    assert held.log(EDITED) == ["held"]
    if who == "a person":
        assert confirm(held) == [(EDITED, Status.DONE)]
    held.take_up()
    assert (held.documents()[EDITED], held.log(EDITED)) == ("qc done", [])


def test_what_is_held_of_a_withdrawn_submission_cannot_be_confirmed_any_more(held: DataInstallation) -> None:
    """A submission is withdrawn wholly."""
    before = held.rows(models.SPECIMEN, "document_id", "is_current")
    undone = held.withdraw(EDIT, **WHO)
    assert (len(undone.withdrawn), undone.undone_by) == (1, ())
    assert held.documents()[EDITED] == "upload cancelled"
    assert why(held) == {("someone", "A mistake.")}
    with pytest.raises(NotFoundError):
        confirm(held)
    with pytest.raises(NotFoundError):
        held.withdraw(EDIT, **WHO)
    held.take_up()
    assert held.rows(models.SPECIMEN, "document_id", "is_current") == before
    assert check_consistency(held.tracker, held.qc, held.settings) == []
    held.retry(EDIT)
    assert held.documents()[EDITED] == "upload pending"
    assert confirm(held) == [(EDITED, Status.DONE)]


def test_what_waits_on_hold_can_be_planned_and_withdrawn_and_not_confirmed(held: DataInstallation) -> None:
    held.run(EDIT, specimens("2013-11-01.1"), experiments("2013-11-01.1"))
    assert held.documents()[LATER_EXPERIMENTS] == "upload pending"
    held.hold(EDIT)
    plans = plan_submission(held.tracker, held.qc, held.settings, key_of(EDIT))
    assert [plan.file_name for plan in plans] == [EDITED, LATER_EXPERIMENTS]
    with pytest.raises(ConfigurationError, match=f"{EDIT} is on hold. Release it first: dcc release {EDIT}"):
        confirm(held)
    held.withdraw(EDIT, **WHO)
    held.hold(EDIT, is_held=False)
    held.take_up()
    assert {held.documents()[name] for name in (EDITED, LATER_EXPERIMENTS)} == {"upload cancelled"}


def test_what_still_waited_when_a_withdrawal_was_killed_half_way_is_not_uploaded(
    held: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission is withdrawn wholly."""
    held.run(EDIT, specimens("2013-11-01.1"), experiments("2013-11-01.1"))
    with monkeypatch.context() as patched:
        patched.setattr(withdrawals, "in_state", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            held.withdraw(EDIT, **WHO)
    assert {held.documents()[name] for name in (EDITED, LATER_EXPERIMENTS)} == {"upload pending"}
    held.take_up()
    assert {held.documents()[name] for name in (EDITED, LATER_EXPERIMENTS)} == {"upload cancelled"}
    assert held.log(EDITED) == held.log(LATER_EXPERIMENTS) == []
    assert check_consistency(held.tracker, held.qc, held.settings) == []


# Judged again


def test_documents_are_judged_again_by_rule_centre_and_zip_action(data: DataInstallation) -> None:
    data.put(ZIP, experiments())
    data.run(LATER, specimens("2013-11-01.1", first=70))

    def again(**which: object) -> tuple[int, tuple[str, ...]]:
        rechecked = recheck(data.tracker, data.qc, data.settings, author="someone", reason="See.", **which)  # type: ignore[arg-type]
        assert (data.take_up().zips != []) == (rechecked.documents > 0)
        return rechecked.documents, tuple(str(key) for key in rechecked.keys)

    assert again(rule="E4") == (1, (ZIP,))
    assert again(rule="S14") == (1, (LATER,))
    assert again(rule="E4", centre="J") == (0, ())
    assert again(keys=[key_of(LATER)]) == (1, (LATER,))
    assert again() == (2, (ZIP, LATER))
    assert data.states() == {ZIP: "data failed", LATER: "qc done"}
    assert why(data) == {("someone", "See.")}


# Quality control


def set_contexts(qc: Engine, state: ContextState) -> None:
    execute_in(qc, update(models.CONTEXT).values(state=state.value, data_state=state.value))


def settle(data: DataInstallation) -> None:
    update_qc_states(data.tracker, data.qc, data.settings, author="wrangler", reason="Looked at.")


def test_documents_follow_the_states_of_their_contexts_to_and_fro(data: DataInstallation) -> None:
    """(qc, done) when all contexts are, and back when one is opened; a session settles what nobody told."""
    data.run(ZIP, specimens(), experiments())
    settle(data)
    assert (data.states(), data.set_back()) == ({ZIP: "qc pending"}, [])
    set_contexts(data.qc, ContextState.QC_DONE)
    settle(data)
    assert data.states() == {ZIP: "qc done"}
    set_contexts(data.qc, ContextState.HAS_ISSUES)
    settle(data)
    assert data.states() == {ZIP: "qc pending"}
    assert data.set_back() == [(EXPERIMENTS, "qc done", "qc pending")]
    assert why(data) == {("wrangler", "Looked at.")}
    assert data.documents()[SPECIMENS] == "qc done"
    set_contexts(data.qc, ContextState.QC_DONE)
    assert data.take_up().told(ZIP) == [(Phase.QC, "qc done")]
    set_contexts(data.qc, ContextState.DATA_CHANGED)
    assert data.take_up().told(ZIP) == [(Phase.QC, "qc pending")]


def test_new_measurements_in_a_context_set_the_documents_that_are_done_back(data: DataInstallation) -> None:
    data.run(ZIP, specimens(mice=6), experiments(animals=2))
    set_contexts(data.qc, ContextState.QC_DONE)
    settle(data)
    data.run(LATER, experiments("2013-11-01.1", first=3, animals=1))
    assert data.states() == {ZIP: "qc pending", LATER: "qc pending"}
    assert data.set_back() == [(EXPERIMENTS, "qc done", "qc pending")]


def put(data: DataInstallation, numbers: range) -> None:
    for number in numbers:
        stem, first = f"2013-10-31.{number}", 10 * number + 1
        data.put(f"add/H.{stem}.impc.zip", specimens(stem, first=first), experiments(stem, first=first))


def test_nobody_is_in_the_way_of_a_session_or_it_of_them(data: DataInstallation) -> None:
    """No deadlock and no error; in the end the contexts hold what stands, and nothing is found in what is withdrawn."""
    put(data, range(6))
    data.run()
    put(data, range(6, 10))
    for number in range(3):
        stem, first = f"2013-11-0{number + 1}.1", 10 * number + 1
        data.put(f"edit/H.{stem}.impc.zip", specimens(stem, first=first), experiments(stem, first=first))
    data.validate()
    over = threading.Event()
    to_withdraw = [key_of(f"add/H.2013-10-31.{number}.impc.zip") for number in (3, 4, 5)]
    both = (data.tracker, data.qc, data.settings)

    def decide_on_contexts() -> None:
        decide_on(data.qc, ContextEvent.DONE, ContextFilter(), author="a wrangler", reason="looks right")
        update_qc_states(*both, author="a wrangler", reason="looks right")

    def judge_again() -> None:
        recheck(*both, author="a wrangler", reason="new rules")

    def withdraw() -> None:
        if to_withdraw:
            assert withdraw_submission(*both, to_withdraw.pop(), author="a wrangler", reason="a mistake").withdrawn

    def keep_at(work: Callable[[], None]) -> None:
        while not over.is_set():
            work()
            over.wait(0.05)

    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(keep_at, work) for work in (decide_on_contexts, judge_again, withdraw)]
        try:
            data.take_up()
        finally:
            over.set()
        for other in others:
            other.result(60)
    while to_withdraw:
        withdraw()
    data.take_up()
    data.take_up()
    assert set(data.documents().values()) <= {"qc pending", "qc done", "upload cancelled"}
    states = data.states()
    withdrawn = [number for number in range(10) if states[f"add/H.2013-10-31.{number}.impc.zip"].startswith("up")]
    assert withdrawn == [3, 4, 5]
    stands = {number for number, state in data.rows(models.DOCUMENT, "id", "state") if state == "applied"}
    assert {number for number, active in data.rows(models.FINDING, "document_id", "is_active") if active} <= stands
    rebuilt(data, 3 * 7)
