"""Documents read with what they say plainly cut out say the same, on the same lines, and are refused for the same."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.documents.contents import Content
from dcc.documents.plain_reading import cut_out
from dcc.documents.reading import read_bytes, read_document
from dcc.errors import DocumentError
from dcc.naming import DocumentKind
from tests.support.strategies_documents import NAMESPACES, Document, full_document, valid_documents, valid_procedures

EXPERIMENT, SPECIMEN = DocumentKind.EXPERIMENT, DocumentKind.SPECIMEN
DOCUMENT = f"""<?xml version="1.0" encoding="UTF-8"?>
<centreProcedureSet xmlns="{NAMESPACES[EXPERIMENT]}">
  <centre centreID="J" pipeline="IMPC_001" project="JAX">
    <line colonyID="C"><procedure procedureID="P">
      <simpleParameter parameterID="A" sequenceID="1" unit="g">
        <value>1.5</value>
      </simpleParameter>
      <simpleParameter parameterID="B" ><value></value></simpleParameter><simpleParameter parameterID="C">
        <value>two
lines</value> </simpleParameter>
      <simpleParameter parameterID="D"><parameterStatus>S</parameterStatus></simpleParameter>
      <simpleParameter unit="g" parameterID="E"><value>&lt;1</value></simpleParameter>
      <simpleParameter parameterID="F" unit="g"><value>\u00e9</value></simpleParameter>
      <seriesParameter parameterID="G" unit="g">
        <value incrementValue="1">2</value>
        <value incrementValue="2" incrementStatus="S" >3</value><value incrementValue="3">&#52;</value>
        <value incrementValue="4">5</value>
      </seriesParameter>
      <mediaParameter parameterID="H" URI="u" fileType="f">
        <parameterStatus>of media</parameterStatus>
        <procedureMetadata parameterID="I"><value>of media</value></procedureMetadata>
      </mediaParameter>
      <seriesMediaParameter parameterID="M">
        <value incrementValue="1" URI="u"/>
      </seriesMediaParameter>
      <procedureMetadata parameterID="J" sequenceID="-2"><value>v</value></procedureMetadata>
      <procedureMetadata parameterID="K"><parameterStatus>S</parameterStatus></procedureMetadata>
      <procedureMetadata parameterID="L"><value>w</value></procedureMetadata>
    </procedure></line>
  </centre>
