"""Archives at several file sources, and retries: which source is asked, when again, and with which bytes."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Engine, select, update

from dcc.cli.demo import submissions
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, Status
from dcc.reports.causes.collecting import find_causes
from dcc.reports.languages import load_catalogue
from dcc.runtime.clock import utc_now
from dcc.session.archives import archive_phases, waiting_attempts
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.archives.waiting_attempts import SourceQueue
from dcc.session.fetching.archive_transfer import Transfer
from dcc.session.fetching.downloads import SourceDownloads
from dcc.session.session_request import SessionRequest
from dcc.session.sessions import Session
from dcc.session.source_crawls import crawl_file_sources, relist
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.hostings.urgent_requests import request_urgently, urgent_keys
from dcc.tracker.models import FileSourceHasZip, Reopening, XmlFile, XmlLog, ZipAction, ZipDownload, ZipFile, ZipLog
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.register.file_sources import set_source_state
from dcc.vocabulary import SourceState
from dcc_assets.sync.archives import recorded_submissions
from dcc_assets.sync.document_records import submission_ids
from tests.support import dying_session
from tests.support.asking import column_in, execute_in, in_reading, in_writing, rows_in, value_in
from tests.support.installations import (
    MODIFIED,
    Fetches,
    Folder,
    Installation,
    experiments,
    md5,
    note_uploaded,
    note_withdrawn,
    specimens,
)
from tests.support.prepared_processes import run_dying
from tests.support.trials import usually

NAME = "H.2013-10-31.1.impc.zip"
KEY = f"add/{NAME}"
SPECIMENS = "H.2013-10-31.1.specimen.impc.xml"


def test_sources_are_tried_in_order_and_in_rounds(installation: Installation, fetches: Fetches) -> None:
    """All tried, the producer's own first, ties to the older source."""
    foreign = installation.add_folder("J", "foreign")
    own, other = installation.add_folder("H", "own"), installation.add_folder("H", "other")
    for place in (foreign, own, other):
        place.put(KEY)
        fetches.break_off[place.path.name] = 9
    outcome = installation.with_settings(max_retries=1).run_session().zips[KEY]
    ids = [own.source_id, other.source_id, foreign.source_id]
    assert installation.attempts(KEY) == [(number, "download failed") for number in ids * 2]
    assert outcome.failed
    assert outcome.attempts == 6
    assert column_in(installation.tracker, select(FileSourceHasZip.num_retries)) == [1, 1, 1]
    assert installation.states() == {KEY: "download failed"}


