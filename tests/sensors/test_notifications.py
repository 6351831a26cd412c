"""The sensor that notifies: of what sessions do not tell themselves, and of nothing twice."""

from collections.abc import Callable

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned
from dagster._core.test_utils import create_run_for_test
from pydantic import SecretStr

from dcc.operations.archive_audits import audit_archives
from dcc.operations.session_work import open_session
from dcc.tracker.register import centres
from dcc_assets.archive_audits import AUDIT_JOB
from dcc_assets.definitions import asset_definitions
from dcc_assets.graph import REFERENCE_FRESH
from dcc_assets.jobs import CRAWL_JOB
from dcc_assets.reference import REFERENCE_JOB
from dcc_assets.runs import SESSION_TAG
from dcc_sensors.notifications import notifications
from tests.sensors.conftest import CENTRE, WRANGLER
from tests.support.asking import in_writing
from tests.support.dagster_instances import looked
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens
from tests.support.mail_server import MailServerForTests
from tests.support.ports import free_port

pytestmark = only_sqlite

Audit = Callable[[], dg.ExecuteInProcessResult]


@pytest.fixture(autouse=True)
def centres_are_told(server: MailServerForTests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCC_NOTIFY_CENTRES", "true")


def tick(instance: dg.DagsterInstance) -> str:
    """Have the sensor look; what it says."""
    said = looked(notifications, instance)
    assert isinstance(said, dg.SkipReason)
    assert said.skip_message is not None
    return said.skip_message


def subjects(server: MailServerForTests) -> list[str]:
    found = [str(message["Subject"]) for _, message in server.received]
    server.received.clear()
    return found


def test_runs_that_fail_outside_sessions_are_told_once_and_so_is_that_they_succeed(
    server: MailServerForTests, instance: dg.DagsterInstance
) -> None:
    create_run_for_test(instance, job_name=CRAWL_JOB, status=dg.DagsterRunStatus.FAILURE, tags={SESSION_TAG: "3"})
    create_run_for_test(instance, job_name=REFERENCE_JOB, status=dg.DagsterRunStatus.FAILURE)
    assert tick(instance) == "Notifications were sent: 1 by mail."
    assert subjects(server) == [f"DCC: Outage: Dagster's job {REFERENCE_JOB}"]
    create_run_for_test(instance, job_name=REFERENCE_JOB, status=dg.DagsterRunStatus.FAILURE)
    assert tick(instance) == "No new notifications."
    create_run_for_test(instance, job_name=REFERENCE_JOB, status=dg.DagsterRunStatus.SUCCESS)
    tick(instance)
    tick(instance)
    assert subjects(server) == [f"DCC: Back to normal: Dagster's job {REFERENCE_JOB}"]


def test_nobody_is_told_of_a_run_that_another_session_forestalled(
    server: MailServerForTests, instance: dg.DagsterInstance, installation: Installation
) -> None:
    """As that of a person who retries an archive just when the daemon begins a run."""
    crawl = asset_definitions().get_job_def(CRAWL_JOB)
    with open_session(installation.tracker, installation.settings):
        assert not crawl.execute_in_process(instance=instance, raise_on_error=False).success
    assert tick(instance) == "No new notifications."


def test_nobody_is_told_of_a_run_that_was_interrupted(
    server: MailServerForTests, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a daemon that is stopped before the run has a session: the next run does its work."""

    def stopped(*_: object) -> None:
        raise dg.DagsterExecutionInterruptedError

    monkeypatch.setattr("dcc_assets.jobs.recorded_work", stopped)
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        asset_definitions().get_job_def(CRAWL_JOB).execute_in_process(instance=instance)
    (run,) = instance.get_runs()
    assert (run.status, SESSION_TAG in run.tags) == (dg.DagsterRunStatus.FAILURE, False)
    assert tick(instance) == "No new notifications."


def test_a_run_that_fails_is_told_in_the_language_of_the_installation(
    server: MailServerForTests, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_LANGUAGE", "de")
    run = create_run_for_test(instance, job_name=REFERENCE_JOB, status=dg.DagsterRunStatus.FAILURE)
    tick(instance)
    ((_, letter),) = server.received
    assert letter["Subject"] == f"DCC: Ausfall: Dagsters Job {REFERENCE_JOB}"
    assert f"Sein letzter Lauf ({run.run_id[:8]}) ist" in letter.get_body(("plain",)).get_content()


@pytest.fixture
def audit(instance: dg.DagsterInstance) -> Audit:
    job = asset_definitions().resolve_job_def(AUDIT_JOB)
    return lambda: job.execute_in_process(instance=instance, raise_on_error=False)


def test_an_audit_that_breaks_off_is_told_once_and_so_is_the_next_that_does_not(
    server: MailServerForTests, instance: dg.DagsterInstance, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setenv("DCC_ARCHIVE_REPLICAS", "s3://")
            assert not audit().success
        tick(instance)
    assert subjects(server) == [f"DCC: Outage: Dagster's job {AUDIT_JOB}"]
    assert audit().success
    tick(instance)
    assert subjects(server) == [f"DCC: Back to normal: Dagster's job {AUDIT_JOB}"]


def test_an_archive_without_a_good_copy_is_told_once_and_that_it_is_whole_again(
    server: MailServerForTests, instance: dg.DagsterInstance, audit: Audit, installation: Installation
) -> None:
    folder = installation.add_folder()
    content = folder.put("add/H.2013-10-31.1.impc.zip")
    installation.run_session()
    server.received.clear()
    (copy,) = (installation.settings.home / "archive").glob("??/*")
    for path in (copy, installation.settings.staging_directory / "add/H.2013-10-31.1.impc.zip"):
        path.unlink()
    (folder.path / "add/H.2013-10-31.1.impc.zip").unlink()
    run = audit()
    evaluations = {one.check_name: one for one in run.get_asset_check_evaluations()}
    assert not run.success
    assert {name: one.passed for name, one in evaluations.items()} == {
        "archive_copies": False,
        "archive_replicas": True,
    }
    evaluation = evaluations["archive_copies"]
    assert (evaluation.metadata["archives"].value, evaluation.metadata["lost archives"].value) == (1, 1)
    (copies,) = evaluation.metadata["copies"].value.records
    assert {name: copies.data[name] for name in ("required", "good", "missing")} == {
        "required": "yes",
        "good": 0,
        "missing": 1,
    }
    for _ in range(2):
        tick(instance)
    assert subjects(server) == ["DCC: Outage: archive store"]
    copy.write_bytes(content)
    audit_archives(installation.tracker, installation.settings, "tester", everything=True)
    tick(instance)
    assert subjects(server) == ["DCC: Back to normal: archive store"]


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"message": dg.MetadataValue.text("It is 40 days old.")}, "It is 40 days old."),
        # Somebody reported it through Dagster.
        ({}, "It failed: see its page in Dagster."),
    ],
)
def test_a_check_that_fails_is_told_with_what_it_says_and_so_is_that_it_passes(
    server: MailServerForTests, instance: dg.DagsterInstance, metadata: dict[str, dg.MetadataValue], said: str
) -> None:
    check = next(iter(REFERENCE_FRESH.values()))

    def evaluate(passed: bool) -> None:
        instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=check.asset_key,
                check_name=check.name,
                passed=passed,
                severity=dg.AssetCheckSeverity.ERROR,
                metadata=metadata,
            )
        )

    for _ in range(2):
        evaluate(passed=False)
        tick(instance)
    ((_, message),) = server.received
    assert f"Outage: the check {check.name} of" in message["Subject"]
    body = message.get_body(("plain",))
    assert body is not None
    assert said in body.get_content()
    server.received.clear()
    instance.report_dagster_event(
        dg.DagsterEvent(
            dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value,
            REFERENCE_JOB,
            event_specific_data=AssetCheckEvaluationPlanned(asset_key=check.asset_key, check_name=check.name),
        ),
        run_id="under way",
    )
    assert tick(instance) == "No new notifications."
    for _ in range(2):
        evaluate(passed=True)
        tick(instance)
    assert [subject.startswith("DCC: Back to normal: the check") for subject in subjects(server)] == [True]


def test_what_a_session_told_is_not_told_again_and_what_it_could_not_tell_is(
    server: MailServerForTests,
    installation: Installation,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_writing(installation.tracker, centres.change_centre, "H", email=CENTRE)
    folder = installation.add_folder("H")
    folder.put("add/H.2013-10-31.1.impc.zip", specimens())
    asked = {"notify_centres": True, "notify_to": WRANGLER, "report_from": "dcc@dcc.example", "until": "xsd"}
    monkeypatch.setenv("DCC_UNTIL", "xsd")
    monkeypatch.setenv("DCC_REPORT_FROM", "dcc@dcc.example")
    down = installation.with_settings(**asked, smtp_url=SecretStr(f"smtp://127.0.0.1:{free_port()}"))
    session = down.run_session().id
    tick(instance)
    assert subjects(server) == [f"H: 1 archive accepted (session {session})"]
    assert tick(instance) == "No new notifications."


def test_a_tracker_that_is_away_is_told(
    server: MailServerForTests, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_TRACKER_URL", f"mysql://dcc:x@127.0.0.1:{free_port()}/tracker")
    monkeypatch.setenv("DCC_DATABASE_RETRY", "0.1")
    for _ in range(2):
        tick(instance)
    assert subjects(server) == ["DCC: Outage: tracker database"]
