"""What edits or deletes waits for older archives of its centre that are still on their way, and for no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select, update

from dcc.databases.transactions import writing
from dcc.operations.sessions import open_session
from dcc.phases import Phase, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_submission
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.plain_text import render_text
from dcc.session.crawling import crawl_file_sources
from dcc.tracker.hostings.older_archives import MOST_RETRIES
from dcc.tracker.models import FileSource, FileSourceHasZip, ResourceStateRow, ZipAction, utc_now
from dcc.tracker.queries.zip_stories import zip_story
from tests.support.data_installations import DataInstallation, key_of, specimens
from tests.support.installations import Folder
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
    folder.path.rename(folder.path.with_name("away"))


def back(folder: Folder) -> None:
    folder.path.with_name("away").rename(folder.path)


def state(data: DataInstallation, key: str) -> str:
    return data.base.states()[key]


def list_only(data: DataInstallation) -> None:
    """A session that ends with the names of archives."""
    with open_session(data.tracker, data.settings) as session:
        list(crawl_file_sources(session))


def known_but_away(data: DataInstallation, second: Folder) -> None:
    """All are listed; then the server of the additions is away before these are fetched."""
    put_all(data, second)
    list_only(data)
    away(second)


def test_changes_wait_for_an_addition_whose_server_is_away_and_come_through_by_themselves(
    data: DataInstallation, second: Folder
) -> None:
    known_but_away(data, second)
    for _ in range(2):
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
    with data.tracker.connect() as connection:
        assert not [one for one in zip_story(connection, key_of(EDIT)).reasons if one.kind == "waits"]


def test_what_waits_is_told_to_the_centre_and_the_wrangler(data: DataInstallation, second: Folder) -> None:
    known_but_away(data, second)
    result = data.base.run_session()
    data.take_up()
    catalogue = load_catalogue(None, data.settings)
    with data.tracker.connect() as connection:
        report = collect_submission(connection, None, key_of(EDIT), data.settings)
        centre = collect_centre(connection, None, "H", data.settings)
        story = zip_story(connection, key_of(EDIT))
        summary = session_report(connection, result.id).text
    assert report.outcome is Outcome.IN_ORDER
    assert f"The archive that it waits for is {ADD}." in " ".join(render_text(report, catalogue).split())
    assert {str(one.key) for one in centre.zips if one.outcome is Outcome.IN_ORDER} == {EDIT, DELETE}
    assert [one.message for one in story.reasons if one.kind == "waits"] == [
        f"It waits for {ADD}, an older archive of centre H that is still on its way: what it changes may be in there. "
        "The session that takes that one takes this one too."
    ]
    assert "Archives that wait for an older one of their centre" in summary
    assert f"{EDIT}: It waits for {ADD}" in " ".join(summary.split())


def damaged(data: DataInstallation, second: Folder) -> None:
    """The addition is no archive."""
    second.put(ADD, b"PK\x03\x04 cut off")
    data.put(EDIT, specimens("2013-10-31.2"))


def held(data: DataInstallation, second: Folder) -> None:
    """The addition lies on another centre's source alone."""
    data.base.add_folder("J", "planted").put(ADD, specimens())
    data.put(EDIT, specimens("2013-10-31.2"))


def younger(data: DataInstallation, second: Folder) -> None:
    """The addition is of a later date."""
    data.put(EDIT, specimens("2013-10-31.2"))
    second.put("add/H.2013-11-30.1.impc.zip", specimens("2013-11-30.1"))
    list_only(data)
    away(second)


def wrong_checksum(data: DataInstallation, second: Folder) -> None:
    """The addition is not the one whose MD5 its centre published."""
    put_all(data, second)
    (second.path / f"{ADD}.md5").write_text("0" * 32)


def gone(data: DataInstallation, second: Folder) -> None:
    """The addition was removed from its server."""
    put_all(data, second)
    list_only(data)
    (second.path / ADD).unlink()


def not_in_use(data: DataInstallation, second: Folder) -> None:
    """A wrangler took the source of the addition out of use."""
    known_but_away(data, second)
    with writing(data.tracker) as connection:
        state = connection.scalar(
            select(ResourceStateRow.id).where(ResourceStateRow.short_name != "available").limit(1)
        )
        connection.execute(update(FileSource).where(FileSource.id == second.source_id).values(state_id=state))


def never_delivered(data: DataInstallation, second: Folder) -> None:
    """The server lists the addition, and failed to deliver it in several sessions."""
    known_but_away(data, second)
    fail_to_arrive(data, second, MOST_RETRIES)


def fail_to_arrive(data: DataInstallation, second: Folder, retries: int) -> None:
    with writing(data.tracker) as connection:
        hosted = FileSourceHasZip.file_source_id == second.source_id
        connection.execute(update(FileSourceHasZip).where(hosted).values(num_retries=retries))
        failed = {"phase_id": int(Phase.DOWNLOAD), "status_id": int(Status.FAILED)}
        zips = select(FileSourceHasZip.za_id).where(hosted)
        connection.execute(update(ZipAction).where(ZipAction.id.in_(zips)).values(failed))


@pytest.mark.parametrize("prepare", [damaged, wrong_checksum, held, younger, gone, not_in_use, never_delivered])
def test_nothing_waits_for_what_will_not_come(
    data: DataInstallation, second: Folder, prepare: Callable[[DataInstallation, Folder], None]
) -> None:
    prepare(data, second)
    data.run()
    assert state(data, EDIT) == "upload failed"


def test_what_failed_to_arrive_once_is_waited_for(data: DataInstallation, second: Folder) -> None:
    known_but_away(data, second)
    fail_to_arrive(data, second, MOST_RETRIES - 1)
    data.run()
    assert state(data, EDIT) == WAITING


def test_what_is_being_uploaded_is_waited_for(data: DataInstallation, second: Folder) -> None:
    put_all(data, second)
    list_only(data)
    with writing(data.tracker) as connection:
        hosted = FileSourceHasZip.file_source_id == second.source_id
        connection.execute(update(FileSourceHasZip).where(hosted).values(uploading_since=utc_now()))
    away(second)
    data.run()
    assert state(data, EDIT) == WAITING


def test_additions_never_wait(data: DataInstallation, second: Folder) -> None:
    second.put(ADD, specimens())
    data.put("add/H.2013-10-31.2.impc.zip", specimens("2013-10-31.2", first=4))
    list_only(data)
    away(second)
    data.run()
    assert state(data, "add/H.2013-10-31.2.impc.zip").startswith("qc")
