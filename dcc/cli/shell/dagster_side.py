"""The commands' interface to Dagster.

`dcc` never imports Dagster, so that it works without. A command that needs it calls `dagster_side()`, which imports
`dcc_assets.commands` at that moment.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Engine

    from dcc.databases.schema import InitReport
    from dcc.operations.doctor.checks import DoctorCheck
    from dcc.session.batches.exchange import Workers
    from dcc.session.session_request import SessionRequest
    from dcc.settings import Settings

LOCATION_NAME: Final = "dcc"
"""The code location's name in workspace.yaml."""

WEB_SERVER: Final = "dcc_assets.pages"
"""The program that serves Dagster's pages and the reports."""

DAEMON: Final = "dcc_dagster.daemon"
"""The module that runs Dagster's daemon."""

_MODULE: Final = "dcc_assets.commands"

Instance = Any
"""A `DagsterInstance`, opaque here."""


class DagsterSide(Protocol):
    """The functions of `dcc_assets.commands`, which documents them and what they raise."""

    def run_session(self, settings: Settings, tracker: Engine, instance: Instance, request: SessionRequest) -> None:
        """Crawl and process, or process submissions again, as a session, which `request` tells the listeners of."""

    def workers_of(self, settings: Settings) -> Workers | None:
        """The workers of the settings, which prepare batches; None if there are none. Raises ConfigurationError."""

    def require_crawl_intervals(self, settings: Settings) -> None:
        """See that the daemon can crawl at the times of the settings. Raises ConfigurationError."""

    def open_instance(self, settings: Settings) -> AbstractContextManager[Instance]:
        """The Dagster instance, closed at the end of the block."""

    def make_instance(self, settings: Settings) -> None:
        """Make the Dagster instance, or its missing parts."""

    def upgrade_instance(self, settings: Settings) -> None:
        """Update an existing Dagster instance, and complete its SQLite files."""

    def dagster_environment(self, settings: Settings) -> dict[str, str]:
        """The environment variables by which Dagster's processes find the instance."""

    def daemon_beats(self, instance: Instance, since: float) -> bool:
        """Whether each part of the daemon has reported since a time, in Unix seconds."""

    def last_daemon_beat(self, instance: Instance) -> float | None:
        """When a part of the daemon reported last, in Unix seconds; None if none ever did."""

    def rebuild_instance(
        self, settings: Settings, tracker: Engine, instance: Instance, progress: Callable[[object], None] | None
    ) -> object:
        """Rebuild the instance from the tracker; returns the counts, as a dataclass."""

    def init_dagster_database(self, url: str) -> InitReport:
        """Make or migrate the tables of Dagster's storage."""

    def pending_changes(self, settings: Settings) -> Sequence[str]:
        """What `dcc init` would change of Dagster's storage and `dagster.yaml`, a sentence each."""

    def configuration_path(self, settings: Settings) -> Path:
        """The path of the installation's `dagster.yaml`."""

    def write_configuration(self, settings: Settings, *, replace: bool = False) -> Path | None:
        """Write `dagster.yaml` and check it; returns the path of the kept copy of a replaced one."""

    @property
    def dagster_checks(self) -> Sequence[DoctorCheck]:
        """The checks of `dcc doctor` for Dagster."""

    @property
    def deep_check(self) -> DoctorCheck:
        """The check of `dcc doctor --deep`, which compares Dagster with both databases."""


def dagster_side() -> DagsterSide:
    """Import the functions."""
    return cast(DagsterSide, importlib.import_module(_MODULE))
