"""A worker's results for an archive in the object store: the archive, its prepared files, and the findings."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from dcc.naming import MANIFEST_ENDINGS
from dcc.outcomes import Problem
from dcc.session.batches.exchange import unpack
from dcc.sources.base import Validators
from dcc.store.staging import PREPARED_FILE, PartOrigin
from dcc.tracker.problems import problem_columns, problem_of

ARCHIVE: Final = "archive.zip"
_FOUND: Final = "found.json"


def _row(problem: Problem) -> dict[str, Any]:
    """A problem as in the tracker's logs, with its kind and place."""
    place = {"kind": problem.kind, "line": problem.line, "col": problem.column, "severity": problem.severity.value}
    return place | problem_columns(problem)


_ProblemRow = Annotated[Problem, PlainSerializer(_row), PlainValidator(lambda row: problem_of(SimpleNamespace(**row)))]


@dataclass(frozen=True, slots=True)
class WorkerFindings:
    """A worker's findings: the copy that it fetched, its checksums, and the problems of each document by its name.

    `published` is the MD5 published beside the copy, and `validators` the server's tag and time of it. `problems` is
    None if the archive could not be opened. `is_sent`: it is not the one that the session has. `setup` is the
    fingerprint of what the documents were checked by.
    """

    copy: PartOrigin
    published: str | None
    md5: str
    problems: Mapping[str, tuple[_ProblemRow, ...]] | None
    validators: Validators | None = None
    is_sent: bool = True
    setup: str = ""


_FINDINGS_TYPE: Final = TypeAdapter(WorkerFindings)


def write_bundle(bundle: Path, archive: Path, contents: Path, findings: WorkerFindings) -> None:
    """Put an archive, its manifest, the prepared files among its `contents`, and what was found into one file."""
    found_file = bundle.parent / _FOUND
    found_file.write_bytes(_FINDINGS_TYPE.dump_json(findings))
    with tarfile.open(bundle, "w") as tar:
        if findings.is_sent:
            tar.add(archive, ARCHIVE)
        tar.add(found_file, _FOUND)
        for ending in MANIFEST_ENDINGS:
            manifest = archive.with_name(archive.name + ending)
            if manifest.exists():
                tar.add(manifest, ARCHIVE + ending)
        for part in sorted(contents.glob(f"{PREPARED_FILE}*")):
            tar.add(part, part.name)


def open_bundle(bundle: Path) -> WorkerFindings:
    """Unpack a bundle into its folder. Raises OSError and ValueError for other files."""
    unpack(bundle, bundle.parent)
    return _FINDINGS_TYPE.validate_json((bundle.parent / _FOUND).read_bytes())
