"""Older submissions are archived: gone from Dagster, in the tracker, and shown again when something becomes of them."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import DagsterEventType, DagsterInstance
from sqlalchemy import select, update

from dcc.databases.transactions import writing
from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc.qc.models import CONTEXT
from dcc.session.data.quality_control import update_qc_states
from dcc.session.session_request import SessionRequest
from dcc.tracker.models import ZipAction
from dcc.tracker.queries.submission_lists import find_submissions
from dcc_assets.graph import CHECK_OF_PHASE
from dcc_assets.sync import horizon
from dcc_assets.sync.consistency import check_events
from dcc_assets.sync.horizon import archive_older, read_archive
from dcc_assets.sync.rebuild import rebuild_instance
from dcc_dagster.instance import open_instance
from tests.support.asking import execute_in, in_reading
from tests.support.dagster_instances import Dagster, lose_instance, show_changed_data
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_mariadb
from tests.support.installations import Installation
from tests.support.raising import raising

ASSETS = (
    "zip_actions",
    "zip_downloads",
    "xml_documents",
    "validated_documents",
    "uploaded_data",
    "data_integrity",
    "qc",
)
ZIPS = [f"add/H.2013-10-31.{number}.impc.zip" for number in range(1, 6)]
FAILED = [f"add/H.2013-11-01.{number}.impc.zip" for number in range(1, 4)]
XSD = CHECK_OF_PHASE[Phase.XSD]
KEPT = {"dagster_zips": 2, "dagster_failed_zips": 2}


def put(data: DataInstallation, names: Iterable[str]) -> None:
    for name in names:
        stem = name.removeprefix("add/H.").removesuffix(".impc.zip")
        number = int(stem.rpartition(".")[2])
        data.put(name, specimens(stem, first=10 * number), experiments(stem, first=10 * number))


def put_failing(data: DataInstallation) -> None:
    for name in FAILED:
        stem = name.removeprefix("add/H.").removesuffix(".impc.zip")
        data.folder.put(name, {f"H.{stem}.specimen.impc.xml": b"<no/>"})


def age(data: DataInstallation) -> None:
    """Let submissions have changed an hour after one another, in the order of their ids."""
    with writing(data.tracker) as connection:
        for number in connection.scalars(select(ZipAction.id)).all():
            changed = datetime(2020, 1, 1) + timedelta(hours=number)
            connection.execute(update(ZipAction).where(ZipAction.id == number).values(last_update=changed))


def partitions(dagster: Dagster) -> set[str]:
    return set(dagster.instance.get_dynamic_partitions("zip_actions"))


def shown(dagster: Dagster) -> dict[str, Any]:
    return {asset: dagster.materialised(asset) for asset in ASSETS}


@only_mariadb
def test_the_oldest_of_too_many_go_and_come_back_when_something_becomes_of_them(
    data: DataInstallation, data_dagster: Dagster
) -> None:
    """One test, since a session takes seconds: each step goes on from the one before."""
    put(data, ZIPS)
    put_failing(data)
    settings, instance = data.with_settings(**KEPT).settings, data_dagster.instance
    data_dagster.session(data)
    age(data)

    assert archive_older(instance, data.tracker, settings) == 4
    assert partitions(data_dagster) == {*ZIPS[3:], *FAILED[1:]}, "two that came through and two that failed stay"
    assert data_dagster.checks(XSD) == {**dict.fromkeys(ZIPS[3:], "passed"), **dict.fromkeys(FAILED[1:], "failed")}
    assert shown(data_dagster)["qc"] == set(ZIPS[3:])
    assert shown(data_dagster)["zip_actions"] == {*ZIPS[3:], *FAILED[1:]}
    assert check_events(data.tracker, settings, instance) == []
    assert archive_older(instance, data.tracker, settings) == 0
    assert {f"{zip_.action}/{zip_.file_name}" for zip_ in in_reading(data.tracker, find_submissions)} == {
        *ZIPS,
        *FAILED,
    }

    data_dagster.session(data.with_settings(**KEPT), keys=[key_of(ZIPS[0])])
    assert partitions(data_dagster) == {ZIPS[0], ZIPS[4], *FAILED[1:]}, "what changed last stays"
    assert all(ZIPS[0] in of_asset for of_asset in shown(data_dagster).values())
    assert check_events(data.tracker, settings, instance) == []

    execute_in(data.qc, update(CONTEXT).values(state="qcdone", data_state="qcdone"))
    update_qc_states(data.tracker, data.qc, settings, author="wrangler", reason="Looked at.")
    show_changed_data(settings, data.tracker, instance)
    assert set(ZIPS) <= partitions(data_dagster), "their quality control was done"
    assert all(set(ZIPS) <= of_asset for of_asset in shown(data_dagster).values())
    assert check_events(data.tracker, settings, instance) == []


def test_a_first_showing_and_a_rebuild_show_no_more_than_is_kept(data: DataInstallation) -> None:
    put(data, ZIPS)
    put_failing(data)
    data.run()
    age(data)
    settings = data.with_settings(**KEPT).settings
    with open_instance(settings) as instance:
        Dagster(instance).session(data.with_settings(**KEPT))
        first = partitions(Dagster(instance)), shown(Dagster(instance))
        assert first[0] == {*ZIPS[3:], *FAILED[1:]}
        assert check_events(data.tracker, settings, instance) == []
    lose_instance(settings)
    with open_instance(settings) as instance:
        report = rebuild_instance(settings, data.tracker, instance)
        assert (partitions(Dagster(instance)), shown(Dagster(instance))) == first
        assert (report.zip_actions, report.failed) == (4, 2)
        runs = instance.get_runs_count()
        Dagster(instance).session(data.with_settings(**KEPT))
        added = instance.get_runs()[: instance.get_runs_count() - runs]
        told = [instance.all_logs(run.run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION) for run in added]
        assert sum(map(len, told)) == 1, "the source alone: the next session knows what is shown"

        rebuild_instance(data.settings, data.tracker, instance)
        assert partitions(Dagster(instance)) == {*ZIPS, *FAILED}, "more are kept"
        assert check_events(data.tracker, data.settings, instance) == []


def test_an_archiving_that_was_killed_is_finished_by_the_next(
    data: DataInstallation, data_dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(data, ZIPS)
    data_dagster.session(data)
    age(data)
    settings = data.with_settings(**KEPT, groups="europe=H;america=J").settings
    with (
        open_session(data.tracker, settings, SessionRequest(group="europe")) as session,
        open_session(data.tracker, settings, SessionRequest(group="america")),
    ):
        assert archive_older(data_dagster.instance, data.tracker, settings, session=session) == 0, "the other does it"

    with monkeypatch.context() as patch:
        patch.setattr(horizon, "remove_partitions", raising(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            archive_older(data_dagster.instance, data.tracker, settings)
    assert check_events(data.tracker, settings, data_dagster.instance) == []
    assert partitions(data_dagster) == set(ZIPS)

    assert archive_older(data_dagster.instance, data.tracker, settings) == 3
    assert partitions(data_dagster) == set(ZIPS[3:])


def test_the_archive_names_the_last_phase_and_the_number_of_earlier_versions_is_read(
    installation: Installation, instance: DagsterInstance
) -> None:
    """A phase before others moves their numbers, and no revision reaches what Dagster keeps."""
    settings = installation.with_settings(until="data").settings
    archive_older(instance, installation.tracker, settings, start_over=True)
    archive, cursors = read_archive(instance), instance.daemon_cursor_storage
    ((key, stored),) = cursors.get_cursor_values({"dcc/zip actions archived"}).items()
    assert (archive.horizon.until, stored.count('"until":"data"')) == (Phase.DATA, 2)
    cursors.set_cursor_values({key: stored.replace('"data"', "8")})
    assert read_archive(instance) == archive
