"""The naming convention: conforming names come apart into what they say, all others are refused with the reason."""

import re
from datetime import date
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcc.errors import BadFileNameError, ConfigurationError
from dcc.messages import printable_detail
from dcc.naming import KNOWN_CENTRES, ArchiveName, DocumentKind, DocumentName, NamingConvention
from dcc.nearest_names import nearest_names, nearest_sentence

CENTRES = frozenset(centre.short_name for centre in KNOWN_CENTRES) | {"Some_Centre"}
CONVENTION = NamingConvention()

_centres = st.sampled_from(sorted(CENTRES))
_dates = st.dates(min_value=date(1, 1, 1))
_increments = st.integers(0, 99_999)
_widths = st.integers(1, 5)


@given(_centres, _dates, _increments, _widths, st.sampled_from(DocumentKind))
def test_every_conforming_name_comes_apart_into_what_it_was_made_of(
    centre: str, created: date, inc: int, width: int, kind: DocumentKind
) -> None:
    stem = f"{centre}.{created.isoformat()}.{inc:0{width}}"
    archive, name = f"{stem}.impc.zip", f"{stem}.{kind}.impc.xml"
    assert CONVENTION.parse_archive_name(archive, CENTRES) == ArchiveName(archive, centre, created, inc)
    assert CONVENTION.parse_document_name(name, CENTRES) == DocumentName(name, centre, created, inc, kind)


_near = st.from_regex(
    r"(H|J|h|X|Some_Centre|H1|)[.](20[0-9]{2}|[0-9]{3,5})-[0-9]{1,2}-[0-3]?[0-9][.][0-9]{0,6}"
    r"([.](specimen|experiment))?[.]impc[.](zip|xml|ZIP)[\n ]?",
    fullmatch=True,
)


@given(st.one_of(st.text(), _near))
def test_a_name_is_either_what_its_parts_spell_or_refused_with_a_reason_that_names_it(name: str) -> None:
    try:
        parsed = CONVENTION.parse_archive_name(name, CENTRES)
    except BadFileNameError as error:
        assert f"'{printable_detail(name)}'" in str(error)  # noqa: PT017 - both ends of the alternative are asserted
        return
    centre, created, inc, *rest = name.split(".")
    assert rest == ["impc", "zip"]
    assert (parsed.centre, parsed.created.isoformat(), parsed.inc) == (centre, created, int(inc))
    assert 1 <= len(inc) <= 5
    assert centre in CENTRES


def test_names_of_the_reference_and_at_the_edges_are_accepted() -> None:
    for stem in ("J.2013-10-31.26", "H.2012-02-29.0", "H.2000-02-29.00000", "Wtsi.9999-12-31.99999"):
        assert CONVENTION.parse_archive_name(f"{stem}.impc.zip", CENTRES).file_name == f"{stem}.impc.zip"


def test_a_date_that_is_not_in_the_calendar_is_refused_and_named() -> None:
    for day in ("2013-02-30", "2013-02-29", "1900-02-29", "2013-13-01", "2013-00-10", "0000-01-01"):
        with pytest.raises(BadFileNameError, match=rf"date {day}, which is not in the calendar"):
            CONVENTION.parse_archive_name(f"H.{day}.1.impc.zip", CENTRES)


def test_a_centre_that_is_not_registered_is_refused_and_named() -> None:
    for centre in ("X", "h", "WTSI", "HH", "_"):
        with pytest.raises(BadFileNameError, match=rf"centre '{centre}', which is not registered .*dcc centre add"):
            CONVENTION.parse_archive_name(f"{centre}.2013-10-31.1.impc.zip", CENTRES)


def test_the_known_centres_are_those_that_documents_may_name() -> None:
    schema = (files("dcc.documents") / "schemas" / "common_definition.xsd").read_text("utf-8")
    vocabulary = schema[schema.index("<xs:enumeration") :].partition("</xs:simpleType>")[0]
    assert {centre.short_name for centre in KNOWN_CENTRES} == set(re.findall('value="(.+?)"', vocabulary))


