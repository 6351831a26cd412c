"""What a schema permits at a place of a document: attributes, values and elements, as xmlschema reads it.

The verdict on a document is libxml2's. The model is asked only about a tag that libxml2 refused, so that xmlschema is
imported where a document is not valid, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lxml import etree
from xmlschema import XMLSchema10, XMLSchemaException
from xmlschema.validators import ModelVisitor, XsdAtomicBuiltin, XsdElement, XsdEnumerationFacets, XsdPatternFacets

from dcc.documents.streaming import Runs

_XS: Final = "{http://www.w3.org/2001/XMLSchema}"
_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_XSI_TYPE: Final = f"{_XSI}type"
_LONGEST_RUN: Final = 1_000
_OF_WORDS: Final = {f"{_XS}{name}" for name in ("boolean", "date", "dateTime", "decimal", "double", "float", "time")}


@dataclass(frozen=True, slots=True)
class ValueRefusal:
    """Why a type does not permit a value.

    `kind` is the facet that the value breaks, with the `limit` that it sets, such as `maxLength`. Else it is the type
    of XML Schema that the value's own is made of, such as `date`; empty for a list or a union. `permitted` are the
    values of an enumeration.
    """

    value: str
    kind: str
    limit: str = ""
    permitted: tuple[str, ...] = ()


def read_model(path: Path) -> SchemaModel | None:
    """The model of a schema; None for one that xmlschema does not take, though libxml2 does."""
    try:
        return SchemaModel(XMLSchema10(path, allow="local", use_cache=False))
    except (XMLSchemaException, OSError):
        return None


class SchemaModel:
    """The declarations of a schema."""

    def __init__(self, schema: XMLSchema10) -> None:
        self._schema = schema

    def declared(self, element: etree._Element) -> ElementDeclaration | None:
        """What is declared of an element by those around it; None for one that is not, or that names its own type."""
        found = self._find(element)
        return None if found is None else ElementDeclaration(found)

    def _find(self, element: etree._Element) -> Any:
        if _XSI_TYPE in element.attrib:
            return None
        parent = element.getparent()
        if parent is None:
            return self._schema.maps.elements.get(element.tag)
        around = self._find(parent)
        group = None if around is None else around.type.model_group
        for child in () if group is None else group.elements:
            found = child.match(element.tag) if isinstance(child, XsdElement) else None
            if found is not None:
                return found
        return None


class ElementDeclaration:
    """What a schema declares of an element."""

    def __init__(self, element: Any) -> None:
        self._element = element

    def missing_attributes(self, attributes: Mapping[str, str]) -> list[str]:
        """The names of the attributes that the element must have beyond those given."""
        declared = self._element.attributes.items()
        return [name for name, one in declared if name is not None and one.use == "required" and name not in attributes]

    def unknown_attributes(self, attributes: Mapping[str, str]) -> list[str]:
        """The names of those given that the element may not have."""
        any_other = self._element.attributes.get(None)
        others = [name for name in attributes if name not in self._element.attributes and not name.startswith(_XSI)]
        return [name for name in others if any_other is None or not any_other.is_matching(name)]

    def refused_attributes(self, attributes: Mapping[str, str]) -> Iterator[tuple[str, ValueRefusal]]:
        """The attributes, of those given, whose values are not permitted."""
        for name, value in attributes.items():
            declared = self._element.attributes.get(name)
            refusal = None if declared is None else _refusal(declared.type, value)
            if refusal is not None:
                yield name, refusal

    def refused_text(self, text: str) -> ValueRefusal | None:
        """Why the element may not hold this text; None for one that may, or that holds other elements."""
        return None if self._type_of_text is None else _refusal(self._type_of_text, text)

    def unexplained_text(self, text: str) -> ValueRefusal | None:
        """Why the element may not hold text that libxml2 alone refuses; None unless it is of a type built into XSD."""
        built_in = isinstance(self._type_of_text, XsdAtomicBuiltin)
        return ValueRefusal(text, _built_in(self._type_of_text)) if built_in else None

    @property
    def _type_of_text(self) -> Any:
        own = self._element.type
        return own if own.is_simple() else own.content if own.has_simple_content() else None

    def children_after(self, before: Runs) -> list[str]:
        """The names of the children that the element may have after those before."""
        group = self._element.type.model_group
        if group is None:
            return []
        model = ModelVisitor(group)
        for name, times in before:
            for _ in range(min(times, _LONGEST_RUN)):
                _advance(model, name)
        names = dict.fromkeys(child.name for child in group.elements if isinstance(child, XsdElement))
        return [name for name in names if _advance(copy(model), name)]


def _advance(model: ModelVisitor, name: str) -> bool:
    """Take a model past the next element; whether it may stand there."""
    while model.element is not None:
        if model.match_element(name) is not None:
            return not list(model.advance(True))
        if list(model.advance()):
            return False
    return False


def _refusal(value_type: Any, value: str) -> ValueRefusal | None:
    """Why a type does not permit a value: what its enumeration says of it, or the first thing that is wrong."""
    built_in = _built_in(value_type)
    try:
        facets = [error.validator for error in value_type.iter_errors(value)]
    except ArithmeticError:
        # Such as of a date in a year of twenty digits.
        return ValueRefusal(value, built_in)
    if not facets:
        return ValueRefusal(value, built_in) if _is_no_word(value) and _holds_words(value_type) else None
    for facet in facets:
        if isinstance(facet, XsdEnumerationFacets):
            return ValueRefusal(value, built_in, permitted=tuple(map(str, facet.enumeration)))
    facet = facets[0]
    if built_in and getattr(facet, "parent", None) is not None and not isinstance(facet.parent, XsdAtomicBuiltin):
        limit = ", ".join(facet.regexps) if isinstance(facet, XsdPatternFacets) else str(facet.value)
        return ValueRefusal(value, etree.QName(facet.elem.tag).localname, limit)
    return ValueRefusal(value, built_in)


def _is_no_word(value: str) -> bool:
    return not value.isascii() or "_" in value or len(value.split()) > 1


def _holds_words(value_type: Any) -> bool:
    """Whether a type's values are ASCII without spaces; xmlschema takes other texts, libxml2 does not."""
    primitive = getattr(value_type, "primitive_type", None)
    return getattr(primitive, "name", None) in _OF_WORDS


def _built_in(value_type: Any) -> str:
    while value_type is not None and not isinstance(value_type, XsdAtomicBuiltin):
        value_type = value_type.base_type
    return "" if value_type is None else str(value_type.name).removeprefix(_XS)
