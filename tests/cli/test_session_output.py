"""What `dcc crawl` says of the phases after validation."""

from dataclasses import replace
from datetime import datetime

import click
import pytest

from dcc.cli.sessions.session_output import SessionDisplay, SessionOutput, note_lines, problem_lines
from dcc.data_outcomes import ContextCounts, ContextsBuilt, DataOutcome, DocumentData, FindingEntry, ZipData
from dcc.naming import Action, DocumentKind
from dcc.outcomes import DocumentOutcome, EndReason, ZipKey, ZipOutcome
from dcc.phases import Phase, Status
from dcc.session.data.document_problems import held_problem
from dcc.vocabulary import ContextState, Severity

KEY = ZipKey(Action.EDIT, "H.2013-10-31.1.impc.zip")
NAME = "H.2013-10-31.1.experiment.impc.xml"
MOMENT = datetime(2026, 11, 21)


def document(phase: Phase, status: Status, **what: object) -> DocumentData:
    return DocumentData(NAME, DocumentKind.EXPERIMENT, "H", phase, status, **what)  # type: ignore[arg-type]


def told(*documents: DocumentData, reached: Phase) -> ZipData:
    state = documents[0].phase, documents[0].status
    return ZipData(KEY, "H", reached, *state, documents, 0.1, MOMENT)


def lines_of(report: SessionOutput) -> list[str]:
    return [click.unstyle(line) for line in (*problem_lines(report.problems), *note_lines(report.notes))]


def shown(outcome: DataOutcome | ZipOutcome) -> list[str]:
    """What a session prints of it."""
    lines: list[str] = []
    display = SessionDisplay(lines.append, None, 0, 0)
    if isinstance(outcome, ZipOutcome):
        display.on_zip(outcome)
    else:
        display.on_data(outcome)
    assert len([*display.report.problems, *display.report.notes]) == 50
    return [click.unstyle(line) for line in lines]


def test_of_the_many_documents_of_an_archive_the_first_ones_are_told() -> None:
    names = [f"H.2013-10-31.{number}.experiment.impc.xml" for number in range(50)]
    failed = Phase.XSD, Status.FAILED
    invalid = tuple(DocumentOutcome(name, *failed, 100) for name in names)
    of_zip = ZipOutcome(KEY, "H", *failed, True, True, 100, None, "ftp", 1, 0.1, MOMENT, invalid)
    refused = [replace(document(Phase.UPLOAD, Status.FAILED, reason="No."), file_name=name) for name in names]
    late = [replace(document(Phase.UPLOAD, Status.DONE, late=True), file_name=name) for name in names]
    for outcome, mark in (
        (of_zip, "failed"),
        (told(*refused, reached=Phase.UPLOAD), "failed"),
        (told(*late, reached=Phase.UPLOAD), "late"),
    ):
        lines = shown(outcome)
        assert len(lines) == 21
        assert all(
            line.startswith(f"{mark:<6}  {KEY}: {name}") for line, name in zip(lines[:20], names[:20], strict=True)
        )
        assert lines[-1] == f"        ... and 30 more documents: dcc show {KEY}"


def test_the_last_state_of_a_document_counts() -> None:
    report = SessionOutput()
    said = {"experiments": 2, "measurements": 34}
    report.add_data(told(document(Phase.UPLOAD, Status.DONE, said=said), reached=Phase.UPLOAD))
    report.add_data(told(document(Phase.QC, Status.PENDING, said=said), reached=Phase.QC))
    shown = report.as_json(1, EndReason.FINISHED)
    assert shown["zip_actions"] == [{"phase": Phase.QC, "status": Status.PENDING, "count": 1}]
    assert shown["xml_files"] == [{"phase": Phase.QC, "status": Status.PENDING, "count": 1}]
    assert shown["data"] == said
    assert report.exit_code(EndReason.FINISHED) == 0
    assert "34 measurements uploaded" in report.line(1, EndReason.FINISHED)


def test_a_document_with_errors_is_a_problem_with_its_first_finding() -> None:
    findings = (
        FindingEntry("P11", Severity.WARNING, {"words": "a warning"}),
        FindingEntry("P9", Severity.ERROR, {"words": "waived"}, is_waived=True, waiver=1),
        FindingEntry("E4", Severity.ERROR, {"words": "Specimen S1 is not known."}, line=12),
    )
    counts = {("P11", Severity.WARNING): 1, ("E4", Severity.ERROR): 3}
    failed = document(Phase.DATA, Status.FAILED, findings=findings, finding_counts=counts)
    report = SessionOutput()
    report.add_data(told(failed, reached=Phase.DATA))
    (problem,) = report.problems
    assert (problem["kind"], problem["line"], problem["errors"]) == ("E4", 12, 3)
    assert report.exit_code(EndReason.FINISHED) == 1
    (line,) = lines_of(report)
    assert line == f"failed  {KEY}: {NAME}, line 12 at data: E4: Specimen S1 is not known. (and 2 more)"


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        (EndReason.FINISHED, "Session 1 (finished): No submission was waiting; "),
        (EndReason.FAULTS, "Session 1 (faults): No submission was processed; "),
        (None, "Session 1 (unknown): No submission was processed; "),
    ],
)
def test_only_a_finished_session_says_that_nothing_was_waiting(ended: EndReason | None, told: str) -> None:
    assert SessionOutput().line(1, ended).startswith(told)


