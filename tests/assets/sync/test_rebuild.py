"""A lost Dagster instance is rebuilt from the tracker, and shows what the lost one showed."""

import re
import shutil
import signal
import time

import pytest

from dcc.errors import DagsterStorageError, SessionActiveError, TrackerUnreachableError
from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc.tracker.register.file_sources import change_source
from dcc_assets.graph import CHECK_OF_PHASE, CRAWL_OVERDUE, REACHABLE
from dcc_assets.sync.rebuild import rebuild_instance
from dcc_dagster.instance import open_instance
from tests.assets.test_session_in_dagster import ALL, INVALID, put_all_kinds
from tests.support.asking import in_writing
from tests.support.dagster_instances import Dagster, lose_instance
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.raising import raising

ASSETS = ("file_source_listings", "zip_actions", "zip_downloads", "xml_documents", "validated_documents")
XSD = list(CHECK_OF_PHASE.values())[-1]


def shown(dagster: Dagster) -> dict[str, object]:
    return {
        "partitions": [sorted(dagster.instance.get_dynamic_partitions(n)) for n in ("file_sources", "zip_actions")],
        "materialised": {asset: dagster.materialised(asset) for asset in ASSETS},
        "checks": {check: dagster.checks(check) for check in (REACHABLE, CRAWL_OVERDUE, *CHECK_OF_PHASE.values())},
        "facts": dagster.facts("file_source_listings", "xml_documents", "validated_documents"),
        "first listed": {key: facts.get("first listed") for key, facts in dagster.facts("zip_actions").items()},
    }


def test_it_shows_what_the_lost_one_showed(installation: Installation) -> None:
    put_all_kinds(installation)
    in_writing(installation.tracker, change_source, 1, every="6h")
    lost = installation.add_folder("J", "lost")
    shutil.rmtree(lost.path)
    with open_instance(installation.settings) as instance:
        Dagster(instance).session(installation, until=Phase.XSD)
        before = shown(Dagster(instance))
        evaluation = Dagster(instance).evaluation(XSD, INVALID)
        listed = Dagster(instance).facts("zip_actions")["zip_actions", INVALID]["first listed"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC, by file source 1 \(H, file://localhost\)", str(listed))
    lose_instance(installation.settings)

    said: list[str] = []
    with open_instance(installation.settings) as instance:
        assert shown(Dagster(instance)) != before
        report = rebuild_instance(installation.settings, installation.tracker, instance, said.append)
        assert shown(Dagster(instance)) == before
        again = Dagster(instance).evaluation(XSD, INVALID)
        assert (again.description, again.metadata["errors"], again.metadata["documents"]) == (
            evaluation.description,
            evaluation.metadata["errors"],
            evaluation.metadata["documents"],
        )
        # What was wrong is recorded by partition: told twice it is still one result.
        rebuild_instance(installation.settings, installation.tracker, instance)
        assert shown(Dagster(instance)) == before
    assert (report.file_sources, report.zip_actions, report.failed) == (2, len(ALL), len(ALL) - 1)
    assert said == [f"Dagster shows 2 file sources and {len(ALL)} submissions, {len(ALL) - 1} of them failed."]


@pytest.mark.both_databases
def test_it_shows_an_asset_again_that_somebody_wiped(installation: Installation, dagster: Dagster) -> None:
    put_all_kinds(installation)
    dagster.session(installation, until=Phase.XSD)
    before = shown(dagster)
    time.sleep(1.1)  # The tracker has whole seconds.
    dagster.instance.wipe_assets([CHECK_OF_PHASE[Phase.XSD].asset_key])
    assert shown(dagster) != before
    rebuild_instance(installation.settings, installation.tracker, dagster.instance)
    assert shown(dagster) == before


@only_sqlite
def test_it_does_not_run_beside_a_session(installation: Installation, dagster: Dagster) -> None:
    """Which shows an archive as it is now, before this shows it as it was."""
    with (
        open_session(installation.tracker, installation.settings) as session,
        pytest.raises(SessionActiveError, match=f"Session {session.id} is active"),
    ):
        rebuild_instance(installation.settings, installation.tracker, dagster.instance)
    rebuild_instance(installation.settings, installation.tracker, dagster.instance)


@pytest.mark.parametrize(
    ("broken", "error", "expected"),
    [
        (
            "dcc_assets.sync.rebuild.recorded_reports",
            TrackerUnreachableError("The tracker is away."),
            TrackerUnreachableError,
        ),
        ("dcc_dagster.event_recorder.EventRecorder._write", OSError("disk full"), DagsterStorageError),
    ],
)
def test_what_fails_is_said_by_its_name_and_by_the_caller_alone(
    installation: Installation,
    dagster: Dagster,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    broken: str,
    error: Exception,
    expected: type[Exception],
) -> None:
    installation.add_folder()
    installation.crawl()
    monkeypatch.setattr(broken, raising(error))
    with pytest.raises(expected, match=str(error)):
        rebuild_instance(installation.settings, installation.tracker, dagster.instance)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_ends_it_as_it_ends_other_commands(
    installation: Installation, dagster: Dagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster raises one of its own in the place of KeyboardInterrupt."""
    monkeypatch.setattr("dcc_assets.sync.rebuild.recorded_reports", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        rebuild_instance(installation.settings, installation.tracker, dagster.instance)
