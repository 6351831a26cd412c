"""Languages: texts, numbers and dates, catalogues that are whole, and the messages of what is wrong."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from io import BytesIO
from itertools import product
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

import dcc.error_declarations  # noqa: F401 - declares what it says of errors
from dcc.declarations import all_declared, declaration_of, message_of
from dcc.documents.schema_set import SCHEMA_FILES, SchemaSet
from dcc.documents.validation import validate_document
from dcc.documents.violations import EXPECTATIONS
from dcc.errors import ConfigurationError
from dcc.messages import Message, names_in
from dcc.naming import Action, DocumentKind
from dcc.outcomes import Problem
from dcc.qc.apply.upload_findings import objection
from dcc.qc.apply.versions import Version
from dcc.reports.languages import Catalogue, known_languages, load_catalogue
from dcc.reports.languages.loading import SHIPPED
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.findings import with_value
from dcc.rules.upload import describe
from dcc.session.data.document_problems import held_problem
from dcc.settings import Settings, load_settings
from dcc.vocabulary import EntityKind
from tests.documents.test_validation import FAULTS, SCHEMA_ERRORS, SCHEMAS
from tests.rules.test_rules import BREAKS, EXAMPLES
from tests.support.integrity_cases import check

LoadOwn = Callable[..., Catalogue]
HEADER = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"""
ENTRY = """
msgid "The colony {colony} is not known."
msgstr "%s"
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, languages_directory=tmp_path)


@pytest.fixture
def own(tmp_path: Path, settings: Settings) -> LoadOwn:
    """Writes a catalogue into the directory of a DCC's own, and loads it."""

    def load(code: str, body: str, header: str = HEADER) -> Catalogue:
        (tmp_path / f"{code}.po").write_text(header + body, "utf-8")
        return load_catalogue(code, settings)

    return load


def in_language(code: str | None, tmp_path: Path) -> Catalogue:
    return load_catalogue(code, Settings(home=tmp_path))


def test_the_language_of_the_installation_is_taken_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_language(None, tmp_path).code == "en"
    monkeypatch.setenv("DCC_LANGUAGE", "de")
    assert load_catalogue(None, load_settings(home=tmp_path)).code == "de"
    assert load_catalogue("en", load_settings(home=tmp_path)).code == "en"


@pytest.mark.parametrize(
    ("code", "day", "moment", "number", "parts"),
    [
        ("en", "31 Oct 2013", "31 Oct 2013, 14:05 UTC", "1,234,567.5", "a, b and c"),
        ("de", "31.10.2013", "31.10.2013, 14:05 UTC", "1.234.567,5", "a, b und c"),
    ],
)
def test_dates_numbers_and_lists_follow_the_locale(
    code: str, day: str, moment: str, number: str, parts: str, tmp_path: Path
) -> None:
    catalogue = in_language(code, tmp_path)
    assert catalogue.date(date(2013, 10, 31)) == day
    assert catalogue.moment(datetime(2013, 10, 31, 14, 5)) == moment
    assert catalogue.moment(datetime(2013, 10, 31, 15, 5, tzinfo=timezone(timedelta(hours=1)))) == moment
    assert catalogue.number(1234567.5, 1) == number
    assert catalogue.list(["a", "b", "c"]) == parts


def test_a_new_language_takes_a_file_and_no_code(own: LoadOwn, settings: Settings) -> None:
    polish = own(
        "pl",
        """
msgid "One document"
msgid_plural "{number} documents"
msgstr[0] "Jeden dokument"
msgstr[1] "{number} dokumenty"
msgstr[2] "{number} dokumentów"
""",
        HEADER
        + '"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);\\n"\n',
    )
    shown = [polish.say_plural("One document", "{number} documents", number) for number in (1, 2, 5, 22, 12_345)]
    assert shown == ["Jeden dokument", "2 dokumenty", "5 dokumentów", "22 dokumenty", "12\xa0345 dokumentów"]
    assert polish.date(date(2013, 10, 31)) == "31 paź 2013"
    shipped = {"de": "Deutsch", "en": "English"}
    assert known_languages(settings) == {**shipped, "pl": "polski"}, "Add a language that is shipped by now."


