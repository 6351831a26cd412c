"""What the platform finds wrong is said in a language: no message of rules, the upload, documents and archives is not.

That each text has a translation is told by test_languages_catalogues; here, that messages are made of such texts.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from dcc.declarations import message_of
from dcc.documents.schema_set import SCHEMA_FILES, SchemaSet
from dcc.documents.validation import validate_document
from dcc.documents.violations import EXPECTATIONS
from dcc.messages import Message
from dcc.naming import Action, DocumentKind
from dcc.outcomes import Problem
from dcc.qc.apply.upload_findings import UploadFinding, UploadJudgement, judge
from dcc.qc.apply.versions import Version
from dcc.reports.languages import load_catalogue
from dcc.rules.findings import with_value
from dcc.session.data.document_problems import held_problem
from dcc.settings import Settings
from dcc.vocabulary import EntityKind
from tests.documents.test_validation import FAULTS, SCHEMA_ERRORS, SCHEMAS
from tests.rules.test_rules import BREAKS, EXAMPLES
from tests.support.integrity_cases import check

SETTINGS = Settings(home=Path("/nowhere"))
GERMAN = load_catalogue("de", SETTINGS)
ENGLISH = load_catalogue("en", SETTINGS)
VALUES = re.compile(r"""'(?:[^'\\]|\\.)*'|"[^"]*"|<[^>]*>|„[^“]*“|`[^`]*`""")
LEFT_IN_ENGLISH = re.compile(r"\b(?:the|is|are|of|not|and|or|with|which|that|than|expected|it|no|has|there)\b", re.I)


def assert_said(message: Message | Problem | UploadFinding) -> None:
    """The message is whole in German, and in English as it is recorded."""
    if isinstance(message, UploadFinding):
        message = message_of(message.code, with_value(message.details, message.value))
    said = message.marked if isinstance(message, Problem) else message
    german = GERMAN.tell(said)
    assert german != str(said)
    assert LEFT_IN_ENGLISH.search(VALUES.sub("", german)) is None, german
    assert ENGLISH.tell(said) == str(said)
    assert "{" not in str(said)


def test_what_rules_find_is_said_in_german() -> None:
    for example in EXAMPLES:
        if example.role == BREAKS:
            found = check(example.document, **example.options)
            assert found, example
            for finding in found:
                assert_said(message_of(finding.code, with_value(finding.details, finding.value)))


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
        finding = judge(UploadJudgement(action, kind, KEYS[kind], there, 1, experiments, str), 3, 4)
        if finding is not None:
            assert_said(finding)


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
