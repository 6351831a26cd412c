"""What a process that checks archives does that ends, or meets a fault, over those that are named so."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import CheckedArchive, NotOpened, Ready, begin

__all__ = ["DEADLY", "FAULTY", "begin", "check_archive"]

DEADLY = "H.2013-10-31.6.impc.zip"
FAULTY = "H.2013-10-31.7.impc.zip"


def check_archive(archive: Path, target: Path, md5: str | None, ready: Ready | None) -> CheckedArchive | NotOpened:
    """Do what a process that checks archives does."""
    if archive.name == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if archive.name == FAULTY:
        raise ZeroDivisionError("oh")
    return archive_checks.check_archive(archive, target, md5, ready)
