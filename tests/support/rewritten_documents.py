"""Documents written otherwise that say the same: indented anew, attributes reordered, another prefix, a comment."""

from collections.abc import Mapping

from lxml import etree


def rewritten(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same documents under the same names; no two bytes in a row need be the same."""
    return {name: written_otherwise(content) for name, content in documents.items()}


def written_otherwise(content: bytes) -> bytes:
    """A document that says what this one says."""
    parser = etree.XMLParser(remove_blank_text=True, resolve_entities=False)
    former = etree.fromstring(content, parser)
    namespace = etree.QName(former).namespace
    root = etree.Element(former.tag, nsmap={"other": namespace})
    _copy(former, root)
    root.insert(0, etree.Comment("written otherwise"))
    etree.indent(root, space="\t")
    return etree.tostring(root, encoding="UTF-16", xml_declaration=True) if len(root) % 2 else etree.tostring(root)


def _copy(former: etree._Element, copied: etree._Element) -> None:
    for name, value in reversed(former.attrib.items()):
        copied.set(name, value)
    copied.text = former.text
    for child in former:
        _copy(child, etree.SubElement(copied, child.tag))
