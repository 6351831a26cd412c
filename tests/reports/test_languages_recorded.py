"""What the platform records in English is said in a language: nothing that rules and errors say is forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcc import errors
from dcc.documents.messages import TYPES_IN_WORDS, explain
from dcc.documents.validation import validate_document
from dcc.naming import Action, DocumentKind
from dcc.outcomes import UNCHECKED_MARK, WARNING_MARK, ZipKey
from dcc.qc.apply.entity_rows import TooLong
from dcc.qc.apply.upload_findings import FindingsKept, Judgement, UploadFinding, judge, late, not_permitted, too_long
from dcc.qc.apply.versions import Version
from dcc.reports.languages import Catalogue, load_catalogue
from dcc.reports.languages.recorded import archives, documents, rules, sources
from dcc.reports.languages.recorded.matching import LONGEST, Pattern, Patterns
from dcc.session.data.document_log import held_problem, problems_of
from dcc.settings import Settings
from dcc.tracker.hostings.declined_archives import Decline
from dcc.tracker.hostings.foreign_archives import HeldArchive
from dcc.vocabulary import EntityKind, Severity
from tests.documents.test_validation import FAULTS, HEAD, MINIMAL, SCHEMA_ERRORS, SCHEMAS, TAIL, procedure
from tests.rules.test_rules import BREAKS, EXAMPLES, Example
from tests.support.integrity_cases import check
from tests.support.recorded_templates import sentences_of

SETTINGS = Settings(home=Path("/nowhere"))
GERMAN = load_catalogue("de", SETTINGS)
ENGLISH = load_catalogue("en", SETTINGS)
VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"[^"]*"|<[^>]*>|„[^“]*“|`[^`]*`""")
LEFT_IN_ENGLISH = re.compile(r"\b(?:the|is|are|of|not|and|or|with|which|that|than|expected|it|no|has|there)\b", re.I)

RULE_MODULES = [
    f"dcc.rules.{name}"
    for name in (
        "specimen_rules", "experiment_rules", "procedure_rules", "value_rules", "series_rules", "media_rules",
        "added_rules", "codes",
    )
]  # fmt: skip
OF_CENTRES = (errors.FaultyDataError, errors.SourceError, errors.DiskFullError)
ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, OF_CENTRES)]
SOURCES = Path(rules.__file__).parents[3] / "sources"
ARCHIVE_MODULES = [
    "dcc.naming",
    "dcc.archives.extraction",
    "dcc.archives.central_directory",
    "dcc.session.fetching.archive_transfer",
    "dcc.session.fetching.archive_transfer",
    "dcc.sources.md5_sidecar",
    "dcc.session.validation",
]


def assert_said(sentence: str) -> None:
    """The sentence is whole in German, and in English as it was."""
    german = GERMAN.recorded(sentence)
    assert german != sentence, f"No pattern of dcc/reports/languages/recorded fits: {sentence}"
    assert LEFT_IN_ENGLISH.search(VALUES.sub("", german)) is None, german
    assert ENGLISH.recorded(sentence) == sentence


def test_the_modules_with_rules_are_all_looked_at() -> None:
    there = {path.stem for path in (Path(rules.__file__).parents[3] / "rules").glob("*_rules.py")}
    assert there <= {name.rpartition(".")[2] for name in RULE_MODULES}


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example.role == BREAKS], ids=str)
def test_what_a_rule_finds_is_said_in_german(example: Example) -> None:
    found = check(example.document, **example.options)
    assert found
    for finding in found:
        assert_said(finding.message)
        if finding.value and len(finding.value) < 80:
            assert finding.value in GERMAN.recorded(finding.message) or finding.value not in finding.message


@pytest.mark.parametrize("module", RULE_MODULES)
def test_every_sentence_of_a_module_with_rules_is_said_in_german(module: str) -> None:
    sentences = sentences_of(module, ["Fault", "_background"])
    assert sentences
    for sentence in sentences:
        assert_said(sentence)


