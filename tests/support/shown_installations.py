"""An installation after a session that Dagster was shown, made once a run of tests: `shown` is a copy."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dagster import JobDefinition

from dcc_assets.definitions import asset_definitions
from dcc_dagster.instance import open_instance
from tests.support.dagster_instances import Dagster, set_environment
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.environments import forget_settings
from tests.support.prepared_installations import PreparedInstallations, opened_installation

GOOD = "add/H.2013-10-31.1.impc.zip"
"""An archive that came through: three animals and an experiment on each."""
ORPHANS = "add/H.2013-10-31.2.impc.zip"
"""An archive with experiments on animals that nobody has submitted."""


def put_orphans(data: DataInstallation) -> None:
    """Have the source host the archive ORPHANS."""
    data.put(ORPHANS, experiments("2013-10-31.2", first=11))


def show_both(data: DataInstallation) -> None:
    """Have it take both archives in a session, which is shown."""
    data.put(GOOD, specimens(), experiments())
    put_orphans(data)
    with open_instance(data.settings) as instance:
        Dagster(instance).session(data)


@dataclass(frozen=True)
class Shown:
    """A copy of the test's own: the installation, its Dagster instance, and the job behind its Materialize button."""

    data: DataInstallation
    dagster: Dagster

    @property
    def job(self) -> JobDefinition:
        """The job of the page, in the environment of the test."""
        return asset_definitions().resolve_implicit_global_asset_job_def()


@pytest.fixture
def shown(
    prepared_installations: PreparedInstallations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shown]:
    """A copy, which the environment names."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("DCC_QUIET_SECONDS", "0")
    data = opened_installation(tmp_path)
    prepared_installations.begin(data, show_both)
    set_environment(data.base, monkeypatch)
    with open_instance(data.settings) as instance:
        yield Shown(data, Dagster(instance))
    data.close()
