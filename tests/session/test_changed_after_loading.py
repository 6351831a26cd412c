"""An archive that changes on its source after its data were loaded: who is told, once, and what reports say of it."""

import json
import os
from collections.abc import Sequence

import pytest
from sqlalchemy import update

from dcc.errors import ConfigurationError
from dcc.notify.notifications import notify_session
from dcc.phases import Phase, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_session, collect_submission
from dcc.reports.submissions.model import Outcome, Tone
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.stored_reports import json_text
from dcc.tracker.crawls import latest_findings
from dcc.tracker.models import XmlFile, ZipAction
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.register.file_sources import set_source_state
from dcc.vocabulary import SourceState
from tests.notify.test_notifications import CENTRE, WRANGLER, notified, text_of
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.data_installations import key_of
from tests.support.databases import only_sqlite
from tests.support.installations import (
    MODIFIED,
    Folder,
    Installation,
    note_uploaded,
    note_withdrawn,
    specimens,
    until_the_next_second,
)
from tests.support.mail_server import Starter

KEY = "add/H.2013-10-31.1.impc.zip"
OTHER = "add/H.2013-10-31.2.impc.zip"
TOLD = "The archive changed on its server after its data were taken over"


def loaded(installation: Installation, folder: Folder, keys: Sequence[str] = (KEY,)) -> None:
    """Archives whose data the QC database holds."""
    for key in keys:
        folder.put(key)
    installation.run_session()
    note_uploaded(installation.tracker)
    until_the_next_second()


def change(folder: Folder, key: str = KEY, mice: int = 3) -> None:
    folder.put(key, specimens(mice=mice), MODIFIED + mice)


def outcome_of(installation: Installation, key: str = KEY) -> Outcome:
    return in_reading(installation.tracker, collect_submission, None, key_of(key), installation.settings).outcome


@only_sqlite
def test_the_centre_is_told_of_each_change_once_and_what_to_do(
    installation: Installation, folder: Folder, mail_server: Starter
) -> None:
    mailing = notified(installation, folder, mail_server()).with_settings(notify_attachment_bytes=0)
    loaded(mailing, folder)
    mailing.server.received.clear()
    change(folder)
    session = mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert letter["Subject"] == f"H: 1 archive needs a correction (session {session.id})"
    said = text_of(letter)
    assert f"{KEY}: {TOLD}" in said
    assert "what it holds now was not taken" in said
    assert "under a new name, in the directory “edit”" in said
    (summary,) = mailing.letters(WRANGLER)
    assert f"{KEY}: Changed afterwards" in text_of(summary)

    mailing.run_session()
    assert notify_session(mailing.tracker, mailing.settings, session.id).sent == {}
    execute_in(mailing.tracker, update(ZipAction).values(phase_id=Phase.QC, status_id=Status.DONE))
    mailing.run_session()
    assert mailing.server.received == []

    until_the_next_second()
    change(folder, mice=4)
    mailing.run_session()
    assert len(mailing.letters(CENTRE)) == 1

    # Also if a retry notices it.
    mailing.server.received.clear()
    until_the_next_second()
    change(folder, mice=5)
    with pytest.raises(ConfigurationError, match="dcc data undo"):
        mailing.process_again(KEY)
    mailing.run_session()
    (letter,) = mailing.letters(CENTRE)
    assert f"{KEY}: {TOLD}" in text_of(letter)


@only_sqlite
def test_nobody_is_told_of_what_was_not_loaded_or_was_withdrawn(
    installation: Installation, folder: Folder, mail_server: Starter
) -> None:
    mailing = notified(installation, folder, mail_server()).with_settings(notify_attachment_bytes=0)
    folder.put(KEY)
    mailing.run_session()
    note_withdrawn(mailing.tracker)
    execute_in(mailing.tracker, update(ZipAction).values(phase_id=Phase.UPLOAD, status_id=Status.CANCELLED))
    until_the_next_second()
    mailing.server.received.clear()
    change(folder)
    assert mailing.run_session().crawls[folder.source_id].changed == 1
    assert mailing.server.received == []
    assert outcome_of(mailing) is Outcome.WITHDRAWN


