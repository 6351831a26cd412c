"""Fixtures: a server that speaks S3 (moto, in a process of its own), and buckets on it.

`s3_server` lives as long as the test run; `bucket` is an empty bucket of the test's own, which `settings` makes the
store of an installation.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from pydantic import SecretStr

from benchmarks.servers import ServerProcess
from dcc.settings import Settings, load_settings
from tests.support.ports import free_port

ACCESS_KEY_ID = "AKIATEST"
SECRET_ACCESS_KEY = "s3cret+key/of-the-bucket"
"""What no output may hold."""


class S3Server(ServerProcess):
    """A server that speaks S3; what it holds goes when it is stopped.

    After `open_requests`, where that is given, it asks for the credentials of a user that has been made.
    """

    def __init__(self, folder: Path, open_requests: int | None = None) -> None:
        folder.mkdir(exist_ok=True)
        port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        limit = {} if open_requests is None else {"INITIAL_NO_AUTH_ACTION_COUNT": str(open_requests)}
        super().__init__(command, port, folder / "log", environment=os.environ | limit)

    @property
    def endpoint(self) -> str:
        return f"http://{self.hostname}"

    def client(self, service: str = "s3") -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )


@dataclass(frozen=True)
class Bucket:
    """An empty bucket."""

    server: S3Server
    name: str
    home: Path

    @property
    def client(self) -> Any:
        return self.server.client()

    def settings(self, **changes: Any) -> Settings:
        """Settings of an installation whose store is in the bucket, below `dcc`."""
        return load_settings(**({"home": self.home} | self.variables | changes))

    @property
    def access(self) -> dict[str, str]:
        """The variables with which a command reaches the bucket."""
        return {
            "DCC_STORE_ENDPOINT": self.server.endpoint,
            "DCC_STORE_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "DCC_STORE_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }

    @property
    def variables(self) -> dict[str, Any]:
        return {
            "store": f"s3://{self.name}/dcc",
            "store_endpoint": self.server.endpoint,
            "store_access_key_id": ACCESS_KEY_ID,
            "store_secret_access_key": SecretStr(SECRET_ACCESS_KEY),
        }


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> Bucket:
    name = f"bucket-{uuid4().hex}"
    s3_server.client().create_bucket(Bucket=name)
    return Bucket(s3_server, name, tmp_path / "home")
