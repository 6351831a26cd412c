"""`dcc init`, `settings`, `upgrade --check` and `doctor`: setting up, what is set, and whether it is fit to work."""

import os
import pwd
import sqlite3
import stat
import tempfile
from contextlib import closing
from importlib.metadata import version
from itertools import product
from pathlib import Path

import pytest

from dcc.operations.doctor import examination
from dcc.settings import Settings, load_settings
from dcc_dagster.instance import make_instance
from dcc_dagster.sqlite_instance import are_complete
from tests.cli.conftest import Dcc
from tests.cli.test_tokens_left_behind import PASSWORD
from tests.support.databases import only_sqlite


def test_init_makes_a_tracker_and_changes_nothing_when_run_again(bare_dcc: Dcc) -> None:
    made = bare_dcc.json("init")
    assert set(made) == {"tracker", "created", "from", "to", "qc_database"}
    assert not (bare_dcc.home / "dagster").exists()
    assert made["created"] is True
    assert made["from"] is None
    bare_dcc("centre", "add", "H")
    again = bare_dcc.json("init")
    qc = made["qc_database"]
    assert qc["created"] is True
    assert again == {
        **made,
        "created": False,
        "from": made["to"],
        "qc_database": {**qc, "created": False, "from": qc["to"]},
    }
    assert [centre["short_name"] for centre in bare_dcc.json("centre", "list")] == ["H"]
    assert "up to date" in bare_dcc("init").stdout


@only_sqlite
def test_a_tracker_of_a_newer_version_is_left_alone(dcc: Dcc) -> None:
    path = dcc.home / "tracker.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = path.read_bytes()
    for arguments in (["init"], ["status"], ["crawl"]):
        assert "9999" in dcc.error(*arguments, exit_code=2)
    assert path.read_bytes() == before


def test_settings_lists_each_with_its_variable_value_and_origin(bare_dcc: Dcc) -> None:
    """The tracker's password is never shown."""
    bare_dcc.environment["DCC_DOWNLOADERS"] = "7"
    bare_dcc.environment["DCC_KEY_PASSPHRASE"] = "hunter2"
    bare_dcc.secrets.append("hunter2")
    entries = {entry["variable"]: entry for entry in bare_dcc.json("settings")}
    assert set(entries) == {f"DCC_{name.upper()}" for name in Settings.model_fields}
    assert entries["DCC_DOWNLOADERS"]["value"] == 7
    assert entries["DCC_DOWNLOADERS"]["from"] == "environment"
    assert entries["DCC_KEY_PASSPHRASE"]["value"] == "***"
    assert (entries["DCC_SMTP_URL"]["value"], entries["DCC_SMTP_URL"]["from"]) == ("smtp://localhost", "default")
    assert entries["DCC_WORKERS"] == {
        "name": "workers",
        "variable": "DCC_WORKERS",
        "value": 2,
        "from": "default",
        "description": "Archives and documents checked at once.",
    }
    assert entries["DCC_STAGING"]["value"] == str(bare_dcc.home / "staging")
    assert all(entry["description"] for entry in entries.values())
    said = bare_dcc("settings").stdout
    assert "DCC_DOWNLOADERS = 7 (environment)" in said
    assert "DCC_WORKERS = 2 (default)" in said


