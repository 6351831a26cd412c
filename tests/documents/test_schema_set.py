"""The schemas: the platform's own, and those of an installation."""

import shutil
from pathlib import Path

import pytest

from dcc.documents.schema_set import OWN_SCHEMAS, SCHEMA_FILES, SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ConfigurationError
from dcc.naming import DocumentKind
from dcc.outcomes import Problem

PROCEDURE = SCHEMA_FILES[DocumentKind.EXPERIMENT]


@pytest.fixture
def xsd_dir(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OWN_SCHEMAS, tmp_path / "schemas"))


def change(xsd_dir: Path, name: str, old: str, new: str) -> None:
    path = xsd_dir / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def problems_of(folder: Path, schemas: SchemaSet, centre: str) -> list[Problem]:
    """The problems of a document with a `centre` of such attributes, on its second line."""
    namespace = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/procedure"
    path = folder / "document.xml"
    path.write_text(f'<centreProcedureSet xmlns="{namespace}">\n<centre {centre} pipeline="p"/>\n</centreProcedureSet>')
    return validate_document(path, DocumentKind.EXPERIMENT, schemas, max_errors=9, max_tree_bytes=999)


def test_the_platforms_own_schemas_are_the_default() -> None:
    schemas = SchemaSet.load()
    assert schemas.directory == OWN_SCHEMAS
    assert {name for roots in schemas.roots.values() for _, name in roots} == {
        "centreSpecimenSet",
        "centreProcedureSet",
    }


def test_an_installations_own_schemas_decide(xsd_dir: Path, tmp_path: Path) -> None:
    change(xsd_dir, "common_definition.xsd", '"Bcm"', '"Elsewhere"')
    centre = 'centreID="Elsewhere" project="x"'
    assert len(problems_of(tmp_path, SchemaSet.load(), centre)) == 1
    assert problems_of(tmp_path, SchemaSet.load(xsd_dir), centre) == []


def test_other_roots_are_those_of_the_installations_schemas(xsd_dir: Path, tmp_path: Path) -> None:
    change(xsd_dir, PROCEDURE, 'element name="centreProcedureSet"', 'element name="measurements"')
    schemas = SchemaSet.load(xsd_dir)
    path = tmp_path / "document.xml"
    path.write_text("<centreProcedureSet/>")
    (problem,) = validate_document(path, DocumentKind.EXPERIMENT, schemas, max_errors=9, max_tree_bytes=999)
    assert "experiment documents have <measurements>" in problem.message


FACETS = {
    '<xs:pattern value="[A-Z]+"/>': ("abc", "a value of the pattern [A-Z]+"),
    '<xs:maxLength value="2"/>': ("abc", "a length of at most 2"),
    '<xs:minLength value="9"/>': ("abc", "a length of at least 9"),
}


@pytest.mark.parametrize("facet", FACETS)
def test_rules_that_only_an_installation_has_are_explained_too(xsd_dir: Path, tmp_path: Path, facet: str) -> None:
    value, expected = FACETS[facet]
    change(
        xsd_dir,
        PROCEDURE,
        '<xs:attribute name="project" type="xs:string" use="required"/>',
        '<xs:attribute name="project" use="required"><xs:simpleType><xs:restriction base="xs:string">'
        f"{facet}</xs:restriction></xs:simpleType></xs:attribute>",
    )
    (problem,) = problems_of(tmp_path, SchemaSet.load(xsd_dir), f'centreID="J" project="{value}"')
    assert problem.message == f'Attribute "project" of <centre> is "{value}"; expected {expected}. In centre "J".'
    assert (problem.line, problem.column) == (2, 1)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('type="Centre"', 'type="Center"', r"procedure_definition.xsd, line 15: .*Center"),
        ("</xs:schema>", "", r"procedure_definition.xsd is not well-formed: line \d+"),
        (
            'schemaLocation="common_definition.xsd"',
            'schemaLocation="absent.xsd"',
            r"procedure_definition.xsd, line \d+",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_named_with_the_line(xsd_dir: Path, old: str, new: str, reason: str) -> None:
    change(xsd_dir, PROCEDURE, old, new)
    with pytest.raises(ConfigurationError, match=reason):
        SchemaSet.load(xsd_dir)


def test_a_directory_without_schemas_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"specimen_definition\.xsd cannot be read"):
        SchemaSet.load(tmp_path)


AROUND = [("", ""), (" ", ""), ("", " "), ("&#10;", "&#9;"), ("&#13;", "  ")]
LEXICAL = {
    "date": (
        ["2013-10-31", "2013-10-31Z", "12013-01-01"],
        ["2013-02-30", "", "\u00a02013-10-31", "2013-1-1", "9" * 20 + "-01-01"],
    ),
    "dateTime": (["2013-10-31T09:30:00"], ["2013-10-31", "", "2013-10-31T25:00:00"]),
    "time": (["09:30:00"], ["9:30", ""]),
    "gYear": (["2013"], ["13", ""]),
    "boolean": (["true", "0"], ["", "TRUE"]),
    "int": (["-7", "+07"], ["", "2147483648", "\u0661", "1_0"]),
    "integer": (["9" * 30], ["", "1.0", "\u00a01"]),
    "decimal": (["1.", ".5", "+1.5"], ["", "1e3", "1 2", "NaN"]),
    "double": (["1.", "-.5e+3", "INF", "-INF", "NaN"], ["", "1e", "1.5E-", "+INF", "inf", "."]),
    "float": (["1e5", "INF"], ["", "1e"]),
}


@pytest.mark.parametrize("type_name", LEXICAL)
def test_white_space_around_a_value_of_any_type_but_text_is_ignored(
    xsd_dir: Path, tmp_path: Path, type_name: str
) -> None:
    text = '<xs:attribute name="project" type="xs:string" use="required"/>'
    change(xsd_dir, PROCEDURE, text, text.replace("string", type_name))
    schemas = SchemaSet.load(xsd_dir)
    for before, after in AROUND:
        for verdict, values in zip((True, False), LEXICAL[type_name], strict=True):
            for value in values:
                problems = problems_of(tmp_path, schemas, f'centreID="J" project="{before}{value}{after}"')
                assert (problems == []) is verdict, value
                assert all('Attribute "project"' in problem.message for problem in problems)


def test_imported_schemas_are_found_in_a_directory_of_any_name(tmp_path: Path) -> None:
    xsd_dir = Path(shutil.copytree(OWN_SCHEMAS, tmp_path / "sch\u00e9mas %20 #1 & more"))
    schemas = SchemaSet.load(xsd_dir)
    path = tmp_path / "document.xml"
    path.write_text(
        '<centreProcedureSet xmlns="http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/procedure">'
        '<centre centreID="J" pipeline="p" project="x"><experiment experimentID="e" dateOfExperiment=" 2013-10-31">'
        '<specimenID>M</specimenID><statusCode date="2013-10-31 ">S</statusCode></experiment></centre>'
        "</centreProcedureSet>"
    )
    assert validate_document(path, DocumentKind.EXPERIMENT, schemas, max_errors=9, max_tree_bytes=999) == []
