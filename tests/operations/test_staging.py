"""What goes from staging: by age and phase, never what a session may want, never anything outside or unrecorded."""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from dcc.errors import CleaningError, ConfigurationError, SessionActiveError
from dcc.naming import Action
from dcc.operations.session_work import open_session
from dcc.operations.staging import cleanup
from dcc.operations.staging.cleanup import (
    CleaningResult,
    KnownArchive,
    RetentionDecision,
    RetentionVerdict,
    clean,
    retention_decisions,
    review_staging,
)
from dcc.operations.staging.contents import RemovalDirectories, StagedArchive, StagedEntry, StagedKind, read_staging
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.session.data.rechecks import recheck
from dcc.settings import Settings
from dcc.store.staging import PartOrigin, Staging, remove_leftovers
from dcc.tracker.models import XmlFile
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.register.file_sources import set_source_state
from dcc.vocabulary import SourceState
from tests.support.asking import execute_in, in_reading, in_writing
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.prepared_installations import PreparedInstallations
from tests.support.raising import contention, raising

ZIP = "add/H.2013-10-31.1.impc.zip"
KEY = key_of(ZIP)
NOW = datetime(2026, 11, 21, 12)
USUAL = Settings()
WHOLE = {ZIP: b"no zip", f"{ZIP}.contents/a.xml": b"<a/>"}
ARCHIVE, CONTENTS, PART, ORIGIN = "x.zip", "x.zip.contents", "x.zip.part", "x.zip.part.json"
KINDS = {ARCHIVE: StagedKind.ARCHIVE, CONTENTS: StagedKind.CONTENTS, PART: StagedKind.PART, ORIGIN: StagedKind.ORIGIN}


def _staged(*names: str, days: float) -> StagedArchive:
    """The first of these files is so old, and each further one older by a day."""
    modified = (NOW - timedelta(days=days) - datetime(1970, 1, 1)).total_seconds()
    entries = tuple(
        StagedEntry("add", name, KINDS[name], 10, modified - 86_400 * number, (1, 1))
        for number, name in enumerate(names)
    )
    return StagedArchive(SubmissionKey(Action.ADD, "x.zip"), entries)


def _known(phase: Phase, status: Status, days: float, **facts: bool) -> KnownArchive:
    return KnownArchive(1, "H", State(phase, status), NOW - timedelta(days=days), **({"hosted": True} | facts))


@pytest.mark.parametrize(
    ("phase", "status", "facts", "days"),
    [
        (Phase.QC, Status.DONE, {}, 90),
        (Phase.XSD, Status.FAILED, {}, 365),
        (Phase.UNZIP, Status.FAILED, {}, 365),
        (Phase.UPLOAD, Status.CANCELLED, {}, 365),
        (Phase.ZIP_NAME, Status.DONE, {}, 365),
        (Phase.ZIP_NAME, Status.CANCELLED, {"held": True}, 365),
        # A session may want these.
        (Phase.QC, Status.PENDING, {}, None),
        (Phase.DATA, Status.DONE, {}, None),
        (Phase.XSD, Status.FAILED, {"to_upload": True}, None),
        (Phase.XSD, Status.FAILED, {"validated": False}, None),
        (Phase.DATA, Status.FAILED, {"held": True}, None),
        (Phase.UPLOAD, Status.PENDING, {"held": True}, None),
        (Phase.XSD, Status.DONE, {"to_upload": True}, None),
        (Phase.ZIP_MD5, Status.DONE, {}, None),
        (Phase.UNZIP, Status.PENDING, {}, None),
        (Phase.XSD, Status.RUNNING, {"validated": False}, None),
    ],
)
def test_an_archive_goes_when_it_is_old_enough_for_its_state(
    phase: Phase, status: Status, facts: dict[str, bool], days: int | None
) -> None:
    for age in (9_999.5,) if days is None else (days - 0.5, days + 0.5):
        verdict = RetentionVerdict.KEEP if days is None or age < days else RetentionVerdict.REMOVE
        # The later counts: when it came, or when its state changed.
        for came, changed in ((age, 9_999.5), (9_999.5, age)):
            staged, known = _staged(ARCHIVE, CONTENTS, days=came), _known(phase, status, changed, **facts)
            (decision,) = retention_decisions(staged, known, USUAL, NOW)
            assert (decision.verdict, decision.age_days) == (verdict, int(age))


