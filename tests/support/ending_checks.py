"""A process that checks archives, and ends, or meets a fault, over those that are named so."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from dcc.session.archives import checking_process

DEADLY = "H.2013-10-31.6.impc.zip"
FAULTY = "H.2013-10-31.7.impc.zip"


def main() -> None:
    """Do what a process that checks archives does."""
    extract = checking_process.extract_archive

    def extract_or_end(path: Path, *arguments: Any, **named: Any) -> Any:
        if path.name == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if path.name == FAULTY:
            raise ZeroDivisionError("oh")
        return extract(path, *arguments, **named)

    checking_process.extract_archive = extract_or_end
    checking_process.main()
