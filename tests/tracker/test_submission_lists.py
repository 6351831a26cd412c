"""What the tracker says when asked how far everything is, and what waits."""

import time
from datetime import date, datetime, timedelta

import pytest
from sqlalchemy import ColumnElement, Connection, Engine, String, case, cast, insert, literal, select, update

from dcc.databases.transactions import insert_rows, writing
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import HELD, SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.board import collect_board, render_board
from dcc.reports.submissions.submission_lines import submissions_of_centre
from dcc.settings import Settings
from dcc.tracker import crawls, progress
from dcc.tracker.database import exception_id
from dcc.tracker.models import (
    CrawlFinding,
    CrawlingSession,
    FileSourceHasZip,
    SessionLock,
    SessionTask,
    SourceCrawlRow,
    XmlLog,
    ZipAction,
    ZipActionLog,
    ZipFile,
)
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.queries import board, state_counts, submission_lists
from dcc.tracker.queries.board import Cell
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.waiting_work import waiting_submissions
from dcc.tracker.states import REFUSED
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.databases import (
    SeededSubmission,
    seed_centre,
    seed_documents,
    seed_download,
    seed_hosting,
    seed_source,
    seed_submission,
)
from tests.support.sent_statements import sent_statements
from tests.support.trials import MANY

VALID = State(Phase.XSD, Status.DONE)
INVALID = State(Phase.XSD, Status.FAILED)
NOW = datetime(2026, 11, 21, 7, 28, 31)


def put_submission(
    tracker: Engine, source_id: int, centre_id: int | None, day: str, inc: int = 1, action: Action = Action.ADD
) -> SeededSubmission:
    """An archive with the date and increment of its name, waiting at a source."""
    seeded = seed_submission(
        tracker, source_id, f"H.{day}.{inc}.impc.zip", action, centre_id=centre_id, size_bytes=1_000
    )
    execute_in(
        tracker, update(ZipFile).where(ZipFile.id == seeded.zip_id).values(created=date.fromisoformat(day), inc=inc)
    )
    return seeded


def report(tracker: Engine, za_id: int, *states: State) -> None:
    for state in states:
        in_writing(tracker, progress.report, [StateReport(Subject.ZIP_ACTION, za_id, state)])


def note_gone(tracker: Engine, za_id: int) -> None:
    execute_in(tracker, update(FileSourceHasZip).where(FileSourceHasZip.za_id == za_id).values(gone_since=NOW))


def waiting(tracker: Engine) -> list[str]:
    return [str(key) for key in in_reading(tracker, waiting_submissions)]


def is_read(statement: str) -> bool:
    return statement.startswith("SELECT")


@pytest.mark.both_databases
def test_the_board_counts_and_pages_what_its_filter_selects(tracker: Engine) -> None:
    centre = seed_centre(tracker)
    source = seed_source(tracker, centre)
    for day, states in {"2026-01-01": [INVALID], "2026-01-02": [VALID], "2026-02-01": [VALID]}.items():
        report(tracker, put_submission(tracker, source, centre, day).za_id, *states)
    note_gone(tracker, put_submission(tracker, source, None, "2026-01-02", 7).za_id)
    valid = Cell("H", Phase.XSD, Status.DONE, 2)
    january = SubmissionFilter(first_day=date(2026, 1, 2), last_day=date(2026, 1, 31))
    with tracker.connect() as connection:
        assert board.count_cells(connection, SubmissionFilter()) == [
            valid,
            Cell("H", Phase.XSD, Status.FAILED, 1, SubmissionKey(Action.ADD, "H.2026-01-01.1.impc.zip")),
            Cell("", Phase.ZIP_NAME, Status.DONE, 1, SubmissionKey(Action.ADD, "H.2026-01-02.7.impc.zip")),
        ]
        assert board.count_cells(connection, SubmissionFilter(centre="H", status=Status.DONE)) == [valid]
        assert sum(cell.count for cell in board.count_cells(connection, january)) == 2
        found = [board.submissions_on_page(connection, january, page) for page in (1, 2)]
    assert [[str(one.key) for one in page] for page in found] == [
        ["add/H.2026-01-02.7.impc.zip", "add/H.2026-01-02.1.impc.zip"],
        [],
    ]


