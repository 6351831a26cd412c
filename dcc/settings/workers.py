"""Settings: who fetches and prepares archives for a session, this machine or workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, SecretStr, field_validator

from dcc.redaction import keep_secrets_of_url
from dcc.settings.group import SettingsGroup

_KUBERNETES_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


class ExecutorKind(StrEnum):
    """Which executor of Dagster has archives fetched and prepared; in-process is the session itself."""

    IN_PROCESS = "in_process"
    MULTIPROCESS = "multiprocess"
    CELERY = "celery"
    K8S = "k8s"


class WorkerSettings(SettingsGroup):
    """Which workers there are, and how a session reaches them."""

    executor: ExecutorKind = Field(
        default=ExecutorKind.IN_PROCESS,
        description="Who fetches and prepares archives: in_process, the session itself; multiprocess, processes of "
        "this machine; celery, Celery's workers on any machine, by DCC_BROKER and DCC_STORE; k8s, jobs of Kubernetes, "
        "by DCC_K8S_IMAGE and DCC_STORE.",
    )
    broker: SecretStr | None = Field(
        default=None,
        description="URL of Celery's broker, which keeps results too, such as redis://:password@broker:6379/0, or "
        "where that is: file:PATH or env:NAME.",
    )
    k8s_image: str | None = Field(
        default=None, description="Image of the jobs of Kubernetes: that of deploy/Containerfile, of this version."
    )
    k8s_namespace: str = Field(
        default="default", pattern=_KUBERNETES_NAME, description="Namespace of the jobs of Kubernetes."
    )
    k8s_secret: str | None = Field(
        default=None,
        pattern=_KUBERNETES_NAME,
        description="Secret of that namespace from which jobs of Kubernetes get the settings with passwords, as "
        "variables.",
    )
    k8s_config_map: str | None = Field(
        default=None,
        pattern=_KUBERNETES_NAME,
        description="ConfigMap of that namespace from which jobs of Kubernetes get the other settings.",
    )
    k8s_jobs: int = Field(default=10, ge=1, le=1_000, description="Jobs of Kubernetes at once, of one session.")
    worker_patience: float = Field(
        default=300.0,
        gt=0,
        description="Seconds for which a session waits for workers that leave nothing new before it does the rest by "
        "itself, and for which a worker may take over one archive before it gives its batch up.",
    )

    @field_validator("broker")
    @classmethod
    def _keeps_password(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            keep_secrets_of_url(url.get_secret_value())
        return url
