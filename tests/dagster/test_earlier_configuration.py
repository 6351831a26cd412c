"""A `dagster.yaml` of an earlier version: what has moved is exchanged in it, and nothing else."""

import logging
import stat
from pathlib import Path

import pytest

from dcc.errors import DagsterStorageError
from dcc.settings import load_settings
from dcc_assets.commands import upgrade_instance
from dcc_dagster import instance_configuration
from dcc_dagster.event_storage import BatchingSqliteEventLogStorage
from dcc_dagster.instance import open_instance
from dcc_dagster.instance_configuration import bring_up_to_date
from tests.support.raising import raising

BEFORE = """\
# Ours:\tas it was.
event_log_storage:
  module: dcc_assets.event_storage  # see dcc_assets.event_storage
  class: BatchingSqliteEventLogStorage

storage: {custom: {"module": "dcc_assets.mysql_storage", class: PatientMysqlStorage}}
python_logs:
  managed_python_loggers: [dcc_resources, dcc_assets]   # and ours
  python_log_level: WARNING
other: dcc_assets.event_storage is only spoken of; Größe
"""
AFTER = """\
# Ours:\tas it was.
event_log_storage:
  module: dcc_dagster.event_storage  # see dcc_assets.event_storage
  class: BatchingSqliteEventLogStorage

storage: {custom: {"module": "dcc_dagster.mysql_storage", class: PatientMysqlStorage}}
python_logs:
  managed_python_loggers: [dcc, dcc_assets, dcc_dagster]   # and ours
  python_log_level: WARNING
other: dcc_assets.event_storage is only spoken of; Größe
"""


def changed(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    bring_up_to_date(path)
    return path.read_bytes().decode()


IN_LINES = "python_logs:\n  managed_python_loggers:\n    - dcc_resources\n    - dcc_assets\n    - ours\n  other: 1\n"
OF_NOW = IN_LINES.replace("dcc_resources", "dcc").replace("dcc_assets", "dcc_assets\n    - dcc_dagster")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("earlier", "now"), [(BEFORE, AFTER), (IN_LINES, OF_NOW)])
def test_what_has_moved_is_exchanged_and_all_else_stays_byte_for_byte(
    tmp_path: Path, earlier: str, now: str, newline: str
) -> None:
    before, after = (text.replace("\n", newline) for text in (earlier, now))
    assert changed(tmp_path / "dagster.yaml", before) == after
    assert changed(tmp_path / "dagster.yaml", after) == after


@pytest.mark.parametrize("text", ["nonsense: {", "", "- a", "\x00", "telemetry:\n  enabled: false\n"])
def test_what_names_nothing_that_moved_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dagster.yaml"
    path.write_bytes(text.encode())
    before = path.stat()
    bring_up_to_date(path)
    assert (path.read_bytes().decode(), path.stat().st_ino) == (text, before.st_ino)


def test_it_is_done_in_one_step_said_once_and_keeps_rights_and_links(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, link = tmp_path / "kept.yaml", tmp_path / "dagster.yaml"
    path.write_text(BEFORE)
    path.chmod(0o640)
    link.symlink_to(path)
    old = path.open()
    bring_up_to_date(link)
    bring_up_to_date(link)
    assert old.read() == BEFORE
    assert link.is_symlink()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (AFTER, 0o640)
    (said,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert str(link) in said
    assert "dcc_assets.event_storage" in said
    assert [entry.name for entry in tmp_path.iterdir() if entry not in (path, link)] == []
    old.close()


def test_a_file_that_cannot_be_changed_is_said_with_what_to_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_configuration, "_replace", raising(PermissionError("it is not writable")))
    home = load_settings(home=tmp_path).dagster_home
    home.mkdir()
    (home / "dagster.yaml").write_text(BEFORE)
    with pytest.raises(DagsterStorageError, match=r"change dcc_assets\.event_storage to dcc_dagster\.event_storage"):
        open_instance(load_settings(home=tmp_path))
    (home / "dagster.yaml").write_text("python_logs:\n  managed_python_loggers: [dcc_resources]\n")
    bring_up_to_date(home / "dagster.yaml")
    assert "Change dcc_resources in it to dcc yourself" in caplog.text


def test_it_is_brought_up_to_date_when_an_instance_is_opened_and_by_init(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path)
    path = settings.dagster_home / "dagster.yaml"
    upgrade_instance(settings)
    assert not path.exists()
    with open_instance(settings):
        pass
    text = path.read_text()
    former = text.replace("dcc_dagster.event", "dcc_assets.event").replace(
        "[dcc, dcc_assets, dcc_dagster]", "[dcc_resources, dcc_assets]"
    )
    path.write_text(former)
    upgrade_instance(settings)
    assert path.read_text() == text
    path.write_text(former)
    with open_instance(settings) as instance:
        assert isinstance(instance.event_log_storage, BatchingSqliteEventLogStorage)
    assert path.read_text() == text
