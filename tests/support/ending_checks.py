"""What a process that checks archives does that ends, or meets a fault, over those that are named so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import NotOpened, Opened, begin, validate

__all__ = ["DEADLY", "FAULTY", "begin", "open_archive", "validate"]

DEADLY = "H.2013-10-31.6.impc.zip"
FAULTY = "H.2013-10-31.7.impc.zip"


def open_archive(archive: Path, target: Path, md5: str | None, whole: bool) -> Opened | NotOpened:
    """Do what a process that checks archives does."""
    if archive.name == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if archive.name == FAULTY:
        raise ZeroDivisionError("oh")
    return archive_checks.open_archive(archive, target, md5, whole)