def test_a_catalogue_of_ones_own_goes_before_ours_entry_by_entry(own: LoadOwn, tmp_path: Path) -> None:
    """A text without a translation is said in English."""
    ours = in_language("de", tmp_path)
    untranslated = own("de", ENTRY % "")
    assert untranslated.say("The colony {colony} is not known.", colony="C1") == "The colony C1 is not known."
    theirs = own("de", '\nmsgid "{number} MB"\nmsgstr "{number} Megabyte"\n')
    assert (ours.size(1_400_000), theirs.size(1_400_000)) == ("1,4 MB", "1,4 Megabyte")
    assert ours.size(1_400) == theirs.size(1_400) == "1,4 kB"


def test_a_regional_language_takes_the_rest_from_the_one_that_it_is_of(own: LoadOwn, settings: Settings) -> None:
    austrian = own("de_AT", ENTRY % "Unbekannte Kolonie: {colony}.")
    assert austrian.say("The colony {colony} is not known.", colony="C1") == "Unbekannte Kolonie: C1."
    assert austrian.say_plural("One byte", "{number} bytes", 2) == "2 Byte"
    assert (austrian.tag, austrian.code) == ("de-AT", "de_AT")
    assert known_languages(settings)["de_AT"] == "Deutsch (Österreich)"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (ENTRY % "Unbekannt: {kolonie}.", "'The colony {colony} is not known.' has {kolonie}, which the English"),
        (ENTRY % "Unbekannt: {colony.__class__}.", "no plain name in braces"),
        (ENTRY % "Unbekannt: {colony!r}.", "no plain name in braces"),
        (ENTRY % "Unbekannt: {}.", "no plain name in braces"),
        (ENTRY % "Unbekannt: {colony", "cannot be used"),
        ("\nmsgid broken\n", "no .po file"),
        ('\nmsgid "One"\nmsgid_plural "{number}"\nmsgstr[0] "a"\nmsgstr[1] "b"\nmsgstr[2] "c"\n', "more translations"),
        (b"\n# \xff\n", "no .po file"),
        ('"Plural-Forms: nplurals=2; plural=n;\\n"\n', "no .po file"),
        ('"Plural-Forms: nplurals=2; plural=import;\\n"\n', "no .po file"),
        ('"Plural-Forms: nplurals=x; plural=0;\\n"\n', "no .po file"),
    ],
)
def test_a_wrong_catalogue_is_refused_with_its_name_and_what_is_wrong(
    body: str | bytes, problem: str, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "de.po").write_bytes(HEADER.encode() + (body if isinstance(body, bytes) else body.encode()))
    with pytest.raises(ConfigurationError) as raised:
        load_catalogue("de", settings)
    assert str(tmp_path / "de.po") in str(raised.value)
    assert problem in str(raised.value)
    assert "Correct" in str(raised.value)


@pytest.mark.parametrize("code", ["dk", "../en", "EN", "", "de_", "x" * 1000])
def test_a_language_that_there_is_not_is_refused(code: str, settings: Settings) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_catalogue(code, settings)
    assert len(str(raised.value)) < 300


ROOT = Path(__file__).parents[2]
PACKAGES = ("dcc", "dcc_assets", "dcc_sensors")
KEYWORDS = {"mark": None, "mark_plural": (1, 2), "say": None, "say_plural": (1, 2)}
CODES = sorted(path.name for path in SHIPPED.iterdir() if path.is_dir())
ADVICE = "Run `make languages`, translate these texts in its dcc.po, run it again, and commit the catalogues."

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


