"""What libxml2 says of a schema error, said so that the person who exported the document understands it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

_QNAME = r"(?:\{[^}]*\})?[^'\s]*"
_WHERE = re.compile(rf"Element '(?P<element>{_QNAME})'(?:, attribute '(?P<attribute>{_QNAME})')?: (?P<rest>.*)", re.S)
_EXPECTED = re.compile(r" Expected is (?:one of )?\( (?P<names>.*) \)\.$", re.S)
_NAMESPACE = re.compile(r"\{[^{}]*\}")
_LONGEST_VALUE = 80
_MOST_CHOICES = 30

TYPES_IN_WORDS = {
    "boolean": "true or false",
    "date": "a date such as 2013-10-31",
    "dateTime": "a date and time such as 2013-10-31T09:30:00",
    "time": "a time such as 09:30:00",
    "integer": "a whole number such as 42",
    "int": "a whole number between -2147483648 and 2147483647",
    "long": "a whole number such as 42",
    "nonNegativeInteger": "a whole number, 0 or more",
    "positiveInteger": "a whole number, 1 or more",
    "decimal": "a number such as 12.5, without an exponent",
    "double": "a number such as 12.5 or 1.25e1",
    "float": "a number such as 12.5 or 1.25e1",
    "anyURI": "an address (URI)",
}


class Sort(Enum):
    """What a schema error is about, as far as that matters to what is made of it."""

    VALUE = "a value that is not permitted"
    UNEXPECTED = "an element that is not permitted here; libxml2 looks at nothing that follows it in its parent"
    INCOMPLETE = "an element that lacks another"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class Violation:
    """A schema error in words. Names are local; `attribute` is None when the error concerns the element."""

    element: str
    attribute: str | None
    text: str
    sort: Sort = Sort.OTHER


def quoted(value: str) -> str:
    """A value in double quotes, shortened to 80 characters, with what cannot be printed escaped."""
    if len(value) > _LONGEST_VALUE:
        value = f"{value[: _LONGEST_VALUE - 3]}..."
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value) + '"'


def explain(message: str) -> Violation:
    """Put a schema error of libxml2 into words. Every message comes out as something, known or not."""
    match = _WHERE.match(message)
    if match is None:
        return Violation("", None, _plain(message))
    element, attribute, rest = match["element"], match["attribute"], match["rest"].rstrip()
    subject = _subject(_local(element), attribute and _local(attribute))
    for pattern, say in _SAYINGS:
        found = pattern.fullmatch(rest)
        if found:
            sort = Sort.VALUE if "value" in found.groupdict() else _SORTS.get(say, Sort.OTHER)
            return Violation(_local(element), attribute and _local(attribute), say(element, subject, found), sort)
    return Violation(_local(element), attribute and _local(attribute), f"{subject}: {_plain(rest)}")


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _subject(element: str, attribute: str | None) -> str:
    return f"Element <{element}>" if attribute is None else f'Attribute "{attribute}" of <{element}>'


def legible(text: str, longest: int) -> str:
    """A text, shortened, with what cannot be printed escaped."""
    text = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(text: str) -> str:
    return legible(_NAMESPACE.sub("", text), 500)


def _is(value: str) -> str:
    return f"is {quoted(value)}" if value else "is empty"


def _choice(names: Sequence[str]) -> str:
    shown = list(names[:_MOST_CHOICES])
    if len(names) > _MOST_CHOICES:
        shown.append(f"{len(names) - _MOST_CHOICES} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _unexpected(element: str, subject: str, found: re.Match[str]) -> str:
    expected = _names(found["expected"])
    if _local(element) in {_local(name) for name in expected} and element not in expected:
        wanted = next(name for name in expected if _local(name) == _local(element))
        return f"{subject} {_namespaces(element, wanted)}."
    if not expected:
        return f"{subject} is not permitted here: nothing more was expected in the element around it."
    return f"{subject} is not permitted here; expected {_choice([f'<{_local(name)}>' for name in expected])}."


def _namespaces(element: str, wanted: str) -> str:
    actual, required = (name[1:].partition("}")[0] if name.startswith("{") else "" for name in (element, wanted))
    has = f"is in the namespace {quoted(actual)}" if actual else "is in no namespace"
    return f"{has}; expected {quoted(required)}" if required else f"{has}; expected none"


def _incomplete(_element: str, subject: str, found: re.Match[str]) -> str:
    expected = _names(found["expected"])
    if not expected:
        return f"{subject} is incomplete: an element is missing in it."
    return f"{subject} is incomplete: expected {_choice([f'<{_local(name)}>' for name in expected])} in it."


def _names(expected: str | None) -> list[str]:
    match = _EXPECTED.match(expected or "")
    return [name.strip() for name in match["names"].split(", ")] if match else []


def _not_listed(_element: str, subject: str, found: re.Match[str]) -> str:
    choices = [quoted(choice) for choice in found["choices"].split("', '")]
    return f"{subject} {_is(found['value'])}; expected {_choice(choices)}."


def _wrong_type(_element: str, subject: str, found: re.Match[str]) -> str:
    prefix, _, name = (found["type"] or "").rpartition(":") if found["type"] else ("", "", "")
    if prefix == "xs" and name in TYPES_IN_WORDS:
        expected = TYPES_IN_WORDS[name]
    else:
        expected = f"a value of the type {_local(name)}" if name else "another type of value"
    return f"{subject} {_is(found['value'])}; expected {expected}."


def _facet(_element: str, subject: str, found: re.Match[str]) -> str:
    return f"{subject} {_is(found['value'])}, which {_plain(found['reason'])}."


def _fixed(text: str) -> Callable[[str, str, re.Match[str]], str]:
    return lambda _element, subject, _found: f"{subject} {text}"


def _missing(element: str, _subject: str, found: re.Match[str]) -> str:
    return f'Element <{_local(element)}> lacks the required attribute "{_local(found["name"])}".'


def _superfluous(element: str, _subject: str, found: re.Match[str]) -> str:
    prefix = " (with that namespace prefix)" if found["name"].startswith("{") else ""
    return f'Element <{_local(element)}> may not have the attribute "{_local(found["name"])}"{prefix}.'


_SORTS: dict[object, Sort] = {_unexpected: Sort.UNEXPECTED, _incomplete: Sort.INCOMPLETE}

_SAYINGS: tuple[tuple[re.Pattern[str], Callable[[str, str, re.Match[str]], str]], ...] = tuple(
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
        (r"Character content (?:other than whitespace )?is not allowed.*element-only.*",
         _fixed("holds text, where only other elements are permitted.")),
        (r"Character content is not allowed.*", _fixed("must be empty, without text or spaces.")),
        (r"Element content is not allowed, because the content type is empty\.", _fixed("must be empty.")),
        (r"Element content is not allowed.*", _fixed("holds other elements, where only text is permitted.")),
        (r"No matching global declaration available.*", _fixed("cannot be the root of such a document.")),
        (r"The element is not 'nillable'\.", _fixed("may not be declared empty with xsi:nil.")),
    )
)  # fmt: skip
