"""A page of a report as a reader, a browser or a screen reader takes it: its text, its parts, and what it refers to."""

import re
from functools import cached_property
from itertools import pairwise
from typing import Any

from lxml import html


class Page:
    """A page, parsed."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.root = html.document_fromstring(text.encode("utf-8"))

    @cached_property
    def text(self) -> str:
        """All that is to be read, blanks as one."""
        return plain(self.root.body)

    def all(self, path: str) -> list[Any]:
        found = self.root.xpath(path)
        assert isinstance(found, list)
        return found

    def texts(self, path: str) -> list[str]:
        return [plain(element) for element in self.all(path)]

    def section(self, identifier: str) -> str:
        """The text of the section whose heading has that id; empty if there is none."""
        return " ".join(self.texts(f"//section[@aria-labelledby='{identifier}']"))

    def table(self, caption: str) -> list[list[str]]:
        """The rows of the body of the table with that caption."""
        (table,) = [one for one in self.all("//table") if plain(one.find("caption")) == caption]
        return [[plain(cell) for cell in row.xpath("./th|./td")] for row in table.xpath("./tbody/tr")]

    def problems(self) -> list[str]:
        """What a page of ours must not have, or must: scripts, references elsewhere, headings out of order."""
        found = [
            f"<{name}>"
            for name in ("script", "iframe", "object", "embed", "form", "link", "base")
            if self.all(f"//{name}")
        ]
        for element in self.all("//*"):
            for name, value in element.attrib.items():
                if name.startswith("on") or name == "style":
                    found.append(f"{element.tag} {name}")
                if name in ("src", "href", "srcset", "action") and not value.startswith(("#", "data:image/svg+xml")):
                    found.append(f"{element.tag} {name}={value[:40]}")
        found += [f"style refers to {url}" for url in re.findall(r"url\(|@import", self.all("//style")[0].text)]
        return [*found, *self._wrong_structure()]

    def _wrong_structure(self) -> list[str]:
        found = []
        levels = [int(heading.tag[1]) for heading in self.all("//h1|//h2|//h3|//h4|//h5|//h6")]
        found += [f"h{a} before h{b}" for a, b in pairwise(levels) if b > a + 1]
        if levels.count(1) != 1 or levels[0] != 1:
            found.append(f"{levels.count(1)} h1")
        found += [
            f"{len(self.all(f'//{name}'))} {name}"
            for name in ("main", "header", "footer", "nav")
            if len(self.all(f"//{name}")) != 1
        ]
        identifiers = [element.get("id") for element in self.all("//*[@id]")]
        found += [f"id {one} twice" for one in set(identifiers) if identifiers.count(one) > 1]
        targets = [one.get("href")[1:] for one in self.all("//a[starts-with(@href, '#')]")]
        targets += [one.get("aria-labelledby") for one in self.all("//*[@aria-labelledby]")]
        found += [f"#{target} leads nowhere" for target in targets if target not in identifiers]
        found += ["a table without a caption" for one in self.all("//table") if one.find("caption") is None]
        found += ["a th without a scope" for one in self.all("//th[not(@scope)]")]
        found += ["a picture without words" for one in self.all("//img") if not one.get("alt")]
        return found


def plain(element: Any) -> str:
    """The text of an element, blanks as one."""
    return " ".join(" ".join(element.itertext()).split())
