"""An archive that changes on its source after its data were loaded: who is told, once, and what reports say of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from sqlalchemy import update

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError
from dcc.notify.notifications import notify_session
from dcc.phases import Phase, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_session, collect_submission
from dcc.reports.submissions.model import Outcome, Tone
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.stored_reports import json_text
from dcc.tracker.models import XmlFile, ZipAction
from tests.notify.test_notifications import CENTRE, WRANGLER, letters, notified, text_of
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
    with installation.tracker.connect() as connection:
        return collect_submission(connection, None, key_of(key), installation.settings).outcome


@only_sqlite
def test_the_centre_is_told_of_each_change_once_and_what_to_do(
    installation: Installation, folder: Folder, mail_server: Starter
) -> None:
    server = mail_server()
    installation = notified(installation, server).with_settings(notify_attachment_bytes=0)
    loaded(installation, folder)
    server.received.clear()
    change(folder)
    session = installation.run_session()
    (letter,) = letters(server, CENTRE)
    assert letter["Subject"] == f"H: 1 archive needs a correction (session {session.id})"
    said = text_of(letter)
    assert f"{KEY}: {TOLD}" in said
    assert "what it holds now was not taken" in said
    assert "under a new name, in the directory “edit”" in said
    (summary,) = letters(server, WRANGLER)
    assert f"{KEY}: Changed afterwards" in text_of(summary)

    installation.run_session()
    assert notify_session(installation.tracker, installation.settings, session.id).sent == {}
    with writing(installation.tracker) as connection:
        connection.execute(update(ZipAction).values(phase_id=int(Phase.QC), status_id=int(Status.DONE)))
    installation.run_session()
    assert server.received == []

    until_the_next_second()
    change(folder, mice=4)
    installation.run_session()
    assert len(letters(server, CENTRE)) == 1

    # Also if a retry notices it.
    server.received.clear()
    until_the_next_second()
    change(folder, mice=5)
    with pytest.raises(ConfigurationError, match="dcc data undo"):
        installation.process_again(KEY)
    installation.run_session()
    (letter,) = letters(server, CENTRE)
    assert f"{KEY}: {TOLD}" in text_of(letter)


@only_sqlite
def test_nobody_is_told_of_what_was_not_loaded_or_was_withdrawn(
    installation: Installation, folder: Folder, mail_server: Starter
) -> None:
    server = mail_server()
    installation = notified(installation, server).with_settings(notify_attachment_bytes=0)
    folder.put(KEY)
    installation.run_session()
    note_withdrawn(installation.tracker)
    with writing(installation.tracker) as connection:
        connection.execute(update(ZipAction).values(phase_id=int(Phase.UPLOAD), status_id=int(Status.CANCELLED)))
    until_the_next_second()
    server.received.clear()
    change(folder)
    assert installation.run_session().crawls[folder.source_id].changed == 1
    assert server.received == []
    assert outcome_of(installation) is Outcome.WITHDRAWN


@only_sqlite
def test_what_was_withdrawn_is_not_taken_with_what_failed_beside_it(installation: Installation, folder: Folder) -> None:
    folder.put(KEY, specimens() | specimens(stem="2013-10-31.2"))
    installation.run_session()
    note_withdrawn(installation.tracker)
    refused = {"phase_id": int(Phase.UPLOAD), "status_id": int(Status.FAILED)}
    with writing(installation.tracker) as connection:
        connection.execute(update(XmlFile).where(XmlFile.fname.contains("31.2")).values(refused))
        connection.execute(update(ZipAction).values(refused))
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
    with installation.tracker.connect() as connection:
        report = collect_submission(connection, None, key_of(KEY), settings)
        centre = collect_centre(connection, None, "H", settings)
        of_session = collect_session(connection, None, session.id, settings)
    assert (report.outcome, report.tone) == (Outcome.CHANGED, Tone.WARN)
    for shown in (render_text(report, catalogue), render_html(report, catalogue, settings)):
        assert TOLD in " ".join(shown.split())
        assert "You need not do anything" not in shown
    found = json.loads(json_text(report, catalogue))
    assert "dcc data undo" in " ".join(found["next"])
    assert found["changed"] is not None
    assert [(line.key, line.outcome) for line in centre.zips] == [(line.key, line.outcome) for line in of_session.zips]
    assert {line.outcome for line in centre.zips} == {Outcome.CHANGED}

    note_withdrawn(installation.tracker)
    assert outcome_of(installation) is not Outcome.CHANGED
    note_uploaded(installation.tracker)
    assert outcome_of(installation) is Outcome.CHANGED
    (folder.path / KEY).unlink()
    for _ in range(2):
        installation.run_session()
    assert outcome_of(installation) is not Outcome.CHANGED


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
