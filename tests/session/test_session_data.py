"""Validated documents on their way to quality control, with the real modules on both databases."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from dcc.cli.demo import submissions
from dcc.databases.transactions import writing
from dcc.errors import InternalFaultError, QcDatabaseUnreachableError, SessionTimeLimitError
from dcc.operations.consistency.check import check_consistency
from dcc.phases import Phase
from dcc.qc import models
from dcc.reference.loading import SHIPPED
from dcc.runtime.clock import utc_now
from dcc.session.data import judgement_phase, quality_control, recorder, upload_order, upload_phase
from dcc.session.data.document_queries import count_waiting
from dcc.session.data.recorder import Recorder
from dcc.session.prepare import documents
from dcc.store.staging import PREPARED_FILE
from dcc.tracker.crawls import list_sessions
from dcc.tracker.decisions import DecisionKind, revoke
from dcc.tracker.models import ZipFile
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import select_submissions
from dcc.tracker.queries.submission_stories import submission_story
from dcc.vocabulary import ContextState, Severity
from dcc_assets.sync.archives import recorded_submissions
from dcc_assets.sync.document_records import submission_ids
from tests.support.asking import column_in, execute_in, in_reading
from tests.support.data_installations import (
    EXPERIMENTS,
    SPECIMENS,
    WHOLE_WAY,
    DataInstallation,
    experiments,
    key_of,
    specimens,
)
from tests.support.sent_statements import sent_statements

ZIP = "add/H.2013-10-31.1.impc.zip"


@pytest.mark.both_databases
def test_valid_documents_go_the_whole_way_to_quality_control(data: DataInstallation) -> None:
    data.validate(ZIP, specimens(), experiments())
    assert in_reading(data.tracker, count_waiting) == 2
    result = data.take_up()
    assert result.told(ZIP) == list(WHOLE_WAY.items())
    assert data.states() == {ZIP: "qc pending"}
    # A specimen document has no measurements, so that nothing of it waits for a wrangler.
    assert data.documents() == {SPECIMENS: "qc done", EXPERIMENTS: "qc pending"}
    uploaded = result.document(EXPERIMENTS, Phase.UPLOAD)
    assert (uploaded.said["experiments"], uploaded.opened, uploaded.repeated) == (3, {"experiment": 3}, False)
    assert uploaded.procedures == {"IMPC_BWT_001": 3}
    assert uploaded.document_id == 2
    (built,) = result.contexts
    assert [(one.centre, one.states) for one in built.centres] == [
        ("H", {ContextState.DATA_ADDED: len(data.rows(models.CONTEXT, "id"))})
    ]
    assert len(result.overviews) == 1
    assert data.last_session() == (0, [(phase, 0) for phase in WHOLE_WAY])
    assert in_reading(data.tracker, count_waiting) == 0
    # A session without anything to do tells nothing, and changes nothing.
    before = data.ending()
    result = data.take_up()
    assert (result.zips, result.contexts, result.overviews) == ([], [], [])
    assert data.last_session() == (0, [])
    assert data.ending() == before


def test_a_session_goes_no_further_than_asked_and_the_next_one_goes_on(data: DataInstallation) -> None:
    data.validate(ZIP, specimens(), experiments())
    for until in (Phase.XSD, *WHOLE_WAY):
        assert [reached for reached, _ in data.take_up(until).told(ZIP)] == [until][: until > Phase.XSD]
        assert data.states()[ZIP].startswith(until.short_name)
    assert data.states() == {ZIP: "qc pending"}


@pytest.mark.both_databases
def test_add_edit_and_delete_mean_what_they_say(data: DataInstallation) -> None:
    """One experiment, changed in its place, then gone."""
    data.run(ZIP, specimens(), experiments(animals=1))
    (first,) = current_values(data)
    edited = submissions.experiment_document("H", animals=1, procedure="IMPC_BWT_001")
    changed = edited.replace(first.encode(), b"77.5")
    data.run("edit/H.2013-11-01.1.impc.zip", {"H.2013-11-01.1.experiment.impc.xml": changed})
    assert current_values(data) == ["77.5"]
    data.run("delete/H.2013-11-02.1.impc.zip", {"H.2013-11-02.1.experiment.impc.xml": changed})
    assert current_values(data) == []
    assert data.documents()["H.2013-11-02.1.experiment.impc.xml"] in {"qc pending", "qc done"}


def current_values(data: DataInstallation) -> list[str]:
    return column_in(data.qc, "SELECT value FROM current_measurement ORDER BY id")


def test_an_experiment_without_its_specimen_fails_and_heals_when_that_arrives(data: DataInstallation) -> None:
    result = data.run(ZIP, experiments())
    assert data.documents() == {EXPERIMENTS: "data failed"}
    assert data.states() == {ZIP: "data failed"}
    assert data.log(EXPERIMENTS) == ["E4"] * 3
    checked = result.document(EXPERIMENTS, Phase.DATA)
    assert [finding.rule for finding in checked.findings] == ["E4"] * 3
    assert checked.finding_counts == {("E4", Severity.ERROR): 3}

    healed = data.run("add/H.2013-11-05.1.impc.zip", specimens("2013-11-05.1"))
    assert data.documents() == {EXPERIMENTS: "qc pending", "H.2013-11-05.1.specimen.impc.xml": "qc done"}
    assert data.states()[ZIP] == "qc pending"
    assert data.log(EXPERIMENTS) == []
    assert data.log(EXPERIMENTS, cleared=True) == ["E4"] * 3
    assert data.set_back() == [(EXPERIMENTS, "data failed", "upload done")]
    assert [reached for reached, _ in healed.told(ZIP)] == list(WHOLE_WAY)[1:]
    (story,) = in_reading(data.tracker, submission_story, key_of(ZIP)).documents
    (recorded,) = in_reading(
        data.tracker, recorded_submissions, in_reading(data.tracker, submission_ids, [key_of(ZIP)])
    )
    assert story.errors == ()
    assert [document.errors for document in recorded.documents] == [()]
    assert story.reopenings[0].from_phase is Phase.DATA


def test_only_what_is_new_in_a_document_counts_and_one_without_fails_its_upload(data: DataInstallation) -> None:
    """S13; and that a document is late is told with its upload."""
    data.run(ZIP, specimens())
    some, none = "H.2013-10-01.1.specimen.impc.xml", "H.2013-11-02.1.specimen.impc.xml"
    data.put("add/H.2013-10-01.1.impc.zip", specimens("2013-10-01.1", mice=4))
    result = data.run("add/H.2013-11-02.1.impc.zip", specimens("2013-11-02.1"))
    uploaded = {name: result.document(name, Phase.UPLOAD) for name in (some, none)}
    assert {name: (one.refused, one.late) for name, one in uploaded.items()} == {some: (3, True), none: (3, False)}
    assert data.documents() == {SPECIMENS: "qc done", some: "data failed", none: "upload failed"}
    assert sorted(kind for kind in data.log(some) if kind != "S14") == ["Q5", *["S13"] * 3]
    assert data.log(none) == ["S13"] * 3
    assert result.told("add/H.2013-11-02.1.impc.zip") == [(Phase.UPLOAD, "upload failed")]
    assert len([row for row in data.rows(models.SPECIMEN, "is_current") if row[0]]) == 4


def test_a_document_whose_upload_fails_leaves_no_row_and_an_entry_in_the_log(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the platform does not keep the others, and is raised in the end."""
    read = documents.read_document

    def break_half_way(path: Path, kind: object) -> object:
        contents = list(read(path, kind))  # type: ignore[arg-type]
        if path.name != SPECIMENS:
            return contents
        return (content if place < 3 else 1 // 0 for place, content in enumerate(contents))

    monkeypatch.setattr(documents, "read_document", break_half_way)
    data.validate(ZIP, specimens(), experiments())
    with pytest.raises(
        InternalFaultError, match=r"specimen\.impc\.xml: ZeroDivisionError: .* \(line \d+ of "
    ) as raised:
        data.take_up()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert data.documents() == {SPECIMENS: "upload failed", EXPERIMENTS: "data failed"}
    assert data.log(SPECIMENS) == ["InternalFaultError"]
    assert data.rows(models.SPECIMEN, "id") == []
    assert data.rows(models.DOCUMENT, "file_name") == [(EXPERIMENTS,)]
    status, tasks = data.last_session()
    assert status == Phase.UPLOAD
    assert tasks[0] == (Phase.UPLOAD, 1)


def test_a_session_that_breaks_off_records_why(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality_control, "documents_behind", lambda *_: 1 // 0)
    data.validate(ZIP, specimens(), experiments())
    with pytest.raises(ZeroDivisionError):
        data.take_up()
    (session,) = in_reading(data.tracker, list_sessions, limit=1)
    *_, task = session.tasks
    assert task.outcome == "failed"
    assert (task.comment or "").startswith("Build of data contexts, for 2 documents: ZeroDivisionError: ")
    assert "of dcc.session.data.quality_control)" in (task.comment or "")


@pytest.mark.both_databases
def test_a_document_that_cannot_be_judged_for_a_fault_of_the_platform_goes_on_waiting(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not blamed on the centre: only sessions fail, and the next ones judge it, until it is in quarantine."""
    judge = judgement_phase.judge_document

    def break_down(connection: object, document_id: int, *more: object) -> object:
        return judge(connection, document_id, *more) if document_id == 2 else 1 // 0  # type: ignore[arg-type]

    data.validate(ZIP, specimens(), experiments())
    with monkeypatch.context() as patched:
        patched.setattr(judgement_phase, "judge_together", lambda *_: 1 // 0)
        patched.setattr(judgement_phase, "judge_document", break_down)
        for _ in range(2):
            with pytest.raises(InternalFaultError, match=r"specimen\.impc\.xml: ZeroDivisionError"):
                data.take_up()
        assert data.last_session()[0] == Phase.DATA
        with pytest.raises(InternalFaultError):
            data.take_up()
        data.take_up()
    assert data.documents() == {SPECIMENS: "upload done", EXPERIMENTS: "qc pending"}
    with writing(data.tracker) as connection:
        (faulty,) = select_submissions(connection, SubmissionFilter(faulty=True, on_hold=True))
        revoke(connection, [faulty.id], DecisionKind.QUARANTINE, by="tester")
    data.take_up()
    assert data.states() == {ZIP: "qc pending"}


def test_a_session_whose_time_is_up_judges_no_further_document(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even of those that could not be judged together. The next session does."""
    judged: list[int] = []
    judge = judgement_phase.judge_document

    def take_an_hour(connection: object, document_id: int, *more: object) -> object:
        judged.append(document_id)
        monkeypatch.setattr("dcc.session.sessions.utc_now", lambda: utc_now() + timedelta(hours=1))
        return judge(connection, document_id, *more)  # type: ignore[arg-type]

    data.validate(ZIP, specimens(), experiments())
    limited = data.with_settings(session_time_limit=600.0)
    with monkeypatch.context() as patched:
        patched.setattr(judgement_phase, "judge_together", lambda *_: 1 // 0)
        patched.setattr(judgement_phase, "judge_document", take_an_hour)
        with pytest.raises(SessionTimeLimitError):
            limited.take_up()
    assert len(judged) == 1
    monkeypatch.setattr("dcc.session.sessions.utc_now", utc_now)
    data.take_up()
    assert data.states() == {ZIP: "qc pending"}


def test_what_was_prepared_and_is_gone_is_no_fault_of_the_platform(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a disk lost it at once: the archive is fetched anew."""
    data.validate(ZIP, specimens())
    for path in data.settings.staging_directory.rglob(f"{PREPARED_FILE}.*"):
        path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr("dcc.session.data.prepared_archives.prepare_archive", lambda *_: {})
        (told,) = data.take_up().zips
    assert "downloaded again" in str(told.documents[0].reason)
    assert data.states() == {ZIP: "zip_name done"}
    data.run()
    assert data.states() == {ZIP: "qc done"}


def test_an_archive_whose_name_no_file_can_have_is_no_fault_of_the_platform(data: DataInstallation) -> None:
    """Another system may have recorded it."""
    data.validate(ZIP, specimens())
    execute_in(data.tracker, update(ZipFile).values(file_name="../H.2013-10-31.1.impc.zip"))
    (told,) = data.take_up().zips
    assert "downloaded again" in str(told.documents[0].reason)
    assert list(data.states().values()) == ["zip_name done"]


@pytest.mark.parametrize("is_shown", [True, False], ids=["once shown as running", "at once"])
def test_a_document_that_is_not_as_it_was_validated_is_fetched_anew(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch, is_shown: bool
) -> None:
    monkeypatch.setattr(Recorder, "is_due", property(lambda _recorder: is_shown))
    data.validate(ZIP, specimens(), experiments())
    staged = data.settings.staging_directory / f"{ZIP}.contents" / EXPERIMENTS
    staged.write_bytes(staged.read_bytes() + b"\n")
    result = data.take_up()
    assert data.states() == {ZIP: "zip_name done"}
    (told,) = result.zips
    assert (told.reached, told.phase) == (Phase.UPLOAD, Phase.ZIP_NAME)
    assert "downloaded again" in str(told.documents[-1].reason)
    assert data.documents()[EXPERIMENTS] == "upload pending"
    assert check_consistency(data.tracker, data.qc, data.settings) == []
    again = data.run()
    assert data.states() == {ZIP: "qc pending"}
    assert again.document(SPECIMENS, Phase.UPLOAD).repeated
    assert data.rows(models.DOCUMENT, "file_name", "state") == [(EXPERIMENTS, "applied"), (SPECIMENS, "applied")]


def test_nothing_of_an_archive_that_is_fetched_anew_is_applied_together_with_others(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload_order, "MAX_DOCUMENTS", 2)
    data.put(ZIP, specimens(), experiments())
    others = specimens("2013-11-05.1", first=40), experiments("2013-11-05.1", first=40)
    data.validate("add/H.2013-11-05.1.impc.zip", *others)
    staged = data.settings.staging_directory / f"{ZIP}.contents" / SPECIMENS
    staged.write_bytes(staged.read_bytes() + b"\n")
    data.take_up(Phase.UPLOAD)
    assert data.states()[ZIP] == "zip_name done"
    assert sorted(name for (name,) in data.rows(models.DOCUMENT, "file_name")) == sorted(others[0] | others[1])


def test_an_archive_processed_again_stands_for_its_newest_documents(data: DataInstallation) -> None:
    """An identical document is not applied twice; its row follows the tracker's newest one."""
    data.run(ZIP, specimens(), experiments())
    before = data.rows(models.DOCUMENT, "id", "tracker_id")
    result = data.retry(ZIP)
    assert result.document(EXPERIMENTS, Phase.UPLOAD).repeated
    assert data.states() == {ZIP: "qc pending"}
    after = data.rows(models.DOCUMENT, "id", "tracker_id")
    assert [number for number, _ in after] == [number for number, _ in before]
    assert min(tracker_id for _, tracker_id in after) > max(tracker_id for _, tracker_id in before)


def test_no_document_is_late_because_of_what_came_together_with_it(data: DataInstallation) -> None:
    """Experiments are deleted before the animals of their submission, even if they are of a later day."""
    data.run(ZIP, specimens(), experiments())
    both = {**specimens("2013-11-01.1"), **experiments("2013-11-05.1")}
    data.put("delete/H.2013-11-05.1.impc.zip", both)
    result = data.run("add/H.2013-11-03.1.impc.zip", specimens("2013-11-03.1", first=20))
    for name in ("H.2013-11-01.1.specimen.impc.xml", "H.2013-11-03.1.specimen.impc.xml"):
        assert not result.document(name, Phase.UPLOAD).late
        assert data.log(name) == []
    assert not [row for row in data.rows(models.EXPERIMENT, "is_current") if row[0]]


def test_reference_data_that_can_be_read_by_now_or_have_changed_heal_findings_in_a_quiet_session(
    data: DataInstallation, tmp_path: Path
) -> None:
    """No document need be new for it, and a session that finds everything as it was asks no more of the databases."""
    path = tmp_path / "projects.csv"
    execute_in(data.qc, update(models.SNAPSHOT).values(is_active=False))
    data = data.with_settings(reference_projects=str(path))
    data.run(ZIP, specimens())
    assert data.log(SPECIMENS) == ["reference"]
    assert data.documents() == {SPECIMENS: "qc done"}, "unchecked is nobody's fault"
    path.write_text("project\nSomebody else's\n")
    data.take_up()
    assert set(data.log(SPECIMENS)) == {"S12"}
    path.write_text((SHIPPED / "projects.csv").read_text())
    assert [zipped.key for zipped in data.take_up().zips if zipped.reached is Phase.DATA] == [key_of(ZIP)]
    assert data.log(SPECIMENS) == []
    assert data.documents() == {SPECIMENS: "qc done"}
    with sent_statements(Engine) as quiet:
        data.take_up()
    with sent_statements(Engine) as without:
        data.with_settings(reference_projects=None).take_up()
    assert len(quiet) < len(without), "the setting is another one then, and the shipped set is read anew"


@pytest.mark.parametrize("commit_seconds", [0.0, 60.0])
def test_when_the_qc_database_is_away_the_session_fails_and_the_next_one_goes_on(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch, commit_seconds: float
) -> None:
    apply, calls = upload_phase.apply_documents, 0

    def away(engine: Engine, *arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise QcDatabaseUnreachableError("The QC database is away.")
        return apply(engine, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(upload_phase, "apply_documents", away)
    monkeypatch.setattr(upload_order, "MAX_DOCUMENTS", 1)
    # The document whose turn it was may have been shown to be running already, or not yet.
    monkeypatch.setattr(recorder, "_COMMIT_SECONDS", commit_seconds)
    monkeypatch.setattr(recorder, "_MAX_SECONDS", commit_seconds)
    data.validate(ZIP, specimens(), experiments())
    with pytest.raises(QcDatabaseUnreachableError):
        data.take_up()
    assert data.documents() == {SPECIMENS: "upload done", EXPERIMENTS: "upload pending"}
    assert data.last_session()[0] == Phase.UPLOAD
    data.take_up()
    assert data.states() == {ZIP: "qc pending"}


def test_documents_that_the_qc_database_lost_are_uploaded_again(data: DataInstallation) -> None:
    data.validate(ZIP, specimens())
    data.take_up(Phase.UPLOAD)
    execute_in(data.qc, update(models.DOCUMENT).values(tracker_id=None))
    data.take_up(Phase.DATA)
    assert data.documents() == {SPECIMENS: "upload pending"}
    data.take_up()
    assert data.documents() == {SPECIMENS: "qc done"}
