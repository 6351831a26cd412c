"""Documents of every hostile kind. None is valid, and none may make anything be read or asked for."""

from collections.abc import Iterator

NAMESPACE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/specimen"
ROOT = "centreSpecimenSet"


def document(content: str = "", *, before: str = "", attributes: str = "", encoding: str = "UTF-8") -> bytes:
    """A specimen document with something before its root, in its root's tag and in its root."""
    head = f'<?xml version="1.0" encoding="{encoding}"?>{before}'
    return f'{head}<{ROOT} xmlns="{NAMESPACE}"{attributes}>{content}</{ROOT}>'.encode("utf-8", "surrogateescape")


def pointing_at(address: str) -> Iterator[tuple[str, bytes]]:
    """Documents that point at an address in every way that XML knows."""
    inner = f'<!ENTITY x SYSTEM "{address}">'
    parameter = f'<!ENTITY % p SYSTEM "{address}"> %p;'
    xsi = ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    include = f'<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="{address}" parse="text"/>'
    yield "external entity", document("&x;", before=f"<!DOCTYPE {ROOT} [{inner}]>")
    yield "external entity in a comment's shade", document("&x;", before=f"<!-- a --><!DOCTYPE {ROOT} [{inner}]>")
    yield "external DTD", document(before=f'<!DOCTYPE {ROOT} SYSTEM "{address}">')
    yield "public DTD", document(before=f'<!DOCTYPE {ROOT} PUBLIC "-//X//Y" "{address}">')
    yield "parameter entity", document(before=f"<!DOCTYPE {ROOT} [{parameter}]>")
    yield "notation", document(before=f'<!DOCTYPE {ROOT} [<!NOTATION n SYSTEM "{address}">]>')
    yield "XInclude", document(include)
    yield "schema location", document("<x/>", attributes=f'{xsi} xsi:schemaLocation="{NAMESPACE} {address}"')
    yield "no-namespace schema", document("<x/>", attributes=f'{xsi} xsi:noNamespaceSchemaLocation="{address}"')
    yield "style sheet", document("<x/>", before=f'<?xml-stylesheet type="text/xsl" href="{address}"?>')
    yield "base", document("<x/>", attributes=f' xml:base="{address}"')
    yield "namespace", document(f'<x xmlns="{address}"/>')
    wide = f'<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE {ROOT} [{inner}]><{ROOT} xmlns="{NAMESPACE}">&x;</{ROOT}>'
    yield "external entity in UTF-16", wide.encode("utf-16")


def hostile() -> Iterator[tuple[str, bytes]]:
    """Documents that would take memory or time, or are in encodings that parsers see differently."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    yield "billion laughs", document("&l11;", before=f'<!DOCTYPE {ROOT} [<!ENTITY l0 "lol">{laughs}]>')
    long = "a" * 50_000
    yield "quadratic blow-up", document("&l;" * 50_000, before=f'<!DOCTYPE {ROOT} [<!ENTITY l "{long}">]>')
    yield "recursive entity", document("&l;", before=f'<!DOCTYPE {ROOT} [<!ENTITY l "&l;">]>')
    yield "depth 100,000", document("<x>" * 100_000 + "</x>" * 100_000)
    yield "unclosed depth", document("<x>" * 100_000)
    yield "100,000 attributes", document("<centre " + " ".join(f'a{n}=""' for n in range(100_000)) + "/>")
    yield "100,000 attributes of the root", document(attributes=" " + " ".join(f'a{n}=""' for n in range(100_000)))
    yield "many namespaces", document("<x " + " ".join(f'xmlns:a{n}="u:{n}"' for n in range(100_000)) + "/>")
    yield "an attribute of 5 MB", document(f'<centre centreID="{"x" * 5_000_000}"/>')
    yield "50,000 siblings", document("<x/>" * 50_000)
    yield "50,000 elements that are expected", document("<centre/>" * 50_000)
    yield "a name of 200 kB", document(f"<{'x' * 200_000}/>")
    yield "a huge text", document("x" * 5_000_000)
    yield "100,000 comments", document("<!---->" * 100_000)
    yield "100,000 instructions", document("<?x?>" * 100_000)
    yield "the same attribute again", document("<centre " + 'a="" ' * 20_000 + "/>")
    yield "character references", document(f'<centre centreID="{"&#65;" * 100_000}"/>')
    yield "a reference to no character", document("&#x0;&#xFFFFFFFF;&#99999999999999999999;")
    for encoding in ("UTF-7", "UTF-32", "cp037", "IBM500", "unicode_escape", "rot13", "hz", "ISO-2022-JP", "x" * 9_000):
        yield f"declared as {encoding[:20]}", document("+ADw-x+AD4-", encoding=encoding)
    text = document().decode()
    yield "EBCDIC", document().replace(b"UTF-8", b"cp037")[:41] + text[41:].encode("cp037")
    for codec in ("utf-7", "utf-32", "utf-16", "utf-16-le", "cp500"):
        yield f"written in {codec}", text.encode(codec)
    yield "two marks", b"\xef\xbb\xbf" * 2 + document()
    yield "NULs", document("\0\0\0")
    yield "a NUL at the end", document() + b"\0" * 9
    yield "control characters", document("\x01\x1b[2J")
    yield "no characters", document("￿")
    yield "halves of surrogates", document().replace(b"></", b">\xed\xa0\x80</")
    yield "overlong", document().replace(b"></", b">\xc0\xbcx/></")
    yield "XML 1.1", document("&#1;").replace(b"1.0", b"1.1")
    yield "nothing but a declaration", b'<?xml version="1.0"?>'
    yield "a script", document("<script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script>")
