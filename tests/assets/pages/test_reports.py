"""Reports and pictures as the web server of `dcc ui` answers for them: harmless, and clear about what failed."""

import asyncio
import json
import re
import threading
from datetime import date
from io import BytesIO
from zipfile import ZipFile

import pytest
from dagster import DagsterRunStatus
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, TrackerUnreachableError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.submissions.board import filter_of_query
from dcc.tracker.decisions import DecisionKind, record_decisions, revoke
from dcc.tracker.models import Centre, StatusRow
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import select_submissions
from dcc_assets.metadata.links import report_of_submission
from dcc_assets.pages import server
from dcc_assets.pages.server import HEADERS, report_routes
from tests.reports.test_causes_collecting import sheets
from tests.support.asking import execute_in, in_writing
from tests.support.raising import raising
from tests.support.shown_installations import GOOD, ORPHANS, Shown

HOSTILE = "add/<img src=x onerror=alert(1)>.zip"

Answered = tuple[int, dict[str, str], bytes]


def ask(path: str, query: str = "", method: str = "GET") -> Answered:
    """What the routes answer to a path."""
    answer = TestClient(Starlette(routes=report_routes())).request(method, f"{path}?{query}")
    return answer.status_code, dict(answer.headers), answer.content


def test_everything_that_is_linked_is_there_and_nothing_else(shown: Shown) -> None:
    index = ask("/dcc/reports")
    assert index[0] == 200
    assert b'href="/dcc/reports/centre/H"' in index[2]
    assert b'href="/dcc/reports/session/1"' in index[2]
    for path in (f"/dcc/reports/{ORPHANS}", "/dcc/reports/centre/H", "/dcc/reports/session/1"):
        status, headers, body = ask(path)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert ORPHANS.encode() in body or b"H.2013-10-31.2.impc.zip" in body
        assert (f'href="/dcc/reports/{ORPHANS}"'.encode() in body) is not path.endswith(ORPHANS)
        assert b"<script" not in body
        assert HEADERS.items() >= {(name, headers[name.lower()]) for name in HEADERS}
    missing = {
        "/dcc/reports/add/none.zip": b"dcc zips",
        "/dcc/reports/purge/H.2013-10-31.1.impc.zip": b'href="/dcc/"',
        "/dcc/reports/add/..%2F..%2F..%2Fetc%2Fpasswd": b"dcc zips",
        "/dcc/reports/centre/..%2F..%2Fetc": b'href="/dcc/"',
        "/dcc/reports/centre/Nobody": b"dcc centre",
        "/dcc/reports/session/99": b"dcc session list",
        f"/dcc/reports/session/{10**30}": b'href="/dcc/"',
        f"/dcc/reports/session/{'9' * 5_000}": b'href="/dcc/"',
        "/dcc/other": b'href="/dcc/"',
    }
    for path, advice in missing.items():
        status, headers, body = ask(path)
        assert status == 404, path
        assert advice in body, path
        assert "script-src" not in headers["content-security-policy"]
    assert ask(f"/dcc/reports/{GOOD}", method="POST")[0] == 405


def test_commands_in_texts_are_code_and_phases_have_one_vocabulary(shown: Shown) -> None:
    missing = ask("/dcc/reports/add/none.zip")[2].decode()
    assert "<code>dcc zips</code>" in missing
    assert "`" not in missing
    report = ask(f"/dcc/reports/{GOOD}")[2].decode()
    assert "Form<br><code>xsd</code>" in report
    assert "Form <code>xsd</code></dt>" in report


def test_what_a_centre_named_is_text_on_its_report(shown: Shown) -> None:
    shown.data.folder.put(HOSTILE, b"no archive")
    shown.data.validate()
    status, _, body = ask(report_of_submission(SubmissionKey(Action.ADD, HOSTILE.partition("/")[2])))
    assert status == 200
    assert b"<img src=x" not in body
    assert b"&lt;img src=x" in body
    assert b"<img src=x" not in ask("/dcc/reports/add/%3Cimg src=x onerror=alert(2)%3E")[2]


