"""`dcc report`: what a centre is told of a submission, on the terminal, as a page, as JSON and as a spreadsheet."""

import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.report_pages import Page
from tests.support.submission_world import PARTLY_VALID, wrong_form

GOOD = "add/H.2013-11-01.1.impc.zip"


@pytest.fixture(scope="module")
def submitted(shared_dcc: Dcc) -> Dcc:
    """`dcc` after a session that found one archive in order, and one in which a document fails."""
    shared_dcc.collect({GOOD: None, PARTLY_VALID: wrong_form("2013-11-01.3")}, exit_code=1)
    return shared_dcc


def test_the_terminal_tells_in_short_what_became_of_it_and_what_comes_next(submitted: Dcc) -> None:
    told = submitted("report", PARTLY_VALID, env={"DCC_SUGGESTIONS": "true"})
    assert "Nothing of the archive was accepted." in told.stdout
    assert "Who acts: You, at the centre" in told.stdout
    assert 'lack the required attribute "gender"' in told.stdout
    assert "line 4, column 5" in told.stdout
    assert max(map(len, told.stdout.splitlines())) <= 100
    assert f"Next: dcc report {PARTLY_VALID} --html report.html" in told.stderr
    page = submitted("report", "--centre", "H", "--html", submitted.root / "H.html", env={"DCC_SUGGESTIONS": "true"})
    assert "Next: dcc data causes --centre H --spreadsheet H.xlsx" in page.stderr
    waits = submitted("report", GOOD).stdout
    assert "wait to be taken over" in waits
    assert "What to correct" not in waits


def test_page_json_and_spreadsheet_say_the_same(submitted: Dcc) -> None:
    page, sheet = submitted.root / "report.html", submitted.root / "findings.xlsx"
    told = submitted("report", PARTLY_VALID, "--html", page, "--spreadsheet", sheet)
    assert told.stdout == ""
    assert f"Wrote {page}." in told.stderr
    assert f"Wrote {sheet}: 6 findings." in told.stderr
    assert [made.stat().st_mode & 0o777 for made in (page, sheet)] == [0o600, 0o600]
    shown = submitted.json("report", PARTLY_VALID)
    read = Page(page.read_text("utf-8"))
    assert read.problems() == []
    assert (shown["kind"], shown["zip"], shown["findings_total"]) == ("submission", PARTLY_VALID, 6)
    assert shown["headline"] in read.section("outcome")
    assert {cause["title"] for cause in shown["causes"]} == set(read.texts("//article/h3"))
    with zipfile.ZipFile(sheet) as opened:
        assert b"gender" in b"".join(opened.read(name) for name in opened.namelist())
    assert Page(submitted("report", PARTLY_VALID, "--html", "-").stdout).texts("//h1") == read.texts("//h1")


def test_a_centre_and_a_session_have_summaries_of_the_same_kind(submitted: Dcc) -> None:
    centre, session = submitted.json("report", "--centre", "H"), submitted.json("report", "--session", "1")
    assert [line["zip"] for line in centre["zips"]] == [line["zip"] for line in session["zips"]] == [PARTLY_VALID, GOOD]
    assert centre["causes"][0]["findings"] == session["causes"][0]["findings"] == 3
    for options in (("--centre", "H"), ("--session", "1")):
        assert PARTLY_VALID in submitted("report", *options).stdout
        page, sheet = submitted.root / "page.html", submitted.root / "sheet.xlsx"
        told = submitted("report", *options, "--html", page, "--spreadsheet", sheet).stderr
        assert "6 findings" in told
        assert Page(page.read_text("utf-8")).problems() == []
    assert submitted.json("report", "--centre", "J")["zips"] == []


def test_the_report_is_in_the_language_of_the_centre_or_the_one_asked_for(submitted: Dcc) -> None:
    assert submitted.json("report", PARTLY_VALID)["language"] == "en"
    assert submitted.json("report", PARTLY_VALID, "--language", "de")["language"] == "de"
    submitted("centre", "change", "H", "--language", "de")
    assert submitted.json("report", PARTLY_VALID)["language"] == "de"
    assert submitted.json("report", "--centre", "H")["language"] == "de"
    assert submitted.json("report", PARTLY_VALID, "--language", "en")["language"] == "en"
    submitted("centre", "change", "H", "--language", "")


def test_what_cannot_be_reported_on_is_said(submitted: Dcc) -> None:
    for arguments, said in (
        ((), "Say what the report is of"),
        ((GOOD, "--centre", "H"), "one of them"),
        (("add/H.2020-01-01.1.impc.zip",), "no crawl has seen it"),
        (("H.zip",), "names no submission"),
        (("--centre", "Nope"), "No centre 'Nope'"),
        (("--session", "9"), "No session 9"),
        ((GOOD, "--language", "xx"), "language xx has no catalogue"),
        ((GOOD, "--html", Path("/nowhere/report.html")), "is no directory"),
        ((GOOD, "--html", "-", "--json"), "cannot both go to standard output"),
    ):
        assert said in submitted.error("report", *arguments, exit_code=2)


def test_before_the_first_upload_the_page_says_what_the_tracker_knows(submitted: Dcc) -> None:
    none = {"DCC_QC_URL": f"sqlite:///{submitted.root}/none.db"}
    shown = Dcc(submitted.environment | none, submitted.root).json("report", PARTLY_VALID)
    assert shown["accepted"] is None
    assert "dcc init" in shown["qc_missing"]
    assert shown["findings_total"] == 6


@only_sqlite
def test_the_name_of_an_archive_is_enough_where_there_is_one_of_it(dcc: Dcc) -> None:
    dcc.collect(dict.fromkeys((GOOD, "add/H.2014-01-01.1.impc.zip", "edit/H.2014-01-01.1.impc.zip")))
    name = GOOD.removeprefix("add/")
    assert dcc.json("show", name) == dcc.json("show", GOOD)
    assert dcc.json("report", name)["zip"] == dcc.json("report", GOOD)["zip"]
    said = dcc.error("show", "H.2014-01-01.1.impc.zip", exit_code=2)
    assert "add/H.2014-01-01.1.impc.zip, edit/H.2014-01-01.1.impc.zip" in said
