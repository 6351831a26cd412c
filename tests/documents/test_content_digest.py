"""The digest of what a document says: the same however it is written, and another one for whatever else it says."""

from pathlib import Path

import pytest
from lxml import etree

from dcc.documents.content_digest import ContentDigest
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from tests.support.canonical_documents import canonical
from tests.support.rewritten_documents import written_otherwise
from tests.support.strategies_documents import full_document


def digest(content: bytes, kind: DocumentKind, path: Path) -> str:
    path.write_bytes(content)
    taken = ContentDigest()
    for one in read_document(path, kind):
        taken.take(one)
    return taken.hexdigest()


@pytest.mark.parametrize("kind", DocumentKind)
def test_it_tells_whatever_a_document_says_and_nothing_else(kind: DocumentKind, tmp_path: Path) -> None:
    """Attributes and texts of a document with all that there is, changed one by one, and white space around them."""
    path = tmp_path / "document.xml"
    content = full_document(kind, 1).render()[0]
    original, said = digest(content, kind, path), canonical(content, kind)
    other = written_otherwise(content)
    assert (canonical(other, kind), digest(other, kind, path)) == (said, original)
    root = etree.fromstring(content)
    places = [(element, name) for element in root.iter(etree.Element) for name in (None, *element.attrib)]
    for element, name in places[:: max(len(places) // 60, 1)]:
        former = (element.text if name is None else element.get(name)) or ""
        for value in (f"{former}0", f" {former}\n"):
            if name is not None:
                element.set(name, value)
            elif former.strip():
                element.text = value
            changed = etree.tostring(root)
            is_same = canonical(changed, kind) == said
            assert (digest(changed, kind, path) == original) is is_same, (element.tag, name, value)
        if name is None:
            element.text = former
        else:
            element.set(name, former)


def test_it_does_not_depend_on_how_much_is_taken_at_once(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    path.write_bytes(full_document(DocumentKind.SPECIMEN).render()[0])
    whole, parts = ContentDigest(), ContentDigest()
    for one in read_document(path, DocumentKind.SPECIMEN):
        whole.take(one)
        parts.take(one)
        parts.flush()
    assert whole.hexdigest() == parts.hexdigest()
