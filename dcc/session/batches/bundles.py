"""A worker's results for an archive in the object store: the archive, its prepared files, and the findings."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from dcc.naming import MANIFEST_FORMATS, manifest_beside
from dcc.outcomes import Problem
from dcc.session.batches.exchange import unpack
from dcc.sources.base import Hosting, Validators
from dcc.store.staging import PREPARED_FILE
from dcc.tracker.problems import problem_columns, problem_of

ARCHIVE: Final = "archive.zip"
_FOUND: Final = "found.json"

Problems = tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class WorkerFindings:
    """A worker's findings: the copy that it fetched, its checksums, and the problems of each document by its name.

    `published` is the MD5 published beside the copy, and `validators` the server's tag and time of it. `problems` is
    None if the archive could not be opened. `is_sent`: it is not the one that the session has.
    """

    source_id: int
    size_bytes: int | None
    modified: int | None
    published: str | None
    md5: str
    problems: Mapping[str, Problems] | None
    validators: Validators | None = None
    is_sent: bool = True

    def is_of(self, hosting: Hosting) -> bool:
        """Whether the copy is the listed one."""
        listed = (hosting.source_id, hosting.size_bytes, hosting.modified)
        return listed == (self.source_id, self.size_bytes, self.modified)


def write_bundle(bundle: Path, archive: Path, contents: Path, findings: WorkerFindings) -> None:
    """Put an archive, its manifest, the prepared files among its `contents`, and what was found into one file."""
    found_file = bundle.parent / _FOUND
    found_file.write_text(json.dumps(_plain(findings)), "utf-8")
    with tarfile.open(bundle, "w") as tar:
        if findings.is_sent:
            tar.add(archive, ARCHIVE)
        tar.add(found_file, _FOUND)
        for suffix in MANIFEST_FORMATS:
            manifest = archive.with_name(manifest_beside(archive.name, suffix))
            if manifest.exists():
                tar.add(manifest, manifest_beside(ARCHIVE, suffix))
        for part in sorted(contents.glob(f"{PREPARED_FILE}*")):
            tar.add(part, part.name)


def open_bundle(bundle: Path, folder: Path) -> WorkerFindings:
    """Unpack a bundle into a folder. Raises OSError and ValueError for other files."""
    unpack(bundle, folder)
    return _findings_of(json.loads((folder / _FOUND).read_text("utf-8")))


def _plain(findings: WorkerFindings) -> dict[str, Any]:
    problems = findings.problems
    return {
        "copy": [findings.source_id, findings.size_bytes, findings.modified, findings.published, findings.md5],
        "validators": None if findings.validators is None else astuple(findings.validators),
        "is_sent": findings.is_sent,
        "problems": None if problems is None else {name: list(map(_row, some)) for name, some in problems.items()},
    }


def _row(problem: Problem) -> dict[str, Any]:
    """A problem as in the tracker's logs, with its kind and place."""
    place = {"kind": problem.kind, "line": problem.line, "col": problem.column, "severity": problem.severity.value}
    return place | problem_columns(problem)


def _findings_of(stored: dict[str, Any]) -> WorkerFindings:
    problems = stored["problems"]
    known = None
    if problems is not None:
        known = {name: tuple(problem_of(SimpleNamespace(**row)) for row in rows) for name, rows in problems.items()}
    source_id, size_bytes, modified, published, md5 = stored["copy"]
    validators = None if stored["validators"] is None else Validators(*stored["validators"])
    return WorkerFindings(source_id, size_bytes, modified, published, md5, known, validators, stored["is_sent"])
