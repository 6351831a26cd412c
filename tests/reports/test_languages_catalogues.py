"""The catalogues that come with the platform are in step with its code and templates, and whole."""

from __future__ import annotations

import ast
import shutil
import sys
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

from dcc.errors import InternalFaultError
from dcc.reports.languages import Catalogue, extracting, load_catalogue
from dcc.reports.languages.extracting import PACKAGES, ROOT, bring_in_step, texts_in, untranslated
from dcc.reports.languages.loading import SHIPPED
from dcc.reports.languages.po_file import fields_of, strings
from dcc.settings import Settings

CODES = sorted(path.stem for path in SHIPPED.glob("*.po"))
ADVICE = "Run `python -m dcc.reports.languages.extracting`, translate what it names, and commit the catalogues."


@pytest.fixture(scope="module")
def texts() -> Catalog:
    return texts_in([ROOT / package for package in PACKAGES])


def read(code: str) -> Catalog:
    return read_po(BytesIO((SHIPPED / f"{code}.po").read_bytes()), abort_invalid=True)


def ids(catalog: Catalog) -> set[str | tuple[str, ...]]:
    return {message.id if isinstance(message.id, str) else tuple(message.id) for message in catalog if message.id}


def test_english_and_german_come_with_the_platform() -> None:
    assert {"de", "en"} <= set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_has_every_text_of_the_code_and_no_other(code: str, texts: Catalog) -> None:
    assert len(texts) > 300
    there, wanted = ids(read(code)), ids(texts)
    assert (sorted(map(str, wanted - there)), sorted(map(str, there - wanted))) == ([], []), ADVICE


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_translates_every_text(code: str) -> None:
    assert untranslated(SHIPPED / f"{code}.po") == [], ADVICE


@pytest.mark.parametrize("code", CODES)
def test_translations_have_the_names_in_braces_of_their_text(code: str) -> None:
    wrong = []
    for message in read(code):
        if isinstance(message.id, str):
            if fields_of(message.id) != fields_of("".join(strings(message.string))):
                wrong.append(message.id)
            continue
        one, many = map(fields_of, message.id)
        forms = [fields_of(form) for form in strings(message.string)]
        # The form for one thing may name the number or not.
        other = forms[0] - {"number"} != one - {"number"} or any(form - (one | many) for form in forms)
        if other or forms[-1] != many:
            wrong.append(message.id[0])
    assert wrong == []


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_has_the_plural_forms_that_its_language_has(code: str) -> None:
    catalog = read(code)
    usual = Catalog(locale=code)
    assert (catalog.num_plurals, catalog.plural_expr) == (usual.num_plurals, usual.plural_expr)
    assert all(len(strings(m.string)) == usual.num_plurals for m in catalog if m.id and not isinstance(m.id, str))


def test_english_says_what_the_code_says() -> None:
    catalogue = load_catalogue("en", Settings(home=Path("/nowhere")))
    for message in read("en"):
        if message.id:
            assert tuple(strings(message.string)) == tuple(strings(message.id))
    assert catalogue.plural("One byte", "{number} bytes", 1) == "One byte"


def _edges(text: str) -> tuple[str, str, str]:
    """What stands at the ends of a text and must stand there in any language: blanks, and what ends a sentence."""
    return text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :], text[-1] if text[-1] in ".:?" else ""


def test_german_begins_and_ends_sentences_as_english_does() -> None:
    """A full stop, colon or blank that is lost joins two sentences."""
    wrong = [
        (english, german)
        for message in read("de")
        if message.id
        for english, german in zip(strings(message.id), strings(message.string), strict=True)
        if german and _edges(english) != _edges(german)
    ]
    assert wrong == []


def _calls(path: Path) -> list[ast.Call]:
    content = path.read_bytes()
    if extracting.CALL.search(content) is None:
        return []
    return [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Call)]


def test_every_text_is_given_the_values_that_it_names() -> None:
    """`catalogue.text("... {colony} ...")` without `colony=` would fail at the first centre that it is said to."""
    wrong, looked_at = [], 0
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for call in _calls(path):
                name = extracting.called(call.func)
                if name not in ("text", "plural") or any(keyword.arg is None for keyword in call.keywords):
                    continue
                count = 1 if name == "text" else 2
                given = [each.value for each in call.args[:count] if isinstance(each, ast.Constant)]
                if len(given) != count or not all(isinstance(text, str) for text in given):
                    continue
                looked_at += 1
                wanted = frozenset().union(*map(fields_of, map(str, given))) - ({"number"} if count == 2 else set())
                if wanted != {keyword.arg for keyword in call.keywords}:
                    wrong.append(f"{path.name}:{call.lineno}: {given[0]}")
    assert looked_at
    assert wrong == []


