"""Urgent archives go before all others; of the others, those with fewest failures, then the newest."""

from sqlalchemy import select

from dcc.databases.transactions import writing
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import ZipKey
from dcc.session.archives.processing import process_zip_actions
from dcc.session.crawling import crawl_file_sources
from dcc.session.session_request import SessionRequest
from dcc.tracker.hostings.urgent_requests import request_urgently, urgent_keys
from dcc.tracker.models import FileSourceHasZip, ZipAction, ZipDownload, ZipFile
from tests.support.asking import column_in, in_reading
from tests.support.installations import Installation

NAMES = [f"H.2013-10-{day}.1.impc.zip" for day in range(10, 15)]
OLDEST, FAILED_ONCE, FAILING = NAMES[0], NAMES[-2], NAMES[-1]
URGENT = ZipKey(Action.ADD, OLDEST)


def fetched(installation: Installation, *urgent: ZipKey) -> list[str]:
    """The archives in the order in which a session asked for them."""
    one = installation.with_settings(downloads_per_source=1, max_retries=0)
    with open_session(one.tracker, one.settings, SessionRequest(urgent=frozenset(urgent))) as session:
        list(crawl_file_sources(session))
        list(process_zip_actions(session))
    query = (
        select(ZipFile.file_name)
        .join(ZipAction, ZipAction.zip_id == ZipFile.id)
        .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(ZipDownload.session_id == session.id)
        .order_by(ZipDownload.id)
    )
    return column_in(one.tracker, query)


def test_the_order_of_downloads(installation: Installation) -> None:
    """The newest failed three times, the second newest once, and the rest not at all."""
    folder = installation.add_folder()
    often = installation.with_settings(max_retries=0)
    for absent in ([FAILING], [FAILING], [FAILING, FAILED_ONCE]):
        for name in absent:
            folder.put(f"add/{name}")
        with open_session(often.tracker, often.settings) as session:
            list(crawl_file_sources(session))
            for name in absent:
                (folder.path / "add" / name).unlink()
            list(process_zip_actions(session))
    assert [len(installation.attempts(f"add/{name}")) for name in (FAILING, FAILED_ONCE)] == [3, 1]
    for name in NAMES:
        folder.put(f"add/{name}")
    unknown = ZipKey(Action.EDIT, OLDEST)
    with writing(installation.tracker) as connection:
        request_urgently(connection, [URGENT, unknown], "ann")
        request_urgently(connection, [URGENT], "bob")
        assert urgent_keys(connection) == [URGENT, unknown]
    assert fetched(installation) == [OLDEST, *reversed(NAMES[1:-2]), FAILED_ONCE, FAILING]
    assert fetched(installation) == []
    assert in_reading(installation.tracker, urgent_keys) == [unknown]
