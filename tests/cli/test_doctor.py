"""`dcc doctor`: what it prints and how it ends."""

from pathlib import Path

import pytest

from dcc.operations.doctor import examination
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

pytestmark = only_sqlite


@pytest.fixture
def well(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> Dcc:
    """An installation about which there is nothing to say, whatever there may be to say of this machine."""
    of_machine = {"disks", "files", "text", "versions"}
    monkeypatch.setattr(
        examination, "DOCTOR_CHECKS", [check for check in examination.DOCTOR_CHECKS if check.name not in of_machine]
    )
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    dcc("crawl")
    return dcc


def test_it_ends_with_0_for_what_is_well_with_1_for_a_warning_and_with_4_for_a_failure(well: Dcc) -> None:
    report = well.json("doctor")
    assert report["verdict"] in ("ok", "not checked"), report
    assert {one["check"] for one in report["findings"]} >= {"databases", "schemas", "sources", "answers", "clock"}
    assert all(one["advice"] == "" for one in report["findings"] if one["verdict"] == "ok")
    printed = well("doctor", "--deep").stdout
    assert "tracker database: SQLite" in printed
    assert "23 rules hold" in printed
    quiet = well("doctor", "--quiet", "--no-sources").stdout
    assert "not checked  " in well("doctor", "--no-sources").stdout
    [counts] = quiet.splitlines()
    assert "0 failed" in counts

    (well.root / "home" / "staging" / "notes.txt").touch()
    result = well("doctor", "--no-sources", exit_code=1)
    assert "-> dcc staging list --files" in result.stdout
    assert well.json("doctor", "--no-sources", exit_code=1)["verdict"] == "warning"
    (well.root / "centre").rename(well.root / "moved")
    assert "failed " in well("doctor", exit_code=4).stdout
    (well.root / "home" / "staging" / "notes.txt").unlink()
    well("doctor", "--no-sources")


def test_before_dcc_init_it_says_so_once_of_each_database(bare_dcc: Dcc) -> None:
    report = bare_dcc.json("doctor", exit_code=4)
    failed = [
        one["subject"] for one in report["findings"] if "database" in one["subject"] and one["verdict"] == "failed"
    ]
    assert failed == ["tracker database", "QC database"]
    assert not Path(bare_dcc.environment["DCC_HOME"]).exists()


def test_a_new_installation_is_told_its_first_step(dcc: Dcc) -> None:
    dcc.environment["DCC_SUGGESTIONS"] = "true"
    result = dcc("doctor", "--no-sources", exit_code=1)
    assert "file sources: None is registered.\n             -> dcc source add\n" in result.stdout
    assert result.stderr.startswith("Next: dcc source add ")


def test_wrong_settings_are_an_error(bare_dcc: Dcc) -> None:
    bare_dcc.environment["DCC_WORKERS"] = "none"
    assert "DCC_WORKERS" in bare_dcc.error("doctor", exit_code=2)
