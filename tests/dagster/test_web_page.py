"""What the web page asks Dagster for, through its own GraphQL: assets, what is above them, and what makes them."""

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

from dcc.settings import Settings
from dcc_dagster.instance import open_instance
from tests.assets.test_definitions import FLOW
from tests.support.dagster_instances import put_prepared, set_environment
from tests.support.installations import Installation
from tests.support.prepared_databases import PreparedFile
from tests.support.stores import Store

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
    """What the page asks; all tests look at the same."""
    root = tmp_path_factory.mktemp("page")
    store = Store(Settings(home=root / "home", min_free_bytes=0), prepared_files).init()
    put_prepared(prepared_dagster_home, store.settings)
    origin = LoadableTargetOrigin(module_name="dcc_definitions")
    with pytest.MonkeyPatch.context() as patch, open_instance(store.settings) as instance:
        set_environment(Installation(store.tracker, store.settings, root), patch)
        with in_process_test_workspace(instance, origin) as workspace:
            yield workspace
    store.close()


def ask(page: WorkspaceRequestContext, query: str) -> Any:
    with partition_loading_context(dynamic_partitions_store=page.instance):
        result = execute_dagster_graphql(page, query)
    assert not result.errors
    return result.data


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
