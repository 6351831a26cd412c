"""The one list of what dcc_dagster leans on in Dagster's inside, and what an upgrade of Dagster may not change unseen.

Dagster promises nothing about these. A test that fails here names what has changed and which module must be looked at.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import dagster
import pytest
import sqlalchemy as sa

from dcc_dagster import event_storage, mysql_storage

ROOT = Path(__file__).parent.parent.parent
OWN = "dcc_dagster"
OTHERS = ("dcc", "dcc_resources", "dcc_assets", "dcc_sensors")
INSIDE = ("dagster_webserver", "dagster_mysql", "dagster_shared", "dagster_graphql", "dagster._")
SOURCES = {path: path.read_text("utf-8") for path in sorted((ROOT / OWN).glob("*.py"))}

LEANED_ON = """
# Names in dagster.yaml and in its entries.
dagster._config:UserConfigSchema
dagster._serdes:ConfigurableClassData
dagster_mysql:DagsterMySQLStorage (mysql_url inst_data) config_type from_config_value event_log_storage run_storage \
    schedule_storage
dagster._core.instance:DagsterInstanceOverrides
dagster._core.instance.ref:InstanceRef
dagster._core.instance.ref:InstanceRef.from_dir (base_dir) overrides
STORAGE.noop_compute_log_manager:NoOpComputeLogManager
# An instance and its storages.
dagster:DagsterInstance.from_ref (instance_ref)
dagster:DagsterInstance.optimize_for_webserver (self statement_timeout pool_recycle max_overflow)
dagster:DagsterInstance.event_log_storage
dagster:DagsterInstance.run_storage
dagster:DagsterInstance.schedule_storage
STORAGE.runs:RunStorage migrate optimize
STORAGE.schedules:ScheduleStorage migrate optimize
STORAGE.event_log.base:EventLogStorage
LOG.get_asset_check_partition_info (self keys after_storage_id partition_keys)
LOG.get_latest_asset_check_execution_by_key (self check_keys)
LOG.get_latest_storage_id_by_partition (self asset_key event_type partitions)
LOG.store_event_batch (self events)
LOG.store_event (self event)
LOG.get_concurrency_keys (self)
LOG.set_concurrency_slots (self concurrency_key num)
LOG.get_existing_dynamic_partitions (self partitions_def_name partition_keys)
LOG.delete_dynamic_partition (self partitions_def_name partition_key)
LOG.add_dynamic_partitions (self partitions_def_name partition_keys)
LOG.update_asset_cached_status_data (self asset_key cache_values)
STORAGE.partition_status_cache:AssetStatusCacheValue
LOG.reindex_events (self)
LOG.reindex_assets (self)
# The event log on SQLite, the storages on MySQL, and their migrations.
STORAGE.event_log:SqliteEventLogStorage (base_dir inst_data) wipe dispose
dagster_mysql:MySQLEventLogStorage (mysql_url inst_data) upgrade reindex_assets
dagster_mysql:MySQLRunStorage (mysql_url inst_data) upgrade migrate
dagster_mysql:MySQLRunStorage.connect (self run_id)
dagster_mysql:MySQLRunStorage.get_run_storage_id (self)
dagster_mysql:MySQLScheduleStorage (mysql_url inst_data) upgrade migrate
dagster_mysql:MySQLScheduleStorage.connect (self)
dagster_mysql:utils
STORAGE.sql:get_alembic_config (dunder_file config_path)
STORAGE.sqlite:LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION
STORAGE.event_log.migration:ASSET_DATA_MIGRATIONS
STORAGE.event_log.migration:EVENT_LOG_DATA_MIGRATIONS
STORAGE.runs.migration:OPTIONAL_DATA_MIGRATIONS
STORAGE.runs.migration:REQUIRED_DATA_MIGRATIONS
STORAGE.schedules.migration:OPTIONAL_SCHEDULE_DATA_MIGRATIONS
STORAGE.schedules.migration:REQUIRED_SCHEDULE_DATA_MIGRATIONS
# Jobs of ops that say which assets their runs materialise.
dagster._core.definitions.assets.job.asset_layer:AssetLayer for_external_job
dagster._core.definitions.assets.job.asset_layer:AssetLayer.for_external_job (asset_keys)
# Events, and the tables that they are kept in.
dagster._core.events:ASSET_EVENTS ASSET_MATERIALIZATION
dagster._core.events:ASSET_CHECK_EVENTS ASSET_CHECK_EVALUATION
dagster._core.events:EVENT_TYPE_TO_PIPELINE_RUN_STATUS RUN_SUCCESS RUN_FAILURE RUN_CANCELED
dagster._core.events:StepMaterializationData (materialization)
dagster._core.definitions.asset_checks.asset_check_evaluation:AssetCheckEvaluationTargetMaterializationData \
    storage_id run_id timestamp
