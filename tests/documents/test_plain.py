"""A document is found valid without a tree only where a tree would say the same."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from dcc.cli.demo.submissions import experiment_document
from dcc.documents.plain_validation import is_plainly_valid
from dcc.documents.schema_set import OWN_SCHEMAS, SchemaSet
from dcc.naming import DocumentKind

SCHEMAS = SchemaSet.load(None)
SCHEMA = SCHEMAS.schema(DocumentKind.EXPERIMENT)
DOCUMENT = experiment_document("H", procedure="IMPC_IPG_001", first=1, at_least=1)
XS = "{http://www.w3.org/2001/XMLSchema}"

TRAPS = {
    "a comment": (b"<specimenID>", b"<!-- x --><specimenID>"),
    "a processing instruction": (b"<specimenID>", b"<?x y?><specimenID>"),
    "a CDATA section": (b"<specimenID>", b"<specimenID><![CDATA[x]]>"),
    "an attribute with a prefix that is not declared": (b" unit=", b" q:unit="),
    "an attribute with a prefix that is not declared, spaces before its value": (b" unit=", b"\n  q:unit \n = "),
    "an attribute with nothing before the colon": (b" unit=", b" :unit="),
    "an attribute with nothing after the colon": (b" unit=", b" unit:="),
    "an attribute with two colons": (b" unit=", b" a:b:unit="),
    "a prefix of three hundred letters": (b" unit=", b" %s:unit=" % (b"q" * 300)),
    "an element with a prefix that is not declared": (b"<procedure ", b"<q:procedure "),
    "a prefix declared in the middle": (b"<specimenID>", b'<specimenID xmlns:q="u">'),
    "a prefix that is no longer declared": (b"<specimenID>", b'<specimenID xmlns:q="">'),
    "a reserved namespace": (b"<specimenID>", b'<specimenID xmlns="http://www.w3.org/XML/1998/namespace">'),
    "an encoding that has bytes of markup in its letters": (b'encoding="UTF-8"', b'encoding="ISO-2022-JP"'),
}


def chunks(document: bytes, size: int = 64 * 1024) -> Iterator[bytes]:
    return (document[place : place + size] for place in range(0, len(document), size))


def is_valid_tree(document: bytes) -> bool:
    try:
        return SCHEMA.validate(etree.fromstring(document, etree.XMLParser(no_network=True)))
    except etree.XMLSyntaxError:
        return False


@pytest.mark.parametrize("size", [1, 7, 700, 1_000_000])
def test_a_plain_document_is_found_valid_however_it_is_cut_into_chunks(size: int) -> None:
    head = DOCUMENT.index(b"<experiment ")
    assert is_plainly_valid([DOCUMENT[:head], *chunks(DOCUMENT[head:], size)], SCHEMA)


@pytest.mark.parametrize(
    "text",
    [b"12:30", b"http://x.org/a?b=c&amp;d:e", b"see: this", b"a:b!", b"why?", b"&#58;&lt;x:y&gt;"],
)
def test_colons_and_marks_in_texts_and_values_are_plain(text: bytes) -> None:
    document = DOCUMENT.replace(b"<specimenID>", b"<specimenID>" + text)
    assert document != DOCUMENT
    assert is_plainly_valid(chunks(document), SCHEMA)
    assert is_plainly_valid(chunks(DOCUMENT.replace(b' unit="', b' unit="' + text)), SCHEMA)


@pytest.mark.parametrize(("place", "trap"), TRAPS.values(), ids=TRAPS)
def test_what_only_a_tree_can_tell_is_left_to_it(place: bytes, trap: bytes) -> None:
    document = DOCUMENT.replace(place, trap, 1)
    assert document != DOCUMENT
    start = document.index(trap)
    for cut in range(start, start + len(trap) + 1):
        assert not is_plainly_valid([document[:cut], document[cut:]], SCHEMA)


def test_a_text_of_ten_million_bytes_is_left_to_a_tree() -> None:
    assert not is_plainly_valid(chunks(DOCUMENT.replace(b"<specimenID>", b"<specimenID>" + b"x" * 10_000_000)), SCHEMA)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        DOCUMENT.rstrip()[:-1],
        DOCUMENT + b"x",
        DOCUMENT.replace(b"</experiment>", b"", 1),
        DOCUMENT.replace(b"<specimenID>", b"<specimenID>&unknown;", 1),
        DOCUMENT.replace(b"<specimenID>", b"<specimenID>\xff", 1),
        DOCUMENT.replace(b"</centre>", b"<wrong/></centre>"),
        DOCUMENT.replace(b" dateOfExperiment=", b" wrong=", 1),
        re.sub(rb"<centre .*</centre>", b"", DOCUMENT, flags=re.DOTALL),
    ],
    ids=lambda document: str(document[-30:]),
)
def test_what_is_not_valid_is_not_found_valid(document: bytes) -> None:
    assert not is_valid_tree(document)
    assert not is_plainly_valid(chunks(document), SCHEMA)


def test_whatever_is_found_valid_without_a_tree_is_so_with_one() -> None:
    chance = random.Random(7)
    pieces = [trap for _, trap in TRAPS.values()] + [
        b" q:a='1'",
        b":",
        b"q:",
        b"<",
        b">",
        b'"',
        b" ",
        b"&lt;",
        b"\0",
        b"1",
    ]
    found = 0
    for _ in range(400):
        document = bytearray(DOCUMENT)
        for _ in range(chance.choice((1, 2))):
            place = chance.randrange(len(document))
            document[place : place + chance.choice((0, 0, 1, 9))] = chance.choice(pieces)
        if is_plainly_valid(chunks(bytes(document), 1_500), SCHEMA):
            found += 1
            assert is_valid_tree(bytes(document))
    assert found


def test_what_the_platforms_schemas_allow_is_said_by_them_alone() -> None:
    """No wildcards, no identifiers, nothing of any type, and no element within one of its own name or type."""
    assert SCHEMAS.plain
    within: dict[str, set[str]] = {}
    for path in OWN_SCHEMAS.glob("*.xsd"):
        root = etree.parse(path).getroot()
        names = {etree.QName(element).localname for element in root.iter(f"{XS}*")}
        assert not names & {"any", "anyAttribute", "key", "keyref", "unique", "redefine", "group"}
        for element in root.iter(f"{XS}element"):
            children = {etree.QName(child).localname for child in element}
            assert element.get("type") or element.get("ref") or children & {"simpleType", "complexType"}
            assert element.get("substitutionGroup") is None
        for component in root.iterchildren(f"{XS}element", f"{XS}complexType", f"{XS}simpleType"):
            used = within.setdefault(component.get("name", ""), set())
            for part in component.iter(f"{XS}*"):
                mentioned = " ".join(part.get(name, "") for name in ("type", "ref", "base", "itemType", "memberTypes"))
                used |= {name.rpartition(":")[2] for name in mentioned.split()}
    builtin = {"ID", "IDREF", "IDREFS", "ENTITY", "ENTITIES", "NOTATION", "QName", "anyType"}
    assert not builtin & set().union(*within.values())
    while within:
        ends = {name for name, used in within.items() if not used & set(within)}
        assert ends, f"{sorted(within)} hold one another"
        within = {name: used for name, used in within.items() if name not in ends}


def test_other_schemas_are_not_taken_for_plain(tmp_path: Path) -> None:

    directory = tmp_path / "schemas"
    shutil.copytree(OWN_SCHEMAS, directory)
    assert not SchemaSet.load(directory).plain
