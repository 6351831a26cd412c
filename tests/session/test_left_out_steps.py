"""Steps that settings leave out: cancelled with the reason; what follows goes on where it can; made up for later."""

from collections.abc import Sequence

import pytest

from dcc.errors import ConfigurationError
from dcc.operations.consistency.check import check_consistency
from dcc.operations.consistency.qc_rules import document_states, finding_logs
from dcc.phases import Phase
from dcc.qc import models
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.model import Outcome, Standing
from dcc.session.data import document_phases
from dcc.session.data.data_session import DataSession
from dcc.session.data.upload_order import DueDocument
from dcc.settings import load_settings
from dcc.tracker.hostings.changed_archives import loaded_submissions
from dcc.tracker.queries.submission_stories import submission_story
from dcc_assets.metadata.documents import data_report
from dcc_assets.sync.document_records import recorded_data
from tests.support.asking import in_both
from tests.support.data_installations import (
    EXPERIMENTS,
    SPECIMENS,
    WHOLE_WAY,
    DataInstallation,
    experiments,
    key_of,
    specimens,
)
from tests.support.installations import MODIFIED, Fetches

ZIP = "add/H.2013-10-31.1.impc.zip"
REASON = "The step {} is left out for this file source or group of centres (DCC_LEFT_OUT_STEPS)."


@pytest.mark.both_databases(first_only=True)
@pytest.mark.parametrize(
    ("step", "last", "contexts", "documents"),
    [
        (Phase.DATA, Phase.QC, True, 2),
        (Phase.UPLOAD, Phase.UPLOAD, False, 0),
        (Phase.CONTEXT, Phase.CONTEXT, False, 2),
        (Phase.OVERVIEW, Phase.QC, True, 2),
    ],
    ids=lambda value: value.short_name if isinstance(value, Phase) else "",
)
def test_a_step_that_is_left_out_is_cancelled_and_made_up_for(
    data: DataInstallation, step: Phase, last: Phase, contexts: bool, documents: int
) -> None:
    data.validate(ZIP, specimens(), experiments())
    careless = data.with_settings(left_out_steps=step.short_name)
    result = careless.take_up()
    expected = [(phase, state) for phase, state in WHOLE_WAY.items() if phase <= last]
    expected[expected.index((step, WHOLE_WAY[step]))] = step, f"{step.short_name} cancelled"
    assert result.told(ZIP) == expected
    assert data.states() == {ZIP: expected[-1][1]}
    assert bool(data.rows(models.CONTEXT, "id")) is contexts
    assert len(data.rows(models.DOCUMENT, "id")) == documents
    assert bool(data.rows(models.OVERVIEW_GENOTYPE, "centre")) is (contexts and step is not Phase.OVERVIEW)
    assert data.last_session()[0] == 0

    # The reason stays with the document, whatever follows, and no error is counted.
    kind = f"left_out_{step.short_name}"
    assert data.log(EXPERIMENTS) == [kind]
    reached = result.document(EXPERIMENTS, step)
    assert (reached.left_out, reached.reason) == ((step,), REASON.format(step.short_name))
    with data.tracker.connect() as connection, data.qc.connect() as qc:
        (problem,) = next(one for one in submission_story(connection, key_of(ZIP)).documents if one.errors).errors
        report = collect_submission(connection, qc, key_of(ZIP), data.settings)
        assert [*document_states(connection, qc), *finding_logs(connection, qc, 1_000)] == []
        assert loaded_submissions(connection, [1]) == ({1} if documents else set())
    assert (REASON.format(step.short_name) in str(problem), problem.is_error) == (True, False)
    assert {each.standing for each in report.documents[0].steps if each.phase is step} == {Standing.LEFT_OUT}
    assert (report.outcome is Outcome.LEFT_OUT) is (last is not Phase.QC)
    assert {one.errors for one in report.documents} == {0}

    # Another session leaves it at that; one without the setting makes up for it.
    assert careless.take_up().told(ZIP) == []
    data.take_up()
    assert data.states() == {ZIP: "qc pending"}
    assert data.documents() == {SPECIMENS: "qc done", EXPERIMENTS: "qc pending"}
    assert (data.log(EXPERIMENTS), data.log(EXPERIMENTS, cleared=True)) == ([], [kind])
    assert data.rows(models.CONTEXT, "id")
    assert data.rows(models.OVERVIEW_GENOTYPE, "centre")


def test_an_archive_whose_upload_is_left_out_is_taken_anew_when_it_changes(data: DataInstallation) -> None:
    data.put(ZIP, specimens())
    careless = data.with_settings(left_out_steps="upload")
    data.validate()
    careless.take_up()
    data.folder.put(ZIP, specimens(mice=5), MODIFIED + 60)
    data.run()
    assert data.states() == {ZIP: "qc done"}
    assert len(data.rows(models.SPECIMEN, "id")) == 5