@pytest.mark.both_databases
def test_what_names_no_centre_is_of_that_on_whose_source_it_is_at_present(tracker: Engine) -> None:
    """Where lists, the board and reports on centres look for it."""
    h, j = seed_centre(tracker), seed_centre(tracker, "J")
    source = seed_source(tracker, h)
    _, gone, twice = (
        seed_submission(tracker, source, f"{name}.zip", state=REFUSED) for name in ("december", "gone", "twice")
    )
    seed_hosting(tracker, twice.za_id, seed_source(tracker, j))
    seed_submission(tracker, source, "J.2026-01-01.1.impc.zip", centre_id=j)
    note_gone(tracker, gone.za_id)
    expected = {
        "H": ["add/december.zip", "add/twice.zip"],
        "J": ["add/J.2026-01-01.1.impc.zip", "add/twice.zip"],
        "": ["add/gone.zip"],
    }
    with tracker.connect() as connection:
        for centre, keys in expected.items():
            wanted = SubmissionFilter(centre=centre)
            listed = submission_lists.find_submissions(connection, wanted)
            shown = board.submissions_on_page(connection, wanted, 1)
            of_centre = [(centre, key) for key in keys]
            assert sorted((one.counts_for or "", f"{one.action}/{one.file_name}") for one in listed) == of_centre
            assert sorted((one.centre, str(one.key)) for one in shown) == of_centre
            assert sum(cell.count for cell in board.count_cells(connection, wanted)) == len(keys)
            assert {cell.centre for cell in board.count_cells(connection, wanted)} == {centre}
            if centre:
                assert sorted(str(line.key) for line in submissions_of_centre(connection, centre)) == keys
        cells = [(cell.centre, cell.count) for cell in board.count_cells(connection, SubmissionFilter())]
        everything = board.submissions_on_page(connection, SubmissionFilter(), 1)
    assert cells == [("H", 2), ("J", 1), ("", 1)]
    assert sorted(one.centre for one in everything) == ["", "H", "H", "J"]


@pytest.mark.both_databases
def test_why_a_submission_failed_is_the_first_error_that_holds_of_its_documents(tracker: Engine) -> None:
    """Warnings, what could not be checked, what waits for confirmation and what was cleared come before it."""
    centre = seed_centre(tracker)
    source = seed_source(tracker, centre)
    failed, sound = (put_submission(tracker, source, centre, "2026-01-01", inc) for inc in (1, 2))
    download = seed_download(tracker, failed.hosting_id)
    (later,) = seed_documents(tracker, download, 1, State(Phase.DATA, Status.FAILED))
    one, other = seed_documents(tracker, download, 2, INVALID)
    (valid,) = seed_documents(tracker, seed_download(tracker, sound.hosting_id), 1, VALID)
    entries = [
        # Its archive failed in the earlier phase, of which the reason is.
        (later, "X0", "error", None),
        (one, "X1", "warning", None),
        (one, HELD, None, None),
        (one, "X2", "error", NOW),
        (one, "X3", "unchecked", None),
        (other, "X4", None, None),
        (one, "X5", "error", None),
        *[(other, f"X{number}", "error", None) for number in range(6, 30)],
        (valid, "X30", "error", None),
    ]
    with writing(tracker) as connection:
        for document, kind, severity, cleared in entries:
            row = {"xml_id": document, "exception_id": exception_id(connection, kind, kind), "message": f"Of {kind}."}
            insert_rows(connection, XmlLog.__table__, [{**row, "severity": severity, "cleared": cleared}])
    reasons = in_reading(tracker, submission_lists.failure_reasons, [failed.za_id, sound.za_id])
    assert {za_id: reason.kind for za_id, reason in reasons.items()} == {failed.za_id: "X4"}


