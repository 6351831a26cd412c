"""What changes data waits while an older change of its centre is held: applied later, that would replace the newer."""

from datetime import datetime

import pytest
from sqlalchemy import select, update

from dcc.errors import ConfigurationError
from dcc.phases import Phase
from dcc.qc import models
from dcc.reports.languages import plain_english
from dcc.reports.submissions.collecting import collect_centre, collect_session, collect_submission
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.sentences import document_notes
from dcc.session.data.document_plans import plan_submission
from dcc.session.data.upload_phase import Uploader
from dcc.tracker import progress
from dcc.tracker.crawls import list_sessions
from dcc.tracker.models import ZipAction, ZipDownload
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import find_submissions
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.submission_rows import find_submission
from dcc_assets.sync.document_records import recorded_data
from tests.support.asking import column_in, execute_in, in_reading, in_writing, rows_in
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.installations import MODIFIED, Fetches
from tests.support.raising import raising

ADD = "add/H.2013-10-31.1.impc.zip"
HELD = "edit/H.2013-11-01.1.impc.zip"
LATER = "edit/H.2013-11-02.1.impc.zip"
LATER_DOCUMENT = "H.2013-11-02.1.specimen.impc.xml"
WAITING = "upload pending"
WHO = {"author": "wrangler", "reason": "agreed with the centre"}


@pytest.fixture
def careful(data: DataInstallation) -> DataInstallation:
    """An installation with three animals, in which a change of more than two of them has to be confirmed."""
    data.run(ADD, specimens())
    return data.with_settings(hold_threshold=2)


def hold_and_change_later(careful: DataInstallation, *, at_once: bool = True) -> None:
    """A change of three animals, and a younger one of one of them, which is there in the same session or the next."""
    careful.put(HELD, specimens("2013-11-01.1"))
    if not at_once:
        careful.run()
    careful.put(LATER, specimens("2013-11-02.1", mice=1))


def archives_of_animals(data: DataInstallation) -> dict[str, str]:
    """The archive that each current animal comes from."""
    query = select(models.SPECIMEN.c.specimen_id, models.DOCUMENT.c.zip_action, models.DOCUMENT.c.zip_file).join(
        models.DOCUMENT, models.DOCUMENT.c.id == models.SPECIMEN.c.document_id
    )
    rows = rows_in(data.qc, query.where(models.SPECIMEN.c.is_current))
    return {animal: f"{action}/{zip_file}" for animal, action, zip_file in rows}


def told_to_wait(data: DataInstallation, key: str) -> list[str]:
    """Why an archive waits for another one, as people are told."""
    story = in_reading(data.tracker, submission_story, key_of(key))
    return [reason.message for reason in story.reasons if reason.kind == "waits"]


@pytest.mark.both_databases
@pytest.mark.parametrize("at_once", [True, False])
def test_the_newer_change_waits_for_the_decision_and_stands_after_it(careful: DataInstallation, at_once: bool) -> None:
    hold_and_change_later(careful, at_once=at_once)
    told = careful.run().document(LATER_DOCUMENT, Phase.UPLOAD)
    assert (told.waits_for, told.held) == (key_of(HELD), False)
    assert "waits to be confirmed" in (told.reason or "")
    for keys in (None, [LATER]):
        careful.take_up(keys=keys)
        assert (careful.states()[HELD], careful.states()[LATER]) == (WAITING, WAITING)
    careful.confirm(HELD, **WHO)
    careful.run()
    assert WAITING not in careful.states().values()
    assert sorted(archives_of_animals(careful).values()) == [HELD, HELD, LATER]


def test_the_centre_and_the_wrangler_are_told_and_it_is_taken_when_the_held_one_is_withdrawn(
    careful: DataInstallation,
) -> None:
    hold_and_change_later(careful)
    careful.run()
    report = in_reading(careful.tracker, collect_submission, None, key_of(LATER), careful.settings)
    centre = in_reading(careful.tracker, collect_centre, None, "H", careful.settings)
    assert report.outcome is Outcome.BEHIND_DECISION
    outcomes = {str(one.key): one.outcome for one in centre.zips if one.key in (key_of(HELD), key_of(LATER))}
    assert outcomes == {HELD: Outcome.HELD, LATER: Outcome.BEHIND_DECISION}
    assert told_to_wait(careful, LATER) == [
        f"It waits for {HELD}, an older archive of centre H that waits to be confirmed: applied later, that one would "
        "replace what is newer. The session after the decision takes this one."
    ]
    careful.withdraw(HELD, **WHO)
    careful.run()
    assert sorted(archives_of_animals(careful).values()) == [ADD, ADD, LATER]


