"""`dcc qc`: data contexts, overviews and pictures, on SQLite and on MariaDB."""

import csv
import re
from pathlib import Path

import pytest
from sqlalchemy import Engine

from dcc.cli.shell.context import open_qc
from dcc.naming import Action
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.contexts.overviews import build_overviews
from dcc.settings import load_settings
from dcc.vocabulary import ContextEvent, ContextState
from tests.cli.conftest import Dcc
from tests.support.plot_data import GLUCOSE, NEW, WEIGHT, series, submit_history, submit_new, weighed
from tests.support.qc_contexts import submit
from tests.support.qc_documents import experiment, line, specimen


@pytest.fixture
def submitted(dcc_qc: Engine) -> None:
    """A mutant and a baseline animal with an experiment each, and a line of the mutant's colony at another centre."""
    wild = specimen("W", is_baseline="true", colony_id=None, strain_id="MGI:7")
    submit(dcc_qc, Action.ADD, specimen("S1", strain_id="MGI:7"), wild)
    submit(dcc_qc, Action.ADD, experiment("E1"), experiment("E2", ["W"]), zip_file="H.2013-10-31.2.impc.zip")
    submit(dcc_qc, Action.ADD, line("C1"), centre="J")
    build_contexts(dcc_qc)
    build_overviews(dcc_qc)


@pytest.mark.usefixtures("submitted")
def test_contexts_are_listed_by_what_is_chosen(dcc: Dcc) -> None:
    assert len(dcc.json("qc", "contexts")) == 3
    (entry,) = dcc.json("qc", "contexts", "--centre", "H", "--genotype", "baseline")
    assert (entry["strain"], entry["parameter"], entry["measurements"]) == ("MGI:7", "IMPC_CBC_001_001", 1)
    assert (entry["state"], entry["issues"]) == ("dataadded", 0)
    assert "baseline" in dcc("qc", "contexts").stdout
    assert dcc.json("qc", "contexts", "--state", "qcdone") == []


@pytest.mark.usefixtures("submitted")
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("qc contexts --parameter IMPC_CBC_001_01", "no parameter 'IMPC_CBC_001_01'. The nearest: IMPC_CBC_001_001"),
        ("qc history --genotype C2", "no genotype 'C2'"),
        ("qc done --strain MGI:8 --reason fine", "no strain 'MGI:8'"),
        ("data findings --rule E44", "No rule 'E44' exists. The nearest: E4"),
        ("zips --centre HH", "No centre 'HH' exists (codes are case-sensitive). The nearest: H"),
    ],
)
def test_a_name_that_nothing_has_is_refused_with_the_nearest(dcc: Dcc, asked: str, answer: str) -> None:
    assert answer in dcc.error(*asked.split(" "), exit_code=2)


@pytest.mark.usefixtures("submitted")
def test_contexts_are_done_have_issues_and_are_reopened_with_a_reason(dcc: Dcc) -> None:
    assert "1 data context done" in dcc("qc", "done", "--centre", "J", "--reason", "fine").stdout
    assert (
        "1 data context with an issue raised" in dcc("qc", "issue", "--genotype", "baseline", "--reason", "no").stdout
    )
    said = dcc("qc", "done", "--all", "--reason", "fine").stdout
    assert "1 data context done" in said
    assert "1 data context left" in said
    assert {entry["state"] for entry in dcc.json("qc", "contexts")} == {"qcdone", "hasissues"}
    resolved = dcc("qc", "issue", "--all", "--resolve", "--reason", "yes").stdout
    assert "1 data context with issues resolved" in resolved
    assert "2 data contexts reopened" in dcc("qc", "reopen", "--all", "--reason", "again").stdout
    told = dcc.json("qc", "history", "--centre", "J")
    assert [entry["event"] for entry in told] == ["dataadded", "done", "reopened"]
    assert [entry["reason"] for entry in told] == [None, "fine", "again"]
    assert told[1]["author"]
    (added, *_) = dcc.json("qc", "history", "--centre", "H", "--genotype", "C1")
    assert added["zip_action"] == "add/H.2013-10-31.2.impc.zip"
    assert "again" in dcc("qc", "history").stdout


@pytest.mark.usefixtures("submitted")
def test_nothing_is_decided_about_everything_unless_all_is_said(dcc: Dcc) -> None:
    for command in ("done", "reopen", "issue"):
        assert "--all" in dcc("qc", command, "--reason", "by mistake", exit_code=2).stderr
    assert all(len(dcc.json("qc", "history", "--centre", centre)) == number for centre, number in (("H", 2), ("J", 1)))