@pytest.mark.both_databases
def test_a_name_that_conforms_by_now_is_not_selected_by_the_fault_that_it_had(tracker: Engine) -> None:
    source = seed_source(tracker, seed_centre(tracker))
    refused, accepted = (put_submission(tracker, source, None, day) for day in ("2026-01-30", "2026-01-31"))
    with writing(tracker) as connection:
        kind = exception_id(connection, "BadFileNameError", "Names do not follow the convention")
        rows = [{"za_id": each.za_id, "exception_id": kind, "message": "No."} for each in (refused, accepted)]
        insert_rows(connection, ZipActionLog, rows)
        progress.report(connection, [StateReport(Subject.ZIP_ACTION, refused.za_id, REFUSED)])
    found = in_reading(tracker, submission_lists.find_submissions, SubmissionFilter(kind="BadFileNameError"))
    assert [entry.file_name for entry in found] == ["H.2026-01-30.1.impc.zip"]


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("pattern", "found"),
    [("H.*", 1), ("h.*", 0), ("*IMPC.zip", 0), ("H.2026-01-3?.1.impc.zip", 1), ("H.2026-01-3?1.impc.zip", 0)],
)
def test_a_pattern_of_names_tells_capitals_from_small_letters(tracker: Engine, pattern: str, found: int) -> None:
    put_submission(tracker, seed_source(tracker, seed_centre(tracker)), None, "2026-01-31")
    assert len(in_reading(tracker, submission_lists.find_submissions, SubmissionFilter(name=pattern))) == found


def test_zips_are_listed_oldest_first_with_the_sources_that_host_them_at_present(tracker: Engine) -> None:
    centre = seed_centre(tracker)
    source, other = seed_source(tracker, centre), seed_source(tracker, centre, username="other")
    young = put_submission(tracker, other, centre, "2026-02-01")
    tenth = put_submission(tracker, source, centre, "2026-01-01", 10)
    put_submission(tracker, source, centre, "2026-01-01", 2, Action.DELETE)
    seed_hosting(tracker, young.za_id, source)
    note_gone(tracker, tenth.za_id)
    entries = in_reading(tracker, submission_lists.find_submissions)
    assert [(e.file_name, e.action, e.sources) for e in entries] == [
        ("H.2026-01-01.2.impc.zip", Action.DELETE, (source,)),
        ("H.2026-01-01.10.impc.zip", Action.ADD, ()),
        ("H.2026-02-01.1.impc.zip", Action.ADD, (source, other)),
    ]
    assert {(e.centre, e.phase, e.status, e.size_bytes) for e in entries} == {("H", Phase.ZIP_NAME, Status.DONE, 1_000)}


def test_what_some_available_source_of_an_active_centre_hosts_waits(tracker: Engine) -> None:
    centre, sleeping = seed_centre(tracker), seed_centre(tracker, "J", is_active=False)
    up = seed_source(tracker, centre)
    down = seed_source(tracker, centre, username="down", state="maintenance")
    inactive = seed_source(tracker, sleeping)
    put_submission(tracker, up, centre, "2026-03-01")
    put_submission(tracker, up, centre, "2026-01-01", 10)
    put_submission(tracker, up, centre, "2026-01-01", 9)
    put_submission(tracker, down, centre, "2026-01-02")
    put_submission(tracker, inactive, centre, "2026-01-03")
    twice = put_submission(tracker, down, centre, "2026-01-04")
    seed_hosting(tracker, twice.za_id, up)
    note_gone(tracker, put_submission(tracker, up, centre, "2026-01-05").za_id)
    assert waiting(tracker) == [
        "add/H.2026-01-01.9.impc.zip",
        "add/H.2026-01-01.10.impc.zip",
        "add/H.2026-01-04.1.impc.zip",
        "add/H.2026-03-01.1.impc.zip",
    ]
    assert len(in_reading(tracker, waiting_submissions, limit=2)) == 2


def test_of_very_many_zip_actions_the_few_that_wait_are_found_at_once(tracker: Engine) -> None:
    _add_many(tracker, MANY)
    with tracker.connect() as connection, sent_statements(tracker, is_read) as statements:
        began = time.monotonic()
        found = waiting_submissions(connection)
        waited = time.monotonic() - began
        everything = submission_lists.find_submissions(connection)
    assert [key.file_name for key in found] == [f"H.2026-01-01.{n}.impc.zip" for n in range(10_000, MANY + 1, 10_000)]
    assert waited < MANY / 10_000
    assert len(everything) == MANY
    assert len(statements) == 3