@pytest.mark.both_databases
def test_what_waited_behind_a_held_one_and_is_then_held_itself_is_news_of_that_session(
    careful: DataInstallation,
) -> None:
    careful.put(HELD, specimens("2013-11-01.1"))
    careful.put(LATER, specimens("2013-11-02.1"))
    careful.run()
    careful.confirm(HELD, **WHO)
    earlier = datetime(2020, 1, 1)
    execute_in(
        careful.tracker, update(ZipAction).values(last_update=earlier), update(ZipDownload).values(request=earlier)
    )
    assert careful.run().document(LATER_DOCUMENT, Phase.UPLOAD).held
    (session,) = in_reading(careful.tracker, list_sessions, limit=1)
    report = in_reading(careful.tracker, collect_session, None, session.id, careful.settings)
    assert {str(one.key): one.outcome for one in report.zips}.get(LATER) is Outcome.HELD


def test_it_is_taken_when_the_held_one_is_set_aside(careful: DataInstallation) -> None:
    hold_and_change_later(careful)
    careful.run()
    held = in_reading(careful.tracker, find_submission, key_of(HELD)).za_id
    in_writing(careful.tracker, progress.cancel, [held], "wrangler", "Cancelled: a mistake")
    careful.run()
    assert careful.states()[HELD] == "zip_name cancelled"
    assert sorted(archives_of_animals(careful).values()) == [ADD, ADD, LATER]
    assert in_reading(careful.tracker, held_documents) == []
    with pytest.raises(ConfigurationError, match="was cancelled"):
        careful.confirm(HELD, **WHO)


def test_what_is_confirmed_and_could_not_be_applied_is_applied_first_by_the_next_session(
    careful: DataInstallation,
) -> None:
    hold_and_change_later(careful)
    careful.run()
    held = models.DOCUMENT.c.state == "held"
    execute_in(careful.qc, models.DOCUMENT.update().where(held).values(**WHO))
    careful.run()
    assert sorted(archives_of_animals(careful).values()) == [HELD, HELD, LATER]


def test_it_does_not_wait_for_what_was_held_of_a_former_content(careful: DataInstallation) -> None:
    careful.run(HELD, specimens("2013-11-01.1"))
    careful.put(HELD, specimens("2013-11-01.1", mice=1))
    careful.base.process_again(HELD)
    careful.run()
    assert careful.states()[HELD] != WAITING
    careful.run(LATER, specimens("2013-11-02.1", mice=1))
    assert sorted(archives_of_animals(careful).values()) == [ADD, ADD, LATER]


@pytest.mark.both_databases
def test_what_was_replaced_and_cannot_be_fetched_is_not_confirmed_as_it_was(
    careful: DataInstallation, fetches: Fetches
) -> None:
    once = careful.with_settings(hold_threshold=2, max_retries=0)
    once.run(HELD, specimens("2013-11-01.1"))
    careful.folder.put(HELD, specimens("2013-11-01.1", mice=1), MODIFIED + 60)
    fetches.away.add(careful.folder.path.name)
    once.run()
    assert once.states()[HELD] == WAITING
    with pytest.raises(ConfigurationError, match="the centre has replaced it"):
        once.confirm(HELD, **WHO)
    fetches.away.clear()
    once.run()
    assert sorted(archives_of_animals(once).values()) == [ADD, ADD, HELD]


def test_what_is_confirmed_while_the_upload_is_left_out_is_applied_and_goes_on(careful: DataInstallation) -> None:
    careful.run(HELD, specimens("2013-11-01.1"))
    without = careful.with_settings(left_out_steps="upload")
    without.run()
    assert careful.states()[HELD] == "upload cancelled"
    without.confirm(HELD, **WHO)
    assert (set(archives_of_animals(careful).values()), careful.states()[HELD]) == ({HELD}, "upload done")
    without.run()
    assert careful.states()[HELD] == "qc done"


