"""The executors of steps on workers: which one the settings name, the configuration of its runs, and its workers.

It contains no secret: a run names the environment variable with the broker's URL, and a Kubernetes job the Secret with
its settings.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from dagster import ExecutorDefinition, in_process_executor, multiprocess_executor

from dcc.errors import ConfigurationError
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind

if TYPE_CHECKING:
    from dagster._core.instance import DagsterInstanceOverrides

BROKER: Final = "DCC_BROKER"

_ANSWER_SECONDS: Final = 2.0
_USER: Final = 10001
"""The number of the image's user (deploy/Containerfile), as Kubernetes wants it."""
_WRITABLE: Final = ("/tmp", "/var/lib/dcc")  # noqa: S108 - of the job's own container


def executor_of(settings: Settings, modules: Sequence[str] = ()) -> ExecutorDefinition:
    """The executor of the settings. Raises ConfigurationError if its package is not installed.

    Processes of this machine begin with these `modules`, which take seconds to load.
    """
    if settings.executor is ExecutorKind.MULTIPROCESS:
        start = {"forkserver": {"preload_modules": list(modules)}}
        return multiprocess_executor.configured(
            {"max_concurrent": settings.workers, "start_method": start}, name="processes"
        )
    if settings.executor is ExecutorKind.CELERY:
        # Dagster makes the same task for each batch, of which Celery warns.
        warnings.filterwarnings("ignore", message="Task name 'execute_plan' is already registered")
        return _executor("dagster_celery", "celery_executor", settings)
    if settings.executor is ExecutorKind.K8S:
        return _executor("dagster_k8s", "k8s_job_executor", settings)
    return in_process_executor


def _executor(package: str, name: str, settings: Settings) -> ExecutorDefinition:
    try:
        executor: ExecutorDefinition = getattr(import_module(package), name)
    except ImportError as error:
        kind = settings.executor
        raise ConfigurationError(
            f"DCC_EXECUTOR is {kind}, for which the package {package} is not installed. Install it: pip install "
            f"'dcc[{kind}]'"
        ) from error
    return executor


def require_executor(settings: Settings) -> None:
    """Raise ConfigurationError if the executor of the settings lacks a package or a setting."""
    executor_of(settings)
    if settings.executor is ExecutorKind.CELERY:
        broker_of(settings)
    if settings.executor is ExecutorKind.K8S and settings.k8s_image is None:
        raise ConfigurationError(
            "DCC_EXECUTOR is k8s, and DCC_K8S_IMAGE names no image for its jobs. Name the one of deploy/Containerfile."
        )


def broker_of(settings: Settings) -> str:
    """The broker's URL. Raises ConfigurationError if it is missing."""
    if settings.broker is None:
        raise ConfigurationError(f"{BROKER} names no broker. Set it to the URL of Redis or RabbitMQ.")
    return settings.broker.get_secret_value()


def execution_of(settings: Settings) -> dict[str, Any]:
    """The configuration of the executor for a run."""
    if settings.executor is ExecutorKind.CELERY:
        return {"broker": {"env": BROKER}, "backend": {"env": BROKER}}
    if settings.executor is ExecutorKind.K8S:
        return {
            "job_image": settings.k8s_image,
            "job_namespace": settings.k8s_namespace,
            "env_secrets": [settings.k8s_secret] if settings.k8s_secret else [],
            "env_config_maps": [settings.k8s_config_map] if settings.k8s_config_map else [],
            "max_concurrent": settings.k8s_jobs,
            "step_k8s_config": _locked_in(),
        }
    return {}


