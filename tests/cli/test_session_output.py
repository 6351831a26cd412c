"""What `dcc crawl` says of the phases after validation."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import click
import pytest

from dcc.cli.sessions.session_output import SessionDisplay, SessionOutput, note_lines, problem_lines
from dcc.data_outcomes import ContextCounts, ContextsBuilt, DataOutcome, DocumentData, FindingEntry, SubmissionData
from dcc.naming import Action, DocumentKind
from dcc.outcomes import DocumentOutcome, EndReason, Problem, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase, Status
from dcc.session.data.document_problems import held_problem
from dcc.vocabulary import ContextState, Severity

KEY = SubmissionKey(Action.EDIT, "H.2013-10-31.1.impc.zip")
NAME = "H.2013-10-31.1.experiment.impc.xml"
MOMENT = datetime(2026, 11, 21)
SESSION: Any = SimpleNamespace(
    id=1, ended=EndReason.FINISHED, notices=(), task_errors=(), settings=SimpleNamespace(last_phase=Phase.QC)
)
FAULTS = {
    "findings": (
        FindingEntry("P11", Severity.WARNING, {"words": "a warning"}),
        FindingEntry("E4", Severity.ERROR, {"words": "Specimen S1 is not known."}, line=12),
    ),
    "finding_counts": {("P11", Severity.WARNING): 1, ("E4", Severity.ERROR): 3},
}


def document(phase: Phase, status: Status, **what: object) -> DocumentData:
    return DocumentData(NAME, DocumentKind.EXPERIMENT, "H", phase, status, **what)  # type: ignore[arg-type]


def invalid_archive(*names: str, **what: Any) -> SubmissionOutcome:
    """What became of an archive with these documents, none of which is valid."""
    failed = Phase.XSD, Status.FAILED
    documents = tuple(DocumentOutcome(name, *failed, 100) for name in names)
    return SubmissionOutcome(KEY, "H", *failed, MOMENT, extracted=True, documents=documents, **what)


def told(*documents: DocumentData, reached: Phase) -> SubmissionData:
    state = documents[0].phase, documents[0].status
    return SubmissionData(KEY, "H", reached, *state, documents, 0.1, MOMENT)


def reported(*outcomes: DataOutcome) -> SessionOutput:
    report = SessionOutput(SESSION)
    for outcome in outcomes:
        report.add_data(outcome)
    return report


def lines_of(report: SessionOutput) -> list[str]:
    return [click.unstyle(line) for line in (*problem_lines(report.problems), *note_lines(report.notes))]


def shown(outcome: DataOutcome | SubmissionOutcome) -> list[str]:
    """What a session prints of it."""
    lines: list[str] = []
    display = SessionDisplay(lines.append, None, 0, 0)
    if isinstance(outcome, SubmissionOutcome):
        display.on_submission(outcome)
    else:
        display.on_data(outcome)
    assert len([*display.report.problems, *display.report.notes]) == 50
    return [click.unstyle(line) for line in lines]


def test_of_the_many_documents_of_an_archive_the_first_ones_are_told() -> None:
    names = [f"H.2013-10-31.{number}.experiment.impc.xml" for number in range(50)]
    of_zip = invalid_archive(*names)
    refused = [replace(document(Phase.UPLOAD, Status.FAILED, reason="No."), file_name=name) for name in names]
    late = [replace(document(Phase.UPLOAD, Status.DONE, late=True), file_name=name) for name in names]
    for outcome, mark in (
        (of_zip, "failed"),
        (told(*refused, reached=Phase.UPLOAD), "failed"),
        (told(*late, reached=Phase.UPLOAD), "late"),
    ):
        *lines, last = shown(outcome)
        assert len(lines) == 20
        for line, name in zip(lines, names[:20], strict=True):
            assert line.startswith(f"{mark:<6}  {KEY}: {name}")
        assert last == f"        ... and 30 more documents: dcc show {KEY}"


def test_why_an_archive_failed_is_told_beside_its_documents_and_that_its_state_was_kept() -> None:
    reasons = (Problem("ManifestError", "It lacks a document."),)
    report, kept = SessionOutput(SESSION), SessionOutput(SESSION)
    report.add_submission(invalid_archive(NAME, reasons=reasons))
    of_archive = f"failed  {KEY} at xsd: It lacks a document."
    assert lines_of(report) == [of_archive, f"failed  {KEY}: {NAME} at xsd: It failed at xsd."]
    kept.add_submission(invalid_archive(NAME, reasons=reasons, kept=True))
    assert lines_of(kept) == [
        f"{of_archive.replace('xsd', 'download')} What its last attempt came to stays: xsd failed."
    ]


def test_the_last_state_of_a_document_counts() -> None:
    said = {"experiments": 2, "measurements": 34}
    uploaded = told(document(Phase.UPLOAD, Status.DONE, said=said, opened={"experiment": 2}), reached=Phase.UPLOAD)
    report = reported(uploaded, told(document(Phase.QC, Status.PENDING, said=said), reached=Phase.QC))
    shown = report.as_json()
    assert shown["zip_actions"] == shown["xml_files"] == [{"phase": Phase.QC, "status": Status.PENDING, "count": 1}]
    assert shown["data"] == said
    assert (report.exit_code(), report.conclude()) == (0, [])
    assert "34 measurements uploaded" in report.line(SESSION)


def test_what_was_not_brought_in_now_is_not_told_as_uploaded() -> None:
    said, opened = {"measurements": 34}, {"experiment": 1}
    refused = document(Phase.UPLOAD, Status.FAILED, said=said, refused=1)
    deleting = document(Phase.UPLOAD, Status.DONE, said=said, ended=opened)
    repeated = document(Phase.UPLOAD, Status.DONE, said=said, opened=opened, repeated=True)
    held = document(Phase.UPLOAD, Status.PENDING, said=said, opened=opened, held=True)
    report = reported(*(told(one, reached=Phase.UPLOAD) for one in (refused, deleting, repeated, held)))
    assert report.as_json()["data"] == {}
    assert "uploaded" not in report.line(SESSION)


@pytest.mark.parametrize(
    ("reached", "phase", "status", "facts", "lines"),
    [
        (
            Phase.DATA,
            Phase.DATA,
            Status.FAILED,
            FAULTS,
            ["failed  {}, line 12 at data: E4: Specimen S1 is not known. (and 2 more)"],
        ),
        (Phase.UPLOAD, Phase.XSD, Status.FAILED, {}, []),
        (Phase.UPLOAD, Phase.UPLOAD, Status.FAILED, {"reason": "No room."}, ["failed  {} at upload: No room."]),
        (Phase.UPLOAD, Phase.UPLOAD, Status.FAILED, {"late": True, "reason": "No."}, ["failed  {} at upload: No."]),
        (Phase.DATA, Phase.DATA, Status.DONE, {"cleared": 6}, ["healed  {}: 6 findings of earlier sessions cleared."]),
    ],
    ids=["its first finding", "failed earlier, told then", "failed", "late, but not applied", "healed"],
)
def test_what_becomes_of_a_document_is_told(
    reached: Phase, phase: Phase, status: Status, facts: dict[str, object], lines: list[str]
) -> None:
    report = reported(told(document(phase, status, **facts), reached=reached))
    assert lines_of(report) == [line.format(f"{KEY}: {NAME}") for line in lines]
    assert report.exit_code() == int(any(line.startswith("failed") for line in lines))
    assert all(problem["errors"] for problem in report.problems)
    if facts is FAULTS:
        (problem,) = report.problems
        assert (problem["kind"], problem["line"], problem["errors"]) == ("E4", 12, 3)
        # It is all that is told, at the end too.
        assert (report.conclude(), len(report.problems)) == ([], 1)


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (EndReason.FINISHED, "Session 1 (finished): No submission was waiting; "),
        (EndReason.FAULTS, "Session 1 (faults): No submission was processed; "),
        (None, "Session 1 (unknown): No submission was processed; "),
    ],
)
def test_only_a_finished_session_says_that_nothing_was_waiting(ended: EndReason | None, told: str) -> None:
    assert SessionOutput().line(SimpleNamespace(**vars(SESSION) | {"ended": ended})).startswith(told)


def test_a_session_took_no_time_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster is loaded before."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    display = SessionDisplay(None, None, 0, 0)
    now[0] = 5.0
    display.on_begin(SESSION)
    now[0] = 5.25
    assert display.report.as_json()["seconds"] == 0.25
    assert "done in 0.2 s" in display.report.line(SESSION)


def test_a_zip_action_that_other_documents_keep_failed_is_told_of_at_the_end() -> None:
    """One of two faulty documents is judged again, since its fault was waived, and is well."""
    well = document(Phase.DATA, Status.DONE, cleared=1)
    report = reported(SubmissionData(KEY, "H", Phase.DATA, Phase.DATA, Status.FAILED, (well,), 0.1, MOMENT))
    assert report.conclude() == report.problems
    (line, _note) = lines_of(report)
    assert line.startswith(f"failed  {KEY} at data: ")
    assert f"dcc show {KEY}" in line
    assert report.exit_code() == 1
    assert report.conclude() == []


def test_what_is_held_asks_to_be_confirmed_and_what_is_late_is_noted() -> None:
    ended = {"experiment": 900}
    reason = held_problem(KEY, ended).message
    held = document(Phase.UPLOAD, Status.PENDING, held=True, ended=ended, late=True, reason=reason)
    (held_line,) = lines_of(reported(told(held, reached=Phase.UPLOAD)))
    assert "900 experiments" in held_line
    assert f"dcc data confirm {KEY}" in held_line
    late = document(Phase.UPLOAD, Status.DONE, late=True)
    report = reported(told(held, reached=Phase.UPLOAD), told(late, reached=Phase.UPLOAD))
    assert lines_of(report)[1].startswith(f"late    {KEY}: {NAME}: Newer documents")
    assert report.exit_code() == 1
    notes = report.as_json()["notes"]
    assert notes == [{**report.notes[0], "kind": "late", "zip": str(KEY), "document": NAME}]


def test_how_the_contexts_changed_is_summed_up() -> None:
    states = {ContextState.DATA_ADDED: 3}
    centres = (ContextCounts("H", states, added=3, changed=1), ContextCounts("J", states, added=2))
    built = ContextsBuilt(centres, 2, 0.1, MOMENT)
    report = reported(told(document(Phase.QC, Status.DONE), reached=Phase.QC), built)
    assert report.as_json()["contexts"] == {"added": 5, "changed": 1, "removed": 0}
    assert "contexts: 5 added, 1 changed" in report.line(SESSION)
    assert reported(built).line(SESSION).endswith("; contexts: 5 added, 1 changed.")
