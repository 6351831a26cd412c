"""A process that prepares archives for a session: one after the other, by the same basis."""

from __future__ import annotations

import gc
import os
from typing import Final

from dcc.runtime.processes import collect_cycles_rarely
from dcc.session.prepare.documents import ArchiveToPrepare, Basis, prepare_archive

_LESS_URGENT: Final = 5
"""What is added to the niceness of the process."""


def begin(basis: Basis) -> Basis:
    """Prepare by this basis from now on."""
    # What is prepared waits for the session's own process, which therefore comes first.
    os.nice(_LESS_URGENT)
    # Loaded modules stay and need not be scanned for cycles; contents of documents have none.
    gc.freeze()
    collect_cycles_rarely()
    return basis


def prepare(basis: Basis, archive: ArchiveToPrepare) -> dict[str, Exception]:
    """Prepare an archive: see `prepare_archive`."""
    return prepare_archive(archive, basis)