def test_a_document_that_failed_earlier_is_not_told_of_twice() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.XSD, Status.FAILED), reached=Phase.UPLOAD))
    assert report.problems == []


def test_a_zip_action_that_other_documents_keep_failed_is_told_of_at_the_end() -> None:
    """One of two faulty documents is judged again, since its fault was waived, and is well."""
    report = SessionOutput()
    well = document(Phase.DATA, Status.DONE, cleared=1)
    report.add_data(ZipData(KEY, "H", Phase.DATA, Phase.DATA, Status.FAILED, (well,), 0.1, MOMENT))
    assert report.conclude() == report.problems
    (line, _note) = lines_of(report)
    assert line.startswith(f"failed  {KEY} at data: ")
    assert f"dcc show {KEY}" in line
    assert report.exit_code(EndReason.FINISHED) == 1
    assert report.conclude() == []


def test_what_was_told_of_a_zip_action_is_all_that_is_told_at_the_end() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.DATA, Status.FAILED), reached=Phase.DATA))
    assert (report.conclude(), len(report.problems)) == ([], 1)
    report = SessionOutput()
    report.add_data(told(document(Phase.QC, Status.PENDING), reached=Phase.QC))
    assert (report.conclude(), report.exit_code(EndReason.FINISHED)) == ([], 0)


def test_an_upload_that_failed_says_why() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.UPLOAD, Status.FAILED, reason="It cannot be read."), reached=Phase.UPLOAD))
    assert lines_of(report) == [f"failed  {KEY}: {NAME} at upload: It cannot be read."]


def test_what_is_held_asks_to_be_confirmed_and_what_is_late_is_noted() -> None:
    ended = {"experiment": 900}
    reason = held_problem(KEY, ended).message
    held = document(Phase.UPLOAD, Status.PENDING, held=True, ended=ended, late=True, reason=reason)
    report = SessionOutput()
    report.add_data(told(held, reached=Phase.UPLOAD))
    (held_line,) = lines_of(report)
    assert "900 experiments" in held_line
    assert f"dcc data confirm {KEY}" in held_line
    report = SessionOutput()
    report.add_data(told(held, reached=Phase.UPLOAD))
    report.add_data(told(document(Phase.UPLOAD, Status.DONE, late=True), reached=Phase.UPLOAD))
    assert lines_of(report)[1].startswith(f"late    {KEY}: {NAME}: Newer documents")
    assert report.exit_code(EndReason.FINISHED) == 1
    notes = report.as_json(1, EndReason.FINISHED)["notes"]
    assert notes == [{**report.notes[0], "kind": "late", "zip": str(KEY), "document": NAME}]


def test_a_late_document_that_was_refused_is_not_said_to_be_applied() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.UPLOAD, Status.FAILED, late=True, reason="No."), reached=Phase.UPLOAD))
    assert lines_of(report) == [f"failed  {KEY}: {NAME} at upload: No."]


def test_findings_that_hold_no_more_are_noted() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.DATA, Status.DONE, cleared=6), reached=Phase.DATA))
    (line,) = lines_of(report)
    assert line == f"healed  {KEY}: {NAME}: 6 findings of earlier sessions cleared."
    assert report.exit_code(EndReason.FINISHED) == 0


def test_how_the_contexts_changed_is_summed_up() -> None:
    report = SessionOutput()
    report.add_data(told(document(Phase.QC, Status.DONE), reached=Phase.QC))
    states = {ContextState.DATA_ADDED: 3}
    centres = (ContextCounts("H", states, added=3, changed=1), ContextCounts("J", states, added=2))
    report.add_data(ContextsBuilt(centres, 2, 0.1, MOMENT))
    assert report.as_json(1, EndReason.FINISHED)["contexts"] == {"added": 5, "changed": 1, "removed": 0}
    assert "contexts: 5 added, 1 changed" in report.line(1, EndReason.FINISHED)
    without_zips = SessionOutput()
    without_zips.add_data(ContextsBuilt(centres, 0, 0.1, MOMENT))
    assert without_zips.line(1, EndReason.FINISHED).endswith("; contexts: 5 added, 1 changed.")
