"""The validation of a document: well-formed, of the kind that its name announces, and following its schema.

Nearly all documents are valid, and that is decided in one cheap pass: as a whole tree if the document is small, as a
stream in flat memory if not. Only a document that fails is looked at again, for the place of every error.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from lxml import etree

from dcc_resources.documents.locating import Located, locate_errors
from dcc_resources.documents.messages import explain
from dcc_resources.documents.prolog import Doctype, Root, Unreadable, read_prolog
from dcc_resources.documents.schema_set import SchemaSet
from dcc_resources.documents.streaming import CHUNK, Streamed, stream
from dcc_resources.documents.well_formedness import Chunks, Fault, find_fault
from dcc_resources.errors import (
    DocumentError,
    ForbiddenMarkupError,
    NotWellFormedError,
    SchemaViolationError,
    WrongDocumentKindError,
)
from dcc_resources.naming import DocumentKind
from dcc_resources.outcomes import Problem

_own = threading.local()


def validate_document(
    path: Path, kind: DocumentKind, schemas: SchemaSet, *, max_errors: int, max_tree_bytes: int
) -> list[Problem]:
    """What is wrong with the document at `path`, in document order; nothing if it is valid.

    At most `max_errors` problems, each of the kind of a DocumentError; the last one says when there are more. A
    document of more than `max_tree_bytes` is never held in memory. Raises OSError when the file cannot be read.
    """
    if path.stat().st_size <= max_tree_bytes:
        content = path.read_bytes()
        chunks: Chunks = partial(_slices, content)
    else:
        content = None
        chunks = partial(_pieces, path)
    root = read_prolog(chunks())
    if not isinstance(root, Root):
        return [_prolog_problem(root, chunks, path)]
    tag = f"{{{root.namespace}}}{root.name}" if root.namespace else root.name
    if (root.namespace, root.name) not in schemas.roots[kind]:
        return [_wrong_kind(root, kind, schemas)]
    schema = schemas.schema(kind)
    if content is not None and _is_valid(content, schema):
        return []
    streamed = stream(chunks(), tag, schema, max_errors + 1)
    if content is None and streamed.valid:
        return []
    located = locate_errors(chunks(), tag, schema, streamed.errors_in_chunk)
    return _problems(located, find_fault(chunks, tag), streamed, max_errors) or [_unexplained(content, schema)]


def _slices(content: bytes) -> Iterator[bytes]:
    return (content[place : place + CHUNK] for place in range(0, len(content), CHUNK))


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK):
            yield piece


def _is_valid(content: bytes, schema: etree.XMLSchema) -> bool:
    parser: etree.XMLParser | None = getattr(_own, "parser", None)
    if parser is None:
        parser = _own.parser = etree.XMLParser(
            no_network=True, resolve_entities=False, load_dtd=False, collect_ids=False, huge_tree=False
        )
    try:
        return schema.validate(etree.fromstring(content, parser))
    except etree.XMLSyntaxError:
        return False


def _prolog_problem(found: Doctype | Unreadable, chunks: Chunks, path: Path) -> Problem:
    if isinstance(found, Doctype):
        return _problem(
            ForbiddenMarkupError,
            "The document has a document type declaration (<!DOCTYPE), which is refused because it can hide the "
            "reading of other files. Remove it.",
            found.line,
            found.column,
        )
    if path.stat().st_size == 0:
        return _problem(NotWellFormedError, "The file is empty. Export the document again.", 1, 1)
    if found.encoding is not None:
        return _problem(
            NotWellFormedError,
            f"The encoding {found.encoding} is not supported. Save the document as UTF-8.",
            found.line,
            found.column,
        )
    fault = find_fault(chunks, "*") or Fault(f"The document cannot be read: {found.reason}.", found.line, found.column)
    return _problem(NotWellFormedError, fault.message, fault.line, fault.column)


def _wrong_kind(root: Root, kind: DocumentKind, schemas: SchemaSet) -> Problem:
    expected = " or ".join(
        f"<{name}> in the namespace {namespace}" if namespace else f"<{name}>"
        for namespace, name in sorted(schemas.roots[kind])
    )
    actual = f"<{root.name}> in the namespace {root.namespace}" if root.namespace else f"<{root.name}> in no namespace"
    other = next((other for other in DocumentKind if (root.namespace, root.name) in schemas.roots[other]), None)
    hint = f" Its content is that of {other} documents: name it so." if other else ""
    message = f"The root element is {actual}; {kind} documents have {expected}.{hint}"
    return _problem(WrongDocumentKindError, message, root.line, root.column)


def _problems(located: Sequence[Located], fault: Fault | None, streamed: Streamed, max_errors: int) -> list[Problem]:
    found = [
        _problem(
            SchemaViolationError,
            f"{error.violation.text} In {error.context}." if error.context else error.violation.text,
            error.line,
            error.column,
        )
        for error in located
    ]
    if fault is not None:
        found.append(_problem(NotWellFormedError, fault.message, fault.line, fault.column))
    if len(found) <= max_errors and not streamed.stopped:
        return found
    listed = found[:max_errors] if fault is None else [*found[: max_errors - 1], found[-1]]
    more = "there may be more" if streamed.stopped else f"{len(found) - len(listed)} more"
    last = listed[-1]
    listed[-1] = Problem(last.kind, f"{last.message} ({max_errors} errors are listed; {more}.)", last.line, last.column)
    return listed


def _unexplained(content: bytes | None, schema: etree.XMLSchema) -> Problem:
    for entry in schema.error_log if content is not None else ():
        return _problem(SchemaViolationError, explain(entry.message).text, entry.line, 1)
    return _problem(SchemaViolationError, "The document does not follow its schema.", 1, 1)


def _problem(kind: type[DocumentError], message: str, line: int, column: int) -> Problem:
    return Problem(kind.short_name(), message, line, column)