def test_a_part_stays_while_a_download_can_go_on_with_it_and_what_the_tracker_does_not_know_is_unknown() -> None:
    for phase, status, hosted, days, verdict in (
        (Phase.ZIP_NAME, Status.DONE, True, 9_999, RetentionVerdict.KEEP),
        (Phase.DOWNLOAD, Status.FAILED, True, 9_999, RetentionVerdict.KEEP),
        (Phase.ZIP_NAME, Status.DONE, False, 6, RetentionVerdict.KEEP),
        (Phase.ZIP_NAME, Status.DONE, False, 7, RetentionVerdict.REMOVE),
        (Phase.XSD, Status.DONE, True, 0, RetentionVerdict.REMOVE),
    ):
        (decision,) = retention_decisions(
            _staged(PART, ORIGIN, days=days), _known(phase, status, days, hosted=hosted), USUAL, NOW
        )
        assert decision.verdict is verdict, (phase, status, hosted, days)
    # Documents whose archive went before nothing brings into the archive store.
    lost = _known(Phase.QC, Status.DONE, 9_999, stored=False)
    (decision,) = retention_decisions(_staged(CONTENTS, days=9_999), lost, USUAL, NOW)
    assert decision.verdict is RetentionVerdict.REMOVE
    (decision,) = retention_decisions(_staged(ARCHIVE, days=9_999), None, USUAL, NOW)
    assert (decision.verdict, decision.reason) == (RetentionVerdict.UNKNOWN, "not known to the tracker")


def test_staging_is_looked_at_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "x.zip.contents").mkdir(parents=True)
    (outside / "x.zip.contents" / "secret").write_bytes(b"12345")
    root = tmp_path / "staging"
    (root / "add" / "y.zip.contents").mkdir(parents=True)
    (root / "add" / "y.zip").write_bytes(b"123")
    (root / "add" / "y.zip.manifest.csv").write_bytes(b"1")
    (root / "add" / "y.zip.contents" / "a.xml").write_bytes(b"12")
    (root / "add" / "y.zip.contents" / "link").symlink_to(outside)
    (root / "add" / "z.zip").symlink_to(outside / "x.zip.contents" / "secret")
    (root / "add" / "w.zip.contents").symlink_to(outside / "x.zip.contents")
    (root / "add" / "v.zip").mkdir()
    (root / "edit").symlink_to(outside)
    (root / "notes.txt").write_bytes(b"1")
    (root / "lost+found").mkdir()
    left_over = "add/.y.zip.contents.unpacking-1"
    (root / left_over).mkdir()
    found = {one.place: one for one in read_staging(root)}
    others = ["add/v.zip", "add/w.zip.contents", "add/z.zip", "edit", "notes.txt"]
    assert list(found) == ["add/y.zip", left_over, *others]
    assert (found["add/y.zip"].bytes, read_staging(root, within=False)[0].bytes) == (6, 4)
    assert {entry.kind for place in others for entry in found[place].entries} == {StagedKind.UNKNOWN}
    for place, verdict, reason in (
        ("edit", RetentionVerdict.KEEP, "a link, which is not followed"),
        (left_over, RetentionVerdict.REMOVE, "a left-over of a process that was killed"),
        ("notes.txt", RetentionVerdict.UNKNOWN, "nothing that the platform puts there"),
    ):
        (decision,) = retention_decisions(found[place], None, USUAL, NOW)
        assert (decision.verdict, decision.reason) == (verdict, reason)


def test_no_staging_holds_nothing_and_one_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert read_staging(tmp_path / "none") == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot be looked at: Not a directory. Correct DCC_STAGING"):
        read_staging(tmp_path / "file")