def test_what_is_withdrawn_while_the_upload_is_left_out_stays_withdrawn(careful: DataInstallation) -> None:
    careful.run(HELD, specimens("2013-11-01.1"), specimens("2013-11-01.2", mice=1))
    without = careful.with_settings(left_out_steps="upload")
    without.run()
    without.withdraw(HELD, **WHO)
    careful.run()
    assert (set(archives_of_animals(careful).values()), careful.states()[HELD]) == ({ADD}, "upload cancelled")
    assert [careful.log(f"H.2013-11-01.{number}.specimen.impc.xml") for number in (1, 2)] == [[], []]


def test_a_later_document_of_the_same_archive_waits_too(careful: DataInstallation) -> None:
    careful.put(HELD, specimens("2013-11-01.1"), specimens("2013-11-01.2", mice=1), experiments("2013-11-01.3"))
    for _ in range(2):
        careful.run()
        assert {careful.documents()[name] for name in careful.documents() if "2013-11-01" in name} == {WAITING}
    careful.confirm(HELD, **WHO)
    careful.run()
    litters = column_in(careful.qc, select(models.SPECIMEN.c.litter_id).where(models.SPECIMEN.c.is_current))
    assert sorted(litter[:14] for litter in litters) == ["H-2013-11-01.1", "H-2013-11-01.1", "H-2013-11-01.2"]


def test_an_addition_of_what_a_held_deletion_takes_away_waits_for_the_decision(careful: DataInstallation) -> None:
    deletion, anew = "delete/H.2013-11-01.1.impc.zip", "add/H.2013-11-02.1.impc.zip"
    careful.put(deletion, specimens("2013-11-01.1"))
    told = careful.run(anew, specimens("2013-11-02.1")).document(LATER_DOCUMENT, Phase.UPLOAD)
    assert (told.waits_for, careful.states()[anew]) == (key_of(deletion), WAITING)
    careful.run()
    assert in_reading(careful.tracker, submission_story, key_of(anew)).waits_for == key_of(deletion)
    careful.confirm(deletion, **WHO)
    careful.run()
    assert set(archives_of_animals(careful).values()) == {anew}


def test_an_addition_that_stands_does_not_wait_when_it_is_taken_again(careful: DataInstallation) -> None:
    younger = "add/H.2013-11-02.1.impc.zip"
    careful.run(younger, specimens("2013-11-02.1", first=4))
    careful.put(HELD, specimens("2013-11-01.1"))
    careful.base.process_again(younger)
    careful.run()
    assert (careful.states()[HELD], careful.states()[younger]) == (WAITING, "qc done")


def test_younger_changes_and_additions_of_what_is_there_wait_for_an_older_archive_on_hold(
    careful: DataInstallation,
) -> None:
    """Whether it was fetched already or not."""
    careful.put(HELD, specimens("2013-11-01.1", mice=1))
    careful.base.run_session()
    younger = [LATER, "add/H.2013-11-03.1.impc.zip"]
    careful.hold(HELD)
    careful.put(LATER, specimens("2013-11-02.1", mice=1))
    careful.run(younger[1], specimens("2013-11-03.1", mice=1))
    assert [careful.states()[key] for key in (HELD, *younger)] == ["xsd done", WAITING, WAITING]
    assert [" that is on hold: " in message for message in told_to_wait(careful, LATER)] == [True]
    careful.hold(HELD, is_held=False)
    careful.run()
    assert sorted(archives_of_animals(careful).values()) == [ADD, ADD, LATER]
    assert careful.states()[younger[1]] == "upload failed"