@only_sqlite
def test_what_was_withdrawn_is_not_taken_with_what_failed_beside_it(installation: Installation, folder: Folder) -> None:
    folder.put(KEY, specimens() | specimens(stem="2013-10-31.2"))
    installation.run_session()
    note_withdrawn(installation.tracker)
    refused = {"phase_id": Phase.UPLOAD, "status_id": Status.FAILED}
    execute_in(
        installation.tracker,
        update(XmlFile).where(XmlFile.fname.contains("31.2")).values(refused),
        update(ZipAction).values(refused),
    )
    change(folder)
    assert installation.run_session().zips == {}
    assert installation.states() == {KEY: "upload failed"}


def test_reports_say_that_it_changed_until_its_data_are_withdrawn_or_it_is_gone(
    installation: Installation, folder: Folder
) -> None:
    loaded(installation, folder, [KEY, OTHER])
    change(folder)
    change(folder, OTHER)
    session = installation.run_session()
    settings, catalogue = installation.settings, load_catalogue(None, installation.settings)
    report = in_reading(installation.tracker, collect_submission, None, key_of(KEY), settings)
    centre = in_reading(installation.tracker, collect_centre, None, "H", settings)
    of_session = in_reading(installation.tracker, collect_session, None, session.id, settings)
    assert (report.outcome, report.tone) == (Outcome.CHANGED, Tone.WARN)
    for shown in (render_text(report, catalogue), render_html(report, catalogue, settings)):
        assert TOLD in " ".join(shown.split())
        assert "You need not do anything" not in shown
    found = json.loads(json_text(report, catalogue))
    assert "it withdraws the data" in " ".join(found["next"])
    assert "dcc data undo" not in " ".join(found["next"])
    assert found["changed"] is not None
    assert [(line.key, line.outcome) for line in centre.zips] == [(line.key, line.outcome) for line in of_session.zips]
    assert {line.outcome for line in centre.zips} == {Outcome.CHANGED}
    summary = render_text(centre, catalogue)
    assert "The new content is not taken by itself." in " ".join(summary.split())
    assert "dcc " not in summary

    note_withdrawn(installation.tracker)
    assert outcome_of(installation) is not Outcome.CHANGED
    note_uploaded(installation.tracker)
    assert outcome_of(installation) is Outcome.CHANGED
    (folder.path / KEY).unlink()
    for _ in range(2):
        installation.run_session()
    assert outcome_of(installation) is not Outcome.CHANGED


@pytest.mark.both_databases
@pytest.mark.parametrize("how", ["gone", "removed"])
def test_what_moved_with_another_content_is_not_taken_again_beside_its_data(
    installation: Installation, folder: Folder, how: str
) -> None:
    loaded(installation, folder, [KEY, OTHER])
    other = installation.add_folder("H", "other")
    change(other)
    other.put(OTHER)
    if how == "gone":
        (folder.path / KEY).unlink()
        (folder.path / OTHER).unlink()
        installation.run_session()
    else:
        in_writing(installation.tracker, set_source_state, folder.source_id, SourceState.REMOVED)
    installation.run_session()
    with pytest.raises(ConfigurationError, match="dcc data undo"):
        installation.process_again(KEY)
    assert installation.process_again(OTHER).zips[OTHER].succeeded


@only_sqlite
def test_a_copy_elsewhere_that_nobody_may_take_is_no_change(installation: Installation, folder: Folder) -> None:
    loaded(installation, folder)
    planted = installation.add_folder("J", "planted")
    planted.put(KEY)
    installation.run_session()
    until_the_next_second()
    planted.put(KEY, specimens(mice=9), MODIFIED + 9)
    installation.run_session()
    assert outcome_of(installation) is not Outcome.CHANGED


@pytest.mark.both_databases
@pytest.mark.parametrize("mice", [2, 9])
def test_a_bad_copy_that_is_replaced_by_what_came_from_another_source_is_no_change(
    installation: Installation, folder: Folder, mice: int
) -> None:
    mirror = installation.add_folder("H", "mirror")
    folder.put(KEY, b"damaged")
    loaded(installation, mirror)
    assert installation.staged()[KEY] == (mirror.path / KEY).read_bytes()
    folder.put(KEY, specimens(mice=mice), MODIFIED + mice)
    crawl = installation.run_session().crawls[folder.source_id]
    is_the_same = (folder.path / KEY).read_bytes() == (mirror.path / KEY).read_bytes()
    assert (crawl.changed, outcome_of(installation) is Outcome.CHANGED) == ((0, False) if is_the_same else (1, True))
    assert is_the_same == (mice == 2)