class TestAside:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "staging"
        (tmp_path / "other disk").mkdir()
        root.symlink_to(tmp_path / "other disk")
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").touch()
        (root / "add" / "x.zip.contents").mkdir(parents=True)
        (root / "add" / "x.zip").write_bytes(b"123")
        (root / "add" / "x.zip.contents" / "a.xml").write_bytes(b"12")
        (root / "add" / "x.zip.contents" / "link").symlink_to(tmp_path / "precious")
        return root

    def test_what_was_taken_is_gone_at_the_end_but_not_what_links_lead_to_and_taking_it_again_changes_nothing(
        self, root: Path
    ) -> None:
        (staged,) = read_staging(root)
        with RemovalDirectories(root) as aside:
            assert aside.take(staged.entries) == list(staged.entries)
            assert not (root / "add" / "x.zip").exists()
            assert aside.take(staged.entries) == list(staged.entries)
        assert [path.name for path in root.rglob("*")] == ["add"]
        assert (root.parent / "precious" / "file").exists()

    def test_another_file_of_the_same_name_is_left_alone(self, root: Path) -> None:
        (root / "add" / "gone.zip").touch()
        staged = read_staging(root)
        (root / "add" / "gone.zip").unlink()
        (root / "add" / "x.zip").replace(root / "add" / "old")
        (root / "add" / "x.zip").write_bytes(b"new")
        with RemovalDirectories(root) as aside:
            assert [entry.name for one in staged for entry in aside.take(one.entries)] == ["x.zip.contents"]
        assert (root / "add" / "x.zip").read_bytes() == b"new"

    def test_an_action_directory_that_became_a_link_is_not_followed(self, root: Path, tmp_path: Path) -> None:
        (staged,) = read_staging(root)
        (root / "add").rename(tmp_path / "moved")
        (root / "add").symlink_to(tmp_path / "moved")
        with pytest.raises(NotADirectoryError), RemovalDirectories(root) as aside:
            aside.take(staged.entries)
        assert (tmp_path / "moved" / "x.zip").exists()

    def test_what_came_in_its_place_is_not_replaced_and_the_old_one_goes_like_a_left_over(
        self, root: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Where what was taken is put back, as the removal is not recorded."""
        (root / "add" / "y.zip").symlink_to("nowhere")
        (root / "notes").write_bytes(b"old")
        with suppress(ZeroDivisionError), RemovalDirectories(root) as aside:
            for staged in read_staging(root):
                assert aside.take(staged.entries) == list(staged.entries)
            assert [path.name for path in root.iterdir() if not path.name.startswith(".")] == ["add"]
            (root / "add" / "x.zip").write_bytes(b"new")
            (root / "add" / "x.zip.contents").mkdir()
            (root / "add" / "x.zip.contents" / "b.xml").write_bytes(b"new")
            raise ZeroDivisionError
        assert (root / "add" / "x.zip").read_bytes() == b"new"
        assert [path.name for path in (root / "add" / "x.zip.contents").iterdir()] == ["b.xml"]
        assert (root / "notes").read_bytes() == b"old"
        assert (root / "add" / "y.zip").is_symlink()
        assert "(others have its name by now): x.zip, x.zip.contents" in caplog.text
        assert remove_leftovers(root) == 1
        assert list(root.rglob(".*")) == []


def at_once(of: DataInstallation | Installation, phase: str = "data") -> Settings:
    """The settings of an installation, but that nothing is kept for any time that has passed a phase, or failed."""
    days = ("staging_keep_days", "staging_keep_failed_days", "staging_keep_part_days")
    return of.settings.model_copy(update={**dict.fromkeys(days, 0), "staging_keep_phase": phase})


def _clean(data: DataInstallation | Installation, phase: str = "data", *, unknown: bool = False) -> CleaningResult:
    settings = at_once(data, phase)
    return clean(data.tracker, settings, review_staging(data.tracker, settings), unknown=unknown)


def _verdicts(decisions: list[RetentionDecision]) -> dict[str, RetentionVerdict]:
    return {one.staged.place: one.verdict for one in decisions}


def bring_through(data: DataInstallation) -> None:
    """Bring an archive's documents into the QC database, to (qc, pending)."""
    data.put(ZIP, specimens(), experiments())
    data.run()


@pytest.fixture
def through(data: DataInstallation, prepared_installations: PreparedInstallations) -> DataInstallation:
    prepared_installations.begin(data, bring_through)
    return data


def receive_damaged(data: DataInstallation) -> None:
    """Receive an archive that cannot be opened, at (unzip, failed)."""
    data.folder.put(ZIP, b"no zip")
    data.validate()
    assert data.states() == {ZIP: "unzip failed"}


@pytest.fixture
def damaged(data: DataInstallation, prepared_installations: PreparedInstallations) -> Installation:
    prepared_installations.begin(data, receive_damaged)
    return data.base


def test_what_is_removed_is_in_the_story_of_its_submission_and_can_be_judged_had_again_and_withdrawn(
    through: DataInstallation,
) -> None:
    ending = through.ending()
    cleaned = _clean(through)
    assert [one.staged.place for one in cleaned.removed] == [ZIP]
    assert through.base.staged() == {}
    story = in_reading(through.tracker, submission_story, KEY)
    (removal,) = story.removals
    assert "archive and documents" in removal.message
    assert f"dcc retry {ZIP}" in removal.message
    assert story.reasons == ()
    assert through.ending() == ending

    rechecked = recheck(through.tracker, through.qc, through.settings, keys=[KEY], author="me", reason="try")
    assert rechecked.documents == 2
    assert (Phase.DATA, "data done") in through.take_up().told(ZIP)
    assert through.ending() == ending
    assert through.base.staged() == {}

    through.base.process_again(ZIP)
    through.take_up()
    assert {"add/H.2013-10-31.1.impc.zip", f"{ZIP}.contents/{SPECIMENS}"} <= set(through.base.staged())
    assert through.states() == {ZIP: "qc pending"}
    assert through.documents() == {SPECIMENS: "qc done", EXPERIMENTS: "qc pending"}

    _clean(through)
    assert len(through.withdraw(KEY, author="me", reason="wrong").withdrawn) == 2
    assert through.states() == {ZIP: "upload cancelled"}


@only_sqlite
def test_a_document_that_waits_to_be_confirmed_keeps_its_archive(through: DataInstallation) -> None:
    edit = "edit/H.2013-11-01.1.impc.zip"
    through.put(edit, specimens("2013-11-01.1"))
    held = through.with_settings(hold_threshold=0)
    held.run()
    assert held.states()[edit] == "upload pending"
    assert _verdicts(_clean(held, "xsd").removed) == {ZIP: RetentionVerdict.REMOVE}
    # As a session leaves it that was killed within the upload.
    for status, now in ((Status.PENDING, Status.RUNNING), (Status.RUNNING, Status.PENDING)):
        execute_in(held.tracker, update(XmlFile).where(XmlFile.status_id == status).values(status_id=now))
        assert _clean(held, "xsd").removed == []
    (confirmed,) = held.confirm(edit, author="me", reason="meant so")
    assert confirmed.status is Status.DONE


@only_sqlite
def test_valid_documents_wait_in_staging_for_their_upload_unless_validation_is_the_end(data: DataInstallation) -> None:
    data.put(ZIP, specimens(), {EXPERIMENTS: b"<no/>"})
    data.validate()
    assert data.states() == {ZIP: "xsd failed"}
    assert _clean(data).removed == []
    # As a session leaves it that was killed.
    execute_in(data.tracker, update(XmlFile).values(status_id=Status.RUNNING))
    assert _clean(data, "xsd").removed == []
    execute_in(data.tracker, update(XmlFile).values(status_id=Status.DONE))
    assert [one.staged.place for one in _clean(data, "xsd").removed] == [ZIP]
    data.take_up()
    assert data.states() == {ZIP: "zip_name done"}
    data.run()
    assert data.documents() == {SPECIMENS: "qc done", EXPERIMENTS: "xsd failed"}


def test_nothing_is_removed_beside_a_session_and_what_cannot_be_is_said(
    damaged: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = damaged.staged()
    with open_session(damaged.tracker, damaged.settings):
        with pytest.raises(SessionActiveError, match="is active"):
            _clean(damaged)
        with pytest.raises(SessionActiveError, match="is active"):
            clean(damaged.tracker, damaged.settings, [])

    monkeypatch.setattr(os, "rename", raising(PermissionError(13, "Permission denied", "x.zip")))
    with pytest.raises(CleaningError, match=r"cannot be removed: x.zip \(Permission denied\). See to"):
        _clean(damaged)
    assert damaged.staged() == before


@only_sqlite
def test_a_session_cleans_only_if_the_settings_say_so_and_that_of_a_group_only_what_its_centres_submitted(
    damaged: Installation,
) -> None:
    of_j, left_over = ZIP.replace("H.", "J."), "add/.x.contents.unpacking-1/a.xml"
    damaged.add_folder("J", "other").put(of_j, b"no zip")
    assert damaged.with_settings(staging_keep_failed_days=0).run_session().closing_notices == ()
    (damaged.settings.staging_directory / left_over).parent.mkdir()
    (damaged.settings.staging_directory / left_over).touch()
    assert set(damaged.staged()) == {ZIP, of_j, left_over}
    cleaning = damaged.with_settings(staging_keep_failed_days=0, staging_clean=True, groups="europe=H;america=J")
    for group, left in (("america", {ZIP, left_over}), (None, set())):
        (notice,) = cleaning.run_session(group=group).closing_notices
        assert notice.startswith("Removed ")
        assert set(damaged.staged()) == left
    assert cleaning.run_session().closing_notices == ()


@only_sqlite
def test_a_session_whose_cleaning_fails_is_done_all_the_same(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "review_staging", raising(CleaningError("The disk is read-only.")))
    result = data.with_settings(staging_clean=True).base.run_session()
    assert result.closing_notices == ("Staging was not cleaned: The disk is read-only.",)
    assert data.last_session()[0] == 0


@only_sqlite
def test_a_cleaning_that_was_killed_leaves_nothing_behind(
    damaged: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RemovalDirectories, "_remove", lambda self: None)
    _clean(damaged)
    (left,) = damaged.settings.staging_directory.glob("add/.*.removed-*")
    assert [path.name for path in left.iterdir()] == [KEY.file_name]
    monkeypatch.undo()
    assert _verdicts(review_staging(damaged.tracker, damaged.settings)) == {f"add/{left.name}": RetentionVerdict.REMOVE}
    damaged.run_session()
    assert damaged.staged() == {}


@only_sqlite
def test_unknown_files_stay_unless_they_are_asked_for_and_scratch_directories_are_the_workers(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_AT_ONCE", 2)
    staging = installation.settings.staging_directory
    for place in (".batches/.scratch-1", ".workers-7/add"):
        (staging / place).mkdir(parents=True)
    assert read_staging(staging) == []
    assert _clean(installation, unknown=True).removed == []
    assert (staging / ".batches/.scratch-1").is_dir()
    (staging / "add").mkdir()
    theirs = {"notes.removed-1", "add/H.2099-01-01.1.impc.zip", os.fsdecode(b"add/\xff.zip")}
    for name in theirs:
        (staging / name).write_text("put there by hand")
    _clean(installation)
    assert set(installation.staged()) == theirs
    assert len(_clean(installation, unknown=True).removed) == 3
    assert installation.staged() == {}


@only_sqlite
def test_a_part_of_an_archive_that_no_source_hosts_any_more_goes(installation: Installation) -> None:
    folder, arrived = installation.add_folder(), "add/H.2013-11-01.1.impc.zip"
    folder.put(arrived, b"no zip")
    installation.run_session()
    folder.put(ZIP)
    installation.with_settings(min_free_bytes=2**62).run_session()
    staging = Staging(installation.settings.staging_directory)
    staging.prepare(KEY)
    staging.note_origin(KEY, PartOrigin(folder.source_id, 10, 1))
    staging.part(KEY).write_bytes(b"12345")
    kept, _ = review_staging(installation.tracker, at_once(installation))
    assert (kept.verdict, kept.reason) == (RetentionVerdict.KEEP, "its download goes on from there")
    in_writing(installation.tracker, set_source_state, folder.source_id, SourceState.REMOVED)
    gone, _ = review_staging(installation.tracker, at_once(installation))
    assert gone.verdict is RetentionVerdict.REMOVE
    in_writing(installation.tracker, set_source_state, folder.source_id, SourceState.AVAILABLE)
    (folder.path / ZIP).unlink()
    for _ in range(2):
        installation.with_settings(min_free_bytes=2**62).run_session()
    gone, _ = review_staging(installation.tracker, at_once(installation))
    assert gone.verdict is RetentionVerdict.REMOVE
    clean(installation.tracker, at_once(installation), [gone])
    assert set(installation.staged()) == {arrived}
    assert _removals(installation.tracker) == 0


@pytest.fixture
def failed(damaged: Installation) -> Installation:
    """An archive that failed, with something beside it, all of which may go."""
    contents = damaged.settings.staging_directory / f"{ZIP}.contents"
    contents.mkdir()
    (contents / "a.xml").write_bytes(WHOLE[f"{ZIP}.contents/a.xml"])
    return damaged


def _removals(tracker: Engine, key: SubmissionKey = KEY) -> int:
    return len(in_reading(tracker, submission_story, key).removals)


@only_sqlite
def test_what_took_the_place_of_an_archive_meanwhile_stays_and_is_not_told_to_be_gone(failed: Installation) -> None:
    decisions = review_staging(failed.tracker, at_once(failed))
    archive = failed.settings.staging_directory / ZIP
    archive.with_name("new").write_bytes(b"another")
    archive.with_name("new").replace(archive)
    cleaned = clean(failed.tracker, at_once(failed), decisions)
    assert (cleaned.bytes, cleaned.changed, failed.staged()) == (4, [ZIP], {ZIP: b"another"})
    (removal,) = in_reading(failed.tracker, submission_story, KEY).removals
    assert removal.message.startswith("Its documents (4 B) went")


def test_what_could_not_be_recorded_is_where_it_was(failed: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        assert failed.staged().keys() != WHOLE.keys()
        raise ZeroDivisionError

    monkeypatch.setattr(cleanup, "insert_rows", broken)
    with pytest.raises(ZeroDivisionError):
        _clean(failed)
    assert failed.staged() == WHOLE
    assert list((failed.settings.staging_directory / "add").glob(".*")) == []
    assert _removals(failed.tracker) == 0

    def lost(*_: object) -> None:
        monkeypatch.undo()
        raise contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    _clean(failed)
    assert failed.staged() == {}
    assert _removals(failed.tracker) == 1


@only_sqlite
def test_what_can_neither_be_recorded_nor_put_back_is_named_and_not_deleted(
    failed: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*_: object) -> None:
        monkeypatch.setattr(os, "link", raising(PermissionError(13, "Permission denied", "x.zip")))
        raise contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    with pytest.raises(CleaningError, match="Permission denied"):
        _clean(failed)
    assert f"could not be put back ([Errno 13] Permission denied: 'x.zip'): {KEY.file_name} in" in caplog.text
    assert [path.name for path in failed.settings.staging_directory.glob("add/.*/*")] == [KEY.file_name]


def test_a_session_that_began_while_the_database_was_away_finds_the_archive(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        monkeypatch.setattr(cleanup, "refuse_during_session", raising(SessionActiveError("Session 2 is active.")))
        raise contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    with pytest.raises(SessionActiveError):
        _clean(failed)
    assert failed.staged() == WHOLE
    assert _removals(failed.tracker) == 0


def test_what_may_not_go_any_more_when_the_database_is_back_stays(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(cleanup, "known_archives", lambda *_: {})
        raise contention(failed.tracker)

    monkeypatch.setattr(cleanup, "insert_rows", lost)
    cleaned = _clean(failed)
    assert (cleaned.removed, cleaned.changed) == ([], [ZIP])
    assert failed.staged() == WHOLE


@only_sqlite
def test_a_session_that_begins_leaves_alone_what_is_being_removed(
    failed: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = RemovalDirectories._remove

    def beside_session(self: RemovalDirectories) -> None:
        with open_session(failed.tracker, failed.settings):
            assert remove_leftovers(failed.settings.staging_directory) == 0
            assert read_staging(failed.settings.staging_directory) == []
        remove(self)

    monkeypatch.setattr(RemovalDirectories, "_remove", beside_session)
    assert len(_clean(failed).removed) == 1
    assert failed.staged() == {}
    assert list((failed.settings.staging_directory / "add").iterdir()) == []
