"""The one list of what dcc_dagster leans on in Dagster's inside, and what an upgrade of Dagster may not change unseen.

Dagster promises nothing about these. A test that fails here names what has changed and which module must be looked at.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Leaned:
    """What modules of dcc_dagster (`users`, divided by blanks) lean on: `module:name`, and what it must look like.

    `parameters`: of what is called or overridden, in order. `has`: attributes, columns, fields, members or keys.
    """

    users: str
    name: str
    parameters: str | None = None
    has: str = ""

    def found(self) -> Any:
        """What is there by this name. Raises ImportError or AttributeError."""
        module, _, path = self.name.partition(":")
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found

    def changes(self) -> Iterator[str]:
        """What is not as it must be, in words."""
        try:
            found = self.found()
        except (ImportError, AttributeError) as error:
            yield f"it is gone ({error})"
            return
        if self.parameters is not None:
            # Those behind the ones that are known do no harm where they may be left out.
            wanted, there = self.parameters.split(), list(inspect.signature(found).parameters.values())
            names = [one.name for one in there]
            needed = [
                one.name for one in there[len(wanted) :] if one.default is one.empty and one.kind < one.VAR_POSITIONAL
            ]
            if names[: len(wanted)] != wanted or needed:
                yield f"its parameters are {' '.join(names) or 'none'}, not {self.parameters or 'none'}"
        if missing := [name for name in self.has.split() if name not in _parts(found)]:
            yield f"it has no {', '.join(missing)}"

    def told(self) -> str:
        """What has changed and who leans on it; empty where nothing has."""
        changes = "; ".join(self.changes())
        users = ", ".join(f"{OWN}/{user}.py" for user in self.users.split())
        return f"Dagster {dagster.__version__} has changed {self.name}: {changes}. See to {users}." if changes else ""


def _parts(found: Any) -> set[str]:
    """What there is of a table, an enumeration, a dictionary, a tuple with names, a class or a module."""
    if isinstance(found, sa.Table):
        return set(found.columns.keys())
    if isinstance(found, type) and issubclass(found, Enum):
        return set(found.__members__)
    if isinstance(found, dict | set | frozenset):
        return {getattr(one, "name", one) for one in found}
    return {*dir(found), *(inspect.signature(found).parameters if callable(found) else ())}


_STORAGE = "dagster._core.storage"
_SQLITE_LOG = f"{_STORAGE}.event_log:SqliteEventLogStorage"
_MYSQL_LOG = "dagster_mysql:MySQLEventLogStorage"
_LOG = f"{_STORAGE}.event_log.base:EventLogStorage"
_TABLES = f"{_STORAGE}.event_log.schema"

LEANED_ON = [
    # Names in dagster.yaml and in its entries.
    Leaned("event_storage mysql_storage", "dagster._config:UserConfigSchema"),
    Leaned("event_storage mysql_storage", "dagster._serdes:ConfigurableClassData"),
    Leaned(
        "mysql_storage",
        "dagster_mysql:DagsterMySQLStorage",
        "mysql_url inst_data",
        "config_type from_config_value event_log_storage run_storage schedule_storage",
    ),
    Leaned("instance executors", "dagster._core.instance:DagsterInstanceOverrides"),
    Leaned("instance sqlite_instance", "dagster._core.instance.ref:InstanceRef"),
    Leaned("instance sqlite_instance", "dagster._core.instance.ref:InstanceRef.from_dir", "base_dir", "overrides"),
    Leaned("instance", f"{_STORAGE}.noop_compute_log_manager:NoOpComputeLogManager"),
    # An instance and its storages.
    Leaned("instance sqlite_instance", "dagster:DagsterInstance.from_ref", "instance_ref"),
    Leaned(
        "web_workspace",
        "dagster:DagsterInstance.optimize_for_webserver",
        "self statement_timeout pool_recycle max_overflow",
    ),
    Leaned("event_recorder instance partition_events sqlite_instance", "dagster:DagsterInstance.event_log_storage"),
    Leaned("sqlite_instance", "dagster:DagsterInstance.run_storage"),
    Leaned("sqlite_instance", "dagster:DagsterInstance.schedule_storage"),
    Leaned("mysql_storage", f"{_STORAGE}.runs:RunStorage", has="migrate optimize"),
    Leaned("mysql_storage", f"{_STORAGE}.schedules:ScheduleStorage", has="migrate optimize"),
    Leaned("mysql_storage event_batches", _LOG),
    Leaned("partition_events", f"{_LOG}.get_asset_check_partition_info", "self keys after_storage_id partition_keys"),
    Leaned("partition_events", f"{_LOG}.get_latest_asset_check_execution_by_key", "self check_keys"),
    Leaned("partition_events", f"{_LOG}.get_latest_storage_id_by_partition", "self asset_key event_type partitions"),
    Leaned("event_recorder event_storage mysql_storage", f"{_LOG}.store_event_batch", "self events"),
    Leaned("event_storage mysql_storage", f"{_LOG}.store_event", "self event"),
    Leaned("instance", f"{_LOG}.get_concurrency_keys", "self"),
    Leaned("instance", f"{_LOG}.set_concurrency_slots", "self concurrency_key num"),
    Leaned("event_batches", f"{_LOG}.get_existing_dynamic_partitions", "self partitions_def_name partition_keys"),
    Leaned("event_batches", f"{_LOG}.delete_dynamic_partition", "self partitions_def_name partition_key"),
    Leaned("mysql_storage", f"{_LOG}.add_dynamic_partitions", "self partitions_def_name partition_keys"),
    Leaned("mysql_storage", f"{_LOG}.update_asset_cached_status_data", "self asset_key cache_values"),
    Leaned("mysql_storage", f"{_STORAGE}.partition_status_cache:AssetStatusCacheValue"),
    Leaned("sqlite_instance", f"{_LOG}.reindex_events", "self"),
    Leaned("sqlite_instance", f"{_LOG}.reindex_assets", "self"),
    # The event log on SQLite.
    Leaned("event_storage", _SQLITE_LOG, "base_dir inst_data", "wipe dispose"),
    *(
        Leaned("event_storage", f"{_SQLITE_LOG}.{name}", " ".join(parameters))
        for name, parameters in event_storage.LEANED_ON.items()
    ),
    # The storages on MySQL, and their migrations.
    Leaned("dagster_database mysql_storage", _MYSQL_LOG, "mysql_url inst_data", "upgrade reindex_assets"),
    *(
        Leaned("mysql_storage", f"{_MYSQL_LOG}.{name}", " ".join(parameters))
        for name, parameters in mysql_storage.LEANED_ON.items()
    ),
    Leaned("dagster_database mysql_storage", "dagster_mysql:MySQLRunStorage", "mysql_url inst_data", "upgrade migrate"),
    Leaned("mysql_storage", "dagster_mysql:MySQLRunStorage.connect", "self run_id"),
    Leaned("mysql_storage", "dagster_mysql:MySQLRunStorage.get_run_storage_id", "self"),
    Leaned(
        "dagster_database mysql_storage", "dagster_mysql:MySQLScheduleStorage", "mysql_url inst_data", "upgrade migrate"
    ),
    Leaned("mysql_storage", "dagster_mysql:MySQLScheduleStorage.connect", "self"),
    Leaned("dagster_database", "dagster_mysql:utils"),
    Leaned("dagster_database", f"{_STORAGE}.sql:get_alembic_config", "dunder_file config_path"),
    Leaned("sqlite_instance", f"{_STORAGE}.sqlite:LAST_KNOWN_STAMPED_SQLITE_ALEMBIC_REVISION"),
    *(
        Leaned("sqlite_instance", f"{_STORAGE}.{name}")
        for name in (
            "event_log.migration:ASSET_DATA_MIGRATIONS",
            "event_log.migration:EVENT_LOG_DATA_MIGRATIONS",
            "runs.migration:OPTIONAL_DATA_MIGRATIONS",
            "runs.migration:REQUIRED_DATA_MIGRATIONS",
            "schedules.migration:OPTIONAL_SCHEDULE_DATA_MIGRATIONS",
            "schedules.migration:REQUIRED_SCHEDULE_DATA_MIGRATIONS",
        )
    ),
    # Jobs of ops that say which assets their runs materialise.
    Leaned("job_assets", "dagster._core.definitions.assets.job.asset_layer:AssetLayer", has="for_external_job"),
    Leaned("job_assets", "dagster._core.definitions.assets.job.asset_layer:AssetLayer.for_external_job", "asset_keys"),
    # Events, and the tables that they are kept in.
    Leaned("event_storage event_batches", "dagster._core.events:ASSET_EVENTS", has="ASSET_MATERIALIZATION"),
    Leaned("event_storage event_batches", "dagster._core.events:ASSET_CHECK_EVENTS", has="ASSET_CHECK_EVALUATION"),
    Leaned("event_storage", "dagster._core.events:EVENT_TYPE_TO_PIPELINE_RUN_STATUS", has="RUN_SUCCESS RUN_FAILURE"),
    Leaned("event_recorder", "dagster._core.events:StepMaterializationData", "materialization"),
    Leaned(
        "partition_events",
        "dagster._core.definitions.asset_checks.asset_check_evaluation:AssetCheckEvaluationTargetMaterializationData",
        has="storage_id run_id timestamp",
    ),
    Leaned("metadata", "dagster._core.definitions.metadata:RawMetadataValue"),
    Leaned(
        "partition_events",
        f"{_STORAGE}.asset_check_execution_record:AssetCheckExecutionRecordStatus",
        has="PLANNED SUCCEEDED FAILED",
    ),
    Leaned("event_batches", f"{_STORAGE}.event_log:SqlEventLogStorage"),
    Leaned(
        "event_storage mysql_storage event_batches",
        f"{_STORAGE}.event_log:SqlEventLogStorageTable",
        has="id run_id event dagster_event_type timestamp asset_key partition",
    ),
    Leaned("event_batches", f"{_TABLES}:AssetCheckExecutionsTable", has="asset_key partition"),
    Leaned("event_batches", f"{_TABLES}:AssetEventTagsTable", has="event_id"),
    Leaned("event_batches", f"{_TABLES}:AssetKeyTable", has="asset_key cached_status_data"),
    Leaned("event_batches", f"{_TABLES}:DynamicPartitionsTable", has="partitions_def_name partition"),
    # The web server.
    Leaned("web_workspace", "dagster_webserver.version:__version__"),
    Leaned(
        "web_server",
        "dagster_webserver.webserver:DagsterWebserver",
        "process_context app_path_prefix live_data_poll_rate",
    ),
    Leaned("web_server", "dagster_webserver.webserver:DagsterWebserver.build_middleware", "self"),
    Leaned("web_server", "dagster_webserver.webserver:DagsterWebserver.build_routes", "self"),
    Leaned("web_server", "dagster_webserver.webserver:DagsterWebserver.graphql_http_endpoint", "self request"),
    Leaned("web_server", "dagster_webserver.webserver:DagsterWebserver.index_html_endpoint", "self request"),
    Leaned("web_server", "dagster_webserver.webserver:DagsterWebserver.create_asgi_app", "self"),
    Leaned(
        "web_workspace",
        "dagster._core.workspace.context:WorkspaceProcessContext",
        "instance workspace_load_target version read_only",
        "code_server_log_level",
    ),
    Leaned("web_workspace", "dagster._core.workspace.load_target:WorkspaceFileTarget", has="create_origins"),
    Leaned("web_workspace", "dagster._utils.interrupts:setup_interrupt_handlers", ""),
    Leaned("web_workspace", "dagster._utils.log:configure_loggers", "handler formatter log_level"),
]


@pytest.mark.parametrize("leaned", LEANED_ON, ids=lambda leaned: leaned.name)
def test_what_is_leaned_on_is_as_it_was(leaned: Leaned) -> None:
    assert not leaned.told()


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
    listed = {(user, one.name) for one in LEANED_ON for user in one.users.split()}
    taken = {(path.stem, name) for path in sorted((ROOT / OWN).glob("*.py")) for name in _taken(path)}
    missing = [f"{OWN}/{user}.py takes {name}" for user, name in sorted(taken - listed)]
    assert not missing, "List it in LEANED_ON, with what of it is used: " + "; ".join(missing)
    modules = {path.stem for path in (ROOT / OWN).glob("*.py")}
    assert {user for user, _ in listed} <= modules, "LEANED_ON names modules that are not there"


def _taken(path: Path) -> Iterator[str]:
    """What a module imports from Dagster's inside, or names in a text that Dagster imports by."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(INSIDE):
            yield from (f"{node.module}:{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.startswith(INSIDE))
    named = {one.name.partition(":")[0]: one.name for one in LEANED_ON}
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    yield from (named.get(text, text) for text in texts if re.fullmatch(r"dagster\._[\w.]+", text))


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
