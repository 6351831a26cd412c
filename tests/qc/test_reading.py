"""Documents read as typed objects: every value in its place, exact lines, flat memory, and what is refused."""

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.validate_memory import write_document
from dcc.documents.contents import (
    Block,
    ChromosomalAlteration,
    ChromosomeRegion,
    Content,
    Genotype,
    Line,
    ParentalStrain,
    RelatedSpecimen,
    SimpleParameter,
    Specimen,
    SpecimenKind,
    StatusCode,
)
from dcc.documents.lexical import parse_number
from dcc.documents.reading import read_document
from dcc.errors import (
    DocumentError,
    ForbiddenMarkupError,
    NotWellFormedError,
    SchemaViolationError,
    WrongDocumentKindError,
)
from dcc.naming import DocumentKind
from tests.support.integrity_cases import element
from tests.support.strategies_documents import NAMESPACES, full_document

SPECIMEN, EXPERIMENT = DocumentKind.SPECIMEN, DocumentKind.EXPERIMENT
ROOT = f'<centreProcedureSet xmlns="{NAMESPACES[EXPERIMENT]}">'
CENTRE = '<centre centreID="J" pipeline="IMPC_001" project="JAX">'
END = "</centre></centreProcedureSet>"
VALUE = (
    '<line colonyID="C"><procedure procedureID="P"><simpleParameter parameterID="Q">'
    "{}</simpleParameter></procedure></line>"
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "document.xml"


def read(content: str | bytes, place: Path, kind: DocumentKind = EXPERIMENT) -> list[Content]:
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(read_document(place, kind))


def the_parameter(content: str | bytes, place: Path) -> SimpleParameter:
    _, line = read(content, place)
    assert isinstance(line, Line)
    return line.procedure.simple[0]


def test_every_value_of_a_specimen_document_is_in_its_place(place: Path) -> None:
    content = f"""<?xml version="1.0"?>
<centreSpecimenSet xmlns="{NAMESPACES[SPECIMEN]}">
  <centre centreID="J">
    <mouse specimenID="s" isBaseline="0" gender="male" zygosity="wild type" litterId="l" pipeline="p"
           phenotypingCentre="H" project="pr" colonyID="c" strainID="st" productionCentre="Ics" DOB=" 2012-06-30Z ">
      <relatedSpecimen specimenID="r" relationship="mother"/>
      <genotype MGIGeneId="g" geneSymbol="gs" MGIAlleleId="a" fatherZygosity="homozygous" motherZygosity="hemizygous"/>
      <chromosomalAlteration>
        <chromosomeAdded start="1" end="2" species="sp"/>
        <chromosomeRemoved start="3" end="4"/>
      </chromosomalAlteration>
      <parentalStrain percentage="5.0E1" MGIStrainID="ms" gender="female" level="-1"/>
      <statusCode date="2013-01-01"> code </statusCode>
    </mouse>
  </centre>
  <centre centreID="H">
    <embryo specimenID="e" isBaseline="true" gender="no data" zygosity="homozygous" litterId="" pipeline="p"
            phenotypingCentre="J" project="pr" stage="12.5" stageUnit="DPC"/>
  </centre>
</centreSpecimenSet>"""
    parts = (
        (RelatedSpecimen(6, "r", "mother"),),
        (Genotype(7, "g", "gs", "a", father_zygosity="homozygous", mother_zygosity="hemizygous"),),
        (ChromosomalAlteration(8, (ChromosomeRegion(9, "1", "2", "sp"),), (ChromosomeRegion(10, "3", "4", None),)),),
        (ParentalStrain(12, "5.0E1", "ms", "female", level="-1"),),
        StatusCode(13, "2013-01-01", " code "),
    )
    mouse = Specimen(
        *(4, 1, SpecimenKind.MOUSE, "s", "0", "male", "wild type", "l", "p", "H", "pr", "2012-06-30Z", None, None),
        *("c", "st", "Ics", *parts),
    )
    said = {"line": 17, "position": 1, "kind": SpecimenKind.EMBRYO, "specimen_id": "e", "is_baseline": "true"}
    said |= {"gender": "no data", "zygosity": "homozygous", "litter_id": "", "phenotyping_centre": "J"}
    said |= {"pipeline": "p", "project": "pr", "stage": "12.5", "stage_unit": "DPC"}
    embryo = element(Specimen, **said)
    blocks = Block(3, 1, "J", None, None), Block(16, 2, "H", None, None)
    assert read(content, place, SPECIMEN) == [blocks[0], mouse, blocks[1], embryo]


def test_what_is_empty_differs_from_what_is_absent(place: Path) -> None:
    cases = {"": (None, None), "<value/>": ("", None), "<parameterStatus></parameterStatus>": (None, "")}
    for inner, expected in cases.items():
        parameter = the_parameter(ROOT + CENTRE + VALUE.format(inner) + END, place)
        assert (parameter.value, parameter.status) == expected


def lines_of(value: Any) -> Iterator[int]:
    """The lines of an object and all in it, in document order."""
    if isinstance(value, tuple):
        if hasattr(value, "line"):
            yield value.line
        for part in value:
            yield from lines_of(part)


@pytest.mark.parametrize("kind", DocumentKind)
def test_every_object_has_the_line_of_its_tag(kind: DocumentKind, place: Path) -> None:
    document = full_document(kind)
    content, places = document.render()
    elements = list(document.root.walk())[1:]
    expected = [places[id(element)][0] for element in elements if element.kind != "text"]
    assert list(lines_of(tuple(read(content, place, kind)))) == expected


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("<value>1<!-- no -->2<?no no?>3</value>", "123"),
        ("<value><![CDATA[<a> & b]]></value>", "<a> & b"),
        ("<value>a<![CDATA[]]>b</value>", "ab"),
        ("<value>&lt;&#65;&#x1F42D;&amp;&quot;&#13;&#10;</value>", '<A\U0001f42d&"\r\n'),
        ("<value>a\r\nb\rc</value>", "a\nb\nc"),
        ("<value>\n\t spaced \n</value>", "\n\t spaced \n"),
        ("<value\n></value >", ""),
        ('<p:value xmlns:p="' + NAMESPACES[EXPERIMENT] + '">v</p:value>', "v"),
        ('<value xmlns:s="http://www.w3.org/2001/XMLSchema-instance" s:type="t">v</value>', "v"),
    ],
)
def test_a_text_is_read_however_it_is_written(written: str, value: str, place: Path) -> None:
    assert the_parameter(f"{ROOT}{CENTRE}{VALUE.format(written)}{END}", place).value == value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "windows-1252"])