dagster._core.definitions.metadata:RawMetadataValue
STORAGE.asset_check_execution_record:AssetCheckExecutionRecordStatus PLANNED SUCCEEDED FAILED
STORAGE.event_log:SqlEventLogStorage
STORAGE.event_log:SqlEventLogStorageTable id run_id event dagster_event_type timestamp asset_key partition
STORAGE.event_log.schema:AssetCheckExecutionsTable asset_key check_name run_id execution_status \
    partition
STORAGE.event_log.schema:AssetEventTagsTable event_id
STORAGE.event_log.schema:AssetKeyTable asset_key cached_status_data
STORAGE.event_log.schema:DynamicPartitionsTable partitions_def_name partition
# The web server.
dagster_webserver.version:__version__
dagster_webserver.webserver:DagsterWebserver (process_context app_path_prefix live_data_poll_rate)
dagster_webserver.webserver:DagsterWebserver.build_middleware (self)
dagster_webserver.webserver:DagsterWebserver.build_routes (self)
dagster_webserver.webserver:DagsterWebserver.graphql_http_endpoint (self request)
dagster_webserver.webserver:DagsterWebserver.index_html_endpoint (self request)
dagster_webserver.webserver:DagsterWebserver.create_asgi_app (self)
dagster._core.workspace.context:WorkspaceProcessContext (instance workspace_load_target version read_only) \
    code_server_log_level
