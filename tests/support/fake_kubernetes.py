"""A server that answers as Kubernetes does about jobs: each is run as a process of this machine, in place of a pod.

The container's image, command, volumes and rights count for nothing; its arguments and environment do.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar

import yaml

from tests.support.prepared_processes import begin
from tests.support.web_server import QuietHandler, ThreadedServer

NAMESPACE = "work"
"""The namespace in which jobs may be made."""


class FakeKubernetes(ThreadedServer):
    """Keeps the jobs that it was given. Secrets and config maps, by name, hold variables."""

    def __init__(self, folder: Path, variables: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(_Handler)
        self.jobs: dict[str, dict[str, Any]] = {}
        self.namespaces: set[str] = set()
        self._variables, self._folder = variables, folder
        self._pods: dict[str, BaseProcess] = {}

    def create(self, namespace: str, job: dict[str, Any]) -> None:
        """Run the job's container as a process."""
        (container,) = job["spec"]["template"]["spec"]["containers"]
        environment = {"PATH": os.environ["PATH"]}
        for source in container["envFrom"]:
            ((_, named),) = source.items()
            environment |= self._variables[named["name"]]
        environment |= {one["name"]: one["value"] for one in container["env"]}
        name = job["metadata"]["name"]
        self.jobs[name] = job
        self.namespaces.add(namespace)
        log = self._folder / f"{name}.log"
        self._pods[name] = begin(container["args"], self._folder, environment, log, log)

    def status(self, name: str) -> dict[str, int]:
        """How many pods of the job are active, succeeded and failed."""
        ended = self._pods[name].exitcode
        return {"active": int(ended is None), "succeeded": int(ended == 0), "failed": int(ended not in (None, 0))}

    def delete(self, name: str) -> None:
        self._pods[name].kill()

    def logs(self) -> str:
        return "".join(path.read_text("utf-8") for path in self._folder.glob("*.log"))

    def stop(self) -> None:
        for pod in self._pods.values():
            pod.kill()
            pod.join()


class _Handler(QuietHandler):
    web: ClassVar[FakeKubernetes]

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].split("/")
        if parts[-1] in ("jobs", "pods"):
            kind = "JobList" if parts[-1] == "jobs" else "PodList"
            self._tell({"kind": kind, "items": []})
        elif parts[-1] == "status":
            self._tell({"kind": "Job", "status": self.web.status(parts[-2])})
        else:
            self._tell({"kind": "Status", "status": "Failure", "code": 404}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.sent())
        if self.path.endswith("/selfsubjectaccessreviews"):
            namespace = body["spec"]["resourceAttributes"]["namespace"]
            body["status"] = {"allowed": namespace == NAMESPACE}
        else:
            self.web.create(self.path.split("/")[-2], body)
        self._tell(body, 201)

    def do_DELETE(self) -> None:
        self.web.delete(self.path.partition("?")[0].split("/")[-1])
        self._tell({"kind": "Status", "status": "Success"})

    def _tell(self, body: dict[str, Any], status: int = 200) -> None:
        self.answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


@contextmanager
def fake_kubernetes(folder: Path, variables: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[FakeKubernetes, Path]]:
    """Such a server, and the kubeconfig that leads to it."""
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    with FakeKubernetes(folder, variables) as cluster:
        told = {
            "clusters": [{"name": "test", "cluster": {"server": cluster.url}}],
            "users": [{"name": "test", "user": {}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        kubeconfig.write_text(yaml.safe_dump(told))
        try:
            yield cluster, kubeconfig
        finally:
            cluster.stop()
