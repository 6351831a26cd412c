"""Languages: texts from catalogues, numbers and dates by locale, and catalogues of one's own."""

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

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
    assert known_languages(settings) == {"de": "Deutsch", "en": "English", "pl": "polski"}


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


@pytest.mark.parametrize("code", ["fr", "../en", "EN", "", "de_", "x" * 1000])
def test_a_language_that_there_is_not_is_refused(code: str, settings: Settings) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_catalogue(code, settings)
    assert len(str(raised.value)) < 300
