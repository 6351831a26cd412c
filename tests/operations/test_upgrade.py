"""An installation that an earlier version has left works with this one, and nothing of it is lost.

It is stored in tests/stored_installation: databases, staging and Dagster's own files, as they were then.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterRunStatus

from dcc.settings import load_settings
from dcc_dagster.instance import open_instance
from tests.cli.conftest import Dcc

STORED = Path(__file__).parent.parent / "stored_installation" / "version-81cd60a.tar.xz"
GOOD, BROKEN, WRONG = "add/H.2013-10-31.1.impc.zip", "add/H.2013-11-04.2.impc.zip", "add/H.2013-11-05.3.impc.zip"
CORRECTION = "edit/H.2013-11-06.4.impc.zip"
STATES = {GOOD: ("qc", "pending"), BROKEN: ("xsd", "failed"), WRONG: ("data", "failed")}


@dataclass
class Upgraded:
    """An installation after `dcc init` of this version, what that said, and what `dagster.yaml` was before.

    `planned` is what `dcc upgrade --check` said before, `examined` what `dcc doctor` did. `counted` are the rows of
    each database before and after `dcc init`.
    """

    dcc: Dcc
    said: str
    former_configuration: bytes
    planned: dict[str, Any]
    examined: str
    counted: dict[Path, tuple[dict[str, int], dict[str, int]]]

    @property
    def home(self) -> Path:
        return Path(self.dcc.environment["DCC_HOME"])

    def run(self, *arguments: object, exit_code: int = 0) -> str:
        """What a command that runs in a process prints on standard output."""
        ended = self.dcc.forked(*arguments)
        assert ended.returncode == exit_code, ended.stdout + ended.stderr
        assert "Notice" not in ended.stderr
        return ended.stdout

    def examine(self) -> None:
        """See that doctor, in depth, finds nothing that failed: it may warn that the last session is long ago."""
        ended = self.dcc.forked("doctor", "--deep", "--json")
        verdicts = {finding["subject"]: finding["verdict"] for finding in json.loads(ended.stdout)["findings"]}
        assert "failed" not in verdicts.values(), ended.stdout
        assert (verdicts["consistency"], verdicts["Dagster instance"]) == ("ok", "ok")

    def states(self) -> dict[str, tuple[str, str]]:
        zips = json.loads(self.run("zips", "--json"))
        return {f"{one['action']}/{one['file_name']}": (one["phase"], one["status"]) for one in zips}


def unpacked(folder: Path) -> Dcc:
    """The stored installation as it was, in another place."""
    shutil.unpack_archive(STORED, folder)
    environment = {"DCC_HOME": str(folder / "home"), "DCC_MIN_FREE_BYTES": "0", "DCC_CRAWL_INTERVAL": "0 0 29 2 *"}
    return Dcc({**environment, "DCC_SUGGESTIONS": "false"}, folder)


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Upgraded:
    dcc = unpacked(tmp_path_factory.mktemp("upgraded"))
    home = Path(dcc.environment["DCC_HOME"])
    configuration = home / "dagster" / "dagster.yaml"
    files = {path: path.read_bytes() for path in (configuration, home / "tracker.db", home / "qc.db")}
    counted = {path: rows(path) for path in home.rglob("*.db")}
    checked = dcc.forked("upgrade", "--check", "--json")
    assert checked.returncode == 1, checked.stderr
    assert {path: path.read_bytes() for path in files} == files
    examined = dcc.forked("doctor", "--json").stdout
    assert configuration.read_bytes() == files[configuration], "doctor only looks"
    ended = dcc.forked("init")
    assert ended.returncode == 0, ended.stderr
    after = {path: (before, rows(path)) for path, before in counted.items()}
    planned = json.loads(checked.stdout)
    installation = Upgraded(dcc, ended.stderr, files[configuration], planned, examined, after)
    # It was in another place.
    installation.run("source", "change", 1, "--base-path", dcc.root / "incoming")
    return installation


def rows(path: Path) -> dict[str, int]:
    """How many rows each table and view of a database has: what was a table may be a view."""
    with closing(sqlite3.connect(path)) as database:
        tables = [
            name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}


def test_what_init_would_do_is_said_before(upgraded: Upgraded) -> None:
    tracker, qc = upgraded.planned["databases"]
    assert tracker["makes"]
    assert qc["converts"]
    assert tracker["revisions"][-1] == tracker["wanted"] > tracker["present"]
    (moved,) = upgraded.planned["dagster_changes"]
    assert "dcc_assets.event_storage" in moved
    assert upgraded.run("upgrade", "--check").startswith("dcc ")


def test_what_init_changes_it_says_and_the_operators_lines_stay(upgraded: Upgraded) -> None:
    path = upgraded.home / "dagster" / "dagster.yaml"
    assert upgraded.said.count("Notice: ") == 1
    assert f"{path} was brought up to date" in upgraded.said
    after = path.read_bytes()
    assert b"purge_after_days: 180  # ours: half a year\n" in after
    changed = [
        (old, new)
        for old, new in zip(upgraded.former_configuration.splitlines(), after.splitlines(), strict=True)
        if old != new
    ]
    assert changed == [
        (b"  module: dcc_assets.event_storage", b"  module: dcc_dagster.event_storage"),
        (
            b"  managed_python_loggers: [dcc_resources, dcc_assets]",
            b"  managed_python_loggers: [dcc, dcc_assets, dcc_dagster]",
        ),
    ]


def test_init_loses_no_row(upgraded: Upgraded) -> None:
    assert len(upgraded.counted) > 4
    for path, (before, after) in upgraded.counted.items():
        assert {table: after.get(table) for table in before} == before, path


def test_the_first_command_after_the_upgrade_may_be_another_than_init(upgraded: Upgraded) -> None:
    assert "with: dcc init" in upgraded.examined, "its databases are brought up to date by dcc init alone"
    (moved,) = [one for one in json.loads(upgraded.examined)["findings"] if one["subject"] == "Dagster instance"]
    assert (moved["verdict"], "dcc init" in moved["advice"]) == ("failed", True)
    assert "names what this version has moved (dcc_assets.event_storage, dcc_resources)" in moved["message"]


def test_doctor_finds_all_well_and_every_archive_is_as_it_was(upgraded: Upgraded) -> None:
    upgraded.examine()
    states = upgraded.states()
    assert states[GOOD] == STATES[GOOD]
    assert states.keys() >= STATES.keys()
    assert "isBaseline" in upgraded.run("show", BROKEN)


def test_dagster_knows_the_runs_and_partitions_of_before(upgraded: Upgraded) -> None:
    with open_instance(load_settings(home=upgraded.home)) as instance:
        there = instance.get_materialized_partitions(AssetKey("zip_downloads"))
        runs = [run.job_name for run in instance.get_runs() if run.status is DagsterRunStatus.SUCCESS]
    assert there >= STATES.keys()
    assert runs.count("crawl_file_sources") >= 3


def test_sessions_go_on_where_those_of_before_have_ended(upgraded: Upgraded) -> None:
    """The last test of the module: those before it look at the installation as it was."""
    assert upgraded.states() == STATES
    assert "isBaseline" in upgraded.run("retry", BROKEN, exit_code=1)
    incoming = upgraded.dcc.root / "incoming"
    upgraded.run("example", incoming, "--kind", "corrected")
    upgraded.run("crawl")
    after = upgraded.states()
    assert after[CORRECTION][1] in ("pending", "done")
    assert after[WRONG] == ("qc", "done")
    assert {key: after[key] for key in (GOOD, BROKEN)} == {key: STATES[key] for key in (GOOD, BROKEN)}
    assert "isBaseline" in upgraded.run("report", BROKEN)
    sessions = json.loads(upgraded.run("sessions", "--json"))
    assert len(sessions) == 5
    upgraded.examine()
