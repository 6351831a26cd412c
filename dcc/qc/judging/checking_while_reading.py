"""The process that reads small documents for the upload checks them while it has them, so that none is read twice.

It knows no database: the rules about specimens of other documents are left out here, and `other_specimens` tells which
documents these may object to. What cannot be told of a document is not noted, and it is checked later, as others are.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from datetime import date
from itertools import islice
from typing import IO, Any, Final

from dcc.documents.contents import Content
from dcc.naming import Action
from dcc.qc.apply.reading_ahead import LookAt, Looking, serve_reading
from dcc.qc.apply.whole_documents import Look
from dcc.qc.judging.checking_process import Answered, packed
from dcc.reference.loading import ReferenceData
from dcc.rules.accepted_elements import Sound
from dcc.rules.checking import ABOUT_SPECIMENS, JUDGED_AT_UPLOAD, check_contents
from dcc.rules.context import DocumentContext
from dcc.runtime.helper_process import Out, serve
from dcc.runtime.log_context import logging_about

log = logging.getLogger(__name__)

LEFT_OUT: Final = JUDGED_AT_UPLOAD | ABOUT_SPECIMENS
"""The rules that a document is not checked against here."""
MOST_FINDINGS: Final = 50
"""How many findings are noted of a document; one with more is checked later."""

_NOT_KNOWN: Final = 0
"""The id of the document, by which only rules go that are left out here."""


def looking(reference: ReferenceData, today: date) -> Looking:
    """Have documents that are read be checked by these reference data, on a day in UTC."""
    return Looking(__name__, pickle.dumps((reference, today)))


def about(zip_action: str, file_name: str, centre: str, of: str | None) -> Sequence[str]:
    """What is told of a document; `centre` is that of its name, the others are for the log."""
    return (zip_action, file_name, centre, of or "")


def main() -> None:
    """Read the documents that standard input names, and write their rows, and what is found, to standard output."""
    serve(_serve)


def _serve(given: IO[bytes], out: Out) -> None:
    serve_reading(given, out, _look_by)


def _look_by(basis: bytes) -> LookAt:
    reference, today = pickle.loads(basis)  # noqa: S301 - of the process that started this one
    sound = Sound()

    def look_at(about: Sequence[str]) -> Look:
        zip_action, file_name, centre, of = about

        def look(contents: Sequence[Content]) -> list[tuple[Any, ...]] | None:
            context = DocumentContext(_NOT_KNOWN, Action.ADD, centre, today, reference, Answered({}))
            with logging_about(zip_action=zip_action, centre=of or None, document=file_name):
                return _found(contents, context, sound)

        return look

    return look_at


def _found(contents: Sequence[Content], context: DocumentContext, sound: Sound) -> list[tuple[Any, ...]] | None:
    try:
        found = list(islice(check_contents(contents, context, LEFT_OUT, sound), MOST_FINDINGS + 1))
    except MemoryError:
        raise
    except Exception as error:
        # Whoever checks it later meets it again, and says whose it is.
        log.info("The document could not be checked here: %s", error)
        return None
    return [packed(one) for one in found] if len(found) <= MOST_FINDINGS else None
