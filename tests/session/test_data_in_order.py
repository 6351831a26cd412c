"""What edits or deletes waits for older archives of its centre that are still on their way, and for no others."""

from pathlib import Path

import pytest
from sqlalchemy import select, update

from dcc.databases.transactions import writing
from dcc.errors import SourceUnreachableError
from dcc.phases import Phase, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_submission
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.plain_text import render_text
from dcc.runtime.clock import utc_now
from dcc.session.fetching import downloads
from dcc.settings import Settings
from dcc.sources.base import Connection, SourceAddress
from dcc.sources.connect import connect
from dcc.tracker.hostings.older_archives import REQUESTS_WAITED_FOR
from dcc.tracker.models import FileSource, FileSourceHasZip, ZipAction
from dcc.tracker.queries.submission_stories import submission_story
from dcc.vocabulary import SourceState
from tests.support.asking import execute_in, in_reading
from tests.support.data_installations import DataInstallation, key_of, specimens
from tests.support.installations import MODIFIED, Fetches, Folder
from tests.support.session_reports import session_report

ADD = "add/H.2013-10-31.1.impc.zip"
EDIT = "edit/H.2013-10-31.2.impc.zip"
DELETE = "delete/H.2013-10-31.3.impc.zip"
OTHERS_ADD = "add/J.2013-10-31.1.impc.zip"
OTHERS_EDIT = "edit/J.2013-10-31.2.impc.zip"
EDITED = "H.2013-10-31.2.specimen.impc.xml"
WAITING = "upload pending"


@pytest.fixture
def second(data: DataInstallation) -> Folder:
    """Another source of centre H, which has its additions."""
    return data.base.add_folder("H", "second")


def put_all(data: DataInstallation, additions: Folder) -> None:
    """An addition, and what edits and deletes of it; the same of another centre, whose addition lies with the rest."""
    others = data.base.add_folder("J", "others")
    additions.put(ADD, specimens())
    data.put(EDIT, specimens("2013-10-31.2"))
    data.put(DELETE, specimens("2013-10-31.3"))
    others.put(OTHERS_ADD, specimens(centre="J"))
    others.put(OTHERS_EDIT, specimens("2013-10-31.2", centre="J"))


def away(folder: Folder) -> None:
    """Its server lists nothing."""
    folder.path.rename(folder.path.with_name(f"{folder.path.name} away"))


def back(folder: Folder) -> None:
    """It lists everything again."""
    folder.path.with_name(f"{folder.path.name} away").rename(folder.path)


def state(data: DataInstallation, key: str) -> str:
    return data.base.states()[key]


def known_but_away(data: DataInstallation, second: Folder) -> None:
    """All are listed; then the server of the additions is away before these are fetched."""
    put_all(data, second)
    data.base.crawl()
    away(second)


def test_changes_wait_for_an_addition_whose_server_is_away_and_come_through_by_themselves(
    data: DataInstallation, second: Folder
) -> None:
    """Also for one that is being uploaded."""
    known_but_away(data, second)
    hosted = update(FileSourceHasZip).where(FileSourceHasZip.file_source_id == second.source_id)
    for uploading_since in (utc_now(), None):
        execute_in(data.tracker, hosted.values(uploading_since=uploading_since))
        result = data.run()
        assert (state(data, EDIT), state(data, DELETE)) == (WAITING, WAITING)
        told = result.document(EDITED, Phase.UPLOAD)
        assert (told.waits_for, told.held) == (key_of(ADD), False)
        assert ADD in (told.reason or "")
        assert state(data, OTHERS_ADD).startswith("qc")
        assert state(data, OTHERS_EDIT).startswith("qc")
    back(second)
    data.run()
    assert not {one for one in data.base.states().values() if not one.startswith("qc")}
    assert not [one for one in in_reading(data.tracker, submission_story, key_of(EDIT)).reasons if one.kind == "waits"]


def test_changes_wait_for_an_addition_that_a_listing_lacked_until_the_next_one_decides(
    data: DataInstallation, second: Folder
) -> None:
    second.put(ADD, specimens())
    data.base.crawl()
    (second.path / ADD).rename(second.path / "elsewhere")
    data.put(EDIT, specimens("2013-10-31.2"))
    data.run()
    assert state(data, EDIT) == WAITING
    (second.path / "elsewhere").rename(second.path / ADD)
    data.run()
    assert (state(data, ADD), state(data, EDIT)) == ("qc done", "qc done")


@pytest.mark.both_databases
def test_a_change_that_waited_and_was_replaced_is_not_uploaded_as_it_was_when_the_addition_arrives(
    data: DataInstallation, second: Folder, fetches: Fetches
) -> None:
    known_but_away(data, second)
    once = data.with_settings(max_retries=0)
    once.run()
    assert state(data, EDIT) == WAITING
    data.folder.put(EDIT, specimens("2013-10-31.2", mice=2), MODIFIED + 60)
    fetches.away.add(data.folder.path.name)
    back(second)
    for _ in range(2):
        once.run()
        assert (state(data, ADD), state(data, EDIT)) == ("qc done", "download failed")
    fetches.away.clear()
    once.run()
    assert state(data, EDIT) == "qc done"


