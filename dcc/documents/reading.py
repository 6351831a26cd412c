"""Reads documents as streams of typed objects, with one specimen, experiment, line or housing in memory at a time.

It uses expat, whose lines are those where tags begin, in documents of any length. libxml2 gives the lines where tags
end, and only estimates them beyond 65,535.
"""

from __future__ import annotations

import pyexpat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

from dcc.documents.contents import Content, SpecimenKind
from dcc.documents.forms import ROOTS, Form
from dcc.errors import (
    DocumentError,
    ForbiddenMarkupError,
    NotWellFormedError,
    SchemaViolationError,
    WrongDocumentKindError,
)
from dcc.naming import DocumentKind

_SPACE = " \t\r\n"
TEXT = ""
"""The name under which an element's own text is collected."""

Parts = dict[str, Any]
"""The attributes, text and children of an element by their names; those of children are in angle brackets."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What to do with an element.

    `name` is in angle brackets; `depth` is that of the element, 0 for the root; `many`: it may occur several times.
    `made` is the class of its object, str for an element that is only text. `children` are the steps below it, by names
    without brackets. `blank` are its `size` parts before anything is read.
    """

    name: str
    depth: int
    many: bool
    made: type[Any]
    children: dict[str, Step]
    blank: Parts
    size: int
    required: frozenset[str]
    typed: tuple[str, ...]
    has_text: bool
    lists: tuple[str, ...]
    needed: tuple[str, ...]
    specimen: SpecimenKind | None

    def sift(self, attributes: dict[str, str], line: int) -> Parts:
        """The parts that are attributes. Raises SchemaViolationError for a missing or unknown one.

        Attributes for namespaces and parsers (xmlns, xsi:type, xsi:schemaLocation) are ignored.
        """
        missing = sorted(self.required.difference(attributes))
        if missing:
            raise violation(line, f"the element here has no attribute {missing[0]}")
        telling = {name: text for name, text in attributes.items() if name != "xmlns" and ":" not in name}
        unknown = [name for name in telling if name not in self.blank]
        if unknown:
            raise violation(line, f"nothing is known of an attribute {unknown[0]} here")
        return self.blank | telling

    def make(self, line: int, position: int, parts: Parts) -> Any:
        """The object of a complete element; `position` is 0 unless it is a block or directly in one.

        Raises SchemaViolationError for a missing child.
        """
        for name in self.typed:
            if parts[name] is not None:
                parts[name] = parts[name].strip(_SPACE)
        if self.lists:
            for name in self.lists:
                parts[name] = tuple(parts[name])
        if self.needed:
            for name in self.needed:
                if not parts[name]:
                    raise violation(line, f"the element here has no {name}")
        if not position:
            return tuple.__new__(self.made, (line, *parts.values()))
        if self.specimen is None:
            return tuple.__new__(self.made, (line, position, *parts.values()))
        return tuple.__new__(self.made, (line, position, self.specimen, *parts.values()))


def violation(line: int, reason: str) -> SchemaViolationError:
    """The error for content that no object can represent."""
    return SchemaViolationError(f"Line {line}: {reason}. Only what the platform's own schemas permit can be read.")


def _step(form: Form, name: str, depth: int = 0, *, many: bool = False) -> Step:
    children = {f"<{child.name}>": child for child in form.children}
    fields = {name: child for name, child in children.items() if child.field}
    text = {} if form.text is None else {TEXT: None}
    blank = {
        **{attribute.name or f"/{attribute.field}": None for attribute in form.attributes},
        **text,
        **{name: () if child.many else None for name, child in fields.items()},
    }
    typed = [attribute.name for attribute in form.attributes if attribute.typed]
    return Step(
        name=name,
        depth=depth,
        many=many,
        made=form.made,
        children={child.name: _step(child.form, name, depth + 1, many=child.many) for name, child in children.items()},
        blank=blank,
        size=len(blank),
        required=frozenset(attribute.name for attribute in form.attributes if attribute.required),
        typed=(*typed, TEXT) if form.typed_text else tuple(typed),
        has_text=form.made is str or form.text is not None,
        lists=tuple(name for name, child in fields.items() if child.many),
        needed=tuple(name for name, child in fields.items() if child.required),
        specimen=form.specimen,
    )


STEPS: dict[DocumentKind, tuple[str, Step]] = {
    kind: (name, _step(form, f"<{name}>")) for kind, (name, form) in ROOTS.items()
}
"""The name of each kind's root element, and the step for it."""


CHUNK = 64 * 1024
_ENTITY = 2


class _Names(dict[str, str]):
    """Names without their prefixes: all elements of a valid document are in one namespace."""

    def __missing__(self, qualified: str) -> str:
        local = self[qualified] = qualified.rpartition(":")[2]
        return local


