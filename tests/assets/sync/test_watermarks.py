"""Sessions of two groups of centres at once: each shows all of its own, and nothing is lost or shown twice."""

import threading
from collections import deque
from collections.abc import Sequence

import pytest
from dagster import AssetKey, DagsterInstance
from dagster._core.event_api import AssetRecordsFilter
from sqlalchemy import insert, select, update

from dcc.operations.session_work import open_session
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.session_request import NOBODY, Listeners, SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.tracker.database import exception_id
from dcc.tracker.models import Reopening, ZipAction, ZipActionLog, ZipDecision, ZipFile
from dcc_assets.sync.consistency import check_events
from dcc_dagster.instance import open_instance
from tests.assets.sync.test_changes import finish_quality_control
from tests.support.asking import execute_in, in_writing, value_in
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.healthy_installation import INVALID, MISNAMED
from tests.support.installations import Installation, until_the_next_second

PATIENCE = 120
EUROPE, AMERICA = "europe", "america"
ASSETS = ("zip_actions", "zip_downloads", "xml_documents", "uploaded_data", "data_integrity", "qc")
OF_EUROPE, OF_AMERICA = (
    [f"add/{centre}.2013-10-31.1.impc.zip", f"add/{centre}.2013-11-01.1.impc.zip"] for centre in "HJ"
)


@pytest.fixture
def grouped(data: DataInstallation) -> DataInstallation:
    """An installation whose centres are in two groups, with two archives each."""
    for centre, folder in {"H": data.folder, "J": data.base.add_folder("J", "other")}.items():
        folder.put(f"add/{centre}.2013-10-31.1.impc.zip", specimens(centre=centre) | experiments(centre=centre))
        folder.put(f"add/{centre}.2013-11-01.1.impc.zip", specimens("2013-11-01.1", centre=centre, first=4))
    return data.with_settings(groups=f"{EUROPE}=H;{AMERICA}=J")


def times_materialised(instance: DagsterInstance, asset: str, partition: str) -> int:
    """How often a partition has been materialised."""
    wanted = AssetRecordsFilter(AssetKey(asset), asset_partitions=[partition])
    return len(instance.fetch_materializations(wanted, limit=10).records)


def shown(grouped: DataInstallation, partitions: Sequence[str], assets: Sequence[str] = ASSETS) -> list[list[int]]:
    """How often each asset of each archive, or of each centre, is materialised."""
    with open_instance(grouped.settings) as instance:
        return [[times_materialised(instance, asset, partition) for asset in assets] for partition in partitions]


def session(grouped: DataInstallation, group: str | None, listeners: Listeners = NOBODY) -> None:
    """A whole session that shows its work in an instance of its own process's."""
    with open_instance(grouped.settings) as instance:
        Dagster(instance).session(grouped, group=group, listeners=listeners)


def is_all_shown(grouped: DataInstallation) -> bool:
    with open_instance(grouped.settings) as instance:
        return check_events(grouped.tracker, grouped.settings, instance) == []


def test_each_of_two_sessions_at_once_shows_its_own_and_nothing_is_shown_twice(grouped: DataInstallation) -> None:
    """The whole session of one group is within that of another, after the first outcome of each kind."""
    within = threading.Thread(target=session, args=(grouped, AMERICA))
    waiting = [within]

    def other_session(_outcome: object) -> None:
        if waiting:
            waiting.pop().start()
            within.join(PATIENCE)
            assert not within.is_alive()

    session(grouped, EUROPE, Listeners(on_submission=other_session))
    assert is_all_shown(grouped)
    until_the_next_second()
    for group in (EUROPE, AMERICA, None):
        session(grouped, group)
    assert shown(grouped, [*OF_EUROPE, *OF_AMERICA]) == [[1] * len(ASSETS)] * 4
    assert shown(grouped, ["H", "J"], ["contexts", "overviews"]) == [[1, 1]] * 2


