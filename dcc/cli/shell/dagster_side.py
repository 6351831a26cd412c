"""The interface by which commands use Dagster.

`dcc` never imports Dagster, so that it works without. A command that needs it calls `dagster_side()`, which loads
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

    from dcc.data_outcomes import DataOutcome
    from dcc.databases.schema import InitReport
    from dcc.operations.doctor.verdicts import Check
    from dcc.outcomes import SourceCrawl, ZipKey, ZipOutcome
    from dcc.phases import Phase
    from dcc.session.sessions import Session
    from dcc.settings import Settings

LOCATION_NAME: Final = "dcc"
"""The code location's name in workspace.yaml."""

WEB_SERVER: Final = "dcc_assets.pages.server"
"""The module that serves the pages of Dagster and the reports beside them."""

DAEMON: Final = "dcc_dagster.daemon"
"""The module that runs Dagster's daemon."""

_MODULE: Final = "dcc_assets.commands"

Instance = Any
"""A `DagsterInstance`, which nothing here looks into."""


class SessionRun(Protocol):
    """A session that was run in Dagster: its id, and what it has to say beside its work."""

    @property
    def session_id(self) -> int:
        """The session's id in the tracker."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What the session has to say beside its work."""
        ...


class DagsterSide(Protocol):
    """What `dcc_assets.commands` has for commands; see there for what each does and raises."""

    def run_session(
        self,
        settings: Settings,
        tracker: Engine,
        instance: Instance,
        *,
        source_ids: Sequence[int] | None = None,
        group: str | None = None,
        until: Phase = ...,
        on_crawl: Callable[[SourceCrawl], None] = ...,
        on_zip: Callable[[ZipOutcome], None] = ...,
        on_data: Callable[[DataOutcome], None] = ...,
        on_begin: Callable[[Session], None] = ...,
    ) -> SessionRun:
        """Crawl and process, as a session."""
        ...

    def run_zip_actions(
        self,
        settings: Settings,
        tracker: Engine,
        instance: Instance,
        keys: Sequence[ZipKey],
        *,
        requested_by: str = ...,
        until: Phase = ...,
        on_zip: Callable[[ZipOutcome], None] = ...,
        on_data: Callable[[DataOutcome], None] = ...,
        on_begin: Callable[[Session], None] = ...,
    ) -> SessionRun:
        """Process zip actions again, as a session."""
        ...

    def open_instance(self, settings: Settings) -> AbstractContextManager[Instance]:
        """The Dagster instance, closed at the end of the block."""
        ...

    def make_instance(self, settings: Settings) -> None:
        """Make the Dagster instance, or what it lacks."""
        ...

    def mend_instance(self, settings: Settings) -> None:
        """Bring what there is of a Dagster instance up to date, and make its SQLite files whole."""
        ...

    def dagster_environment(self, settings: Settings) -> dict[str, str]:
        """The environment variables by which Dagster's processes find the instance."""
        ...

    def daemon_beats(self, instance: Instance, since: float) -> bool:
        """Whether each part of the daemon was heard of since a time, in seconds of Unix."""
        ...

    def rebuild_instance(
        self, settings: Settings, tracker: Engine, instance: Instance, say: Callable[[object], None] | None
    ) -> object:
        """Build the instance anew from the tracker; what was written, as a dataclass."""
        ...

    def init_dagster_database(self, url: str) -> InitReport:
        """Make or migrate the tables of Dagster's storage."""
        ...

    def configuration_path(self, settings: Settings) -> Path:
        """Where the installation's `dagster.yaml` is."""
        ...

    def write_configuration(self, settings: Settings, *, replace: bool = False) -> Path | None:
        """Write `dagster.yaml` and check it; the path of one that was replaced."""
        ...

    def doctor_checks(self) -> Sequence[Check]:
        """The checks of `dcc doctor` that look at Dagster."""
        ...

    def doctor_depths(self) -> Check:
        """The check of `dcc doctor --deep`, which compares Dagster with both databases."""
        ...


def dagster_side() -> DagsterSide:
    """Load what commands need of Dagster."""
    return cast(DagsterSide, importlib.import_module(_MODULE))
