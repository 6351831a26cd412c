"""Documents in staging, unchanged since their validation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dcc.errors import BadFileNameError, StagedDocumentLostError
from dcc.messages import Message, mark
from dcc.naming import DocumentKind
from dcc.outcomes import ZipKey
from dcc.runtime.checksums import md5_of
from dcc.store.staging import Staging

PREPARED_FILE: Final = "prepared.rows"
"""What the names of the files beside an archive's documents begin with that have their rows."""


def place_of_document(staging: Staging, key: ZipKey, file_name: str) -> str | None:
    """The path of an extracted document; None if its archive's name cannot be a file's name.

    As text, because there may be many: a Path takes 500 bytes.
    """
    try:
        return f"{staging.contents(key)}/{file_name}"
    except BadFileNameError:
        return None


def prepared_place(contents: Path, kind: DocumentKind) -> Path:
    """The path of the prepared file of an archive's documents of a kind, beside its `contents`."""
    return contents / f"{PREPARED_FILE}.{kind}"


def staged_path(staging: Staging, key: ZipKey, file_name: str, md5: str | None) -> Path:
    """The path of a document in staging.

    Raises StagedDocumentLostError if it is missing, cannot be read or has another MD5 than when it was extracted.
    """
    try:
        path = staging.contents(key) / file_name
        found = md5_of(path)
    except (OSError, BadFileNameError) as error:
        raise document_lost(key, file_name, error) from error
    if md5 is not None and found != md5:
        raise document_lost(key, file_name)
    return path


def document_lost(key: ZipKey, file_name: str, error: Exception | None = None) -> StagedDocumentLostError:
    """The error for a document that cannot be read, or that changed since its extraction."""
    fault = "is not in staging any more as it was extracted"
    if error is not None:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        fault = f"cannot be read in staging ({reason})"
    return StagedDocumentLostError(
        mark(
            "The document {file_name} of {archive} {fault}. Its archive has to be downloaded again: the next session "
            "does so; at once: dcc retry {archive}."
        ),
        file_name=file_name,
        archive=key,
        fault=Message(fault),
    )