def test_what_a_session_had_not_shown_is_shown_by_the_next_one_of_its_group(grouped: DataInstallation) -> None:
    """It died while one of another group was at work, which sets no watermark for its centres; and it is shown once."""
    grouped.folder.put(INVALID, {"H.2013-11-03.1.specimen.impc.xml": b"<no/>"})
    grouped.folder.put(MISNAMED, b"whatever")
    with open_session(grouped.tracker, grouped.settings, SessionRequest(group=EUROPE)) as dead:
        deque(crawl_file_sources(dead), maxlen=0)
        deque(process_zip_actions(dead), maxlen=0)
        session(grouped, AMERICA)
    assert shown(grouped, OF_EUROPE) == [[0] * len(ASSETS)] * 2
    session(grouped, EUROPE)
    assert shown(grouped, OF_EUROPE) == shown(grouped, OF_AMERICA)
    assert is_all_shown(grouped)
    grouped.put("add/H.2013-11-06.1.impc.zip", specimens("2013-11-06.1", first=20))
    session(grouped, EUROPE)
    assert shown(grouped, OF_EUROPE) == shown(grouped, OF_AMERICA)
    assert is_all_shown(grouped)


def test_what_a_killed_session_finished_is_shown_though_its_download_was_before(
    installation: Installation, dagster: Dagster
) -> None:
    archive = "add/H.2013-10-31.1.impc.zip"
    installation.add_folder().put(archive)
    installation.run_session()
    execute_in(installation.tracker, update(ZipAction).values(status_id=Status.RUNNING))
    dagster.session(installation, until=Phase.ZIP_NAME)
    assert dagster.materialised("validated_documents") == set()
    execute_in(installation.tracker, update(ZipAction).values(status_id=Status.DONE))
    dagster.session(installation, until=Phase.XSD)
    assert dagster.materialised("validated_documents") == {archive}


def test_whatever_is_newer_of_a_submission_is_shown_by_the_next_session_once(grouped: DataInstallation) -> None:
    session(grouped, None)
    ((times, *_),) = shown(grouped, OF_EUROPE[:1])
    removed = in_writing(grouped.tracker, exception_id, "Removed", "It was removed.")
    # Whichever source was listed first.
    number, another = (
        value_in(grouped.tracker, select(ZipAction.id).join(ZipFile).where(ZipFile.file_name == name.partition("/")[2]))
        for name in OF_EUROPE
    )
    of_it = {"za_id": number}
    decision = of_it | {"kind": "hold", "decided_by": "me", "reason": "", "created": utc_now()}
    reopening = {"requested_by": "me", "reason": "", "from_phase_id": 6, "from_status_id": 3, "created": utc_now()}
    for newer, more in (
        (insert(ZipActionLog).values(of_it | {"exception_id": removed}), 1),
        (insert(Reopening).values(of_it | reopening), 2),
        (insert(ZipDecision).values(decision), 3),
        (update(ZipDecision).values(revoked=utc_now()), 4),
        # None of them makes it newer again when another submission is.
        (insert(ZipActionLog).values(za_id=another, exception_id=removed), 4),
    ):
        execute_in(grouped.tracker, newer)
        session(grouped, None)
        ((now_shown, *_),) = shown(grouped, OF_EUROPE[:1])
        assert now_shown == times + more, newer


@pytest.mark.parametrize(("groups", "group"), [(f"{EUROPE}=H;{AMERICA}=J", None), (f"{AMERICA}=H,J", AMERICA)])
def test_what_changed_beside_sessions_is_shown_by_the_next_one_of_its_centres(
    grouped: DataInstallation, groups: str, group: str | None
) -> None:
    """Of a centre that was added to a group, too, whatever that has shown since."""
    session(grouped, None)
    of_each = [OF_EUROPE[0], OF_AMERICA[0]]
    (*_, europe), (*_, america) = shown(grouped, of_each)
    finish_quality_control(grouped)
    session(grouped, AMERICA)
    assert [archive[-1] for archive in shown(grouped, of_each)] == [europe, america + 1]
    session(grouped.with_settings(groups=groups), group)
    (*_, now_europe), (*_, now_america) = shown(grouped, of_each)
    assert (now_europe, now_america > america) == (europe + 1, True)
