"""What tests of schedules and sensors need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def kept_instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    """An instance on the disk: schedules are told of no other."""
    with DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as made:
        yield made
