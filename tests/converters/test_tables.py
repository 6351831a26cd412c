"""Tables become the documents that say the same, and what is wrong with a table is told by row and column."""

import csv
import io
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from datetime import date
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine

from dcc.cli.demo.examples import table_of
from dcc.cli.demo.submissions import experiment_document, specimen_document
from dcc.converters.base import SubmittedFile, element, form_of
from dcc.converters.conversion import convert_file
from dcc.converters.csv_tables import CsvTables
from dcc.converters.json_tables import JsonTables
from dcc.converters.tables import Tables
from dcc.documents.contents import Content
from dcc.documents.origins import read_origin
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.naming import Action, DocumentKind
from dcc.outcomes import Problem, SubmissionKey
from dcc.qc.apply.entity_rows import columns_for
from dcc.reference.loading import load_shipped
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.session.prepare.documents import ArchiveToPrepare, DocumentToPrepare, PreparationBasis, prepare_archive

SPECIMEN, EXPERIMENT = DocumentKind.SPECIMEN, DocumentKind.EXPERIMENT
BASIS = PreparationBasis(load_shipped(), "7", date(2026, 11, 21), columns_for(create_engine("sqlite://")))
SCHEMAS = SchemaSet.load(None)
DOCUMENTS = {
    "specimens": (SPECIMEN, specimen_document("H", mice=300)),
    "blood chemistry": (EXPERIMENT, experiment_document("H", animals=3, procedure="IMPC_CBC_001")),
    "weights": (EXPERIMENT, experiment_document("H", animals=3, procedure="IMPC_BWT_001")),
}


def converted(
    table: bytes, kind: DocumentKind, target: Path, centre: str | None = "H", converter: Tables | None = None
) -> list[Problem]:
    """Write the document that a table becomes; what is wrong with the table."""
    converter = converter or CsvTables()
    path = target.with_name("table")
    path.write_bytes(table)
    place = f"{kind}s{converter.ending}"
    return convert_file(converter, SubmittedFile(place, path, centre), kind, target, 10**7, 100)


def rows_of(document: Path, kind: DocumentKind) -> dict[str, list[str]]:
    """The rows of a document as they are prepared for the QC database, without the lines."""
    target = document.with_suffix(".rows")
    found = DocumentToPrepare(str(document), kind, "H", md5(document.read_bytes()).hexdigest())
    assert not prepare_archive(BASIS, ArchiveToPrepare(SubmissionKey(Action.ADD, "H.zip"), "H", target, [found]))
    with sqlite3.connect(target) as connection:
        connection.row_factory = sqlite3.Row
        rows = {
            table: [dict(row) for row in connection.execute(f'SELECT * FROM "{table}"')]
            for table in BASIS.columns.names
        }
    return {table: [repr(row | {"line": None}) for row in some] for table, some in rows.items()}


@pytest.mark.parametrize(
    ("name", "separator", "mark"),
    [("specimens", ",", b""), ("blood chemistry", ";", b"\xef\xbb\xbf"), ("weights", "\t", b"")],
)
def test_a_table_has_the_rows_of_the_document_that_says_the_same(
    tmp_path: Path, name: str, separator: str, mark: bytes
) -> None:
    kind, content = DOCUMENTS[name]
    document, again = tmp_path / "document.xml", tmp_path / "again.xml"
    document.write_bytes(content)
    assert not converted(mark + table_of(read_document(document, kind), separator), kind, again)
    assert not validate_document(again, kind, SCHEMAS, max_errors=3, max_tree_bytes=10**7)
    assert rows_of(again, kind) == rows_of(document, kind)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_so_has_a_list_of_objects(tmp_path: Path, name: str) -> None:
    kind, content = DOCUMENTS[name]
    document, again = tmp_path / "document.xml", tmp_path / "again.xml"
    document.write_bytes(content)
    objects = json_of(table_of(read_document(document, kind)))
    assert not converted(b"\xef\xbb\xbf" + objects, kind, again, converter=JsonTables())
    assert not validate_document(again, kind, SCHEMAS, max_errors=3, max_tree_bytes=10**7)
    assert rows_of(again, kind) == rows_of(document, kind)