def test_what_checks_say_of_themselves_is_said_in_german() -> None:
    for module in ("dcc.rules.checking", "dcc.qc.judging.documents"):
        for sentence in sentences_of(module, ["Fault", "Finding"]):
            assert_said(sentence)


KEYS = {
    EntityKind.SPECIMEN: ("H", "M1"),
    EntityKind.EXPERIMENT: ("H", "E1", "2", "IMPC_CBC_001"),
    EntityKind.LINE: ("H", "C1", None, None),
    EntityKind.HOUSING: ("H", "P1", "p", 0, None),
}


@pytest.mark.parametrize("kind", EntityKind)
@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("document", [None, 1, 2])
@pytest.mark.parametrize("experiments", [[], ["E1"], ["E1", "E2"], [f"E{number}" for number in range(20)]])
def test_what_the_upload_finds_is_said_in_german(
    kind: EntityKind, action: Action, document: int | None, experiments: list[str]
) -> None:
    there = None if document is None else Version(*[document] * len(Version._fields))
    finding = judge(Judgement(action, kind, KEYS[kind], there, 1, experiments), 3, 4)
    if finding is not None:
        assert_said(finding.message)


def test_what_else_the_upload_finds_is_said_in_german() -> None:
    excess = TooLong("colony_id", 255, 300)
    for what in (*EntityKind, "centre element"):
        assert_said(too_long(1, what, excess).message)
    assert_said(late(date(2013, 10, 31), date(2013, 11, 1)).message)
    kept = FindingsKept()
    for _ in range(1_002):
        kept.add(UploadFinding("Q1", Severity.ERROR, "x"))
    assert_said(kept.all()[-1].message)
    assert_said(held_problem("add/H.zip", {"specimen": 600, "experiment": 1}).message)
    others = [not_permitted(action, own, "H", 3) for action in Action for own in ("J", None)]
    for finding in others:
        assert_said(finding.message)
    for centre in ("J", None):
        assert_said(held_problem("add/J.zip", {}, [others[0]], centre).message)
    key = ZipKey(Action.ADD, "J.zip")
    declined = Decline(1, key, "J", "someone", "By mistake", datetime(2026, 11, 24), None, None)
    for one in (HeldArchive(1, key, "J", ("H", "Ics")), HeldArchive(1, key, "J", ("H",), declined)):
        assert_said(one.told)
        assert_said(one.message)
    assert_said(problems_of([], 7, 0)[-1].message)
    for mark in (WARNING_MARK, UNCHECKED_MARK):
        assert_said(f"{mark}The incrementValue is empty. Say which increment the value is for.")


@pytest.mark.parametrize("name", ARCHIVE_MODULES)
def test_every_error_of_an_archive_its_name_and_its_download_is_said_in_german(name: str) -> None:
    sentences = sentences_of(name, ERRORS)
    assert sentences or name.endswith("validation")
    for sentence in sentences:
        assert_said(sentence)


@pytest.mark.parametrize("path", sorted((SOURCES).rglob("*.py")), ids=str)
def test_every_error_of_a_file_source_is_said_in_german(path: Path) -> None:
    module = ".".join(path.relative_to(SOURCES.parents[1]).with_suffix("").parts)
    for sentence in sentences_of(module, [*ERRORS, "failed", "too_many"]):
        if sentence not in ("V: V", "VV", "V"):
            assert_said(sentence)


def test_what_an_archive_holds_beside_documents_is_said_in_german() -> None:
    module = "dcc.archives.extraction"
    for reason in ("a folder", "lies in a folder; only documents at the archive's top level are read"):
        assert_said(f"x/y: {reason}")
    assert_said("readme.txt: does not end in .xml")
    assert_said("3 more entries: left aside likewise; not listed")
    for fault in sentences_of(module, ["_unsafe"]):
        assert_said(fault)


