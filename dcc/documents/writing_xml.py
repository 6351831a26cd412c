"""Writes documents from typed objects, with exactly the values that were read.

Parts that concern only parsers are lost: comments, processing instructions, schema locations, prefixes and the white
space between elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from dcc.documents.contents import Block, Content, element_name
from dcc.documents.forms import NAMESPACES, ROOTS, Form
from dcc.naming import DocumentKind

_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_IN_TEXT = str.maketrans(_MARKUP)
_IN_ATTRIBUTES = str.maketrans({**_MARKUP, '"': "&quot;", "\t": "&#9;", "\n": "&#10;"})
_INDENT = "  "


class _Tag(NamedTuple):
    """A tag, with the text and the end of an element that holds no others; `line` is its object's, None for ends."""

    depth: int
    text: str
    line: int | None = None


def document_pieces(kind: DocumentKind, contents: Iterable[Content]) -> Iterator[str]:
    """The document with `contents`, piece by piece: blocks, each followed by its entities, as by `read_document`.

    Raises ValueError if the first of `contents` is not a block, or a block cannot contain what follows it.
    """
    yield '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    for tag in _tags(kind, contents):
        yield f"{_INDENT * tag.depth}{tag.text}\n"


def pieces_on_their_lines(beginning: str, kind: DocumentKind, contents: Iterable[Content]) -> Iterator[tuple[int, str]]:
    """Piece by piece, a document in which each element stands on the line that its object says.

    Each piece comes with the line feeds that go before it. `beginning` is everything before the root element. Raises
    ValueError as `document_pieces`, and for a line that is before another's.
    """
    yield 0, beginning
    last = 1
    for tag in _tags(kind, contents):
        line = last if tag.line is None else tag.line
        if line < last:
            raise ValueError(f"what is of row {line} comes after what is of row {last}")
        yield line - last, tag.text.replace("\n", "&#10;")
        last = line
    yield 1, ""


def content_lines(kind: DocumentKind, content: Content) -> list[str]:
    """The lines of one block's tag, or of one entity, as `document_pieces` has them, without indentation."""
    _, root = ROOTS[kind]
    centre = root.forms["centre"]
    if isinstance(content, Block):
        return [f"<centre{_attributes(centre, content)}>"]
    element = element_name(content)
    return [f"{_INDENT * tag.depth}{tag.text}" for tag in _element(element, centre.forms[element], content, 0)]


def _tags(kind: DocumentKind, contents: Iterable[Content]) -> Iterator[_Tag]:
    name, root = ROOTS[kind]
    centre = root.forms["centre"]
    in_block = False
    yield _Tag(0, f'<{name} xmlns="{NAMESPACES[kind]}">')
    for content in contents:
        if isinstance(content, Block):
            if in_block:
                yield _Tag(1, "</centre>")
            yield _Tag(1, f"<centre{_attributes(centre, content)}>", content.line)
            in_block = True
            continue
        element = element_name(content)
        if not in_block or element not in centre.forms:
            raise ValueError(f"a {kind} document cannot hold <{element}> {'here' if in_block else 'before a block'}")
        yield from _element(element, centre.forms[element], content, 2)
    if in_block:
        yield _Tag(1, "</centre>")
    yield _Tag(0, f"</{name}>")


def _attributes(form: Form, content: Any) -> str:
    own = ((one.name, getattr(content, one.field)) for one in form.attributes if one.name)
    return "".join(f' {name}="{value.translate(_IN_ATTRIBUTES)}"' for name, value in own if value is not None)


def _element(name: str, form: Form, value: Any, depth: int) -> Iterator[_Tag]:
    """The tags of an element; `value` is its object, or its text."""
    if form.made is str:
        yield _Tag(depth, f"<{name}>{value.translate(_IN_TEXT)}</{name}>")
        return
    tag = f"<{name}{_attributes(form, value)}"
    if form.text is not None:
        yield _Tag(depth, f"{tag}>{getattr(value, form.text).translate(_IN_TEXT)}</{name}>", value.line)
        return
    inner = [
        piece
        for child in form.parts
        for one in _present(getattr(value, child.field), many=child.many)
        for piece in _element(child.name, child.form, one, depth + 1)
    ]
    if not inner:
        yield _Tag(depth, f"{tag}/>", value.line)
        return
    yield _Tag(depth, f"{tag}>", value.line)
    yield from inner
    yield _Tag(depth, f"</{name}>")


def _present(value: Any, *, many: bool) -> Iterable[Any]:
    if many:
        return value  # type: ignore[no-any-return]
    return () if value is None else (value,)
