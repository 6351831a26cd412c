"""Schema errors as facts that the person who exported the document understands.

libxml2 tells of what type an error is and after which tag it arose. What is wrong there is read in the element and in
what the schema declares of it. Where these do not tell it, libxml2's own sentence is shown, whole and in English.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from lxml import etree

from dcc.documents.streaming import MAX_RUNS, PruningParser, Runs
from dcc.messages import Message, mark, message

if TYPE_CHECKING:
    from dcc.documents.schema_model import ElementDeclaration, SchemaModel, ValueRefusal

_LONGEST_VALUE = 80
_LONGEST_SENTENCE = 500
_MAX_CHOICES = 30

EXPECTATIONS: Final = {
    "boolean": mark("true or false"),
    "date": mark("a date such as 2013-10-31"),
    "dateTime": mark("a date and time such as 2013-10-31T09:30:00"),
    "time": mark("a time such as 09:30:00"),
    "integer": mark("a whole number such as 42"),
    "int": mark("a whole number between -2147483648 and 2147483647"),
    "long": mark("a whole number such as 42"),
    "nonNegativeInteger": mark("a whole number, 0 or more"),
    "positiveInteger": mark("a whole number, 1 or more"),
    "decimal": mark("a number such as 12.5, without an exponent"),
    "double": mark("a number such as 12.5 or 1.25e1"),
    "float": mark("a number such as 12.5 or 1.25e1"),
    "anyURI": mark("an address (URI)"),
    "length": mark("a length of {limit}"),
    "maxLength": mark("a length of at most {limit}"),
    "minLength": mark("a length of at least {limit}"),
    "pattern": mark("a value of the pattern {limit}"),
    "minInclusive": mark("{limit} or more"),
    "maxInclusive": mark("{limit} or less"),
    "minExclusive": mark("more than {limit}"),
    "maxExclusive": mark("less than {limit}"),
    "totalDigits": mark("at most {limit} digits"),
    "fractionDigits": mark("at most {limit} digits after the point"),
}
"""What a type of XML Schema, or a facet of a schema's own type, expects of a value."""

VALUE: Final = "value"
INCOMPLETE: Final = "incomplete"
UNEXPECTED: Final = ("unexpected", "out_of_place")
"""The cases of an element that is not permitted; libxml2 looks at nothing that follows it in its parent."""
UNPLACED: Final = ("other", "missing_attribute", "unknown_attribute")
"""The cases of anything but values and places."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A schema error. `attribute` is its local name, None when the error concerns the element.

    `case` is which of the declarations of SchemaViolationError it is. `of_parent`: it concerns the element around.
    """

    attribute: str | None
    message: Message
    case: str = "other"
    of_parent: bool = False


@dataclass(frozen=True)
class Tag:
    """A tag after which libxml2 reported errors: that which `begins` the element, `ends` it, or does both.

    `tree` is what there is of the document so far; the `model` of its schema is None where that cannot be read.
    """

    element: etree._Element
    begins: bool
    ends: bool
    tree: PruningParser
    model: SchemaModel | None

    @property
    def name(self) -> str:
        """The element's local name."""
        return _local(str(self.element.tag))

    @cached_property
    def attributes(self) -> Mapping[str, str]:
        """The element's attributes by their names."""
        return {str(name): str(value) for name, value in self.element.attrib.items()}

    @cached_property
    def declared(self) -> ElementDeclaration | None:
        """What the schema says of the element; None where it says nothing."""
        return None if self.model is None else self.model.declared(self.element)

    def expected_here(self) -> list[str] | None:
        """The names of the elements that may stand where this one begins; None where that is not known."""
        parent = self.element.getparent()
        if parent is None or self.model is None:
            return None
        return _expected_after(self.model.declared(parent), self.tree.children(parent, but_last=True))

    def expected_within(self) -> list[str] | None:
        """The names of the elements that may stand before its end; None where that is not known."""
        return _expected_after(self.declared, self.tree.children(self.element))


def _expected_after(declared: ElementDeclaration | None, children: Runs) -> list[str] | None:
    return None if declared is None or len(children) >= MAX_RUNS else declared.children_after(children)


def violations_at(tag: Tag, entries: Sequence[etree._LogEntry]) -> list[Violation]:
    """What libxml2's errors after a tag say: at least one for each sort of error among them."""
    by_look: dict[_Look | None, list[etree._LogEntry]] = {}
    for entry in entries:
        by_look.setdefault(_LOOKS.get(entry.type_name), []).append(entry)
    found = []
    for look, those in by_look.items():
        found += (look and look(tag)) or [_sentence(tag, entry) for entry in those]
    return found