def test_a_name_conforms_as_a_whole_or_not_at_all() -> None:
    for name in (
        "old copy.H.2013-01-01.1.impc.zip",
        " H.2013-01-01.1.impc.zip",
        "H.2013-01-01.1.impc.zip ",
        "H.2013-01-01.1.impc.zip\n",
        "H.2013-01-01.1.impc.zip\r\n",
        "H.2013-01-01.1.impc.zip\0",
        "H.2013-01-01.1.impc.zip.zip",
        "../H.2013-01-01.1.impc.zip",
        "..\\H.2013-01-01.1.impc.zip",
        "C:\\H.2013-01-01.1.impc.zip",
        "H.2013-01-01.1.impc.ZIP",
        "H.2013-01-01.1.impcXzip",
        "H.2013-1-1.1.impc.zip",
        "H.20130101.1.impc.zip",
        "H.2013-01-01..impc.zip",
        "H.2013-01-01.-1.impc.zip",
        "H.2013-01-01.123456.impc.zip",
        "H.2013-01-01.١.impc.zip",
        "H.２０１３-01-01.1.impc.zip",
        "Ｈ.2013-01-01.1.impc.zip",
        "H.2013-01-01.1.specimen.impc.zip",
        "H.2013-01-01.1.impc.zip/x",
        "",
    ):
        with pytest.raises(BadFileNameError, match=r"does not follow <centre>\.<yyyy-mm-dd>\.<number>\.impc\.zip"):
            CONVENTION.parse_archive_name(name, CENTRES)


def test_a_document_name_conforms_as_a_whole_or_not_at_all() -> None:
    for name in (
        "H.2013-01-01.1.impc.xml",
        "H.2013-01-01.1.specimen.experiment.impc.xml",
        "H.2013-01-01.1.specimen.impc.xml\n",
        "H.2013-01-01.1.Specimen.impc.xml",
        "sub\\H.2013-01-01.1.specimen.impc.xml",
        "H.2013-01-01.1.specimen.impc.zip",
    ):
        with pytest.raises(BadFileNameError, match=r"\(specimen\|experiment\)\.impc\.xml"):
            CONVENTION.parse_document_name(name, CENTRES)


def test_documents_are_processed_specimens_first_then_by_date_increment_and_centre() -> None:
    ordered = [
        "J.2013-01-02.1.specimen.impc.xml",
        "H.2013-01-02.2.specimen.impc.xml",
        "H.2014-01-01.1.specimen.impc.xml",
        "H.2013-01-01.2.experiment.impc.xml",
        "H.2013-01-01.10.experiment.impc.xml",
        "J.2013-01-01.10.experiment.impc.xml",
    ]
    parsed = [CONVENTION.parse_document_name(name, CENTRES) for name in reversed(ordered)]
    assert [name.file_name for name in sorted(parsed, key=lambda name: name.processing_order)] == ordered


