"""Languages: texts from catalogues, numbers and dates by locale, and catalogues of one's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from jinja2 import Environment

from dcc.errors import ConfigurationError
from dcc.reports.languages import Catalogue, known_languages, load_catalogue
from dcc.settings import Settings, load_settings

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


def test_a_text_without_a_translation_is_said_in_english(own: LoadOwn) -> None:
    catalogue = own("de", ENTRY % "")
    assert catalogue.say("The colony {colony} is not known.", colony="C1") == "The colony C1 is not known."


def test_values_are_put_into_a_translation_by_name_and_are_not_looked_at(own: LoadOwn) -> None:
    catalogue = own("de", ENTRY % "Unbekannt ist die Kolonie {colony}.")
    hostile = "{colony.__class__} {0} %s <b>"
    assert catalogue.say("The colony {colony} is not known.", colony=hostile) == f"Unbekannt ist die Kolonie {hostile}."


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


@pytest.mark.parametrize(
    ("number", "decimals", "shown"),
    [
        (0, None, "0"),
        (12_345_678, None, "12,345,678"),
        (0.000123, None, "0.000123"),
        (0.1 + 0.2, None, "0.3"),
        (1_234_567.8, None, "1,234,568"),
        (-2.5, None, "-2.5"),
        (2.0, 2, "2.00"),
        (2.6, 0, "3"),
        (10**17, None, "100,000,000,000,000,000"),
        (10**400, None, "1E400"),
        (-1.2345678e100, 2, "-1.23457E100"),
        (5e-324, None, "4.94066E-324"),
        (5e-324, 2, "0.00"),
        (2.675, 2, "2.67"),
        (2, 1, "2.0"),
        (float("nan"), None, "nan"),
        (float("inf"), 2, "inf"),
    ],
)
def test_numbers_are_as_exact_as_was_asked_for(number: float, decimals: int | None, shown: str, tmp_path: Path) -> None:
    assert in_language("en", tmp_path).number(number, decimals) == shown


def test_sizes_are_in_the_unit_that_fits(tmp_path: Path) -> None:
    sizes = [0, 1, 812, 1_400, 1_400_000, 5 * 10**9, 10**16]
    english = ["0 bytes", "One byte", "812 bytes", "1.4 kB", "1.4 MB", "5.0 GB", "10,000.0 TB"]
    assert [in_language("en", tmp_path).size(size) for size in sizes] == english
    assert [in_language("de", tmp_path).size(size) for size in sizes[1:4]] == ["Ein Byte", "812 Byte", "1,4 kB"]


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
    assert known_languages(settings) == {"de": "Deutsch", "en": "English", "pl": "polski"}


def test_a_language_that_the_cldr_does_not_know_has_english_dates(own: LoadOwn, settings: Settings) -> None:
    klingon = own("tlh", ENTRY % "{colony} Sovbe'lu'.")
    assert klingon.say("The colony {colony} is not known.", colony="C1") == "C1 Sovbe'lu'."
    assert (klingon.date(date(2013, 10, 31)), klingon.name, klingon.direction) == ("31 Oct 2013", "tlh", "ltr")


def test_a_catalogue_of_ones_own_goes_before_ours_entry_by_entry(own: LoadOwn, tmp_path: Path) -> None:
    ours = in_language("de", tmp_path)
    theirs = own("de", '\nmsgid "{number} MB"\nmsgstr "{number} Megabyte"\n')
    assert (ours.size(1_400_000), theirs.size(1_400_000)) == ("1,4 MB", "1,4 Megabyte")
    assert ours.size(1_400) == theirs.size(1_400) == "1,4 kB"


def test_a_regional_language_takes_the_rest_from_the_one_that_it_is_of(own: LoadOwn) -> None:
    austrian = own("de_AT", ENTRY % "Unbekannte Kolonie: {colony}.")
    assert austrian.say("The colony {colony} is not known.", colony="C1") == "Unbekannte Kolonie: C1."
    assert austrian.say_plural("One byte", "{number} bytes", 2) == "2 Byte"
    assert (austrian.tag, austrian.code) == ("de-AT", "de_AT")
    assert austrian.name == "Deutsch (Österreich)"


def test_a_changed_catalogue_is_read_anew(own: LoadOwn) -> None:
    assert own("de", ENTRY % "Eins: {colony}.").say("The colony {colony} is not known.", colony=1) == "Eins: 1."
    assert own("de", ENTRY % "Zweitens: {colony}.").say("The colony {colony} is not known.", colony=1) == "Zweitens: 1."


def test_a_text_of_right_to_left_says_so(own: LoadOwn) -> None:
    assert own("ar", ENTRY % "{colony}").direction == "rtl"


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


@pytest.mark.parametrize("plural", ["nplurals=2; plural=n", "nplurals=2; plural=import", "nplurals=x; plural=0"])
def test_plural_forms_that_do_not_fit_are_refused(plural: str, own: LoadOwn) -> None:
    with pytest.raises(ConfigurationError, match=r"no \.po file"):
        own("de", "", f'{HEADER}"Plural-Forms: {plural};\\n"\n')


@pytest.mark.parametrize("code", ["fr", "../en", "EN", "", "de_", "x" * 1000])
def test_a_language_that_there_is_not_is_refused(code: str, settings: Settings) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_catalogue(code, settings)
    assert len(str(raised.value)) < 300


def test_a_directory_that_there_is_not_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="DCC_LANGUAGES_DIRECTORY"):
        known_languages(Settings(home=tmp_path, languages_directory=tmp_path / "none"))


def test_templates_have_every_function_by_name(tmp_path: Path) -> None:
    environment = Environment(autoescape=True)
    environment.globals.update(in_language("de", tmp_path).functions)
    template = environment.from_string('{{ size(n) }} {{ number(n) }} {{ say("<{x}>", x=x) }} {{ moment(m) }}')
    shown = template.render(n=1_400, x="<b>", m=datetime(2013, 10, 31, 14, 5, tzinfo=UTC))
    assert shown == "1,4 kB 1.400 &lt;&lt;b&gt;&gt; 31.10.2013, 14:05 UTC"
