"""matplotlib's SVG files made into elements that pages hold beside others, under any content security policy."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from hashlib import sha256
from typing import Final

_SVG: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "http://www.w3.org/1999/xlink"
_FONTS: Final = "DejaVu Sans, Verdana, Arial, sans-serif"
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_PRECISION: Final = re.compile(r"-?\d+\.\d{3,}")
_WRITTEN: Final = frozenset({"d", "x", "y", "transform", "width", "height"})


def tidy_svg(text: str, *, title: str, description: str) -> str:
    """The `svg` element of a file that matplotlib wrote (with texts as texts), for a page.

    Styles become attributes, which no policy refuses; ids get a prefix that depends on all of the picture; numbers have
    two decimals (of a 72nd of an inch); `title` and `description` go before all else, as role `img` wants them.
    """
    root = ET.fromstring(text)  # noqa: S314  (written by matplotlib a moment ago)
    prefix = f"p{sha256(f'{title}{description}{text}'.encode()).hexdigest()[:10]}-"
    for parent in root.iter():
        for child in [child for child in parent if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}]:
            parent.remove(child)
        _plain(parent, prefix)
    root.attrib.pop("version", None)
    labels = {"title": title, "desc": description}
    for place, (tag, label) in enumerate(labels.items()):
        element = ET.Element(f"{{{_SVG}}}{tag}", {"id": f"{prefix}{tag}"})
        element.text = label
        root.insert(place, element)
    root.attrib.update(
        {
            "role": "img",
            "aria-labelledby": " ".join(f"{prefix}{tag}" for tag in labels),
            "stroke-linejoin": "round",
            "stroke-linecap": "butt",
        }
    )
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    return ET.tostring(root, encoding="unicode")


def _plain(element: ET.Element, prefix: str) -> None:
    if "id" in element.attrib:
        element.attrib["id"] = prefix + element.attrib["id"]
    link = f"{{{_XLINK}}}href"
    if link in element.attrib:
        element.attrib[link] = f"#{prefix}{element.attrib[link].removeprefix('#')}"
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name:
            element.attrib[name] = _FONTS if name == "font-family" else value
    for name, value in element.attrib.items():
        if value.startswith("url("):
            element.attrib[name] = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
        elif name in _WRITTEN:
            element.attrib[name] = _PRECISION.sub(_rounded, value)


def _rounded(found: re.Match[str]) -> str:
    return f"{float(found.group()):.2f}".rstrip("0").rstrip(".")
