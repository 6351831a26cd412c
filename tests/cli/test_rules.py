"""`dcc rules` and `reference`: what data are judged by, and its age."""

import getpass

from dcc.reference.loading import SETS
from dcc.rules.catalogue import CATALOGUE
from tests.cli.conftest import Dcc
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
