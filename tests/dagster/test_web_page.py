"""What the web page asks Dagster for: partitions and their checks after a session, through its own GraphQL."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.test_utils import in_process_test_workspace
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceRequestContext
from dagster_graphql.test.utils import execute_dagster_graphql

from dcc.phases import Phase
from dcc.settings import Settings
from dcc_dagster.instance import open_instance
from tests.assets.test_definitions import FLOW
from tests.assets.test_session_in_dagster import (
    ALL,
    BAD_NAME,
    GOOD,
    INVALID,
    NO_ARCHIVE,
    ODD_DOCUMENT,
    WRONG_MD5,
    put_all_kinds,
)
from tests.support.dagster_instances import Dagster, put_prepared, set_environment
from tests.support.installations import Installation
from tests.support.prepared_databases import PreparedFile
from tests.support.stores import Store

PARTITIONS = """
query ($asset: AssetKeyInput!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      assetPartitionStatuses {
        ... on DefaultPartitionStatuses { materializedPartitions failedPartitions unmaterializedPartitions }
      }
      assetChecksOrError {
        ... on AssetChecks {
          checks {
            name
            partitionStatuses {
              ... on AssetCheckDefaultPartitionStatuses {
                succeededPartitions failedPartitions inProgressPartitions skippedPartitions executionFailedPartitions
              }
            }
          }
        }
      }
    }
  }
}
"""
MATERIALISATIONS = """
query ($asset: AssetKeyInput!, $partition: String!) {
  assetNodeOrError(assetKey: $asset) {
    ... on AssetNode {
      assetMaterializations(partitions: [$partition]) { partition description metadataEntries { label } }
    }
  }
}
"""
LINEAGE = "{ assetNodes { assetKey { path } dependencyKeys { path } isMaterializable } }"

AUTOMATION = """
{
  assetNodes {
    assetKey { path }
    jobNames
    targetingInstigators { ... on Sensor { name } ... on Schedule { name } }
  }
}
"""
CRAWLED = ({"crawl_file_sources"}, {"crawl_schedule", "due_sources"})
PROCESSED = ({"process_zip_actions"}, {"new_zips", "retry_failed_downloads"})
LOADED = ({"load_data", "show_changes"}, {"valid_documents", "changes_beside_sessions"})
OVERDUE = ({"show_overdue"}, {"overdue"})
REFRESHED = ({"refresh_reference_data"}, {"reference_schedule"})
RUN_BY = {
    **dict.fromkeys(FLOW, LOADED),
    "file_source_listings": (CRAWLED[0] | OVERDUE[0], CRAWLED[1] | OVERDUE[1]),
    "zip_actions": (CRAWLED[0] | PROCESSED[0], CRAWLED[1] | PROCESSED[1]),
    **dict.fromkeys(("zip_downloads", "xml_documents", "validated_documents"), PROCESSED),
    "contexts": (LOADED[0] | OVERDUE[0], LOADED[1] | OVERDUE[1]),
    **dict.fromkeys(("submission_reports", "measurements"), (set(), set())),
    "archive_store": ({"audit_archives"}, {"archive_audit_schedule"}),
}
"""The jobs of each asset, and what starts them by itself; a report is kept when somebody asks for it."""


@pytest.fixture(scope="module")
def page(
    prepared_files: dict[str, PreparedFile], prepared_dagster_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkspaceRequestContext]:
    """What the page asks after a session with archives of all kinds; all tests look at the same."""
    root = tmp_path_factory.mktemp("page")
    store = Store(Settings(home=root / "home", min_free_bytes=0), prepared_files).init()
    installation = Installation(store.tracker, store.settings, root)
    installation.add_centre("H", "J")
    put_all_kinds(installation)
    put_prepared(prepared_dagster_home, store.settings)
    origin = LoadableTargetOrigin(module_name="dcc_definitions")
    with pytest.MonkeyPatch.context() as patch, open_instance(store.settings) as instance:
        set_environment(installation, patch)
        Dagster(instance).session(installation, until=Phase.XSD)
        with in_process_test_workspace(instance, origin) as workspace:
            yield workspace
    store.close()


def ask(page: WorkspaceRequestContext, query: str, asset: str = "", **variables: str) -> Any:
    with partition_loading_context(dynamic_partitions_store=page.instance):
        result = execute_dagster_graphql(page, query, {"asset": {"path": [asset]}, **variables} if asset else None)
    assert not result.errors
    return result.data


def test_a_zip_that_failed_shows_so_on_its_partition(page: WorkspaceRequestContext) -> None:
    states: dict[str, set[str]] = {}
    checks: dict[str, dict[str, list[str]]] = {}
    for asset in ("zip_actions", "zip_downloads", "xml_documents", "validated_documents"):
        node = ask(page, PARTITIONS, asset)["assetNodeOrError"]
        states[asset] = set(node["assetPartitionStatuses"]["materializedPartitions"])
        assert set(node["assetPartitionStatuses"]["unmaterializedPartitions"]) == set(ALL) - states[asset]
        assert node["assetPartitionStatuses"]["failedPartitions"] == []
        checks |= {check["name"]: check["partitionStatuses"] for check in node["assetChecksOrError"]["checks"]}
    assert states["validated_documents"] == {GOOD, INVALID}
    assert states["zip_downloads"] == set(ALL) - {BAD_NAME}
    assert {name: found["failedPartitions"] for name, found in checks.items()} == {
        "zip_name": [BAD_NAME],
        "download": [],
        "zip_md5": [WRONG_MD5],
        "unzip": [NO_ARCHIVE],
        "xml_name": [ODD_DOCUMENT],
        "xsd": [INVALID],
    }
    assert set(checks["xsd"]["succeededPartitions"]) == {GOOD, ODD_DOCUMENT}
    assert GOOD in checks["unzip"]["succeededPartitions"]
    for found in checks.values():
        open_ended = ("inProgressPartitions", "skippedPartitions", "executionFailedPartitions")
        assert [found[name] for name in open_ended] == [[], [], []]


def test_the_page_of_a_partition_that_failed_says_why(page: WorkspaceRequestContext) -> None:
    node = ask(page, MATERIALISATIONS, "xml_documents", partition=NO_ARCHIVE)["assetNodeOrError"]
    latest = node["assetMaterializations"][0]
    assert latest["partition"] == NO_ARCHIVE
    assert latest["description"].startswith("unzip failed: ")
    told = {entry["label"] for entry in latest["metadataEntries"]}
    assert {"zip", "phase", "status", "reason", "reasons", "Who acts", "What to do", "Links"} <= told
    after = ask(page, MATERIALISATIONS, "validated_documents", partition=NO_ARCHIVE)["assetNodeOrError"]
    assert after["assetMaterializations"] == []


def test_the_lineage_page_shows_the_flow(page: WorkspaceRequestContext) -> None:
    nodes = ask(page, LINEAGE)["assetNodes"]
    shown = {node["assetKey"]["path"][0]: sorted(key["path"][0] for key in node["dependencyKeys"]) for node in nodes}
    assert {name: above for name, above in shown.items() if not name.startswith("reference_")} == {
        **{asset: [before] for before, asset in pairwise(FLOW)},
        "file_source_listings": [],
        "data_integrity": [*sorted(name for name in shown if name.startswith("reference_")), "uploaded_data"],
        "measurements": ["contexts"],
        "archive_store": [],
    }
    assert all(node["isMaterializable"] for node in nodes)


def test_the_page_of_an_asset_names_its_jobs_and_what_starts_them(page: WorkspaceRequestContext) -> None:
    shown = {}
    for node in ask(page, AUTOMATION)["assetNodes"]:
        jobs = {name for name in node["jobNames"] if not name.startswith("__")}
        shown[node["assetKey"]["path"][0]] = (jobs, {one["name"] for one in node["targetingInstigators"]})
    references = {name: REFRESHED for name in shown if name.startswith("reference_")}
    assert len(references) == 5
    assert shown == RUN_BY | references