@pytest.mark.both_databases
def test_an_archive_that_is_put_back_as_it_was_fetched_has_not_changed_any_more(
    installation: Installation, folder: Folder
) -> None:
    loaded(installation, folder)
    change(folder)
    installation.run_session()
    assert outcome_of(installation) is Outcome.CHANGED
    folder.put(KEY)
    assert installation.run_session().crawls[folder.source_id].changed == 0
    assert outcome_of(installation) is not Outcome.CHANGED
    assert in_reading(installation.tracker, latest_findings) == []
    assert [one.ended for one in in_reading(installation.tracker, submission_story, key_of(KEY)).findings] == [True]
    assert installation.process_again(KEY).zips[KEY].succeeded


def test_an_archive_that_was_taken_anew_and_is_put_back_as_it_was_before_has_changed(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    change(folder)
    loaded(installation, folder, [])
    folder.put(KEY)
    assert installation.run_session().crawls[folder.source_id].changed == 1
    assert outcome_of(installation) is Outcome.CHANGED


@pytest.mark.both_databases
def test_another_copy_that_becomes_as_the_one_that_was_taken_has_not_changed(
    installation: Installation, folder: Folder
) -> None:
    mirror = installation.add_folder("H", "mirror")
    mirror.put(KEY, specimens(mice=5))
    loaded(installation, folder)
    change(mirror, mice=7)
    assert installation.run_session().crawls[mirror.source_id].changed == 1
    assert outcome_of(installation) is Outcome.CHANGED
    mirror.put(KEY, (folder.path / KEY).read_bytes(), MODIFIED + 9)
    assert installation.run_session().crawls[mirror.source_id].changed == 0
    assert outcome_of(installation) is not Outcome.CHANGED
    mirror.put(KEY, (folder.path / KEY).read_bytes(), MODIFIED + 10)
    assert installation.run_session().crawls[mirror.source_id].changed == 0
    change(mirror)
    assert installation.run_session().crawls[mirror.source_id].changed == 1


HOUR = 3600
ALL = [f"add/H.2013-10-31.{number}.impc.zip" for number in range(1, 5)]


@pytest.mark.both_databases
def test_archives_whose_times_all_moved_by_the_same_hours_have_not_changed(
    installation: Installation, folder: Folder
) -> None:
    loaded(installation, folder, ALL[:3])
    for key in ALL[:3]:
        os.utime(folder.path / key, (MODIFIED - 13 * HOUR,) * 2)
    session = installation.run_session()
    assert session.crawls[folder.source_id].changed == 0
    assert [note for note in session.crawls[folder.source_id].notes if "the clock of its server" in str(note)]
    assert {outcome_of(installation, key) for key in ALL[:3]} & {Outcome.CHANGED} == set()
    until_the_next_second()
    assert installation.process_again(KEY).zips[KEY].succeeded
    change(folder)
    assert installation.run_session().crawls[folder.source_id].changed == 1


@only_sqlite
@pytest.mark.parametrize(
    "moved",
    [[HOUR] * 2, [HOUR, HOUR, 2 * HOUR], [HOUR + 1] * 3, [24 * HOUR] * 3],
    ids=["too few", "not all the same", "no whole hours", "a day"],
)
def test_archives_whose_times_moved_otherwise_have_changed(
    installation: Installation, folder: Folder, moved: list[int]
) -> None:
    keys = ALL[: len(moved)]
    loaded(installation, folder, keys)
    for key, seconds in zip(keys, moved, strict=True):
        os.utime(folder.path / key, (MODIFIED + seconds,) * 2)
    assert installation.run_session().crawls[folder.source_id].changed == len(moved)


@only_sqlite
def test_an_archive_of_another_size_has_changed_though_the_clock_of_its_server_moved(
    installation: Installation, folder: Folder
) -> None:
    loaded(installation, folder, ALL)
    folder.put(KEY, specimens(mice=9))
    for key in ALL:
        os.utime(folder.path / key, (MODIFIED + HOUR,) * 2)
    assert installation.run_session().crawls[folder.source_id].changed == 1
    assert [outcome_of(installation, key) is Outcome.CHANGED for key in ALL] == [True, False, False, False]
