"""What libxml2 says of a schema error, as a fact that the person who exported the document understands.

libxml2 tells the type of an error and, beyond that, a sentence: this is the one place that takes it apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from dcc.messages import Message, mark, message

_QNAME = r"(?:\{[^}]*\})?[^'\s]*"
_WHERE = re.compile(rf"Element '(?P<element>{_QNAME})'(?:, attribute '(?P<attribute>{_QNAME})')?: (?P<rest>.*)", re.S)
_EXPECTED = re.compile(r" Expected is (?:one of )?\( (?P<names>.*) \)\.$", re.S)
_NAMESPACE = re.compile(r"\{[^{}]*\}")
_LONGEST_VALUE = 80
_MOST_CHOICES = 30

TYPES_IN_WORDS = {
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
}


class Sort(Enum):
    """What a schema error is about, as far as that matters to what is made of it."""

    VALUE = "a value that is not permitted"
    UNEXPECTED = "an element that is not permitted here; libxml2 looks at nothing that follows it in its parent"
    INCOMPLETE = "an element that lacks another"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class Violation:
    """A schema error as a fact. Names are local; `attribute` is None when the error concerns the element.

    `case` is which of the declarations of SchemaViolationError it is.
    """

    element: str
    attribute: str | None
    said: Message
    sort: Sort = Sort.OTHER
    case: str = ""


class _Said(NamedTuple):
    """What a sort of schema error says, of an element or of an attribute, with the details that only it has."""

    case: str
    of_element: str
    of_attribute: str
    details: dict[str, Any]
    sort: Sort = Sort.OTHER


def quoted(value: str) -> str:
    """A value in double quotes, shortened to 80 characters, with what cannot be printed escaped."""
    if len(value) > _LONGEST_VALUE:
        value = f"{value[: _LONGEST_VALUE - 3]}..."
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value) + '"'


def explain(words: str) -> Violation:
    """A schema error of libxml2, which gives it in words alone. Every one comes out as something, known or not."""
    match = _WHERE.match(words)
    if match is None:
        return Violation("", None, Message(_plain(words)))
    element, rest = _local(match["element"]), match["rest"].rstrip()
    attribute = None if match["attribute"] is None else _local(match["attribute"])
    said = _known(match["element"], rest) or _Said("other", _OTHER, _OTHER_OF_ATTRIBUTE, {"reason": _plain(rest)})
    text = said.of_element if attribute is None else said.of_attribute
    what = message("<{element}>", element=element)
    if attribute is not None:
        what = message(mark('Attribute "{attribute}" of <{element}>'), attribute=attribute, element=element)
    known = {"element": element, "attribute": attribute or "", "what": what, **said.details}
    return Violation(element, attribute, Message(text, known), said.sort, said.case)


_OTHER: Final = mark("Element <{element}>: {reason}")
_OTHER_OF_ATTRIBUTE: Final = mark('Attribute "{attribute}" of <{element}>: {reason}')


def _known(element: str, rest: str) -> _Said | None:
    for pattern, say in _SAYINGS:
        found = pattern.fullmatch(rest)
        if found:
            return say(element, found)
    return None


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def legible(text: str, longest: int) -> str:
    """A text, shortened, with what cannot be printed escaped."""
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(text: str) -> str:
    return legible(_NAMESPACE.sub("", text), 500)


def _shortened(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 3]}..."


def _choice(names: Sequence[str]) -> Message:
    """One of several names, of which many are not told."""
    shown, more = names[:_MOST_CHOICES], len(names) - _MOST_CHOICES
    if more > 0:
        return message(mark("{first} or {number} more"), first=", ".join(shown), number=more)
    if len(shown) == 1:
        return Message(shown[0])
    return message(mark("{first} or {last}"), first=", ".join(shown[:-1]), last=shown[-1])


def _unexpected(element: str, found: re.Match[str]) -> _Said:
    expected = _names(found["expected"])
    if _local(element) in {_local(name) for name in expected} and element not in expected:
        return _in_namespace(element, next(name for name in expected if _local(name) == _local(element)))
    if not expected:
        text = mark("Element <{element}> is not permitted here: nothing more was expected in the element around it.")
        return _Said("out_of_place", text, text, {}, Sort.UNEXPECTED)
    text = mark("Element <{element}> is not permitted here; expected {expected}.")
    return _Said("unexpected", text, text, {"expected": _choice(_tags(expected))}, Sort.UNEXPECTED)


def _in_namespace(element: str, wanted: str) -> _Said:
    actual, required = (name[1:].partition("}")[0] if name.startswith("{") else "" for name in (element, wanted))
    text = mark('Element <{element}> is in no namespace; expected "{expected_namespace}".')
    if actual and required:
        text = mark('Element <{element}> is in the namespace "{namespace}"; expected "{expected_namespace}".')
    elif actual:
        text = mark('Element <{element}> is in the namespace "{namespace}"; expected none.')
    details = {"namespace": _shortened(actual), "expected_namespace": _shortened(required)}
    return _Said("other", text, text, details, Sort.UNEXPECTED)


def _incomplete(_element: str, found: re.Match[str]) -> _Said:
    expected = _names(found["expected"])
    if not expected:
        text = mark("Element <{element}> is incomplete: an element is missing in it.")
        return _Said("other", text, text, {}, Sort.INCOMPLETE)
    text = mark("Element <{element}> is incomplete: expected {expected} in it.")
    return _Said("incomplete", text, text, {"expected": _choice(_tags(expected))}, Sort.INCOMPLETE)


def _tags(names: Sequence[str]) -> list[str]:
    return [f"<{_local(name)}>" for name in names]


def _names(expected: str | None) -> list[str]:
    match = _EXPECTED.match(expected or "")
    return [name.strip() for name in match["names"].split(", ")] if match else []


def _not_listed(_element: str, found: re.Match[str]) -> _Said:
    choices = found["choices"].split("', '")
    permitted = [_shortened(choice) for choice in choices[:_MOST_CHOICES]]
    return _not_permitted(found["value"], _choice([quoted(choice) for choice in choices]), permitted=permitted)


def _wrong_type(_element: str, found: re.Match[str]) -> _Said:
    prefix, _, name = found["type"].rpartition(":") if found["type"] else ("", "", "")
    if prefix == "xs" and name in TYPES_IN_WORDS:
        expected = message(TYPES_IN_WORDS[name])
    elif name:
        expected = message(mark("a value of the type {type}"), type=_local(name))
    else:
        expected = message(mark("another type of value"))
    return _not_permitted(found["value"], expected)


def _not_permitted(value: str, expected: Message, **details: Any) -> _Said:
    known = {"found": _shortened(value), "expected": expected, **details}
    if value:
        return _Said(
            "value",
            mark('Element <{element}> is "{found}"; expected {expected}.'),
            mark('Attribute "{attribute}" of <{element}> is "{found}"; expected {expected}.'),
            known,
            Sort.VALUE,
        )
    return _Said(
        "value",
        mark("Element <{element}> is empty; expected {expected}."),
        mark('Attribute "{attribute}" of <{element}> is empty; expected {expected}.'),
        known,
        Sort.VALUE,
    )


def _facet(_element: str, found: re.Match[str]) -> _Said:
    value = found["value"]
    known = {"found": _shortened(value), "reason": _reason(found["reason"])}
    if value:
        return _Said(
            "facet",
            mark('Element <{element}> is "{found}", which {reason}.'),
            mark('Attribute "{attribute}" of <{element}> is "{found}", which {reason}.'),
            known,
            Sort.VALUE,
        )
    return _Said(
        "facet",
        mark("Element <{element}> is empty, which {reason}."),
        mark('Attribute "{attribute}" of <{element}> is empty, which {reason}.'),
        known,
        Sort.VALUE,
    )


def _reason(words: str) -> Message:
    for pattern, text in _REASONS:
        found = pattern.fullmatch(words)
        if found:
            return Message(text, {name: _plain(each) for name, each in found.groupdict().items()})
    return Message(_plain(words))


def _fixed(text: str) -> Callable[[str, re.Match[str]], _Said]:
    return lambda _element, _found: _Said("other", text, text, {})


def _missing(_element: str, found: re.Match[str]) -> _Said:
    text = mark('Element <{element}> lacks the required attribute "{attribute}".')
    return _Said("missing_attribute", text, text, {"attribute": _local(found["name"])})


def _superfluous(_element: str, found: re.Match[str]) -> _Said:
    text = mark('Element <{element}> may not have the attribute "{attribute}".')
    if found["name"].startswith("{"):
        text = mark('Element <{element}> may not have the attribute "{attribute}" (with that namespace prefix).')
    return _Said("unknown_attribute", text, text, {"attribute": _local(found["name"])})


_REASONS: Final = tuple(
    (re.compile(pattern, re.S), text)
    for pattern, text in (
        (
            r"has a length of '(?P<length>\d+)'; this differs from the allowed length of '(?P<allowed>\d+)'",
            mark("has a length of '{length}'; this differs from the allowed length of '{allowed}'"),
        ),
        (
            r"has a length of '(?P<length>\d+)'; this exceeds the allowed maximum length of '(?P<allowed>\d+)'",
            mark("has a length of '{length}'; this exceeds the allowed maximum length of '{allowed}'"),
        ),
        (
            r"has a length of '(?P<length>\d+)'; this underruns the allowed minimum length of '(?P<allowed>\d+)'",
            mark("has a length of '{length}'; this underruns the allowed minimum length of '{allowed}'"),
        ),
        (r"is not accepted by the pattern '(?P<pattern>.*)'", mark("is not accepted by the pattern '{pattern}'")),
        (
            r"is less than the minimum value allowed \('(?P<limit>.*)'\)",
            mark("is less than the minimum value allowed ('{limit}')"),
        ),
        (
            r"is greater than the maximum value allowed \('(?P<limit>.*)'\)",
            mark("is greater than the maximum value allowed ('{limit}')"),
        ),
        (
            r"has more digits than are allowed \('(?P<limit>.*)'\)",
            mark("has more digits than are allowed ('{limit}')"),
        ),
        (
            r"has more fractional digits than are allowed \('(?P<limit>.*)'\)",
            mark("has more fractional digits than are allowed ('{limit}')"),
        ),
    )
)
"""What libxml2 says of facets."""

_SAYINGS: Final[tuple[tuple[re.Pattern[str], Callable[[str, re.Match[str]], _Said]], ...]] = tuple(
    (re.compile(pattern, re.S), say)
    for pattern, say in (
        (r"This element is not expected\.(?P<expected> Expected is .*)?", _unexpected),
        (r"Missing child element\(s\)\.(?P<expected> Expected is .*)?", _incomplete),
        (r"The attribute '(?P<name>.*)' is required but missing\.", _missing),
        (r"The attribute '(?P<name>.*)' is not allowed\.", _superfluous),
        (
            r"(?:\[facet 'enumeration'\] )?The value '(?P<value>.*)' is not an element of the set "
            r"\{'(?P<choices>.*)'\}\.",
            _not_listed,
        ),
        (
            r"'(?P<value>.*)' is not a valid value of the (?:local )?(?:atomic|list|union) type"
            r"(?: '(?P<type>[^']*)')?\.",
            _wrong_type,
        ),
        (r"(?:\[facet '\w+'\] )?The value '(?P<value>.*?)' (?P<reason>(?:is|has) .*)\.", _facet),
        (
            r"Character content (?:other than whitespace )?is not allowed.*element-only.*",
            _fixed(mark("Element <{element}> holds text, where only other elements are permitted.")),
        ),
        (
            r"Character content is not allowed.*",
            _fixed(mark("Element <{element}> must be empty, without text or spaces.")),
        ),
        (
            r"Element content is not allowed, because the content type is empty\.",
            _fixed(mark("Element <{element}> must be empty.")),
        ),
        (
            r"Element content is not allowed.*",
            _fixed(mark("Element <{element}> holds other elements, where only text is permitted.")),
        ),
        (
            r"No matching global declaration available.*",
            _fixed(mark("Element <{element}> cannot be the root of such a document.")),
        ),
        (
            r"The element is not 'nillable'\.",
            _fixed(mark("Element <{element}> may not be declared empty with xsi:nil.")),
        ),
    )
)