def problems(tmp_path: Path, content: str | bytes, kind: DocumentKind | None, most: int = 100) -> list[str]:
    path = tmp_path / "document.xml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [one.message for one in validate_document(path, kind, SCHEMAS, max_errors=most, max_tree_bytes=10_000_000)]


@pytest.mark.parametrize("case", [*SCHEMA_ERRORS, *FAULTS])
def test_what_is_wrong_with_a_document_is_said_in_german(case: str, tmp_path: Path) -> None:
    content = SCHEMA_ERRORS[case][0] if case in SCHEMA_ERRORS else FAULTS[case][0]
    found = problems(tmp_path, content, DocumentKind.EXPERIMENT)
    assert found
    for message in found:
        if case != "a type is declared that is not known":
            assert_said(message)


def test_a_document_of_the_wrong_kind_or_with_many_errors_is_said_in_german(tmp_path: Path) -> None:
    for kind in (*DocumentKind, None):
        for root in ("<html/>", '<centre xmlns="urn:x"/>', MINIMAL):
            for message in problems(tmp_path, root, kind):
                assert_said(message)
    many = problems(tmp_path, procedure("<simpleParameter/>\n" * 20), DocumentKind.EXPERIMENT, 10)
    assert "more errors" in many[-1]
    for message in (*many, *problems(tmp_path, "<!DOCTYPE x>" + HEAD + TAIL, None)):
        assert_said(message)


TYPES = [f"Element 'a': 'v' is not a valid value of the atomic type 'xs:{name}'." for name in TYPES_IN_WORDS]
FACETS = [
    "[facet 'length'] The value 'abc' has a length of '3'; this differs from the allowed length of '2'.",
    "[facet 'maxLength'] The value 'abc' has a length of '3'; this exceeds the allowed maximum length of '2'.",
    "[facet 'minLength'] The value 'abc' has a length of '3'; this underruns the allowed minimum length of '4'.",
    "[facet 'pattern'] The value 'abc' is not accepted by the pattern '[0-9]+'.",
    "[facet 'minInclusive'] The value '1' is less than the minimum value allowed ('2').",
    "[facet 'maxInclusive'] The value '3' is greater than the maximum value allowed ('2').",
    "[facet 'totalDigits'] The value '123' has more digits than are allowed ('2').",
    "[facet 'fractionDigits'] The value '1.23' has more fractional digits than are allowed ('1').",
]
OTHERS = [
    "Element 'a': 'v' is not a valid value of the local atomic type.",
    "Element 'a': '' is not a valid value of the atomic type 'my:kind'.",
    "Element 'a': This element is not expected.",
    "Element 'a': This element is not expected. Expected is ( b ).",
    "Element 'a': This element is not expected. Expected is one of ( b, c ).",
    "Element 'a': This element is not expected. Expected is one of ( " + ", ".join(f"b{n}" for n in range(40)) + " ).",
    "Element '{urn:x}a': This element is not expected. Expected is ( {urn:y}a ).",
    "Element '{urn:x}a': This element is not expected. Expected is ( a ).",
    "Element 'a': Missing child element(s).",
    "Element 'a': Missing child element(s). Expected is one of ( b, c ).",
    "Element 'a': Character content is not allowed, because the content type is empty.",
    "Element 'a': Element content is not allowed, because the content type is empty.",
    "Element 'a': No matching global declaration available for the validation root.",
    "Element 'a': [facet 'enumeration'] The value 'x or y' is not an element of the set {'p or q', 'r'}.",
    "Element 'a', attribute 'b': [facet 'enumeration'] The value '' is not an element of the set {'p'}.",
]


@pytest.mark.parametrize(
    "message",
    [*TYPES, *(f"Element 'a'{what}: {facet}" for facet in FACETS for what in ("", ", attribute 'b'")), *OTHERS],
)
def test_what_libxml2_says_of_the_schema_is_said_in_german(message: str) -> None:
    assert_said(explain(message).text)


