"""`dcc qc plot`: pictures of a centre's data in files."""

import csv
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.cli.conftest import Dcc
from tests.support.plot_data import GLUCOSE, NEW, WEIGHT, series, submit_history, submit_new, weighed


@pytest.fixture
def filled(dcc: Dcc, dcc_qc: Engine) -> Dcc:
    """`dcc` with a centre's history, and a submission with an outlier."""
    submit_history(dcc_qc)
    submit_new(dcc_qc, weighed("new", "1000"), series("new", (6, 16, 7)), named=["new"])
    return dcc


def test_a_parameter_a_series_and_weeks_are_drawn_into_files(filled: Dcc, tmp_path: Path) -> None:
    drawn = tmp_path / "weight.svg"
    told = filled("qc", "plot", "--centre", "H", "--parameter", WEIGHT, "--zip", NEW, "--output", drawn).stdout
    assert told.splitlines()[0] == f"{drawn} written."
    assert "One of them is an outlier: new 1,000." in told
    assert "3 interquartile ranges" in told
    assert max(len(sentence.split()) for sentence in told.split(". ")) <= 30
    assert drawn.read_text("utf-8").startswith("<svg ")
    of_series = filled.json("qc", "plot", "--centre", "H", "--parameter", GLUCOSE, "--output", tmp_path / "g.PNG")
    assert (of_series["title"], of_series["outliers"]) == (GLUCOSE, 0)
    assert (tmp_path / "g.PNG").read_bytes().startswith(b"\x89PNG")
    weeks = filled.json("qc", "plot", "--centre", "H", "--output", tmp_path / "w.svg", "--language", "de")
    assert "Woche" in weeks["caption"]


def test_an_analyst_needs_no_tracker(filled: Dcc, tmp_path: Path) -> None:
    filled.environment["DCC_TRACKER_URL"] = f"sqlite:///{tmp_path}/none.db"
    filled("qc", "plot", "--centre", "H", "--parameter", WEIGHT, "--output", tmp_path / "weight.svg")
    assert (tmp_path / "weight.svg").exists()
    for asked in (("contexts",), ("overview", "genotypes"), ("expected",)):
        filled("qc", *asked, "--centre", "H")


def test_what_cannot_be_drawn_is_told(filled: Dcc, tmp_path: Path) -> None:
    plot = ("qc", "plot", "--output", tmp_path / "p.svg", "--centre")
    assert "has no centre 'X'" in filled.error(*plot, "X", exit_code=2)
    assert "has no centre 'J'" in filled.error(*plot, "J", "--parameter", WEIGHT, exit_code=2)
    unknown = filled.error(*plot, "H", "--parameter", WEIGHT[:-1], exit_code=2)
    assert f"no parameter '{WEIGHT[:-1]}'. `dcc data parameters` lists all" in unknown
    assert "Nothing of add/none.zip" in filled.error(*plot, "H", "--zip", "add/none.zip", exit_code=2)
    assert "xx" in filled.error(*plot, "H", "--language", "xx", exit_code=2)
    assert "SVG nor PNG" in filled.error("qc", "plot", "--centre", "H", "--output", "p.pdf", exit_code=2)
    nowhere = tmp_path / "none" / "p.svg"
    assert "cannot be written" in filled.error("qc", "plot", "--centre", "H", "--output", nowhere, exit_code=2)


@pytest.mark.both_databases
def test_the_procedures_that_are_due_are_listed_written_and_drawn(filled: Dcc, tmp_path: Path) -> None:
    filled("reference", "refresh")
    files = tmp_path / "expected.csv", tmp_path / "expected.svg"
    expected = ("qc", "expected", "--centre", "H", "--day", "2026-01-01")
    told = filled.json(*expected, "--csv", files[0], "--plot", files[1])
    by_key = {one["procedure"]: one for one in told["procedures"]}
    assert by_key["IMPC_BWT_001"]["delivered"] > 0
    assert by_key["IMPC_CBC_001"]["missing"] > 0
    lacking = list(csv.DictReader(files[0].open(encoding="utf-8")))
    missing = [one for one in lacking if one["procedure"] == "IMPC_CBC_001" and one["state"] == "missing"]
    assert len(missing) == by_key["IMPC_CBC_001"]["missing"]
    assert files[1].read_text("utf-8").startswith("<svg ")
    assert "IMPC_CBC_001" in filled(*expected).stdout
    assert "No centre 'X'" in filled.error("qc", "expected", "--centre", "X", exit_code=2)
    unknown = filled.error("qc", "expected", "--pipeline", "IMPC_01", exit_code=2)
    assert "names a pipeline 'IMPC_01'. The nearest: IMPC_001" in unknown
