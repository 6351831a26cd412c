"""A Celery worker that hangs at its first archive: `celery -A tests.support.hanging_worker worker`."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dcc.session.batches import worker
from dcc_dagster.celery_worker import app

__all__ = ["app"]

_prepare = worker._Worker._prepare


def _hang(self: Any, archive: Any, connection: Any) -> None:
    # The process that takes the place of the one that hung goes on.
    with suppress(FileExistsError):
        (Path(os.environ["DCC_STAGING"]) / ".hung").touch(exist_ok=False)
        time.sleep(600)
    _prepare(self, archive, connection)


worker._Worker._prepare = _hang  # type: ignore[method-assign]
