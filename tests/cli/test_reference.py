"""`dcc reference`: the sets of reference data, how old they are, and bringing them up to date."""

from dcc.reference.loading import SETS
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.reference_server import ReferenceServer


def test_what_is_missing_is_told_and_can_be_had(dcc: Dcc) -> None:
    missing = dcc("reference", "list", exit_code=1)
    assert missing.stdout.count("missing") == len(SETS)
    assert missing.stderr.count("Warning: No ") == len(SETS)
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


@only_sqlite
def test_what_a_server_had_and_was_refused_is_said_by_every_session_and_command_until_it_is_healed(dcc: Dcc) -> None:
    dcc.add_folder()
    token = "t0ken-of-the-registry"
    address = f"/projects.csv?token={token}"
    dcc.secrets.append(token)
    with ReferenceServer({address: b"project\nA\nB\nC\n"}) as server:
        dcc.environment |= {"DCC_REFERENCE_PROJECTS": server.url + address, "DCC_UNTIL": "qc"}
        dcc("crawl")
        dcc("reference", "list")
        server.pages[address] = b"project\nA\n"
        dcc("reference", "refresh", "projects", exit_code=1)
        for _ in range(2):
            assert "less than half" in dcc("crawl", exit_code=1).stdout
        told = dcc("reference", "list", exit_code=1)
        assert told.stdout.count(" troubled ") == 1
        assert "projects could not be refreshed on 2" in told.stderr
        assert "less than half" in told.stderr
        examined = dcc("doctor", exit_code=1).stdout
        assert "less than half" in examined
        assert "dcc reference refresh projects --force" in examined
        server.pages[address] = b"project\nA\nB\nD\n"
        dcc("crawl")
        dcc("reference", "list")
        assert "less than half" not in dcc("doctor").stdout
