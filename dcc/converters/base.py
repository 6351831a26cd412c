"""The interface of converters, which make documents of submitted files in other formats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dcc.documents.contents import Content
from dcc.documents.forms import ROOTS, Form
from dcc.messages import Message
from dcc.naming import DocumentKind


@dataclass(frozen=True, slots=True)
class SubmittedFile:
    """A file to convert: its path in the archive, its place on disk, and the centre of the archive's name, if any."""

    place: str
    path: Path
    centre: str | None


class ConversionFault(NamedTuple):
    """A problem of a file, at a row and a column. `case` is `column` for a problem of a complete column."""

    row: int
    said: Message
    column: str | None = None
    case: str = ""


class Converter(Protocol):
    """Makes documents of files in another format; an installed package names its factory as `dcc.converters`.

    `name` is its name in messages. `columns` maps attributes to columns with other names: see
    `dcc.documents.origins.Origin`.
    """

    name: str
    columns: Mapping[str, str]

    def kinds(self, name: str) -> Collection[DocumentKind]:
        """The kinds of documents that a file of that name becomes; none if it is not for this converter."""
        ...

    def convert(self, file: SubmittedFile, kind: DocumentKind) -> Iterator[Content | ConversionFault]:
        """The content of the document of a kind for a file, as `dcc.documents.reading.read_document` yields it.

        The `line` of each object is its row in the file, counted from 1. Rows may not go backwards, nor within an
        object, whose parts follow in the order of the schema. `position` is ignored. Files may be large: yield while
        reading. A file with a Fault is refused as a whole; continue after one if further ones can be found. The schema
        and the rules are checked afterwards: what they refuse is no Fault.
        """
        ...


def form_of(kind: DocumentKind, path: str) -> Form:
    """The form of an element below the `centre` of a document of a kind, or of that."""
    form = ROOTS[kind][1].forms["centre"]
    for name in filter(None, path.split("/")):
        form = form.forms[name]
    return form


def element(kind: DocumentKind, path: str, row: int, values: Mapping[str, str | None], **fields: Any) -> Any:
    """An object of `dcc.documents.contents` for an element below the `centre` of a document of a kind.

    `path` names it, such as `mouse` or `experiment/procedure/simpleParameter`, and is empty for the `centre`. `values`
    has its attributes by their names, and its text, if it has any, by the empty name. `fields` has its children by the
    fields of the class. Missing values are absent.
    """
    form = form_of(kind, path)
    given: dict[str, Any] = {
        attribute.field: values.get(attribute.name) if attribute.name else None for attribute in form.attributes
    }
    if form.text is not None:
        given[form.text] = values.get("") or ""
    given |= {child.field: () if child.many else None for child in form.parts}
    header = {"line": row, "position": 0, "kind": form.specimen}
    return form.made(**{name: header[name] for name in header if name in form.made._fields}, **(given | fields))
