"""Nothing that a valid document says is lost on the way to typed objects and back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc.documents.contents import Block, Content, SimpleParameter
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.naming import DocumentKind
from tests.support.canonical_documents import canonical, write_document
from tests.support.integrity_cases import experiment, procedure
from tests.support.strategies_documents import Document, valid_documents, valid_procedures
from tests.support.trials import trials

SCHEMAS = SchemaSet.load(None)
XML_TEXT = st.text(
    st.one_of(
        st.sampled_from("\t\n\r &<>\"']"),
        st.characters(min_codepoint=0x20, blacklist_categories=["Cs"], blacklist_characters="\ufffe\uffff"),
    ),
    max_size=30,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "document.xml"


def read(content: bytes, kind: DocumentKind, place: Path) -> list[Content]:
    place.write_bytes(content)
    return list(read_document(place, kind))


def without_lines(value: Any) -> Any:
    """Objects and tuples without the lines, which the writing does not keep."""
    if isinstance(value, tuple):
        kept = value[1:] if getattr(value, "_fields", ("",))[0] == "line" else value
        return type(value).__name__, *map(without_lines, kept)
    return value


def assert_equivalent(content: bytes, kind: DocumentKind, place: Path) -> Any:
    """Read and write a document, which must say the same then; what it says, without lines."""
    contents = read(content, kind, place)
    said = without_lines(tuple(contents))
    written = write_document(kind, contents)
    assert canonical(written, kind) == canonical(content, kind)
    assert without_lines(tuple(read(written, kind, place))) == said
    assert validate_document(place, kind, SCHEMAS, max_errors=1, max_tree_bytes=10**9) == []
    return said


@given(document=st.one_of(valid_documents(), valid_procedures()))
def test_any_valid_document_is_rebuilt(document: Document, place: Path) -> None:
    assert_equivalent(document.render()[0], document.kind, place)


@settings(max_examples=trials(200))
@given(text=XML_TEXT, attribute=XML_TEXT)
def test_any_text_is_kept_to_the_letter(text: str, attribute: str, place: Path) -> None:
    parameter = SimpleParameter(7, attribute, None, attribute, text, text)
    first = {"experiment_id": attribute, "sequence_id": attribute, "specimen_ids": (text, text), "procedure": None}
    contents = [
        Block(3, 1, "J", attribute, attribute),
        experiment(**first),
        experiment(procedure(parameter, required=False), position=2),
    ]
    found = read(write_document(DocumentKind.EXPERIMENT, contents), DocumentKind.EXPERIMENT, place)
    assert without_lines(tuple(found)) == without_lines(tuple(contents))


def test_what_a_document_cannot_hold_is_not_written() -> None:
    with pytest.raises(ValueError, match="before a block"):
        write_document(DocumentKind.EXPERIMENT, [experiment()])
    with pytest.raises(ValueError, match="a specimen document cannot hold <experiment> here"):
        write_document(DocumentKind.SPECIMEN, [Block(1, 1, "J", None, None), experiment()])
