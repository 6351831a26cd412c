"""What is recorded of documents that are not well-formed or do not follow the schema (dcc/documents)."""

from __future__ import annotations

from typing import Final

from dcc.reports.languages.marking import mark

SENTENCES: Final = (
    # Around other sentences.
    mark("{problem} In {context}."),
    mark("{problem} (There are more errors; {number} are listed.)"),
    # Of the schema; elements.
    mark("Element <{element}> is {value}; expected {expected}."),
    mark("Element <{element}> is empty; expected {expected}."),
    mark("Element <{element}> is {value}, which {reason}."),
    mark("Element <{element}> is empty, which {reason}."),
    mark("Element <{element}> is in the namespace {namespace}; expected {expected_namespace}."),
    mark("Element <{element}> is in the namespace {namespace}; expected none."),
    mark("Element <{element}> is in no namespace; expected {expected_namespace}."),
    mark("Element <{element}> is not permitted here: nothing more was expected in the element around it."),
    mark("Element <{element}> is not permitted here; expected {expected}."),
    mark("Element <{element}> is incomplete: an element is missing in it."),
    mark("Element <{element}> is incomplete: expected {expected} in it."),
    mark('Element <{element}> lacks the required attribute "{attribute}".'),
    mark('Element <{element}> may not have the attribute "{attribute}".'),
    mark('Element <{element}> may not have the attribute "{attribute}" (with that namespace prefix).'),
    mark("Element <{element}> holds text, where only other elements are permitted."),
    mark("Element <{element}> must be empty, without text or spaces."),
    mark("Element <{element}> must be empty."),
    mark("Element <{element}> holds other elements, where only text is permitted."),
    mark("Element <{element}> cannot be the root of such a document."),
    mark("Element <{element}> may not be declared empty with xsi:nil."),
    # Of the schema; attributes.
    mark('Attribute "{attribute}" of <{element}> is {value}; expected {expected}.'),
    mark('Attribute "{attribute}" of <{element}> is empty; expected {expected}.'),
    mark('Attribute "{attribute}" of <{element}> is {value}, which {reason}.'),
    mark('Attribute "{attribute}" of <{element}> is empty, which {reason}.'),
    mark("The document does not follow its schema."),
    # Of the kind.
    mark("The root element is {root}; {kind} documents have {expected}."),
    mark(
        "The root element is {root}; {kind} documents have {expected}. Its content is that of {actual} documents: name "
        "it so."
    ),
    mark("The root element is {root}; documents have {expected}."),
    # Of what is not XML.
    mark(
        "The document has a document type declaration (<!DOCTYPE), which is refused because it can hide the reading of "
        "other files. Remove it."
    ),
    mark("The file is empty. Export the document again."),
    mark("The encoding {encoding} is not supported. Save the document as UTF-8."),
    mark("The encoding {encoding} is not known. Save the document as UTF-8."),
    mark("The encoding that the XML declaration names is not the file's. Save the document as UTF-8."),
    mark("The document cannot be read: {reason}."),
    mark("The document is not well-formed XML: {message}."),
    mark("The document ends in the middle: it was cut off, or end tags are missing. Export it again."),
    mark("A single text, tag, comment or name is longer than 10,000,000 bytes, which is refused."),
    mark("A single tag is longer than {number} bytes, which is refused. Export the document again."),
    mark("Element <{element}>, opened on line {line}, is closed by </{closed}>; expected </{expected_tag}>."),
    mark("The file is not XML: it does not begin with a tag. Export the document again."),
    mark('A bare "&" is not permitted; write "&amp;" instead.'),
    mark('An "&" begins no entity here; write "&amp;" instead.'),
    mark('The entity "&{entity_name};" is not known; write the character itself, or its number as in "&#181;".'),
    mark("A control character is not permitted here, nor is any that XML cannot hold. Remove it."),
    mark("The bytes here are not in the encoding that the document announces (UTF-8 if none). Save it as UTF-8."),
    mark("There is something after the end of the root element. Remove it."),
    mark('The attribute "{attribute}" is given twice. Remove one of them.'),
    mark('The namespace prefix "{prefix}" is not declared. Declare it, or remove it.'),
    mark('A bare "<" is not permitted in the value of an attribute; write "&lt;" instead.'),
    mark("The XML declaration must be the very first thing in the file. Remove what stands before it."),
    mark("Elements are nested more than 256 deep, which no document of the exchange format is."),
)

PARTS: Final = (
    mark("true or false"),
    mark("a date such as 2013-10-31"),
    mark("a date and time such as 2013-10-31T09:30:00"),
    mark("a time such as 09:30:00"),
    mark("a whole number such as 42"),
    mark("a whole number between -2147483648 and 2147483647"),
    mark("a whole number, 0 or more"),
    mark("a whole number, 1 or more"),
    mark("a number such as 12.5, without an exponent"),
    mark("a number such as 12.5 or 1.25e1"),
    mark("an address (URI)"),
    mark("a value of the type {type}"),
    mark("another type of value"),
    mark('"{first}" or "{last}"'),
    mark('"{first}" or {number} more'),
    mark("<{first}> or <{last}>"),
    mark("<{first}> or {number} more"),
    mark("{rooted} or {other_rooted}"),
    mark("<{root}> in the namespace {namespace}"),
    mark("<{root}> in no namespace"),
    mark("has a length of {length}; this differs from the allowed length of {allowed}"),
    mark("has a length of {length}; this exceeds the allowed maximum length of {allowed}"),
    mark("has a length of {length}; this underruns the allowed minimum length of {allowed}"),
    mark("is not accepted by the pattern {pattern}"),
    mark("is less than the minimum value allowed ({limit})"),
    mark("is greater than the maximum value allowed ({limit})"),
    mark("has more digits than are allowed ({limit})"),
    mark("has more fractional digits than are allowed ({limit})"),
)

PART_NAMES: Final = frozenset({"problem", "expected", "reason", "root", "rooted", "other_rooted"})
FROM_THE_END: Final = frozenset({"problem", "rooted"})
