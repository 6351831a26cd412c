"""Validation of documents: what is refused, where, and in which words."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dcc.error_declarations  # noqa: F401 - declares what it says of errors
from dcc.declarations import all_declared, rule_of
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.errors import ForbiddenMarkupError, NotWellFormedError, SchemaViolationError, WrongDocumentKindError
from dcc.naming import DocumentKind
from dcc.outcomes import Problem
from tests.support.web_server import WebServer

SCHEMAS = SchemaSet.load(None)
NAMESPACE = "http://www.mousephenotype.org/dcc/exportlibrary/datastructure/core/procedure"
SAMPLES = Path(__file__).parent / "samples"
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'

HEAD = f'{DECLARATION}<centreProcedureSet xmlns="{NAMESPACE}">\n<centre centreID="J" pipeline="p" project="x">\n'
TAIL = "\n</centre>\n</centreProcedureSet>\n"
MINIMAL = HEAD + TAIL


def procedure(content: str) -> str:
    """A document with `content` in a procedure, from line 5, column 1 on."""
    experiment = (
        '<experiment experimentID="E1" dateOfExperiment="2013-10-31"><specimenID>M1</specimenID>'
        '<procedure procedureID="IMPC_CBC_001">\n'
    )
    return f"{HEAD}{experiment}{content}</procedure></experiment>{TAIL}"


def simple(content: str = "", attributes: str = "") -> str:
    return procedure(f'<simpleParameter parameterID="P1"{attributes}>{content}</simpleParameter>')


BOTH_WAYS = (10_000_000, 0)
"""Documents up to so many bytes are validated as a tree, others as a stream."""

Validate = Callable[..., list[Problem]]


@pytest.fixture
def validate(tmp_path: Path) -> Validate:
    """Validates a document as a tree and as a stream, with the same result."""
    path = tmp_path / "document.xml"

    def problems(
        content: str | bytes, kind: DocumentKind | None = DocumentKind.EXPERIMENT, max_errors: int = 1000
    ) -> list[Problem]:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        tree, streamed = (
            validate_document(path, kind, SCHEMAS, max_errors=max_errors, max_tree_bytes=most) for most in BOTH_WAYS
        )
        assert tree == streamed
        return tree

    return problems


@pytest.mark.parametrize("max_tree_bytes", BOTH_WAYS)
def test_samples_get_the_verdict_in_their_name(max_tree_bytes: int) -> None:
    samples = sorted(SAMPLES.rglob("*.xml"))
    assert len(samples) > 10
    for path in samples:
        problems = validate_document(path, None, SCHEMAS, max_errors=10, max_tree_bytes=max_tree_bytes)
        assert bool(problems) == ("invalid" in path.name), path


SCHEMA_ERRORS: dict[str, tuple[str, tuple[int, int, str]]] = {
    "an attribute is missing": (
        HEAD + '<housing><procedure procedureID="P"/></housing>' + TAIL,
        (4, 1, 'Element <housing> lacks the required attribute "fromLIMS". In centre "J".'),
    ),
    "an attribute is too many": (
        simple("", ' units="g"'),
        (5, 1, 'Element <simpleParameter> may not have the attribute "units".'),
    ),
    "an attribute is in a namespace": (
        simple("", f' xmlns:p="{NAMESPACE}" p:unit="g"'),
        (5, 1, 'may not have the attribute "unit" (with that namespace prefix).'),
    ),
    "a code is not in the vocabulary": (
        MINIMAL.replace('centreID="J"', 'centreID="JAX"'),
        (3, 1, 'Attribute "centreID" of <centre> is "JAX"; expected "Bcm", "Gmc", "H", "Ics", "J", "Krb"'),
    ),
    "a date is not in the calendar": (
        procedure("").replace("2013-10-31", "2013-02-30"),
        (4, 1, 'Attribute "dateOfExperiment" of <experiment> is "2013-02-30"; expected a date such as 2013-10-31.'),
    ),
    "a date is empty": (
        procedure("").replace("2013-10-31", ""),
        (4, 1, 'Attribute "dateOfExperiment" of <experiment> is empty; expected a date'),
    ),
    "a flag is neither true nor false": (
        HEAD + '<housing fromLIMS="yes"><procedure procedureID="P"/></housing>' + TAIL,
        (4, 1, 'Attribute "fromLIMS" of <housing> is "yes"; expected true or false.'),
    ),
    "a number is not whole": (
        simple("", ' sequenceID="1.5"'),
        (
            5,
            1,
            'Attribute "sequenceID" of <simpleParameter> is "1.5"; expected a whole number such as 42. '
            'In experiment "E1", procedure "IMPC_CBC_001", simpleParameter "P1".',
        ),
    ),
    "an element's text is no number": (
        procedure(
            '<mediaParameter parameterID="P" URI="u" fileType="f">\n'
            '  <parameterAssociation parameterID="A"><dim id="a" origin="b">12,5</dim></parameterAssociation>'
            "</mediaParameter>"
        ),
        (6, 41, 'Element <dim> is "12,5"; expected a number such as 12.5'),
    ),
    "an element is unknown": (
        procedure("\n   <wrong_tag/>"),
        (6, 4, "Element <wrong_tag> is not permitted here; expected <simpleParameter>, <ontologyParameter>"),
    ),
    "an element is out of order": (
        simple("<parameterStatus/><value/>"),
        (5, 53, "Element <value> is not permitted here: nothing more was expected"),
    ),
    "an element is in no namespace": (
        simple('<value xmlns="">1</value>'),
        (5, 35, f'Element <value> is in no namespace; expected "{NAMESPACE}".'),
    ),
    "an element lacks another": (
        HEAD + '<experiment experimentID="E1" dateOfExperiment="2013-10-31"/>' + TAIL,
        (4, 1, "Element <experiment> is incomplete: expected <specimenID> in it."),
    ),
    "there is text between elements": (
        procedure('<simpleParameter parameterID="P1"/>oops'),
        (4, 88, "Element <procedure> holds text, where only other elements are permitted."),
    ),
    "there are elements within text": (
        simple("<value>a<b>c</b></value>"),
        (5, 35, "Element <value> holds other elements, where only text is permitted."),
    ),
    "a value is declared nil": (
        simple('<value xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/>'),
        (5, 35, "Element <value> may not be declared empty with xsi:nil."),
    ),
    "a type is declared that is not known": (
        simple('<value xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="number">1</value>'),
        (5, 35, 'Attribute "type" of <value>'),
    ),
}


@pytest.mark.parametrize("text", ["oops", "<![CDATA[oops]]>", "&#111;ops", "&amp;", "oops" * 100, "<!--c-->oops<?p?>"])
@pytest.mark.parametrize("before", ["", '<simpleParameter parameterID="P1"/>\n\n'])
@pytest.mark.parametrize("after", ["", '\n<procedureMetadata parameterID="P2"/>'])
def test_text_between_elements_is_that_of_the_element_around_it(
    validate: Validate, before: str, text: str, after: str
) -> None:
    (problem,) = validate(procedure(before + text + after))
    assert (problem.line, problem.column) == (4, 88)
    assert problem.message.startswith("Element <procedure> holds text")


@pytest.mark.parametrize("case", SCHEMA_ERRORS)
def test_an_error_says_what_is_wrong_where_and_what_was_expected(validate: Validate, case: str) -> None:
    content, (line, column, message) = SCHEMA_ERRORS[case]
    (problem,) = validate(content)
    assert (problem.kind, problem.line, problem.column) == ("SchemaViolationError", line, column)
    assert message in problem.message


FAULTS: dict[str, tuple[str | bytes, int, int, str]] = {
    "is empty": (b"", 1, 1, "The file is empty"),
    "is white space": (b" \n \n", 3, 1, "is not XML"),
    "is text": (b"id,value\n1,2\n", 1, 1, "is not XML"),
    "is a zip": (b"PK\x03\x04\x14\x00\x00\x00", 1, 3, "is not XML"),
    "is cut off in a text": (simple("<value>12")[: -len("</simpleParameter></procedure></experiment>" + TAIL)], 5, 44,
                             "ends in the middle"),
    "is cut off in a tag": (MINIMAL[:-5], 6, 1, "ends in the middle"),
    "lacks its last end tag": (MINIMAL.removesuffix("</centreProcedureSet>\n"), 6, 1, "ends in the middle"),
    "closes another element": (simple("<value>1</valu>"), 5, 45, "<value>, opened on line 5, is closed by </valu>"),
    "has a bare ampersand": (simple("<value>a & b</value>"), 5, 45, '"&amp;" instead'),
    "has a bare less-than sign": (MINIMAL.replace('"x"', '"a<b"'), 3, 45, '"&lt;" instead'),
    "has an unknown entity": (simple("<value>5 &micro;g</value>"), 5, 44, '"&micro;" is not known'),
    "has a control character": (simple("<value>\x01</value>"), 5, 42, "control character"),
    "has a NUL": (simple("<value>\0</value>"), 5, 42, "control character"),
    "has an attribute twice": (MINIMAL.replace("project=", "pipeline="), 3, 35, '"pipeline" is given twice'),
    "has an undeclared prefix": (HEAD + "<a:line/>" + TAIL, 4, 1, '"a" is not declared'),
    "goes on after its end": (MINIMAL + "<more/>", 7, 1, "follows the end of the root element"),
    "begins before its declaration": ("\n" + MINIMAL, 2, 1, "must come first"),
    "announces an unknown encoding": (MINIMAL.replace("UTF-8", "KLINGON"), 1, 1, "encoding KLINGON"),
    "announces a multi-byte encoding": (MINIMAL.replace("UTF-8", "GBK"), 1, 1, "encoding GBK"),
    "announces UTF-16 and is not": (MINIMAL.replace("UTF-8", "UTF-16"), 1, 31, "is not the file's"),
    "announces UTF-8 and is UTF-16": (MINIMAL.encode("utf-16"), 1, 32, "not the file's. Save the document as UTF-8"),
    "announces UTF-8 and is not": (simple("<value>5 \xb5g</value>").encode("latin-1"), 5, 44, "not in the encoding"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_document_that_is_no_xml_is_refused_when_it(validate: Validate, case: str) -> None:
    content, line, column, message = FAULTS[case]
    (problem,) = validate(content)
    assert (problem.kind, problem.line, problem.column) == ("NotWellFormedError", line, column)
    assert message in problem.message


def test_each_declared_kind_of_an_error_in_a_document_is_found(validate: Validate) -> None:
    documents = [*(document for document, _ in SCHEMA_ERRORS.values()), *(fault for fault, *_ in FAULTS.values())]
    documents += ["<!DOCTYPE x><x/>", "<html/>"]
    found = {problem.code for document in documents for problem in validate(document)}
    kinds = (SchemaViolationError, NotWellFormedError, ForbiddenMarkupError, WrongDocumentKindError)
    declared = {code for code in all_declared() if rule_of(code) in {kind.error_id() for kind in kinds}}
    # That is for errors that libxml2 does not explain.
    assert found == declared - {"schema-violation"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "iso-8859-1", "windows-1252", "us-ascii"])
def test_usual_encodings_are_read_and_columns_counted_in_characters(validate: Validate, encoding: str) -> None:
    name = {"utf-8-sig": "UTF-8", "utf-16-le": "UTF-16"}.get(encoding, encoding)
    text = "" if encoding == "us-ascii" else "\u00b5\u00e9"
    good = simple(f"<value>{text}</value>").replace("UTF-8", name)
    bad = simple(f"<value>{text}</value><surplus/>").replace("UTF-8", name)
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    assert validate((mark + good).encode(encoding)) == []
    (problem,) = validate((mark + bad).encode(encoding))
    assert (problem.line, problem.column) == (5, 50 + len(text))


def test_schema_errors_before_the_end_of_well_formedness_are_kept(validate: Validate) -> None:
    content = simple("", ' sequenceID="a"').replace("</procedure>", "\n</procedur>")
    problems = validate(content)
    assert [(problem.kind, problem.line) for problem in problems] == [
        ("SchemaViolationError", 5),
        ("NotWellFormedError", 6),
    ]


def test_all_errors_are_found_in_document_order(validate: Validate) -> None:
    content = "\n".join(
        [
            '<simpleParameter parameterID="P1" sequenceID="a"/>',
            '<simpleParameter sequenceID="b"/>',
            "<wrong_tag/>",
            '<simpleParameter parameterID="P2"><value>1</value><value>2</value></simpleParameter>',
            '<procedureMetadata parameterID="P3" sequenceID="c"/>',
            '<simpleParameter parameterID="P4"/>',
            '<procedureMetadata parameterId="P5"/>',
        ]
    )
    found = [(problem.line, problem.column) for problem in validate(procedure(content))]
    assert found == [(5, 1), (6, 1), (6, 1), (7, 1), (8, 51), (9, 1), (10, 1), (11, 1), (11, 1)]


def test_an_animal_without_its_identifier_is_not_called_by_that_of_its_colony(validate: Validate) -> None:
    head = (
        HEAD.replace("Procedure", "Specimen").replace("procedure", "specimen").replace(' pipeline="p" project="x"', "")
    )
    mouse = '<mouse colonyID="C" DOB="2013-01-02"/>'
    found = validate(head + mouse + TAIL.replace("Procedure", "Specimen"), DocumentKind.SPECIMEN)
    assert 'Element <mouse> lacks the required attribute "specimenID". In centre "J".' in [one.message for one in found]


def test_a_misspelt_element_is_not_reported_as_missing_too(validate: Validate) -> None:
    (problem,) = validate(HEAD + '<housing fromLIMS="true"><procedur/></housing>' + TAIL)
    assert "<procedur> is not permitted here" in problem.message


def test_an_element_not_permitted_hides_nothing_that_follows_in_a_large_document(validate: Validate) -> None:
    filling = '<simpleParameter parameterID="P"/>\n' * 5000
    content = procedure(f"<wrong><simpleParameter/>{filling}</wrong>\n{filling}<simpleParameter/>")
    lines = [problem.line for problem in validate(content)]
    assert lines == [5, 10006]


def test_the_number_of_errors_is_capped_and_that_is_said(validate: Validate) -> None:
    content = procedure("<simpleParameter/>\n" * 50)
    assert len(validate(content, max_errors=50)) == 50
    problems = validate(content, max_errors=10)
    assert [problem.line for problem in problems] == list(range(5, 15))
    assert problems[-1].message.endswith("(Only 10 of the errors are listed.)")
    assert "of the errors" not in problems[-2].message


def test_tens_of_thousands_of_errors_side_by_side_take_seconds(validate: Validate) -> None:
    """Looking at each took a minute, for half a megabyte."""
    began = time.process_time()
    problems = validate(f'{DECLARATION}<centreProcedureSet xmlns="{NAMESPACE}">{"<centre/>" * 50_000}')
    assert time.process_time() - began < 15
    assert len(problems) == 1_000


def test_a_break_is_listed_even_when_there_are_too_many_errors(validate: Validate) -> None:
    problems = validate(procedure("<simpleParameter/>\n" * 50) + "<", max_errors=10)
    assert [problem.kind for problem in problems] == ["SchemaViolationError"] * 9 + ["NotWellFormedError"]


def test_a_document_of_the_other_kind_is_refused(validate: Validate) -> None:
    (problem,) = validate(MINIMAL, DocumentKind.SPECIMEN)
    assert (problem.kind, problem.line, problem.column) == ("WrongDocumentKindError", 2, 1)
    assert "specimen documents have <centreSpecimenSet>" in problem.message
    assert "content is that of experiment documents: name it so" in problem.message


@pytest.mark.parametrize("root", ["<html/>", "<centreProcedureSet/>", f'<centre xmlns="{NAMESPACE}"/>'])
@pytest.mark.parametrize("kind", [*DocumentKind, None])
def test_a_root_element_of_neither_kind_is_refused(validate: Validate, root: str, kind: DocumentKind | None) -> None:
    (problem,) = validate(root, kind)
    assert problem.kind == "WrongDocumentKindError"


SECRET = "the-secret-of-this-machine"
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE centreProcedureSet [<!ENTITY x SYSTEM "file://{file}">]>',
        '<!DOCTYPE centreProcedureSet SYSTEM "file://{file}">',
        '<!DOCTYPE centreProcedureSet PUBLIC "-//x" "{url}">',
        '<!DOCTYPE centreProcedureSet [<!ENTITY % p SYSTEM "{url}"> %p;]>',
        "<!DOCTYPE centreProcedureSet>",
        f"<!DOCTYPE centreProcedureSet [<!ENTITY l0 'ha'>{LAUGHS}<!ENTITY x '&l11;'>]>",
    ],
)
def test_a_document_type_declaration_is_refused_and_no_file_read(
    validate: Validate, tmp_path: Path, doctype: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with WebServer(tmp_path) as server:
        url = f"{server.url}/x"
        declaration = doctype.format(file=secret, url=url)
        content = simple("<value>&x;</value>", ' sequenceID="&x;"').replace(DECLARATION, DECLARATION + declaration)
        (problem,) = validate(content)
    assert (problem.kind, problem.line, problem.column) == ("ForbiddenMarkupError", 2, 1)
    assert SECRET not in problem.message
    assert server.requests == []


def test_schema_locations_in_a_document_are_not_followed(validate: Validate, tmp_path: Path) -> None:
    lax = tmp_path / "lax.xsd"
    lax.write_text('<schema xmlns="http://www.w3.org/2001/XMLSchema"/>')
    xsi = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    with WebServer(tmp_path) as server:
        url = f"{server.url}/x"
        for location in (url, f"file://{lax}", f"file://{tmp_path}/absent.xsd"):
            hints = f'{xsi} xsi:schemaLocation="{NAMESPACE} {location}" xsi:noNamespaceSchemaLocation="{location}"'
            good = MINIMAL.replace("<centreProcedureSet ", f"<centreProcedureSet {hints} ")
            assert validate(good) == []
            assert len(validate(good.replace("project=", "projekt="))) == 2
    assert server.requests == []


def test_elements_nested_too_deep_are_refused(validate: Validate) -> None:
    problems = validate(HEAD + "<a>" * 300 + "</a>" * 300 + TAIL)
    assert problems[-1].kind == "NotWellFormedError"
    assert "nested more than 256 deep" in problems[-1].message


def test_comments_instructions_and_sections_change_nothing(validate: Validate) -> None:
    assert validate(simple("<value>12.5</value><parameterStatus>ESLIM_PSC_001</parameterStatus>")) == []
    content = simple("<!-- c --><value><?pi x?>1<![CDATA[<&]]><!-- > --></value>\n<!-- <x> -->")
    assert validate(content) == []
    (problem,) = validate(content.replace("<!-- <x> -->", "<!-- <x> --><surplus/>"))
    assert (problem.line, problem.column) == (6, 13)


def test_a_file_that_cannot_be_read_is_no_fault_of_the_document(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        validate_document(tmp_path / "absent.xml", None, SCHEMAS, max_errors=1, max_tree_bytes=1)
