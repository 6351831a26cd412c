"""The catalogues that come with the platform are in step with its code and templates, whole, and compiled."""

from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

from dcc.declarations import all_declared
from dcc.messages import names_in
from dcc.reports.causes import errors as _declared_errors  # noqa: F401 - declares what it says of errors
from dcc.reports.languages import load_catalogue
from dcc.reports.languages.loading import SHIPPED
from dcc.rules.catalogue import CATALOGUE
from dcc.settings import Settings

ROOT = Path(__file__).parents[2]
PACKAGES = ("dcc", "dcc_assets", "dcc_sensors")
KEYWORDS = {"mark": None, "mark_plural": (1, 2), "say": None, "say_plural": (1, 2)}
CODES = sorted(path.name for path in SHIPPED.iterdir() if path.is_dir())
ADVICE = "Run `make languages`, translate what it counts in dcc.po, run it again, and commit the catalogues."

Id = str | tuple[str, ...]


def read(code: str) -> Catalog:
    return read_po(BytesIO((SHIPPED / code / "LC_MESSAGES" / "dcc.po").read_bytes()), abort_invalid=True)


def strings(texts: object) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def texts() -> set[Id]:
    """Every text that the code and the templates mark."""
    with (ROOT / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    found: set[Id] = set()
    for package in PACKAGES:
        for _, _, text, _, _ in extract_from_dir(ROOT / package, methods, options, KEYWORDS):
            found.add(text if isinstance(text, str) else tuple(text))
    return found


def test_german_comes_with_the_platform() -> None:
    assert "de" in CODES


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_has_every_text_of_the_code_and_no_other(code: str, texts: set[Id]) -> None:
    assert len(texts) > 300
    there = {message.id if isinstance(message.id, str) else tuple(message.id) for message in read(code) if message.id}
    assert (sorted(map(str, texts - there)), sorted(map(str, there - texts))) == ([], []), ADVICE


@pytest.mark.parametrize("code", CODES)
def test_no_text_is_without_a_translation(code: str) -> None:
    untranslated = [message.id for message in read(code) if message.id and not all(strings(message.string))]
    assert (len(untranslated), untranslated) == (0, []), ADVICE


@pytest.mark.parametrize("code", CODES)
def test_what_is_compiled_is_what_translators_wrote(code: str) -> None:
    with (SHIPPED / code / "LC_MESSAGES" / "dcc.mo").open("rb") as file:
        compiled = {strings(message.id): strings(message.string) for message in read_mo(file) if message.id}
    assert compiled == {strings(message.id): strings(message.string) for message in read(code) if message.id}, ADVICE


@pytest.mark.parametrize("code", CODES)
def test_translations_have_the_names_in_braces_of_their_text(code: str) -> None:
    wrong = []
    for message in read(code):
        if not message.id:
            continue
        wanted = [names_in(text) for text in strings(message.id)]
        forms = [names_in(form) for form in strings(message.string)]
        # The form for one thing may name the number or not.
        other = forms[0] - {"number"} != wanted[0] - {"number"} or any(form - wanted[0] - wanted[-1] for form in forms)
        if other or forms[-1] != wanted[-1]:
            wrong.append(message.id)
    assert wrong == []


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_has_the_plural_forms_that_its_language_has(code: str) -> None:
    catalog, usual = read(code), Catalog(locale=code)
    assert (catalog.num_plurals, catalog.plural_expr) == (usual.num_plurals, usual.plural_expr)
    assert all(len(strings(m.string)) == usual.num_plurals for m in catalog if m.id and not isinstance(m.id, str))


@pytest.mark.parametrize("code", CODES)
def test_whatever_is_declared_is_said_in_every_language(code: str) -> None:
    """A rule whose texts are not marked would be said in English alone."""
    assert CATALOGUE
    catalogue = load_catalogue(code, Settings(home=Path("/nowhere")))
    for name, one in all_declared().items():
        for text in (one.message, one.cause, *one.what_to_do(at_centre=False), *one.what_to_do(at_centre=True)):
            if text:
                values = dict.fromkeys(names_in(text), "V")
                assert catalogue.say(text, **values) != text.format_map(values), name