def read_document(path: Path, kind: DocumentKind) -> Iterator[Content]:
    """The content of the document at `path`, in its order: each block, followed by its entities.

    The document must be valid (dcc.documents.validation). Raises OSError if the file cannot be read. Raises a
    DocumentError with the line if the document is not well-formed, has a document type declaration, is of another kind,
    or has content that no object can represent. A site's own schemas may permit such content.
    """
    root, step = STEPS[kind]
    built: list[Content] = []
    parser = pyexpat.ParserCreate()
    parser.buffer_text = True

    def on_doctype(*_declaration: object) -> NoReturn:
        reason = "the document has a document type declaration (<!DOCTYPE)"
        raise _refusal(ForbiddenMarkupError, parser.CurrentLineNumber, reason)

    def on_root(name: str, _attributes: object) -> None:
        if name.rpartition(":")[2] != root:
            reason = f"the root element is <{name}>, not that of {kind} documents, <{root}>"
            raise _refusal(WrongDocumentKindError, parser.CurrentLineNumber, reason)
        parser.StartElementHandler, parser.EndElementHandler = _handlers(parser, step, built.append)

    parser.StartDoctypeDeclHandler = on_doctype
    parser.StartElementHandler = on_root
    try:
        with path.open("rb", buffering=0) as file:
            for chunk in chain(iter(partial(file.read, CHUNK), b""), [b""]):
                _parse(parser, chunk)
                yield from built
                built.clear()
    finally:
        # The parser and its handlers refer to each other: without these, their memory is free at once.
        parser.StartElementHandler = parser.EndElementHandler = None
        parser.CharacterDataHandler = parser.StartDoctypeDeclHandler = None


def _parse(parser: pyexpat.XMLParserType, chunk: bytes) -> None:
    """Read on; an empty chunk is the end."""
    try:
        parser.Parse(chunk, not chunk)
    except pyexpat.ExpatError as error:
        reason = f"the document is not well-formed XML ({pyexpat.ErrorString(error.code)})"
        raise _refusal(NotWellFormedError, error.lineno, reason) from error
    except (LookupError, ValueError) as error:
        raise _refusal(NotWellFormedError, 1, "the encoding is not supported") from error


def _handlers(
    parser: pyexpat.XMLParserType, root: Step, emit: Callable[[Any], None]
) -> tuple[Callable[[str, dict[str, str]], None], Callable[[str], None]]:
    """The handlers for the begin and end of an element, from the root element on.

    Nearly all time is spent in these, so their state is in variables. Text is only collected if an element may have it.
    """
    names = _Names()
    texts: list[str] = []
    around: list[tuple[Step, int, Parts]] = []
    push, pop, take_text, clear_texts = around.append, around.pop, texts.append, texts.clear
    step, text_step = root, None
    blocks = position = line = 0
    parts: Parts = {}

    def on_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal blocks, line, parts, position, step, text_step
        below = step.children.get(name) or step.children.get(names[name])
        if below is None or text_step is not None:
            raise violation(parser.CurrentLineNumber, f"nothing is known of an element <{name}> here")
        if below.has_text:
            parser.CharacterDataHandler = take_text
        if below.made is str:
            text_step = below
            if attributes:
                below.sift(attributes, parser.CurrentLineNumber)
            return
        push((step, line, parts))
        step, line = below, parser.CurrentLineNumber
        parts = below.blank | attributes
        if len(parts) != below.size or not below.required.issubset(attributes):
            parts = below.sift(attributes, line)
        if below.depth < _ENTITY:
            blocks, position = blocks + 1, 0
            emit(below.make(line, blocks, parts))

    def on_end(_name: str) -> None:
        nonlocal line, parts, position, step, text_step
        if text_step is not None:
            parser.CharacterDataHandler = None
            ended, value = text_step, "".join(texts)
            clear_texts()
            text_step = None
        elif step.depth > _ENTITY:
            if step.has_text:
                parser.CharacterDataHandler = None
                parts[TEXT] = "".join(texts)
                clear_texts()
            ended, value = step, step.make(line, 0, parts)
            step, line, parts = pop()
        else:
            if step.depth == _ENTITY:
                position += 1
                emit(step.make(line, position, parts))
            if around:
                step, line, parts = pop()
            return
        name = ended.name
        if ended.many:
            if parts[name]:
                parts[name].append(value)
            else:
                parts[name] = [value]
        elif parts[name] is None:
            parts[name] = value
        else:
            raise violation(line, f"the element here has more than one {name}")

    return on_start, on_end


def _refusal(kind: type[DocumentError], line: int, reason: str) -> DocumentError:
    return kind(f"Line {line}: {reason}. Only valid documents can be read: see what dcc validate says.")
