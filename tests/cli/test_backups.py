"""`dcc backup`, `dcc restore` and `dcc migrate-storage`."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from dcc.cli.installation.dagster_processes import only_daemon
from dcc.runtime.private_files import make_directory
from dcc.settings import Settings
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite


def other_home(dcc: Dcc) -> Dcc:
    """`dcc` on another, empty installation on SQLite."""
    environment = {name: value for name, value in dcc.environment.items() if not name.endswith("_URL")}
    return Dcc(environment | {"DCC_HOME": str(dcc.root / "other")}, dcc.root)


def test_an_installation_is_backed_up_checked_and_restored_elsewhere(dcc: Dcc) -> None:
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    alone = dcc.json("backup", dcc.root / "alone")["directory"]
    assert dcc.json("backup", "--verify", alone)["archives"] is None
    sets = dcc.root / "sets"
    assert dcc.json("backup", sets, "--with-archives")["archives"] == {
        "copied": 1,
        "present": 1,
        "missing": 0,
        "reasons": [],
    }
    assert "Copied 0 archives to" in dcc("backup", sets, "--with-archives").stdout
    told = dcc.json("backup", sets, "--with-staging")
    assert told["sessions"] == []
    assert told["staging"]["files"] == 2
    assert told["staging"]["copied"] is True
    assert told["removed"] == []
    assert Path(told["directory"]).parent == sets
    checked = dcc("backup", "--verify", sets)
    assert checked.stdout.startswith(f"{told['directory']} is whole: ")
    assert checked.stdout.endswith("; 1 archive beside it.\n")
    (archive,) = (sets / "archives").glob("??/*")
    archive.write_bytes(b"other")
    assert f"1 damaged archive in {sets / 'archives'}: {archive.name}" in dcc.error(
        "backup", "--verify", sets, exit_code=2
    )
    archive.unlink()
    assert dcc.json("backup", "--verify", sets, exit_code=1)["archives"] == {"good": 0, "missing": 1}
    other = other_home(dcc)
    report = other.json("restore", sets)
    assert report["rows"] == told["tracker"]["rows"] + told["qc"]["rows"]
    assert report["staging"] == {"same": 0, "put_back": 2, "different": 0, "missing": 0, "archives_missing": 0}
    # The archives are not in it; the other installation keeps them from staging.
    assert (other.json("status")["archive_store"]["pending"], other.json("archive", "repair")["copied"]) == (1, 1)
    for command in (["status"], ["zips"], ["show", "add/H.2013-10-31.1.impc.zip"], ["source", "list"]):
        assert other.json(*command) == dcc.json(*command)
    other("crawl")
    assert other.json("zips") == dcc.json("zips")


@only_sqlite
def test_a_backup_before_the_first_init_leaves_nothing_behind(bare_dcc: Dcc) -> None:
    place = bare_dcc.root / "new" / "sets"
    assert "dcc init" in bare_dcc.error("backup", place, exit_code=2)
    assert not (bare_dcc.root / "new").exists()
    assert not bare_dcc.home.exists()
    place.mkdir(parents=True)
    bare_dcc("backup", place, exit_code=2)
    assert list(place.iterdir()) == []


@only_sqlite
def test_what_is_said_of_a_backup_and_a_restoration(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = dcc.root / "sets"
    key = ("--username", "dcc", "--plain", "--accesskey", "a password")
    dcc("source", "add", "--centre", "H", "--protocol", "ftp", "--hostname", "ftp.example.org", *key, "--no-test")
    made = dcc("backup", sets)
    assert made.stdout.startswith(f"Backed up to {sets}/dcc-")
    assert "The archive store is not in it: --with-archives copies it" in made.stderr
    assert "The access keys of file sources are in it" in made.stderr
    kept = dcc("backup", sets, "--keep", 1, "--without-secrets")
    assert "Removed 1 older backup." in kept.stdout
    assert "access keys" not in kept.stderr
    assert "holds data" in dcc.error("restore", sets, exit_code=2)
    dcc.environment["DCC_ENVIRONMENT"] = "production"
    unasked = dcc.error("restore", sets, "--replace", exit_code=2)
    assert unasked.startswith("[production] All that the databases of this installation hold will be lost. Replace it?")
    assert unasked.endswith("Nobody is at a terminal to answer. If yes, run the command again with --yes.")
    monkeypatch.setattr("dcc.cli.shell.context.at_terminal", lambda: True)
    asked = dcc("restore", sets, "--replace", exit_code=2, input="n\n")
    assert (asked.stdout, asked.stderr.startswith("[production] All that")) == ("", True)
    assert "Nothing was replaced." in asked.stderr
    assert dcc("status").stdout.startswith("Environment: production\n")
    assert dcc.json("status")["environment"] == "production"
    assert dcc.json("centre", "list")
    done = dcc("restore", sets, "--replace", "--yes")
    assert done.stdout.startswith("Restored ")
    assert "access key of file source 1 is not in the backup. Name a file with it: dcc source change 1 " in done.stderr
    dcc("source", "change", 1, "--accesskey", "file:PATH")


@only_sqlite
def test_a_backup_goes_to_a_directory_that_is_named_and_not_into_staging(dcc: Dcc) -> None:
    for command in ("backup", "restore"):
        assert "it is empty. Name a directory" in dcc(command, "", exit_code=2).stderr
    staging = dcc.home / "staging"
    for place in (staging, staging / "sets"):
        assert f"{place} is in staging ({staging})" in dcc.error("backup", place, exit_code=2)
    assert not staging.exists()


@only_sqlite
def test_an_older_backup_that_cannot_be_removed_is_told(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = dcc.root / "sets"
    first, other = (dcc.json("backup", sets)["directory"] for _ in range(2))
    remove = shutil.rmtree

    def failing(path: Path, **named: Any) -> None:
        if str(path) == first:
            raise PermissionError(errno.EPERM, "Operation not permitted", first)
        remove(path, **named)

    monkeypatch.setattr(shutil, "rmtree", failing)
    second = dcc("backup", sets, "--keep", 1, exit_code=1)
    assert second.stdout.startswith(f"Backed up to {sets}/dcc-")
    assert f"The older backup {first} could not be removed: Operation not permitted. Remove what" in second.stderr
    assert not Path(other).exists()
    (Path(first) / "manifest.json").write_text("{}")
    told = dcc.json("backup", sets, "--keep", 2, exit_code=1)
    assert told["removed"] == []
    assert told["not_removed"] == [{"directory": first, "reason": "Operation not permitted"}]


@only_sqlite
def test_databases_are_neither_replaced_nor_moved_under_a_daemon(dcc: Dcc) -> None:
    sets, settings = dcc.root / "sets", Settings(home=dcc.home)
    dcc("backup", sets)
    other = {f"DCC_TARGET_{name}_URL": f"sqlite:///{dcc.root}/{name}.db" for name in ("TRACKER", "QC")}
    moving = Dcc(dcc.environment | other, dcc.root)
    make_directory(settings.dagster_home)
    with only_daemon(settings):
        for error in (
            dcc.error("restore", sets, "--replace", "--yes", exit_code=3),
            moving.error("migrate-storage", exit_code=3),
        ):
            assert error.startswith("A daemon of this installation runs already: something holds ")
            assert error.endswith(", then give the command again.")
    # The lock of a daemon that has ended, however it ended, is a file that nothing holds.
    assert (settings.dagster_home / "daemon.lock").exists()
    dcc("restore", sets, "--replace", "--yes")
    moved = moving("migrate-storage").stdout
    for name in ("tracker", "qc"):
        assert f"move {dcc.home}/{name}.db away: a command without these settings would go on with it" in moved


@only_sqlite
def test_a_target_that_is_away_is_told_by_its_own_setting(dcc: Dcc) -> None:
    other = {f"DCC_TARGET_{name}_URL": f"mysql://dcc@127.0.0.1:1/{name}" for name in ("TRACKER", "QC")}
    error = Dcc(dcc.environment | other, dcc.root).error("migrate-storage", exit_code=4)
    assert error.endswith("Check that the server runs and that DCC_TARGET_TRACKER_URL is right.")