dagster._core.workspace.load_target:WorkspaceFileTarget create_origins
dagster._utils.interrupts:setup_interrupt_handlers ()
dagster._utils.log:configure_loggers (handler formatter log_level)
"""
"""Names, each with the parameters of what is called or overridden, in order, and with attributes, columns or keys."""
SHORT = {"STORAGE.": "dagster._core.storage.", "LOG.": "dagster._core.storage.event_log.base:EventLogStorage."}


def leaned_on() -> Iterator[tuple[str, str | None, str]]:
    """Each name, its parameters (None: whatever they are), and what else it must have."""
    for line in LEANED_ON.replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            short = next((short for short in SHORT if line.startswith(short)), "")
            found = re.fullmatch(r"(\S+)(?: \((.*?)\))?(.*)", SHORT.get(short, "") + line.removeprefix(short))
            assert found is not None, line
            yield found[1], found[2], found[3]
    of_batches = {
        "STORAGE.event_log:SqliteEventLogStorage": event_storage,
        "dagster_mysql:MySQLEventLogStorage": mysql_storage,
    }
    for name, module in of_batches.items():
        for method, parameters in module.LEANED_ON.items():
            yield f"{name.replace('STORAGE.', SHORT['STORAGE.'])}.{method}", " ".join(parameters), ""


def changes(name: str, parameters: str | None, has: str) -> Iterator[str]:
    """What of a name is not as it must be, in words."""
    module, _, path = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        yield f"it is gone ({error})"
        return
    if parameters is not None:
        # Those behind the ones that are known do no harm where they may be left out.
        wanted, there = parameters.split(), list(inspect.signature(found).parameters.values())
        names = [one.name for one in there]
        needed = [
            one.name for one in there[len(wanted) :] if one.default is one.empty and one.kind < one.VAR_POSITIONAL
        ]
        if names[: len(wanted)] != wanted or needed:
            yield f"its parameters are {' '.join(names) or 'none'}, not {parameters or 'none'}"
    if missing := [part for part in has.split() if part not in _parts(found)]:
        yield f"it has no {', '.join(missing)}"


def _parts(found: Any) -> set[str]:
    """What there is of a table, an enumeration, a dictionary, a tuple with names, a class or a module."""
    if isinstance(found, sa.Table):
        return set(found.columns.keys())
    if isinstance(found, type) and issubclass(found, Enum):
        return set(found.__members__)
    if isinstance(found, dict | set | frozenset):
        return {getattr(one, "name", one) for one in found}
    return {*dir(found), *(inspect.signature(found).parameters if callable(found) else ())}


@pytest.mark.parametrize("leaned", list(leaned_on()), ids=lambda leaned: leaned[0])
def test_what_is_leaned_on_is_as_it_was(leaned: tuple[str, str | None, str]) -> None:
    word = re.compile(rf"\b{re.split('[:.]', leaned[0])[-1]}\b")
    users = [f"{OWN}/{path.name}" for path, text in SOURCES.items() if word.search(text)]
    assert users, f"Nothing leans on {leaned[0]} any more: take it from the list."
    changed = "; ".join(changes(*leaned))
    assert not changed, f"Dagster {dagster.__version__} has changed {leaned[0]}: {changed}. See to {', '.join(users)}."


def test_the_daemon_is_run_by_its_command_with_options_that_it_has() -> None:
    (command,) = entry_points(group="console_scripts", name="dagster-daemon")
    module, _, _ = command.value.partition(":")
    group = import_module(module).cli
    assert isinstance(group, click.Group)
    options = {option for parameter in group.commands["run"].params for option in parameter.opts}
    said = (
        "Dagster has changed the command dagster-daemon. See to dcc_dagster/daemon.py and dcc/cli/installation/ui.py."
    )
    assert options >= {"--workspace", "--log-level", "--log-format"}, said


def test_all_that_dcc_dagster_takes_from_dagsters_inside_is_listed() -> None:
    listed = {name for name, _, _ in leaned_on()}
    missing = [f"{OWN}/{path.name} takes {name}" for path, text in SOURCES.items() for name in _taken(text) - listed]
    assert not missing, "List it in LEANED_ON, with what of it is used: " + "; ".join(missing)


def _taken(source: str) -> set[str]:
    """What a module imports from Dagster's inside, or names in a text that Dagster imports by."""
    nodes = list(ast.walk(ast.parse(source)))
    taken = {
        f"{node.module}:{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(INSIDE)
        for name in node.names
    }
    taken |= {
        name.name
        for node in nodes
        if isinstance(node, ast.Import)
        for name in node.names
        if name.name.startswith(INSIDE)
    }
    modules = {name.partition(":")[0]: name for name, _, _ in leaned_on()}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return taken | {modules.get(text, text) for text in texts if re.fullmatch(r"dagster\._[\w.]+", text)}


def test_nothing_but_dcc_dagster_names_dagsters_inside() -> None:
    paths = [path for package in OTHERS for path in sorted((ROOT / package).rglob("*.py"))]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [*paths, ROOT / "dcc_definitions.py"]
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(r"dagster\._|(?:import|from) dagster_(?:webserver|mysql|shared|graphql)", line)
    ]
    assert not found, f"Only {OWN} may lean on Dagster's inside: {'; '.join(found)}"


def test_no_attribute_of_dagsters_modules_is_replaced() -> None:
    attribute = re.compile(r"dagster(_webserver|_mysql|_shared)?\.")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for package in (*OTHERS, OWN)
        for path in sorted((ROOT / package).rglob("*.py"))
        if attribute.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and any(attribute.match(ast.unparse(one)) for one in node.targets)
    ]
    assert found == []
