"""Reports that are kept: for this user alone, replaced as a whole, bounded, and gone with their archives."""

import json
import logging
import os
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select

from dcc.databases.transactions import writing
from dcc.errors import CleaningError, ConfigurationError
from dcc.messages import Message
from dcc.naming import Action
from dcc.operations.staging.cleanup import clean, review_staging
from dcc.outcomes import Problem, SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.causes.cause import Cause, Fact
from dcc.reports.languages import load_catalogue
from dcc.reports.plots.picture import Picture
from dcc.reports.submissions import collecting, stored_reports
from dcc.reports.submissions.collecting import MAX_CAUSES, collect_submission
from dcc.reports.submissions.model import SubmissionReport
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.stored_reports import (
    qc_at_hand,
    remove_old_reports,
    remove_reports,
    report_path,
    write_reports,
)
from dcc.reports.submissions.templates import render
from dcc.settings import Settings
from dcc.tracker.database import exception_id
from dcc.tracker.models import XmlFile, XmlLog, ZipDownload
from dcc.tracker.queries.submission_stories import Host
from dcc.vocabulary import Severity
from tests.support.asking import in_reading
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens
from tests.support.report_pages import Page
from tests.support.submission_world import GOOD, HOSTILE, UNREADABLE, Desk

LARGEST_PAGE = 2_000_000


@pytest.fixture
def desk(submission_desk: Desk, tmp_path: Path) -> Desk:
    """The shared desk with a home of the test's own for reports."""
    data = submission_desk.data.with_settings(home=tmp_path / "home", submission_reports="failed")
    return Desk(data, submission_desk.tracker, submission_desk.qc)


def kept_files(desk: Desk) -> dict[str, int]:
    """Each file below the directory of reports, with its rights."""
    root = desk.data.settings.home / "reports"
    return {str(path.relative_to(root)): path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_file()}


