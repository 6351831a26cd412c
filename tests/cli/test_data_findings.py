"""`dcc data findings` and `causes`, the spreadsheet, and `dcc source why`: on SQLite and on MariaDB."""

import json
import re
import shutil

import pytest
from sqlalchemy import Engine, update

from dcc.cli.data import findings
from dcc.cli.shell.context import open_qc
from dcc.databases.transactions import run_writing
from dcc.naming import Action
from dcc.qc.models import EXPERIMENT, FINDING
from dcc.runtime.clock import utc_now
from dcc.settings import load_settings
from dcc.vocabulary import Validity
from tests.cli.conftest import Dcc
from tests.reports.test_causes_collecting import sheets
from tests.support.data_installations import SPECIMENS, specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, experiments
from tests.support.qc_documents import apply, experiment, specimen
from tests.support.terminals import too_wide


@pytest.fixture
def zip_files(dcc_qc: Engine) -> list[str]:
    """Archives of which the second has two specimens that were there and the third an experiment that was not."""
    names = [f"H.2013-10-31.{number}.impc.zip" for number in (1, 2, 3)]
    apply(dcc_qc, Action.ADD, specimen("S1"), specimen("S2"), zip_file=names[0])
    apply(dcc_qc, Action.ADD, specimen("S1"), specimen("S2"), specimen("S3"), zip_file=names[1])
    apply(dcc_qc, Action.EDIT, experiment("E1"), zip_file=names[2])
    return names


def test_findings_are_counted_by_centre_and_rule(dcc: Dcc, zip_files: list[str]) -> None:
    counted = {entry["rule"]: entry for entry in dcc.json("data", "findings")}
    assert set(counted) == {"S13", "Q3"}
    assert (counted["S13"]["centre"], counted["S13"]["findings"], counted["S13"]["documents"]) == ("H", 2, 1)
    assert "S1" in counted["S13"]["example"]
    assert "S13" in dcc("data", "findings").stdout
    assert dcc.json("data", "findings", "--centre", "J") == []
    assert "No centre 'h'" in dcc.error("data", "findings", "--centre", "h", exit_code=2)
    assert "The rules found nothing." in dcc("data", "findings", "--centre", "J").stdout


