"""What Dagster's own pages show of the resources, and a run that is launched from them with changed values."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from dcc_resources.code_location import SOURCES, platform_resources
from dcc_resources.session import OF_SESSIONS
from tests.support.installations import Folder
from tests.support.prepared_processes import run_dcc
from tests.support.served_page import ServedPage

pytestmark = pytest.mark.servers

WAITING = "add/H.2013-12-31.1.impc.zip"
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "dcc"}
HIDDEN = ("key-of-the-webhook", "password-of-mail", "token-of-the-registry")
RESOURCES = """
query ($of: RepositorySelector!) {
  allTopLevelResourceDetailsOrError(repositorySelector: $of) {
    ... on ResourceDetailsList {
      results {
        name description resourceType
        configFields { name description isRequired defaultValueAsJson configType { key } }
        configuredValues { key value type }
        nestedResources { name }
        parentResources { resource { name } }
        assetKeysUsing { path }
        jobsOpsUsing { jobName }
        schedulesUsing
        sensorsUsing
      }
    }
  }
}
"""
LAUNCH = """
mutation ($of: ExecutionParams!) {
  launchRun(executionParams: $of) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on RunConfigValidationInvalid { errors { message } }
    ... on PythonError { message }
  }
}
"""
RUN = """
query ($run: ID!) {
  runOrError(runId: $run) { ... on Run { status runConfigYaml eventConnection { events { ... on MessageEvent { message }
    ... on RunFailureEvent { error { message causes { message } } } } } } }
}
"""


def resources_of(page: ServedPage) -> dict[str, dict[str, Any]]:
    found = page.ask(RESOURCES, of=REPOSITORY)["allTopLevelResourceDetailsOrError"]["results"]
    return {resource["name"]: resource for resource in found}


def values_of(resource: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["key"]: (one["value"], one["type"]) for one in resource["configuredValues"]}


def launched(page: ServedPage, job: str, resources: dict[str, Any]) -> dict[str, Any]:
    """The run of a job with a configuration of resources, when it is over."""
    config = {"resources": {name: {"config": values} for name, values in resources.items()}}
    asked = {"selector": {**REPOSITORY, "jobName": job}, "runConfigData": config}
    answer = page.ask(LAUNCH, of=asked)["launchRun"]
    assert answer["__typename"] == "LaunchRunSuccess", answer
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        run: dict[str, Any] = page.ask(RUN, run=answer["run"]["runId"])["runOrError"]
        if run["status"] in {"SUCCESS", "FAILURE"}:
            return run
        time.sleep(0.5)
    raise AssertionError("The run is not over after two minutes.")


def test_every_resource_explains_itself(page: ServedPage) -> None:
    resources = resources_of(page)
    assert set(resources) == set(platform_resources())
    for name, resource in resources.items():
        assert len(resource["description"]) > 60, name
        assert resource["resourceType"].startswith("dcc_resources."), name
        assert resource["configFields"], name
        for field in resource["configFields"]:
            assert "Left out, it is as DCC_" in field["description"], (name, field)
            assert not field["isRequired"], (name, field)


def test_a_resource_shows_what_the_settings_say_and_never_a_secret(page: ServedPage) -> None:
    resources = resources_of(page)
    assert values_of(resources["store"])["keep_days"] == ("7", "VALUE")
    assert values_of(resources["webhook"])["signing_key"] == ("DCC_NOTIFY_WEBHOOK_SECRET", "ENV_VAR")
    assert values_of(resources["mail"])["server"] == ("DCC_SMTP_URL", "ENV_VAR")
    assert values_of(resources["reference_data"])["colonies"] == ("DCC_REFERENCE_COLONIES", "ENV_VAR")
    assert values_of(resources["session"])["until"] == ('"zip_name"', "VALUE")
    told = json.dumps(resources)
    assert [secret for secret in HIDDEN if secret in told] == []


def test_a_resource_shows_what_uses_it(page: ServedPage) -> None:
    resources = resources_of(page)

    def used_by(name: str) -> set[str]:
        found = resources[name]
        assets = {asset["path"][0] for asset in found["assetKeysUsing"]}
        parents = {parent["resource"]["name"] for parent in found["parentResources"]}
        jobs = {one["jobName"] for one in found["jobsOpsUsing"]}
        return assets | parents | jobs | set(found["sensorsUsing"]) | set(found["schedulesUsing"])

    for kind in SOURCES:
        assert used_by(kind.key) >= {
            "file_source_listings",
            "zip_downloads",
            "crawl_file_sources",
            "process_zip_actions",
        }
    for kind in OF_SESSIONS:
        assert "session" in used_by(kind.key)
    assert used_by("session") >= {"uploaded_data", "contexts", "qc", "load_data", "new_zips", "crawl_schedule"}
    assert used_by("session") >= {"overdue", "notifications"}
    assert used_by("tracker") >= {"submission_reports", "show_changes"}
    assert used_by("qc_database") >= {"uploaded_data", "reference_impress", "reference_schedule"}
    assert used_by("store") >= {"zip_downloads", "process_zip_actions"}
    assert used_by("reference_data") >= {"reference_impress", "refresh_reference_data"}


def test_a_run_launched_with_another_staging_directory_uses_it(page: ServedPage, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "centre")
    folder.put(WAITING)
    said, errors, environment = tmp_path / "said", tmp_path / "errors", {**page.environment, "DCC_UNTIL": "zip_name"}
    place = ["--centre", "H", "--protocol", "file", "--base-path", str(folder.path)]
    assert run_dcc(["source", "add", *place], tmp_path, environment, said, errors) == 0, errors.read_text()
    crawl = ["crawl", "--source", said.read_text().strip()]
    assert run_dcc(crawl, tmp_path, environment, said, errors) == 0, errors.read_text()
    staging = tmp_path / "elsewhere"
    run = launched(page, "process_zip_actions", {"store": {"directory": str(staging)}, "session": {"until": "xsd"}})
    assert run["status"] == "SUCCESS"
    assert (staging / WAITING).is_file()
    told = json.dumps(run)
    assert [secret for secret in HIDDEN if secret in told] == []
