"""`dcc init` and `settings`: setting up, and what is set."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dcc_resources.settings import Settings
from tests.cli.conftest import Dcc
from tests.databases import only_sqlite


def test_init_makes_a_tracker_and_changes_nothing_when_run_again(bare_dcc: Dcc) -> None:
    made = bare_dcc.json("init")
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
def test_init_says_what_comes_next(bare_dcc: Dcc) -> None:
    del bare_dcc.environment["DCC_SUGGESTIONS"]
    made = bare_dcc("init")
    assert "tracker.db" in made.stdout
    assert "qc.db" in made.stdout
    assert made.stderr.startswith("Next: dcc source add ")
    assert bare_dcc("init").stderr.startswith("Next: dcc status ")


@only_sqlite
def test_a_tracker_of_a_newer_version_is_left_alone(dcc: Dcc) -> None:
    path = Path(dcc.environment["DCC_HOME"]) / "tracker.db"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before = path.read_bytes()
    for arguments in (["init"], ["status"], ["crawl"]):
        assert "9999" in dcc.error(*arguments, exit_code=2)
    assert path.read_bytes() == before


def test_settings_lists_each_with_its_variable_value_and_origin(bare_dcc: Dcc) -> None:
    """existing_system_defects row 32: the tracker's password is never shown."""
    bare_dcc.environment["DCC_DOWNLOADERS"] = "7"
    bare_dcc.environment["DCC_KEY_PASSPHRASE"] = "hunter2"
    bare_dcc.secrets.append("hunter2")
    entries = {entry["variable"]: entry for entry in bare_dcc.json("settings")}
    assert set(entries) == {f"DCC_{name.upper()}" for name in Settings.model_fields}
    assert entries["DCC_DOWNLOADERS"]["value"] == 7
    assert entries["DCC_DOWNLOADERS"]["from"] == "environment"
    assert entries["DCC_KEY_PASSPHRASE"]["value"] == "***"
    assert entries["DCC_WORKERS"] == {
        "name": "workers",
        "variable": "DCC_WORKERS",
        "value": 2,
        "from": "default",
        "description": "Archives and documents checked at once.",
    }
    assert entries["DCC_STAGING"]["value"] == str(Path(bare_dcc.environment["DCC_HOME"]) / "staging")
    assert all(entry["description"] for entry in entries.values())
    said = bare_dcc("settings").stdout
    assert "DCC_DOWNLOADERS = 7 (set)" in said
    assert "DCC_WORKERS = 2 (default)" in said


@only_sqlite
def test_a_password_in_any_part_of_the_tracker_url_is_masked(bare_dcc: Dcc) -> None:
    """existing_system_defects row 32."""
    bare_dcc.secrets.append("hunter2")
    for url, exit_code in (
        ("mysql://dcc:hunter2@127.0.0.1:1/t", 4),
        ("mysql://127.0.0.1:1/t?password=hunter2", 4),
        ("hunter2", 2),
        ("oracle://dcc:hunter2@127.0.0.1/t", 2),
        ("my sql://hunter2@", 2),
    ):
        bare_dcc.environment["DCC_TRACKER_URL"] = url
        bare_dcc("settings")
        bare_dcc("settings", "--json")
        bare_dcc.error("status", exit_code=exit_code)
        bare_dcc("--debug", "init", exit_code=exit_code)
