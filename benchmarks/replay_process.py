"""Prepares the archives of an installation once more, and nothing else: `python -m benchmarks.replay_process HOME`.

As a session does it: processes open, validate and read each archive, ask the rules, and write all rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.installation import databases
from dcc.outcomes import SubmissionKey
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.reference.snapshots import load_active
from dcc.replay.stored_archives import ArchiveBytes, find_archives
from dcc.runtime.processes import collect_cycles_rarely
from dcc.runtime.worker_processes import WorkerProcesses
from dcc.session.prepare import archive_checks
from dcc.session.prepare import documents as preparing
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup
from dcc.session.prepare.documents import ArchiveToPrepare, DocumentToPrepare, PreparationBasis
from dcc.tracker.register.centres import centre_ids


def begin(setup: Setup, basis: PreparationBasis) -> tuple[ArchiveChecker, PreparationBasis]:
    """What checks and prepares archives in this process."""
    return archive_checks.begin(setup), preparing.begin(basis)


def prepare(begun: tuple[ArchiveChecker, PreparationBasis], key: SubmissionKey, path: Path, target: Path) -> int:
    """Open an archive, and prepare its documents; how many there are."""
    checker, basis = begun
    found = checker.check(path, target, None, None)
    if not isinstance(found, CheckedArchive):
        raise TypeError(f"{key} was not opened: {found.error}")
    documents = [
        DocumentToPrepare(str(one.path), one.name.kind, one.name.centre, one.md5) for one in found.archive.documents
    ]
    if failed := preparing.prepare_archive(basis, ArchiveToPrepare(key, "H", target / "prepared.rows", documents)):
        raise RuntimeError(f"{key} was not prepared: {failed}")
    for one in found.archive.documents:
        one.path.unlink()
    return len(documents)


def main(words: Sequence[str]) -> None:
    """Prepare all archives, and print how many documents they have."""
    collect_cycles_rarely()
    with databases(Path(words[0]), {}) as (settings, tracker, qc), TemporaryDirectory() as folder:
        with tracker.connect() as of_tracker, qc.connect() as of_qc:
            archives = find_archives(of_tracker, of_qc)
            setup = Setup.from_settings(settings, centre_ids(of_tracker))
            basis = PreparationBasis(load_active(of_qc).data, "", datetime.now(UTC).date(), columns_for(qc))
        processes = WorkerProcesses(os.cpu_count() or 1, begin, setup, basis)
        stored = ArchiveBytes(settings, Path(folder) / "archives")
        futures = []
        for number, one in enumerate(archives):
            if (path := stored.fetch(one)) is None:
                raise RuntimeError(f"{one.key} is in no store")
            futures.append(processes.submit(f"{one.key}", prepare, one.key, path, Path(folder) / f"{number}"))
        print(sum(future.result() for future in futures))
        processes.stop()


if __name__ == "__main__":
    # Other processes import the functions that they are given from here.
    from benchmarks.replay_process import main as prepare_all

    prepare_all(sys.argv[1:])
