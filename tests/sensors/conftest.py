"""What tests of schedules and sensors need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from tests.support.dagster_instances import set_environment
from tests.support.installations import Installation
from tests.support.mail_server import MailServerForTests, Starter

WRANGLER, CENTRE = "wrangler@dcc.example", "data@h.example"


@pytest.fixture
def kept_instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    """An instance on the disk: schedules are told of no other."""
    with DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as made:
        yield made


@pytest.fixture
def server(installation: Installation, mail_server: Starter, monkeypatch: pytest.MonkeyPatch) -> MailServerForTests:
    """The mail server by which wranglers are told, in an environment that names the installation."""
    server = mail_server()
    set_environment(installation, monkeypatch)
    monkeypatch.setenv("DCC_NOTIFY_TO", WRANGLER)
    monkeypatch.setenv("DCC_SMTP_URL", f"smtp://127.0.0.1:{server.port}")
    return server