@only_sqlite
def test_a_written_configuration_file_replaces_the_variables(bare_dcc: Dcc) -> None:
    home = bare_dcc.home
    bare_dcc.secrets.append("hunter2")
    bare_dcc.environment |= {"DCC_DOWNLOADERS": "7", "DCC_KEY_PASSPHRASE": "hunter2"}
    said = bare_dcc("settings", "--write").stdout
    assert f"Wrote {home / 'dcc.toml'}." in said
    assert "DCC_DOWNLOADERS, DCC_KEY_PASSPHRASE" in said
    assert "\nhome = " not in (home / "dcc.toml").read_text("utf-8")
    assert stat.S_IMODE((home / "dcc.toml").stat().st_mode) == 0o600
    bare_dcc.environment.pop("DCC_KEY_PASSPHRASE")
    bare_dcc.environment["DCC_DOWNLOADERS"] = "8"
    entries = {entry["name"]: entry for entry in bare_dcc.json("settings")}
    assert (entries["downloaders"]["value"], entries["downloaders"]["from"]) == (8, "environment")
    assert (entries["key_passphrase"]["value"], entries["key_passphrase"]["from"]) == ("***", "file")
    assert f"Configuration file: {home / 'dcc.toml'}" in bare_dcc("settings").stdout
    # Once more: the first one is kept, and every value stays.
    written = bare_dcc.json("settings", "--write")
    assert written["kept"] == str(home / "dcc.toml.before")
    assert bare_dcc.json("settings", "--write")["kept"] == str(home / "dcc.toml.before.2")
    assert {"downloaders", "key_passphrase"} <= set(written["written"])
    elsewhere = bare_dcc.root / "etc" / "dcc.toml"
    assert f"DCC_CONFIG={elsewhere}" in bare_dcc("settings", "--write", elsewhere).stdout
    assert f'\nhome = "{home}"' in elsewhere.read_text("utf-8")
    below_a_file = elsewhere / "dcc.toml"
    assert f"{below_a_file} cannot be written" in bare_dcc.error("settings", "--write", below_a_file, exit_code=2)
    bare_dcc.environment |= {"DCC_CONFIG": str(elsewhere), "DCC_DOWNLOADERS": ""}
    assert bare_dcc("settings").stdout.count("(file)") >= 2
    elsewhere.chmod(0o644)
    assert "holds a secret (key_passphrase)" in bare_dcc.error("status", exit_code=2)


@only_sqlite
def test_a_password_in_any_part_of_the_tracker_url_is_masked(bare_dcc: Dcc) -> None:
    bare_dcc.secrets.append("hunter2")
    log = bare_dcc.home / "logs" / "dcc.log"
    bare_dcc.environment["DCC_LOG_FILE"] = str(log)
    for url, exit_code in (
        ("mysql://dcc:hunter2@127.0.0.1:1/t", 4),
        ("mysql://127.0.0.1:1/t?password=hunter2", 4),
        ("hunter2", 2),
        ("oracle://dcc:hunter2@127.0.0.1/t", 2),
        ("my sql://hunter2@", 2),
        ("mysql://u:hunter2", 2),
        ("mysql://root:hunter2:3306/db", 2),
        ("mysql://root:hunter2@host:port/db", 2),
        ("mysql://root:hunter2@[::1/db", 2),
        ("mysql://root:hunter2@host/db?unknown=hunter2", 2),
    ):
        bare_dcc.environment["DCC_TRACKER_URL"] = url
        wrong = exit_code if exit_code == 2 else 0
        bare_dcc("settings", exit_code=wrong)
        bare_dcc("settings", "--json", exit_code=wrong)
        bare_dcc("doctor", "--no-sources", exit_code=exit_code)
        bare_dcc.error("status", exit_code=exit_code)
        bare_dcc("--debug", "init", exit_code=exit_code)
    bare_dcc.check(log.read_text())
    assert "DCC_TRACKER_URL" in log.read_text()


@only_sqlite
def test_a_variable_that_is_no_setting_ends_every_command_that_reads_settings(bare_dcc: Dcc) -> None:
    bare_dcc.environment["DCC_DOWNLOADERZ"] = PASSWORD
    for command in (["settings"], ["init"], ["status"], ["crawl"], ["doctor"]):
        assert "DCC_DOWNLOADERZ: there is no such setting; the nearest is DCC_DOWNLOADERS." in bare_dcc.error(
            *command, exit_code=2
        )


@only_sqlite
def test_a_setting_by_its_old_name_counts_and_is_warned_of(dcc: Dcc) -> None:
    dcc.environment["DCC_THROUGH_WITHIN_DAYS"] = "8"
    warned = dcc("status").stderr
    warning = "Warning: DCC_THROUGH_WITHIN_DAYS is now DCC_OVERDUE_DAYS. The next release no longer reads the old name."
    assert warned.splitlines().count(warning) == 1
    assert "DCC_OVERDUE_DAYS = 8 (environment)" in dcc("settings").stdout


@only_sqlite
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")
def test_the_home_of_another_user_is_no_place_to_work_in(bare_dcc: Dcc) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    commands = (["settings"], ["status"], ["doctor", "--no-sources"], ["init"])
    bare_dcc("init")
    for command in commands:
        # What they import that user may not be able to read.
        bare_dcc(*command, exit_code=1 if "doctor" in command else 0)
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        Path(place).chmod(0o755)
        home = Path(place, "home")
        home.mkdir()
        bare_dcc.environment["DCC_HOME"] = str(home)
        for mode, command in product((0o700, 0o755), commands):
            home.chmod(mode)
            os.seteuid(nobody)
            try:
                assert "belongs to the user root" in bare_dcc.error(*command, exit_code=2)
            finally:
                os.seteuid(0)
        os.chown(home, nobody, -1)
        told = bare_dcc("settings").stderr
        assert told.count("Warning: DCC_HOME") == 1
        assert "sudo -u nobody dcc" in told
        os.chown(home, 0, -1)
        assert bare_dcc("settings").stderr == ""