def json_of(table: bytes) -> bytes:
    """A CSV table as a list of objects."""
    return json.dumps(list(csv.DictReader(io.StringIO(table.decode(), newline="")))).encode()


TEXTS = st.text(
    st.characters(min_codepoint=0x20, exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")
    | st.sampled_from('\r\n\t,;"'),
    min_size=1,
    max_size=12,
)
OPTIONAL = st.none() | TEXTS


@st.composite
def animals(draw: st.DrawFn) -> list[Content]:
    """A document of animals whose texts are anything that XML can say."""
    contents = [element(SPECIMEN, "", 1, {"centreID": "H"})]
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["mouse", "embryo"]))
        names = ["specimenID", "gender", "litterId", "pipeline", "phenotypingCentre", "project", "zygosity"]
        values = {name: draw(TEXTS) for name in names} | {"colonyID": draw(OPTIONAL), "isBaseline": "true"}
        values |= {"DOB": "2013-10-31"} if kind == "mouse" else {"stage": draw(TEXTS), "stageUnit": "DPC"}
        related = [
            element(SPECIMEN, f"{kind}/relatedSpecimen", 1, {"specimenID": draw(TEXTS), "relationship": "mother"})
            for _ in range(draw(st.integers(0, 2)))
        ]
        contents.append(element(SPECIMEN, kind, 1, values, related_specimens=tuple(related)))
    return contents


@given(animals(), st.sampled_from(",;\t"))
def test_whatever_cells_hold_is_said_to_the_letter_and_by_its_row(
    tmp_path_factory: pytest.TempPathFactory, contents: list[Content], separator: str
) -> None:
    target = tmp_path_factory.mktemp("table") / "document.xml"
    assert not converted(table_of(contents, separator), SPECIMEN, target)
    found = [one for one in read_document(target, SPECIMEN) if one.position]
    assert [one.line for one in found] == [2, *range(2, len(contents) + 1)]
    assert [bare(one) for one in found] == [bare(one) for one in contents]
    target = target.with_name("again.xml")
    assert not converted(json_of(table_of(contents)), SPECIMEN, target, converter=JsonTables())
    assert [bare(one) for one in read_document(target, SPECIMEN) if one.position] == list(map(bare, contents))


def bare(value: Any) -> Any:
    """A value without lines and positions."""
    if not isinstance(value, tuple):
        return value
    if not hasattr(value, "_fields"):
        return tuple(map(bare, value))
    return {name: bare(getattr(value, name)) for name in value._fields if name not in ("line", "position")}


def rows(*told: Any) -> bytes:
    """A list of objects."""
    return json.dumps(told).encode()


