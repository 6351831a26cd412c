"""`dcc init --production` on MariaDB: Dagster's tables, its configuration, and accounts that may do what they must.

The accounts are made from exactly what the command prints.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from dagster._daemon.types import DaemonHeartbeat
from pydantic import SecretStr
from sqlalchemy import make_url

from dcc.cli.installation import dagster_processes
from dcc.databases.grants import ACCOUNTS, unlock_statement
from dcc.settings import load_settings
from dcc_dagster.instance import open_instance
from tests.cli.conftest import Dcc
from tests.support.databases import MariaDb, only_mariadb, only_sqlite
from tests.support.installations import specimens

ACCOUNT_PASSWORD = "Pa55'word\\ of an account"
PASSWORDS = {account.name: ACCOUNT_PASSWORD for account in ACCOUNTS}
GOOD = "add/H.2013-10-31.1.impc.zip"


@dataclass
class Production:
    """An installation all on MariaDB, with the accounts of its grants."""

    dcc: Dcc
    server: MariaDb
    dagster_database: str

    def as_account(self, name: str, *variables: str) -> Dcc:
        """`dcc` as an account, with these database settings only (all three, if there are none)."""
        wanted = variables or ("DCC_TRACKER_URL", "DCC_QC_URL", "DCC_DAGSTER_URL")
        environment = {key: value for key, value in self.dcc.environment.items() if not key.endswith("_URL")}
        for variable in wanted:
            url = make_url(self.dcc.environment[variable]).set(username=name, password=ACCOUNT_PASSWORD)
            environment[variable] = url.render_as_string(hide_password=False)
        return replace(self.dcc, environment=environment, secrets=[*self.dcc.secrets, ACCOUNT_PASSWORD])

    def database(self, variable: str) -> str:
        """The name of a database."""
        return str(make_url(self.dcc.environment[variable]).database)

    def refused(self, account: str, statement: str, database: str) -> bool:
        """Whether the server refuses an account a statement, for want of a right."""
        try:
            with (
                pymysql.connect(
                    host="127.0.0.1",
                    port=self.server.port,
                    user=account,
                    password=ACCOUNT_PASSWORD,
                    database=database,
                ) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)
        except pymysql.err.OperationalError as error:
            if error.args[0] not in {1044, 1142, 1227}:
                raise
            return True
        return False


@pytest.fixture
def unmade(bare_dcc: Dcc, mariadb: MariaDb) -> Iterator[Production]:
    """An installation of which nothing is made."""
    name = f"dcc_dagster_{make_url(bare_dcc.environment['DCC_QC_URL']).database}"
    environment = {**bare_dcc.environment, "DCC_DAGSTER_URL": mariadb.url(name)}
    environment |= {"DCC_DAGSTER_EVENTS": "true", "DCC_UNTIL": "qc"}
    yield Production(replace(bare_dcc, environment=environment), mariadb, name)
    mariadb.query(f"DROP DATABASE IF EXISTS {name}")


@contextmanager
def accounts(server: MariaDb, printed: str, host: str = "%", unlocked: Mapping[str, str] = PASSWORDS) -> Iterator[None]:
    """The accounts of printed grants, as the administrator makes them; those without a password are locked."""
    with administrator(server) as connection, connection.cursor() as cursor:
        for statement in statements(printed):
            cursor.execute(statement)
        try:
            for name, password in unlocked.items():
                cursor.execute(unlock_statement(name, password, host))
            yield
        finally:
            for account in ACCOUNTS:
                cursor.execute(f"DROP USER '{account.name}'@'{host}'")


@pytest.fixture
def production(unmade: Production) -> Iterator[Production]:
    """The same with the accounts."""
    with accounts(unmade.server, unmade.dcc("init", "--production", "--grants").stdout):
        yield unmade


def administrator(server: MariaDb) -> pymysql.Connection[Any]:
    """A connection of the one who looks after the server."""
    return pymysql.connect(unix_socket=str(server.home / "socket"), user="root", charset="utf8mb4")


def statements(printed: str) -> list[str]:
    """The statements of a text of SQL with comments."""
    lines = [line for line in printed.splitlines() if line and not line.startswith("--")]
    assert all(line.endswith(";") for line in lines)
    return lines


@only_mariadb
def test_each_account_can_do_its_work_and_nothing_else(production: Production) -> None:
    as_init, as_sessions = production.as_account("dcc_init"), production.as_account("dcc_sessions")
    assert "rights" in as_sessions.error("init", "--production", exit_code=4)
    made = as_init.json("init", "--production")
    assert (made["created"], made["qc_database"]["created"], made["dagster"]["created"]) == (True, True, True)
    assert [word in " ".join(made["left"]) for word in ("dcc_sessions", "dcc source add", "dcc doctor")] == [True] * 3

    as_sessions("centre", "add", "H")
    as_sessions.collect({GOOD: specimens()})
    assert [row["status"] for row in as_sessions.json("zips")] == ["done"]
    as_sessions.json("instance", "rebuild")
    sets = as_sessions.root / "sets"
    as_sessions("backup", sets)
    denied = as_sessions.error("restore", sets, "--replace", "--yes", exit_code=4)
    assert "refused a statement: CREATE command denied to user 'dcc_sessions'" in denied
    assert "Use an account with this right, such as dcc_init: dcc init --production --grants" in denied
    assert as_init.json("restore", sets, "--replace", "--yes")["rows"] > 0
    assert as_init.json("init", "--production")["dagster"]["created"] is False

    tracker, qc = production.database("DCC_TRACKER_URL"), production.database("DCC_QC_URL")
    dagster = production.dagster_database
    for database in (tracker, qc, dagster):
        assert production.refused("dcc_sessions", "CREATE TABLE more (id INT)", database)
        assert production.refused("dcc_sessions", "DROP TABLE alembic_version", database)
        assert production.refused("dcc_sessions", "ALTER TABLE alembic_version ADD COLUMN more INT", database)
        assert production.refused("dcc_init", f"CREATE DATABASE {database}_more", database)
        assert production.refused("dcc_init", f"GRANT SELECT ON {database}.* TO 'dcc_ui'@'%'", database)
        assert production.refused("dcc_sessions", "SELECT 1 FROM mysql.user", database)
    for database in (tracker, qc):
        assert production.refused("dcc_ui", "SELECT 1", database)
    assert "Use an account with the rights for this command: " in production.as_account("dcc_ui").error(
        "status", exit_code=4
    )
    for database in (tracker, dagster):
        assert production.refused("dcc_analyst", "SELECT 1", database)
    for statement in ("DELETE FROM runs", "UPDATE runs SET status = 'x'", "CREATE TABLE more (id INT)"):
        assert production.refused("dcc_ui", statement, dagster)
    assert not production.refused("dcc_ui", "SELECT * FROM runs", dagster)
    for statement in ("DELETE FROM specimen", "INSERT INTO specimen (id) VALUES (1)", "DROP TABLE specimen"):
        assert production.refused("dcc_analyst", statement, qc)
    assert not production.refused("dcc_analyst", "SELECT COUNT(*) FROM specimen", qc)
    # Who asks for the past waits for what is being written.
    assert not production.refused("dcc_analyst", "SELECT * FROM upload_lock LOCK IN SHARE MODE", qc)


@only_mariadb
def test_accounts_are_locked_until_they_get_a_password(unmade: Production) -> None:
    printed = unmade.dcc("init", "--production", "--grants").stdout
    with accounts(unmade.server, printed, unlocked={}):
        for account in ACCOUNTS:
            assert f"ALTER USER '{account.name}'@'%' IDENTIFIED BY '...' ACCOUNT UNLOCK;" in printed
            with pytest.raises(pymysql.err.OperationalError, match="locked"):
                pymysql.connect(host="127.0.0.1", port=unmade.server.port, user=account.name, password="")
    assert unmade.server.query(f"SHOW DATABASES LIKE '{unmade.dagster_database}'") == []


@only_mariadb
def test_what_is_left_to_do_fits_the_accounts_and_the_file_that_are_used(unmade: Production) -> None:
    printed = unmade.dcc("init", "--production", "--grants", "--from-host", "127.%").stdout
    with accounts(unmade.server, printed, "127.%"):
        as_init = unmade.as_account("dcc_init")
        for place, named in (("dcc-init.toml", "dcc.toml"), ("mine.toml", "mine.toml"), (None, "home/dcc.toml")):
            if place is not None:
                (unmade.dcc.root / place).touch(0o640)
                as_init.environment["DCC_CONFIG"] = str(unmade.dcc.root / place)
            else:
                del as_init.environment["DCC_CONFIG"]
            made = as_init.json("init", "--production")
            assert any("'dcc_sessions'@'127.%'" in line for line in made["grants"])
            assert not any("'%'" in line for line in made["grants"])
            assert f"dcc_sessions into {unmade.dcc.root / named}," in " ".join(made["left"])
    service_steps = (Path(__file__).parent.parent.parent / "docs/operations/install.md").read_text("utf-8")
    (start,) = re.findall(r"systemctl enable --now .*", service_steps)
    assert start in " ".join(made["left"])


@only_mariadb
def test_a_configuration_that_is_there_is_never_overwritten_unless_asked(unmade: Production) -> None:
    path = unmade.dcc.home / "dagster" / "dagster.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("telemetry:\n  enabled: false\n", "utf-8")
    assert "dcc init --production --force" in unmade.dcc.error("init", "--production", exit_code=2)
    assert unmade.server.query(f"SHOW DATABASES LIKE '{unmade.dagster_database}'") == []
    away = {"DCC_DAGSTER_URL": "mysql://dcc:secret@127.0.0.1:1/dagster"}
    other = replace(unmade.dcc, environment=unmade.dcc.environment | away)
    assert "could not be reached" in other.error("init", "--production", "--force", exit_code=4)
    assert [entry.name for entry in path.parent.iterdir()] == ["dagster.yaml"]
    made = unmade.dcc.json("init", "--production", "--force")
    assert made["dagster_yaml"] == {"path": str(path), "written": True, "kept": f"{path}.before"}
    assert Path(f"{path}.before").read_text("utf-8") == "telemetry:\n  enabled: false\n"
    path.write_text(path.read_text("utf-8") + "# mine\n", "utf-8")
    said = unmade.dcc("init", "--production").stdout
    assert f"Kept {path} as it is." in said
    assert path.read_text("utf-8").endswith("# mine\n")
    assert "GRANT SELECT ON" in said
    made = unmade.dcc.json("init", "--production", "--force")
    assert Path(made["dagster_yaml"]["kept"]).read_text("utf-8").endswith("# mine\n")
    assert Path(f"{path}.before").read_text("utf-8") == "telemetry:\n  enabled: false\n"


@only_mariadb
def test_dagsters_tables_are_asked_for_before_work_begins(unmade: Production) -> None:
    unmade.dcc("init")
    unknown = unmade.dcc.error("instance", "rebuild", exit_code=4)
    assert "Unknown database" in unknown
    assert "Create it with: dcc init --production." in unknown
    unmade.server.query(f"CREATE DATABASE {unmade.dagster_database} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    for command in (["crawl"], ["instance", "rebuild"], ["daemon"], ["ui", "--read-only"]):
        assert "Make it with: dcc init --production" in unmade.dcc.error(*command, exit_code=2)


@only_sqlite
def test_production_needs_three_databases_on_a_server(bare_dcc: Dcc) -> None:
    variables = ("DCC_TRACKER_URL", "DCC_QC_URL", "DCC_DAGSTER_URL")
    there = {variable: f"mysql://dcc:secret@127.0.0.1:1/{variable.lower()}" for variable in variables}
    bare_dcc.secrets.append("secret")
    for missing in variables:
        bare_dcc.environment |= there
        del bare_dcc.environment[missing]
        assert missing in bare_dcc.error("init", "--production", exit_code=2)
        assert missing in bare_dcc.error("init", "--production", "--grants", exit_code=2)
    for other in ("DCC_TRACKER_URL", "DCC_DAGSTER_URL"):
        bare_dcc.environment |= {**there, other: there["DCC_QC_URL"]}
        assert "the same database twice" in bare_dcc.error("init", "--production", exit_code=2)
        bare_dcc.environment["DCC_QC_URL"] = "mariadb://dcc:secret@DB.example.org/one"
        for same in ("mysql://dcc:secret@db.example.org:3306/one", "mariadb://other:secret@db.example.org/one"):
            bare_dcc.environment[other] = same
            assert "the same database twice" in bare_dcc.error("init", "--production", exit_code=2)
    assert not (bare_dcc.home / "dagster").exists()


@only_sqlite
def test_grants_are_printed_for_other_hosts_and_servers_without_connecting(bare_dcc: Dcc) -> None:
    bare_dcc.environment |= {
        "DCC_TRACKER_URL": "mysql://x:secret@a.example.org/phenodcc_tracker",
        "DCC_QC_URL": "mariadb://x:secret@b.example.org:3307/phenodcc_raw",
        "DCC_DAGSTER_URL": "mysql://x:secret@a.example.org/phenodcc_dagster",
    }
    bare_dcc.secrets.append("secret")
    printed = bare_dcc("init", "--production", "--grants", "--from-host", "10.0.0.%").stdout
    assert bare_dcc.json("init", "--production", "--grants", "--from-host", "10.0.0.%")["grants"] == (
        printed.removesuffix("\n").split("\n")
    )
    on_a, on_b = re.split(r"^-- On the server .*:$", printed, flags=re.MULTILINE)[1:]
    assert "GRANT SELECT ON `phenodcc\\_dagster`.* TO 'dcc_ui'@'10.0.0.%';" in on_a
    assert "phenodcc\\_raw" not in on_a
    assert "GRANT SELECT ON `phenodcc\\_raw`.* TO 'dcc_analyst'@'10.0.0.%';" in on_b
    assert "dcc_ui" not in on_b.partition("-- The accounts are locked")[0]
    assert "--production" in bare_dcc("init", "--grants", exit_code=2).stderr


@only_mariadb
@pytest.mark.both_databases
def test_no_database_is_replaced_under_anothers_daemon(unmade: Production, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reports stay when it is stopped: only one that still reports counts."""
    monkeypatch.setattr(dagster_processes, "_WATCHED_SECONDS", 1.5)
    dcc = unmade.dcc
    dcc("init", "--production")
    dcc("backup", dcc.root / "sets")
    stopped = threading.Event()

    def report() -> None:
        instance.add_daemon_heartbeat(DaemonHeartbeat(time.time(), "SCHEDULER", "of another machine", []))

    def report_until_stopped() -> None:
        while not stopped.wait(0.2):
            report()

    settings = load_settings(home=dcc.home, dagster_url=SecretStr(dcc.environment["DCC_DAGSTER_URL"]))
    with open_instance(settings) as instance:
        report()
        daemon = threading.Thread(target=report_until_stopped)
        daemon.start()
        try:
            refused = dcc.error("restore", dcc.root / "sets", "--replace", "--yes", exit_code=3)
        finally:
            stopped.set()
            daemon.join()
        assert refused.startswith("A daemon of this installation runs on another machine: ")
        done = dcc("restore", dcc.root / "sets", "--replace", "--yes")
    assert "A daemon reported lately" in done.stderr
    assert done.stdout.startswith("Restored ")


@only_mariadb
def test_a_move_from_sqlite_ends_with_the_urls_of_every_day(unmade: Production) -> None:
    own = {name: value for name, value in unmade.dcc.environment.items() if not name.endswith("_URL")}
    old = replace(unmade.dcc, environment=own)
    old("init")
    with accounts(unmade.server, unmade.dcc("init", "--production", "--grants").stdout):
        as_init = unmade.as_account("dcc_init")
        options = "?ssl_key_password=of-the-key"
        targets = {
            f"DCC_TARGET_{name}": as_init.environment[f"DCC_{name}"] + options for name in ("TRACKER_URL", "QC_URL")
        }
        moving = replace(old, environment=own | targets, secrets=[*as_init.secrets, "of-the-key"])
        told = moving("migrate-storage").stdout
    assert "dcc_init" not in told
    for name in ("DCC_TRACKER_URL", "DCC_QC_URL"):
        place = f"127.0.0.1:{unmade.server.port}/{unmade.database(name)}"
        assert f"set {name} to mysql://dcc_sessions:***@{place}" in told