def test_the_board_of_a_hundred_thousand_archives_takes_less_than_a_second(tracker: Engine) -> None:
    """Of a processor: on the clock it is more where the tests of others run beside."""
    _add_many(tracker, 100_000)
    catalogue, settings = load_catalogue(None, Settings()), Settings()
    began = time.process_time()
    with tracker.connect() as connection:
        shown = collect_board(connection, SubmissionFilter(), 1, settings)
    page = render_board(
        shown, catalogue, settings, path="/dcc/board", home="/dcc/", language=None, link_of_submission="{}".format
    )
    took = time.process_time() - began
    assert (shown.total, len(shown.archives)) == (100_000, board.PAGE_SIZE)
    assert "99,990" in page
    assert took < 1


def _add_many(tracker: Engine, number: int) -> None:
    """Add archives of one source that are valid, but for each ten-thousandth, which waits for its download."""
    centre = seed_centre(tracker)
    source = seed_source(tracker, centre)
    with writing(tracker) as connection:
        _add_zip_files(connection, centre, number)
        done = [literal(Status.DONE, ZipAction.status_id.type), literal(Action.ADD, ZipAction.todo_id.type)]
        phase = case(
            (ZipFile.id % 10_000 == 0, literal(Phase.ZIP_NAME, ZipAction.phase_id.type)),
            else_=literal(Phase.XSD, ZipAction.phase_id.type),
        )
        actions = insert(ZipAction).from_select(
            ["id", "zip_id", "phase_id", "status_id", "todo_id"], select(ZipFile.id, ZipFile.id, phase, *done)
        )
        connection.execute(actions)
        hostings = select(ZipFile.id, literal(source), literal(0))
        connection.execute(insert(FileSourceHasZip).from_select(["za_id", "file_source_id", "num_retries"], hostings))


def _add_zip_files(connection: Connection, centre: int, number: int) -> None:
    """Add so many archives: each statement has the server double what is there."""

    def name(inc: ColumnElement[int]) -> ColumnElement[str]:
        return literal("H.2026-01-01.") + cast(inc, String(9)) + literal(".impc.zip")

    columns = ["id", "file_name", "centre_id", "created", "inc"]
    one = {"id": 1, "file_name": "H.2026-01-01.1.impc.zip", "centre_id": centre, "created": NOW.date(), "inc": 1}
    connection.execute(insert(ZipFile), [one])
    there = 1
    while there < number:
        inc = ZipFile.id + there
        more = select(inc, name(inc), ZipFile.centre_id, ZipFile.created, inc).where(ZipFile.id <= number - there)
        connection.execute(insert(ZipFile).from_select(columns, more))
        there *= 2


def add_session(tracker: Engine, status: int = -1, *, finished: bool = False) -> int:
    row: dict[str, object] = {"start_time": NOW, "status": status, "created": NOW}
    if finished:
        row |= {"finish_time": NOW + timedelta(minutes=1), "end_reason": "faults" if status else "finished"}
    return in_writing(tracker, insert_rows, CrawlingSession, [row])[0]


def add_crawl(tracker: Engine, session_id: int, source_id: int, error: str | None = None, new: int = 0) -> None:
    kind = in_writing(tracker, exception_id, "SourceTimeoutError", "Time is up.") if error else None
    row = {"session_id": session_id, "file_source_id": source_id, "start_time": NOW, "finish_time": NOW}
    ended = {"outcome": "failed" if error else "ok", "exception_id": kind, "message": error}
    in_writing(tracker, insert_rows, SourceCrawlRow, [row | ended | {"listed": new, "new_zips": new}])


def add_finding(tracker: Engine, session_id: int, source_id: int, message: str, za_id: int | None = None) -> None:
    row = {"session_id": session_id, "file_source_id": source_id, "za_id": za_id, "message": message, "created": NOW}
    in_writing(tracker, insert_rows, CrawlFinding, [row | {"file_name": "add/x.zip", "kind": "changed"}])