class TestOwnPatterns:
    """A data coordination centre may name its files otherwise."""

    def test_other_patterns_are_matched_against_the_whole_name_too(self) -> None:
        convention = NamingConvention(zip_pattern=r"(?P<date>\d{8})-(?P<centre>\w+)-(?P<inc>\d+)\.zip|never")
        assert convention.parse_archive_name("20130131-H-7.zip", CENTRES) == ArchiveName(
            "20130131-H-7.zip", "H", date(2013, 1, 31), 7
        )
        for name in ("20130131-H-7.zip.zip", "x20130131-H-7.zip", "20130131-H-7.zip\n", "H.2013-01-31.7.impc.zip"):
            with pytest.raises(BadFileNameError):
                convention.parse_archive_name(name, CENTRES)

    def test_the_reason_shows_the_pattern_that_is_in_force(self) -> None:
        pattern = r"(?P<centre>\w+)_(?P<date>[0-9-]+)_(?P<inc>\d+)_(?P<kind>specimen|experiment)\.xml"
        convention = NamingConvention(zip_pattern=pattern, document_pattern=pattern)
        for parse in (convention.parse_archive_name, convention.parse_document_name):
            with pytest.raises(BadFileNameError, match=re.escape(pattern)) as refusal:
                parse("H.2013-01-01.1.impc.zip", CENTRES)
            assert "impc.xml" not in str(refusal.value)

    @pytest.mark.parametrize(
        ("of", "pattern", "problem"),
        [
            ("zip", r"(?P<centre>[A-Z", "no regular expression"),
            ("zip", r"(?P<centre>.*)\.zip", "lacks the named groups date, inc"),
            ("zip", "", "lacks the named groups"),
            ("document", r"(?P<centre>.)(?P<date>.)(?P<inc>.)", "lacks the named groups kind"),
        ],
    )
    def test_a_pattern_that_cannot_serve_is_refused_at_once(self, of: str, pattern: str, problem: str) -> None:
        said = rf"{of} name pattern .*{problem}.*DCC_{of.upper()}_PATTERN"
        with pytest.raises(ConfigurationError, match=said):
            NamingConvention(**{f"{of}_pattern": pattern})

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("H..1.zip", "date , which is not in the calendar"),
            ("H.yesterday.1.zip", "date yesterday, which is not in the calendar"),
            ("H.2013-01-01..zip", "number '', which is not a whole number"),
            ("H.2013-01-01.-1.zip", "number '-1', which is not a whole number"),
            ("H.2013-01-01.1x.zip", "number '1x', which is not a whole number"),
            ("H.2013-01-01.99999999999999999999.zip", "number '99999999999999999999', which is not a whole number"),
            (".2013-01-01.1.zip", "centre '', which is not registered"),
        ],
    )
    def test_what_a_wide_pattern_lets_through_is_refused_by_its_meaning(self, name: str, problem: str) -> None:
        convention = NamingConvention(zip_pattern=r"(?P<centre>.+)?\.(?P<date>.+)?\.(?P<inc>.+)?\.zip")
        with pytest.raises(BadFileNameError, match=re.escape(problem)):
            convention.parse_archive_name(name, CENTRES)

    def test_a_kind_that_does_not_exist_is_refused(self) -> None:
        convention = NamingConvention(
            document_pattern=r"(?P<centre>\w+)\.(?P<date>[0-9-]+)\.(?P<inc>\d+)\.(?P<kind>\w+)\.xml"
        )
        assert convention.parse_document_name("H.2013-01-01.1.specimen.xml", CENTRES).kind is DocumentKind.SPECIMEN
        with pytest.raises(BadFileNameError, match=r"kind 'image', which is neither specimen nor experiment"):
            convention.parse_document_name("H.2013-01-01.1.image.xml", CENTRES)


def test_the_nearest_come_first_and_of_equals_the_first() -> None:
    assert nearest_names("Fto-A", ["J-Fto-A", "H-Fto-A", "Fto-B", "Abc"], 2) == ["J-Fto-A", "H-Fto-A"]
    assert nearest_names("fto-a", ["H-Fto-A", "J-Fto-A", "FTO-A"]) == ["FTO-A", "H-Fto-A", "J-Fto-A"]
    assert (nearest_names("xyz", ["Fto-A"]), nearest_sentence("xyz", ["Fto-A"])) == ([], "")
    assert nearest_sentence("Fto", ["Fto-A", "Fto-B"]) == " The nearest: Fto-A, Fto-B."


@given(st.lists(st.text(max_size=6), max_size=8), st.integers(1, 4))
def test_a_name_is_nearest_to_itself(names: list[str], most: int) -> None:
    for name in names:
        found = nearest_names(name, names, most)
        assert len(found) <= most
        assert found[0].casefold() == name.casefold()
