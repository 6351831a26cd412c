"""What keeps the archives of a source from being taken: each archive is counted once, under what is true of it."""

import time
from collections import Counter

from dcc.cli.demo import submissions
from dcc.reports.causes.skipped_archives import SkipReason, skipped_entries
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.submission_lines import submissions_of_centre
from dcc.runtime.clock import utc_now
from dcc.sources.crawl_policy import Pause
from dcc.tracker import progress
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import select_submissions
from dcc.tracker.register import file_sources
from dcc.tracker.register.source_schedules import set_pause
from dcc.vocabulary import Actor, SourceState
from tests.support.asking import in_reading, in_writing
from tests.support.databases import only_sqlite
from tests.support.installations import (
    MODIFIED,
    Folder,
    Installation,
    growing,
    note_uploaded,
    specimens,
    until_the_next_second,
)

TAKEN, CHANGED, UPLOADING, BROKEN, HELD, REFUSED = (
    "add/H.2013-10-31.1.impc.zip",
    "add/H.2013-10-31.2.impc.zip",
    "add/H.2013-10-31.3.impc.zip",
    "add/H.2013-10-31.4.impc.zip",
    "add/J.2013-10-31.1.impc.zip",
    "add/nonsense.zip",
)


def told(installation: Installation, source_id: int) -> dict[str | None, Counter[SkipReason]]:
    """How many archives are told under each reason, by name and (None) counted."""
    found: dict[str | None, Counter[SkipReason]] = {}
    for row in in_reading(installation.tracker, skipped_entries, source_id):
        found.setdefault(row.entry, Counter())[row.why] += row.number
    return found


@only_sqlite
def test_each_archive_is_told_once_under_what_is_true_of_it(installation: Installation, folder: Folder) -> None:
    careful = installation.with_settings(quiet_seconds=1.0)
    for key in (TAKEN, CHANGED, REFUSED, HELD):
        folder.put(key)
    folder.put(BROKEN, b"no archive")
    (folder.path / "add" / "notes.txt").write_text("hello")
    installation.run_session()
    note_uploaded(installation.tracker)
    until_the_next_second()
    folder.put(CHANGED, specimens(mice=3), MODIFIED + 60)
    content = submissions.archive(specimens())
    with growing(folder.path / UPLOADING, content), growing(folder.path / BROKEN, content):
        careful.run_session()
    assert told(installation, folder.source_id) == {
        REFUSED: {SkipReason.REFUSED: 1},
        HELD: {SkipReason.HELD: 1},
        CHANGED: {SkipReason.CHANGED: 1},
        UPLOADING: {SkipReason.UPLOADING: 1},
        BROKEN: {SkipReason.UPLOADING: 1},
        None: {SkipReason.KNOWN: 1, SkipReason.IGNORED: 1},
    }
    for key in (UPLOADING, BROKEN):
        folder.put(key, content, int(time.time()) - 60)
    careful.run_session()
    assert told(installation, folder.source_id)[None] == {SkipReason.KNOWN: 3, SkipReason.IGNORED: 1}


def test_archives_on_hold_and_cancelled_ones_are_not_told_as_fetched_or_taken(
    installation: Installation, folder: Folder
) -> None:
    folder.put(TAKEN)
    installation.run_session()
    for key in (CHANGED, UPLOADING, BROKEN):
        folder.put(key)
    installation.crawl()
    ids = {str(one.key): one.id for one in in_reading(installation.tracker, select_submissions, SubmissionFilter())}
    hold = {"by": "wrangler", "reason": "They ask."}
    in_writing(installation.tracker, record_decisions, DecisionKind.HOLD, [ids[TAKEN], ids[CHANGED]], **hold)
    in_writing(installation.tracker, progress.cancel, [ids[UPLOADING]], "wrangler", "Not meant.")
    reasons = (SkipReason.WAITING, SkipReason.ON_HOLD, SkipReason.CANCELLED, SkipReason.KNOWN)
    assert told(installation, folder.source_id)[None] == dict.fromkeys(reasons, 1)
    acts = {row.why: row.acts for row in in_reading(installation.tracker, skipped_entries, folder.source_id)}
    assert (acts[SkipReason.ON_HOLD], acts[SkipReason.WAITING]) == (Actor.DCC, Actor.NOBODY)
    outcomes = {str(line.key): line.outcome for line in in_reading(installation.tracker, submissions_of_centre, "H")}
    assert outcomes == {
        TAKEN: Outcome.ON_HOLD,
        CHANGED: Outcome.ON_HOLD,
        UPLOADING: Outcome.WITHDRAWN,
        BROKEN: Outcome.WAITING,
    }


def test_archives_wait_for_their_source_while_it_is_left_alone(installation: Installation, folder: Folder) -> None:
    folder.put(TAKEN)
    installation.crawl()

    def said(waiting: str) -> bool:
        rows = in_reading(installation.tracker, skipped_entries, folder.source_id)
        return waiting in {str(row.message) for row in rows if row.why is SkipReason.WAITING}.pop()

    assert said("the next session fetches them")
    in_writing(installation.tracker, file_sources.set_source_state, folder.source_id, SourceState.MAINTENANCE)
    installation.run_session()
    assert said("a session fetches them when it may use the source again")
    in_writing(installation.tracker, file_sources.set_source_state, folder.source_id, SourceState.AVAILABLE)
    in_writing(installation.tracker, set_pause, folder.source_id, Pause("They ask.", "wrangler", utc_now()))
    installation.run_session()
    assert said("a session fetches them when it may use the source again")


def test_archives_beyond_the_number_that_is_listed_are_counted(installation: Installation, folder: Folder) -> None:
    for key in (TAKEN, CHANGED, UPLOADING):
        folder.put(key, b"no archive")
    # A crawl notices it before the change, and no entry is listed for it.
    folder.put("add/H.2099-10-31.1.impc.zip")
    installation.run_session()
    rows = in_reading(installation.tracker, skipped_entries, folder.source_id, limit=2)
    assert [(row.entry, row.why, row.number) for row in rows] == [
        (TAKEN, SkipReason.FAILED, 1),
        (CHANGED, SkipReason.FAILED, 1),
        (None, SkipReason.FAILED, 1),
        (None, SkipReason.KNOWN, 1),
    ]
    note_uploaded(installation.tracker)
    until_the_next_second()
    folder.put("add/H.2099-10-31.1.impc.zip", specimens(mice=3), MODIFIED + 60)
    installation.run_session()
    rows = in_reading(installation.tracker, skipped_entries, folder.source_id, limit=1)
    assert ("add/H.2099-10-31.1.impc.zip", SkipReason.CHANGED) in {(row.entry, row.why) for row in rows}


def test_archives_of_other_centres_beyond_the_number_that_is_listed_are_counted(
    installation: Installation, folder: Folder
) -> None:
    for number in (1, 2, 3):
        folder.put(f"add/J.2013-10-31.{number}.impc.zip", b"no archive")
    installation.run_session()
    rows = in_reading(installation.tracker, skipped_entries, folder.source_id, limit=1)
    assert [(row.entry, row.why, row.number, row.acts) for row in rows] == [
        ("add/J.2013-10-31.1.impc.zip", SkipReason.HELD, 1, Actor.CENTRE),
        (None, SkipReason.HELD, 2, Actor.CENTRE),
    ]