def _locked_in() -> dict[str, Any]:
    """A container that may write only to its working directories, and that cannot use the Kubernetes API."""
    volumes = {f"own-{number}": path for number, path in enumerate(_WRITABLE)}
    return {
        "container_config": {
            # The arguments are `dagster api ...`. A session in the cluster uses the same image.
            "command": [sys.executable, "-m"],
            "security_context": {
                "allow_privilege_escalation": False,
                "capabilities": {"drop": ["ALL"]},
                "read_only_root_filesystem": True,
            },
            "volume_mounts": [{"name": name, "mount_path": path} for name, path in volumes.items()],
        },
        "pod_spec_config": {
            "automount_service_account_token": False,
            # Variables of services, such as DCC_WEB_PORT, would be taken for settings.
            "enable_service_links": False,
            "security_context": {"run_as_non_root": True, "run_as_user": _USER, "fs_group": _USER},
            "volumes": [{"name": name, "empty_dir": {}} for name in volumes],
        },
    }


def instance_overrides(settings: Settings) -> DagsterInstanceOverrides:
    """Additions to the `dagster.yaml` of the instance of such a run.

    The executor of Kubernetes takes missing values from the run launcher, although that launches nothing. They say how
    to reach the cluster, known from the pod that this process is in, or else from a kubeconfig.
    """
    if settings.executor is not ExecutorKind.K8S:
        return {}
    config = {
        "service_account_name": "default",
        "instance_config_map": "none",
        "dagster_home": str(settings.dagster_home),
        "load_incluster_config": is_in_cluster(),
        "kubeconfig_file": kubeconfig(),
    }
    return {"run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": config}}


def is_in_cluster() -> bool:
    """Whether this process is in a pod of a Kubernetes cluster."""
    return "KUBERNETES_SERVICE_HOST" in os.environ


def kubeconfig() -> str | None:
    """The file with the cluster's address; None for the usual one, and inside the cluster."""
    return None if is_in_cluster() else os.environ.get("KUBECONFIG")


def reach_workers(settings: Settings) -> str:
    """Reach the workers; returns what answered. Raises ConfigurationError with what is missing or refused."""
    if settings.executor is ExecutorKind.CELERY:
        return _reach_celery(settings)
    if settings.executor is ExecutorKind.K8S:
        return _reach_kubernetes(settings)
    return "Workers are processes of this machine."


def _reach_celery(settings: Settings) -> str:
    from celery import Celery
    from kombu.exceptions import OperationalError

    app = Celery(broker=broker_of(settings))
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, timeout=settings.connect_timeout)
            answers = app.control.ping(timeout=_ANSWER_SECONDS, connection=connection)
    except OperationalError as error:
        raise ConfigurationError(
            f"The broker of DCC_BROKER cannot be used: {str(error).rstrip('.')}. Start it, or correct the setting."
        ) from error
    if not answers:
        raise ConfigurationError(
            "No worker answers at the broker, so that sessions do all by themselves. Start one: celery -A "
            "dcc_dagster.celery_worker worker"
        )
    return f"{len(answers)} Celery workers answer at the broker."


def _reach_kubernetes(settings: Settings) -> str:
    import kubernetes
    from dagster_k8s.utils import load_kubernetes_config
    from urllib3.exceptions import HTTPError

    namespace = settings.k8s_namespace
    attributes = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": namespace}
    try:
        load_kubernetes_config(load_incluster_config=is_in_cluster(), kubeconfig_file=kubeconfig())
        review = kubernetes.client.AuthorizationV1Api().create_self_subject_access_review(
            {"spec": {"resourceAttributes": attributes}}, _request_timeout=settings.connect_timeout
        )
    except (kubernetes.config.ConfigException, kubernetes.client.ApiException, HTTPError, OSError) as error:
        raise ConfigurationError(
            f"Kubernetes cannot be asked: {error}. Name a kubeconfig in KUBECONFIG, or run this in the cluster."
        ) from error
    if not review.status.allowed:
        raise ConfigurationError(
            f"This account may not make jobs in the namespace {namespace} of Kubernetes. Give it the role "
            "of deploy/helm, or correct DCC_K8S_NAMESPACE."
        )
    return f"Kubernetes answers, and jobs may be made in its namespace {namespace}."
