"""Disks that can only be read or are not mounted: each command says at once which place it is, and what to do."""

import time
from pathlib import Path

import pytest

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.several_commands import OBEYING, run_commands
from tests.support.small_disks import read_only

AT_ONCE = 20.0
"""Seconds, with room for a busy machine; a database that is away is waited for for a minute."""


@only_sqlite
def test_a_database_on_a_read_only_disk_is_named_at_once(
    dcc: Dcc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dcc.environment["DCC_DATABASE_RETRY"] = "60"
    home = Path(dcc.environment["DCC_HOME"])
    began = time.monotonic()
    with read_only(home):
        for command in ("status", "crawl", "backup sets", "centre list"):
            assert dcc.error(*command.split(), exit_code=4) == (
                f"The tracker database {home}/tracker.db could not be reached: {home} cannot be written to. The disk "
                "is mounted read-only, often after an error of it: see `dmesg`, mend it, and mount it again."
            )
    assert time.monotonic() - began < AT_ONCE


@only_sqlite
def test_a_database_file_that_can_only_be_read_is_named(dcc: Dcc) -> None:
    file = Path(dcc.environment["DCC_HOME"]) / "tracker.db"
    with read_only(file):
        said = dcc.error("centre", "add", "K", "--name", "KMPC", exit_code=4)
    assert f"could not be reached: {file} cannot be written to. The disk is mounted read-only" in said


@only_sqlite
def test_a_backup_of_no_installation_says_so_at_once(dcc: Dcc) -> None:
    other = Dcc({"DCC_HOME": str(dcc.root / "other"), "DCC_DATABASE_RETRY": "60"}, dcc.root)
    began = time.monotonic()
    said = other.error("backup", dcc.root / "sets", exit_code=2)
    assert time.monotonic() - began < AT_ONCE
    assert said.startswith(f"No tracker database exists at {dcc.root}/other/tracker.db. Name the installation")


@only_sqlite
def test_a_folder_that_is_closed_to_this_user_is_named(dcc: Dcc) -> None:
    home = Path(dcc.environment["DCC_HOME"])
    home.chmod(0)
    try:
        several = run_commands("status", "doctor --no-sources", environment=dcc.process_environment(), by=OBEYING)
    finally:
        home.chmod(0o700)
    for ended in several:
        assert ended.returncode == 4
        assert f"tracker.db could not be reached: {home} cannot be written to. " in ended.stdout + ended.stderr
        assert f"chown -R USER {home}" in ended.stdout + ended.stderr


@only_sqlite
def test_a_link_to_a_disk_that_is_not_mounted_is_named(dcc: Dcc) -> None:
    home, disk = Path(dcc.environment["DCC_HOME"]), dcc.root / "disk"
    said = f" is a link to {disk}, which is missing: mount its disk, or correct it. "
    other = dcc.root / "other"
    other.symlink_to(disk)
    assert f"tracker.db could not be created: {other}{said}" in Dcc({"DCC_HOME": str(other)}, dcc.root).error(
        "init", exit_code=4
    )
    (home / "staging").symlink_to(disk)
    dcc.add_folder().put("add/H.2013-10-31.1.impc.zip")
    assert (
        f"Archives cannot be put into staging ({home}/staging): {home}/staging{said}"
        in dcc("crawl", exit_code=2).stderr
    )
    assert not disk.exists()


@only_sqlite
def test_where_a_restoration_and_staging_cannot_write_is_named(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    dcc("backup", dcc.root / "sets")
    other, staging = dcc.root / "other", dcc.root / "staging"
    for place in (other, staging):
        place.mkdir()
    with read_only(other):
        said = Dcc({"DCC_HOME": str(other)}, dcc.root).error("restore", dcc.root / "sets", exit_code=2)
    assert (
        f"could not be restored to the tracker database {other}/tracker.db and the QC database {other}/qc.db: " in said
    )
    dcc.environment["DCC_STAGING"] = str(staging)
    with read_only(staging):
        said = dcc("crawl", exit_code=2).stderr
    assert f"into staging ({staging}): it cannot be written to. The disk is mounted read-only" in said