@pytest.mark.both_databases
def test_younger_changes_wait_for_the_other_documents_of_a_failed_archive_on_hold(careful: DataInstallation) -> None:
    """Its bytes are here: once it is released, its other documents are applied, and then what is younger."""
    ((name, document),) = specimens("2013-11-01.9", first=20).items()
    careful.put(HELD, specimens("2013-11-01.1", mice=1), {name: document.replace(b"gender=", b"sex=")})
    careful.base.run_session()
    assert careful.states()[HELD] == "xsd failed"
    careful.hold(HELD)
    (careful.folder.path / HELD).unlink()
    careful.run(LATER, specimens("2013-11-02.1", mice=1))
    assert (careful.states()[HELD], careful.states()[LATER]) == ("xsd failed", WAITING)
    assert [" that is on hold: " in message for message in told_to_wait(careful, LATER)] == [True]
    careful.hold(HELD, is_held=False)
    careful.run()
    assert (careful.states()[HELD], careful.states()[LATER]) == ("xsd failed", "qc done")
    assert sorted(archives_of_animals(careful).values()) == [ADD, ADD, LATER]


def test_what_is_younger_than_another_held_one_is_not_confirmed(careful: DataInstallation) -> None:
    careful.run(LATER, specimens("2013-11-02.1"))
    careful.run(HELD, specimens("2013-11-01.1"))
    assert (careful.states()[HELD], careful.states()[LATER]) == (WAITING, WAITING)
    with pytest.raises(ConfigurationError, match=f"{HELD}, an older archive of centre H, .* waits to be confirmed"):
        careful.confirm(LATER, **WHO)
    for key in (HELD, LATER):
        careful.confirm(key, **WHO)
    assert set(archives_of_animals(careful).values()) == {LATER}


@pytest.mark.both_databases
def test_what_was_confirmed_and_not_applied_says_so_and_is_applied_before_what_is_younger(
    careful: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    careful.run(LATER, specimens("2013-11-02.1"))
    careful.run(HELD, specimens("2013-11-01.1"))
    execute_in(careful.tracker, "UPDATE zip_action SET last_update = '2026-01-01 00:00:00'")
    with monkeypatch.context() as killed:
        killed.setattr(Uploader, "upload", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            careful.confirm(HELD, **WHO)
    with careful.tracker.connect() as tracker, careful.qc.connect() as qc:
        assert [str(one.key) for one in held_documents(tracker)] == [LATER]
        report = collect_submission(tracker, qc, key_of(HELD), careful.settings)
        (shown,) = recorded_data(tracker, qc, [key_of(HELD)])
        changed = find_submissions(tracker, SubmissionFilter(since=datetime(2026, 2, 1)))
    assert [f"{one.action}/{one.file_name}" for one in changed] == [HELD]
    plans = plan_submission(careful.tracker, careful.qc, careful.settings, key_of(HELD))
    assert [one.is_held(careful.settings.hold_threshold) for one in plans] == [False]
    assert report.outcome is Outcome.TO_BE_TAKEN
    assert document_notes(plain_english(), report.documents[0]) == ["was confirmed, and the next session applies it"]
    assert [(one.held, one.unapplied) for one in shown.documents] == [(False, True)]
    with pytest.raises(ConfigurationError, match=f"{HELD}, an older archive of centre H, .* is still on its way"):
        careful.confirm(LATER, **WHO)
    careful.take_up()
    assert set(archives_of_animals(careful).values()) == {HELD}
    careful.confirm(LATER, **WHO)
    assert set(archives_of_animals(careful).values()) == {LATER}


def test_additions_older_changes_and_other_centres_do_not_wait(careful: DataInstallation) -> None:
    others = careful.base.add_folder("J", "others")
    others.put("add/J.2013-10-31.1.impc.zip", specimens(centre="J"))
    careful.put(HELD, specimens("2013-11-01.1"))
    careful.put("add/H.2013-11-03.1.impc.zip", specimens("2013-11-03.1", first=4))
    careful.run("add/H.2013-10-31.2.impc.zip", experiments("2013-10-31.2"))
    others.put("edit/J.2013-11-05.1.impc.zip", specimens("2013-11-05.1", mice=1, centre="J"))
    older = "edit/H.2013-10-31.3.impc.zip"
    careful.run(older, specimens("2013-10-31.3", mice=1))
    assert {key for key, state in careful.states().items() if not state.startswith("qc")} == {HELD}
