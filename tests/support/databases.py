"""Fixtures: tracker databases, on SQLite and on a private MariaDB server, and rows to begin with.

`tracker_url` is the URL of a database that does not exist yet, `settings` are settings with it and a home of their own,
`tracker` is the engine of it with the schema in place. `qc_url`, `qc_settings` and `qc_database` are the same of a QC
database beside it. A test that asks for an engine finds its database made already. A test that uses any of them can
run on both databases; `only_sqlite` and `only_mariadb` mark one that does not, and tests/conftest.py says which do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pymysql
import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, inspect, make_url, select

from benchmarks import servers
from dcc.databases.schema import init_database
from dcc.databases.transactions import insert_rows, writing
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase, State, Status
from dcc.qc.database import open_qc_database
from dcc.qc.reference import snapshots
from dcc.reference.loading import load_shipped
from dcc.runtime.clock import utc_now
from dcc.settings import Settings
from dcc.tracker import progress, states
from dcc.tracker.database import open_tracker
from dcc.tracker.models import Centre, FileSource, FileSourceHasZip, ProtocolRow, ZipFile
from dcc.tracker.progress import NewDocument
from dcc.vocabulary import SourceState
from tests.support.asking import closing_all, in_writing
from tests.support.environments import forget_settings
from tests.support.ports import free_port
from tests.support.prepared_databases import PreparedDatabases, PreparedFile, maker
from tests.support.servers import server_program

PASSWORD = "s3cret@%:/ ü"
"""Password of the MariaDB user, with the characters that URLs make trouble of; no output may ever hold it."""

TO_VALIDATE = State(Phase.XSD, Status.PENDING)

_FOLDER = tempfile.gettempdir()
"""As it is before a test has a folder of its own for temporary files, in which a socket's path would be too long."""

_SQLITE, _MARIADB = "sqlite", pytest.param("mariadb", marks=pytest.mark.servers)
only_sqlite = pytest.mark.parametrize("tracker_url", [_SQLITE], indirect=True)
only_mariadb = pytest.mark.parametrize("tracker_url", [_MARIADB], indirect=True)
broken_off_on_mariadb = pytest.mark.parametrize(
    ("tracker_url", "broken_off"),
    [("sqlite", False), pytest.param("mariadb", True, marks=pytest.mark.servers)],
    indirect=["tracker_url"],
)
"""For upgrades: on MariaDB they can break off half-way, whereas SQLite takes them back."""


class MariaDb(servers.MariaDb):
    """A MariaDB server of this test process's own, on a free port of 127.0.0.1 and a temporary data directory."""

    password = PASSWORD
    options = (
        "--character-set-server=utf8mb4",
        "--innodb-buffer-pool-size=32M",
        "--innodb-log-file-size=16M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-flush-method=fsync",
        "--performance-schema=OFF",
        "--max-connections=200",
    )

    def __init__(self) -> None:
        for name in ("mariadb-install-db", "mariadbd"):
            server_program(name)
        super().__init__(Path(tempfile.mkdtemp(prefix="dcc-mariadb-", dir=_FOLDER)), free_port())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server, started for the first test of the process that needs it."""
    with MariaDb() as server, pytest.MonkeyPatch.context() as patch:
        # The driver reads all certificates of the system for each connection, which takes longer than most tests.
        context = pymysql.connections.Connection._create_ssl_ctx(None, {})  # type: ignore[arg-type]
        patch.setattr(pymysql.connections.Connection, "_create_ssl_ctx", lambda _self, _options: context)
        yield server


@pytest.fixture(scope="session")
def prepared_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PreparedFile]:
    """SQLite databases with their schema in place, to be copied."""
    return {fixture: PreparedFile(tmp_path_factory.mktemp(fixture), make) for fixture, make in MAKERS.items()}


@pytest.fixture(scope="session")
def prepared_databases(mariadb: MariaDb) -> dict[str, PreparedDatabases]:
    """MariaDB databases with their schema in place, to be lent: the tracker, the QC database and Dagster's."""
    makers = MAKERS | {"dagster": _make_dagster}
    return {fixture: PreparedDatabases(fixture, mariadb.url, make, mariadb.connect) for fixture, make in makers.items()}


