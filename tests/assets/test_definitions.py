"""The code location: what the web page's lineage shows, whatever state the installation is in."""

import importlib
import pkgutil
import re
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

import dcc_assets
import dcc_sensors
from dcc.cli.shell.dagster_side import LOCATION_NAME
from dcc.errors import ConfigurationError
from dcc.rules.catalogue import CATALOGUE
from dcc_assets.data import DATA_CHECKS, chosen_data
from dcc_assets.definitions import asset_definitions
from dcc_assets.graph import (
    ARCHIVE_COPIES,
    ARCHIVE_REPLICAS,
    CENTRE_SILENT,
    CHECK_OF_GROUP,
    CHECK_OF_PHASE,
    CRAWL_OVERDUE,
    REACHABLE,
    REFERENCE_FRESH,
    SUBMISSIONS_OVERDUE,
    UPLOAD_CHECK,
)
from dcc_assets.jobs import LOAD_JOB, PROCESS_JOB, SHOW_JOB
from dcc_assets.quality_control import chosen_contexts, chosen_qc
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_sensors.definitions import automation_definitions
from dcc_sensors.notifications import WATCHED_JOBS
from tests.support.prepared_processes import run_in_process

ROOT = Path(__file__).parent.parent.parent
FLOW = [
    "file_source_listings",
    "zip_actions",
    "zip_downloads",
    "xml_documents",
    "validated_documents",
    "uploaded_data",
    "data_integrity",
    "contexts",
    "overviews",
    "qc",
    "submission_reports",
]
JOBS = (
    "['__ASSET_JOB', 'audit_archives', 'crawl_file_sources', 'load_data', 'prepare_batches', 'process_zip_actions', "
    "'refresh_reference_data', 'show_changes', 'show_overdue']"
)
UNWATCHED = {"__ASSET_JOB", "prepare_batches", "show_overdue"}
"""Jobs that people or sessions look at themselves, or of which people get a message by what they find."""
KINDS = (
    dg.AssetsDefinition,
    dg.JobDefinition,
    UnresolvedAssetJobDefinition,
    dg.SensorDefinition,
    dg.ScheduleDefinition,
)
"""What a code location is made of."""
GROUPS = {"collection", "validation", "data", "quality_control", "reports", "analysis", "reference"}
BY_CENTRE = {"contexts", "overviews"}


def test_file_sources_zip_actions_and_centres_are_partitions() -> None:
    graph = asset_definitions().resolve_asset_graph()
    names = {}
    for asset in FLOW:
        partitions = graph.get(dg.AssetKey(asset)).partitions_def
        assert isinstance(partitions, dg.DynamicPartitionsDefinition)
        names[asset] = partitions.name
    others = {"file_source_listings": "file_sources"} | dict.fromkeys(BY_CENTRE, "centres")
    assert names == dict.fromkeys(FLOW, "zip_actions") | others


def test_every_asset_and_check_says_what_it_is() -> None:
    graph = asset_definitions().resolve_asset_graph()
    assert graph.get_all_asset_keys() >= {dg.AssetKey(asset) for asset in (*FLOW, "measurements", "archive_store")}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert len(node.description or "") > 80
        assert node.group_name in GROUPS
        assert node.owners
        assert node.kinds
    checks = {key: graph.get(key) for key in graph.asset_check_keys}
    overdue = {CRAWL_OVERDUE, CENTRE_SILENT, SUBMISSIONS_OVERDUE}
    of_copies = {ARCHIVE_COPIES, ARCHIVE_REPLICAS}
    of_sessions = {REACHABLE, *CHECK_OF_PHASE.values(), UPLOAD_CHECK, *CHECK_OF_GROUP.values(), *overdue, *of_copies}
    assert set(checks) == of_sessions | set(REFERENCE_FRESH.values())
    descriptions = {(key.name, node.description) for key, node in checks.items()}
    assert len(descriptions) == len({name for name, _ in descriptions})
    assert all(description for _, description in descriptions)
    sentences = [
        sentence for _, description in descriptions for sentence in set(re.split(r"(?<=\.) ", description or ""))
    ]
    assert len(sentences) == len(set(sentences)), "A sentence that holds for several checks is told once, elsewhere."
    assert "former" not in " ".join(sentences)
    assert dg.AssetCheckKey(dg.AssetKey("validated_documents"), "xsd") in checks