def test_every_text_of_a_template_is_given_the_values_that_it_names() -> None:
    from jinja2 import Environment, nodes

    wrong, looked_at = [], 0
    templates = [path for package in PACKAGES for path in (ROOT / package).rglob("templates/**/*") if path.is_file()]
    for path in templates:
        for call in Environment(autoescape=True).parse(path.read_text("utf-8")).find_all(nodes.Call):
            if not isinstance(call.node, nodes.Name) or call.node.name not in ("say", "say_plural"):
                continue
            count = 1 if call.node.name == "say" else 2
            given = [each.value for each in call.args[:count] if isinstance(each, nodes.Const)]
            if len(given) != count or call.dyn_kwargs is not None:
                continue
            looked_at += 1
            wanted = frozenset().union(*map(fields_of, given)) - ({"number"} if count == 2 else set())
            if wanted != {keyword.key for keyword in call.kwargs}:
                wrong.append(f"{path.name}:{call.lineno}: {given[0]}")
    assert bool(looked_at) == bool(templates)
    assert wrong == []


MODULE = """
from dcc.reports.languages import mark, mark_plural
import sqlalchemy as sa

THINGS = {"a": mark("Marked {x}"), "b": mark_plural("one thing", "{number} things")}

def say(catalogue, session):
    catalogue.text("Said " "twice")
    catalogue.plural("One", "Many {number}", 3)
    catalogue.text(THINGS["a"], x=1)
    session.execute(sa.text("SELECT 1"))
"""
TEMPLATE = '<p>{{ say("In a {place}", place=x) }} {{ say_plural("One hit", "{number} hits", n) }} {{ number(3) }}</p>'


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    (package / "templates").mkdir(parents=True)
    (package / "module.py").write_text(MODULE, "utf-8")
    (package / "templates" / "page.html").write_text(TEMPLATE, "utf-8")
    return package


def test_texts_are_found_in_modules_and_templates(package: Path) -> None:
    assert ids(texts_in([package])) == {
        "Marked {x}", ("one thing", "{number} things"), "Said twice", ("One", "Many {number}"), "In a {place}",
        ("One hit", "{number} hits"),
    }  # fmt: skip


def test_a_text_that_is_put_together_is_refused_with_its_place(package: Path) -> None:
    (package / "wrong.py").write_text("def f(catalogue, x):\n    catalogue.text(f'The {x}')\n", "utf-8")
    with pytest.raises(InternalFaultError, match=r"wrong\.py, line 2: an f-string"):
        texts_in([package])


def test_bringing_in_step_keeps_translations_and_is_done_at_once(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "de.po"
    path.write_text(
        'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
        'msgid "Marked {x}"\nmsgstr "Markiert: {x}"\n\nmsgid "Gone"\nmsgstr "Weg"\n',
        "utf-8",
    )
    assert bring_in_step(path, texts_in([package]))
    after = path.read_bytes()
    assert b"Markiert: {x}" in after
    assert b"Gone" not in after
    assert b"Weg" not in after
    assert len(untranslated(path)) == 5
    assert not bring_in_step(path, texts_in([package]))
    assert path.read_bytes() == after


def test_english_is_its_own_translation(package: Path, tmp_path: Path) -> None:
    path = tmp_path / "en.po"
    shutil.copy(SHIPPED / "en.po", path)
    assert bring_in_step(path, texts_in([package]))
    assert untranslated(path) == []
    assert not bring_in_step(path, texts_in([package]))


def test_the_command_says_what_is_to_be_translated(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fr.po").write_text('msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n', "utf-8")
    monkeypatch.setattr(extracting, "ROOT", tmp_path)
    monkeypatch.setattr(extracting, "PACKAGES", ["package"])
    monkeypatch.setattr(extracting, "SHIPPED", tmp_path)
    assert extracting.main() == 1
    assert "fr.po: 6 texts, brought in step, 6 to translate\n  Marked {x}" in capsys.readouterr().out
    assert extracting.main() == 1
    assert "fr.po: 6 texts, in step, 6 to translate" in capsys.readouterr().out


def test_commands_that_say_nothing_to_centres_load_no_catalogues() -> None:
    """Reading catalogues costs a tenth of a second, which `dcc` need not spend at its start."""
    import subprocess

    program = "import sys, dcc.cli.main; print('babel' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


def catalogue_and_message(code: str) -> tuple[Catalogue, list[Message]]:
    return load_catalogue(code, Settings(home=Path("/nowhere"))), [message for message in read(code) if message.id]


@pytest.mark.parametrize("code", CODES)
def test_every_text_can_be_said(code: str) -> None:
    catalogue, messages = catalogue_and_message(code)
    for message in messages:
        if isinstance(message.id, str):
            assert catalogue.text(message.id, **dict.fromkeys(fields_of(message.id), "V"))
        else:
            one, many = message.id
            values = dict.fromkeys(fields_of(one) | fields_of(many), "V")
            values.pop("number", None)
            assert catalogue.plural(one, many, 1, **values) != catalogue.plural(one, many, 2, **values)
