"""Makes objects of the elements of a document.

The forms are turned into steps once, when this module is imported. An element's attributes and children are collected
in a dictionary that has all names from the beginning, in the order of the object's fields. So its values are the
object's, and no field has to be looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dcc.documents.contents import SpecimenKind
from dcc.documents.forms import ROOTS, Form
from dcc.errors import SchemaViolationError
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
