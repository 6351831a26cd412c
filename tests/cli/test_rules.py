"""`dcc rules`, `reference` and `replay`: what data are judged by, its age, and what proposals would change."""

import getpass
import json
import shutil

import pytest

from dcc.cli.demo.submissions import damaged
from dcc.documents.schema_set import OWN_SCHEMAS
from dcc.reference.loading import SETS
from dcc.rules.catalogue import CATALOGUE
from tests.cli.conftest import Dcc
from tests.support.data_installations import experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.reference_server import ReferenceServer

FAR = "2999-12-31"


@only_sqlite
def test_the_rules_are_listed_without_a_database(bare_dcc: Dcc) -> None:
    listed = bare_dcc.json("rules", "list")
    assert [entry["id"] for entry in listed] == list(CATALOGUE)
    assert next(entry for entry in listed if entry["id"] == "S2") == {
        "id": "S2",
        "severity": "error",
        "demand": "A baseline animal's strainID is a known strain.",
        "known_as": ["testSpecimenBackground"],
        "needs": ["strains"],
        "at_upload": False,
        "package": None,
    }
    said = bare_dcc("rules", "list").stdout
    assert "A baseline animal's strainID is a known strain." in said
    assert max(map(len, said.splitlines())) < 160


def test_a_waiver_is_recorded_with_its_author_and_shown(dcc: Dcc) -> None:
    assert "No rule is waived" in dcc("rules", "waivers").stdout
    said = dcc("rules", "waive", "P9", "--centre", "H", "--until", FAR, "--reason", "a broken balance").stdout
    assert "Waiver 1: rule P9 is waived at centre H" in said
    assert "No document" in said
    (entry,) = dcc.json("rules", "waivers")
    assert (entry["id"], entry["rule"], entry["centre"], entry["procedure"]) == (1, "P9", "H", None)
    assert (entry["effect"], entry["state"], entry["valid_until"]) == ("waive", "in force", FAR)
    assert (entry["author"], entry["reason"]) == (getpass.getuser(), "a broken balance")
    assert "a broken balance" in dcc("rules", "waivers").stdout
    added = dcc.json("rules", "waive", "E9", "--procedure", "IMPC_CBC_001", "--warn", "--reason", "known repeats")
    assert (added["id"], added["effect"], added["procedure"]) == (2, "warn", "IMPC_CBC_001")


def test_a_revoked_waiver_is_shown_on_request(dcc: Dcc) -> None:
    dcc("rules", "waive", "P9", "--reason", "a broken balance")
    assert "Waiver 1 of rule P9 is revoked." in dcc("rules", "revoke", "1", "--reason", "it is mended").stdout
    assert dcc.json("rules", "waivers") == []
    (entry,) = dcc.json("rules", "waivers", "--all")
    assert (entry["state"], entry["revoked_by"], entry["revoked_reason"]) == (
        "revoked",
        getpass.getuser(),
        "it is mended",
    )
    assert "revoked: it is mended" in dcc("rules", "waivers", "--all").stdout
    assert "was revoked" in dcc.error("rules", "revoke", "1", "--reason", "?", exit_code=2)


def test_what_is_missing_is_told_and_can_be_had(dcc: Dcc) -> None:
    missing = dcc("reference", "list", exit_code=1)
    assert missing.stdout.count("missing") == len(SETS)
    unread = "None were read yet; the first session does."
    assert missing.stderr.count("Warning: ") == missing.stderr.count(f"Warning: {unread}") == 1
    assert unread in dcc("doctor", exit_code=1).stdout
    assert all(entry["is_missing"] for entry in dcc.json("reference", "list", exit_code=1))
    refreshed = dcc("reference", "refresh")
    assert refreshed.stdout.count(" new ") == len(SETS)
    assert "The next session judges documents with findings by them again" in refreshed.stdout
    assert dcc("reference", "list").stdout.count("shipped:") == len(SETS)
    entries = dcc.json("reference", "list")
    assert [entry["name"] for entry in entries] == list(SETS)
    assert all(entry["is_shipped"] and entry["message"] is None for entry in entries)
    assert {entry["outcome"] for entry in dcc.json("reference", "refresh")} == {"unchanged"}


def test_what_cannot_be_read_is_told_and_the_last_stays_in_use(dcc: Dcc) -> None:
    with ReferenceServer({"/projects.csv": b"project\nA\nB\nC\n"}) as server:
        dcc.environment |= {"DCC_REFERENCE_PROJECTS": f"{server.url}/projects.csv", "DCC_RETRY_DELAY": "0.01"}
        (entry,) = dcc.json("reference", "refresh", "projects")
        assert (entry["outcome"], entry["rows"], entry["added"]) == ("new", 3, 3)
        server.pages["/projects.csv"] = b"project\nA\n"
        refused = dcc("reference", "refresh", "projects", exit_code=1)
        assert "--force" in refused.stderr
        assert "failed" in refused.stdout
        told = dcc("reference", "list", exit_code=1)
        assert told.stdout.count(" troubled ") == 1
        assert "less than half" in told.stderr
        (entry,) = dcc.json("reference", "refresh", "projects", "--force")
        assert (entry["outcome"], entry["rows"], entry["removed"]) == ("new", 1, 2)
        server.failing = {"/projects.csv": -1}
        (entry,) = dcc.json("reference", "refresh", "projects", exit_code=4)
        assert (entry["outcome"], entry["rows"], entry["is_unreachable"]) == ("failed", 1, True)