def test_a_report_comes_in_other_languages_as_json_and_as_a_spreadsheet(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = json.loads(ask(f"/dcc/reports/{ORPHANS}", "form=json")[2])
    assert ORPHANS in json.dumps(told)
    assert b'lang="de"' in ask(f"/dcc/reports/{ORPHANS}", "language=de")[2]
    for path in (ORPHANS, "centre/H", "session/1"):
        status, headers, body = ask(f"/dcc/reports/{path}", "form=spreadsheet")
        assert (status, headers["content-disposition"]) == (200, 'attachment; filename="findings.xlsx"')
        with ZipFile(BytesIO(body)) as workbook:
            assert b"H.2013-10-31.2.experiment.impc.xml" in b"".join(map(workbook.read, workbook.namelist()))
    monkeypatch.setattr("dcc.reports.submissions.collecting.MAX_CAUSES", 0)
    assert len(sheets(BytesIO(ask(f"/dcc/reports/{ORPHANS}", "form=spreadsheet")[2]))[0]) > 1
    for query in ("language=..%2Fx", "language=xx", "form=exe"):
        assert ask(f"/dcc/reports/{ORPHANS}", query)[0] == 400


def test_the_board_counts_archives_and_lists_those_of_a_cell(shown: Shown) -> None:
    whole = json.loads(ask("/dcc/board", "form=json")[2])
    assert whole["total"] == sum(cell["count"] for cell in whole["cells"]) == len(whole["archives"]) > 1
    for cell in whole["cells"]:
        asked = f"form=json&centre={cell['centre'] or '-'}&phase={cell['phase']}&status={cell['status']}"
        told = json.loads(ask("/dcc/board", asked)[2])
        assert told["cells"] == [cell]
        assert len(told["archives"]) == cell["count"]
        assert ask(told["archives"][0]["report"])[0] == 200
    assert json.loads(ask("/dcc/board", "form=json&from=2000-01-01&to=2000-01-02")[2])["total"] == 0
    dated = json.loads(ask("/dcc/board", "form=json&from=2013-10-31&to=2013-10-31")[2])
    assert dated["total"] > 0
    assert b'lang="de"' in ask("/dcc/board", "language=de&centre=&phase=&from=&page=2")[2]
    assert f'href="/dcc/reports/{GOOD}?language=de"' in ask("/dcc/board", "language=de")[2].decode()
    refused = ("phase=x", "status=x", "from=x", "page=0", "page=x", "form=exe", "language=xx")
    assert [ask("/dcc/board", query)[0] for query in refused] == [400] * len(refused)
    assert ask("/dcc/board", "centre=Nobody")[0] == 404
    assert b'href="/dcc/board"' in ask("/dcc/")[2]


def test_the_board_takes_from_the_tracker_what_is_a_colour_and_nothing_else(shown: Shown) -> None:
    execute_in(shown.data.tracker, update(StatusRow).where(StatusRow.id == Status.DONE).values(rgba="12abEF00"))
    execute_in(shown.data.tracker, update(StatusRow).where(StatusRow.id == Status.FAILED).values(rgba="r}*{x:00"))
    page = ask("/dcc/board")[2].decode()
    assert ".done { --status: #12abEF; }" in page
    assert ".failed { --status:" not in page


def test_the_board_tells_why_an_archive_failed(shown: Shown) -> None:
    listed = {one["archive"]: one for one in json.loads(ask("/dcc/board", "form=json")[2])["archives"]}
    assert listed[ORPHANS]["reason"].startswith("E4: The specimen 'H-M000011' of experiment ")
    assert all((one["reason"] is not None) == (one["status"] == "failed") for one in listed.values())
    for language, beginning in (("en", "The specimen "), ("de", "Das Tier ")):
        page = ask("/dcc/board", f"language={language}")[2].decode()
        (note,) = re.findall(f'<span class="note">({beginning}.*?)</span>', page)
        assert "H-M000011" in note


def test_a_decision_is_on_the_board_on_the_report_and_on_its_partition(shown: Shown) -> None:
    tracker = shown.data.tracker
    with writing(tracker) as connection:
        (za_id,) = [one.id for one in select_submissions(connection, SubmissionFilter(), [GOOD])]
        record_decisions(connection, DecisionKind.HOLD, [za_id], by="ann", reason="Harwell asks to wait")

    pages = ("/dcc/board", f"/dcc/reports/{GOOD}")

    def told() -> list[object]:
        shown.dagster.session(shown.data, until=Phase.ZIP_NAME)
        (listed,) = [one for one in json.loads(ask("/dcc/board", "form=json")[2])["archives"] if one["archive"] == GOOD]
        report = json.loads(ask(f"/dcc/reports/{GOOD}", "form=json")[2])
        return [
            *listed["decisions"],
            *(one["decided_by"] for one in report["decisions"]),
            *(b"by ann, until it is released: Harwell" in ask(page)[2] for page in pages),
            shown.dagster.metadata("zip_actions", GOOD).get("decision"),
        ]

    said, *others = told()
    assert str(said).endswith("by ann: Harwell asks to wait (until it is released)")
    assert others == ["ann", True, True, said]
    in_writing(tracker, revoke, [za_id], DecisionKind.HOLD, by="ann")
    assert told() == [False, False, None]


def test_a_cell_of_the_board_leads_to_the_report_of_its_only_archive_and_else_to_its_archives(shown: Shown) -> None:
    cell = '<a class="state failed" href="{}">'
    assert cell.format(f"/dcc/reports/{ORPHANS}") in ask("/dcc/board")[2].decode()
    for number in (3, 4):
        shown.data.folder.put(f"add/H.2013-10-31.{number}.impc.zip", b"no archive")
    shown.data.validate()
    several = ask("/dcc/board")[2].decode()
    assert cell.format("/dcc/board?centre=H&amp;phase=unzip&amp;status=failed#archives") in several


def test_what_an_address_asks_of_the_board_restricts_it_or_is_refused() -> None:
    for query in ({}, dict.fromkeys(("centre", "phase", "status", "from", "to", "page"), "")):
        assert filter_of_query(query) == (SubmissionFilter(), 1)
    asked = filter_of_query({"centre": "-", "phase": "unzip", "from": "2026-11-25", "page": "1000000"})
    assert asked == (SubmissionFilter(centre="", phase=Phase.UNZIP, first_day=date(2026, 11, 25)), 1_000_000)
    wrong = [("page", page) for page in ("0", "1000001", "9" * 5_000, "\u00b2")]
    for name, value in (*wrong, ("phase", "tea"), ("to", "2026-13-01")):
        with pytest.raises(ConfigurationError):
            filter_of_query({name: value})


def test_pictures_of_a_centre_are_drawn_when_they_are_asked_for(shown: Shown) -> None:
    status, headers, body = ask("/dcc/pictures/centre/H/1.png")
    assert (status, headers["content-type"]) == (200, "image/png")
    assert body.startswith(b"\x89PNG")
    for number in (0, 1000):
        answer = ask(f"/dcc/pictures/centre/H/{number}.png")[:2]
        assert answer == (200, headers | {"content-type": "image/svg+xml", "content-length": "62"})


def test_a_database_that_is_away_is_said_and_the_qc_database_is_done_without(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_QC_URL", f"sqlite:///{shown.data.settings.home}/none.db")
    status, _, body = ask(f"/dcc/reports/{GOOD}")
    assert (status, b"experiment.impc.xml" in body) == (200, True)
    assert "dcc init" in str(json.loads(ask(f"/dcc/reports/{GOOD}", "form=json")[2]))

    monkeypatch.setattr(
        "dcc_assets.pages.reports.require_current", raising(TrackerUnreachableError("The tracker is away. Start it."))
    )
    status, _, body = ask(f"/dcc/reports/{GOOD}")
    assert (status, b"The tracker is away. Start it." in body) == (503, True)


def test_what_is_wrong_is_told_in_the_reader_s_language(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        "/dcc/other": (404, "Eine Seite /dcc/other gibt es nicht."),
        "/dcc/reports/session/99": (404, "Einen Abruf 99 gibt es nicht."),
        "/dcc/reports/centre/Nobody": (404, "Ein Zentrum &#39;Nobody&#39; gibt es nicht"),
        "/dcc/reports/add/none.zip": (404, "Eine Einreichung add/none.zip gibt es nicht"),
        "/dcc/kept/add/none": (404, "Von add/none ist kein Bericht aufbewahrt."),
    }
    pages["/dcc/reports/centre/h"] = (404, "(Groß- und Kleinschreibung zählt). Am ähnlichsten: H. ")
    pages[f"/dcc/reports/{GOOD[:-4]}.7z"] = (404, f"Am ähnlichsten: {GOOD}")
    for path, (expected, words) in pages.items():
        status, _, body = ask(path, "language=de")
        assert (status, words in body.decode()) == (expected, True), path
        for frame in ("<h1>Diese Seite gibt es nicht</h1>", 'href="/dcc/?language=de">Alle Seiten<', 'lang="de"'):
            assert frame in body.decode()
    away = raising(TrackerUnreachableError("Away."))
    for fault, title in ((away, "Eine Datenbank oder"), (raising(ValueError()), "Etwas ist schiefgegangen")):
        monkeypatch.setattr("dcc_assets.pages.reports.require_current", fault)
        assert title in ask(f"/dcc/reports/{GOOD}", "language=de")[2].decode()
    monkeypatch.setenv("DCC_LANGUAGE", "de")
    assert "Diese Seite gibt es nicht" in ask("/dcc/other")[2].decode()
    # In a language that does not exist, that is told.
    assert "No such page" in ask("/dcc/other", "language=xx")[2].decode()


def test_files_from_before_the_move_to_a_server_are_not_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DCC_TRACKER_URL", "DCC_QC_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DCC_DAGSTER_URL", "mysql://dcc_ui:secret@db/phenodcc_dagster")
    for path in ("/dcc/", "/dcc/board", f"/dcc/reports/{GOOD}"):
        status, _, body = ask(path)
        assert (status, b"Set DCC_TRACKER_URL and DCC_QC_URL" in body) == (503, True)
    # Of an installation that has only Dagster on a server, they are shown once the page is told so.
    for variable, url in re.findall(r"(DCC_\w+_URL)=(sqlite:\S+?)(?: |\.<)", body.decode()):
        monkeypatch.setenv(variable, url)
    assert ask("/dcc/")[0] == 200


def test_however_many_reports_are_asked_for_at_once_dagster_s_pages_are_answered() -> None:
    """Dagster answers in the threads of one pool, of which reports that wait for each other must take none."""
    may_end, begun = threading.Event(), []

    def slow(_request: Request) -> Response:
        begun.append(1)
        assert may_end.wait(60)
        return Response()

    async def ask_all() -> None:
        serve = server._served(slow)
        asked = [asyncio.ensure_future(serve(Request({"type": "http"}))) for _ in range(100)]
        try:
            # Dagster's own way to answer; where no thread is left, this waits for reports that do not end.
            await asyncio.wait_for(run_in_threadpool(lambda: None), 30)
            assert len(begun) <= 2
        finally:
            may_end.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    asyncio.run(ask_all())
    assert len(begun) == 100


def test_a_fault_is_answered_without_what_it_says_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("dcc_assets.pages.reports.load_settings", raising(ZeroDivisionError("a secret")))
    status, headers, body = ask("/dcc/reports/centre/H")
    assert (status, b"ZeroDivisionError" in body, b"a secret" in body) == (500, True, False)
    assert headers["x-content-type-options"] == "nosniff"
    assert "a secret" in caplog.text


def test_looking_at_what_is_overdue_goes_on_after_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as Dagster's storage being locked, which raises what its database does."""
    looked: list[float] = []

    def look(_instance: object) -> None:
        looked.append(1)
        raise OperationalError("SELECT 1", {}, Exception("database is locked"))

    class Over(BaseException):
        pass

    def sleep(seconds: float) -> None:
        if len(looked) == 2:
            raise Over

    monkeypatch.setattr(server, "_look_at_overdue", look)
    monkeypatch.setattr("dcc_assets.pages.server.time.sleep", sleep)
    with pytest.raises(Over):
        server._watch_overdue(object())  # type: ignore[arg-type]
    assert len(looked) == 2


def test_a_report_is_kept_on_demand_and_told_in_short(shown: Shown) -> None:
    before = len(shown.dagster.statuses())
    assert shown.dagster.materialise(shown.job, ORPHANS, "submission_reports") is DagsterRunStatus.SUCCESS
    assert len(shown.dagster.statuses()) == before + 1
    assert shown.dagster.materialised("submission_reports") == {ORPHANS}
    told = shown.dagster.metadata("submission_reports", ORPHANS)
    assert told["errors and findings"] == 3
    assert [row["found"] for row in told["Causes"]] == [3]
    page = shown.data.settings.home / "reports" / f"{ORPHANS}.html"
    assert told["page"] == str(page)
    assert page.stat().st_mode & 0o077 == 0
    assert shown.data.states()[ORPHANS] == "data failed"


def test_the_xml_of_a_document_is_linked_saved_and_never_shown(shown: Shown) -> None:
    body = ask(f"/dcc/reports/{GOOD}")[2].decode()
    path = re.findall(r'href="(/dcc/documents/[^"]+)"', body)[0]
    status, headers, content = ask(path)
    assert status == 200
    name = path.rpartition("/")[2]
    with ZipFile(shown.data.folder.path / GOOD) as archive:
        assert content == archive.read(name)
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["content-disposition"] == f'attachment; filename="{name}"'
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert headers["content-length"] == str(len(content))
    for missing in (f"/dcc/documents/{GOOD}/none.xml", f"/dcc/documents/add/none.zip/{name}", "/dcc/documents/no/a/b"):
        assert ask(missing)[0] == 404


def test_what_lies_in_folders_under_an_odd_name_is_linked_too(shown: Shown) -> None:
    key = "add/H.2013-10-31.3.impc.zip"
    shown.data.put(key, {"old/odd name.xml": b"<odd/>"})
    shown.dagster.session(shown.data)
    body = ask(f"/dcc/reports/{key}")[2].decode()
    (path,) = re.findall(r'href="(/dcc/documents/[^"]+)"', body)
    status, headers, content = ask(path)
    assert (status, content) == (200, b"<odd/>")
    assert headers["content-disposition"] == 'attachment; filename="odd%20name.xml"'


def test_the_procedures_that_are_due_at_a_centre_have_a_page(shown: Shown) -> None:
    assert b'href="/dcc/expected/H"' in ask("/dcc/reports")[2]
    status, headers, body = ask("/dcc/expected/H")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    for part in (
        b"What the overviews cover",
        b"data:image/svg+xml",
        b"<code>IMPC_CBC_001</code>",
        b"dcc qc expected --centre H",
    ):
        assert part in body
    assert b"<script" not in body
    assert ask("/dcc/expected/Nobody")[0] == 404
    for path in ("/dcc/", "/dcc/kept", "/dcc/kept/H", "/dcc/expected/H"):
        status, _, body = ask(path, "form=json")
        assert (status, b"This page has the form html alone" in body) == (400, True), path
    assert b"0 documents" not in body
    assert b"0 animals" not in body


def test_causes_are_on_a_page_of_their_own_with_their_contacts_and_links_to_reports(shown: Shown) -> None:
    with shown.data.tracker.begin() as connection:
        connection.execute(update(Centre).values(email="data@harwell.example.org"))
    for path in ("/dcc/causes", "/dcc/causes/H"):
        assert f'href="{path}"' in ask("/dcc/")[2].decode()
        (cause,) = json.loads(ask(path, "form=json")[2])
        assert (cause["findings"], cause["contact"]) == (3, "data@harwell.example.org")
        status, _, body = ask(path)
        text = body.decode()
        assert status == 200
        for part in (cause["title"], "data@harwell.example.org", "clears", f'href="/dcc/reports/{ORPHANS}"'):
            assert part in text
        assert ask(path, "form=spreadsheet")[1]["content-disposition"] == 'attachment; filename="findings.xlsx"'
        assert 'lang="de"' in ask(path, "language=de")[2].decode()
    assert ask("/dcc/causes/Nobody")[0] == 404
    assert [ask("/dcc/causes", query)[0] for query in ("form=exe", "language=xx")] == [400, 400]


def test_kept_reports_are_listed_and_shown_as_they_were_made(shown: Shown) -> None:
    assert "None." in ask("/dcc/kept")[2].decode()
    shown.dagster.materialise(shown.job, ORPHANS, "submission_reports")
    kept = f"/dcc/kept/{ORPHANS.removesuffix('.html')}"
    for path in ("/dcc/", "/dcc/kept", "/dcc/kept/H"):
        listed = ask(path)[2].decode()
        assert f'href="{kept}"' in listed
        assert f'href="/dcc/reports/{ORPHANS}"' in listed
    page = shown.data.settings.home / "reports" / f"{ORPHANS}.html"
    status, headers, body = ask(kept)
    assert (status, body, headers["content-type"]) == (200, page.read_bytes(), "text/html; charset=utf-8")
    missing = ("none.zip", "..%2Fadd%2Fx", "%2E%2E", ".x", "x%00")
    assert [ask(f"/dcc/kept/add/{name}")[0] for name in missing] == [404] * len(missing)
    assert [ask(f"/dcc/kept/{path}")[0] for path in ("Nobody", "purge/x")] == [404, 404]


def test_every_page_leads_back_to_the_list_of_pages_and_reports_to_their_spreadsheets(shown: Shown) -> None:
    reports = (f"/dcc/reports/{ORPHANS}", "/dcc/reports/centre/H", "/dcc/reports/session/1", "/dcc/causes/H")
    for path in (*reports, "/dcc/board", "/dcc/expected/H", "/dcc/kept"):
        english, german = (ask(path, query)[2].decode() for query in ("", "language=de"))
        assert '<a href="/dcc/">All pages</a>' in english
        assert '<a href="/dcc/?language=de">' in german
        assert ('href="?form=spreadsheet"' in english) is (path in reports)
    index = ask("/dcc/", "language=de")[2].decode()
    assert 'lang="de"' in index
    assert "/dcc/causes/H?language=de" in index
    assert ask("/dcc/", "language=xx")[0] == 400
