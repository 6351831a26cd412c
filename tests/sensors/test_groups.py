"""Sessions of groups of centres in Dagster: a run's tag names the group, and sensors go on with its session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance, RunRequest

from dcc.operations.sessions import open_session
from dcc.tracker.crawls import list_sessions
from dcc_assets.jobs import asset_definitions
from dcc_assets.runs import GROUP_TAG, SESSION_TAG
from dcc_sensors.sessions import new_zips
from tests.sensors.test_sessions import asked
from tests.support.dagster_instances import set_environment
from tests.support.databases import only_sqlite
from tests.support.installations import Installation

ZIP = "add/H.2013-10-31.1.impc.zip"


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


@only_sqlite
def test_a_crawl_with_the_tag_is_a_session_of_the_group_and_sensors_go_on_with_it(
    installation: Installation, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(installation, monkeypatch)
    monkeypatch.setenv("DCC_GROUPS", "europe=H;america=J")
    installation.add_folder().put(ZIP)
    installation.add_folder("J", "other")
    grouped = installation.with_settings(groups="europe=H;america=J")
    job = asset_definitions().get_job_def("crawl_file_sources")
    assert job.execute_in_process(instance=instance, tags={GROUP_TAG: "europe"}).success
    with grouped.tracker.connect() as connection:
        (entry,) = list_sessions(connection)
    assert (entry.group, entry.outcome, len(entry.crawls)) == ("europe", "open", 1)
    with open_session(grouped.tracker, grouped.settings, group="america"):
        request = asked(new_zips, instance)
    assert isinstance(request, RunRequest)
    assert request.tags == {SESSION_TAG: str(entry.id), GROUP_TAG: "europe"}