def _make_dagster(url: str) -> None:
    from dcc_dagster.dagster_database import init_dagster_database

    init_dagster_database(url)


def _open_tracker(url: str) -> Engine:
    return open_tracker(Settings(tracker_url=SecretStr(url)))


def _open_qc_database(url: str) -> Engine:
    return open_qc_database(Settings(qc_url=SecretStr(url)))


def init_with_reference(engine: Engine) -> None:
    """Make a QC database with the reference data that come with the platform."""
    init_database(engine)
    with writing(engine) as connection:
        for snapshot in load_shipped():
            snapshots.save(connection, snapshot)


def _init_with_data(engine: Engine) -> None:
    from tests.support.analysis_data import fill

    init_with_reference(engine)
    fill(engine)


MAKERS = {
    "tracker": maker(_open_tracker, init_database),
    "qc_database": maker(_open_qc_database, init_database),
    "qc_with_reference": maker(_open_qc_database, init_with_reference),
    "qc_with_data": maker(_open_qc_database, _init_with_data),
}
"""What makes the database of a fixture, by its URL."""


def _database_url(request: pytest.FixtureRequest, kind: str, path: Path, fixture: str) -> Iterator[str]:
    """URL of a database that does not exist yet; or is there, for a test that asks for the fixture that makes it."""
    wanted = not {fixture, "databases_made"}.isdisjoint(request.fixturenames)
    if kind == "sqlite":
        if wanted:
            files: dict[str, PreparedFile] = request.getfixturevalue("prepared_files")
            files[fixture].copy_to(path)
        yield f"sqlite:///{path}"
    elif wanted:
        databases: dict[str, PreparedDatabases] = request.getfixturevalue("prepared_databases")
        with databases[fixture].lend() as url:
            yield url
    else:
        server: MariaDb = request.getfixturevalue("mariadb")
        name = f"{fixture}_{uuid4().hex[:12]}"
        yield server.url(name)
        server.query(f"DROP DATABASE IF EXISTS {name}")


@pytest.fixture
def databases_made() -> None:
    """For a test that opens the databases itself: those of `tracker_url` and `qc_url` are there, with their schema."""


@pytest.fixture
def qc_with_reference() -> None:
    """The QC database holds the reference data that come with the platform."""


@pytest.fixture
def qc_with_data() -> None:
    """The QC database holds these, and what `fill` of tests/support/analysis_data.py applies."""


@pytest.fixture(params=[_SQLITE, _MARIADB])
def tracker_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a tracker database, on each kind of database; it exists where the test asks for `tracker`."""
    yield from _database_url(request, request.param, tmp_path / "home" / "tracker.db", "tracker")


@pytest.fixture
def settings(tracker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Default settings, whatever the environment says, but for a home, a tracker and no quiet period."""
    forget_settings(monkeypatch)
    monkeypatch.setenv("DCC_QUIET_SECONDS", "0")
    return Settings(home=tmp_path / "home", tracker_url=SecretStr(tracker_url), quiet_seconds=0)


@pytest.fixture
def tracker(settings: Settings) -> Iterator[Engine]:
    """The engine of an empty tracker with the schema and reference rows in place."""
    with closing_all(open_tracker(settings)) as engine:
        yield engine


