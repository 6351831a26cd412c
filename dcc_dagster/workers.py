"""Whether workers are reachable: Celery's at their broker, or a Kubernetes cluster."""

from __future__ import annotations

from dcc.errors import ConfigurationError
from dcc.settings import Settings
from dcc.settings.workers import ExecutorKind
from dcc_dagster.executors import broker_of, is_in_cluster, kubeconfig

_ANSWER_SECONDS = 2.0


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
            f"The broker of DCC_BROKER cannot be used: {error}. Start it, or correct the setting."
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
