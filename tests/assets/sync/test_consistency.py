"""What Dagster shows is held against the tracker and the QC database."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from dagster import AssetKey, DagsterInstance

from dcc.operations.consistency.inconsistency import CONSISTENCY_RULES
from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc_assets.graph import CHECK_OF_PHASE, ZIP_ACTION_PARTITIONS
from dcc_assets.sync.consistency import check_events
from dcc_assets.sync.rebuild import rebuild_instance
from dcc_dagster.event_recorder import EventRecorder, RunStep
from dcc_dagster.instance import open_instance
from dcc_dagster.partition_events import CheckVerdict, PartitionReport
from tests.support.dagster_instances import Dagster
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.healthy_installation import FAULTY, GOOD, HELD, INVALID, MISNAMED

DOCUMENT_ASSETS = ("zip_downloads", "validated_documents", "uploaded_data", "data_integrity", "qc")


@pytest.fixture
def shown(data: DataInstallation) -> Iterator[DagsterInstance]:
    """The Dagster instance of an installation whose sessions it has seen, good and bad submissions among them."""
    data.put(GOOD, specimens(), experiments())
    data.put(FAULTY, experiments("2013-11-02.1", first=50))
    data.folder.put(INVALID, {"H.2013-11-03.1.specimen.impc.xml": b"<no/>"})
    data.folder.put(MISNAMED, b"whatever")
    with open_instance(data.settings) as instance:
        Dagster(instance).session(data)
        yield instance


def test_what_dagster_does_not_show_is_said_and_nothing_else(data: DataInstallation, shown: DagsterInstance) -> None:
    """One test, since a session takes seconds: each step damages what the one before left."""

    def found(instance: DagsterInstance = shown) -> set[tuple[str, str]]:
        return {(one.rule, one.subject) for one in check_events(data.tracker, data.settings, instance)}

    assert found() == set()
    facts = Dagster(shown).facts(*DOCUMENT_ASSETS)

    _evaluate(shown, GOOD, passed=False)
    assert found() == {("C22", GOOD)}, "a check fails for what is fine"
    _evaluate(shown, GOOD, passed=True)
    _evaluate(shown, INVALID, passed=True)
    assert found() == {("C22", INVALID)}, "a check passes for what is not"

    shown.delete_dynamic_partition(str(ZIP_ACTION_PARTITIONS.name), MISNAMED)
    assert found() == {("C22", INVALID), ("C20", MISNAMED)}, "a partition is gone"

    shown.wipe_assets([AssetKey("qc")])
    assert found() == {("C22", INVALID), ("C20", MISNAMED), ("C21", GOOD)}, "a materialisation is gone"

    shown.delete_dynamic_partition(str(ZIP_ACTION_PARTITIONS.name), GOOD)
    gone = [one.subject for one in check_events(data.tracker, data.settings, shown) if one.rule == "C20"]
    assert sorted(gone) == sorted([GOOD, MISNAMED]), "each is named once"

    with open_session(data.tracker, data.settings):
        assert found() == set(), "what a session is at is not looked at"

    report = rebuild_instance(data.settings, data.tracker, shown)
    assert (report.zip_actions, report.failed) == (4, 3)
    assert found() == set(), "all is shown again"
    assert Dagster(shown).facts(*DOCUMENT_ASSETS) == facts

    elsewhere = {"home": data.settings.home / "elsewhere", "dagster_url": None}
    with open_instance(data.settings.model_copy(update=elsewhere)) as new:
        assert {rule for rule, _ in found(new)} == {"C20", "C21", "C22"} <= set(CONSISTENCY_RULES)


def test_what_people_changed_since_the_last_session_is_left_to_the_next_one(data: DataInstallation) -> None:
    held = data.with_settings(hold_threshold=1)
    with open_instance(held.settings) as instance:

        def run() -> set[str]:
            """A session; what does not hold after it."""
            Dagster(instance).session(held)
            return rules()

        def rules() -> set[str]:
            return {one.rule for one in check_events(held.tracker, held.settings, instance)}

        held.put(GOOD, specimens(), experiments())
        held.put(FAULTY, experiments("2013-11-02.1", first=50))
        assert run() == set()
        held.put(HELD, specimens("2013-11-05.1"))
        assert run() == set()
        held.confirm(HELD, author="wrangler", reason="agreed")
        assert rules() == set()
        assert run() == set()
        held.withdraw(GOOD, author="wrangler", reason="a mistake")
        assert rules() == set()
        _evaluate(instance, FAULTY, passed=False)
        assert rules() == {"C22"}, "what nobody changed must be shown"
        _evaluate(instance, FAULTY, passed=True)
        assert run() == set()


def _evaluate(instance: DagsterInstance, partition: str, *, passed: bool) -> None:
    """Have the check of the XML schema say something of a partition, in a run of its own."""
    verdict = CheckVerdict(CHECK_OF_PHASE[Phase.XSD], "", passed=passed, always=True)
    with EventRecorder(instance, RunStep(str(uuid4()), "job", "step")) as recorder:
        recorder.record([PartitionReport(partition, (), (verdict,))])
