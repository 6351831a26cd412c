"""Settings: who fetches and prepares archives for a session, this machine or workers."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from dcc.settings.group import SettingsGroup


class ExecutorKind(StrEnum):
    """Which executor of Dagster has archives fetched and prepared; in-process is the session itself."""

    IN_PROCESS = "in_process"
    MULTIPROCESS = "multiprocess"
    CELERY = "celery"


class WorkerSettings(SettingsGroup):
    """Which workers there are, and how a session reaches them."""

    executor: ExecutorKind = Field(
        default=ExecutorKind.IN_PROCESS,
        description="Who fetches and prepares archives: in_process, the session itself; multiprocess, processes of "
        "this machine; celery, Celery's workers on any machine, by DCC_BROKER and DCC_STORE.",
    )
    broker: SecretStr | None = Field(
        default=None,
        description="URL of Celery's broker, which keeps results too, such as redis://:password@broker:6379/0.",
    )
    worker_patience: float = Field(
        default=300.0,
        gt=0,
        description="Seconds for which a session waits for workers that leave nothing new before it does the rest by "
        "itself.",
    )