def quoted(value: str) -> str:
    """A value in double quotes, shortened to 80 characters, with what cannot be printed escaped."""
    return f'"{_legible(value, _LONGEST_VALUE)}"'


def shortened(text: str, longest: int = _LONGEST_VALUE) -> str:
    """A text that is cut where it is too long, and ends in points then."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _legible(text: str, longest: int) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shortened(text, longest))


def _sentence(tag: Tag, entry: etree._LogEntry) -> Violation:
    case = "other"
    if entry.type_name == _CONTENT and not (tag.begins and tag.ends):
        case = "out_of_place" if tag.begins else INCOMPLETE
    reason, others = Message(_legible(entry.message, _LONGEST_SENTENCE)), message(mark("other elements"))
    return _violation(tag, mark("Element <{element}>: {reason}"), case, reason=reason, expected=others)


def _violation(
    tag: Tag,
    text: str,
    case: str = "other",
    *,
    attribute: str | None = None,
    of_parent: bool = False,
    **details: Any,
) -> Violation:
    parent = tag.element.getparent() if of_parent else None
    element = tag.name if parent is None else _local(str(parent.tag))
    what = message("<{element}>", element=element)
    if attribute is not None:
        what = message(mark('Attribute "{attribute}" of <{element}>'), attribute=attribute, element=element)
    known = {"element": element, "attribute": attribute or "", "what": what, **details}
    return Violation(attribute, Message(text, known), case, of_parent)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _choice(names: Sequence[str]) -> Message:
    """One of several names, of which many are not told."""
    shown, more = names[:_MAX_CHOICES], len(names) - _MAX_CHOICES
    if more > 0:
        return message(mark("{first} or {number} more"), first=", ".join(shown), number=more)
    if len(shown) == 1:
        return Message(shown[0])
    return message(mark("{first} or {last}"), first=", ".join(shown[:-1]), last=shown[-1])


def _tags(names: Sequence[str]) -> Message:
    return _choice([f"<{_local(name)}>" for name in names])


def _content(tag: Tag) -> list[Violation]:
    """An element that is not permitted where it stands, or, where it is, one that lacks another."""
    expected = tag.expected_here() if tag.begins else None
    if expected is not None and tag.element.tag not in expected:
        return [_unexpected(tag, expected)]
    expected = tag.expected_within() if tag.ends else None
    if expected:
        text = mark("Element <{element}> is incomplete: expected {expected} in it.")
        return [_violation(tag, text, INCOMPLETE, expected=_tags(expected))]
    return []


def _unexpected(tag: Tag, expected: Sequence[str]) -> Violation:
    namesake = next((name for name in expected if _local(name) == tag.name), None)
    if namesake is not None:
        return _in_namespace(tag, namesake)
    if not expected:
        text = mark("Element <{element}> is not permitted here: nothing more was expected in the element around it.")
        return _violation(tag, text, "out_of_place")
    text = mark("Element <{element}> is not permitted here; expected {expected}.")
    return _violation(tag, text, "unexpected", expected=_tags(expected))


def _in_namespace(tag: Tag, wanted: str) -> Violation:
    actual, required = (etree.QName(name).namespace or "" for name in (str(tag.element.tag), wanted))
    text = mark('Element <{element}> is in no namespace; expected "{expected_namespace}".')
    if actual and required:
        text = mark('Element <{element}> is in the namespace "{namespace}"; expected "{expected_namespace}".')
    elif actual:
        text = mark('Element <{element}> is in the namespace "{namespace}"; expected none.')
    known: dict[str, Any] = {"namespace": shortened(actual), "expected_namespace": shortened(required)}
    return _violation(tag, text, "out_of_place", **known)


def _missing(tag: Tag) -> list[Violation]:
    text = mark('Element <{element}> lacks the required attribute "{attribute}".')
    missing = [] if tag.declared is None else tag.declared.missing_attributes(tag.attributes)
    what = message("<{element}>", element=tag.name)
    return [_violation(tag, text, "missing_attribute", attribute=_local(name), what=what) for name in missing]


def _superfluous(tag: Tag) -> list[Violation]:
    plain = mark('Element <{element}> may not have the attribute "{attribute}".')
    prefixed = mark('Element <{element}> may not have the attribute "{attribute}" (with that namespace prefix).')
    unknown = [] if tag.declared is None else tag.declared.unknown_attributes(tag.attributes)
    texts = {name: prefixed if name.startswith("{") else plain for name in unknown}
    return [_violation(tag, text, "unknown_attribute", attribute=_local(name)) for name, text in texts.items()]


def _values(tag: Tag) -> list[Violation]:
    if tag.declared is None:
        return []
    refused = tag.declared.refused_text(tag.element.text or "") if tag.ends else None
    found = [] if refused is None else [_value(tag, None, refused)]
    if tag.begins:
        found += [_value(tag, _local(name), why) for name, why in tag.declared.refused_attributes(tag.attributes)]
    if not found and tag.ends and not tag.attributes:
        # libxml2 is stricter than xmlschema, as with addresses.
        unexplained = tag.declared.unexplained_text(tag.element.text or "")
        found = [] if unexplained is None else [_value(tag, None, unexplained)]
    return found


_FOUND: Final = {
    (True, False): mark('Element <{element}> is "{found}"; expected {expected}.'),
    (True, True): mark('Attribute "{attribute}" of <{element}> is "{found}"; expected {expected}.'),
    (False, False): mark("Element <{element}> is empty; expected {expected}."),
    (False, True): mark('Attribute "{attribute}" of <{element}> is empty; expected {expected}.'),
}
"""The message on a value, by whether it is not empty, and whether it is an attribute's."""