@pytest.mark.both_databases
def test_what_changed_before_its_data_were_uploaded_is_not_uploaded_as_it_was_while_it_cannot_be_fetched(
    data: DataInstallation, fetches: Fetches
) -> None:
    data.validate(ZIP, specimens())
    data.folder.put(ZIP, specimens(mice=5), MODIFIED + 60)
    fetches.away.add(data.folder.path.name)
    once = data.with_settings(max_retries=0)
    for _ in range(2):
        once.run()
        assert (data.states(), data.rows(models.SPECIMEN, "id")) == ({ZIP: "download failed"}, [])
        assert check_consistency(data.tracker, data.qc, data.settings) == []
    fetches.away.clear()
    once.run()
    assert data.states() == {ZIP: "qc done"}
    assert len(data.rows(models.SPECIMEN, "id")) == 5


@pytest.mark.parametrize(
    ("setting", "left_out", "others"),
    [
        ("europe=context; 99=context", True, False),
        ("{source} = context ; overview", True, False),
        ("context,overview", True, True),
    ],
)
def test_steps_are_left_out_for_a_group_or_a_source(
    data: DataInstallation, setting: str, left_out: bool, others: bool
) -> None:
    data.put(ZIP, specimens(), experiments())
    other = data.base.add_folder("J", "other")
    other.put("add/J.2013-10-31.1.impc.zip", specimens(centre="J") | experiments(centre="J"))
    data.validate()
    groups = "europe=H;asia=J"
    data.with_settings(groups=groups, left_out_steps=setting.format(source=data.folder.source_id)).take_up()
    of_h, of_j = ("context cancelled" if out else "qc pending" for out in (left_out, others))
    assert data.states() == {ZIP: of_h, "add/J.2013-10-31.1.impc.zip": of_j}
    assert {centre for (centre,) in data.rows(models.CONTEXT, "centre")} == {
        centre for centre, out in (("H", left_out), ("J", others)) if not out
    }


def test_without_checks_data_count_until_they_are_checked_also_what_the_upload_refused_in_part(
    data: DataInstallation,
) -> None:
    data.validate(ZIP, specimens(), specimens("2013-10-31.2", first=3), experiments(first=70))
    data.with_settings(left_out_steps="data").take_up()
    assert data.states() == {ZIP: "qc pending"}
    assert data.rows(models.FINDING, "rule") == [("S13",)]
    assert check_consistency(data.tracker, data.qc, data.settings) == []
    data.take_up()
    assert data.states() == {ZIP: "data failed"}
    assert ("E4",) in data.rows(models.FINDING, "rule")


def test_what_is_left_out_is_recorded_in_portions(data: DataInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed session loses the last ones at most."""
    accept = document_phases._accept_unchecked

    def accept_the_first(work: DataSession, documents: Sequence[DueDocument]) -> None:
        if documents[0].name.file_name != SPECIMENS:
            raise KeyboardInterrupt
        accept(work, documents)

    monkeypatch.setattr(document_phases, "_PORTION", 1)
    monkeypatch.setattr(document_phases, "_accept_unchecked", accept_the_first)
    data.validate(ZIP, specimens(), experiments())
    with pytest.raises(KeyboardInterrupt):
        data.with_settings(left_out_steps="data").take_up()
    assert data.documents() == {SPECIMENS: "data cancelled", EXPERIMENTS: "upload done"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("xsd", "'xsd' is no step that can be left out. These can: upload, data, context, overview"),
        ("overview;qc", "'qc' is no step that can be left out"),
        ("europe=download", "'download' is no step that can be left out"),
        ("africa=data", "'africa' is neither the id of a file source nor a group of DCC_GROUPS"),
        ("europe=", "'' is no step that can be left out"),
    ],
)
def test_other_steps_cannot_be_left_out(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_settings(groups="europe=H", left_out_steps=text)
    assert said in str(refused.value)
    assert "DCC_LEFT_OUT_STEPS" in str(refused.value)


def test_steps_of_a_group_or_source_that_is_named_twice_are_left_out_together() -> None:
    settings = load_settings(groups="europe=H", left_out_steps="europe=context;3=context;europe=data;3=data")
    both = {Phase.DATA, Phase.CONTEXT}
    assert [settings.steps_left_out.of("H", 1), settings.steps_left_out.of("J", 3)] == [both, both]


def test_dagster_shows_what_was_left_out_as_cancelled_with_the_reason(data: DataInstallation) -> None:
    data.validate(ZIP, specimens(), experiments())
    for step in (Phase.UPLOAD, Phase.DATA, Phase.CONTEXT):
        result = data.with_settings(left_out_steps=step.short_name).take_up()
        (outcome,) = [one for one in result.zips if one.reached is step]
        (recorded,) = [one for one in in_both(data, recorded_data) if one.reached is step]
        told, rebuilt = data_report(outcome), data_report(recorded)
        assert told is not None
        assert rebuilt is not None
        for report in (told, rebuilt):
            said = {one.description for one in (*report.verdicts, *report.materialised)}
            assert said == {f"Cancelled for 2 documents. {REASON.format(step.short_name)}"}
            assert {(verdict.passed, verdict.severity.value) for verdict in report.verdicts} <= {(False, "WARN")}
            assert bool(report.verdicts) is (step is not Phase.CONTEXT)