def test_a_changed_archive_is_a_finding_until_it_is_fetched_anew_or_gone(tracker: Engine) -> None:
    source = seed_source(tracker, seed_centre(tracker))
    zipped = seed_submission(tracker, source)
    fetched, seen, quiet = add_session(tracker), add_session(tracker), add_session(tracker)
    for session in (fetched, seen, quiet):
        add_crawl(tracker, session, source)
    add_finding(tracker, fetched, source, "changed once", zipped.za_id)
    add_finding(tracker, seen, source, "changed again", zipped.za_id)

    def findings() -> list[str]:
        return [str(finding.said) for finding in in_reading(tracker, crawls.latest_findings)]

    def set_gone(when: datetime | None) -> None:
        execute_in(tracker, update(FileSourceHasZip).values(gone_since=when))

    assert findings() == [], "what was never fetched will be fetched as it is at present"
    in_writing(tracker, progress.add_downloads, [zipped.hosting_id], NOW - timedelta(seconds=1))
    assert findings() == ["changed again"]
    set_gone(NOW)
    assert findings() == []
    set_gone(None)
    assert findings() == ["changed again"]
    in_writing(tracker, progress.add_downloads, [zipped.hosting_id], NOW)
    assert findings() == []


def test_sessions_are_listed_newest_first_with_what_became_of_them(tracker: Engine, settings: Settings) -> None:
    source = seed_source(tracker, seed_centre(tracker))
    good = add_session(tracker, 0, finished=True)
    bad = add_session(tracker, int(Phase.UNZIP), finished=True)
    dead = add_session(tracker)
    add_crawl(tracker, good, source, new=2)
    task = {"session_id": good, "phase_id": Phase.ZIP_NAME, "comment": "Crawl", "start_time": NOW, "created": NOW}
    ends = [{"status": status, "finish_time": finish} for status, finish in ((0, NOW), (1, NOW), (-1, None))]
    in_writing(tracker, insert_rows, SessionTask, [task | end for end in ends])
    entries = {entry.id: entry for entry in in_reading(tracker, crawls.list_sessions)}
    assert list(entries) == [dead, bad, good]
    assert [entry.outcome for entry in entries.values()] == ["died", "faults", "finished"]
    assert [entry.failed_phase for entry in entries.values()] == [None, Phase.UNZIP, None]
    assert [task.outcome for task in entries[good].tasks] == ["succeeded", "failed", "running"]
    assert [crawl.new for crawl in entries[good].crawls] == [2]
    with open_session(tracker, settings) as session:
        with tracker.connect() as connection:
            assert [entry.outcome for entry in crawls.list_sessions(connection, ids=[session.id])] == ["active"]
            connection.execute(update(SessionLock).values(pid_started="0"))
            outcomes = [entry.outcome for entry in crawls.list_sessions(connection, ids=[session.id])]
            assert outcomes == ["died"], "the process has died"
            connection.rollback()
        session.hand_over()
    assert [entry.outcome for entry in in_reading(tracker, crawls.list_sessions, limit=1)] == ["open"]


def test_questions_cost_the_same_statements_however_much_there_is(tracker: Engine) -> None:
    def ask() -> int:
        with tracker.connect() as connection, sent_statements(tracker, is_read) as statements:
            state_counts.count_submission_states(connection)
            state_counts.count_documents(connection)
            submission_lists.find_submissions(connection, SubmissionFilter(centre="H"))
            assert len(collect_board(connection, SubmissionFilter(), 1, Settings()).waits) == added
            crawls.latest_crawls(connection)
            crawls.latest_findings(connection)
            crawls.list_sessions(connection)
        return len(statements)

    centre, added, counts = seed_centre(tracker), 0, set()
    for added in range(1, 4):
        source = seed_source(tracker, centre, username=str(added))
        zipped = put_submission(tracker, source, centre, "2026-01-01", added)
        seed_documents(tracker, seed_download(tracker, zipped.hosting_id), 3)
        session = add_session(tracker)
        add_crawl(tracker, session, source, "no")
        add_finding(tracker, session, source, "x")
        counts.add(ask())
    assert len(counts) == 1