@only_sqlite
def test_init_mends_a_dagster_instance_that_was_left_half_made(bare_dcc: Dcc) -> None:
    bare_dcc("init")
    make_instance(load_settings(home=bare_dcc.home))
    with closing(sqlite3.connect(bare_dcc.home / "dagster" / "history" / "runs.db")) as connection:
        connection.execute("DROP TABLE alembic_version")
        connection.commit()
    bare_dcc("init")
    assert are_complete(bare_dcc.home / "dagster")


@only_sqlite
def test_a_new_installation_an_earlier_one_and_one_of_today(bare_dcc: Dcc) -> None:
    assert bare_dcc.error("upgrade", exit_code=2).endswith("See first what it would do: dcc upgrade --check")
    found = bare_dcc.json("upgrade", "--check", exit_code=1)
    assert (found["version"], found["dagster"]) == (version("dcc"), version("dagster"))
    assert [one["present"] for one in found["databases"]] == [None, None]
    bare_dcc("init")
    assert bare_dcc.json("upgrade", "--check")["to_do"] is False
    assert bare_dcc("upgrade", "--check").stdout.lower().count("nothing to do") == 4
    bare_dcc.environment["DCC_SLOWEST_DOWNLOAD"] = "7"
    renamed = bare_dcc.json("upgrade", "--check", exit_code=1)["settings"]
    assert "DCC_MIN_DOWNLOAD_SPEED" in renamed[0]


@pytest.fixture
def well(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> Dcc:
    """An installation about which there is nothing to say, whatever there may be to say of this machine."""
    of_machine = {"disks", "files", "text", "versions"}
    monkeypatch.setattr(
        examination, "DOCTOR_CHECKS", [check for check in examination.DOCTOR_CHECKS if check.name not in of_machine]
    )
    dcc.collect("add/H.2013-10-31.1.impc.zip")
    return dcc


@only_sqlite
def test_it_ends_with_0_for_what_is_well_with_1_for_a_warning_and_with_4_for_a_failure(well: Dcc) -> None:
    report = well.json("doctor")
    assert report["verdict"] in ("ok", "not checked"), report
    assert {one["check"] for one in report["findings"]} >= {"databases", "schemas", "sources", "answers", "clock"}
    assert all(one["advice"] == "" for one in report["findings"] if one["verdict"] == "ok")
    printed = well("doctor", "--deep").stdout
    assert "tracker database: SQLite" in printed
    assert "23 rules hold" in printed
    quiet = well("doctor", "--quiet", "--no-sources").stdout
    assert "not checked  " in well("doctor", "--no-sources").stdout
    [counts] = quiet.splitlines()
    assert "0 failed" in counts

    (well.home / "staging" / "notes.txt").touch()
    result = well("doctor", "--no-sources", exit_code=1)
    assert "-> dcc staging list --files" in result.stdout
    assert well.json("doctor", "--no-sources", exit_code=1)["verdict"] == "warning"
    (well.root / "centre").rename(well.root / "moved")
    assert "failed " in well("doctor", exit_code=4).stdout
    (well.home / "staging" / "notes.txt").unlink()
    well("doctor", "--no-sources")


@only_sqlite
def test_before_dcc_init_it_says_so_once_of_each_database(bare_dcc: Dcc) -> None:
    report = bare_dcc.json("doctor", exit_code=4)
    failed = [
        one["subject"] for one in report["findings"] if "database" in one["subject"] and one["verdict"] == "failed"
    ]
    assert failed == ["tracker database", "QC database"]
    assert not bare_dcc.home.exists()


@only_sqlite
def test_a_new_installation_is_told_its_first_step(dcc: Dcc) -> None:
    dcc.environment["DCC_SUGGESTIONS"] = "true"
    result = dcc("doctor", "--no-sources", exit_code=1)
    assert "file sources: None is registered.\n             -> dcc source add\n" in result.stdout
    assert result.stderr.startswith("Next: dcc source add ")