def test_changes_wait_for_an_addition_that_was_never_requested_of_a_server_that_refuses_connections(
    data: DataInstallation, second: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session requests the newest one in vain, and then leaves the source alone."""
    put_all(data, second)
    for day in range(1, 6):
        second.put(f"add/H.2013-11-0{day}.1.impc.zip", specimens(f"2013-11-0{day}.1"))
    asked = []

    def connect_to_all_but_second(address: SourceAddress, settings: Settings) -> Connection:
        if address.id == second.source_id:
            asked.append(address.id)
            raise SourceUnreachableError("Connection refused.")
        return connect(address, settings)

    monkeypatch.setattr(downloads, "connect", connect_to_all_but_second)
    impatient = data.with_settings(max_retries=0, source_failure_limit=1, downloads_per_source=1)
    for number in range(1, REQUESTS_WAITED_FOR + 2):
        impatient.run()
        assert len(asked) == number
        assert (state(data, ADD), state(data, EDIT), state(data, DELETE)) == ("zip_name done", WAITING, WAITING)


def test_what_waits_is_told_to_the_centre_and_the_wrangler(data: DataInstallation, second: Folder) -> None:
    known_but_away(data, second)
    result = data.base.run_session()
    data.take_up()
    catalogue = load_catalogue(None, data.settings)
    with data.tracker.connect() as connection:
        report = collect_submission(connection, None, key_of(EDIT), data.settings)
        centre = collect_centre(connection, None, "H", data.settings)
        story = submission_story(connection, key_of(EDIT))
        summary = session_report(connection, result.id).text
    assert report.outcome is Outcome.IN_ORDER
    said = " ".join(render_text(report, catalogue).split())
    assert f"It waits for {ADD}, an older archive of centre H that is still on its way" in said
    assert {str(one.key) for one in centre.zips if one.outcome is Outcome.IN_ORDER} == {EDIT, DELETE}
    assert [one.message for one in story.reasons if one.kind == "waits"] == [
        f"It waits for {ADD}, an older archive of centre H that is still on its way: what it changes may be in there. "
        "The session that takes that one takes this one too."
    ]
    assert "Archives that wait for an older one of their centre" in summary
    assert f"{EDIT}: It waits for {ADD}" in " ".join(summary.split())
    # A person decides on one that is on hold.
    data.hold(ADD)
    with data.tracker.connect() as connection:
        report = collect_submission(connection, None, key_of(EDIT), data.settings)
    assert report.outcome is Outcome.BEHIND_DECISION
    said = " ".join(render_text(report, catalogue).split())
    assert f"It waits for {ADD}, an older archive of centre H that is on hold" in said
    assert "Who acts: The Data Coordination Centre" in said
    data.hold(ADD, is_held=False)
    # Also if it failed to arrive, but not often.
    fail_to_arrive(data, second, REQUESTS_WAITED_FOR - 1)
    data.run()
    assert state(data, EDIT) == WAITING


def fail_to_arrive(data: DataInstallation, second: Folder, retries: int) -> None:
    with writing(data.tracker) as connection:
        hosted = FileSourceHasZip.file_source_id == second.source_id
        connection.execute(update(FileSourceHasZip).where(hosted).values(num_retries=retries))
        failed = {"phase_id": Phase.DOWNLOAD, "status_id": Status.FAILED}
        zips = select(FileSourceHasZip.za_id).where(hosted)
        connection.execute(update(ZipAction).where(ZipAction.id.in_(zips)).values(failed))


def only_archive(folder: Folder) -> Path:
    (path,) = (folder.path / "add").iterdir()
    return path


def test_nothing_waits_for_what_will_not_come(data: DataInstallation, second: Folder) -> None:
    """Additions that failed to arrive, are damaged, gone, unlike their checksum, or where they may not be taken."""
    days = iter(range(1, 10))

    def add_source(name: str, centre: str = "H", stem: str = "") -> Folder:
        """A source that has an addition of H, older than the edit if nothing else is said."""
        stem = stem or f"2013-10-0{next(days)}.1"
        folder = data.base.add_folder(centre, name)
        folder.put(f"add/H.{stem}.impc.zip", specimens(stem))
        return folder

    data.put(EDIT, specimens("2013-10-31.2"))
    younger, failing, unused = add_source("younger", stem="2013-11-30.1"), add_source("failing"), add_source("unused")
    gone = add_source("gone")
    data.base.crawl()
    fail_to_arrive(data, failing, REQUESTS_WAITED_FOR)
    only_archive(gone).unlink()
    # The next listing without it is believed.
    data.base.crawl()
    for folder in (younger, failing, unused):
        away(folder)
    with writing(data.tracker) as connection:
        of_unused = update(FileSource).where(FileSource.id == unused.source_id)
        connection.execute(of_unused.values(state_id=SourceState.MAINTENANCE))
    second.put("add/H.2013-10-08.1.impc.zip", b"PK\x03\x04 cut off")
    another = only_archive(add_source("another"))
    another.with_name(f"{another.name}.md5").write_text("0" * 32)
    add_source("planted", "J")
    data.run()
    assert state(data, EDIT) == "upload failed"


def test_additions_never_wait(data: DataInstallation, second: Folder) -> None:
    second.put(ADD, specimens())
    data.put("add/H.2013-10-31.2.impc.zip", specimens("2013-10-31.2", first=4))
    data.base.crawl()
    away(second)
    data.run()
    assert state(data, "add/H.2013-10-31.2.impc.zip").startswith("qc")
