"""When two documents say the same: one form for all of them, after what XML and XML Schema hold to be equivalent.

Typed values keep how they were written (2013-10-31Z, +1.50): only white space around them, which their types do not
count, is taken away. The types are those of tests/strategies_documents, written down independently of the code.
"""

from collections.abc import Iterable

from lxml import etree

from dcc.documents.contents import Content
from dcc.documents.writing_xml import document_pieces
from dcc.naming import DocumentKind
from tests.support.strategies_documents import KINDS

_PLAIN = {"text", "ilar", "zygosity", "gender", "strict gender", "stage unit", "relationship"}
_ROOTS = {DocumentKind.SPECIMEN: "specimens", DocumentKind.EXPERIMENT: "procedures"}


def canonical(content: bytes, kind: DocumentKind) -> str:
    """The canonical form (C14N 2.0) of a valid document, without prefixes of its own and what speaks to parsers."""
    parser = etree.XMLParser(remove_comments=True, remove_pis=True, resolve_entities=False, huge_tree=True)
    root = etree.fromstring(content, parser)
    _normalise(root, _ROOTS[kind])
    return etree.canonicalize(root, rewrite_prefixes=True)


def _normalise(element: etree._Element, kind_name: str) -> None:
    kind = KINDS[kind_name]
    for name in list(element.attrib):
        if str(name).startswith("{http://www.w3.org/2001/XMLSchema-instance}"):
            del element.attrib[name]
        elif kind.attributes[str(name)][0] not in _PLAIN:
            element.attrib[name] = str(element.attrib[name]).strip(" \t\r\n")
    if kind.text is None:
        assert not (element.text or "").strip(" \t\r\n")
        element.text = None
    elif kind.text not in _PLAIN:
        element.text = (element.text or "").strip(" \t\r\n")
    kinds = {name: child_kind for name, child_kind, _, _ in kind.children}
    for child in element:
        assert not (child.tail or "").strip(" \t\r\n")
        child.tail = None
        _normalise(child, kinds[etree.QName(child).localname])


def write_document(kind: DocumentKind, contents: Iterable[Content]) -> bytes:
    """A document in UTF-8, as the platform writes it."""
    return "".join(document_pieces(kind, contents)).encode()
