"""The algebra of phase and status, and that nothing writes them but `progress`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import reduce
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, select

from dcc.databases.schema import init_database
from dcc.databases.transactions import writing
from dcc.phases import Phase, State, Status
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker import progress
from dcc.tracker.database import open_tracker
from dcc.tracker.models import DocumentReopening, Reopening, XmlFile, ZipAction, ZipDownload, ZipFile
from dcc.tracker.progress import StateReport, Subject
from dcc.tracker.states import EXTRACTED, NOT_DOWNLOADED, NOT_UPLOADED, REQUESTED, VALID, WAITING, advance, roll_up
from tests.support.asking import execute_in, in_writing, row_in, rows_in
from tests.support.databases import (
    SeededSubmission,
    seed_centre,
    seed_documents,
    seed_download,
    seed_hosting,
    seed_source,
    seed_submission,
)
from tests.support.trials import trials

STATES = [State(phase, status) for phase in Phase for status in Status]
MODELS: dict[Subject, type[ZipAction] | type[ZipDownload] | type[XmlFile]] = {
    Subject.ZIP_ACTION: ZipAction,
    Subject.ZIP_DOWNLOAD: ZipDownload,
    Subject.XML_FILE: XmlFile,
}

INVALID = State(Phase.XSD, Status.FAILED)


@pytest.fixture
def archive(tracker: Engine) -> SeededSubmission:
    return seed_submission(tracker, seed_source(tracker, seed_centre(tracker)))


def report(tracker: Engine, *reports: StateReport) -> dict[tuple[Subject, int], State]:
    return in_writing(tracker, progress.report, reports)


def on_download(number: int, state: State, *, promote: bool = True) -> StateReport:
    return StateReport(Subject.ZIP_DOWNLOAD, number, state, promote)


def on_document(number: int, state: State, *, promote: bool = True) -> StateReport:
    return StateReport(Subject.XML_FILE, number, state, promote)


def states(tracker: Engine, subject: Subject) -> dict[int, State]:
    model = MODELS[subject]
    with tracker.connect() as connection:
        rows = connection.execute(select(model.id, model.phase_id, model.status_id))
        return {number: State(phase, status) for number, phase, status in rows}


def action_state(tracker: Engine, archive: SeededSubmission) -> State:
    return states(tracker, Subject.ZIP_ACTION)[archive.za_id]


# Adding


@pytest.mark.both_databases
def test_a_download_begins_requested_and_leaves_its_zip_action_waiting(
    tracker: Engine, archive: SeededSubmission
) -> None:
    requested = utc_now()
    hosting_ids = [archive.hosting_id, archive.hosting_id]
    ids = in_writing(tracker, progress.add_downloads, hosting_ids, requested)
    rows = rows_in(tracker, select(ZipDownload.request, ZipDownload.received).order_by(ZipDownload.id))
    assert [tuple(row) for row in rows] == [(requested, requested)] * 2
    assert states(tracker, Subject.ZIP_DOWNLOAD) == dict.fromkeys(ids, REQUESTED)
    assert action_state(tracker, archive) == WAITING


# Re-opening and cancelling


@pytest.mark.both_databases
def test_reopening_sets_a_zip_action_back_and_keeps_what_was(tracker: Engine, archive: SeededSubmission) -> None:
    download = seed_download(tracker, archive.hosting_id)
    report(tracker, on_download(download, NOT_DOWNLOADED))
    assert action_state(tracker, archive) == NOT_DOWNLOADED
    before = utc_now()
    in_writing(tracker, progress.reopen, [archive.za_id, archive.za_id], requested_by="w" * 70, reason="r" * 300)
    assert action_state(tracker, archive) == WAITING
    assert states(tracker, Subject.ZIP_DOWNLOAD) == {download: NOT_DOWNLOADED}
    row = row_in(tracker, select(Reopening.__table__))
    assert (row.za_id, row.from_phase_id, row.from_status_id) == (archive.za_id, *NOT_DOWNLOADED)
    assert (row.requested_by, row.reason, row.last_download_id) == ("w" * 64, "r" * 256, download)
    assert before <= row.created <= utc_now()
    report(tracker, on_download(download, NOT_DOWNLOADED))
    assert action_state(tracker, archive) == WAITING, "What a session still reports of earlier attempts does not count."


@pytest.mark.both_databases
def test_reopening_cancels_downloads_under_way_and_no_others(tracker: Engine, archive: SeededSubmission) -> None:
    unzipping = State(Phase.UNZIP, Status.RUNNING)
    processed = State(Phase.QC, Status.PENDING)
    present = (REQUESTED, unzipping, VALID, INVALID, processed, NOT_UPLOADED)
    found = [seed_download(tracker, archive.hosting_id, state) for state in present]
    other = seed_submission(tracker, seed_source(tracker, seed_centre(tracker, "J")), "J.2026-01-31.1.impc.zip")
    untouched = seed_download(tracker, other.hosting_id)
    in_writing(tracker, progress.reopen, [archive.za_id], "me", "Again.")
    assert states(tracker, Subject.ZIP_DOWNLOAD) == {
        found[0]: State(Phase.DOWNLOAD, Status.CANCELLED),
        found[1]: State(Phase.UNZIP, Status.CANCELLED),
        found[2]: VALID,
        found[3]: INVALID,
        found[4]: processed,
        found[5]: NOT_UPLOADED,
        untouched: REQUESTED,
    }


# The database against the algebra


@dataclass
class _Model:
    """What the tracker should hold: three documents in each of two downloads of one submission."""

    action: State
    downloads: dict[int, State]
    documents: dict[int, dict[int, State]]

    def report(self, reports: Sequence[StateReport]) -> None:
        ours = {number: download for download, found in self.documents.items() for number in found}
        for subject, number, new, _ in reports:
            if subject is Subject.ZIP_ACTION:
                self.action = advance(self.action, new)
            elif subject is Subject.ZIP_DOWNLOAD:
                self.downloads[number] = advance(self.downloads[number], new)
            else:
                found = self.documents[ours[number]]
                found[number] = advance(found[number], new)
        last = {(one.subject, one.id): one.promote for one in reports}
        upwards = set()
        for download, found in self.documents.items():
            promoted = [number for number in found if last.get((Subject.XML_FILE, number))]
            if promoted and (state := roll_up(found.values())):
                self.downloads[download] = advance(self.downloads[download], state)
            if last.get((Subject.ZIP_DOWNLOAD, download), bool(promoted)):
                upwards.add(download)
        if (latest := self.latest()) in upwards:
            self.action = advance(self.action, self.downloads[latest])

    def latest(self) -> int:
        """The later download; where that fetched nothing, the earlier one, if that had the bytes."""
        earlier, later = sorted(self.downloads)
        fetched_nothing = self.downloads[later] in {NOT_DOWNLOADED, State(Phase.DOWNLOAD, Status.CANCELLED)}
        phase, status = self.downloads[earlier]
        brought = phase > Phase.DOWNLOAD and not (status is Status.CANCELLED and phase <= Phase.XSD)
        return earlier if fetched_nothing and brought else later


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, list[int]]]:
    """A SQLite tracker with two file sources, used by all examples of the properties."""
    home: Path = tmp_path_factory.mktemp("scratch") / "home"
    engine = open_tracker(Settings(home=home, tracker_url=None))
    init_database(engine)
    centre = seed_centre(engine)
    yield engine, [seed_source(engine, centre) for _ in range(2)]
    engine.dispose()


document_states = st.lists(
    st.sampled_from([state for state in STATES if state.phase > Phase.UNZIP]), min_size=3, max_size=3
)


@given(
    before=document_states,
    set_back=st.dictionaries(st.integers(0, 2), st.sampled_from([s for s in STATES if s.phase > Phase.UNZIP])),
    after=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(STATES)), max_size=3),
    is_latest=st.booleans(),
)
@settings(max_examples=trials(60))
def test_documents_set_back_leave_their_parents_as_if_they_had_never_been_further(
    scratch: tuple[Engine, list[int]],
    before: list[State],
    set_back: dict[int, State],
    after: list[tuple[int, State]],
    is_latest: bool,
) -> None:
    """The algebra holds from where documents were set to, as it does from where they began."""
    tracker, (source, _) = scratch
    execute_in(tracker, delete(ZipFile))
    archive = seed_submission(tracker, source)
    download = seed_download(tracker, archive.hosting_id, EXTRACTED)
    documents = seed_documents(tracker, download, 3)
    report(tracker, *(on_document(number, state) for number, state in zip(documents, before, strict=True)))
    if not is_latest:
        seed_download(tracker, archive.hosting_id)
    started = [advance(State(Phase.XSD, Status.PENDING), state) for state in before]
    action_before = action_state(tracker, archive)

    wanted = {documents[place]: state for place, state in set_back.items()}
    former = in_writing(tracker, progress.reopen_documents, wanted, "me", "To be seen anew.")

    expected = [set_back.get(place, state) for place, state in enumerate(started)]
    moved = {place for place, state in set_back.items() if state != started[place]}
    assert former == {documents[place]: started[place] for place in moved}
    assert states(tracker, Subject.XML_FILE) == dict(zip(documents, expected, strict=True))
    assert states(tracker, Subject.ZIP_DOWNLOAD)[download] == roll_up(expected)
    assert action_state(tracker, archive) == (roll_up(expected) if is_latest else action_before)
    rows = rows_in(
        tracker,
        select(DocumentReopening).where(DocumentReopening.xml_id.in_(documents)).order_by(DocumentReopening.xml_id),
    )
    assert [
        (row.xml_id, row.from_phase_id, row.from_status_id, row.to_phase_id, row.to_status_id, row.reason)
        for row in rows
    ] == [(documents[place], *started[place], *set_back[place], "To be seen anew.") for place in sorted(moved)]

    for place, state in after:
        report(tracker, on_document(documents[place], state))
        expected[place] = advance(expected[place], state)
    assert states(tracker, Subject.XML_FILE) == dict(zip(documents, expected, strict=True))


@pytest.mark.both_databases
def test_reports_at_once_about_documents_of_one_archive_are_all_seen_by_its_submission(
    tracker: Engine, archive: SeededSubmission
) -> None:
    one, other = seed_documents(tracker, seed_download(tracker, archive.hosting_id, EXTRACTED), 2)
    with ThreadPoolExecutor(1) as pool:
        with writing(tracker) as connection:
            progress.report(connection, [on_document(one, VALID)])
            meanwhile = pool.submit(report, tracker, on_document(other, VALID))
            # Unless it waits, it takes the first document for one that is not validated yet.
            wait([meanwhile], timeout=0.5)
        meanwhile.result(30)
    assert action_state(tracker, archive) == VALID


# Rows are named by place: 0 is the submission, 1 and 2 its downloads, 3 to 8 their documents.
reported = st.tuples(st.integers(0, 8), st.sampled_from(STATES), st.booleans())


@given(reports=st.lists(st.lists(reported, min_size=1, max_size=6), min_size=1, max_size=4))
@settings(max_examples=trials(60))
def test_any_sequence_of_reports_ends_where_the_algebra_says(
    scratch: tuple[Engine, list[int]], reports: list[list[tuple[int, State, bool]]]
) -> None:
    tracker, (source, other) = scratch
    execute_in(tracker, delete(ZipFile))
    archive = seed_submission(tracker, source)
    # The latest is that of the later attempt, whichever source it was at.
    hostings = [seed_hosting(tracker, archive.za_id, other), archive.hosting_id]
    downloads = [seed_download(tracker, hosting, EXTRACTED) for hosting in hostings]
    documents = [seed_documents(tracker, download, 3) for download in downloads]
    rows = [(Subject.ZIP_ACTION, archive.za_id), *((Subject.ZIP_DOWNLOAD, download) for download in downloads)]
    rows += [(Subject.XML_FILE, document) for found in documents for document in found]
    pending = State(Phase.XSD, Status.PENDING)
    model = _Model(
        action=pending,
        downloads=dict.fromkeys(downloads, pending),
        documents={
            download: dict.fromkeys(found, pending) for download, found in zip(downloads, documents, strict=True)
        },
    )
    for some in reports:
        batch = [StateReport(*rows[place], state, promote) for place, state, promote in some]
        returned = report(tracker, *batch)
        model.report(batch)
        held = {(subject, n): state for subject in Subject for n, state in states(tracker, subject).items()}
        assert returned == {row: held[row] for row in returned}
        assert held[Subject.ZIP_ACTION, archive.za_id] == model.action
        assert {download: held[Subject.ZIP_DOWNLOAD, download] for download in downloads} == model.downloads
        for found in model.documents.values():
            assert {document: held[Subject.XML_FILE, document] for document in found} == found


any_state = st.sampled_from(STATES)
unfailed = st.sampled_from([state for state in STATES if not state.failed])
failures = st.sampled_from([state for state in STATES if state.failed])
reports = st.lists(any_state, min_size=1, max_size=6)


def after(reported: list[State], start: State = REQUESTED) -> State:
    return reduce(advance, reported, start)


def test_the_higher_of_two_states_counts() -> None:
    """Without failure, progress only moves forward. A failure becomes nothing but an earlier failure."""
    for old, new in product(STATES, repeat=2):
        if old.failed or new.failed:
            is_higher = new.failed and (not old.failed or new.phase < old.phase)
        else:
            is_higher = (new.phase, new.status) > (old.phase, old.status)
        assert advance(old, new) == (new if is_higher else old)


@given(any_state, reports)
def test_the_order_of_reports_and_reporting_twice_do_not_matter(start: State, reported: list[State]) -> None:
    outcomes = {after(list(order), start) for order in permutations(reported[:5])}
    assert outcomes == {after(reported[:5] * 2, start)}


@given(st.lists(any_state, min_size=1), st.lists(failures, min_size=1))
def test_a_parent_shows_the_earliest_failing_phase_of_its_children(others: list[State], failed: list[State]) -> None:
    earliest = min(state.phase for state in [*others, *failed] if state.failed)
    assert roll_up([*others, *failed]) == State(earliest, Status.FAILED)


@given(st.lists(unfailed, min_size=1))
def test_a_parent_without_failure_is_as_far_as_its_slowest_child(children: list[State]) -> None:
    slowest = min(children, key=lambda state: (state.phase, state.status))
    assert roll_up(children) == slowest


def test_a_download_does_not_show_on_the_zip_action_until_its_archive_is_checked_or_it_fails() -> None:
    """Names are checked before the download, though its phase has the lower id."""
    for status in (Status.PENDING, Status.RUNNING, Status.DONE, Status.CANCELLED):
        assert advance(WAITING, State(Phase.DOWNLOAD, status)) == WAITING
    assert advance(WAITING, State(Phase.ZIP_MD5, Status.RUNNING)) == State(Phase.ZIP_MD5, Status.RUNNING)
    assert advance(WAITING, State(Phase.DOWNLOAD, Status.FAILED)) == State(Phase.DOWNLOAD, Status.FAILED)


# The only writer

ROOT = Path(__file__).parents[2]
WRITES = re.compile(r"\b(?:phase_id|status_id)\b[\"']?\s*(?:=(?!=)|:(?! Mapped))|\b(?:update|insert)\b.*\bphase_id\b")
"""What would write a phase or status: an argument, key, attribute or SQL that sets the column."""


def test_no_other_module_writes_phase_or_status() -> None:
    found = {}
    for package in ("dcc", "dcc_resources", "dcc_assets", "dcc_dagster", "dcc_sensors"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if writes := WRITES.findall(path.read_text("utf-8")):
                found[str(path.relative_to(ROOT))] = writes
    assert len(found.pop("dcc/tracker/progress.py")) >= 2
    # The phase of a session's task, which is a fact and no progress.
    assert len(found.pop("dcc/session/sessions.py")) == 1
    assert found == {}
