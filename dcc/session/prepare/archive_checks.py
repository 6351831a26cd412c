"""What a process does that opens archives and validates documents for a session, which decides and records.

It loads neither a database nor the settings, so that it is there in a tenth of a second.
"""

from __future__ import annotations

import gc
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dcc.archives.extraction import ArchiveLimits, ExtractedArchive, extract_archive
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ArchiveError
from dcc.naming import DocumentKind, NamingConvention
from dcc.outcomes import Problem
from dcc.runtime.checksums import md5_of
from dcc.runtime.worker_processes import portable

_MOST_AT_ONCE: Final = 32
_MOST_BYTES_AT_ONCE: Final = 4_000_000

Problems = tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """What the process goes by: of the settings, and the codes of all centres."""

    limits: ArchiveLimits
    naming: NamingConvention
    centres: Container[str]
    xsd_dir: Path | None
    max_document_errors: int
    max_tree_bytes: int


class Opened(NamedTuple):
    """An archive whose documents are in staging, its MD5, and the problems of each document if they were validated."""

    archive: ExtractedArchive
    md5: str
    problems: tuple[Problems, ...] | None


class NotOpened(NamedTuple):
    """What is wrong with an archive of that MD5."""

    error: Exception
    md5: str


@dataclass
class _Work:
    setup: Setup | None = None
    schemas: SchemaSet | None = None


_work = _Work()


def begin(setup: Setup) -> None:
    """Go by this from now on."""
    _work.setup, _work.schemas = setup, SchemaSet.load(setup.xsd_dir)
    # The parsers of prologs are cycles, each with some memory.
    gc.freeze()


def open_archive(archive: Path, target: Path, md5: str | None, whole: bool) -> Opened | NotOpened:
    """Take an archive's MD5, unless that is known, and extract its documents to `target`.

    They are validated too if that is to be done as a `whole`, and they are few and small. Raises DiskFullError, and
    OSError when the disk fails.
    """
    setup = _begun()
    taken = md5_of(archive) if md5 is None else md5
    try:
        found = extract_archive(archive, target, limits=setup.limits, naming=setup.naming, centres=setup.centres)
    except ArchiveError as error:
        return NotOpened(portable(error), taken)
    return Opened(found, taken, _validated_at_once(found) if whole else None)


def _validated_at_once(archive: ExtractedArchive) -> tuple[Problems, ...] | None:
    documents = archive.documents
    if len(documents) > _MOST_AT_ONCE or sum(each.size_bytes for each in documents) > _MOST_BYTES_AT_ONCE:
        return None
    try:
        return validate([(each.path, each.name.kind) for each in documents])
    except Exception:  # which document it is of is told when each is asked for by itself
        return None


def validate(documents: Sequence[tuple[Path, DocumentKind]]) -> tuple[Problems, ...]:
    """The problems of each document."""
    setup = _begun()
    return tuple(
        tuple(
            validate_document(
                path,
                kind,
                _work.schemas or SchemaSet.load(setup.xsd_dir),
                max_errors=setup.max_document_errors,
                max_tree_bytes=setup.max_tree_bytes,
            )
        )
        for path, kind in documents
    )


def _begun() -> Setup:
    if _work.setup is None:
        raise RuntimeError("A process was given an archive before what to go by.")
    return _work.setup
