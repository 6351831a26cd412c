"""All schema errors of an invalid document, each with its place.

libxml2 ignores everything after an element that is not permitted, up to the end of its parent. So the document is read
again with these elements hidden, until there is no new error or it has been read often enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lxml import etree

from dcc.documents.locating import Located, Model, Span, hide, locate_errors
from dcc.documents.streaming import Streamed, stream
from dcc.documents.violations import INCOMPLETE, UNEXPECTED, UNPLACED, VALUE
from dcc.documents.well_formedness import Chunks

_LONGEST_HIDDEN = 1_000_000
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"\0<", b"<\0")


def find_schema_errors(
    chunks: Chunks,
    root_tag: str,
    schema: etree.XMLSchema,
    model: Model,
    streamed: Streamed,
    *,
    enough: int,
    readings: int,
) -> list[Located]:
    """Every schema error in document order, one for each wrong value; not many more than `enough`.

    `model` returns the schema's declarations. `streamed` is the result of a first reading. The document is read up to
    `readings` times more.
    """
    hidden: list[Span] = []
    unexpected: list[Located] = []
    while True:
        # libxml2 may report a value twice.
        found = locate_errors(chunks(), root_tag, schema, model, streamed.errors_in_chunk, 2 * enough, hidden)
        errors = [*unexpected, *found.errors]
        further = [span for span in found.unexpected if span[1] - span[0] <= _LONGEST_HIDDEN]
        if not further or not readings or len(errors) >= enough or next(chunks(), b"").startswith(_UTF_16):
            return _merged(errors)
        hidden = sorted([*hidden, *further])
        unexpected += [error for error in found.errors if error.violation.case in UNEXPECTED]
        readings -= 1
        streamed = stream(_hiding(chunks(), hidden), root_tag, schema, enough)


def _hiding(chunks: Iterator[bytes], hidden: Sequence[Span]) -> Iterator[bytes]:
    base = 0
    for chunk in chunks:
        yield hide(chunk, base, hidden)
        base += len(chunk)


def _merged(found: Sequence[Located]) -> list[Located]:
    """The distinct errors, in document order.

    libxml2 may report a value twice, for a facet and for its type, and a missing value for an element that contains
    others. An element with a child that is not permitted may lack another only because that child is misspelt.
    """
    kept: dict[object, Located] = {}
    explained = {error.parent for error in found if error.violation.case in UNEXPECTED}
    blamed = {(error.line, error.column) for error in found if error.violation.case in UNPLACED}
    for error in found:
        place, violation = (error.line, error.column), error.violation
        if violation.case == VALUE and violation.attribute is None and place in blamed:
            continue
        if violation.case == INCOMPLETE and place in explained:
            continue
        about = VALUE if violation.case == VALUE else violation.message
        kept.setdefault((place, violation.attribute, about), error)
    return sorted(kept.values(), key=lambda error: (error.line, error.column))
