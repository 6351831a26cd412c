"""A Celery worker that hangs at some archives: `celery -A tests.support.hanging_worker worker`."""

from __future__ import annotations

import time
from typing import Any

from dcc.session.batches import worker
from dcc_dagster.celery_worker import app

__all__ = ["app"]

_prepare = worker._Worker._prepare


def _hang(self: Any, archive: Any, connection: Any) -> None:
    if "2013-10-13" in archive.key.file_name:
        time.sleep(600)
    _prepare(self, archive, connection)


worker._Worker._prepare = _hang  # type: ignore[method-assign]