def test_a_failure_stands_where_the_next_source_is_given_up_before_the_attempt_begins(
    installation: Installation, fetches: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = installation.add_folder("H", "own"), installation.add_folder("H", "other")
    for place in (own, other):
        place.put(KEY)
    fetches.break_off["own"] = 9
    put = SourceDownloads.put

    def put_and_give_up(downloads: SourceDownloads, transfer: Transfer) -> None:
        downloads.given_up = downloads.address.id == other.source_id
        put(downloads, transfer)

    monkeypatch.setattr(SourceDownloads, "put", put_and_give_up)
    session = installation.with_settings(max_retries=0).run_session()
    assert session.zips[KEY].failed
    attempts = [(own.source_id, "download failed"), (other.source_id, "download cancelled")]
    assert installation.attempts(KEY) == attempts
    assert installation.states() == {KEY: "download failed"}


@pytest.mark.both_databases
def test_retries_are_counted_across_sessions(installation: Installation, folder: Folder, fetches: Fetches) -> None:
    """A later session tries again by itself; `num_retries` counts it."""
    folder.put(KEY)
    fetches.break_off["centre"] = 3
    once = installation.with_settings(max_retries=0)
    for _ in range(3):
        assert once.run_session().zips[KEY].failed
    assert once.run_session().zips[KEY].succeeded
    assert value_in(installation.tracker, select(FileSourceHasZip.num_retries)) == 3
    assert [state for _, state in installation.attempts(KEY)] == ["download failed"] * 3 + ["xsd done"]


def test_an_archive_put_together_from_two_attempts_is_fetched_whole_before_the_centre_is_blamed(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    archive = folder.put(KEY)
    fetches.break_off["centre"] = 1
    once = installation.with_settings(max_retries=0)
    once.run_session()
    part = installation.settings.staging_directory / f"{KEY}.part"
    part.write_bytes(b"#" * part.stat().st_size)
    outcome = once.run_session().zips[KEY]
    assert outcome.succeeded
    assert [reason.kind for reason in outcome.reasons] == ["CorruptArchiveError"]
    assert [state for _, state in installation.attempts(KEY)] == ["download failed", "unzip cancelled", "xsd done"]
    assert installation.staged()[KEY] == archive


def test_documents_left_beside_a_failed_one_are_validated_by_the_next_session(
    installation: Installation, folder: Folder
) -> None:
    """A submission that has failed already may have documents to be validated yet."""
    wrong = experiments()
    (name,) = wrong
    wrong[name] = submissions.damaged(wrong[name], 'centreID="', 'centerID="')
    folder.put(KEY, specimens() | wrong | {"results.xml": b"<a/>", "readme.txt": b"hello"})
    installation.run_session()
    of_archive = column_in(installation.tracker, select(ZipLog.message))
    # As a session of a former version left it that was killed when one document was validated and the other was not.
    pending = {"phase_id": Phase.XSD, "status_id": Status.PENDING}
    execute_in(installation.tracker, update(XmlFile).where(XmlFile.fname == SPECIMENS).values(**pending))
    assert installation.states() == {KEY: "xml_name failed"}
    states = {SPECIMENS: "xsd pending", name: "xsd failed", "results.xml": "xml_name failed"}
    assert dict(installation.documents()) == states
    outcome = installation.run_session().zips[KEY]
    assert dict(installation.documents()) == states | {SPECIMENS: "xsd done"}
    assert column_in(installation.tracker, select(ZipLog.message)) == of_archive != []
    errors = {document.file_name: document.errors for document in outcome.documents}
    assert (errors[SPECIMENS], len(errors["results.xml"])) == ((), 1)
    with installation.tracker.connect() as connection:
        query = select(XmlLog.message).join(XmlFile, XmlFile.id == XmlLog.xml_id).order_by(XmlLog.id)
        assert [error.message for error in errors[name]] == list(connection.scalars(query.where(XmlFile.fname == name)))
        assert errors[name]
        assert len(list(connection.scalars(query.where(XmlFile.fname == "results.xml")))) == 1
    assert installation.run_session().zips == {}


@pytest.mark.both_databases
def test_a_retry_fetches_the_changed_file_once_its_data_are_withdrawn_and_says_who_asked(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    note_uploaded(installation.tracker)
    changed = folder.put(KEY, specimens(mice=3))
    result = installation.run_session()
    assert (result.crawls[folder.source_id].changed, result.zips) == (1, {})
    (finding,) = result.crawls[folder.source_id].findings
    assert finding.endswith(f"withdraw these with `dcc data undo`, then take it with: dcc retry {KEY}")
    assert installation.states() == {KEY: "xsd done"}
    assert installation.staged()[KEY] != changed
    with pytest.raises(ConfigurationError, match=f"dcc data undo {KEY}"):
        installation.process_again(KEY)
    assert installation.states() == {KEY: "xsd done"}
    note_withdrawn(installation.tracker)
    assert installation.process_again(KEY).zips[KEY].succeeded
    assert installation.staged()[KEY] == changed
    assert value_in(installation.tracker, select(Reopening.requested_by)) == "tester"


def test_a_retry_of_what_no_source_hosts_says_so_and_changes_nothing(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY)
    installation.run_session()
    (folder.path / KEY).unlink()
    for why in ("did not list it the last time", "does not list it any more"):
        installation.run_session()
        with pytest.raises(NotFoundError, match=f"No available file source hosts add/H.*{why}"):
            installation.process_again(KEY)
    assert installation.states() == {KEY: "xsd done"}
    with pytest.raises(NotFoundError, match="dcc zips"):
        installation.process_again("add/J.2013-10-31.1.impc.zip")


def wrong() -> bytes:
    documents = specimens()
    return submissions.archive(
        {name: submissions.damaged(document, 'centreID="', 'centerID="') for name, document in documents.items()}
    )


def told(installation: Installation) -> dict[str, Any]:
    """What the tracker tells of the archive: its state, documents with their errors, reasons and causes."""
    key = SubmissionKey(Action.ADD, NAME)
    story = in_reading(installation.tracker, submission_story, key)
    causes = in_reading(installation.tracker, find_causes, None, key, installation.settings).causes
    (shown,) = in_reading(
        installation.tracker, recorded_submissions, in_reading(installation.tracker, submission_ids, [key])
    )
    english = load_catalogue("en", installation.settings)
    return {
        "shown in Dagster": (shown.phase, shown.status, shown.documents, shown.reasons, shown.downloaded),
        "causes": [(cause.kind, cause.statement(english), cause.acts) for cause in causes],
        "states": installation.states(),
        "documents": [(one.file_name, one.phase, one.status, one.errors) for one in story.documents],
        "reasons": [(reason.kind, reason.message) for reason in story.reasons],
    }


@pytest.fixture
def failed(installation: Installation, folder: Folder) -> Folder:
    """A folder whose archive failed validation, and lies in staging no more."""
    folder.put(KEY, wrong())
    installation.run_session()
    assert installation.states() == {KEY: "xsd failed"}
    (installation.settings.staging_directory / KEY).unlink()
    return folder


@pytest.mark.parametrize("how", ["breaks off", "is not there", "is away", "has no room"])
def test_a_retry_that_fetches_nothing_keeps_what_the_last_attempt_came_to(
    installation: Installation, failed: Folder, fetches: Fetches, how: str
) -> None:
    before, room = told(installation), 0
    if how == "has no room":
        room = 1 << 60
    elif how == "breaks off":
        fetches.away.add("centre")
    elif how == "is not there":
        (failed.path / KEY).unlink()
    else:
        failed.path.rename(failed.path.with_name("elsewhere"))

    outcome = installation.with_settings(max_retries=0, min_free_bytes=room).process_again(KEY).zips[KEY]

    assert (outcome.kept, outcome.failed, len(outcome.reasons)) == (True, True, 1)
    assert (outcome.reasons[-1].kind == "DiskFullError") == (how == "has no room")
    assert told(installation) == before
    assert [state for _, state in installation.attempts(KEY)] == ["xsd failed", "download failed"]
    assert value_in(installation.tracker, select(Reopening.fell_back)) is not None
    if room:
        assert installation.process_again(KEY).zips[KEY].documents[0].errors


def test_a_changed_archive_that_the_disk_has_no_room_for_waits(installation: Installation, failed: Folder) -> None:
    failed.put(KEY, modified=MODIFIED + 60)
    installation.with_settings(min_free_bytes=1 << 60).run_session()
    assert installation.states() == {KEY: "zip_name done"}
    assert installation.run_session().zips[KEY].succeeded


def test_what_was_being_uploaded_to_a_source_that_was_removed_keeps_no_retry_waiting(
    installation: Installation, failed: Folder, fetches: Fetches
) -> None:
    other = installation.add_folder("H", "other")
    other.put(KEY, (failed.path / KEY).read_bytes())
    installation.crawl()
    hosted = update(FileSourceHasZip).where(FileSourceHasZip.file_source_id == other.source_id)
    execute_in(installation.tracker, hosted.values(uploading_since=utc_now()))
    in_writing(installation.tracker, set_source_state, other.source_id, SourceState.REMOVED)
    before = told(installation)
    fetches.away.add("centre")
    assert installation.with_settings(max_retries=0).process_again(KEY).zips[KEY].kept
    assert told(installation) == before


def test_what_was_asked_for_again_is_tried_by_the_next_session(
    installation: Installation, failed: Folder, fetches: Fetches
) -> None:
    fetches.away.add("centre")
    once = installation.with_settings(max_retries=0)
    once.process_again(KEY)
    assert once.run_session().zips[KEY].kept
    fetches.away.clear()
    failed.put(KEY)
    assert once.run_session().zips[KEY].succeeded
    assert installation.states() == {KEY: "xsd done"}
    assert once.run_session().zips == {}


@pytest.mark.both_databases
def test_what_was_asked_for_again_in_vain_and_changed_after_its_data_were_uploaded_is_not_tried_again(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    folder.put(KEY)
    installation.run_session()
    note_uploaded(installation.tracker)
    (installation.settings.staging_directory / KEY).unlink()
    fetches.away.add("centre")
    assert installation.with_settings(max_retries=0).process_again(KEY).zips[KEY].kept
    fetches.away.clear()
    folder.put(KEY, specimens(mice=3), modified=MODIFIED + 60)
    result = installation.run_session()
    assert result.zips == {}
    (said,) = result.crawls[folder.source_id].findings
    assert "dcc data undo" in said


def test_the_copy_in_staging_serves_where_the_source_lists_the_same(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    folder.put(KEY, wrong())
    installation.run_session()
    before = told(installation)
    fetches.away.add("centre")
    outcome = installation.process_again(KEY).zips[KEY]
    assert (outcome.kept, outcome.downloaded, outcome.attempts) == (False, True, 0)
    assert told(installation) == before
    assert installation.attempts(KEY) == [(folder.source_id, "xsd failed")] * 2


@pytest.mark.parametrize("is_bad", [False, True])
def test_the_copy_in_staging_serves_where_the_source_s_is_replaced_right_before_it_is_fetched_and_not_if_that_is_bad(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch, is_bad: bool
) -> None:
    published = folder.path / f"{KEY}.md5"
    content = folder.put(KEY, wrong())
    installation.run_session()

    def replaced(session: Session, keys: Sequence[SubmissionKey]) -> None:
        # A copy of which a checksum is published since is fetched again.
        published.write_text(md5(content))
        relist(session, keys)
        if is_bad:
            folder.put(KEY, bytes(reversed(content)))
        else:
            folder.put(KEY, specimens(mice=3), modified=MODIFIED + 60)

    monkeypatch.setattr(archive_phases, "relist", replaced)
    outcome = installation.with_settings(max_retries=0).process_again(KEY).zips[KEY]
    assert (outcome.failed, outcome.attempts, outcome.downloaded) == (True, 1, not is_bad)
    ends = ["zip_md5 failed"] if is_bad else ["download failed", "xsd failed"]
    assert installation.attempts(KEY)[1:] == [(folder.source_id, end) for end in ends]


def test_what_is_bad_at_one_source_and_replaced_at_the_other_failed(installation: Installation, folder: Folder) -> None:
    good = folder.put(KEY)
    mirror = installation.add_folder("J", "mirror")
    mirror.put(KEY, good)
    folder.put(KEY, good[:40] + bytes(byte ^ 0xFF for byte in good[40:60]) + good[60:])
    installation.crawl()
    mirror.put(KEY, specimens(mice=3), modified=MODIFIED + 60)
    assert installation.with_settings(max_retries=0).run_session(crawl=False).zips[KEY].failed
    assert installation.states() == {KEY: "unzip failed"}
    assert installation.run_session().zips[KEY].succeeded


def test_the_copy_in_staging_is_not_opened_on_a_disk_without_room(
    installation: Installation, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor that of another archive as large, which waits to be fetched."""
    keys = {KEY, KEY.replace(".1.impc", ".2.impc")}
    contents = {key: folder.put(key, wrong()) for key in keys}
    installation.run_session()
    for key, content in contents.items():
        (folder.path / f"{key}.md5").write_text(md5(content))
    monkeypatch.setattr(waiting_attempts, "MAX_QUEUED", 1)
    ((tried, outcome),) = installation.with_settings(min_free_bytes=1 << 60).process_again(*keys).zips.items()
    assert outcome.kept
    assert installation.attempts(tried) == [(folder.source_id, "xsd failed"), (folder.source_id, "download failed")]
    (other,) = keys - {tried}
    assert installation.attempts(other) == [(folder.source_id, "xsd failed")]


def test_the_copy_in_staging_of_a_source_that_was_removed_turns_out_damaged(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    """It had not been opened before, because it held too much."""
    good = folder.put(KEY, specimens() | experiments())
    bad = folder.put(KEY, good[:40] + bytes(byte ^ 0xFF for byte in good[40:60]) + good[60:])
    installation.with_settings(max_archive_entries=1).run_session()
    other = installation.add_folder("H", "other")
    other.put(KEY, bad)
    (folder.path / f"{KEY}.md5").write_text(md5(bad))
    installation.crawl()
    in_writing(installation.tracker, set_source_state, folder.source_id, SourceState.REMOVED)
    fetches.away.add("other")
    outcome = installation.with_settings(max_retries=0).process_again(KEY).zips[KEY]
    assert [reason.kind for reason in outcome.reasons] == ["TransferFailedError", "CorruptArchiveError"]
    assert installation.states() == {KEY: "unzip failed"}


def test_a_changed_archive_is_fetched_and_not_taken_from_staging(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    folder.put(KEY)
    installation.run_session()
    note_uploaded(installation.tracker)
    changed = folder.put(KEY, specimens(mice=3), modified=MODIFIED + 60)
    installation.run_session()
    note_withdrawn(installation.tracker)
    fetches.away.add("centre")
    assert installation.with_settings(max_retries=0).process_again(KEY).zips[KEY].kept
    assert installation.states() == {KEY: "xsd done"}
    fetches.away.clear()
    assert installation.run_session().zips[KEY].succeeded
    assert installation.staged()[KEY] == changed


def test_an_archive_that_was_replaced_since_the_last_crawl_is_fetched_by_a_retry(
    installation: Installation, folder: Folder
) -> None:
    """Its sources are listed anew first, and staging's copy serves where that cannot be."""
    folder.put(KEY)
    installation.run_session()
    note_withdrawn(installation.tracker)
    replaced = folder.put(KEY, specimens(mice=3), modified=MODIFIED + 60)
    outcome = installation.process_again(KEY).zips[KEY]
    assert (outcome.succeeded, outcome.attempts) == (True, 1)
    assert installation.staged()[KEY] == replaced

    folder.path.rename(folder.path.with_name("elsewhere"))
    outcome = installation.with_settings(max_retries=0).process_again(KEY).zips[KEY]
    assert (outcome.succeeded, outcome.kept, outcome.attempts) == (True, False, 0)
    assert installation.staged()[KEY] == replaced
    assert installation.attempts(KEY) == [(folder.source_id, "xsd done")] * 3


POINTS = ("when the downloads are planned", "when the downloads are requested", "in mid-transfer")
KILLS = [*product(POINTS, (True, False), ("tester",)), ("in mid-transfer", False, "crawl")]
"""Where a retry is killed, whether its source is back afterwards, and who asked for it: perhaps a user named crawl."""


@pytest.mark.parametrize(
    ("point", "is_back", "person"),
    usually([KILLS[1], KILLS[4], KILLS[-1]], KILLS),
)
def test_a_retry_that_is_killed_ends_like_one_that_is_not(
    installation: Installation, failed: Folder, point: str, is_back: bool, person: str
) -> None:
    before = told(installation)
    run_dying(dying_session.retry, f"{point}|{KEY}|{person}", installation.settings)
    # Nobody is taken for a crawl that opened the archive again.
    asked_by = "user crawl" if person == "crawl" else person
    assert value_in(installation.tracker, select(Reopening.requested_by)) == asked_by
    if is_back:
        installation.run_session()
        after = told(installation)
        assert {name: after[name] for name in ("states", "documents", "causes")} == {
            name: before[name] for name in ("states", "documents", "causes")
        }
        return
    failed.path.rename(failed.path.with_name("elsewhere"))
    installation.with_settings(max_retries=0).run_session()
    assert told(installation) == before


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize(("group", "is_kept"), [("europe", True), (None, False)])
def test_a_centre_registered_later_makes_its_documents_acceptable(
    installation: Installation, folder: Folder, fetches: Fetches, group: str | None, is_kept: bool
) -> None:
    """From staging, or fetched again; once, and only by sessions that have the archive's centre."""
    installation = installation.with_settings(groups="europe=H;asia=J")
    folder.put(KEY, specimens() | specimens("Ph") | specimens("Biat"))
    assert installation.run_session(group=group).zips[KEY].failed
    assert installation.run_session(group=group).zips == {}
    if not is_kept:
        shutil.rmtree(installation.settings.staging_directory)
    installation.add_centre("Ph")
    assert installation.run_session(group="asia").zips == {}
    assert installation.run_session(group=group).zips[KEY].failed
    assert len(fetches.folders) == (1 if is_kept else 2)
    assert Counter(state for _, state in installation.documents()) == {"xsd done": 3, "xml_name failed": 3}
    assert installation.run_session(group=group).zips == {}
    installation.add_centre("Biat")
    assert installation.run_session(group=group).zips[KEY].succeeded
    assert installation.states() == {KEY: "xsd done"}
    assert installation.run_session(group=group).zips == {}
    for reopening in rows_in(installation.tracker, select(Reopening)):
        assert (reopening.requested_by, reopening.from_phase_id) == ("crawl", Phase.XML_NAME)


def withdraw(tracker: Engine) -> None:
    withdrawn = {"phase_id": Phase.UPLOAD, "status_id": Status.CANCELLED}
    execute_in(tracker, update(XmlFile).where(XmlFile.fname == SPECIMENS).values(withdrawn))


def acknowledge(tracker: Engine) -> None:
    waiting = [value_in(tracker, select(ZipAction.id))]
    in_writing(tracker, record_decisions, DecisionKind.ACKNOWLEDGE, waiting, by="me", reason="It is old.")


@pytest.mark.parametrize("decide", [withdraw, acknowledge])
def test_what_a_person_decided_stays_so_when_the_centre_of_a_document_is_registered(
    installation: Installation, folder: Folder, decide: Callable[[Engine], None]
) -> None:
    folder.put(KEY, specimens() | specimens("Ph"))
    installation.run_session()
    decide(installation.tracker)
    installation.add_centre("Ph")
    assert installation.run_session().zips == {}


def test_what_a_dead_session_left_is_finished_before_the_name_of_its_other_document_is_accepted(
    installation: Installation, folder: Folder
) -> None:
    folder.put(KEY, specimens() | specimens("Ph"))
    installation.run_session()
    # As a session of a former version left it.
    pending = {"phase_id": Phase.XSD, "status_id": Status.PENDING}
    execute_in(installation.tracker, update(XmlFile).where(XmlFile.fname == SPECIMENS).values(**pending))
    installation.add_centre("Ph")
    assert installation.run_session().zips[KEY].failed
    assert installation.run_session().zips[KEY].succeeded
    assert installation.run_session().zips == {}


def test_names_that_a_registration_made_right_wait_for_a_session_that_has_no_urgent_archives_and_for_their_source(
    installation: Installation, folder: Folder, fetches: Fetches
) -> None:
    folder.put(KEY, specimens() | specimens("Ph"))
    installation.run_session()
    installation.add_centre("Ph")
    away = folder.path.rename(folder.path.with_name("elsewhere"))
    assert installation.run_session().zips == {}
    away.rename(folder.path)
    urgent = SessionRequest(urgent=frozenset({SubmissionKey(Action.ADD, "H.2013-10-30.1.impc.zip")}))
    with open_session(installation.tracker, installation.settings, urgent) as session:
        list(crawl_file_sources(session))
        assert list(process_zip_actions(session)) == []
    assert installation.states() == {KEY: "xml_name failed"}
    assert installation.run_session().zips[KEY].succeeded
    assert len(fetches.folders) == 1


NAMES = [f"H.2013-10-{day}.1.impc.zip" for day in range(10, 15)]
OLDEST, FAILED_ONCE, FAILING = NAMES[0], NAMES[-2], NAMES[-1]


def fetched(installation: Installation) -> list[str]:
    """The archives in the order in which a session asks for them."""
    session = installation.with_settings(downloads_per_source=1).run_session().id
    query = (
        select(ZipFile.file_name)
        .join(ZipAction, ZipAction.zip_id == ZipFile.id)
        .join(FileSourceHasZip, FileSourceHasZip.za_id == ZipAction.id)
        .join(ZipDownload, ZipDownload.zf_id == FileSourceHasZip.id)
        .where(ZipDownload.session_id == session)
        .order_by(ZipDownload.id)
    )
    return column_in(installation.tracker, query)


def test_urgent_archives_go_first_then_those_with_fewest_failures_and_of_these_the_newest(
    installation: Installation, folder: Folder
) -> None:
    """The newest failed three times, the second newest once, and the rest not at all."""
    for absent in ([FAILING], [FAILING], [FAILING, FAILED_ONCE]):
        for name in absent:
            folder.put(f"add/{name}")
        installation.crawl()
        for name in absent:
            (folder.path / "add" / name).unlink()
        installation.run_session(crawl=False)
    assert [len(installation.attempts(f"add/{name}")) for name in (FAILING, FAILED_ONCE)] == [3, 1]
    for name in NAMES:
        folder.put(f"add/{name}")
    urgent, unknown = (SubmissionKey(action, OLDEST) for action in (Action.ADD, Action.EDIT))
    in_writing(installation.tracker, request_urgently, [urgent, unknown], "ann")
    in_writing(installation.tracker, request_urgently, [urgent], "bob")
    assert in_reading(installation.tracker, urgent_keys) == [urgent, unknown]
    assert fetched(installation) == [OLDEST, *reversed(NAMES[1:-2]), FAILED_ONCE, FAILING]
    assert fetched(installation) == []
    assert in_reading(installation.tracker, urgent_keys) == [unknown]


def test_a_session_that_runs_lets_urgent_archives_go_first() -> None:
    """Those whose attempts have not been requested yet."""
    downloads: Any = SimpleNamespace(put_first=lambda _: None)
    waiting = SourceQueue(downloads)
    submissions: list[Any] = [SimpleNamespace(key=SubmissionKey(Action.ADD, name)) for name in NAMES]
    hosting: Any = None
    for submission in submissions:
        waiting.add(submission, hosting)
    waiting.put_first({submissions[3].key, SubmissionKey(Action.ADD, "another")})
    taken = [submission for submission, _ in waiting.take(lambda: True)]
    assert taken == [submissions[3], *submissions[:3], submissions[4]]
