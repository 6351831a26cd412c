"""Large documents: positions beyond any counter's end, and memory that does not grow."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.validate_memory import write_document, write_huge_text
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.naming import DocumentKind
from dcc.outcomes import Problem
from tests.documents.test_validation import HEAD, TAIL, procedure

SCHEMAS = SchemaSet.load(None)
PARAMETER = '<simpleParameter parameterID="IMPC_CBC_001_001"><value>1</value></simpleParameter>\n'


def validate(path: Path, max_tree_bytes: int = 4_000_000) -> list[Problem]:
    return validate_document(path, DocumentKind.EXPERIMENT, SCHEMAS, max_errors=1000, max_tree_bytes=max_tree_bytes)


def peak_megabytes(path: Path) -> Any:
    """Validate the document in a process of its own; `peak_mb` of memory, number of `errors`, and the `last` one."""
    script = Path(__file__).parents[2] / "benchmarks" / "validate_memory.py"
    command = [sys.executable, str(script), "--document", str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


@pytest.mark.parametrize("max_tree_bytes", [0, 100_000_000])
def test_lines_beyond_65535_are_right(tmp_path: Path, max_tree_bytes: int) -> None:
    path = tmp_path / "document.xml"
    lines = [PARAMETER] * 80_000
    wrong = {65_529: 65_534, 65_530: 65_535, 65_531: 65_536, 65_532: 65_537, 70_000: 70_005, 79_999: 80_004}
    for number in wrong:
        lines[number] = f"  {PARAMETER.replace('parameterID', 'parameterId')}"
    path.write_text(procedure("".join(lines)))
    found = [(problem.line, problem.column) for problem in validate(path, max_tree_bytes)]
    assert found == [(line, 3) for line in wrong.values() for _ in range(2)]


@pytest.mark.parametrize("max_tree_bytes", [0, 100_000_000])
def test_a_break_beyond_line_65535_is_placed_right(tmp_path: Path, max_tree_bytes: int) -> None:
    path = tmp_path / "document.xml"
    path.write_text(procedure(PARAMETER * 70_000 + "<value>a & b</value>"))
    (*_, problem) = validate(path, max_tree_bytes)
    assert (problem.kind, problem.line, problem.column) == ("NotWellFormedError", 70_005, 11)


def test_one_line_of_megabytes_is_placed_right(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    line = PARAMETER.rstrip() * 100_000
    path.write_text(procedure(f"{line}<simpleParameter/>"))
    (problem,) = validate(path)
    assert (problem.line, problem.column) == (5, len(line) + 1)


@pytest.mark.parametrize("where", ["valid", "errors", "error at the end"])
def test_a_document_of_20_megabytes_takes_no_more_memory_than_a_small_one(tmp_path: Path, where: str) -> None:
    path = tmp_path / "document.xml"
    write_document(
        path, 20_000_000, error_every=200 if where == "errors" else 0, error_last=where == "error at the end"
    )
    found = peak_megabytes(path)
    assert bool(found["errors"]) == (where != "valid")
    assert found["peak_mb"] < 50


@pytest.mark.parametrize("errors", [6_000, 200_000, 500_000])
def test_a_document_that_is_nothing_but_errors_takes_no_more_memory_nor_time(tmp_path: Path, errors: int) -> None:
    """libxml2 takes minutes to validate a finished tree with 200,000 errors: it counts the siblings before each."""
    path = tmp_path / "document.xml"
    path.write_text(procedure("<simpleParameter/>\n" * errors))
    found = peak_megabytes(path)
    assert found["errors"] == 1000
    assert found["cpu"] < 5
    assert found["peak_mb"] < 70


def test_a_text_of_300_megabytes_is_refused_and_never_held(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    write_huge_text(path, 300_000_000)
    found = peak_megabytes(path)
    assert found["errors"] == 1
    assert found["peak_mb"] < 100
    (problem,) = validate(path)
    assert (problem.kind, problem.line) == ("NotWellFormedError", 4)
    assert "longer than 10,000,000 bytes" in problem.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (HEAD + '<line colonyID="', '"/>' + TAIL),
        (HEAD + "<!--", "-->" + TAIL),
        ("<!--", "-->" + HEAD.removeprefix('<?xml version="1.0" encoding="UTF-8"?>\n') + TAIL),
        ('<centreProcedureSet a="', '"/>'),
        ("<", "/>"),
        (HEAD + "<?pi ", "?>" + TAIL),
        (HEAD + "<experiment><specimenID><![CDATA[", "]]></specimenID></experiment>" + TAIL),
    ],
    ids=["attribute", "comment", "first comment", "root attribute", "root name", "instruction", "section"],
)
def test_nothing_else_of_that_size_is_held_either(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "document.xml"
    with path.open("w") as file:
        file.write(before)
        for _ in range(60):
            file.write("m" * 1_000_000)
        file.write(after)
    found = peak_megabytes(path)
    assert found["errors"] >= 1
    is_tag = before[-1] != "[" and not before.endswith(("<!--", "<?pi "))
    assert f"longer than {'262,144' if is_tag else '10,000,000'} bytes" in str(found["last"])
    assert found["peak_mb"] < 100


def test_white_space_between_elements_may_be_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    path.write_text(procedure((" " * 1_000_000 + PARAMETER) * 30))
    assert validate(path) == []


@pytest.mark.parametrize("parameters", [10, 4_000, 60_000], ids=["small", "of middling size", "large"])
def test_a_document_cut_off_is_refused_whatever_its_size(tmp_path: Path, parameters: int) -> None:
    path = tmp_path / "document.xml"
    whole = procedure(PARAMETER * parameters).rstrip()
    path.write_text(whole)
    assert validate(path) == []
    for missing in (1, 5, 22, 30, 60, 100, 500, len(whole) // 2, len(whole) - 250):
        path.write_text(whole[:-missing])
        problems = validate(path)
        assert [problem.kind for problem in problems] == ["NotWellFormedError"], missing
