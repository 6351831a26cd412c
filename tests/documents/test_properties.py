"""Validation against generated documents: what the facts call valid passes, each single fault is found and placed."""

from pathlib import Path

import pytest
import xmlschema
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc.documents.schema_set import OWN_SCHEMAS, SCHEMA_FILES, SchemaSet
from dcc.documents.validation import validate_document
from dcc.naming import DocumentKind
from dcc.outcomes import Problem
from tests.support.strategies_documents import Document, Faulty, faulty_documents, valid_documents
from tests.support.trials import trials

SCHEMAS = SchemaSet.load(None)
BOTH_WAYS = (1_000_000, 0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "document.xml"


def validate(path: Path, kind: DocumentKind, max_tree_bytes: int) -> list[Problem]:
    return validate_document(path, kind, SCHEMAS, max_errors=100, max_tree_bytes=max_tree_bytes)


@given(document=valid_documents())
def test_a_document_that_follows_the_facts_is_valid(document: Document, place: Path) -> None:
    place.write_bytes(document.render()[0])
    for max_tree_bytes in BOTH_WAYS:
        assert validate(place, document.kind, max_tree_bytes) == []


@settings(max_examples=trials(200))
@given(faulty=faulty_documents())
def test_a_single_fault_is_found_at_the_tag_it_belongs_to(faulty: Faulty, place: Path) -> None:
    content, places = faulty.document.render()
    place.write_bytes(content)
    problems = validate(place, faulty.document.kind, BOTH_WAYS[0])
    assert problems, faulty.what
    parents = {id(child): parent for parent in faulty.document.root.walk() for child in parent.children}
    blamed = [faulty.element]
    if faulty.what in {"unknown child", "wrong order"}:
        blamed = [*parents[id(faulty.element)].children, parents[id(faulty.element)]]
    assert (problems[0].line, problems[0].column) in [places[id(element)] for element in blamed], faulty.what
    assert all(problem.kind == "SchemaViolationError" for problem in problems)
    assert not any("{http" in problem.message for problem in problems)
    assert validate(place, faulty.document.kind, BOTH_WAYS[1]) == problems


@given(document=valid_documents(), data=st.data())
def test_a_document_cut_off_anywhere_is_refused(document: Document, data: st.DataObject, place: Path) -> None:
    """A validating stream accepts such documents when it is told not to resolve entities."""
    content = document.render()[0].rstrip()
    place.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    for max_tree_bytes in BOTH_WAYS:
        problems = validate(place, document.kind, max_tree_bytes)
        assert problems[-1].kind == "NotWellFormedError"


@pytest.fixture(scope="module")
def independent() -> dict[DocumentKind, xmlschema.XMLSchema]:
    return {kind: xmlschema.XMLSchema(OWN_SCHEMAS / name) for kind, name in SCHEMA_FILES.items()}


@settings(max_examples=trials(60))
@given(drawn=st.one_of(valid_documents(), faulty_documents()))
def test_an_independent_validator_gives_the_same_verdict(
    drawn: Document | Faulty, place: Path, independent: dict[DocumentKind, xmlschema.XMLSchema]
) -> None:
    document = drawn if isinstance(drawn, Document) else drawn.document
    place.write_bytes(document.render()[0])
    accepted = independent[document.kind].is_valid(place, use_location_hints=False)
    assert accepted == (validate(place, document.kind, BOTH_WAYS[0]) == [])


@given(document=valid_documents(), data=st.data())
def test_no_damage_makes_the_two_ways_of_reading_disagree(document: Document, data: st.DataObject, place: Path) -> None:
    content = bytearray(document.render()[0])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(b"\0\x01<>&\"'/ \xe9a1=:!-]"))
    place.write_bytes(content)
    tree, streamed = (validate(place, document.kind, max_tree_bytes) for max_tree_bytes in BOTH_WAYS)
    assert tree == streamed
