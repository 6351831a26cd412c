"""Documents written from typed objects: they say the same as those that were read, to the letter of every value.

What a document says to parsers only is not written again: comments, processing instructions, schema locations, prefixes
and the white space between elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.sax.saxutils import escape

from dcc.documents.contents import Block, Content, Specimen
from dcc.documents.forms import NAMESPACES, ROOTS, Form
from dcc.naming import DocumentKind

_IN_TEXT = {"\r": "&#13;"}
_IN_ATTRIBUTES = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_INDENT = "  "


def write_document(kind: DocumentKind, contents: Iterable[Content]) -> bytes:
    """The document, in UTF-8, that says `contents`: blocks, each followed by what is in it, as read_document yields."""
    return "".join(document_pieces(kind, contents)).encode()


def document_pieces(kind: DocumentKind, contents: Iterable[Content]) -> Iterator[str]:
    """The text of `write_document` piece by piece, for documents that are better not held in memory.

    Raises ValueError when the first of `contents` is not a block, or a block cannot hold what follows it.
    """
    name, root = ROOTS[kind]
    centre = root.forms["centre"]
    in_block = False
    yield f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<{name} xmlns="{NAMESPACES[kind]}">\n'
    for content in contents:
        if isinstance(content, Block):
            if in_block:
                yield f"{_INDENT}</centre>\n"
            yield f"{_INDENT}<centre{_attributes(centre, content)}>\n"
            in_block = True
            continue
        element = content.kind.value if isinstance(content, Specimen) else type(content).__name__.lower()
        if not in_block or element not in centre.forms:
            raise ValueError(f"a {kind} document cannot hold <{element}> {'here' if in_block else 'before a block'}")
        yield "".join(_element(element, centre.forms[element], content, _INDENT * 2))
    if in_block:
        yield f"{_INDENT}</centre>\n"
    yield f"</{name}>\n"


def _attributes(form: Form, values: Any) -> str:
    own = zip(form.names, values[len(form.header) :], strict=False)
    return "".join(f' {name}="{escape(value, _IN_ATTRIBUTES)}"' for name, value in own if name and value is not None)


def _element(name: str, form: Form, value: Any, indent: str) -> Iterator[str]:
    """An element in lines of its own; `value` is its object, or its text where it is but that."""
    if form.made is str:
        yield f"{indent}<{name}>{escape(value, _IN_TEXT)}</{name}>\n"
        return
    tag = f"{indent}<{name}{_attributes(form, value)}"
    if form.text is not None:
        yield f"{tag}>{escape(getattr(value, form.text), _IN_TEXT)}</{name}>\n"
        return
    inner = [
        piece
        for child in form.parts
        for one in _present(getattr(value, child.field), many=child.many)
        for piece in _element(child.name, child.form, one, indent + _INDENT)
    ]
    if not inner:
        yield f"{tag}/>\n"
        return
    yield f"{tag}>\n"
    yield from inner
    yield f"{indent}</{name}>\n"


def _present(value: Any, *, many: bool) -> Iterable[Any]:
    if many:
        return value  # type: ignore[no-any-return]
    return () if value is None else (value,)