@pytest.fixture
def qc_url(tracker_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a QC database, on the same kind of database as the tracker; it exists where the test asks for it."""
    kind = "sqlite" if is_sqlite(tracker_url) else "mariadb"
    holding = [name for name in ("qc_with_data", "qc_with_reference") if name in request.fixturenames]
    yield from _database_url(request, kind, tmp_path / "home" / "qc.db", [*holding, "qc_database"][0])


@pytest.fixture
def qc_settings(settings: Settings, qc_url: str) -> Settings:
    """`settings` with a QC database that does not exist yet, on the same kind of database as the tracker."""
    return settings if is_sqlite(qc_url) else settings.model_copy(update={"qc_url": SecretStr(qc_url)})


@pytest.fixture
def qc_database(qc_settings: Settings) -> Iterator[Engine]:
    """The engine of an empty QC database with the schema in place."""
    with closing_all(open_qc_database(qc_settings)) as engine:
        yield engine


@pytest.fixture
def filled(qc_with_data: None, qc_database: Engine) -> Engine:
    """The engine of a QC database with the data of two centres for analysts."""
    return qc_database


@pytest.fixture
def dagster_url(tracker_url: str, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """URL of Dagster's database with its tables, where the tracker is on MariaDB; None where Dagster keeps files."""
    if is_sqlite(tracker_url):
        yield None
        return
    databases: dict[str, PreparedDatabases] = request.getfixturevalue("prepared_databases")
    with databases["dagster"].lend() as url:
        yield url


@dataclass(frozen=True, slots=True)
class SeededSubmission:
    """Ids of a seeded archive: its `zip_file`, `zip_action` and `file_source_has_zip`."""

    zip_id: int
    za_id: int
    hosting_id: int


def seed_centre(tracker: Engine, short_name: str = "H", *, is_active: bool = True) -> int:
    row = {
        "short_name": short_name,
        "full_name": f"Centre {short_name}",
        "email": f"{short_name}@centre.example",
        "is_active": is_active,
        "created": utc_now(),
    }
    with writing(tracker) as connection:
        return insert_rows(connection, Centre, [row])[0]


def seed_source(
    tracker: Engine,
    centre_id: int,
    *,
    protocol: str = "file",
    hostname: str = "localhost",
    username: str = "",
    accesskey: str = "",
    base_path: str | None = None,
    state: str = "available",
) -> int:
    with writing(tracker) as connection:
        row = {
            "centre_id": centre_id,
            "protocol_id": connection.scalar(select(ProtocolRow.id).where(ProtocolRow.short_name == protocol)),
            "hostname": hostname,
            "username": username,
            "accesskey": accesskey,
            "base_path": base_path,
            "state_id": SourceState(state),
            "created": utc_now(),
        }
        return insert_rows(connection, FileSource, [row])[0]


def seed_submission(
    tracker: Engine,
    source_id: int,
    file_name: str = "H.2026-01-31.1.impc.zip",
    action: Action = Action.ADD,
    *,
    centre_id: int | None = None,
    size_bytes: int | None = None,
    state: State = states.WAITING,
) -> SeededSubmission:
    """Add an archive that a source hosts, waiting to be downloaded."""
    archive = {"file_name": file_name, "centre_id": centre_id, "size_bytes": size_bytes}
    with writing(tracker) as connection:
        (zip_id,) = insert_rows(connection, ZipFile, [archive])
        (za_id,) = progress.add_zip_actions(connection, {SubmissionKey(action, file_name): state}, {file_name: zip_id})
        hosting = {"za_id": za_id, "file_source_id": source_id, "num_retries": 0, "size_bytes": size_bytes}
        (hosting_id,) = insert_rows(connection, FileSourceHasZip, [hosting])
    return SeededSubmission(zip_id, za_id, hosting_id)


def seed_hosting(tracker: Engine, za_id: int, source_id: int, size_bytes: int | None = None) -> int:
    """Have another source host a zip action; the id of the `file_source_has_zip`."""
    row = {"za_id": za_id, "file_source_id": source_id, "num_retries": 0, "size_bytes": size_bytes}
    with writing(tracker) as connection:
        return insert_rows(connection, FileSourceHasZip, [row])[0]


def seed_download(tracker: Engine, hosting_id: int, state: State = states.REQUESTED) -> int:
    with writing(tracker) as connection:
        return progress.add_downloads(connection, [hosting_id], utc_now(), state)[0]


def seed_documents(tracker: Engine, download_id: int, count: int, state: State = TO_VALIDATE) -> list[int]:
    """Add documents of a download, all in one state; their ids."""
    rows = [
        NewDocument(download_id, f"H.2026-01-31.{inc}.specimen.impc.xml", None, None, inc, 1_000, None, state)
        for inc in range(count)
    ]
    return in_writing(tracker, progress.add_documents, rows)


def is_sqlite(url: str) -> bool:
    return make_url(url).get_backend_name() == "sqlite"


def schema_of(engine: Engine) -> dict[str, list[str]]:
    inspector = inspect(engine)
    names = [*inspector.get_table_names(), *inspector.get_view_names()]
    return {name: [column["name"] for column in inspector.get_columns(name)] for name in names}
