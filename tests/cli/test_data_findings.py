"""`dcc data findings`: what the integrity rules found, on SQLite and on MariaDB."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from dcc.cli.shell.context import open_qc
from dcc.databases.columns import utc_now
from dcc.naming import Action
from dcc.qc.database import run_writing
from dcc.qc.models import EXPERIMENT, FINDING
from dcc.settings import load_settings
from dcc.vocabulary import Validity
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.qc_documents import apply, experiment, specimen
from tests.support.terminals import too_wide


@pytest.fixture
def zip_files(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Archives of which the second has two specimens that were there and the third an experiment that was not."""
    for name, value in dcc.environment.items():
        monkeypatch.setenv(name, value)
    names = [f"H.2013-10-31.{number}.impc.zip" for number in (1, 2, 3)]
    with open_qc(load_settings()) as qc:
        apply(qc, Action.ADD, specimen("S1"), specimen("S2"), zip_file=names[0])
        apply(qc, Action.ADD, specimen("S1"), specimen("S2"), specimen("S3"), zip_file=names[1])
        apply(qc, Action.EDIT, experiment("E1"), zip_file=names[2])
    return names


def test_findings_are_counted_by_centre_and_rule(dcc: Dcc, zip_files: list[str]) -> None:
    counted = {entry["rule"]: entry for entry in dcc.json("data", "findings")}
    assert set(counted) == {"S13", "Q3"}
    assert (counted["S13"]["centre"], counted["S13"]["findings"], counted["S13"]["documents"]) == ("H", 2, 1)
    assert "S1" in counted["S13"]["example"]
    assert "S13" in dcc("data", "findings").stdout
    assert dcc.json("data", "findings", "--centre", "J") == []
    assert "no centre 'h'" in dcc.error("data", "findings", "--centre", "h", exit_code=2)
    assert "No findings" in dcc("data", "findings", "--centre", "J").stdout


def test_each_finding_names_its_document_line_and_value(dcc: Dcc, zip_files: list[str]) -> None:
    found = dcc.json("data", "findings", "--zip", f"add/{zip_files[1]}", "--each")
    assert [(entry["rule"], entry["severity"], entry["is_active"]) for entry in found] == [("S13", "error", True)] * 2
    assert {entry["zip_file"] for entry in found} == {zip_files[1]}
    assert all(entry["line"] for entry in found)
    said = dcc("data", "findings", "--each", "--limit", "2").stdout
    assert f"add/{zip_files[1]}" in said
    assert "1 more finding" in said
    assert len(dcc.json("data", "findings", "--each", "--rule", "Q3", "--severity", "error")) == 1


def test_what_no_longer_holds_is_shown_on_request_only(dcc: Dcc, zip_files: list[str]) -> None:
    with open_qc(load_settings()) as qc:
        closed = update(FINDING).where(FINDING.c.rule == "S13").values(is_active=False, closed=utc_now())
        run_writing(qc, lambda connection: connection.execute(closed) and None, patience_seconds=5)
    assert {entry["rule"] for entry in dcc.json("data", "findings")} == {"Q3"}
    assert {entry["rule"] for entry in dcc.json("data", "findings", "--all")} == {"S13", "Q3"}
    assert "no longer holds" in dcc("data", "findings", "--all", "--each").stdout


def test_experiments_that_do_not_count_because_of_their_animals_are_told_of(dcc: Dcc, zip_files: list[str]) -> None:
    """They have no finding; those of other centres and archives, or asked for by a rule, are left out."""
    told = "Not counted, because an animal has an error: 1 experiment without a finding."
    added = "H.2013-10-31.4.impc.zip"
    with open_qc(load_settings()) as qc:
        apply(qc, Action.ADD, experiment("E2"), zip_file=added)
        flagged = update(EXPERIMENT).where(EXPERIMENT.c.experiment_id == "E2").values(validity=Validity.INVALID_ANIMAL)
        run_writing(qc, lambda connection: connection.execute(flagged) and None, patience_seconds=5)
    for given in ([], ["--centre", "H"], ["--zip", f"add/{added}"], ["--each"]):
        assert told in " ".join(dcc("data", "findings", *given).stdout.split()), given
    for given in (["--centre", "J"], ["--zip", f"add/{zip_files[1]}"], ["--rule", "S13"]):
        assert told not in " ".join(dcc("data", "findings", *given).stdout.split()), given


@only_sqlite
@pytest.mark.parametrize("columns", [50, 80])
def test_findings_causes_and_histories_fit_a_narrow_terminal(dcc: Dcc, zip_files: list[str], columns: int) -> None:
    for command in (
        ["data", "findings"],
        ["data", "findings", "--each"],
        ["data", "causes"],
        ["data", "history", "--centre", "H", "--specimen", "S1"],
        ["qc", "contexts"],
    ):
        shown = dcc.on_a_terminal(columns, *command)
        assert shown, command
        assert too_wide(shown, columns) == [], command
