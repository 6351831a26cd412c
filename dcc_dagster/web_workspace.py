"""The code location as Dagster's web server uses it, loaded while the server itself is still being imported.

Each takes seconds, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from dagster import DagsterInstance
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._utils.interrupts import setup_interrupt_handlers
from dagster._utils.log import configure_loggers
from dagster_webserver.version import __version__

Workspace: TypeAlias = WorkspaceProcessContext
"""The loaded code location, with its process."""

_STATEMENT_MILLISECONDS: Final = 15_000
_CONNECTION_SECONDS: Final = 3_600
_MORE_CONNECTIONS: Final = 20
"""These three are the defaults of `dagster-webserver`."""
_CODE_SERVER_LOG_LEVEL: Final = "warning"


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and how the pages are served; `workspace` is the file that names the code location."""

    host: str
    port: int
    workspace: Path
    read_only: bool = False
    log_level: str = "warning"
    log_format: str = "colored"
    environment: str | None = None


@contextmanager
def loading_workspace(instance: DagsterInstance, serving: Serving) -> Iterator[Callable[[], Workspace]]:
    """Begin to load the code location; yields a function that waits for it. It is closed with the block."""
    configure_loggers(formatter=serving.log_format, log_level=serving.log_level.upper())
    setup_interrupt_handlers()
    instance.optimize_for_webserver(_STATEMENT_MILLISECONDS, _CONNECTION_SECONDS, _MORE_CONNECTIONS)
    with ThreadPoolExecutor(1) as other_thread:
        loaded = other_thread.submit(
            Workspace,
            instance,
            version=__version__,
            read_only=serving.read_only,
            workspace_load_target=WorkspaceFileTarget([str(serving.workspace)]),
            code_server_log_level=_CODE_SERVER_LOG_LEVEL,
        )
        try:
            yield loaded.result
        finally:
            loaded.result().__exit__(None, None, None)
