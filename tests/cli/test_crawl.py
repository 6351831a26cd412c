"""`dcc crawl` and `retry`: sessions from the command line, their reports and exit codes."""

import getpass
import json
import os
import re
import shutil

import pytest

from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.tracker.hostings.urgent_requests import urgent_keys
from tests.cli.conftest import Dcc, without_id
from tests.support.asking import in_reading
from tests.support.databases import only_sqlite
from tests.support.installations import experiments, growing, specimens
from tests.support.submission_world import wrong_form

GOOD = "add/H.2013-10-31.1.impc.zip"
BAD = "edit/H.2013-10-31.2.impc.zip"
INVALID = wrong_form("2013-10-31.2", first=1, mice=2) | experiments("H", "2013-10-31.2")
"""A document with four errors, and a valid one."""
VALID = {"phase": "xsd", "status": "done"}


def test_a_session_without_problems_ends_with_0(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put(GOOD)
    folder.put("delete/H.2013-10-31.3.impc.zip", specimens("H", "2013-10-31.3"))
    report = dcc.json("crawl")
    assert report["session"] == 1
    assert report["notices"] == []
    assert report["seconds"] > 0
    (crawled,) = report["sources"]
    assert crawled.pop("seconds") >= 0
    source = {"id": 1, "label": "file source 1 (H, file://localhost)", "centre": "H", "outcome": "ok", "error": None}
    counts = {"listed": 2, "new": 2} | dict.fromkeys(("known", "changed", "refused", "ignored", "gone"), 0)
    assert crawled == source | counts
    assert report["zip_actions"] == [{**VALID, "count": 2}]
    assert report["xml_files"] == [{**VALID, "count": 2}]
    assert report["problems"] == []
    again = dcc.json("crawl")
    assert (again["session"], again["zip_actions"], again["sources"][0]["known"]) == (2, [], 2)


def test_data_problems_end_with_1_and_are_each_reported(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put(GOOD)
    folder.put(BAD, INVALID)
    folder.put("add/wrong.zip", b"x")
    folder.put("add/H.2013-10-31.4.impc.zip", b"PK, but no archive")
    report = dcc.json("crawl", exit_code=1)
    assert report["sources"][0]["refused"] == 1
    assert report["zip_actions"] == [
        {"phase": "unzip", "status": "failed", "count": 1},
        {**VALID, "count": 1},
        {"phase": "xsd", "status": "failed", "count": 1},
    ]
    assert report["xml_files"] == [{**VALID, "count": 2}, {"phase": "xsd", "status": "failed", "count": 1}]
    problems = {problem["zip"]: problem for problem in report["problems"]}
    assert set(problems) == {BAD, "add/wrong.zip", "add/H.2013-10-31.4.impc.zip"}
    assert problems["add/wrong.zip"]["kind"] == "BadFileNameError"
    assert problems["add/wrong.zip"]["source"] == 1
    assert problems["add/H.2013-10-31.4.impc.zip"]["kind"] == "CorruptArchiveError"
    document = problems[BAD]
    assert (document["document"], document["phase"]) == ("H.2013-10-31.2.specimen.impc.xml", "xsd")
    assert (document["line"], document["column"], document["errors"]) == (4, 5, 4)
    assert '"sex"' in document["message"]
    assert dcc.json("crawl")["problems"] == []


@only_sqlite
def test_elsewhere_than_on_a_terminal_there_is_a_line_a_source_and_a_problem(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put(GOOD)
    # What is left alone in an archive is no reason for its failure.
    folder.put(BAD, {**INVALID, "notes.txt": b"of the export"})
    folder.put("add/wrong.zip", b"x")
    result = dcc("crawl", exit_code=1)
    lines = result.stdout.splitlines()
    assert lines[0] == "ok      file source 1 (H, file://localhost): 3 archives listed, 2 new, 1 refused"
    assert lines[1].startswith("        add/wrong.zip: zip_name failed: 'wrong.zip' does not follow")
    assert lines[2].startswith(f"failed  {BAD}: H.2013-10-31.2.specimen.impc.xml, line 4, column 5 at xsd: ")
    assert lines[2].endswith("(and 3 more)")
    assert lines[3].startswith("Session 1 (finished): 2 submissions in ")
    assert "1 xsd done, 1 xsd failed; 3 documents" in lines[3]
    assert len(lines) == 4
    assert result.stderr == ""


def test_a_source_that_is_down_ends_with_4_and_the_others_are_crawled(dcc: Dcc) -> None:
    dcc.add_folder().put(GOOD)
    dcc("source", "add", "--centre", "J", "--protocol", "ftp", "--hostname", "127.0.0.1:1", "--no-test")
    report = dcc.json("crawl", exit_code=4)
    assert [crawl["outcome"] for crawl in report["sources"]] == ["ok", "failed"]
    assert report["sources"][1]["error"]["kind"] == "SourceUnreachableError"
    assert report["problems"][0]["source"] == 2
    assert report["zip_actions"] == [{**VALID, "count": 1}]
    result = dcc("crawl", exit_code=4)
    assert "failed  file source 2 (J, ftp://127.0.0.1:1)" in result.stdout
    assert result.stderr == ""
    (_, entry) = dcc.json("status")["sources"]
    assert entry["last_crawl"]["outcome"] == "failed"
    assert "Connection refused" in entry["last_crawl"]["error"]["message"]


@only_sqlite
def test_an_archive_that_is_being_uploaded_is_shown_and_no_problem(dcc: Dcc) -> None:
    dcc.environment["DCC_QUIET_SECONDS"] = "1"
    folder = dcc.add_folder()
    folder.put(GOOD)
    with growing(folder.path / GOOD, (folder.path / GOOD).read_bytes()):
        assert "is being uploaded to" in dcc("crawl").stdout
    assert "being uploaded since" in dcc("show", GOOD).stdout
    assert "is being uploaded to" in dcc("status").stdout
    assert "is being uploaded to" in dcc("source", "why", 1).stdout
    dcc.error("retry", GOOD, exit_code=2)
    folder.put(GOOD)
    assert "1 xsd done" in dcc("crawl").stdout


def test_another_active_session_ends_with_3(dcc: Dcc) -> None:
    with dcc.active_session() as session:
        for arguments in (["crawl"], ["crawl", "--json"]):
            said = dcc.error(*arguments, exit_code=3)
            assert f"Session {session.id} is active: process {os.getpid()} on {os.uname().nodename} " in said
            assert "dcc session list" in said
        assert dcc.json("status")["session"]["active"]["id"] == session.id
        assert f"Session {session.id}: active" in dcc("status").stdout
    dcc("crawl")


def test_without_any_source_a_crawl_says_so_and_why_it_broke_off_once(dcc: Dcc) -> None:
    result = dcc("crawl")
    assert "dcc source add" in result.stderr
    assert "No submission was waiting" in result.stdout
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    dcc.environment["DCC_STAGING"] = "/proc/none"
    said = dcc("crawl", exit_code=2).stderr
    assert said.count("Archives cannot be put into staging (/proc/none)") == 1
    assert said.startswith("Error (")


def test_the_group_or_the_sources_named_are_crawled_alone(dcc: Dcc) -> None:
    first, second = dcc.add_folder("first"), dcc.add_folder("second", "J")
    first.put(GOOD)
    second.put("add/J.2013-10-31.1.impc.zip", specimens("J"))
    dcc.environment["DCC_GROUPS"] = "europe=H;america=J"
    dcc("source", "set-state", second.source_id, "maintenance")
    assert "No available file source of an active centre of this group" in dcc("crawl", "--group", "america").stderr
    assert "set-state 2 available" in dcc.error("crawl", "--source", second.source_id, exit_code=2)
    assert dcc.json("zips") == []
    dcc("source", "set-state", second.source_id, "available")
    report = dcc.json("crawl", "--group", "america")
    assert [crawl["id"] for crawl in report["sources"]] == [second.source_id]
    assert [entry["file_name"] for entry in dcc.json("zips")] == ["J.2013-10-31.1.impc.zip"]
    assert report["zip_actions"] == [{**VALID, "count": 1}]
    report = dcc.json("crawl", "--source", first.source_id, "--downloaders", 2, "--workers", 1, "--max-retries", 0)
    assert [crawl["id"] for crawl in report["sources"]] == [first.source_id]
    assert report["zip_actions"] == [{**VALID, "count": 1}]
    assert "No file source 9" in dcc.error("crawl", "--source", 9, exit_code=2)


@only_sqlite
def test_a_group_that_cannot_be_crawled_is_told_with_the_nearest_names(dcc: Dcc) -> None:
    source = dcc.add_folder().source_id
    said = dcc.error("crawl", "--group", "europe", exit_code=2)
    assert said == "No group of centres 'europe' exists. DCC_GROUPS names none."
    dcc.environment["DCC_GROUPS"] = "europe=H;Asia=h"
    said = dcc.error("crawl", "--group", "euope", exit_code=2)
    assert said == "No group of centres 'euope' exists. The nearest: europe. DCC_GROUPS has europe, Asia."
    assert "'asia' exists. The nearest: Asia." in dcc.error("crawl", "--group", "asia", exit_code=2)
    said = dcc.error("crawl", "--group", "Asia", exit_code=2)
    assert "Centre h of the group Asia is not registered. The nearest: H." in said
    assert "exclude each other" in dcc.error("crawl", "--group", "europe", "--source", source, exit_code=2)
    assert dcc.json("session", "list") == []


@pytest.mark.both_databases
def test_a_retry_is_logged_with_the_user_and_processes_the_zip_at_once(dcc: Dcc) -> None:
    folder = dcc.collect({BAD: INVALID, "add/H.2013-10-31.3.impc.zip": specimens("H", "2013-10-31.3")}, exit_code=1)
    assert dcc.json("retry", BAD, exit_code=1)["zip_actions"] == [{"phase": "xsd", "status": "failed", "count": 1}]
    folder.put(BAD, specimens("H", "2013-10-31.2"))
    report = dcc.json("crawl")
    assert (report["zip_actions"], report["problems"]) == ([{**VALID, "count": 1}], [])
    assert [note["kind"] for note in report["notes"]] == ["listing"]
    report = dcc.json("retry", BAD)
    assert report["zip_actions"] == [{**VALID, "count": 1}]
    assert report["sources"] == []
    story = dcc.json("show", BAD)
    assert (story["phase"], story["status"]) == ("xsd", "done")
    user = getpass.getuser()
    assert [entry["requested_by"] for entry in story["reopenings"]] == [user, "crawl", user]
    assert [entry["from_status"] for entry in story["reopenings"]] == ["failed", "failed", "done"]
    assert [download["status"] for download in story["downloads"]] == ["failed", "failed", "done", "done"]
    assert "1 submission in " in dcc("retry", BAD).stdout


@pytest.mark.both_databases
def test_what_cannot_be_retried_makes_no_session_and_no_alarm(dcc: Dcc) -> None:
    folder = dcc.collect({GOOD: None, "add/H 1; x.zip": b"x"}, exit_code=1)
    dcc.environment["DCC_NOTIFY_LOG"] = "true"
    for unknown in ("add/Typo.zip", GOOD.replace("add/", "edit/"), GOOD.lower()):
        assert f"knows no {unknown}" in dcc.error("retry", GOOD, unknown, exit_code=2)
    assert "<action>/<file name>" in dcc.error("retry", "nonsense", exit_code=2)
    assert "dcc show 'add/H 1; x.zip'" in dcc.error("retry", "add/H 1; x.zip", exit_code=1)
    dcc("centre", "deactivate", "H")
    said = dcc.error("retry", GOOD, exit_code=2)
    assert f"No available file source hosts {GOOD}" in said
    assert "centre H, not active (`dcc centre activate H`)" in said
    dcc("centre", "activate", "H")
    dcc("source", "set-state", 1, "maintenance")
    assert "dcc source set-state 1 available" in dcc.error("retry", GOOD, exit_code=2)
    dcc("source", "set-state", 1, "available")
    (folder.path / GOOD).unlink()
    dcc("crawl", exit_code=0)
    assert "file source 1 does not list it any more" in dcc.error("retry", GOOD, exit_code=2)
    assert [session["id"] for session in dcc.json("session", "list")] == [2, 1]
    assert dcc.json("show", GOOD)["reopenings"] == []


@only_sqlite
def test_a_session_through_dagster_gives_the_same_report(dcc: Dcc) -> None:
    dcc.environment["DCC_DAGSTER_EVENTS"] = "true"
    failed = {"phase": "xsd", "status": "failed", "count": 1}
    folder = dcc.add_folder()
    folder.put(GOOD)
    folder.put(BAD, INVALID)
    report = dcc.json("crawl", exit_code=1)
    assert (report["session"], report["sources"][0]["new"]) == (1, 2)
    assert report["zip_actions"] == [{**VALID, "count": 1}, failed]
    assert dcc.json("retry", BAD, exit_code=1)["zip_actions"] == [failed]
    assert dcc.json("show", BAD)["reopenings"][0]["requested_by"] == getpass.getuser()


@only_sqlite
def test_on_a_terminal_progress_is_drawn(dcc: Dcc) -> None:
    dcc.collect({GOOD: None, BAD: INVALID}, "--until", "zip_name")
    shown = "\n".join(dcc.on_a_terminal(80, "crawl", exit_code=1))
    assert "To fetch: " in shown
    assert re.search(r"Processing submissions \S*[━╸╺ ]{30}", shown), shown
    assert "/2" in shown
    assert BAD in shown


@only_sqlite
def test_what_a_session_did_is_told_though_the_qc_database_is_away(dcc: Dcc) -> None:
    dcc.add_folder().put(GOOD)
    nobody_listens = f"mysql://dcc:{'s3cret-pass'}@127.0.0.1:1/qc"
    dcc.environment |= {"DCC_QC_URL": nobody_listens, "DCC_DATABASE_RETRY": "0.1", "DCC_UNTIL": "qc"}
    result = dcc("crawl", "--json", exit_code=4)
    report = json.loads(result.stdout)
    assert (report["session"], report["sources"][0]["new"], report["zip_actions"]) == (1, 1, [{**VALID, "count": 1}])
    (error,) = (without_id(line) for line in result.stderr.splitlines() if line.startswith("Error"))
    assert "127.0.0.1:1" in error
    assert "DCC_QC_URL" in error
    assert "s3cret-pass" not in result.stdout + result.stderr
    assert report["notices"][-1] == f"The session broke off: {error}"
    shown = " ".join(dcc("session", "show", 1).stdout.split())
    assert shown.startswith("Session 1: faults (upload), ")
    assert " failed: The QC database mysql://dcc@127.0.0.1:1/qc could not be reached: " in shown

    result = dcc("retry", GOOD, exit_code=4)
    assert "Session 2 (faults): 1 submission in" in result.stdout
    assert result.stderr.splitlines()[-1].startswith("Error (qc-database-unreachable): The QC database")


@only_sqlite
def test_urgent_archives_are_processed_alone_or_first_by_the_session_that_runs(dcc: Dcc) -> None:
    dcc.environment["DCC_DAGSTER_EVENTS"] = "false"
    folder = dcc.add_folder()
    dcc("source", "change", 1, "--every", "6h")
    assert dcc.json("crawl", "--until", "zip_name")["sources"][0]["new"] == 0
    folder.put(GOOD)
    folder.put(BAD, INVALID)
    assert dcc.json("crawl", "--urgent", GOOD)["zip_actions"] == [{**VALID, "count": 1}]
    assert f"{GOOD} does not wait" in dcc("crawl", "--urgent", GOOD).stderr
    without = dcc.json("crawl", "--urgent", GOOD)
    assert (without["session"], without["outcome"], without["sources"], without["problems"]) == (None, None, [], [])
    assert f"{GOOD} does not wait" in without["notices"][0]
    assert dcc.json("retry", "--centre", "J") == without | {"notices": [], "seconds": 0.0}
    assert "could not be fetched yet" in dcc("crawl", "--urgent", "edit/H.2013-10-31.9.impc.zip").stderr
    assert "takes the archives" in dcc("crawl", "--urgent", exit_code=2).stderr
    assert f"To process {BAD} before all others, add --urgent" in dcc("crawl", BAD, exit_code=2).stderr.replace(
        "\n", " "
    )
    with dcc.active_session() as session:
        assert "fetches first what you named" in dcc("crawl", "--urgent", BAD).stderr
        without = dcc.json("crawl", "--urgent", BAD)
        assert (without["session"], without["zip_actions"]) == (None, [])
        assert "fetches first what you named" in without["notices"][0]
        dcc("crawl", exit_code=3)
        assert SubmissionKey(Action.EDIT, BAD.removeprefix("edit/")) in in_reading(session.tracker, urgent_keys)


@only_sqlite
def test_a_session_that_only_crawls_says_so_and_counts_what_another_source_had_shown(dcc: Dcc) -> None:
    dcc.add_folder().put(GOOD)
    assert (
        "Crawled only, up to zip_name: no submission was to be processed" in dcc("crawl", "--until", "zip_name").stdout
    )
    dcc.add_folder("mirror").put(GOOD)
    assert "1 archive listed, 0 new, 1 known from other sources" in dcc("crawl", "--source", 2).stdout
    assert ": listed (one archive, 0 new, 0 known and one known from another source)." in " ".join(
        dcc("report", "--session", 2).stdout.split()
    )


@only_sqlite
def test_a_session_is_shown_with_the_reason_why_a_crawl_failed_and_its_crawls_by_source(dcc: Dcc) -> None:
    for name in ("first", "second", "third"):
        dcc.add_folder(name)
    shutil.rmtree(dcc.root / "first")
    dcc("crawl", exit_code=4)
    shown = dcc("session", "show", 1).stdout
    assert "failed: file source 1: the folder " in shown
    assert "Crawl of" not in shown
    assert [crawl["source"] for crawl in dcc.json("session", "list")[0]["crawls"]] == [1, 2, 3]
