"""One side of the upload benchmark, as a process of its own.

`python -m benchmarks.upload_process apply URL DOCUMENT...` applies experiment documents to the QC database at URL,
whose schema is in place, as a session does: prepared by processes, ten together; `parse DOCUMENT...` only
reads them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dcc.documents.reading import read_document
from dcc.naming import Action, DocumentKind
from dcc.runtime.checksums import md5_of
from dcc.runtime.processes import collect_cycles_rarely

if TYPE_CHECKING:
    from dcc.qc.rows.documents import DocumentToApply

KIND = DocumentKind.EXPERIMENT
_TOGETHER = 10


def apply(url: str, paths: Sequence[Path]) -> int:
    """Apply the documents; how many measurements they have. Raises RuntimeError when one did not take effect."""
    from pydantic import SecretStr

    from dcc.outcomes import SubmissionKey
    from dcc.qc.apply.document_effect import DocumentWithRows
    from dcc.qc.apply.documents import apply_documents
    from dcc.qc.apply.entity_rows import columns_for
    from dcc.qc.database import open_qc_database
    from dcc.qc.rows.prepared_file import PreparedFile
    from dcc.reference.loading import load_shipped
    from dcc.runtime.worker_processes import WorkerProcesses
    from dcc.session.prepare.documents import (
        ArchiveToPrepare,
        DocumentToPrepare,
        PreparationBasis,
        begin,
        prepare_archive,
    )
    from dcc.settings import Settings
    from dcc.vocabulary import DocumentState

    engine = open_qc_database(Settings(qc_url=SecretStr(url)))
    basis = PreparationBasis(load_shipped(), "", datetime.now(UTC).date(), columns_for(engine))
    measurements = 0
    processes = WorkerProcesses(os.cpu_count() or 1, begin, basis)
    with TemporaryDirectory() as folder:
        prepared = []
        for start in range(0, len(paths), _TOGETHER):
            some = paths[start : start + _TOGETHER]
            target = Path(folder) / f"{start}.rows"
            documents = [DocumentToPrepare(str(path), KIND, "H", None) for path in some]
            archive = ArchiveToPrepare(SubmissionKey(Action.ADD, f"{start}.zip"), "H", target, documents)
            prepared.append((start, some, target, processes.submit(target.name, prepare_archive, archive)))
        for start, some, target, made in prepared:
            made.result()
            file = PreparedFile(target)
            group = [
                DocumentWithRows(_document(inc, path), file.document(path.name, ""))
                for inc, path in enumerate(some, start)
            ]
            applied = apply_documents(engine, group)
            file.close()
            if any(one.state is not DocumentState.APPLIED or one.refused for one in applied):
                raise RuntimeError(f"{some} were not all applied: {[one.findings[:3] for one in applied]}")
            measurements += sum(one.said["measurements"] for one in applied)
    processes.stop()
    engine.dispose()
    return measurements


def _document(inc: int, path: Path) -> DocumentToApply:
    from dcc.qc.rows.documents import DocumentToApply

    return DocumentToApply(
        action=Action.ADD,
        zip_file=f"H.2013-10-31.{inc}.impc.zip",
        file_name=f"H.2013-10-31.{inc}.experiment.impc.xml",
        kind=KIND,
        centre="H",
        created=date(2013, 10, 31),
        inc=inc,
        md5=md5_of(path),
        size_bytes=path.stat().st_size,
        tracker_id=inc + 1,
    )


def parse(paths: Sequence[Path]) -> int:
    """Read the documents; how many objects they hold."""
    return sum(1 for path in paths for _ in read_document(path, KIND))


def main() -> None:
    """Do what the command line says, and print what was counted."""
    # As `dcc` does.
    collect_cycles_rarely()
    side, *words = sys.argv[1:]
    if side == "apply":
        print(apply(words[0], _paths(words[1:])))
    else:
        print(parse(_paths(words)))


def _paths(words: Sequence[str]) -> list[Path]:
    """The documents: those named, or all of the folders named."""
    found: list[Path] = []
    for path in map(Path, words):
        found += sorted(path.iterdir()) if path.is_dir() else [path]
    return found


if __name__ == "__main__":
    main()