def test_values_are_not_translated() -> None:
    said = GERMAN.recorded(explain(OTHERS[-2]).text)
    assert said == 'Das Element <a> ist "x or y"; erwartet wird "p or q" oder "r".'


def test_a_value_that_reads_like_the_rest_of_the_sentence_stays_in_its_place() -> None:
    hostile = "x' of experiment 'y' has not been submitted by Z"
    sentence = (
        f"The specimen {hostile!r} of experiment 'E1' has not been submitted by H. Submit it; this clears when it "
        "arrives."
    )
    assert GERMAN.recorded(sentence).startswith(f"Das Tier {hostile!r} des Experiments 'E1' wurde von H nicht")
    sentence = "Specimen M1 of J is not there of H is there already, by document 2. Submit it for edit to change it."
    assert GERMAN.recorded(sentence).startswith("Das Tier M1 of J is not there von H ist schon vorhanden, durch")


@pytest.mark.parametrize(
    "sentence", ["", " ", "Nothing that is known.", "{", "{colony}", "The colony ", "is not registered.", "x" * 100_000]
)
def test_what_is_not_known_stays_as_it_is(sentence: str) -> None:
    assert GERMAN.recorded(sentence) == sentence


def test_a_sentence_of_any_length_is_decided_and_one_beyond_the_bound_is_left() -> None:
    value = repr("a" * (LONGEST + 1))
    sentence = f"The colony {value} of 'M1' is not registered. Correct its id or have the colony registered."
    assert GERMAN.recorded(sentence) == sentence


ALL_PATTERNS = [text for module in (rules, documents, archives, sources) for text in module.SENTENCES]
MOST_NAMES = max(len(Pattern(text).names) for text in ALL_PATTERNS)


@settings(deadline=None)
@given(st.sampled_from(ALL_PATTERNS), st.lists(st.text(max_size=30), min_size=MOST_NAMES, max_size=MOST_NAMES))
def test_whatever_values_a_sentence_has_they_are_all_there_in_german(text: str, values: list[str]) -> None:
    pattern = Pattern(text)
    names = {name: repr(value) for name, value in zip(pattern.names, values, strict=False)}
    sentence = text.format(**names)
    assert ENGLISH.recorded(sentence) == sentence
    german = GERMAN.recorded(sentence)
    for value in names.values():
        assert value in german


def test_what_was_expected_is_said_by_itself_too() -> None:
    assert GERMAN.recorded("a whole number, 0 or more") == "eine ganze Zahl ab 0"
    assert GERMAN.recorded('"a", "b or c" or "d"') == '"a", "b or c" oder "d"'


@settings(deadline=None)
@given(st.text(max_size=300))
def test_no_text_is_too_odd_to_be_looked_at(text: str) -> None:
    assert isinstance(GERMAN.recorded(f"Warning: {text} In {text}. (There are more errors; {text} are listed.)"), str)


def test_the_pattern_that_demands_most_is_taken() -> None:
    patterns = Patterns(["{a} is {b}.", "{a} is not {b}.", "It is not {b}."], [])
    taken: list[str] = []
    patterns.translated("It is not here.", lambda text: taken.append(text) or text)
    assert taken == ["It is not {b}."]


def test_rules_of_ones_own_are_said_by_a_catalogue_of_ones_own(tmp_path: Path) -> None:
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
    entry = 'msgid "The experiment {experiment} is dated on a Sunday."\nmsgstr "{experiment} fiel auf einen Sonntag."\n'
    (tmp_path / "de.po").write_text(f"{header}\n{entry}", "utf-8")
    own: Catalogue = load_catalogue("de", Settings(home=tmp_path, languages_directory=tmp_path))
    say: Callable[[str], str] = own.recorded
    assert say("The experiment 'E1' is dated on a Sunday.") == "'E1' fiel auf einen Sonntag."
    assert GERMAN.recorded("The experiment 'E1' is dated on a Sunday.").startswith("The experiment")