def _value(tag: Tag, attribute: str | None, refusal: ValueRefusal) -> Violation:
    known: dict[str, Any] = {"found": shortened(refusal.value), "expected": _expected(refusal)}
    if refusal.permitted:
        known["permitted"] = [shortened(each) for each in refusal.permitted[:_MAX_CHOICES]]
    text = _FOUND[bool(refusal.value), attribute is not None]
    return _violation(tag, text, VALUE, attribute=attribute, **known)


def _expected(refusal: ValueRefusal) -> Message:
    if refusal.permitted:
        return _choice([quoted(each) for each in refusal.permitted])
    if refusal.kind in EXPECTATIONS:
        return Message(EXPECTATIONS[refusal.kind], {"limit": _legible(refusal.limit, _LONGEST_SENTENCE)})
    if refusal.kind:
        return message(mark("a value of the type {type}"), type=refusal.kind)
    return message(mark("another type of value"))


def _fixed(text: str, *, of_content: bool = False, attribute: str | None = None) -> _Look:
    """Says a text of the element or, if it is `of_content`, of the element around what begins here."""
    return lambda tag: [_violation(tag, text, of_parent=of_content and tag.begins, attribute=attribute)]


_Look = Callable[[Tag], list[Violation]]
"""What is wrong at a tag that has an error of some type; nothing where that is not seen."""

_CONTENT: Final = "SCHEMAV_ELEMENT_CONTENT"
_TEXT_ONLY: Final = _fixed(
    mark("Element <{element}> holds other elements, where only text is permitted."), of_content=True
)
_LOOKS: Final[Mapping[str, _Look]] = {
    _CONTENT: _content,
    "SCHEMAV_CVC_COMPLEX_TYPE_4": _missing,
    "SCHEMAV_CVC_COMPLEX_TYPE_3_2_1": _superfluous,
    "SCHEMAV_CVC_COMPLEX_TYPE_3_2_2": _superfluous,
    "SCHEMAV_CVC_TYPE_3_1_1": _superfluous,
    "SCHEMAV_CVC_DATATYPE_VALID_1_2_1": _values,
    "SCHEMAV_CVC_DATATYPE_VALID_1_2_2": _values,
    "SCHEMAV_CVC_DATATYPE_VALID_1_2_3": _values,
    **{f"SCHEMAV_CVC_{facet.upper()}_VALID": _values for facet in ("enumeration", *EXPECTATIONS)},
    "SCHEMAV_CVC_COMPLEX_TYPE_2_1": _fixed(
        mark("Element <{element}> must be empty, without elements, text or spaces."), of_content=True
    ),
    "SCHEMAV_CVC_COMPLEX_TYPE_2_2": _TEXT_ONLY,
    "SCHEMAV_CVC_TYPE_3_1_2": _TEXT_ONLY,
    "SCHEMAV_CVC_COMPLEX_TYPE_2_3": _fixed(
        mark("Element <{element}> holds text, where only other elements are permitted."), of_content=True
    ),
    "SCHEMAV_CVC_ELT_1": _fixed(mark("Element <{element}> cannot be the root of such a document.")),
    "SCHEMAV_CVC_ELT_3_1": _fixed(mark("Element <{element}> may not be declared empty with xsi:nil.")),
    "SCHEMAV_CVC_ELT_4_2": _fixed(
        mark('Attribute "{attribute}" of <{element}> names a type that the schema does not declare.'), attribute="type"
    ),
}
"""What is looked for by libxml2's type of an error."""
