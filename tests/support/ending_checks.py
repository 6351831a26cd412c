"""What a process that checks archives does that ends, or meets a fault, over those that are named so."""

import os
import signal
from pathlib import Path

from dcc.session.prepare import archive_checks
from dcc.session.prepare.archive_checks import CheckedArchive, EarlierResults, Setup, UnopenedArchive

__all__ = ["DEADLY", "FAULTY", "ArchiveChecker", "begin"]

DEADLY = "H.2013-10-31.6.impc.zip"
FAULTY = "H.2013-10-31.7.impc.zip"


class ArchiveChecker(archive_checks.ArchiveChecker):
    """What checks archives."""

    def check(
        self, archive: Path, target: Path, md5: str | None, ready: EarlierResults | None = None
    ) -> CheckedArchive | UnopenedArchive:
        if archive.name == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if archive.name == FAULTY:
            raise ZeroDivisionError("oh")
        return super().check(archive, target, md5, ready)


def begin(setup: Setup) -> ArchiveChecker:
    return ArchiveChecker(setup)