def test_a_document_is_read_in_every_encoding_that_validation_takes(encoding: str, place: Path) -> None:
    declared = encoding.removesuffix("-sig")
    content = f'<?xml version="1.0" encoding="{declared}"?>{ROOT}{CENTRE}{VALUE.format("<value>µé</value>")}{END}'
    assert the_parameter(content.encode(encoding), place).value == "µé"


def test_attributes_are_normalised_as_xml_demands(place: Path) -> None:
    content = VALUE.format("<value/>").replace('"Q"', '"a\tb\nc&#9;&#10;d  &amp;&apos;"')
    assert the_parameter(ROOT + CENTRE + content + END, place).parameter_id == "a b c\t\nd  &'"


def test_texts_and_procedures_may_be_large(place: Path) -> None:
    text = "µ" * 4_900_000
    assert the_parameter(ROOT + CENTRE + VALUE.format(f"<value>{text}</value>") + END, place).value == text
    parameters = "".join(f'<simpleParameter parameterID="P{number}"/>' for number in range(50_000))
    _, line = read(
        f'{ROOT}{CENTRE}<line colonyID="C"><procedure procedureID="P">{parameters}</procedure></line>{END}', place
    )
    assert isinstance(line, Line)
    assert [one.parameter_id for one in line.procedure.simple] == [f"P{number}" for number in range(50_000)]


