"""Bring the catalogues in step with the texts in code and templates: `python -m dcc.reports.languages.extracting`.

For developers. Babel looks at `.text("...")`, `.plural("...", "...")`, `mark("...")` and `mark_plural("...", "...")`
in the packages, and at `say("...")` and `say_plural("...", "...")` in their Jinja templates. New texts are added
without a translation (in English, with themselves), texts that nothing has any more are taken out, and translations are
kept. A second run changes nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from dcc.errors import InternalFaultError
from dcc.reports.languages.loading import SHIPPED, SOURCE_LANGUAGE
from dcc.reports.languages.po_file import strings

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("dcc", "dcc_assets", "dcc_sensors")
TEMPLATE_SUFFIXES: Final = frozenset({".html", ".txt", ".xml", ".md", ".j2", ".jinja", ".jinja2"})
"""Of files in directories that are called `templates`."""

_CALLS: Final = {"text": None, "mark": None, "plural": (1, 2), "mark_plural": (1, 2), "say": None, "say_plural": (1, 2)}
CALL: Final = re.compile(rb"\b(?:text|plural|mark|mark_plural)\(")
"""What the source of a module has in which there may be texts."""

_NO_CATALOGUES: Final = frozenset({"sa", "sqlalchemy"})
_WIDTH: Final = 110
_HEADER: Final = """\
# Texts for people at centres. Brought in step with the code by `python -m dcc.reports.languages.extracting`.
msgid ""
msgstr ""
"Language: {code}\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plural_forms}\\n"

"""


def texts_in(packages: Collection[Path]) -> Catalog:
    """Every text that the modules and templates of these packages have, with the files that have it.

    Raises InternalFaultError that names the place when a text cannot be extracted, since it is put together.
    """
    found = Catalog(charset="utf-8")
    for package in packages:
        for path in sorted(package.rglob("*")):
            method = _method(path)
            if method is None:
                continue
            with path.open("rb") as file:
                for _, text, comments, _context in extract(method, file, _CALLS):
                    found.add(text, locations=[(str(path.relative_to(package.parent)), 0)], auto_comments=comments)
    return found


def bring_in_step(path: Path, texts: Catalog) -> bool:
    """Give a catalogue file exactly these texts, with the translations that it has. Whether that changed the file."""
    before = path.read_bytes()
    catalog = read_po(BytesIO(before), abort_invalid=True)
    catalog.update(texts, no_fuzzy_matching=True, update_header_comment=False, update_creation_date=False)
    catalog.obsolete.clear()
    if path.stem == SOURCE_LANGUAGE:
        for message in catalog:
            if message.id and (message.fuzzy or not all(strings(message.string))):
                message.string = message.id
                message.flags.discard("fuzzy")
    after = BytesIO(_HEADER.format(code=path.stem, plural_forms=catalog.plural_forms).encode())
    after.seek(0, 2)
    write_po(after, catalog, width=_WIDTH, omit_header=True, include_lineno=False, sort_by_file=True)
    if after.getvalue() == before:
        return False
    path.write_bytes(after.getvalue())
    return True


def untranslated(path: Path) -> list[str]:
    """The texts that a catalogue file has no translation of."""
    catalog = read_po(BytesIO(path.read_bytes()), abort_invalid=True)
    return [
        message.id if isinstance(message.id, str) else message.id[0]
        for message in catalog
        if message.id and (message.fuzzy or not all(strings(message.string)))
    ]


def _method(path: Path) -> Any:
    if path.suffix == ".py" and "migrations" not in path.parts:
        return _python_texts
    if "templates" in path.parts and path.suffix in TEMPLATE_SUFFIXES:
        return "jinja2.ext:babel_extract"
    return None


def _python_texts(
    file: IO[bytes], *_keywords_and_tags: Any, **_options: Any
) -> Iterator[tuple[int, str, list[str], list[str]]]:
    """Babel's interface for extracting: line, name of what is called, its texts, comments; of one Python module."""
    content = file.read()
    if CALL.search(content) is None:
        return
    for node in ast.walk(ast.parse(content)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = called(node.func)
        if name is None:
            continue
        wanted = node.args[: 2 if "plural" in name else 1]
        if any(isinstance(argument, ast.JoinedStr) for argument in wanted):
            raise InternalFaultError(
                f"{getattr(file, 'name', 'A module')}, line {node.lineno}: an f-string cannot be translated. Give its "
                "values by name: .text('The colony {colony} is not known.', colony=colony)."
            )
        texts = [each.value for each in wanted if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if len(texts) == (2 if "plural" in name else 1):
            yield node.lineno, name, texts, []


def called(function: ast.expr) -> str | None:
    """Which of the calls that have texts this is, by what is called; None for any other."""
    if isinstance(function, ast.Name):
        return function.id if function.id in ("mark", "mark_plural") else None
    if not isinstance(function, ast.Attribute) or function.attr not in ("text", "plural"):
        return None
    if isinstance(function.value, ast.Name) and function.value.id in _NO_CATALOGUES:
        return None
    return function.attr


def main() -> int:
    """Bring all catalogues of this checkout in step, and say what they lack. 1 when one of them lacks something."""
    texts = texts_in([ROOT / package for package in PACKAGES])
    lacking = 0
    for path in sorted(SHIPPED.glob("*.po")):
        changed = bring_in_step(path, texts)
        missing = untranslated(path)
        lacking += len(missing)
        what = "brought in step" if changed else "in step"
        print(f"{path.name}: {len(texts)} texts, {what}, {len(missing)} to translate")
        for text in missing:
            print(f"  {text}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
