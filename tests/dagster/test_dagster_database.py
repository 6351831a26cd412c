"""Dagster's database on MariaDB: made by `dcc init` alone, checked before use, and roomy enough."""

import time
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from dcc.errors import (
    ConfigurationError,
    DagsterStorageOutdatedError,
    DagsterUnreachableError,
    DatabaseServerUnfitError,
)
from dcc.settings import Settings
from dcc_dagster.dagster_database import head_revision, init_dagster_database
from dcc_dagster.instance import open_instance
from dcc_dagster.mysql_storage import BatchingMysqlEventLogStorage, PatientMysqlStorage
from tests.support.databases import PASSWORD, MariaDb, only_mariadb

pytestmark = only_mariadb


@pytest.fixture
def new_url(mariadb: MariaDb, settings: Settings) -> Iterator[str]:
    """URL of a database that does not exist yet."""
    yield mariadb.url("dagster_anew")
    mariadb.query("DROP DATABASE IF EXISTS dagster_anew")


def with_url(settings: Settings, url: str | None) -> Settings:
    return settings.model_copy(update={"dagster_url": None if url is None else SecretStr(url)})


def test_it_is_made_once_and_only_by_init(new_url: str, settings: Settings, mariadb: MariaDb) -> None:
    with pytest.raises(DagsterUnreachableError, match="Unknown database"):
        open_instance(with_url(settings, new_url))
    mariadb.query("CREATE DATABASE dagster_anew CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    with pytest.raises(DagsterStorageOutdatedError, match="holds no Dagster storage"):
        open_instance(with_url(settings, new_url))
    assert mariadb.query("SHOW TABLES", "dagster_anew") == []
    made = init_dagster_database(new_url)
    assert (made.created, made.from_revision, made.to_revision) == (True, None, head_revision())
    again = init_dagster_database(new_url)
    assert (again.created, again.from_revision) == (False, head_revision())
    narrow = "SELECT 1 FROM information_schema.columns WHERE table_schema = 'dagster_anew' AND data_type = 'blob'"
    assert mariadb.query(narrow) == []
    with open_instance(with_url(settings, new_url)) as instance:
        assert instance.get_runs() == []


@pytest.mark.parametrize(
    ("revision", "said"),
    [("7e2f3204cf8e", "Stop everything, then bring it up to date"), ("0123456789ab", "does not know")],
)
def test_tables_of_another_version_are_refused(
    dagster_url: str, settings: Settings, mariadb: MariaDb, revision: str, said: str
) -> None:
    mariadb.query(f"UPDATE alembic_version SET version_num = '{revision}'", make_url(dagster_url).database)
    with pytest.raises(DagsterStorageOutdatedError, match=said):
        open_instance(settings)


@pytest.mark.usefixtures("settings")
def test_a_database_that_is_refused_keeps_no_connection(new_url: str, mariadb: MariaDb) -> None:
    mariadb.query("CREATE DATABASE dagster_anew CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    with pytest.raises(DagsterStorageOutdatedError) as refused:
        PatientMysqlStorage(new_url)
    end = time.monotonic() + 5
    left = "SELECT id FROM information_schema.processlist WHERE db = 'dagster_anew'"
    # The error holds what was open when it was raised; the server takes a moment to forget a connection.
    while mariadb.query(left) and time.monotonic() < end:
        time.sleep(0.05)
    assert mariadb.query(left) == [], refused.value


def test_a_database_of_something_else_is_refused(new_url: str, settings: Settings, mariadb: MariaDb) -> None:
    mariadb.query("CREATE DATABASE dagster_anew CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    mariadb.query("CREATE TABLE orders (id INT)", "dagster_anew")
    with pytest.raises(ConfigurationError, match="holds something else"):
        init_dagster_database(new_url)
    with pytest.raises(ConfigurationError, match="holds something else"):
        open_instance(with_url(settings, new_url))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("CHARACTER SET latin1", "character set latin1, which cannot hold every name"),
        ("CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "takes names for the same that differ in case"),
    ],
)
def test_a_database_that_names_would_suffer_in_is_refused(
    new_url: str, settings: Settings, mariadb: MariaDb, options: str, said: str
) -> None:
    mariadb.query(f"CREATE DATABASE dagster_anew {options}")
    for use in (lambda: init_dagster_database(new_url), lambda: open_instance(with_url(settings, new_url))):
        with pytest.raises(DatabaseServerUnfitError, match=f"{said}.*CREATE DATABASE `dagster_anew` CHARACTER SET"):
            use()


def test_a_server_that_is_away_or_a_wrong_password_is_said_at_once(settings: Settings, mariadb: MariaDb) -> None:
    began = time.monotonic()
    away = make_url(mariadb.url("dagster")).set(port=1)
    with pytest.raises(DagsterUnreachableError, match="Check that the server runs and that DCC_DAGSTER_URL is right"):
        open_instance(with_url(settings, away.render_as_string(hide_password=False)))
    wrong = make_url(mariadb.url("dagster")).set(password="wrong")
    with pytest.raises(DagsterUnreachableError, match="Check the user name and password in DCC_DAGSTER_URL"):
        open_instance(with_url(settings, wrong.render_as_string(hide_password=False)))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("url", ["sqlite:////tmp/dagster.db", "oracle://dcc:secret@host/x", "no url: secret"])
def test_a_url_that_names_no_server_is_refused_without_telling_it(settings: Settings, url: str) -> None:
    with pytest.raises(ConfigurationError, match="DCC_DAGSTER_URL") as caught:
        open_instance(with_url(settings, url))
    assert "secret" not in str(caught.value)


def test_a_configuration_and_a_url_that_contradict_each_other_are_said(settings: Settings) -> None:
    path = settings.dagster_home / "dagster.yaml"
    with open_instance(settings) as instance:
        assert isinstance(instance.event_log_storage, BatchingMysqlEventLogStorage)
    text = path.read_text("utf-8")
    assert "env: DCC_DAGSTER_URL" in text
    assert PASSWORD not in text
    with pytest.raises(ConfigurationError, match=r"dagster\.yaml has Dagster keep everything .* Set it"):
        open_instance(with_url(settings, None))
    path.write_text("telemetry:\n  enabled: false\n", "utf-8")
    with pytest.raises(ConfigurationError, match=r"does not use it.*dcc init --production --force"):
        open_instance(settings)
    assert path.read_text("utf-8") == "telemetry:\n  enabled: false\n"


def test_no_view_of_the_instance_holds_the_password(settings: Settings) -> None:
    """The configuration page of the UI is made of these."""
    with open_instance(settings) as instance:
        assert PASSWORD not in instance.info_str()
        assert PASSWORD not in repr(instance.get_ref())
        assert "DCC_DAGSTER_URL" in repr(instance.get_ref())