ANIMALS = "specimenID,isBaseline,gender,zygosity,litterId,pipeline,phenotypingCentre,project,DOB"
ANIMAL = "H-1,true,male,wild type,L,IMPC_001,H,BaSH,2013-01-02"
WEIGHTS = "specimenID,dateOfExperiment,procedureID,pipeline,project"
FAULTS: dict[str, tuple[DocumentKind, bytes, list[tuple[int, str, str]]]] = {
    "unknown": (
        SPECIMEN,
        f"{ANIMALS.replace('zygosity', 'zigosity')},genotype.colour\n{ANIMAL},\n".encode(),
        [
            (
                1,
                "zigosity",
                "A column 'zigosity' is not known. Correct its name (the nearest: zygosity), or remove it.",
            ),
            (1, "genotype.colour", "A column 'genotype.colour' is not known."),
            (1, "zygosity", "The column 'zygosity' is missing. Add it."),
        ],
    ),
    "twice": (
        SPECIMEN,
        f"{ANIMALS},DOB\n{ANIMAL},\n".encode(),
        [(1, "DOB", "The column 'DOB' is there 2 times. Leave one of them.")],
    ),
    "without a name": (
        SPECIMEN,
        f"{ANIMALS},, \n{ANIMAL},,\n".encode(),
        [(1, "", "The header has no name for the columns 10, 11. Name them, or remove them with their cells.")],
    ),
    "twice under other numbers": (
        SPECIMEN,
        f"{ANIMALS},genotype.geneSymbol,genotype.01.geneSymbol,genotype.2.geneSymbol\n{ANIMAL},a,b,c\n".encode(),
        [(1, "genotype.geneSymbol", "The column 'genotype.geneSymbol' is there 2 times. Leave one of them.")],
    ),
    "no parameter": (
        EXPERIMENT,
        f"{WEIGHTS},weight,metadata.IMPC_BWT_003_001.unit\n".encode(),
        [
            (1, "weight", "A column 'weight' is not known. Correct its name, or remove it."),
            (1, "metadata.IMPC_BWT_003_001.unit", "A column 'metadata.IMPC_BWT_003_001.unit' is not known."),
        ],
    ),
    "rows": (
        SPECIMEN,
        f"{ANIMALS}\n{ANIMAL}\n , \n{ANIMAL},more\nless\n".encode(),
        [(4, "", "Cells of the row: 10; columns of the table: 9."), (5, "", "Cells of the row: 1;")],
    ),
    "every row": (
        SPECIMEN,
        f"{ANIMALS}\n{ANIMAL},\n".encode(),
        [(2, "", "Cells of the row: 10; columns of the table: 9.")],
    ),
    "kind": (
        SPECIMEN,
        f"{ANIMALS},kind,stage\n{ANIMAL},cat,\n{ANIMAL},,E9.5\n".encode(),
        [
            (2, "kind", "The kind is 'cat'; expected mouse or embryo. Correct it."),
            (3, "stage", "A mouse has no stage. Empty the cell, or correct the column kind."),
        ],
    ),
    "no animal": (
        EXPERIMENT,
        f"{WEIGHTS}\n,2013-06-01,IMPC_BWT_001,IMPC_001,BaSH\n".encode(),
        [(2, "specimenID", "The row names no animal. Fill in its specimenID.")],
    ),
    "not UTF-8": (SPECIMEN, f"{ANIMALS}\n{ANIMAL}\n".encode() + b"\xfc,", [(3, "", "The row is not in UTF-8.")]),
    "UTF-16": (SPECIMEN, ANIMALS.encode("utf-16"), [(1, "", "The row is not in UTF-8.")]),
    "open quote in the header": (SPECIMEN, b'"x', [(1, "", "The table cannot be read from here on")]),
    "open quote": (SPECIMEN, f'{ANIMALS}\n"{ANIMAL}\n'.encode(), [(2, "", "The table cannot be read from here on")]),
    "empty": (SPECIMEN, b"", [(1, "", "The table has no rows.")]),
    "header alone": (EXPERIMENT, f"{WEIGHTS}\n".encode(), [(1, "", "The table has no rows.")]),
    "long cell": (SPECIMEN, f"{ANIMALS}\n{'x' * 200_000}".encode(), [(2, "", "field larger than field limit")]),
    "long line": (SPECIMEN, f"{ANIMALS}\n{',' * 2_000_000}".encode(), [(2, "", "a row is longer than")]),
    "row of lines": (SPECIMEN, (f"{ANIMALS}\n" + '"\n",' * 300_000).encode(), [(2, "", "a row is longer than")]),
    "blank rows": (SPECIMEN, (ANIMALS + "\n" * 1_100_000 + "x").encode(), [(1_100_001, "", "Cells of the row: 1;")]),
    "many columns": (EXPERIMENT, b"x" + b"," * 10_000, [(1, "", "The table has 10,001 columns; 10,000 are the most.")]),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_is_wrong_with_a_table_is_told_by_row_and_column(tmp_path: Path, case: str) -> None:
    kind, table, expected = FAULTS[case]
    require_told(converted(table, kind, tmp_path / "document.xml"), expected, f"{kind}s.csv")


def require_told(problems: list[Problem], expected: list[tuple[int, str, str]], file: str) -> None:
    """Each problem is at its row and column, if it has one, of a file, and says its text."""
    assert [problem.line for problem in problems] == [row for row, _, _ in expected]
    for problem, (row, column, said) in zip(problems, expected, strict=True):
        assert said in problem.message
        place = f"{file}, row {row}" + (f", column {column}" if column else "")
        assert problem.message.endswith(f"See {place}.")


ROW = dict(zip(ANIMALS.split(","), ANIMAL.split(","), strict=True))
JSON_FAULTS: dict[str, tuple[bytes, list[tuple[int, str, str]]]] = {
    "unknown key": (rows(ROW, {**ROW, "colour": "grey"}), [(1, "colour", "A column 'colour' is not known.")]),
    "twice": (b'[{"DOB": "2013-10-31", "DOB": "2013-11-01"}]', [(1, "DOB", "The row has 'DOB' twice.")]),
    "list of texts": (
        rows(ROW, {**ROW, "genotype": ["a"]}),
        [(2, "genotype", "The row has a list or a value where an object belongs.")],
    ),
    "no objects": (b'[["H-1"]]', [(1, "", "The row has a list or a value where an object belongs.")]),
    "no list": (b'{"specimens": []}', [(1, "", "(it is no list)")]),
    "no JSON": (b'[\n{"specimenID": "H-1",}]', [(2, "", "The table cannot be read as a JSON list of objects")]),
    "not UTF-8": (b'[{"specimenID": "\xfc"}]', [(1, "", "The table cannot be read as a JSON list of objects")]),
    "deep": (b"[" * 100_000, [(1, "", "The table cannot be read as a JSON list of objects")]),
    "half of a character": (rows({**ROW, "litterId": "\ud83d"}), [(1, "", "The row holds half of a character")]),
    "empty": (b'[{}, {"stage": {}}, {"DOB": ""}, {"DOB": null}]', [(1, "", "The table has no rows.")]),
    "many": (b"[" + b"{}," * 250_001, [(1, "", "(it has more than 500,000 values)")]),
    "large": (b" " * (16 * 1024 * 1024 + 1), [(1, "", "The table is larger than 16.8 MB.")]),
}


@pytest.mark.parametrize("case", JSON_FAULTS)
def test_what_is_wrong_with_a_list_of_objects_is_told_by_row_and_column(tmp_path: Path, case: str) -> None:
    table, expected = JSON_FAULTS[case]
    problems = converted(table, SPECIMEN, tmp_path / "document.xml", converter=JsonTables())
    require_told(problems, expected, "specimens.json")


def test_objects_in_a_row_are_numbered_and_values_need_no_quotes(tmp_path: Path) -> None:
    alleles = [
        {"MGIGeneId": gene, "geneSymbol": "A", "MGIAlleleId": "MGI:3", "fatherZygosity": None}
        for gene in ("MGI:1", "MGI:2")
    ]
    strain = {"percentage": 50.0, "MGIStrainID": "MGI:4", "gender": "female", "level": 1}
    animal = {**ROW, "isBaseline": True, "genotype": alleles, "parentalStrain": strain}
    target = tmp_path / "a.xml"
    assert not converted(rows(animal, {**ROW, "colonyID": ""}), SPECIMEN, target, converter=JsonTables())
    first, second = (one for one in read_document(target, SPECIMEN) if hasattr(one, "dob"))
    assert (first.is_baseline, [one.mgi_gene_id for one in first.genotypes]) == ("true", ["MGI:1", "MGI:2"])
    assert [one.percentage for one in first.parental_strains] == ["50.0"]
    assert second.colony_id is None


def test_the_page_about_tables_names_every_attribute() -> None:
    animals = [form_of(SPECIMEN, kind) for kind in ("mouse", "embryo")]
    forms = [*animals, *(form_of(EXPERIMENT, path) for path in ("", "experiment", "experiment/procedure"))]
    forms += [child.form for child in animals[0].parts if child.many]
    named = re.findall(r"\w+", (Path(__file__).parents[2] / "docs" / "csv.md").read_text("utf-8"))
    forgotten = {attribute.name for form in forms for attribute in form.attributes} - {"", *named}
    assert not forgotten, f"Name {forgotten} in docs/csv.md."


def test_a_header_of_unknown_columns_takes_no_time(tmp_path: Path) -> None:
    table = ",".join(f"a{number}" for number in range(9_999)).encode()
    began = time.process_time()
    found = converted(table, SPECIMEN, tmp_path / "document")
    assert time.process_time() - began < 5
    assert found[0].message.startswith("A column 'a0' is not known.")


@pytest.mark.parametrize("given", [True, False])
def test_the_centre_is_that_of_the_archive_or_in_a_column(tmp_path: Path, given: bool) -> None:
    problems = converted(
        f"{ANIMALS}\n{ANIMAL}\n".encode(), SPECIMEN, target := tmp_path / "a.xml", "H" if given else None
    )
    if given:
        assert centres(target) == ["H"]
        return
    assert [problem.message.partition(" See")[0] for problem in problems] == [
        "The column 'centreID' is missing. Add it."
    ]
    table = f"centreID,{ANIMALS}\nH,{ANIMAL}\nJ,{ANIMAL}\nH,{ANIMAL}\n".encode()
    assert not converted(table, SPECIMEN, target := tmp_path / "b.xml", None)
    assert centres(target) == ["H", "J", "H"]


def centres(document: Path) -> list[str]:
    """The centres of a document's centre elements."""
    return [one.centre for one in read_document(document, SPECIMEN) if hasattr(one, "centre")]


def test_what_is_not_in_a_table_of_experiments_is_made_up(tmp_path: Path) -> None:
    header = f"{WEIGHTS},IMPC_BWT_001_001.status,IMPC_BWT_001_001.2,IMPC_BWT_001_001.2.unit,statusCode,statusCode.date"
    rows = ["H-1,2013-06-01,IMPC_BWT_001,IMPC_001,BaSH,IMPC_PARAMSC_001,21.5,g,,"]
    rows += ["H-2, 2013-06-01,,IMPC_001,BaSH,,,g,IMPC_PSC_001,2013-06-02"]
    target = tmp_path / "document.xml"
    assert not converted("\n".join([header, *rows]).encode(), EXPERIMENT, target)
    assert not validate_document(target, EXPERIMENT, SCHEMAS, max_errors=3, max_tree_bytes=10**7)
    first, second = (one for one in read_document(target, EXPERIMENT) if hasattr(one, "experiment_id"))
    assert first.experiment_id == "H-1_IMPC_BWT_001_2013-06-01"
    told = [(one.sequence_id, one.unit, one.value, one.status) for one in first.procedure.simple]
    assert told == [(None, None, None, "IMPC_PARAMSC_001"), ("2", "g", "21.5", None)]
    assert second.procedure is None
    assert second.experiment_id == "H-2_2013-06-01"
    assert [(one.code, one.date) for one in second.status_codes] == [("IMPC_PSC_001", "2013-06-02")]


def test_what_a_rule_finds_in_a_unit_or_status_is_told_by_the_column_of_that(tmp_path: Path) -> None:
    key = "IMPC_BWT_001_001"
    header = f"{WEIGHTS},{key},{key}.unit,{key}.2.status,metadata.IMPC_BWT_003_001.status"
    target = tmp_path / "document.xml"
    row = "H-1,2013-06-01,IMPC_BWT_001,IMPC_001,BaSH,heavy,kg,IMPC_PSC_001,broken"
    assert not converted(f"{header}\n{row}".encode(), EXPERIMENT, target)
    context = DocumentContext(Action.ADD, "H", BASIS.today, BASIS.reference, origin=read_origin(target))
    found = check_contents(read_document(target, EXPERIMENT), context, without=("E4",))
    told = {(one.rule, one.message.rpartition(", ")[2]) for one in found if one.rule in ("P7", "P9", "P11")}
    assert told == {
        ("P9", f"column {key}."),
        ("P11", f"column {key}.unit."),
        ("P7", f"column {key}.2.status."),
        ("P7", "column metadata.IMPC_BWT_003_001.status."),
    }


def names() -> Iterator[tuple[str, list[DocumentKind]]]:
    yield "specimens.csv", [SPECIMEN]
    yield "Specimens_2026.CSV", [SPECIMEN]
    yield "experiments-bwt.csv", [EXPERIMENT]
    yield from ((name, []) for name in ("manifest.csv", "specimens.txt", "my specimens.csv", "experiment.csv"))


@pytest.mark.parametrize(("name", "kinds"), list(names()))
def test_tables_are_known_by_their_names(name: str, kinds: list[DocumentKind]) -> None:
    assert CsvTables().kinds(name) == kinds
    assert JsonTables().kinds(name.lower().replace(".csv", ".JSON")) == (
        kinds or (name == "specimens.json") * [SPECIMEN]
    )