@only_sqlite
def test_a_session_without_documents_reads_what_the_settings_name_and_says_what_it_cannot(dcc: Dcc) -> None:
    dcc.add_folder()
    path = dcc.root / "projects.csv"
    dcc.environment |= {"DCC_UNTIL": "qc", "DCC_REFERENCE_PROJECTS": str(path)}
    said = dcc("crawl", exit_code=1).stdout
    assert f"projects could not be refreshed: {path} cannot be read" in said
    assert "No projects are loaded: the rules that need them are skipped." in said
    (problem,) = dcc.json("crawl", exit_code=1)["problems"]
    assert (problem["kind"], problem["zip"]) == ("ReferenceDataError", None)
    assert "No projects are loaded" in dcc("doctor", exit_code=1).stdout
    path.write_text("project\nBaSH\n")
    assert "refreshed" not in dcc("crawl").stdout
    assert {entry["name"]: entry["is_missing"] for entry in dcc.json("reference", "list")}["projects"] is False
    dcc.environment["DCC_REFERENCE_PROJECTS"] = str(dcc.root / "others.csv")
    told = dcc("reference", "list", exit_code=1)
    assert told.stdout.count(" other ") == 1
    assert f"The projects in use are from {path}: {dcc.root / 'others.csv'} cannot be read" in told.stderr
    assert dcc.json("reference", "list", exit_code=1)[2]["is_other"]


@only_sqlite
def test_a_set_that_there_is_not_and_a_source_that_cannot_be_used_are_refused(dcc: Dcc) -> None:
    assert "impress, status_codes" in dcc.error("reference", "refresh", "colours", exit_code=2)
    dcc.secrets.append("s3cret-x")
    for source in ("ftp://h/x.csv", "http://user:s3cret-x@h/x.csv", "http:///x.csv", "http://h/ö"):
        dcc.environment |= {"DCC_REFERENCE_COLONIES": source}
        assert "DCC_REFERENCE_COLONIES" in dcc.error("reference", "list", exit_code=2)


RULE = """
from dcc.documents.contents import Experiment
from dcc.vocabulary import Severity
from dcc.rules.findings import fault
from dcc.rules.registry import rule

@rule("D1", Experiment, severity=Severity.ERROR, message="'{experiment}' is <refused>.", cause="Some are <refused>",
      remedy="Wait.")
def none_will_do(experiment, at):
    "No experiment will do."
    yield fault(experiment.line, experiment.date, experiment=experiment.experiment_id)
"""


@only_sqlite
@pytest.mark.usefixtures("forked_workers")
def test_a_replay_says_what_a_proposal_would_change(dcc: Dcc) -> None:
    dcc.collect({"add/H.2013-10-31.1.impc.zip": specimens() | experiments()}, "--until", "qc")
    # Further processes would load the platform for each replay.
    dcc.environment["DCC_WORKERS"] = "1"
    rules, page = dcc.root / "proposed.py", dcc.root / "replay.html"
    rules.write_text(RULE)
    assert "0 verdicts would change, and the findings in 0 other documents" in dcc("replay", "--centre", "H").stdout

    result = dcc("replay", "--rules", rules, "--json", "--page", page, "--since", "2013-10-31")
    found = json.loads(result.stdout)
    assert found["proposal"] == {"rules": str(rules)}
    assert found["centres"] == [{"centre": "H", "documents": 2, "gained": 0, "lost": 1, "otherwise": 0}]
    (cause,) = found["causes"]
    assert (cause["code"], cause["severity"], cause["cause"], cause["appears"]) == (
        "D1",
        "error",
        "Some are <refused>",
        1,
    )
    (change,) = found["changes"]
    assert (change["before"], change["after"]) == ("accepted", "failed data")
    assert [one["code"] for one in change["appeared"]] == ["D1"] * 3
    written = page.read_text("utf-8")
    assert "Some are &lt;refused&gt;" in written
    assert "H.2013-10-31.1.experiment.impc.xml" in written

    rules.write_text(RULE + RULE.replace("D1", "D2"))
    for limit, listed, cut in ((1, {"D1"}, True), (2, {"D1", "D2"}, False), (0, {"D1", "D2"}, False)):
        table = dcc("replay", "--rules", rules, "--limit", limit).stdout
        assert {code for code in ("D1", "D2") if f"\n{code} " in table} == listed
        assert (f"Of causes and documents the first {limit} are shown; --limit 0 prints all." in table) is cut
        assert "2 documents: 1 verdict would change" in table
        assert "H.2013-10-31.1.experiment.impc.xml  accepted  failed data" in table
    assert dcc("replay", "--since", "2013-11-01").stdout.startswith("0 archives, 0 documents")

    schemas, projects = shutil.copytree(OWN_SCHEMAS, dcc.root / "schemas"), dcc.root / "projects.csv"
    common = schemas / "common_definition.xsd"
    common.write_bytes(damaged(common.read_bytes(), '<xs:enumeration value="female"/>', ""))
    projects.write_text("project\nNobody\n")
    specimen, experiment = (f"H.2013-10-31.1.{kind}.impc.xml" for kind in ("specimen", "experiment"))
    invalid = {specimen: "failed xsd", experiment: "failed data"}
    for option, name, source, verdicts, codes in (
        ("--xsd", "xsd", str(schemas), invalid, {"schema-violation.value", "E4"}),
        ("--reference=projects", "projects", str(projects), dict.fromkeys(invalid, "accepted"), {"S12", "E2"}),
    ):
        found = dcc.json("replay", f"{option}={source}")
        assert found["proposal"] == {name: source}
        assert {one["document"]: one["after"] for one in found["changes"]} == verdicts
        assert {one["code"] for one in found["causes"]} == codes

    assert "NAME=SOURCE" in dcc.error("replay", "--reference", "colonies", exit_code=2)
    assert "X" in dcc.error("replay", "--centre", "X", exit_code=2)
