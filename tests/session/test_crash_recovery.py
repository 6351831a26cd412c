"""A session killed by SIGKILL and then continued ends as one that was not."""

from typing import Any

import pytest
from sqlalchemy import select

from dcc.cli.demo import submissions
from dcc.session.archives import archive_phases
from dcc.tracker.models import CrawlingSession, SessionLock, XmlFile, XmlLog, ZipDownload, ZipLog
from tests.support import dying_session
from tests.support.dying_session import POINTS
from tests.support.installations import Fetches, Folder, Installation, experiments, specimens
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_installations import opened_installation
from tests.support.prepared_processes import run_dying
from tests.support.staged_files import without_day
from tests.support.trials import usually

LIKE_OTHERS = {
    "when the downloads are planned": "in the first transaction",
    "when an archive is extracted": "before a document is validated",
    "when a document is validated": "before a document is validated",
}
"""Points at which a session leaves what it leaves at another, since nothing is recorded between the two."""
ON_BOTH = {"in the second transaction", "in the middle of the validation"}
"""Points at which a database has an open transaction, or work that was begun."""


def killed_at(point: str, installation: Installation) -> None:
    """A session of two sources is killed at a point."""
    fill([installation.add_folder("H", "one"), installation.add_folder("H", "two")])
    run_dying(dying_session.main, point, installation.settings)


def fill(folders: list[Folder]) -> None:
    """A valid zip on both sources, one with invalid documents, a bad archive, and a name that does not conform."""
    good = specimens() | experiments(at_least=300_000) | specimens(stem="2013-10-31.7")
    wrong = specimens(stem="2013-10-31.2") | experiments(stem="2013-10-31.2")
    for name, document in wrong.items():
        wrong[name] = submissions.damaged(document, 'centreID="', 'centerID="')
    for folder in folders:
        folder.put("add/H.2013-10-31.1.impc.zip", good)
        folder.put("edit/H.2013-10-31.2.impc.zip", wrong | {"odd.xml": b"<a/>", "readme.txt": b"hello"})
    folders[0].put("add/H.2013-10-31.3.impc.zip", b"no zip at all")
    folders[0].put("add/what is this.zip", b"")


def ending(installation: Installation) -> dict[str, Any]:
    """Everything about the end that must not depend on how it was reached."""
    with installation.tracker.connect() as connection:
        finished = select(ZipDownload.id).where(ZipDownload.status_id != 4)
        return {
            "states": installation.states(),
            "documents": [document for document in installation.documents() if "cancelled" not in document[1]],
            "document errors": sorted(
                connection.execute(
                    select(XmlFile.fname, XmlLog.line, XmlLog.col, XmlLog.message).join(
                        XmlLog, XmlLog.xml_id == XmlFile.id
                    )
                ).all(),
                key=str,
            ),
            "archive errors": sorted(connection.scalars(select(ZipLog.message))),
            "files": {place: without_day(place, content) for place, content in installation.staged().items()},
            "finished downloads": len(connection.scalars(finished).all()),
        }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, prepared_files: dict[str, PreparedFile]) -> dict[str, Any]:
    """How a session ends that nothing disturbs, on SQLite."""
    installation = opened_installation(tmp_path_factory.mktemp("undisturbed"), prepared_files).base
    installation.add_centre("H", "J")
    fill([installation.add_folder("H", "one"), installation.add_folder("H", "two")])
    installation.run_session()
    return ending(installation)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=pytest.mark.both_databases) if point in ON_BOTH else point
        for point in usually([point for point in POINTS if point not in LIKE_OTHERS], list(POINTS))
    ],
)
def test_a_killed_session_is_continued_with_nothing_lost_and_nothing_twice(
    installation: Installation, undisturbed: dict[str, Any], point: str
) -> None:
    killed_at(point, installation)
    result = installation.run_session()
    assert any("died" in notice for notice in result.notices)
    assert ending(installation) == undisturbed
    with installation.tracker.connect() as connection:
        dead, finished = connection.execute(
            select(CrawlingSession.status, CrawlingSession.finish_time).order_by(CrawlingSession.id)
        ).all()
        assert dead.status > 0
        assert dead.finish_time is not None
        assert finished.finish_time is not None
        assert connection.scalar(select(SessionLock.holder)) is None


@pytest.mark.usefixtures("forked_workers")
def test_a_killed_session_is_continued_by_processes_too(
    installation: Installation, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at("in the middle of the validation", installation)
    monkeypatch.setattr(archive_phases, "MANY", 1)
    installation.run_session()
    assert ending(installation) == undisturbed


def test_the_mid_transfer_part_is_gone_on_with(installation: Installation, fetches: Fetches) -> None:
    """What arrived before the kill is not fetched again."""
    folder = installation.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip", specimens() | experiments(at_least=300_000))
    run_dying(dying_session.main, "in mid-transfer", installation.settings)
    part = installation.settings.staging_directory / "add" / "H.2013-10-31.1.impc.zip.part"
    received = part.stat().st_size
    assert received > 0
    assert installation.run_session().zips["add/H.2013-10-31.1.impc.zip"].succeeded
    assert fetches.offsets == [received]