def test_the_help_names_every_state_and_every_event(dcc: Dcc) -> None:
    told = dcc("qc", "--help").stdout
    assert [state for state in ContextState if state not in told] == []
    told = re.findall(r"\w+", dcc("qc", "history", "--help").stdout.partition("\nOptions:")[0])
    assert [event for event in ContextEvent if event not in told] == []


@pytest.mark.usefixtures("submitted")
def test_overviews_are_shown_of_all_centres_and_of_one(dcc: Dcc) -> None:
    def rows(*arguments: object) -> list[dict[str, object]]:
        found: list[dict[str, object]] = dcc.json("qc", "overview", *arguments)["rows"]
        return found

    genotypes = rows("genotypes")
    assert {(entry["genotype"], entry["specimens"]) for entry in genotypes} == {("C1", 1), ("baseline", 1)}
    assert rows("genotypes", "--centre", "J") == []
    assert rows("strains", "--centre", "H") == [{"strain_id": "MGI:7", "name": None, "specimens": 2}]
    assert rows("strains", "--centre", "J") == []
    told = dcc("qc", "overview", "animals", "--centre", "H").stderr
    assert "Covers 2 of 2 current specimens and 2 of 2 experiments" in told
    assert "not judged yet" not in told
    assert "not counted yet" not in told
    assert len(rows("animals")) == 3
    assert [entry["specimen_id"] for entry in rows("animals", "--centre", "J")] == [None]
    groups = rows("metadata-groups", "--centre", "J")
    assert groups == [], "runs without metadata are no group"
    assert "IMPReSS calls none of the submitted metadata important" in dcc("qc", "overview", "metadata-groups").stderr
    assert dcc.json("qc", "overview", "strains", "--centre", "H")["covers"] == {
        "specimens": 2,
        "specimens_covered": 2,
        "experiments": 2,
        "experiments_covered": 2,
        "waiting": 0,
    }
    shown = dcc("qc", "overview", "animals").stdout
    assert "MGI:7" in shown
    assert not {"True", "False"} & set(shown.split())
    assert "No centre 'h'" in dcc.error("qc", "overview", "animals", "--centre", "h", exit_code=2)


@pytest.mark.usefixtures("submitted")
def test_decisions_are_told_to_programs_and_centres_are_known(dcc: Dcc) -> None:
    assert dcc.json("qc", "issue", "--centre", "J", "--reason", "unit?") == {"changed": 1, "left": 0}
    assert dcc.json("qc", "done", "--all", "--reason", "fine") == {"changed": 2, "left": 1}
    assert dcc.json("qc", "reopen", "--centre", "H", "--reason", "again") == {"changed": 2, "left": 0}
    for command in (["contexts"], ["done", "--reason", "fine"]):
        assert "No centre 'h'" in dcc.error("qc", *command, "--centre", "h", exit_code=2)


@pytest.mark.usefixtures("submitted")
def test_contexts_are_counted_anew(dcc: Dcc) -> None:
    assert dcc("qc", "recount", "--reason", "to be sure").stdout == "3 data contexts counted, 0 corrected.\n"
    counted = dcc.json("qc", "recount", "--reason", "to be sure")
    assert (counted["contexts"], counted["corrected"]) == (3, 0)
    for reason, error in ((" ", "The reason is empty."), ("x" * 2_000, "256 fit.")):
        assert error in dcc.error("qc", "recount", "--reason", reason, exit_code=2)


@pytest.mark.usefixtures("submitted")
def test_strains_of_a_centre_count_its_own_specimens(dcc: Dcc) -> None:
    with open_qc(load_settings()) as qc:
        submit(qc, Action.ADD, specimen("S9", strain_id="MGI:7"), zip_file="J.2013-10-31.9.impc.zip", centre="J")
        build_contexts(qc)
        build_overviews(qc)

    def counted(*options: object) -> list[object]:
        return [row["specimens"] for row in dcc.json("qc", "overview", "strains", *options)["rows"]]

    assert (counted(), counted("--centre", "H"), counted("--centre", "J")) == ([3], [2], [1])


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
def test_the_procedures_that_are_due_are_listed_written_and_drawn(filled: Dcc, dcc_qc: Engine, tmp_path: Path) -> None:
    submit(dcc_qc, Action.ADD, specimen("=1+1"), zip_file="H.2025-01-01.9.impc.zip")
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
    assert {one["specimen"] for one in lacking} >= {"'=1+1"}, "a spreadsheet would compute it"
    assert files[1].read_text("utf-8").startswith("<svg ")
    assert "IMPC_CBC_001" in filled(*expected).stdout
    assert "No centre 'X'" in filled.error("qc", "expected", "--centre", "X", exit_code=2)
    unknown = filled.error("qc", "expected", "--pipeline", "IMPC_01", exit_code=2)
    assert "names a pipeline 'IMPC_01'. The nearest: IMPC_001" in unknown
