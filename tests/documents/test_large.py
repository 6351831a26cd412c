"""Large documents: positions beyond any counter's end, and memory that does not grow."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measuring import clean_environment, module
from benchmarks.validate_memory import write_document, write_huge_text
from dcc.documents import streaming
from dcc.documents.schema_set import SchemaSet
from dcc.documents.validation import validate_document
from dcc.naming import DocumentKind
from dcc.outcomes import Problem
from tests.documents.test_validation import HEAD, TAIL, procedure
from tests.support.trials import EVERYWHERE

SCHEMAS = SchemaSet.load(None)
PARAMETER = '<simpleParameter parameterID="IMPC_CBC_001_001"><value>1</value></simpleParameter>\n'
LARGE = 20_000_000 if EVERYWHERE else 8_000_000
"""The size of a document, in bytes, whose tree alone takes more memory than the test allows."""
HUGE = 300_000_000 if EVERYWHERE else 120_000_000
"""The size of a text that does."""


def validate(path: Path, max_tree_bytes: int = 4_000_000) -> list[Problem]:
    return validate_document(path, DocumentKind.EXPERIMENT, SCHEMAS, max_errors=1000, max_tree_bytes=max_tree_bytes)


def measured(*paths: Path) -> list[dict[str, Any]]:
    """Validate documents in a process of its own; of each `errors`, the `last` one, `cpu` and `peak_mb` until then."""
    command = module("validate_memory", *map(str, paths))
    told = subprocess.run(command, env=clean_environment(), check=True, capture_output=True).stdout.splitlines()
    return [json.loads(line) for line in told]


@pytest.mark.parametrize("max_tree_bytes", [0, 100_000_000])
def test_lines_beyond_65535_are_right(tmp_path: Path, max_tree_bytes: int) -> None:
    path = tmp_path / "document.xml"
    lines = ["\n"] * 80_000
    wrong = {65_529: 65_534, 65_530: 65_535, 65_531: 65_536, 65_532: 65_537, 70_000: 70_005, 79_999: 80_004}
    for number in wrong:
        lines[number] = f"  {PARAMETER.replace('parameterID', 'parameterId')}"
    path.write_text(procedure("".join(lines) + "&"))
    *errors, broken = validate(path, max_tree_bytes)
    assert [(error.line, error.column) for error in errors] == [(line, 3) for line in wrong.values() for _ in range(2)]
    assert (broken.kind, broken.line, broken.column) == ("NotWellFormedError", 80_005, 2)


def test_a_large_document_takes_no_more_memory_than_a_small_one(tmp_path: Path) -> None:
    valid, wrong = tmp_path / "valid.xml", tmp_path / "wrong.xml"
    write_document(valid, LARGE)
    write_document(wrong, LARGE, error_every=1_000, error_last=True)
    of_valid, of_wrong = measured(valid, wrong)
    assert of_valid["errors"] == 0
    assert of_wrong["errors"] > 1
    assert of_wrong["peak_mb"] < 50


def test_documents_that_are_nothing_but_errors_take_no_more_memory_nor_time(tmp_path: Path) -> None:
    """libxml2 takes minutes to validate a finished tree with 200,000 errors: it counts the siblings before each."""
    largest_tree, streamed = tmp_path / "largest_tree.xml", tmp_path / "streamed.xml"
    largest_tree.write_text(procedure("<simpleParameter/>\n" * 200_000))
    streamed.write_text(procedure("<simpleParameter/>\n" * 500_000))
    for found in measured(largest_tree, streamed):
        assert found["errors"] == 1000
        assert found["cpu"] < 5
        assert found["peak_mb"] < 70


def test_a_huge_text_is_refused_and_never_held(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    write_huge_text(path, HUGE)
    (found,) = measured(path)
    assert found["errors"] == 1
    assert found["peak_mb"] < 100
    assert found["last"].startswith("4:")
    assert "longer than 10,000,000 bytes" in found["last"]


def test_nothing_else_of_that_size_is_held_either(tmp_path: Path) -> None:
    around = {
        "attribute": (HEAD + '<line colonyID="', '"/>' + TAIL),
        "root attribute": ('<centreProcedureSet a="', '"/>'),
        "root name": ("<", "/>"),
        "comment": (HEAD + "<!--", "-->" + TAIL),
        "first comment": ("<!--", "-->" + HEAD.removeprefix('<?xml version="1.0" encoding="UTF-8"?>\n') + TAIL),
        "instruction": (HEAD + "<?pi ", "?>" + TAIL),
        "section": (HEAD + "<experiment><specimenID><![CDATA[", "]]></specimenID></experiment>" + TAIL),
    }
    for name, (before, after) in around.items():
        with (tmp_path / name).open("w") as file:
            file.write(before)
            for _ in range(60):
                file.write("m" * 1_000_000)
            file.write(after)
    for name, found in zip(around, measured(*(tmp_path / name for name in around)), strict=True):
        most = "262,144" if name in ("attribute", "root attribute", "root name") else "10,000,000"
        assert f"longer than {most} bytes" in found["last"], name
        assert found["peak_mb"] < 100, name


def test_white_space_between_elements_may_be_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "document.xml"
    path.write_text(procedure((" " * 1_000_000 + PARAMETER) * 30))
    assert validate(path) == []


@pytest.mark.parametrize("max_tree_bytes", [0, 4_000_000])
def test_an_entity_that_is_too_long_to_be_read_as_a_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_tree_bytes: int
) -> None:
    monkeypatch.setattr(streaming, "LONGEST_ENTITY", 1_000_000)
    path = tmp_path / "document.xml"
    long = procedure(PARAMETER * 10_000).removeprefix(HEAD).removesuffix(TAIL)
    path.write_text(HEAD + long * 3 + TAIL)
    assert validate(path, max_tree_bytes) == []
    path.write_text(HEAD + long + long.replace(PARAMETER, PARAMETER * 2) + long + TAIL)
    (found,) = validate(path, max_tree_bytes)
    assert (found.kind, "A single <experiment> is longer than 100,000,000 bytes" in str(found.message)) == (
        "NotWellFormedError",
        True,
    )
    assert 10_000 < (found.line or 0) < 12_000


@pytest.mark.parametrize(("parameters", "max_tree_bytes"), [(10, 4_000_000), (4_000, 4_000_000), (4_000, 0)])
def test_a_document_cut_off_is_refused_whatever_its_size(tmp_path: Path, parameters: int, max_tree_bytes: int) -> None:
    path = tmp_path / "document.xml"
    whole = procedure(PARAMETER * parameters).rstrip()
    path.write_text(whole)
    assert validate(path, max_tree_bytes) == []
    for missing in (1, 5, 22, 30, 60, 100, 500, len(whole) // 2, len(whole) - 250):
        path.write_text(whole[:-missing])
        problems = validate(path, max_tree_bytes)
        assert [problem.kind for problem in problems] == ["NotWellFormedError"], missing