@pytest.mark.parametrize("code", CODES)
def test_a_catalogue_is_whole(code: str, texts: set[Id]) -> None:
    """It has every text of the code and no other, each translated, with its names in braces, and compiled."""
    assert len(texts) > 300
    catalog, usual = read(code), Catalog(locale=code)
    messages = {message.id if isinstance(message.id, str) else tuple(message.id): message for message in catalog}
    messages.pop("")
    assert (sorted(map(str, texts - messages.keys())), sorted(map(str, messages.keys() - texts))) == ([], []), ADVICE
    assert [text for text, message in messages.items() if not all(strings(message.string))] == [], ADVICE
    with (SHIPPED / code / "LC_MESSAGES" / "dcc.mo").open("rb") as file:
        compiled = {strings(message.id): strings(message.string) for message in read_mo(file) if message.id}
    assert compiled == {strings(text): strings(message.string) for text, message in messages.items()}, ADVICE
    assert (catalog.num_plurals, catalog.plural_expr) == (usual.num_plurals, usual.plural_expr)
    wrong = []
    for text, message in messages.items():
        assert isinstance(text, str) or len(strings(message.string)) == usual.num_plurals
        wanted = [names_in(each) for each in strings(text)]
        forms = [names_in(form) for form in strings(message.string)]
        # The form for one thing may name the number or not.
        other = forms[0] - {"number"} != wanted[0] - {"number"} or any(form - wanted[0] - wanted[-1] for form in forms)
        if other or forms[-1] != wanted[-1]:
            wrong.append(text)
    assert wrong == []


def test_whatever_is_declared_is_marked(texts: set[Id]) -> None:
    """A rule whose texts are not marked would be said in English alone."""
    assert CATALOGUE
    for name, one in all_declared().items():
        for text in (one.message, one.cause, *one.what_to_do(at_centre=False), *one.what_to_do(at_centre=True)):
            assert not text or text in texts, f"{name}: put mark() around {text!r}."


SETTINGS = Settings(home=Path("/nowhere"))
GERMAN = load_catalogue("de", SETTINGS)
ENGLISH = load_catalogue("en", SETTINGS)
VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"[^"]*"|<[^>]*>|„[^“]*“|`[^`]*`""")
LEFT_IN_ENGLISH = re.compile(r"\b(?:the|is|are|of|not|and|or|with|which|that|than|expected|it|no|has|there)\b", re.I)


def assert_said(message: Message | Problem) -> None:
    """The message is whole in German, and in English as it is recorded."""
    said = message.marked if isinstance(message, Problem) else message
    german = GERMAN.tell(said)
    assert german != str(said)
    assert LEFT_IN_ENGLISH.search(VALUES.sub("", german)) is None, german
    assert ENGLISH.tell(said) == str(said)
    assert "{" not in str(said)


def test_what_rules_find_is_said_in_german_with_every_detail_that_is_declared() -> None:
    for example in EXAMPLES:
        if example.role == BREAKS:
            found = check(example.document, **example.options)
            assert found, example
            for finding in found:
                declaration = declaration_of(finding.code)
                assert declaration is not None, f"{finding.code} is not declared. Give @rule a case of that name."
                known = with_value(finding.details, finding.value)
                missing = (names_in(declaration.message) | {*declaration.cause_by}) - known.keys()
                assert not missing, f"{finding.code} does not yield {sorted(missing)}."
                assert_said(message_of(finding.code, known))


KEYS = {
    EntityKind.SPECIMEN: ("H", "M1"),
    EntityKind.EXPERIMENT: ("H", "E1", "2", "IMPC_CBC_001"),
    EntityKind.LINE: ("H", "C1", None, None),
    EntityKind.HOUSING: ("H", "P1", "p", 0, None),
}


def test_what_the_upload_finds_is_said_in_german() -> None:
    named = [[f"E{number}" for number in range(most)] for most in (0, 1, 2, 20)]
    for kind, action, document, experiments in product(EntityKind, Action, [None, 1, 2], named):
        there = None if document is None else Version(*[document] * len(Version._fields))
        found = objection(action, kind, there, 1, experiments, str)
        if found is not None:
            assert_said(message_of(found[0], found[1] | {"entity": describe(kind, KEYS[kind])}))


