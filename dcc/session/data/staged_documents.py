"""Documents in staging, as they were when they were validated."""

from __future__ import annotations

import os
from pathlib import Path

from dcc.errors import BadFileNameError, StagedDocumentLostError
from dcc.messages import Message, mark
from dcc.runtime.checksums import md5_of
from dcc.session.data.documents import DueDocument
from dcc.store.staging import Staging


def place_in_staging(staging: Staging, document: DueDocument) -> str | None:
    """Where a document was extracted to; None where its archive has a name that no file can have.

    As text, for there may be many of them, and a Path holds 500 bytes.
    """
    try:
        return f"{staging.contents(document.key)}/{document.name.file_name}"
    except BadFileNameError:
        return None


def staged_path(staging: Staging, document: DueDocument) -> Path:
    """Where a document lies in staging.

    Raises StagedDocumentLostError when it is not there, cannot be read or has another MD5 than when it was extracted.
    """
    try:
        path = staging.contents(document.key) / document.name.file_name
        found = md5_of(path)
    except (OSError, BadFileNameError) as error:
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise _lost(document, f"cannot be read in staging ({reason})") from error
    if document.md5 is not None and found != document.md5:
        raise _lost(document, "is not in staging any more as it was extracted")
    return path


def _lost(document: DueDocument, what: str) -> StagedDocumentLostError:
    return StagedDocumentLostError(
        mark(
            "The document {file_name} of {archive} {fault}. Its archive has to be downloaded again: the next session "
            "does so; at once: dcc retry {archive}."
        ),
        file_name=document.name.file_name,
        archive=document.key,
        fault=Message(what),
    )
