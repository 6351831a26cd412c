"""A Celery worker that hangs at its first archive: `celery -A tests.support.hanging_worker worker`."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from celery.signals import worker_process_init

from dcc.session.batches import worker
from dcc_dagster.celery_worker import app

__all__ = ["app"]

_prepare = worker._Worker._prepare


def _hung() -> Path:
    return Path(os.environ["DCC_STAGING"]) / ".hung"


def _be_given_little_time(**_: Any) -> None:
    if not _hung().exists():
        os.environ["DCC_WORKER_PATIENCE"] = "3"


def _hang(self: Any, archive: Any, connection: Any) -> None:
    # The process that takes the place of the one that hung goes on.
    with suppress(FileExistsError):
        _hung().touch(exist_ok=False)
        time.sleep(600)
    _prepare(self, archive, connection)


worker._Worker._prepare = _hang  # type: ignore[method-assign]
worker_process_init.connect(_be_given_little_time)
