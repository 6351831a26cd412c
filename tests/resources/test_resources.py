"""Resources in runs of this process: what is changed for a run counts there alone, and no secret is shown."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetsDefinition,
    DagsterInstance,
    Definitions,
    JobDefinition,
    OpDefinition,
    OpExecutionContext,
    job,
    op,
)
from dagster._core.test_utils import in_process_test_workspace
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster_graphql.schema.config_types import SECRET_MASK_VALUE
from dagster_graphql.test.utils import execute_dagster_graphql
from pydantic import SecretStr

from dcc.errors import ConfigurationError
from dcc.redaction import redacted
from dcc.reference.loading import SETS
from dcc.runtime.processes import Process
from dcc.settings import load_settings
from dcc.sources.base import SourceAddress
from dcc.sources.protocols import SourceProtocol
from dcc.tracker.crawls import latest_crawls
from dcc_assets.batches import BATCHES_JOB
from dcc_assets.collection import chosen_file_sources
from dcc_assets.definitions import asset_definitions
from dcc_assets.jobs import crawl_file_sources, process_zip_actions
from dcc_assets.validation import chosen_submissions
from dcc_dagster.run_processes import process_in
from dcc_resources.code_location import SOURCES, platform_resources
from dcc_resources.databases import QcDatabaseResource, TrackerResource
from dcc_resources.file_sources import SftpResource
from dcc_resources.services import MailResource, ReferenceDataResource, StoreResource, WebhookResource
from dcc_resources.session import SessionResource
from tests.resources.test_resources_page import RESOURCES
from tests.support.asking import in_reading
from tests.support.dagster_instances import Dagster, set_environment
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.talking_servers import greeting, serving

SECRET = "s3cret-of-this-test"
SILENT = (SourceProtocol.SFTP, SourceProtocol.FTP)


@pytest.fixture
def silent_sources(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """Sources at a server that takes connections and never says a word."""
    set_environment(installation, monkeypatch)
    monkeypatch.setenv("DCC_LOGIN_TIMEOUT", "0.25")
    monkeypatch.setenv("DCC_LIST_TIMEOUT", "0.25")
    with serving(greeting(b"")) as (host, _):
        for protocol in SILENT:
            installation.add_source(SourceAddress(0, "H", protocol, host, "user", SecretStr("password"), "/"))
        yield installation


def test_each_protocol_of_the_platform_has_a_resource() -> None:
    kinds = [protocol for resource in SOURCES for protocol in resource.protocols]
    assert sorted(kinds) == sorted(SourceProtocol), "Correct SOURCES in dcc_resources/code_location.py."


def test_each_protocol_of_the_platform_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations" / "sources.md").read_text("utf-8")
    told = re.findall(r"`(\w+)`", page.partition("- **Protocols**")[2].partition("\n")[0])
    assert sorted(told) == sorted(SourceProtocol), "Correct the protocols in docs/operations/sources.md."


def test_each_set_of_reference_data_has_a_field() -> None:
    assert set(SETS) <= ReferenceDataResource.model_fields.keys()


@pytest.mark.parametrize("step", [chosen_file_sources, chosen_submissions, crawl_file_sources, process_zip_actions])
def test_a_step_that_connects_to_sources_takes_the_resources_of_all(step: AssetsDefinition | JobDefinition) -> None:
    ops = [step.op] if isinstance(step, AssetsDefinition) else step.all_node_defs
    taken = {key for one in ops if isinstance(one, OpDefinition) for key in one.required_resource_keys}
    assert {kind.key for kind in SOURCES} <= taken, "Give it a parameter for each resource of SOURCES."


def configured(**resources: Mapping[str, Any]) -> dict[str, Any]:
    return {"resources": {name: {"config": dict(values)} for name, values in resources.items()}}


def failures(installation: Installation) -> dict[SourceProtocol, str]:
    """What the last crawl of the source of each protocol failed with."""
    crawls = in_reading(installation.tracker, latest_crawls)
    return {protocol: str(crawls[number].error) for number, protocol in enumerate(SILENT, 1)}


@only_sqlite
def test_a_time_limit_of_the_definitions_counts_for_its_kind_of_source_unless_the_run_has_another(
    silent_sources: Installation, instance: DagsterInstance
) -> None:
    resources = {**platform_resources(), "sftp": SftpResource(login_timeout=0.15)}
    job = Definitions(jobs=[crawl_file_sources], resources=resources).resolve_job_def("crawl_file_sources")
    for config, seconds in (({}, 0.15), (configured(sftp={"login_timeout": 0.1}), 0.1), ({}, 0.15)):
        job.execute_in_process(instance=instance, run_config=config)
        failed = failures(silent_sources)
        assert f"within {seconds} s" in failed[SourceProtocol.SFTP]
        assert "within 0.25 s" in failed[SourceProtocol.FTP]


def test_what_is_left_out_is_as_the_settings_say_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = StoreResource(keep_days=3)
    monkeypatch.setenv("DCC_STAGING", "/data/staging")
    monkeypatch.setenv("DCC_STAGING_KEEP_DAYS", "30")
    assert resource.settings_with() == load_settings().model_copy(update={"staging_keep_days": 3})
    assert str(resource.staging().root) == "/data/staging"


def test_a_value_that_cannot_be_is_refused_with_the_field() -> None:
    wanted = "The field connect_timeout of the resource sftp: it must be a number above 0, and is '-1.0'"
    with pytest.raises(ConfigurationError, match=wanted):
        SftpResource(connect_timeout=-1).settings_with()


@pytest.mark.parametrize(
    ("resource", "field"),
    [
        (TrackerResource(url=f"mysql://dcc:{SECRET}@db/tracker"), "url of the resource tracker"),
        (SftpResource(key_passphrase=SECRET), "key_passphrase of the resource sftp"),
        (MailResource(server=f"smtp://dcc:{SECRET}@mail"), "server of the resource mail"),
        (WebhookResource(signing_key=SECRET), "signing_key of the resource webhook"),
        (ReferenceDataResource(colonies=f"https://host/c.csv?token={SECRET}"), "colonies of the resource reference"),
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(resource: Any, field: str) -> None:
    with pytest.raises(ConfigurationError, match=field) as refused:
        resource.settings_with()
    assert "{env: NAME}" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(resource)
    assert SECRET not in str(resource)


def test_what_has_no_secret_is_taken_as_text() -> None:
    assert (
        TrackerResource(url="sqlite:////srv/mine.db").settings_with().tracker_database_url == "sqlite:////srv/mine.db"
    )
    mail = MailResource(server="smtp://mail.example").settings_with()
    assert mail.smtp_url.get_secret_value() == "smtp://mail.example"


def test_the_mask_that_the_launchpad_fills_in_leaves_a_secret_as_the_settings_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The launchpad fills in all defaults, and those of secrets with Dagster's mask."""
    assert SECRET_MASK_VALUE == "********"
    monkeypatch.setenv("DCC_TRACKER_URL", f"sqlite:///{tmp_path}/mine.db")
    settings = TrackerResource(url=SECRET_MASK_VALUE, retry_seconds=7).settings_with()
    assert (settings.tracker_database_url, settings.database_retry) == (f"sqlite:///{tmp_path}/mine.db", 7)
    assert WebhookResource(signing_key=SECRET_MASK_VALUE).settings_with() == load_settings()


