"""What is overdue is a check that fails, with what to do; it passes when its cause goes, and nothing is told twice."""

import shutil
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import Connection

from dcc.phases import Phase
from dcc.runtime.clock import utc_now
from dcc.sources.crawl_policy import Pause
from dcc.tracker.register.file_sources import change_source, purge_source, set_source_state
from dcc.tracker.register.source_schedules import set_pause
from dcc.vocabulary import SourceState
from dcc_assets.graph import CENTRE_SILENT, CRAWL_OVERDUE, REACHABLE, SUBMISSIONS_OVERDUE
from dcc_assets.sync import overdue
from dcc_assets.sync.consistency import check_events
from dcc_assets.sync.overdue import show_overdue
from tests.assets.test_session_in_dagster import invalid_documents
from tests.support.asking import in_writing
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.installations import Installation

GOOD = "add/H.2013-10-31.1.impc.zip"
INVALID = "add/H.2013-10-31.3.impc.zip"

After = Callable[[float], None]
"""Looks at what is overdue when so many hours have passed."""


@pytest.fixture
def after(installation: Installation, dagster: Dagster, monkeypatch: pytest.MonkeyPatch) -> After:
    def look(hours: float) -> None:
        monkeypatch.setattr(overdue, "utc_now", lambda: utc_now() + timedelta(hours=hours))
        show_overdue(dagster.instance, installation.tracker, installation.settings)
        monkeypatch.setattr(overdue, "utc_now", utc_now)

    return look


@pytest.fixture
def in_time_zone() -> Iterator[Callable[[str], None]]:
    """Called with a time zone, such as `UTC-14`, this machine is in it."""
    with pytest.MonkeyPatch.context() as environment:

        def move(zone: str) -> None:
            environment.setenv("TZ", zone)
            time.tzset()

        yield move
    time.tzset()


def test_machines_in_other_time_zones_tell_it_once(
    installation: Installation,
    dagster: Dagster,
    monkeypatch: pytest.MonkeyPatch,
    in_time_zone: Callable[[str], None],
) -> None:
    installation.add_folder().put(GOOD)
    dagster.session(installation, until=Phase.ZIP_NAME)
    noon = utc_now().replace(hour=12) + timedelta(days=2)
    monkeypatch.setattr(overdue, "utc_now", lambda: noon)
    assert show_overdue(dagster.instance, installation.tracker, installation.settings)
    for zone in ("UTC-14", "UTC+13"):
        in_time_zone(zone)
        assert not show_overdue(dagster.instance, installation.tracker, installation.settings), zone
    monkeypatch.setattr(overdue, "utc_now", lambda: noon + timedelta(days=1))
    assert show_overdue(dagster.instance, installation.tracker, installation.settings), "another day"


def test_when_a_source_is_crawled_and_who_paused_it_is_on_its_partition(
    installation: Installation, dagster: Dagster, after: After
) -> None:
    folder = installation.add_folder()
    folder.put(GOOD)
    in_writing(installation.tracker, change_source, folder.source_id, every="6h")
    dagster.session(installation, until=Phase.ZIP_NAME)
    shown = dagster.metadata(CRAWL_OVERDUE.asset_key.to_user_string(), "H-1")
    assert shown["crawled"] == "every 6h"
    assert shown["then"].startswith("not due until ")
    in_writing(installation.tracker, set_pause, folder.source_id, Pause("Harwell moves its server.", "ann", utc_now()))
    after(25)
    assert dagster.checks(CRAWL_OVERDUE) == {"H-1": "passed"}
    evaluation = dagster.evaluation(CRAWL_OVERDUE, "H-1")
    paused = "paused by ann: Harwell moves its server."
    assert (evaluation.description, evaluation.metadata["crawled"].value) == (f"It is {paused}", f"every 6h; {paused}")
    in_writing(installation.tracker, set_pause, folder.source_id, None)
    after(32)
    assert dagster.checks(CRAWL_OVERDUE) == {"H-1": "failed"}


@pytest.mark.parametrize("ends", [purge_source, partial(set_source_state, state=SourceState.REMOVED)])
def test_of_a_source_that_is_not_in_use_any_more_no_check_fails(
    installation: Installation, dagster: Dagster, after: After, ends: Callable[[Connection, int], object]
) -> None:
    folder = installation.add_folder()
    shutil.rmtree(folder.path)
    dagster.session(installation, until=Phase.ZIP_NAME)
    after(100)
    partition = f"H-{folder.source_id}"
    failing = {check: dagster.checks(check) for check in (REACHABLE, CRAWL_OVERDUE)}
    assert failing == {check: {partition: "failed"} for check in failing}
    in_writing(installation.tracker, ends, folder.source_id)
    assert check_events(installation.tracker, installation.settings, dagster.instance) == []
    after(0)
    assert {check: dagster.checks(check) for check in failing} == {check: {partition: "passed"} for check in failing}
    assert check_events(installation.tracker, installation.settings, dagster.instance) == []


def test_a_failed_archive_is_late_until_it_is_corrected(
    installation: Installation, dagster: Dagster, after: After
) -> None:
    folder = installation.add_folder()
    folder.put(INVALID, invalid_documents())
    dagster.session(installation, until=Phase.XSD)
    after(71)
    assert dagster.checks(SUBMISSIONS_OVERDUE) == {"H": "passed"}
    after(73)
    evaluation = dagster.evaluation(SUBMISSIONS_OVERDUE, "H")
    assert (evaluation.passed, evaluation.severity.value) == (False, "WARN")
    assert (evaluation.metadata["failed"].value, evaluation.metadata["waiting"].value) == (1, 0)
    (row,) = [dict(record.data) for record in evaluation.metadata["archives"].records]
    assert row == {"archive": INVALID, "phase": "xsd", "status": "failed", "days": 3, "who acts": "centre"}

    folder.path.joinpath(INVALID).unlink()
    dagster.session(installation, until=Phase.XSD)
    after(73)
    # All that the directory had is gone: the next listing decides.
    assert dagster.checks(SUBMISSIONS_OVERDUE) == {"H": "failed"}
    dagster.session(installation, until=Phase.XSD)
    after(73)
    assert dagster.checks(SUBMISSIONS_OVERDUE) == {"H": "passed"}


def test_what_waits_for_us_is_an_error_until_it_is_through(
    data: DataInstallation, data_dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.put(GOOD, specimens(), experiments())
    data_dagster.session(data, until=Phase.XSD)
    monkeypatch.setattr(overdue, "utc_now", lambda: utc_now() + timedelta(days=4))
    show_overdue(data_dagster.instance, data.tracker, data.settings)
    evaluation = data_dagster.evaluation(SUBMISSIONS_OVERDUE, "H")
    assert (evaluation.passed, evaluation.severity.value) == (False, "ERROR")
    assert evaluation.metadata["waiting"].value == 1
    monkeypatch.undo()
    data_dagster.session(data, keys=[key_of(GOOD)])
    assert data_dagster.checks(SUBMISSIONS_OVERDUE)["H"] == "passed"
    infos = data_dagster.instance.event_log_storage.get_asset_check_partition_info([CENTRE_SILENT, SUBMISSIONS_OVERDUE])
    assert [info.is_current for info in infos if info.partition_key == "H"] == [True, True], "as of its contexts"