def test_a_document_of_20_megabytes_takes_no_more_memory_than_a_small_one(place: Path) -> None:
    write_document(place, 20_000_000)
    script = (
        "import pathlib, re, sys\n"
        "from dcc.naming import DocumentKind\n"
        "from dcc.documents.reading import read_document\n"
        "count = sum(1 for _ in read_document(pathlib.Path(sys.argv[1]), DocumentKind.EXPERIMENT))\n"
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(count, int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024)\n"
    )
    command = [sys.executable, "-c", script, str(place)]
    root = Path(__file__).parents[2]
    count, megabytes = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout.split()
    assert int(count) > 5_000
    assert int(megabytes) < 50


REFUSED: dict[str, tuple[str, type[DocumentError], str]] = {
    "doctype": ("<!DOCTYPE a>\n" + ROOT + CENTRE + END, ForbiddenMarkupError, "Line 1: .*<!DOCTYPE"),
    "entities": (
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>'
        + ROOT
        + CENTRE
        + VALUE.format("<value>&b;</value>")
        + END,
        ForbiddenMarkupError,
        "<!DOCTYPE",
    ),
    "other kind": (f'\n<centreSpecimenSet xmlns="{NAMESPACES[SPECIMEN]}"/>', WrongDocumentKindError, "Line 2: .*root"),
    "cut off": (ROOT + "\n" + CENTRE, NotWellFormedError, "Line 2: "),
    "nothing": ("", NotWellFormedError, "Line 1: .*no element found"),
    "multi-byte": (f'<?xml version="1.0" encoding="shift_jis"?>{ROOT}{CENTRE}{END}', NotWellFormedError, "encoding"),
    "unknown element": (ROOT + CENTRE + "\n<cage/>" + END, SchemaViolationError, "Line 2: .*<cage>"),
    "misplaced": (ROOT + CENTRE + VALUE.format("<value><value/></value>") + END, SchemaViolationError, "<value>"),
    "unknown attribute": (ROOT + "\n" + CENTRE[:-1] + ' room="1">' + END, SchemaViolationError, "Line 2: .*room"),
    "attribute named as a child": (
        ROOT + CENTRE + VALUE.format("").replace('"Q"', '"Q" value="1"') + END,
        SchemaViolationError,
        "attribute value",
    ),
    "attribute of a text": (ROOT + CENTRE + VALUE.format('<value a="1"/>') + END, SchemaViolationError, "attribute a "),
    "missing attribute": (
        ROOT + '<centre centreID="J" project="p"/></centreProcedureSet>',
        SchemaViolationError,
        "pipeline",
    ),
    "missing child": (ROOT + CENTRE + '\n<line colonyID="C"/>' + END, SchemaViolationError, "Line 2: .*<procedure>"),
    "one too many": (
        ROOT + CENTRE + VALUE.format("<value>1</value><value>2</value>") + END,
        SchemaViolationError,
        "more than one <value>",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_object_can_hold_is_refused_and_never_dropped(case: str, place: Path) -> None:
    content, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        read(content, place)


def test_a_number_is_the_whole_text_in_ascii_and_finite() -> None:
    numbers = {"1": 1.0, "-0.50": -0.5, "+.5": 0.5, "1.": 1.0, " 12\n": 12.0, "1E4": 10_000.0, "1e-400": 0.0}
    numbers |= {"9" * 300: 1e300, "2,643.85": 2643.85, "-1,002,643.": -1_002_643.0}
    for text, number in numbers.items():
        assert parse_number(text) == number
    for text in (
        *("", " ", ".", "-", "e5", "NaN", "nan", "INF", "inf", "-Infinity", "1e400", "9" * 400, "9" * 1001),
        *("1,5", "0,123", "1,23,456", "2,643e5", "1,234,", ",123"),
        *("١٢", "１２", "1_000", "0x1F", "1 2", "12g", "+-1", "1e", "\u00a012", "12\x0b", "true"),
    ):
        assert parse_number(text) is None, text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_is_read_exactly(number: float) -> None:
    assert parse_number(repr(number)) == number


@given(st.text())
def test_no_text_is_read_as_a_number_that_is_not_finite(text: str) -> None:
    number = parse_number(text)
    assert number is None or math.isfinite(number)
