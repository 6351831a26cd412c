"""Settings: who fetches and prepares archives for a session, this machine or workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, SecretStr, field_validator

from dcc.settings.group import SettingsGroup, url_checked_by
from dcc.settings.hosts import split_server

_KUBERNETES_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_BROKERS: Final = {"redis", "rediss", "sentinel", "amqp", "amqps", "pyamqp"}
_SOCKET: Final = "redis+socket:///"
_WANTED: Final = (
    "write redis://:password@host:6379/0 or amqp://user:password@host:5672//, with special characters of the password "
    "percent-encoded"
)


class ExecutorKind(StrEnum):
    """Which executor of Dagster has archives fetched and prepared; in-process is the session itself."""

    IN_PROCESS = "in_process"
    MULTIPROCESS = "multiprocess"
    CELERY = "celery"
    K8S = "k8s"


def _check_brokers(urls: str) -> None:
    for one in urls.split(";"):
        parts = split_server(one)
        if not one.startswith(_SOCKET) and (parts is None or parts.scheme not in _BROKERS):
            raise ValueError(f"it names no server of Redis or RabbitMQ, or an impossible port: {_WANTED}")


class WorkerSettings(SettingsGroup):
    """Which workers there are, and how a session reaches them."""

    section = "executors"
    title = "Workers"

    executor: ExecutorKind = ExecutorKind.IN_PROCESS
    """Who prepares archives: in_process (the session), multiprocess (this machine), celery or k8s."""
    broker: SecretStr | None = None
    """URL of Celery's broker, redis://:password@broker:6379/0."""
    k8s_image: str | None = None
    """Image of Kubernetes jobs, from deploy/Containerfile."""
    k8s_namespace: str = Field(default="default", pattern=_KUBERNETES_NAME)
    """Namespace of Kubernetes jobs."""
    k8s_secret: str | None = Field(default=None, pattern=_KUBERNETES_NAME)
    """Kubernetes Secret with passwords for jobs."""
    k8s_config_map: str | None = Field(default=None, pattern=_KUBERNETES_NAME)
    """Kubernetes ConfigMap with other settings of jobs."""
    k8s_jobs: int = Field(default=10, ge=1, le=1_000)
    """Kubernetes jobs of a session at once."""
    worker_patience: float = Field(default=300.0, gt=0)
    """Seconds that a worker may take over an archive, and that a session waits for a result."""

    _names_servers = field_validator("broker")(url_checked_by(_check_brokers))
