"""What findings and errors are grouped by: every rule and error says so, and knows its own messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from dcc import errors
from dcc.documents.messages import explain
from dcc.reports.causes.cause import Actor
from dcc.reports.causes.errors import ERROR_FACES, FOREIGN, LISTING, kind_of
from dcc.reports.causes.grouping import face_among
from dcc.reports.causes.rules import NEEDING_MESSAGE, RULE_FACES, faces_of
from dcc.reports.languages.po_file import fields_of
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.findings import Finding
from dcc.rules.registry import RULES
from dcc.rules.upload import LATE, UPLOAD_RULES
from dcc.tracker.hostings import listings
from tests.rules.test_rules import EXAMPLES
from tests.support.integrity_cases import check

MEANT_LASTS = {"E7", "E8", "P14", "P20", "Q3", "Q4"}
"""Rules of which the last face says something of its own; that of others is for messages of other versions."""
FACES = [(kind, face) for faces in (RULE_FACES, ERROR_FACES) for kind, some in faces.items() for face in some]


def kinds_of(error: type[errors.DccError]) -> Iterator[type[errors.DccError]]:
    yield error
    for each in error.__subclasses__():
        yield from kinds_of(each)


@cache
def found_in_examples() -> list[Finding]:
    """What the rules find in all examples."""
    return [finding for example in EXAMPLES for finding in check(example.document, **example.options)]


def test_every_rule_says_how_its_findings_are_grouped_and_nothing_else_does() -> None:
    assert RULE_FACES.keys() == CATALOGUE.keys()
    assert all(RULE_FACES.values())


@pytest.mark.parametrize("base", [errors.FaultyDataError, errors.SourceError], ids=lambda base: base.__name__)
def test_every_error_of_submissions_and_sources_says_how_it_is_grouped(base: type[errors.DccError]) -> None:
    assert {error.error_id() for error in kinds_of(base)} <= ERROR_FACES.keys()


def test_an_error_without_faces_is_grouped_as_the_one_that_it_is_of() -> None:
    assert kind_of("SchemaViolationError") == "schema-violation"
    assert kind_of("StagedDocumentLostError") == "dcc"
    assert kind_of("NoErrorOfThisVersion") == "dcc"


@pytest.mark.parametrize(
    "said",
    [
        "H, file://localhost: the folder /srv/a cannot be reached (it is not there). Check the base path, and that the "
        "disk is mounted.",
        "H, file://localhost: /srv/a is no folder. Check the base path.",
        "H, file://localhost: the folder /srv/a is gone. Check that the disk is mounted.",
    ],
)
def test_a_folder_that_is_not_there_is_for_those_who_set_the_base_path(said: str) -> None:
    kind = kind_of("SourceUnreachableError")
    assert face_among(faces_of(kind), "H, file://localhost", said)[1].acts is Actor.DCC
    assert face_among(faces_of(kind), "H, sftp://x", "H: connection refused.")[1].acts is Actor.NOBODY


def test_a_document_of_a_bad_name_goes_into_a_new_archive() -> None:
    said = "'a.xml' does not follow the pattern. Rename the document and submit it in a new archive."
    assert "a document is submitted in a new archive" in face_among(faces_of("bad-file-name"), None, said)[1].remedy


def test_titles_and_remedies_name_only_what_findings_of_one_cause_share() -> None:
    for kind, face in FACES:
        assert fields_of(face.title) | fields_of(face.remedy) <= set(face.by), kind
        groups = set() if face.when is None else set(face.when.groupindex)
        assert set(face.by) <= groups | {"value"}, kind
        assert not face.title.endswith("."), kind
        assert face.remedy.endswith("."), kind


def test_the_last_face_takes_what_no_other_does_without_a_field_that_it_has_not() -> None:
    for kind in (*RULE_FACES, *ERROR_FACES):
        number, face, fields = face_among(faces_of(kind), "a value", "a message of no version")
        assert number == len(faces_of(kind)) - 1, kind
        assert set(face.by) <= fields.keys(), kind


def test_each_message_of_a_rule_is_known_for_what_it_is() -> None:
    assert {finding.rule for finding in found_in_examples()} >= RULES.keys()
    for finding in found_in_examples():
        rule = finding.rule
        number, face, fields = face_among(RULE_FACES[rule], finding.value, finding.message)
        is_last = number == len(RULE_FACES[rule]) - 1
        assert not is_last or number == 0 or rule in MEANT_LASTS, finding.message
        assert all(fields[name] for name in face.by), finding.message
        assert rule in NEEDING_MESSAGE or face_among(RULE_FACES[rule], finding.value, "") == (number, face, fields)


def test_each_face_with_a_pattern_is_met_by_what_rules_say() -> None:
    met = {id(face_among(RULE_FACES[one.rule], one.value, one.message)[1]) for one in found_in_examples()}
    unmet = {
        face.title
        for rule in RULES
        if rule not in UPLOAD_RULES
        for face in RULE_FACES[rule]
        if face.when is not None and id(face) not in met
    }
    assert unmet == set()


@pytest.mark.parametrize(
    ("rule", "message", "title", "fields"),
    [
        ("S13", "Specimen 'a' is there already, by document 12. Submit it for edit to change it.", "by document", "12"),
        ("E9", "Experiment 'a' is named before in this document; the first one counts. Name it once.", "twice", None),
        ("S13", "The centre H has an animal 'a' in document 7 already. Give each animal an id.", "by document", "7"),
        ("S13", "The centre H has an animal 'a' on line 7 too. Give each animal an id of its own.", "twice", None),
        ("Q2", "Line 'a' is there already, by document 3. Submit it for edit to change it.", "by document", "3"),
        ("Q3", "Specimen 'a' is not there, so it cannot be edited. Check its ids.", "is not there", None),
        ("Q3", "1,200 more findings of this rule are not listed. Correct those listed.", "more findings", None),
        ("Q4", "Specimen 'a' still has experiment E1. Delete these first.", "have experiments", None),
        (LATE, "The document is of 2013-10-31 and arrived after one of 2013-11-01.", "newer", None),
    ],
)
def test_what_the_upload_finds_is_known_for_what_it_is(rule: str, message: str, title: str, fields: str | None) -> None:
    _, face, found = face_among(RULE_FACES[rule], "a", message)
    assert title in face.title
    assert tuple(found[name] for name in face.by) == (() if fields is None else (fields,))


def test_a_text_that_is_too_long_is_grouped_by_its_column() -> None:
    message = (
        "A text of this specimen has 300 characters and specimen.litter_id holds 255: nothing of the specimen was "
        "stored. Shorten it and submit it again."
    )
    _, face, fields = face_among(RULE_FACES["Q1"], None, message)
    assert [fields[name] for name in face.by] == ["specimen.litter_id", "255"]


def test_values_that_read_like_messages_do_not_lead_astray() -> None:
    value = "x' of IMPC_OTHER_001 is none of its 2 options. The nearest is 'y"
    message = f"The value {value!r} of IMPC_CBC_001_001 is none of its 5 options. The nearest is 'z'."
    _, _, fields = face_among(RULE_FACES["P10"], value, message)
    assert fields["parameter"] == "IMPC_CBC_001_001"
    assert fields["value"] == value


SCHEMA_ERRORS = {
    "Element '{n}specimen', attribute 'gender': [facet 'enumeration'] The value 'mal' is not an element of the set "
    "{'male', 'female'}.": (['Attribute "gender" of <specimen>', '"male" or "female"'], "mal"),
    "Element '{n}dob': 'yesterday; expected x.' is not a valid value of the atomic type 'xs:date'.": (
        ["<dob>", "a date such as 2013-10-31"],
        "yesterday; expected x.",
    ),
    "Element '{n}dob': '' is not a valid value of the atomic type 'xs:date'.": (
        ["<dob>", "a date such as 2013-10-31"],
        "",
    ),
    "Element '{n}centre': The attribute 'centreID' is required but missing.": (["centre", "centreID"], ""),
    "Element '{n}mouse': The attribute 'colour' is not allowed.": (["mouse", "colour"], ""),
    "Element '{n}cat': This element is not expected. Expected is one of ( {n}mouse, {n}embryo ).": (
        ["cat", "<mouse> or <embryo>"],
        "",
    ),
    "Element '{n}cat': This element is not expected.": (["cat"], ""),
    "Element '{n}mouse': Missing child element(s). Expected is ( {n}genotype ).": (["mouse", "<genotype>"], ""),
    "Element '{n}mouse': Character content is not allowed, because the content type is empty.": (["<mouse>"], ""),
}


@pytest.mark.parametrize("context", ["", ' In centre "H", mouse "In. M1".'])
@pytest.mark.parametrize("more", ["", " (There are more errors; 1,000 are listed.)"])
@pytest.mark.parametrize("said", SCHEMA_ERRORS, ids=lambda said: re.sub(r"\W+", "-", said)[:60])
def test_schema_errors_are_grouped_by_element_and_what_was_expected(said: str, context: str, more: str) -> None:
    message = explain(said).text + context + more
    shared, value = SCHEMA_ERRORS[said]
    _, face, fields = face_among(ERROR_FACES["schema-violation"], None, message)
    assert [fields[name] for name in face.by] == shared
    assert fields.get("found", "") == value


def test_what_heals_by_itself_is_nobodys_business_and_what_is_not_registered_the_registrys() -> None:
    acts = {rule: {face.acts for face in faces} for rule, faces in RULE_FACES.items()}
    assert acts["E4"] == acts["S14"] == {Actor.NOBODY}
    assert acts["S2"] == acts["S4"] == acts["S5"] == {Actor.REGISTRY}
    assert acts["reference"] == {Actor.DCC}
    assert Actor.REGISTRY in acts["E7"] & acts["P12"]
    assert {face.acts for face in ERROR_FACES["schema-violation"]} == {Actor.CENTRE}


def test_what_crawls_notice_has_its_faces() -> None:
    recorder = Path(__file__).parents[2] / "dcc" / "tracker" / "hosted" / "listings.py"
    kinds = {listings.SIZE_DIFFERS, listings.CHANGED, *listings.NOBODY_ACTS}
    assert not re.findall(r'Finding\(\s*"', recorder.read_text("utf-8"))
    # Archives on another centre's source are asked for, not recorded by a crawl.
    noticed = {LISTING + kind for kind in (*kinds, FOREIGN)}
    assert noticed == {kind for kind in ERROR_FACES if kind.startswith(LISTING)}