def test_each_finding_names_line_and_value(dcc: Dcc, zip_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = dcc.json("data", "findings", "--zip", f"add/{zip_files[1]}", "--each")
    assert [(entry["rule"], entry["severity"], entry["is_active"]) for entry in found] == [("S13", "error", True)] * 2
    assert {entry["zip_file"] for entry in found} == {zip_files[1]}
    assert all(entry["line"] for entry in found)
    said = dcc("data", "findings", "--each", "--limit", "2").stdout
    assert f"add/{zip_files[1]}" in said
    assert "1 more finding" in said
    assert len(dcc.json("data", "findings", "--each", "--rule", "Q3", "--severity", "error")) == 1
    assert len(dcc.json("data", "findings", "--each", "--limit", "1")) == 1
    monkeypatch.setattr(findings, "_SHOWN", 1)
    assert len(dcc.json("data", "findings", "--each")) == 3
    assert "2 more findings" in dcc("data", "findings", "--each").stdout
    dcc.environment["DCC_SUGGESTIONS"] = "true"
    assert "Next: dcc data findings --each" in dcc("data", "findings").stderr
    assert "Next: dcc data findings --each" not in dcc("data", "findings", "--each").stderr


def test_no_findings_of_a_misspelt_submission_or_document_are_no_good_news(dcc: Dcc, folder: Folder) -> None:
    folder.put("add/H.2013-10-31.1.impc.zip", specimens())
    dcc("crawl", "--until", "xsd")
    for known in (("--zip", "add/H.2013-10-31.1.impc.zip"), ("--document", SPECIMENS)):
        assert dcc("data", "findings", *known).stdout.startswith("The rules found nothing."), known
    for unknown in (("--zip", "add/H.2013-10-31.2.impc.zip"), ("--document", SPECIMENS.lower())):
        assert f"No {'submission' if unknown[0] == '--zip' else 'document'} " in dcc.error(
            "data", "findings", *unknown, exit_code=2
        )


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


@pytest.fixture
def folder(dcc: Dcc) -> Folder:
    return dcc.add_folder()


@pytest.fixture
def refused(dcc: Dcc, folder: Folder, zip_files: list[str]) -> str:
    """An archive whose name is refused, and, in the QC database, one whose animals were there already; its name."""
    folder.put("add/X\u202e.2013-10-31.1.impc.zip", b"")
    dcc("crawl", "--until", "xsd", exit_code=1)
    return zip_files[1]


def test_what_is_wrong_is_told_by_its_cause_with_who_acts_and_what_a_fix_clears(dcc: Dcc, refused: str) -> None:
    causes = {each["kind"]: each for each in dcc.json("data", "causes")}
    assert set(causes) == {"S13", "Q3", "bad-file-name"}
    assert causes["S13"]["findings"] == 2
    assert causes["S13"]["entities"] == {"specimens": 2}
    assert causes["S13"]["clears"] == {"findings": 2, "documents": 1, "zips": 1}
    assert causes["S13"]["example"]["zip"] == f"add/{refused}"
    assert causes["bad-file-name"]["acts"] == "centre"
    said = dcc("data", "causes", "--centre", "H").stdout
    finding = dcc.json("data", "findings", "--rule", "S13", "--each")[0]
    earlier = re.search(r"S13  The data to add are there already, from document (add/H\.[\w./-]+\.xml): 2", said)
    assert earlier is not None
    assert finding["file_name"] not in earlier[1]
    assert f" is there already, by document {earlier[1]}. Submit it for edit" in finding["message"]
    assert "clears 1 of 1 archive" in said
    assert "H: The centre acts." in said
    dcc("centre", "change", "H", "--email", "data@h.example")
    assert "H (data@h.example): The centre acts." in dcc("data", "causes", "--centre", "H").stdout
    assert dcc.json("data", "causes", "--centre", "H")[0]["contact"] == "data@h.example"
    assert "\u202e" not in said
    assert (
        "... and 2 more causes of 2 findings. `--limit` says how many are shown."
        in dcc("data", "causes", "--limit", "1").stdout
    )
    assert len(dcc.json("data", "causes", "--limit", "1")) == 1
    assert "Nothing is wrong." in dcc("data", "causes", "--centre", "J").stdout
    assert dcc.json("data", "causes", "--session", "1")[0]["kind"] == "bad-file-name"
    german = {each["kind"]: each["title"] for each in dcc.json("data", "causes", "--language", "de")}
    assert german.keys() == causes.keys()
    told = dcc("data", "causes", "--language", "de", "--limit", "2").stdout
    assert "2 Befunde.\n" in told
    assert f"Zum Beispiel in add/{refused}, " in told
    assert "... und 1 weitere Ursache mit 1 Befund. `--limit` sagt, wie viele gezeigt werden." in told
    assert not re.search(r"finding|Such as|Fixing|For example|more|nearest", told)
    assert dcc("data", "causes", "--centre", "J", "--language", "de").stdout == "Nichts ist falsch.\n"


@only_sqlite
def test_what_the_upload_refused_is_told_to_stay_until_it_is_acknowledged(dcc: Dcc, folder: Folder) -> None:
    key, animals = "add/H.2013-10-31.1.impc.zip", specimens(mice=2)[SPECIMENS]
    folder.put(key, {SPECIMENS: animals.replace(b"H-M000002", b"H-M000001")})
    dcc("crawl", "--until", "qc", exit_code=1)
    (cause,) = dcc.json("data", "causes")
    assert "it stays listed until you acknowledge it: `dcc acknowledge`." in cause["remedy"]
    assert "Fixing this alone clears" not in dcc("data", "causes", "--zip", key).stdout
    told = " ".join(dcc("report", key).stdout.split())
    assert "it stays listed until the Data Coordination Centre acknowledges it." in told
    assert "What to correct" in told
    dcc("acknowledge", key, "--reason", "it was submitted rightly")
    told = " ".join(dcc("report", key).stdout.split())
    assert "What was wrong 1. " in told
    assert "What happens next You need not do anything. " in told
    for shown in (told, " ".join(dcc("report", key, "--html", "-").stdout.split())):
        assert "Nobody: it is decided" in shown
        assert not re.search("What to correct|The centre acts|No later archive|to be corrected", shown)
    assert dcc.json("data", "causes") == []


@only_sqlite
def test_what_the_schema_expected_is_told_once_of_a_cause(dcc: Dcc, folder: Folder) -> None:
    documents = experiments("H", "2013-10-31.1")
    misspelt = {name: text.replace(b"simpleParameter", b"simpleParamter") for name, text in documents.items()}
    folder.put("add/H.2013-10-31.1.impc.zip", misspelt)
    dcc("crawl", "--until", "xsd", exit_code=1)
    said = dcc("data", "causes", "--limit", 1).stdout
    assert "schema-violation  Elements <simpleParamter> are not permitted where they stand: " in said
    assert said.count("<ontologyParameter>, <seriesParameter>") == 1


def test_one_thing_is_asked_for_and_it_is_there(dcc: Dcc, refused: str) -> None:
    assert "Give one of" in dcc.error("data", "causes", "--centre", "H", "--session", "1", exit_code=2)
    assert "No centre 'h'" in dcc.error("data", "causes", "--centre", "h", exit_code=2)
    assert "No submission" in dcc.error("data", "causes", "--zip", f"add/{refused}", exit_code=2)
    assert "No session 9" in dcc.error("data", "causes", "--session", "9", exit_code=2)
    assert "filter it" in dcc.error("data", "findings", "--rule", "S13", "--spreadsheet", "x.xlsx", exit_code=2)
    both = ("--centre", "H", "--zip", f"add/{refused}", "--spreadsheet", "x.xlsx")
    assert "one of --centre and --zip" in dcc.error("data", "findings", *both, exit_code=2)
    assert "does not end with .xlsx" in dcc.error("data", "causes", "--spreadsheet", "x.csv", exit_code=2)
    assert "cannot be written" in dcc.error("data", "causes", "--spreadsheet", "no/folder/x.xlsx", exit_code=2)


def test_causes_and_findings_are_written_as_a_spreadsheet(dcc: Dcc, refused: str) -> None:
    for command in (("data", "causes"), ("data", "findings")):
        path = dcc.root / f"{command[1]}.xlsx"
        said = dcc(*command, "--centre", "H", "--spreadsheet", path).stdout
        assert said == f"Wrote 3 causes and 4 findings to {path}.\n"
        causes, findings = sheets(path)
        assert (len(causes), len(findings)) == (4, 5)
        assert findings[1][0].startswith("add/X")
        assert findings[2][0] == f"add/{refused}"


def test_a_source_says_why_archives_were_not_taken(dcc: Dcc, refused: str, folder: Folder) -> None:
    (folder.path / "add" / "notes.txt").write_text("Notes.")
    told = dcc.json("source", "why", folder.source_id)
    assert [(each["why"], each["acts"]) for each in told] == [("refused", "centre")]
    assert "is not registered" in told[0]["reason"] or "does not follow" in told[0]["reason"]
    looked = dcc.json("source", "why", folder.source_id, "--look")
    assert [each["entry"] for each in looked if each["why"] == "ignored"] == ["add/notes.txt"]
    said = dcc("source", "why", "--centre", "H").stdout
    assert "does not follow" in said
    assert "\u202e" not in said
    assert "who acts" in said
    assert "Nothing was kept" in dcc("source", "why", "--centre", "J").stdout
    in_german = dcc("source", "why", "--centre", "H", "--language", "de").stdout
    head = " ".join(in_german.split("\n")[0].split())
    assert head == "Quelle Eintrag warum es nicht übernommen wurde wer handelt"
    assert "Nichts wurde ausgelassen" in dcc("source", "why", "--centre", "J", "--language", "de").stdout
    assert dcc("source", "why").stdout == said
    assert "not both" in dcc.error("source", "why", "1", "--centre", "H", exit_code=2)
    assert "no file source" in dcc.error("source", "why", "99", exit_code=2).lower()


def test_a_source_that_cannot_be_listed_is_warned_of_and_all_else_told(dcc: Dcc, refused: str, folder: Folder) -> None:
    (folder.path / "add" / "notes.txt").write_text("Notes.")
    (folder.path / "edit").write_text("no folder")
    assert "Warning: " in dcc("source", "why", folder.source_id, "--look").stderr, "a part of it could be listed"
    lost = dcc.add_folder("lost")
    shutil.rmtree(lost.path)
    result = dcc("source", "why", "--look", "--json", exit_code=4)
    told = json.loads(result.stdout)
    assert [each["entry"] for each in told if each["why"] == "ignored"] == ["add/notes.txt"]
    assert lost.source_id in [each["source"] for each in told]
    assert str(lost.path) in result.stderr
    assert "notes.txt" in dcc("source", "why", "--look", exit_code=4).stdout