def test_a_session_keeps_the_reports_of_what_failed_for_this_user_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One that cannot be made costs no other."""
    (said,) = write_reports(desk.data.tracker, desk.data.settings, 1)
    files = kept_files(desk)
    assert said == f"Kept {len(files) // 2} submission reports in {desk.data.settings.home / 'reports'}."
    assert set(files.values()) == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (desk.data.settings.home / "reports").rglob("*/")} == {0o700}
    bad = SubmissionKey(Action.ADD, UNREADABLE.partition("/")[2])
    page = report_path(desk.data.settings, bad)
    assert {page, page.with_suffix(".json")} <= {desk.data.settings.home / "reports" / name for name in files}
    assert Page(page.read_text("utf-8")).problems() == []
    assert json.loads(page.with_suffix(".json").read_text("utf-8"))["outcome"] == "unreadable"
    assert not report_path(desk.data.settings, SubmissionKey(Action.ADD, GOOD.partition("/")[2])).exists()
    # Again: what is there is replaced.
    assert write_reports(desk.data.tracker, desk.data.settings, 1) == [said]
    assert kept_files(desk) == files
    for name in files:
        (desk.data.settings.home / "reports" / name).unlink()

    def collect(*given: Any, **options: Any) -> SubmissionReport:
        if given[2] == bad:
            raise OverflowError("date value out of range")
        return collect_submission(*given, **options)

    monkeypatch.setattr(collecting, "collect_submission", collect)
    kept_others, missing = write_reports(desk.data.tracker, desk.data.settings, 1)
    assert files.keys() - kept_files(desk).keys() == {f"add/{page.name}", f"add/{page.with_suffix('.json').name}"}
    assert kept_others.startswith(f"Kept {len(files) // 2 - 1} submission reports in ")
    assert "on demand" not in kept_others
    assert f"were not all kept: {bad}: OverflowError. " in missing
    assert "date value out of range" in caplog.text


def test_a_session_keeps_as_many_as_are_asked_for_and_says_how_many_are_left(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = desk.data.settings.model_copy(update={"submission_reports": "none"})
    assert write_reports(desk.data.tracker, none, 1) == []
    assert kept_files(desk) == {}
    monkeypatch.setattr(stored_reports, "MAX_REPORTS", 2)
    every = desk.data.settings.model_copy(update={"submission_reports": "all"})
    (said,) = write_reports(desk.data.tracker, every, 1)
    assert said.startswith("Kept 2 submission reports in ")
    assert said.endswith(" more on demand: dcc report.")
    assert len(kept_files(desk)) == 4
    monkeypatch.setattr(stored_reports, "MAX_SECONDS", -1.0)
    (said,) = write_reports(desk.data.tracker, every, 1)
    assert said.startswith("Kept 0 submission reports")


def test_reports_that_cannot_be_kept_fail_no_session(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.data.settings.home.mkdir()
    (desk.data.settings.home / "reports").write_text("a file")
    with caplog.at_level(logging.WARNING):
        (said,) = write_reports(desk.data.tracker, desk.data.settings, 1)
    assert "were not all kept" in said
    assert "cannot be made" in said
    assert "were not all kept" in caplog.text


def test_a_template_of_a_dcc_s_own_that_meets_a_fault_fails_no_session(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "own" / "reports").mkdir(parents=True)
    (tmp_path / "own" / "reports" / "submission.html").write_text("{{ 1 / 0 }}")
    own = desk.data.with_settings(templates_directory=tmp_path / "own")
    (said,) = write_reports(desk.data.tracker, own.settings, 1)
    assert "reports/submission.html, line 1 cannot be used: ZeroDivisionError" in said
    assert "DCC_TEMPLATES_DIRECTORY" in said
    why, failed_too, _ = said.removeprefix("The submission").partition(" 4 more failed; see the log.")
    assert failed_too
    assert f"Submission{why}" in caplog.text


@only_sqlite
def test_reports_come_with_the_session_and_go_with_the_archive(installation: Installation) -> None:
    keeping = installation.with_settings(submission_reports="all")
    folder = keeping.add_folder()
    folder.put("add/H.2013-11-01.2.impc.zip", b"PK no archive")
    result = keeping.run_session()
    page = report_path(keeping.settings, SubmissionKey(Action.ADD, "H.2013-11-01.2.impc.zip"))
    assert any("Kept 1 submission reports" in notice for notice in result.closing_notices)
    assert json.loads(page.with_suffix(".json").read_text("utf-8"))["qc_missing"]
    part = keeping.settings.staging_directory / "add/H.2013-11-01.2.impc.zip.part"
    part.touch()
    clean(keeping.tracker, keeping.settings, review_staging(keeping.tracker, keeping.settings))
    assert (part.exists(), page.exists()) == (False, True)
    at_once = keeping.with_settings(staging_keep_failed_days=0).settings
    cleaned = clean(keeping.tracker, at_once, review_staging(keeping.tracker, at_once))
    assert [decision.staged.place for decision in cleaned.removed] == ["add/H.2013-11-01.2.impc.zip"]
    for days in (364, 366):
        old = page.with_name(f"{days}.zip.html")
        old.touch()
        os.utime(old, (time.time(), time.time() - days * 86_400))
    clean(keeping.tracker, keeping.settings, [])
    assert [path.name for path in page.parent.iterdir()] == ["364.zip.html"]


def test_reports_of_what_never_was_in_staging_go_when_they_are_old(desk: Desk) -> None:
    settings = desk.data.settings
    old, new = (report_path(settings, SubmissionKey(Action.ADD, name)) for name in ("old.zip", "new.zip"))
    old.parent.mkdir(parents=True)
    for path in (old, new, old.with_name("notes.txt")):
        path.write_text("x")
        os.utime(path, (time.time(), time.time() - (0 if path == new else 11 * 86_400)))
    remove_old_reports(settings, 10)
    assert sorted(path.name for path in old.parent.iterdir()) == ["new.zip.html", "notes.txt"]
    remove_reports(settings, [SubmissionKey(Action.ADD, "new.zip"), SubmissionKey(Action.ADD, "never.zip")])
    assert not new.exists()
    (old.parent / "odd.zip.html").mkdir()
    with pytest.raises(CleaningError, match="cannot be removed"):
        remove_reports(settings, [SubmissionKey(Action.ADD, "odd.zip")])


@pytest.mark.parametrize(
    "name",
    ["H.2013-10-31.1.impc.zip", HOSTILE.partition("/")[2], "..", ".hidden", "-rf", "\n\x00", "x" * 255, "é" * 90],
)
def test_every_name_has_a_place_below_the_directory(desk: Desk, name: str) -> None:
    path = report_path(desk.data.settings, SubmissionKey(Action.EDIT, name))
    assert path.resolve().parent == (desk.data.settings.home / "reports" / "edit").resolve()
    assert path.name.isascii()
    assert len(path.name) < 200
    assert path != report_path(desk.data.settings, SubmissionKey(Action.EDIT, name + "x"))


def test_a_qc_database_that_was_not_made_is_done_without(installation: Installation) -> None:
    with qc_at_hand(installation.settings) as (connection, missing):
        assert connection is None
        assert missing


# How large a page gets


@only_sqlite
def test_ten_thousand_documents_with_thirty_thousand_errors_give_a_page_that_can_be_read(
    installation: Installation,
) -> None:
    key = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
    folder = installation.add_folder()
    folder.put(str(key), specimens())
    installation.run_session()
    _have_documents(installation.tracker, 10_000, errors=3)
    catalogue = load_catalogue("en", installation.settings)
    report = in_reading(installation.tracker, collect_submission, None, key, installation.settings)
    page = render_html(report, catalogue, installation.settings)
    assert len(page.encode()) < LARGEST_PAGE
    assert (report.documents_total, report.documents_failed, report.found) == (10_001, 10_000, 30_000)
    assert "9,801 more documents are not listed." in Page(page).section("documents")
    assert (report.accepted, report.qc_missing) == (None, "not asked")
    assert "does not say what was accepted" in Page(page).section("accepted")
    assert "in 30,000 places" in Page(page).section("correct")
    assert len(stored_reports.json_text(report, catalogue).encode()) < LARGEST_PAGE


def _have_documents(tracker: Engine, number: int, errors: int) -> None:
    failed = {"phase_id": Phase.XSD, "status_id": Status.FAILED}
    with writing(tracker) as connection:
        download = connection.scalar(select(ZipDownload.id))
        (template,) = connection.execute(select(XmlFile.__table__)).mappings()
        kind = exception_id(connection, "SchemaViolationError", "x")
        first = template["id"] + 1
        ids = range(first, first + number)
        connection.execute(
            insert(XmlFile.__table__),
            [
                {**template, **failed, "zip_id": download, "id": one, "fname": f"H.{one}.specimen.impc.xml"}
                for one in ids
            ],
        )
        message = 'Element <mouse> lacks the required attribute "gender". In centre "H".'
        rows = [
            {"xml_id": one, "exception_id": kind, "message": message, "line": line, "col": 5}
            for one in ids
            for line in range(errors)
        ]
        connection.execute(insert(XmlLog.__table__), rows)


def test_however_long_texts_are_and_however_large_pictures_the_page_stays_small(desk: Desk) -> None:
    base = desk.report(GOOD)
    long = "<&>\U000e0001" * 20_000
    said = Message(long)
    known = {"value": long}
    example = Fact("S4", Severity.ERROR, known, "add/x", long, 1, 2, long, long, said, said, (long,) * 500, long)
    counts = {"findings": 1, "documents": 1, "zips": 1, "entities": {}}
    cause = Cause(key="k", code="S4", centre="H", severity=Severity.ERROR, example=example, **counts)
    reason = Problem("x", long, recorded=datetime(2026, 1, 1))
    hosts = tuple(Host(n, long[:500], 1, 1, False, 0, None) for n in range(1_000))
    texts = {"causes": (cause,) * MAX_CAUSES, "reasons": (reason,) * 20, "hosts": hosts}
    report = replace(base, pictures=(_large(),) * 3, **texts)
    page = render_html(report, desk.catalogue(), desk.data.settings)
    assert len(page.encode()) < LARGEST_PAGE
    assert "2 more pictures are left out" in Page(page).section("pictures")
    assert len(stored_reports.json_text(report, desk.catalogue()).encode()) < LARGEST_PAGE


def _large() -> Picture:
    picture = Picture("n", "A title", "A caption", "In words", (4.0, 3.0), lambda _: None)
    picture.__dict__["svg"] = f"<svg>{'x' * 400_000}</svg>"
    return picture


# Templates


def test_a_dcc_can_have_templates_of_its_own(desk: Desk, tmp_path: Path) -> None:
    own = tmp_path / "own" / "reports"
    own.mkdir(parents=True)
    (own / "session.html").write_text("<p>Nothing here.</p>")
    (own / "submission.html").write_text("<p>{{ report.key }}: {{ '<b>' }}</p>")
    settings = desk.data.settings.model_copy(update={"templates_directory": tmp_path / "own"})
    assert render_html(desk.report(GOOD), desk.catalogue(), settings) == f"<p>{GOOD}: &lt;b&gt;</p>"


def test_a_directory_of_templates_that_is_not_there_is_refused(desk: Desk, tmp_path: Path) -> None:
    settings = desk.data.settings.model_copy(update={"templates_directory": tmp_path / "misspelt"})
    with pytest.raises(ConfigurationError, match=r"misspelt cannot be read: .*Correct DCC_TEMPLATES_DIRECTORY"):
        render_html(desk.report(GOOD), desk.catalogue(), settings)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ reprot.key }}", "uses what there is not: 'reprot' is undefined"),
        ("{% if %}", "line 1 cannot be used"),
        ("{% extends 'reports/none.html' %}", "reports/none.html cannot be used"),
        ("<p>\n{{ 1 / 0 }}", "page.html, line 2 cannot be used: ZeroDivisionError: division by zero"),
        ("{{ 'a' + 1 }}", "line 1 cannot be used: TypeError: can only concatenate str"),
        ("{{ say('{colony}') }}", "line 1 cannot be used: KeyError: 'colony'"),
        ("{{ date('x') }}", "line 1 cannot be used: AssertionError"),
        ("{% include 'reports/page.html' %}", "line 1 cannot be used: RecursionError"),
    ],
)
def test_a_template_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "page.html").write_text(text)
    with pytest.raises(ConfigurationError, match="DCC_TEMPLATES_DIRECTORY") as raised:
        render("reports/page.html", load_catalogue("en", Settings()).functions, own=tmp_path)
    assert said in str(raised.value)