</centreProcedureSet>
"""
SIMPLE = '<simpleParameter parameterID="Z"><value>1</value></simpleParameter>'
METADATA = '<procedureMetadata parameterID="Z"><value>1</value></procedureMetadata>'
VALUE = '<value incrementValue="9">1</value>'
SNIPPETS = [
    f"<!-- {SIMPLE} -->",
    f"<![CDATA[{SIMPLE}]]>",
    "<?cut?>",
    "<?xml-stylesheet?>",
    "<!DOCTYPE x>",
    "&amp;",
    "&unknown;",
    "]]>",
    "\r",
    "\r\n",
    "\t",
    "\n",
    " ",
    "\0",
    "\x0c",
    "\x85",
    "\ufffe",
    "\ufeff",
    "\u2028",
    '"',
    "'",
    "<",
    ">",
    "x",
    "x:",
    "/",
    "</value>",
    "</procedure>",
    ' unit="Z"',
    ' sequenceID=" 7 "',
    SIMPLE,
    '<simpleParameter parameterID="Z" parameterID="Y"><value>1</value></simpleParameter>',
    '<simpleParameter xmlns="other" parameterID="Z"><value>1</value></simpleParameter>',
    METADATA,
    METADATA.replace("><value", ' unit="g"><value'),
    VALUE,
]

Outcome = list[tuple[type[Content], Content]] | str


def outcome(data: bytes, kind: DocumentKind, *, in_memory: bool) -> Outcome:
    """What a document says, or why it is refused."""
    try:
        if in_memory:
            contents = read_bytes(data, kind)
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "document.xml"
                path.write_bytes(data)
                contents = list(read_document(path, kind))
    except DocumentError as error:
        return f"{type(error).__name__}: {error}"
    return [(type(one), one) for one in contents]


def the_same(data: bytes, kind: DocumentKind) -> bool:
    """Whether both ways of reading come to the same; equal tuples of two classes say the same of each other."""
    in_memory, streamed = (outcome(data, kind, in_memory=each) for each in (True, False))
    return in_memory == streamed and repr(in_memory) == repr(streamed)


@given(st.one_of(valid_documents(), valid_procedures()))
def test_any_document_says_the_same(document: Document) -> None:
    assert the_same(document.render()[0], document.kind)


@pytest.mark.parametrize("kind", DocumentKind)
def test_a_document_with_all_there_is_says_the_same(kind: DocumentKind) -> None:
    assert the_same(full_document(kind).render()[0], kind)


def test_parameters_metadata_and_series_that_are_plain_are_not_left_to_the_parser() -> None:
    plain = cut_out(DOCUMENT.encode())
    assert plain is not None
    names = ("simpleParameter", "procedureMetadata")
    of_runs = [[one.parameter_id for name in names for one in run[name]] for run in plain.runs]
    assert of_runs == [["A", "B", "C"], ["F"], [], [], ["I"], ["J"], ["L"]]
    assert [[value.increment for value in run["value"]] for run in plain.runs if run["value"]] == [
        ["1", "2"],
        ["4"],
    ]
    assert plain.rest.count("parameterID") == 6
    assert plain.rest.count("\n") == DOCUMENT.count("\n")
    assert the_same(DOCUMENT.encode(), EXPERIMENT)


def test_the_documents_of_the_demonstration_say_the_same_and_are_plain() -> None:
    experiments, specimens = experiment_document("H", animals=3), specimen_document("H", mice=3)
    assert the_same(experiments, EXPERIMENT)
    assert the_same(specimens, SPECIMEN)
    plain = cut_out(experiments)
    assert plain is not None
    assert "<value>" not in plain.rest


@given(
    st.lists(st.tuples(st.integers(0, len(DOCUMENT)), st.sampled_from(SNIPPETS)), min_size=1, max_size=2),
)
def test_what_is_put_anywhere_into_a_document_is_read_or_refused_the_same(spoilt: list[tuple[int, str]]) -> None:
    text = DOCUMENT
    for place, snippet in spoilt:
        text = text[:place] + snippet + text[place:]
    assert the_same(text.encode(), EXPERIMENT)


@pytest.mark.parametrize(
    ("before", "snippet"),
    [
        ("<?xml", SIMPLE),
        ("<centreProcedureSet", SIMPLE),
        ("<centre ", SIMPLE),
        ("<line", SIMPLE),
        ("<parameterStatus>S", SIMPLE),
        ("1.5", SIMPLE),
        ("of media</parameterStatus>", METADATA),
        ('<procedureMetadata parameterID="J"', SNIPPETS[-2]),
        ('<simpleParameter parameterID="D"', VALUE),
        ("<parameterStatus>S", VALUE),
        ("</seriesParameter>", VALUE),
        ("</seriesMediaParameter>", VALUE),
        ('<value incrementValue="1" URI', VALUE),
        ("</mediaParameter>", VALUE),
        ("<value incrementValue", SIMPLE),
        ('</simpleParameter>\n      <simpleParameter parameterID="F"', VALUE),
        ('<procedureMetadata parameterID="L"', f"<!-- {METADATA} -->"),
        ("lines", "<!-- -->"),
        ("lines", f"<![CDATA[{SIMPLE}]]>"),
        ("lines", "\ufffe"),
        ("lines", "\uffff"),
        ("lines", "\x1f"),
        ("lines", "]]>"),
        ("B", "\n"),
        ("B", "&lt;"),
        ("B", ">"),
    ],
)
def test_what_is_put_where_it_matters_is_read_or_refused_the_same(before: str, snippet: str) -> None:
    place = DOCUMENT.index(before)
    assert the_same((DOCUMENT[:place] + snippet + DOCUMENT[place:]).encode(), EXPERIMENT)


@given(st.integers(0, len(DOCUMENT)), st.integers(1, 60))
def test_a_document_that_lacks_something_is_read_or_refused_the_same(place: int, number: int) -> None:
    assert the_same((DOCUMENT[:place] + DOCUMENT[place + number :]).encode(), EXPERIMENT)


@pytest.mark.parametrize(
    ("old", "new", "encoding"),
    [
        ("UTF-8", "ISO-8859-1", "latin-1"),
        ("UTF-8", "UTF-16", "utf-16"),
        ("UTF-8", "UTF-8", "utf-8-sig"),
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "", "utf-8-sig"),
        ("UTF-8", "UTF-8", "latin-1"),
        ('encoding="UTF-8"', "", "utf-8"),
        ("\n", "\r\n", "utf-8"),
        ("\n", "\r", "utf-8"),
        ("1.0", "1.1", "utf-8"),
        ("?>", "?><?other?>", "utf-8"),
        ("?>", "?><!---->", "utf-8"),
    ],
)
def test_other_encodings_and_markup_are_read_the_same(old: str, new: str, encoding: str) -> None:
    assert the_same(DOCUMENT.replace(old, new).encode(encoding), EXPERIMENT)


@pytest.mark.parametrize("first", [SIMPLE, METADATA, VALUE, 2 * SIMPLE, f" {SIMPLE}"])
def test_what_stands_before_the_root_element_is_refused_the_same(first: str) -> None:
    _, document = DOCUMENT.split("\n", maxsplit=1)
    assert the_same((first + document).encode(), EXPERIMENT)
    assert isinstance(outcome((first + document).encode(), EXPERIMENT, in_memory=True), str)


def test_many_runs_between_what_is_left_take_time_in_proportion() -> None:
    def seconds(number: int) -> float:
        some = f"{VALUE}<value incrementValue='1'>2</value>" * number
        document = DOCUMENT.replace("</seriesParameter>", f"{some}</seriesParameter>").encode()
        began = time.process_time()
        read_bytes(document, EXPERIMENT)
        return time.process_time() - began

    assert min(seconds(8_000) for _ in range(3)) < 10 * min(seconds(2_000) for _ in range(3))


def test_documents_of_the_other_kind_are_refused_the_same() -> None:
    assert the_same(DOCUMENT.encode(), SPECIMEN)
