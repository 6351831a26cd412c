"""A session while Dagster's database is away: nothing is lost, and the next one shows it."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from dcc.cli.sessions.crawl import run_session as cli_session
from dcc.errors import DagsterStorageError
from dcc.naming import Action
from dcc.outcomes import SubmissionOutcome
from dcc.phases import Phase
from dcc.session.session_request import Listeners, SessionRequest
from dcc_dagster.instance import open_instance
from tests.support.dagster_instances import Dagster, Heard
from tests.support.databases import MariaDb, only_sqlite
from tests.support.installations import Folder, Installation, specimens
from tests.support.prepared_databases import PreparedDatabases

COUNT = 6


def put_some(folder: Folder, first: int = 1) -> set[str]:
    keys = {f"{Action.ADD}/H.2013-10-31.{number}.impc.zip" for number in range(first, first + COUNT)}
    for number, key in enumerate(sorted(keys), first):
        folder.put(key, specimens(stem=f"2013-10-31.{number}"))
    return keys


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

    def stop(outcome: SubmissionOutcome) -> None:
        heard.zips.append(outcome)
        if len(heard.zips) == 1:
            mariadb.stop()

    with (
        open_instance(elsewhere.settings) as instance,
        pytest.raises(DagsterStorageError, match=r"is done and in the tracker.*the next session shows it"),
    ):
        Dagster(instance).session(elsewhere, until=Phase.XSD, listeners=Listeners(on_submission=stop))
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
        assert Dagster(instance).materialised("validated_documents") == keys | later
    assert len(heard.zips) == 2 * COUNT
