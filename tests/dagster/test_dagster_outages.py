"""A session whose databases restart or stay away, Dagster's among them: nothing is lost, nothing is there twice."""

from collections import Counter
from collections.abc import Iterator

import pytest
from dagster import AssetKey, AssetRecordsFilter
from pydantic import SecretStr

from dcc.cli.sessions.crawl import run_session as cli_session
from dcc.data_outcomes import DataOutcome
from dcc.errors import DagsterStorageError
from dcc.naming import Action
from dcc.outcomes import ZipOutcome
from dcc.phases import Phase
from dcc.qc.models import SPECIMEN
from dcc.session.session_request import Listeners, SessionRequest
from dcc_assets.graph import VALIDATED_DOCUMENTS
from dcc_dagster.instance import open_instance
from tests.support.asking import count_in
from tests.support.dagster_instances import Dagster, Heard
from tests.support.data_installations import DataInstallation
from tests.support.data_installations import specimens as data_specimens
from tests.support.databases import MariaDb, only_mariadb, only_sqlite
from tests.support.installations import Folder, Installation, specimens
from tests.support.prepared_databases import PreparedDatabases

COUNT = 6


def put_some(folder: Folder, first: int = 1) -> set[str]:
    keys = {f"{Action.ADD}/H.2013-10-31.{number}.impc.zip" for number in range(first, first + COUNT)}
    for number, key in enumerate(sorted(keys), first):
        folder.put(key, specimens(stem=f"2013-10-31.{number}"))
    return keys


def materialisations(dagster: Dagster, asset: AssetKey = VALIDATED_DOCUMENTS) -> Counter[str | None]:
    """How often each partition of an asset was materialised."""
    found = dagster.instance.fetch_materializations(AssetRecordsFilter(asset), limit=1_000)
    return Counter(record.partition_key for record in found.records)


@only_mariadb
def test_a_server_that_restarts_while_data_are_taken_over_loses_nothing_and_doubles_nothing(
    data: DataInstallation, data_dagster: Dagster, mariadb: MariaDb
) -> None:
    """The QC database goes away too, between the documents of a session and between its phases."""
    keys = [f"add/H.2013-10-31.{number}.impc.zip" for number in (1, 2, 3)]
    for number, key in enumerate(keys, 1):
        data.put(key, data_specimens(f"2013-10-31.{number}", first=10 * number))
    heard: list[DataOutcome] = []

    def restart(outcome: DataOutcome) -> None:
        heard.append(outcome)
        if len(heard) in {2, 5}:
            mariadb.stop()
            mariadb.start()

    report = data_dagster.session(data, until=Phase.QC, listeners=Listeners(on_data=restart))
    assert len(report.run_ids) == 3
    assert data.base.states() == dict.fromkeys(keys, "qc done")
    assert count_in(data.qc, SPECIMEN) == 9
    assert set(materialisations(data_dagster, VALIDATED_DOCUMENTS)) == set(keys)
    assert {status.value for status in data_dagster.statuses()} == {"SUCCESS"}


@pytest.fixture
def elsewhere(
    installation: Installation, mariadb: MariaDb, prepared_databases: dict[str, PreparedDatabases]
) -> Iterator[Installation]:
    """The installation with its tracker here and Dagster's storage on a server that may stay away."""
    with prepared_databases["dagster"].lend() as url:
        try:
            yield installation.with_settings(dagster_url=SecretStr(url), database_retry=1.0, until="xsd")
        finally:
            mariadb.stop()
            mariadb.start()


@only_sqlite
def test_a_session_goes_on_without_dagster_and_the_next_one_shows_what_it_missed(
    elsewhere: Installation, heard: Heard, mariadb: MariaDb
) -> None:
    folder = elsewhere.add_folder()
    keys = put_some(folder)

    def stop(outcome: ZipOutcome) -> None:
        heard.zips.append(outcome)
        if len(heard.zips) == 1:
            mariadb.stop()

    with (
        open_instance(elsewhere.settings) as instance,
        pytest.raises(DagsterStorageError, match=r"is done and in the tracker.*the next session shows it"),
    ):
        Dagster(instance).session(elsewhere, until=Phase.XSD, listeners=Listeners(on_zip=stop))
    assert elsewhere.states() == dict.fromkeys(keys, "xsd done")
    assert len(heard.zips) == COUNT

    later = put_some(folder, first=COUNT + 1)
    nothing_heard = Listeners(heard.crawls.append, heard.zips.append)
    with pytest.raises(DagsterStorageError, match=r"was not shown it: The Dagster database mysql://.* could not be"):
        cli_session(elsewhere.tracker, elsewhere.settings, SessionRequest(listeners=nothing_heard))
    assert elsewhere.states() == dict.fromkeys(keys | later, "xsd done")

    mariadb.start()
    cli_session(elsewhere.tracker, elsewhere.settings, SessionRequest(listeners=nothing_heard))
    with open_instance(elsewhere.settings) as instance:
        assert set(materialisations(Dagster(instance))) == keys | later
    assert len(heard.zips) == 2 * COUNT