def test_how_much_a_held_document_would_change_is_said_in_german() -> None:
    several = held_problem("edit/H.zip", dict.fromkeys(EntityKind, 1_204))
    assert_said(several)
    assert "1.204 Tiere, 1.204 Experimente, 1.204 Linien, 1.204 Haltungsangaben" in GERMAN.tell(several.translatable)
    assert "It would replace or remove 1,204 specimens, 1,204 experiments, " in str(several.translatable)
    one = held_problem("edit/H.zip", dict.fromkeys(EntityKind, 1))
    assert_said(one)
    assert "ein Tier, ein Experiment, eine Linie, eine Haltungsangabe" in GERMAN.tell(one.translatable)


def problems(tmp_path: Path, content: str | bytes, kind: DocumentKind | None, most: int = 100) -> list[Problem]:
    path = tmp_path / "document.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return validate_document(path, kind, SCHEMAS, max_errors=most, max_tree_bytes=10_000_000)


def test_what_is_wrong_with_a_document_is_said_in_german(tmp_path: Path) -> None:
    for case, (content, *_) in (SCHEMA_ERRORS | FAULTS).items():
        found = problems(tmp_path, content, DocumentKind.EXPERIMENT)
        assert found, case
        for problem in found:
            if case != "a type is declared that is not known":
                assert_said(problem)


FACETS = {
    "length": ("string", "2", "abc"),
    "maxLength": ("string", "2", "abc"),
    "minLength": ("string", "4", "abc"),
    "pattern": ("string", "[0-9]+", "abc"),
    "minInclusive": ("int", "2", "1"),
    "maxInclusive": ("int", "2", "3"),
    "minExclusive": ("int", "2", "1"),
    "maxExclusive": ("int", "2", "3"),
    "totalDigits": ("int", "2", "123"),
    "fractionDigits": ("decimal", "1", "1.23"),
}
TYPES = [name for name in EXPECTATIONS if name not in FACETS]


def schema_of_a_site(tmp_path: Path) -> tuple[SchemaSet, str]:
    """A schema with an element of each type and facet that there are words for, and one that breaks each of them."""
    types = [f'<xs:element name="e" type="xs:{name}"/>' for name in TYPES]
    values = ["http://[" if name == "anyURI" else "v" for name in TYPES]
    for facet, (base, limit, value) in FACETS.items():
        restriction = f'<xs:restriction base="xs:{base}"><xs:{facet} value="{limit}"/></xs:restriction>'
        types.append(f'<xs:element name="e"><xs:simpleType>{restriction}</xs:simpleType></xs:element>')
        values.append(value)
    numbered = "".join(text.replace('name="e"', f'name="e{number}"') for number, text in enumerate(types))
    for kind, name in SCHEMA_FILES.items():
        within = f"<xs:complexType><xs:sequence>{numbered}</xs:sequence></xs:complexType>"
        root = f'<xs:element name="{kind}">{within}</xs:element>'
        (tmp_path / name).write_text(f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{root}</xs:schema>')
    wrong = "".join(f"<e{number}>{value}</e{number}>" for number, value in enumerate(values))
    return SchemaSet.load(tmp_path), wrong


def test_what_the_schema_of_a_site_refuses_is_said_in_german(tmp_path: Path) -> None:
    schemas, wrong = schema_of_a_site(tmp_path)
    path = tmp_path / "document.xml"
    path.write_text(f"<{DocumentKind.EXPERIMENT}>{wrong}</{DocumentKind.EXPERIMENT}>")
    found = validate_document(path, None, schemas, max_errors=100, max_tree_bytes=10_000_000)
    assert len(found) == len(EXPECTATIONS)
    for problem in found:
        assert_said(problem)


def test_values_are_not_translated_nor_looked_at() -> None:
    odd = "is not registered. {colony}"
    said = GERMAN.tell(message_of("S4", {"value": odd, "specimen": "of"}))
    assert odd in said
