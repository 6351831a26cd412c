"""What an archive waits for, and until when, as its report tells it; `dcc show` tells the same."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Executable, delete, insert, select, update

from dcc.outcomes import NO_ROOM, CrawlOutcome
from dcc.phases import Phase, State, Status
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.board import collect_board
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.json_form import report_as_json
from dcc.reports.submissions.model import Outcome, SubmissionReport
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.sentences import who_acts_on
from dcc.runtime.clock import utc_now
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.models import (
    AnException,
    BadCopy,
    Centre,
    FileSource,
    FileSourceHasZip,
    SourceCrawlRow,
    ZipAction,
    ZipDownload,
    ZipLog,
)
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.states import EXTRACTING, NOT_DOWNLOADED, QC_DONE, VALID, WAITING
from dcc.vocabulary import SourceState
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.data_installations import key_of
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.report_pages import Page

KEY = "add/H.2013-10-31.1.impc.zip"
SEEN = datetime(2026, 1, 2, 3, 4)
NEXT = "The present or the next session fetches it."
NO_SPACE = "A disk of the Data Coordination Centre had no room for it. The next session tries again."
pytestmark = only_sqlite


def at(state: State) -> Executable:
    return update(ZipAction).values(phase_id=state.phase, status_id=state.status)


def source(number: int, **columns: object) -> Executable:
    return update(FileSource).where(FileSource.id == number).values(columns)


def hosting(number: int, **columns: object) -> Executable:
    return update(FileSourceHasZip).where(FileSourceHasZip.file_source_id == number).values(columns)


def crawled(number: int, **columns: object) -> Executable:
    return update(SourceCrawlRow).where(SourceCrawlRow.file_source_id == number).values(columns)


def paused(number: int) -> Executable:
    return source(number, paused=SEEN, paused_until=datetime(2099, 1, 1), paused_by="me", pause_reason="a move")


@pytest.fixture
def twice(installation: Installation) -> Installation:
    """An installation with an archive that two sources have; it was fetched."""
    for name in ("one", "two"):
        installation.add_folder(name=name).put(KEY)
    installation.run_session()
    execute_in(installation.tracker, insert(AnException).values(short_name=NO_ROOM))
    return installation


def report_after(installation: Installation, *changes: Executable) -> SubmissionReport:
    execute_in(installation.tracker, *changes)
    return in_reading(installation.tracker, collect_submission, None, key_of(KEY), installation.settings)


def waits(installation: Installation, *changes: Executable) -> Sequence[str]:
    """What the archive waits for after these changes of the tracker; each form of the report tells all of it."""
    report, english = report_after(installation, *changes), load_catalogue("en", installation.settings)
    told: list[str] = report_as_json(report, english)["waits"]
    text = " ".join(render_text(report, english).split())
    outcome = Page(render_html(report, english, installation.settings)).section("outcome")
    assert [one for one in told if one not in text or one not in outcome] == []
    # Wranglers read as much on the board, with the commands that they have.
    board = in_reading(installation.tracker, collect_board, SubmissionFilter(), 1, installation.settings)
    ((_, on_board),) = board.waits.items() if told else [(KEY, [])]
    assert len(on_board) == len(told)
    assert [one for one, longer in zip(told, on_board, strict=True) if not str(longer).startswith(one)] == []
    return told


def at_source(number: int, told: str) -> str:
    return f"file source {number} (H, file://localhost): {told}"


def test_what_keeps_sessions_from_an_archive_is_told_of_each_source_with_its_end(twice: Installation) -> None:
    away = select(AnException.id).where(AnException.short_name == NO_ROOM).scalar_subquery()
    never = f"{utc_now() + timedelta(days=2):%a} 00:00-24:00"
    at_once = f"{utc_now() + timedelta(days=2):%Y-%m-%d} 00:00"
    cases = (
        (paused(1), "The source is paused, and is not crawled until 2099-01-01 00:00 UTC: a move."),
        (
            source(2, state_id=SourceState.MAINTENANCE),
            "The source is in the state maintenance, and is not crawled.",
        ),
        (
            hosting(1, uploading_since=SEEN),
            "It was still being uploaded on 2026-01-02 03:04 UTC. It is fetched when two listings have shown the same "
            "size and time.",
        ),
        (
            hosting(2, missed_since=SEEN),
            "The listing of 2026-01-02 03:04 UTC lacked it and much else. The next one decides whether it is gone.",
        ),
        (
            source(1, crawl_windows=never),
            f"It is used only within its hours, and is crawled from {at_once} UTC on.",
        ),
        (
            crawled(2, outcome=CrawlOutcome.FAILED, exception_id=away, message="It is away.", finish_time=SEEN),
            "The last crawl could not list it: It is away.",
        ),
    )
    for first, second in zip(cases[::2], cases[1::2], strict=True):
        for state in (WAITING, NOT_DOWNLOADED):
            expected = [at_source(1, first[1]), at_source(2, second[1])]
            assert waits(twice, at(state), first[0], second[0]) == expected
        # One source that can deliver it is enough.
        usable = source(1, paused=None, crawl_windows=None), hosting(1, uploading_since=None)
        assert waits(twice, at(WAITING), *usable) == [NEXT]
        assert waits(twice, at(NOT_DOWNLOADED)) == ["The next session tries again."]
        execute_in(twice.tracker, source(2, state_id=SourceState.AVAILABLE), hosting(2, missed_since=None))
    assert waits(twice, update(Centre).values(is_active=False)) == [
        at_source(1, "The centre H is not active, and its sources are not crawled."),
        at_source(2, "The centre H is not active, and its sources are not crawled."),
        at_source(2, "The last crawl could not list it: It is away."),
    ]


def test_who_ends_what_an_archive_waits_for_is_who_acts_on_it(twice: Installation) -> None:
    english = load_catalogue("en", twice.settings)

    def acting(*changes: Executable) -> str:
        return who_acts_on(report_after(twice, *changes), english)

    assert acting(at(WAITING), hosting(1, uploading_since=SEEN), hosting(2, gone_since=SEEN)).startswith(
        "Nobody: it goes"
    )
    assert acting(paused(1)) == "The Data Coordination Centre"
    assert acting(hosting(1, gone_since=SEEN)).startswith("Nobody, unless the archive is still meant")


def test_what_must_be_listed_again_waits_until_its_source_is(twice: Installation) -> None:
    of_first = select(FileSourceHasZip.id).where(FileSourceHasZip.file_source_id == 1).scalar_subquery()
    bad = {
        "hosting_id": of_first,
        "size_bytes": 1,
        "modified": 1,
        "md5": "0" * 32,
        "reason": "damaged",
        "created": SEEN,
    }
    told = waits(
        twice,
        at(WAITING),
        hosting(1, size_bytes=1, modified=1),
        hosting(2, gone_since=SEEN),
        insert(BadCopy).values(bad),
        source(1, crawl_every=600),
    )
    assert told[0] == at_source(
        1, "Its copy is known to be bad, and is fetched again when it or the checksum beside it changes."
    )
    assert told[1].startswith(at_source(1, "It was listed not long ago, and is crawled from 20"))
    assert len(told) == 2
    # Whole archives are fetched from there.
    assert waits(twice, hosting(1, size_bytes=2)) == [NEXT]


def test_an_archive_that_went_before_it_was_fetched_waits_for_its_centre_if_it_is_meant(twice: Installation) -> None:
    report = report_after(twice, at(WAITING), hosting(1, gone_since=SEEN), hosting(2, gone_since=SEEN))
    assert report.outcome is Outcome.GONE
    gone = ["No file source has it any more. If it is put there again, a session fetches it."]
    assert waits(twice) == gone
    assert waits(twice, at(NOT_DOWNLOADED)) == gone
    # No session would fetch it, wherever it were put.
    in_writing(twice.tracker, record_decisions, DecisionKind.HOLD, [1], by="tester", reason="for now")
    assert report_after(twice, at(WAITING)).outcome is Outcome.ON_HOLD


def test_what_has_arrived_or_has_no_room_goes_on_with_the_next_session(twice: Installation) -> None:
    goes_on = "The present or the next session goes on with it."
    assert waits(twice, at(State(Phase.XSD, Status.RUNNING))) == [goes_on]
    assert waits(twice, at(VALID)) == ["The present or the next session takes its data over."]
    for state, until in ((WAITING, "zip_name"), (VALID, "xsd")):
        ends = f"At present sessions end with the phase {until}, before its turn."
        assert waits(twice.with_settings(until=until), at(state)) == [ends]
    assert waits(twice.with_settings(until="xsd"), at(WAITING)) == [NEXT]
    kind = select(AnException.id).where(AnException.short_name == NO_ROOM).scalar_subquery()
    full = insert(ZipLog).values(zip_id=1, exception_id=kind, message="The disk of /staging is full.")
    for state in (WAITING, EXTRACTING):
        assert waits(twice, at(state)) != [NO_SPACE]
    execute_in(twice.tracker, full)
    for state in (WAITING, EXTRACTING):
        assert waits(twice, at(state)) == [NO_SPACE]
    assert waits(twice, at(QC_DONE)) == []


def test_a_source_that_could_not_be_listed_last_is_no_obstacle_where_a_session_uses_it(twice: Installation) -> None:
    twice.run_session()
    kind = select(AnException.id).where(AnException.short_name == NO_ROOM).scalar_subquery()
    last = update(SourceCrawlRow).where(SourceCrawlRow.session_id == 2)
    failed = last.values(outcome=CrawlOutcome.FAILED, exception_id=kind, message="It is away.")
    away = "The last crawl could not list it: It is away."
    assert waits(twice, at(WAITING), failed) == [at_source(1, away), at_source(2, away)]
    # No session has to list it so soon again.
    assert waits(twice, source(1, crawl_every=600)) == [NEXT]
    # Sessions of a group list the sources of its centres alone.
    j = select(Centre.id).where(Centre.short_name == "J").scalar_subquery()
    assert len(waits(twice, source(1, crawl_every=None, centre_id=j))) == 2
    assert waits(twice.with_settings(groups="europe=H;asia=J")) == [NEXT]
    assert len(waits(twice.with_settings(groups="europe=H,J"))) == 2


def test_larger_archives_that_a_full_disk_has_no_room_for_either_wait_for_room(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put(KEY)
    folder.put("add/H.2013-10-30.1.impc.zip", b"x" * 10_000)
    folder.put("add/H.2013-10-29.1.impc.zip", b"x")
    installation.with_settings(min_free_bytes=1 << 60).run_session()
    # As where the session ends before it comes to them.
    execute_in(installation.tracker, delete(ZipDownload).where(ZipDownload.listed_size_bytes.in_([1, 10_000])))
    board = in_reading(installation.tracker, collect_board, SubmissionFilter(), 1, installation.settings)
    told = {key.file_name: [str(one) for one in messages] for key, messages in board.waits.items()}
    assert told == {
        "H.2013-10-31.1.impc.zip": [NO_SPACE],
        "H.2013-10-30.1.impc.zip": [NO_SPACE],
        "H.2013-10-29.1.impc.zip": [NEXT],
    }