@pytest.mark.parametrize("reference", ["file", "env", "dagster"])
def test_a_secret_is_read_from_where_it_is(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instance: DagsterInstance
) -> None:
    kept = tmp_path / "key"
    kept.write_text(f"{SECRET}\n")
    kept.chmod(0o600)
    monkeypatch.setenv("KEY_OF_HOOK", SECRET)
    given: Any = {"file": f"file:{kept}", "env": "env:KEY_OF_HOOK", "dagster": {"env": "KEY_OF_HOOK"}}[reference]
    seen = []

    @op
    def look(webhook: WebhookResource) -> None:
        seen.append((webhook.settings_with().notify_webhook_secret, repr(webhook)))

    @job(resource_defs={"webhook": WebhookResource.configure_at_launch()})
    def looking() -> None:
        look()

    result = looking.execute_in_process(instance=instance, run_config=configured(webhook={"signing_key": given}))
    ((secret, shown),) = seen
    assert secret is not None
    assert secret.get_secret_value() == SECRET
    assert SECRET not in shown
    assert redacted(f"It is {SECRET}.") == "It is ***."
    stored = instance.get_run_by_id(result.run_id)
    assert SECRET not in str(stored)
    assert SECRET not in str(instance.all_logs(result.run_id))


def test_a_secret_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "key"
    kept.write_text(SECRET)
    kept.chmod(0o644)
    with pytest.raises(ConfigurationError, match="the field signing_key of the resource webhook refers, may be read"):
        WebhookResource(signing_key=f"file:{kept}").settings_with()


def test_a_secret_that_the_definitions_have_as_text_is_masked_on_the_pages(tmp_path: Path) -> None:
    """A run refuses it; Dagster's pages show it to nobody until then."""
    module = tmp_path / "with_secret.py"
    module.write_text(
        "from dagster import Definitions\n"
        "from dcc_resources.services import WebhookResource\n"
        f"defs = Definitions(resources={{'webhook': WebhookResource(signing_key='{SECRET}')}})\n"
    )
    origin = LoadableTargetOrigin(python_file=str(module))
    with (
        DagsterInstance.local_temp(str(tmp_path)) as instance,
        in_process_test_workspace(instance, origin) as workspace,
    ):
        location = workspace.code_location_names[0]
        of = {"repositoryName": "__repository__", "repositoryLocationName": location}
        answer = execute_dagster_graphql(workspace, RESOURCES, {"of": of})
    assert not answer.errors
    assert SECRET not in str(answer.data)
    (found,) = answer.data["allTopLevelResourceDetailsOrError"]["results"]
    shown = {one["key"]: one["type"] for one in found["configuredValues"]}
    assert shown["signing_key"] == "SECRET"


def test_every_run_of_the_code_location_has_its_process_before_its_first_step(
    installation: Installation, dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(installation, monkeypatch)
    tags: list[Mapping[str, str]] = []

    @op(required_resource_keys={SessionResource.key})
    def look(context: OpExecutionContext) -> None:
        tags.append(context.instance.get_run_by_id(context.run_id).tags)  # type: ignore[union-attr]

    @job(resource_defs=dict(platform_resources()))
    def looking() -> None:
        look()

    looking.execute_in_process(instance=dagster.instance)
    assert process_in(tags[0]) == Process.this()
    jobs = [one for one in asset_definitions().resolve_all_job_defs() if one.name != BATCHES_JOB]
    with_databases = {SessionResource.key, TrackerResource.key, QcDatabaseResource.key}
    assert jobs
    for step in (node.definition for one in jobs for node in one.nodes):
        assert isinstance(step, OpDefinition)
        assert step.required_resource_keys & with_databases, f"nobody sees that a run of {step.name} is dead"
