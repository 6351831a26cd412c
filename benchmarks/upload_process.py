"""One side of the upload benchmark, as a process of its own.

`python -m benchmarks.upload_process apply URL DOCUMENT...` applies experiment documents to the QC database at URL,
whose schema is in place, as a session does: small ones together, others one after the other; `parse DOCUMENT...` only
reads them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from dcc.documents.reading import read_document
from dcc.naming import Action, DocumentKind
from dcc.runtime.checksums import md5_of

if TYPE_CHECKING:
    from dcc.qc.apply.documents import DocumentToApply

KIND = DocumentKind.EXPERIMENT


def apply(url: str, paths: Sequence[Path]) -> int:
    """Apply the documents; how many measurements they have. Raises RuntimeError when one did not take effect."""
    from pydantic import SecretStr

    from dcc.qc.apply.documents import apply_document
    from dcc.qc.apply.many_documents import MOST_DOCUMENTS, SMALL_BYTES, apply_together
    from dcc.qc.apply.reading_ahead import ReadingAhead, Waiting
    from dcc.qc.apply.reading_turns import readers_worth
    from dcc.qc.database import open_qc_database
    from dcc.settings import Settings
    from dcc.vocabulary import DocumentState

    engine = open_qc_database(Settings(qc_url=SecretStr(url)))
    documents = [_document(inc, path) for inc, path in enumerate(paths)]
    small = all(document.size_bytes <= SMALL_BYTES for document in documents)
    waiting = [
        Waiting(path, KIND, document.size_bytes, document.md5 if small else None)
        for path, document in zip(paths, documents, strict=True)
    ]
    measurements = 0
    size = sum(document.size_bytes for document in documents if small)
    with closing(ReadingAhead(waiting, processes=readers_worth(size, Settings().workers))) as ahead:
        at_once = MOST_DOCUMENTS if small else 1
        for start in range(0, len(paths), at_once):
            group = documents[start : start + at_once]
            some = paths[start : start + len(group)]
            if small:
                applied = apply_together(
                    engine,
                    group,
                    lambda number, order, some=some: ahead.read_whole(some[:number], order),  # type: ignore[misc]
                )
            else:
                applied = [apply_document(engine, group[0], lambda some=some: ahead.read(some[0], KIND))]  # type: ignore[misc]
            if len(applied) < len(group) or any(
                one.state is not DocumentState.APPLIED or one.refused for one in applied
            ):
                raise RuntimeError(f"{some} were not all applied: {[one.findings[:3] for one in applied]}")
            measurements += sum(one.said["measurements"] for one in applied)
    engine.dispose()
    return measurements


def _document(inc: int, path: Path) -> DocumentToApply:
    from dcc.qc.apply.documents import DocumentToApply

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
    gc.set_threshold(50_000, 20, 100)
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
