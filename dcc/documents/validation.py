"""Validates a document: well-formed, of the kind in its name, and following its schema.

Nearly all documents are valid, which is decided in one cheap pass: as a complete tree for a small document, as a stream
in constant memory for any other. Only an invalid document is read again, for the place of every error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree

from dcc.declarations import code_of
from dcc.documents.prolog import (
    LONGEST_TAG,
    Doctype,
    Root,
    TagTooLongError,
    UnreadableProlog,
    read_prolog,
    with_short_tags,
)
from dcc.documents.schema_errors import LocatedViolation, find_schema_errors
from dcc.documents.schema_set import SchemaSet
from dcc.documents.streaming import CHUNK, stream
from dcc.documents.well_formedness import Chunks, WellFormednessFault, find_fault, place_of
from dcc.errors import (
    DocumentError,
    ForbiddenMarkupError,
    NotWellFormedError,
    SchemaViolationError,
    WrongDocumentKindError,
)
from dcc.messages import Message, mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import Problem

_FINISHED_TREE_BYTES = 128 * 1024
_READINGS_IN_MEMORY = 10
_READINGS_OF_FILE = 4

_own = threading.local()


def validate_document(
    path: Path, kind: DocumentKind | None, schemas: SchemaSet, *, max_errors: int, max_tree_bytes: int
) -> list[Problem]:
    """The problems of the document at `path`, in document order; none if it is valid.

    At most `max_errors` problems, each of the kind of a DocumentError; the last one says if there are more. A document
    of more than `max_tree_bytes` is never completely in memory. Without a `kind`, the root element decides, and a
    difference of kinds is no problem. Raises OSError if the file cannot be read.
    """
    content = _read_if_small(path, max_tree_bytes)
    unbounded: Chunks = partial(_pieces, path) if content is None else partial(_slices, content)
    try:
        return _problems_of(content, lambda: with_short_tags(unbounded()), path, kind, schemas, max_errors)
    except TagTooLongError as error:
        text = message(
            mark("A single tag is longer than {number} bytes, which is refused. Export the document again."),
            number=LONGEST_TAG,
        )
        return [_problem(NotWellFormedError, text, *place_of(unbounded(), error.start))]


def _problems_of(
    content: bytes | None, chunks: Chunks, path: Path, kind: DocumentKind | None, schemas: SchemaSet, max_errors: int
) -> list[Problem]:
    """The problems of a document given in chunks, and as `content` where that is in memory. Raises TagTooLongError."""
    root = read_prolog(chunks())
    if not isinstance(root, Root):
        return [_prolog_problem(root, chunks, path)]
    tag = f"{{{root.namespace}}}{root.name}" if root.namespace else root.name
    actual = schemas.kind_of(root.namespace, root.name)
    if actual is None or kind not in {actual, None}:
        return [_wrong_kind(root, actual, kind, schemas)]
    schema = schemas.schema(actual)
    small = content if content is not None and len(content) <= _FINISHED_TREE_BYTES else None
    if small is not None and _is_valid_tree(small, schema):
        return []
    streamed = stream(chunks(), tag, schema, max_errors + 1)
    if streamed.valid and small is None:
        return []
    readings = _READINGS_IN_MEMORY if content is not None else _READINGS_OF_FILE
    errors = find_schema_errors(
        chunks, tag, schema, partial(schemas.model, actual), streamed, enough=max_errors + 1, readings=readings
    )
    problems = _problems(errors, find_fault(chunks, tag), max_errors, complete=not streamed.stopped)
    return problems or [_problem(SchemaViolationError, message(mark("The document does not follow its schema.")), 1, 1)]


def _read_if_small(path: Path, max_tree_bytes: int) -> bytes | None:
    with path.open("rb", buffering=0) as document:
        return document.readall() if os.fstat(document.fileno()).st_size <= max_tree_bytes else None


def _slices(content: bytes) -> Iterator[bytes]:
    return (content[place : place + CHUNK] for place in range(0, len(content), CHUNK))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK):
            yield piece


def _is_valid_tree(content: bytes, schema: etree.XMLSchema) -> bool:
    """The fastest way for a valid document; its time grows with the square of the number of errors."""
    parser: etree.XMLParser | None = getattr(_own, "parser", None)
    if parser is None:
        parser = _own.parser = etree.XMLParser(
            no_network=True, resolve_entities=False, load_dtd=False, collect_ids=False
        )
    try:
        return schema.validate(etree.fromstring(content, parser))
    except etree.XMLSyntaxError:
        return False


def _prolog_problem(found: Doctype | UnreadableProlog, chunks: Chunks, path: Path) -> Problem:
    if isinstance(found, Doctype):
        return _problem(
            ForbiddenMarkupError,
            message(
                mark(
                    "The document has a document type declaration (<!DOCTYPE), which is refused because it can "
                    "hide the reading of other files. Remove it."
                )
            ),
            found.line,
            found.column,
        )
    if path.stat().st_size == 0:
        return _problem(
            NotWellFormedError, message(mark("The file is empty. Export the document again.")), 1, 1, "empty"
        )
    if found.encoding is not None:
        return _problem(
            NotWellFormedError,
            message(
                mark("The encoding {encoding} is not supported. Save the document as UTF-8."), encoding=found.encoding
            ),
            found.line,
            found.column,
            "encoding",
        )
    unread = message(mark("The document cannot be read: {reason}."), reason=Message(found.reason))
    fault = find_fault(chunks, "*") or WellFormednessFault(unread, found.line, found.column)
    return _problem(NotWellFormedError, fault.translatable, fault.line, fault.column, fault.case)


def _wrong_kind(root: Root, actual: DocumentKind | None, kind: DocumentKind | None, schemas: SchemaSet) -> Problem:
    wanted = [kind] if kind else list(DocumentKind)
    roots = sorted(expected for one in wanted for expected in schemas.roots[one])
    expected = [_rooted(name, namespace) for namespace, name in roots]
    details: dict[str, Any] = {
        "root": _rooted(root.name, root.namespace),
        "expected": expected[0]
        if len(expected) == 1
        else message(mark("{rooted} or {other_rooted}"), rooted=expected[0], other_rooted=expected[1]),
        "kind": str(kind or ""),
        "actual": str(actual or ""),
    }
    text = mark("The root element is {root}; documents have {expected}.")
    if kind and actual:
        text = mark(
            "The root element is {root}; {kind} documents have {expected}. Its content is that of {actual} documents: "
            "name it so."
        )
    elif kind:
        text = mark("The root element is {root}; {kind} documents have {expected}.")
    return _problem(WrongDocumentKindError, Message(text, details), root.line, root.column)


def _rooted(name: str, namespace: str) -> Message:
    if not namespace:
        return message(mark("<{root}> in no namespace"), root=name)
    return message(mark("<{root}> in the namespace {namespace}"), root=name, namespace=namespace)


def _problems(
    errors: Sequence[LocatedViolation], fault: WellFormednessFault | None, max_errors: int, *, complete: bool
) -> list[Problem]:
    """The problems to report, at most `max_errors`; `complete`: `errors` are all that there are."""
    found = [
        _problem(
            SchemaViolationError,
            _in_context(error),
            error.line,
            error.column,
            error.violation.case,
        )
        for error in errors
    ]
    if fault is not None:
        found.append(_problem(NotWellFormedError, fault.translatable, fault.line, fault.column, fault.case))
    if len(found) <= max_errors and complete:
        return found
    listed = found[:max_errors] if fault is None else [*found[: max_errors - 1], found[-1]]
    last = listed[-1]
    more = mark("{problem} (Only {number} of the errors are listed.)")
    listed[-1] = replace(last, translatable=_around(more, last.fact, number=len(listed)))
    return listed


def _in_context(error: LocatedViolation) -> Message:
    text = error.violation.message
    return _around(mark("{problem} In {context}."), text, context=error.context) if error.context else text


def _around(text: str, inner: Message, **details: Any) -> Message:
    return Message(text, {"problem": inner, **details})


def _problem(kind: type[DocumentError], text: Message, line: int, column: int, case: str = "") -> Problem:
    return Problem(kind.short_name(), text, line, column, code_of(kind.error_id(), case))