def test_every_integrity_rule_is_named_by_one_check() -> None:
    told = " ".join(spec.description or "" for spec in DATA_CHECKS)
    for rule in CATALOGUE:
        assert len(re.findall(rf"\b{rule}\b", told)) >= 1, rule


def test_what_writes_to_the_qc_database_shares_a_pool() -> None:
    repository = asset_definitions().get_repository_def()
    pooled = {
        name: {node.pool for node in repository.get_job(name).all_node_defs if isinstance(node, dg.OpDefinition)}
        for name in (LOAD_JOB, PROCESS_JOB, SHOW_JOB)
    }
    assert pooled == {LOAD_JOB: {QC_DATABASE_POOL}, PROCESS_JOB: {None}, SHOW_JOB: {None}}
    assert {op.op.pool for op in (chosen_data, chosen_contexts, chosen_qc)} == {QC_DATABASE_POOL}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, JOBS),
        ({"DCC_TRACKER_URL": "mysql://nobody:nothing@127.0.0.1:1/nowhere"}, "process_zip_actions"),
        ({"DCC_CRAWL_INTERVAL": "now and then"}, "ConfigurationError: DCC_CRAWL_INTERVAL: 'now and then' is not a"),
        ({"DCC_DOWNLOADERS": "0"}, "ConfigurationError: DCC_DOWNLOADERS"),
        ({"DCC_DOWNLOADERZ": "8"}, "DCC_DOWNLOADERZ: there is no such setting; the nearest is DCC_DOWNLOADERS"),
    ],
)
def test_definitions_load_without_a_tracker_and_say_which_setting_is_wrong(
    environment: dict[str, str], expected: str, tmp_path: Path
) -> None:
    home, told = tmp_path / "home", tmp_path / "told"
    assert run_in_process(load, str(told), {"DCC_HOME": str(home)} | environment) == 0
    assert expected in told.read_text("utf-8")
    assert not home.exists()


def test_people_get_messages_of_failed_runs() -> None:
    unknown = set(re.findall(r"\w+", JOBS)) - UNWATCHED - set(WATCHED_JOBS)
    assert not unknown, f"Add {unknown} to WATCHED_JOBS in dcc_sensors/notifications.py, or to UNWATCHED above."


def test_the_code_location_has_all_that_the_modules_define() -> None:
    location = dg.Definitions.merge(asset_definitions(), automation_definitions())
    parts = (location.assets, location.jobs, location.sensors, location.schedules)
    there = {id(thing) for part in parts for thing in part or ()}
    modules = [
        importlib.import_module(found.name)
        for package in (dcc_assets, dcc_sensors)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    defined = {
        id(thing): name for module in modules for name, thing in vars(module).items() if isinstance(thing, KINDS)
    }
    assert {"overdue", "refresh_reference", "refresh_reference_data", "chosen_qc"} <= set(defined.values())
    assert [name for number, name in defined.items() if number not in there] == []
    assert {one.default_status.name for one in (*(location.sensors or ()), *(location.schedules or ()))} == {"RUNNING"}
    assert {one.execution_timezone for one in location.schedules or ()} == {"UTC"}


def load(told: str) -> None:
    """Load the code location as Dagster does; its jobs, or what is wrong, go to the file `told`."""
    try:
        from dcc_definitions import defs

        repository = defs.get_repository_def()
        repository.load_all_definitions()
        assert {"overdue", "new_zips"} <= {sensor.name for sensor in repository.sensor_defs}
        found = str(sorted(job.name for job in repository.get_all_jobs()))
    except ConfigurationError as error:
        found = f"{type(error).__name__}: {error}"
    Path(told).write_text(found, "utf-8")


def test_the_workspace_loads_the_location_under_its_name() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text("utf-8"))
    assert workspace == {
        "load_from": [{"python_module": {"module_name": "dcc_definitions", "location_name": LOCATION_NAME}}]
    }
