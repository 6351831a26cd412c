"""What a session that died had not told Dagster of submissions, the next one does."""

from dagster import AssetKey, DagsterInstance
from dagster._core.event_api import AssetRecordsFilter

from dcc_assets.sessions import run_session
from dcc_assets.sync.consistency import check_events
from dcc_dagster.instance import open_instance
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.healthy_installation import GOOD, INVALID, MISNAMED


@only_sqlite
def test_what_no_session_told_is_shown_by_the_next_and_only_once(data: DataInstallation) -> None:
    data.put(GOOD, specimens(), experiments())
    data.folder.put(INVALID, {"H.2013-11-03.1.specimen.impc.xml": b"<no/>"})
    data.folder.put(MISNAMED, b"whatever")
    # As one that is killed before it has told of anything: the tracker has it all.
    data.validate()

    with open_instance(data.settings) as instance:
        run_session(data.settings, data.tracker, instance)
        assert check_events(data.tracker, data.settings, instance) == []
        assert times_materialised(instance, "validated_documents", GOOD) == 1

        data.put("add/H.2013-11-06.1.impc.zip", specimens("2013-11-06.1", first=20))
        run_session(data.settings, data.tracker, instance)
        assert check_events(data.tracker, data.settings, instance) == []
        assert [
            times_materialised(instance, asset, GOOD) for asset in ("zip_actions", "zip_downloads", "xml_documents")
        ] == [1] * 3
        assert times_materialised(instance, "zip_actions", "add/H.2013-11-06.1.impc.zip") == 1


def times_materialised(instance: DagsterInstance, asset: str, partition: str) -> int:
    """How often a partition has been materialised."""
    wanted = AssetRecordsFilter(AssetKey(asset), asset_partitions=[partition])
    return len(instance.fetch_materializations(wanted, limit=10).records)
