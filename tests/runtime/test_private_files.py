"""What the platform writes is nobody else's, whatever the umask, and never where a stranger's link leads."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine

from dcc.analysis.export import ExportFormat, ExportManifest, open_directory, save_manifest
from dcc.cli.demo import submissions
from dcc.databases.schema import init_database
from dcc.errors import ConfigurationError, ReportNotSentError
from dcc.naming import Action
from dcc.notify.session_report import Report, write_to_directory
from dcc.operations.metrics.collector import replace_file
from dcc.outcomes import SubmissionKey
from dcc.reports.causes import spreadsheet
from dcc.reports.causes.collecting import FoundCauses
from dcc.reports.causes.scopes import Scope
from dcc.reports.causes.spreadsheet import write_findings_spreadsheet
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.stored_reports import write_page
from dcc.runtime.private_files import (
    SHARED_FILE,
    create_file,
    make_directory,
    refuse_links_of_others,
    remove_access_of_others,
    replacement_file,
    scratch_directory,
)
from dcc.settings import Settings
from dcc.store.staging import Staging
from dcc.tracker.database import open_tracker
from dcc_dagster.instance_configuration import write_configuration
from tests.support.databases import only_sqlite
from tests.support.installations import Installation, specimens

STRANGER = 65_534


def _write_spreadsheet(path: Path) -> None:
    with create_engine("sqlite://").connect() as nothing:
        found, catalogue = FoundCauses([], 0, 0, Scope(zips=[])), load_catalogue("en", Settings(home=path.parent))
        write_findings_spreadsheet(path, nothing, None, found, catalogue)


WRITERS: dict[str, Callable[[Path], object]] = {
    "spreadsheet": _write_spreadsheet,
    "page": lambda path: write_page(path, "page"),
    "metrics": lambda path: replace_file(path, b"metrics"),
}


@pytest.fixture(autouse=True)
def lax_umask() -> Iterator[None]:
    """Files that are made without a thought can be read by others, and written."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(root: Path) -> list[str]:
    """Files and directories below `root` that others can reach and read, write or enter."""
    found = []
    for directory, folders, files in os.walk(root):
        folders[:] = [folder for folder in folders if mode(Path(directory, folder)) & stat.S_IXOTH]
        names = [*folders, *files]
        found += [str(Path(directory, name)) for name in names if mode(Path(directory, name)) & stat.S_IRWXO]
    return found


@only_sqlite
def test_a_whole_session_leaves_nothing_that_others_can_read(installation: Installation) -> None:
    folder = installation.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    installation.run_session()
    home = installation.settings.home
    staged = {path.name for path in (home / "staging").rglob("*")}
    assert staged >= {"add", "H.2013-10-31.1.impc.zip", "H.2013-10-31.1.impc.zip.contents"}
    home.chmod(0o755)
    assert open_to_others(home) == []
    archive = home / "staging" / "add" / "H.2013-10-31.1.impc.zip"
    assert [mode(archive.parent), mode(home / "staging")] == [0o700, 0o700]


@only_sqlite
def test_a_database_file_that_others_could_read_is_closed_to_them(settings: Settings) -> None:
    engine = open_tracker(settings)
    init_database(engine)
    (settings.home / "tracker.db").chmod(0o664)
    init_database(engine)
    engine.dispose()
    assert mode(settings.home / "tracker.db") == 0o660


def test_the_directory_of_the_dagster_instance_is_closed_to_others(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    settings.dagster_home.mkdir(parents=True)
    settings.dagster_home.chmod(0o755)
    write_configuration(settings)
    assert mode(settings.dagster_home) == 0o750
    assert mode(settings.dagster_home / "dagster.yaml") == 0o600
    fresh = Settings(home=tmp_path / "fresh")
    write_configuration(fresh)
    assert [mode(fresh.home), mode(fresh.dagster_home)] == [0o700, 0o700]
    assert [path.name for path in fresh.dagster_home.iterdir()] == ["dagster.yaml"]


def test_reports_are_for_their_directorys_group_and_nobody_else(tmp_path: Path) -> None:
    directory = tmp_path / "reports" / "sessions"
    write_to_directory(directory, Report(7, "Subject", "Text"))
    assert [mode(directory), mode(directory / "session-000007.txt")] == [0o750, 0o640]


def test_exports_are_for_their_directorys_group_and_nobody_else(tmp_path: Path) -> None:
    directory = tmp_path / "export"
    with open_directory(directory):
        with replacement_file(directory / "file", SHARED_FILE) as temporary:
            temporary.write_text("rows")
        save_manifest(directory, ExportManifest(ExportFormat.PARQUET, {}))
    assert mode(directory) == 0o750
    assert {path.name: mode(path) for path in directory.iterdir()} == dict.fromkeys(
        ["_lock", "file", "_manifest.json"], 0o640
    )


@pytest.fixture
def strangers_link(tmp_path: Path) -> Path:
    """A link to a directory of ours that another user has made."""
    if os.geteuid() != 0:
        pytest.skip("Only root can give a link to another user.")
    (tmp_path / "ours").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "ours")
    os.lchown(link, STRANGER, STRANGER)
    return link


def test_nothing_is_made_where_a_strangers_link_leads(strangers_link: Path) -> None:
    key = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
    tries: list[Any] = [
        lambda: make_directory(strangers_link / "new"),
        Staging(strangers_link).make,
        lambda: Staging(strangers_link / "staging").prepare(key),
        lambda: write_configuration(Settings(home=strangers_link)),
        lambda: init_database(open_tracker(Settings(home=strangers_link / "home"))),
    ]
    for attempt in tries:
        with pytest.raises(ConfigurationError, match="link that another user"):
            attempt()
    with pytest.raises(ReportNotSentError, match="link that another user"):
        write_to_directory(strangers_link, Report(7, "Subject", "Text"))
    assert list((strangers_link.parent / "ours").iterdir()) == []


def test_links_of_ours_and_of_root_are_followed_but_not_on_to_a_strangers(strangers_link: Path) -> None:
    own = strangers_link.with_name("own")
    own.symlink_to("ours/../ours")
    refuse_links_of_others(own / "new")
    make_directory(own / "new" / "below")
    assert (strangers_link.parent / "ours" / "new" / "below").is_dir()
    loop = strangers_link.with_name("loop")
    loop.symlink_to("loop")
    refuse_links_of_others(loop / "new")
    indirect = strangers_link.with_name("indirect")
    indirect.symlink_to("link")
    with pytest.raises(ConfigurationError, match="link that another user"):
        refuse_links_of_others(indirect / "new")


def test_a_new_file_takes_the_place_of_one_that_somebody_has_open(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with path.open() as held:
        with os.fdopen(create_file(path, 0o600), "w") as file:
            file.write("secret")
        assert held.read() == "before"
    assert (path.read_text(), mode(path)) == ("secret", 0o600)


def test_rights_are_taken_only_from_what_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o604)
    monkeypatch.setattr(os, "geteuid", lambda: SimpleNamespace())
    remove_access_of_others(tmp_path / "file")
    assert mode(tmp_path / "file") == 0o604


def test_two_writers_of_a_file_do_not_meet_and_the_last_one_s_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacement_file(path, 0o640) as one, replacement_file(path, 0o600) as other:
        one.write_text("one")
        other.write_text("other")
    assert (path.read_text(), mode(path)) == ("one", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_could_not_be_written_whole_is_as_it_was_even_with_the_longest_name(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 125 + ".xlsx")
    with replacement_file(path, 0o600) as part:
        part.write_text("before")
    with suppress(ZeroDivisionError), replacement_file(path, 0o600) as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["pipe", "/dev/dcc-test"])
def test_no_file_takes_the_place_of_a_device_or_pipe(tmp_path: Path, place: str) -> None:
    """Such as /dev/null, which root can replace for the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no ordinary file"), replacement_file(tmp_path / place) as part:
        part.unlink()
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_every_writer_of_a_file_that_somebody_names_takes_the_longest_name_and_another_writer_beside_it(
    writer: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, path = Path.replace, tmp_path / ("é" * 125 + ".xlsx")
    beside: list[bool] = []

    def after_another(part: Path, target: Path) -> Path:
        if not beside:
            beside.append(True)
            writer(path)
        return replace(part, target)

    monkeypatch.setattr(Path, "replace", after_another)
    monkeypatch.setattr(spreadsheet, "_facts", lambda *_: iter(()))
    writer(path)
    assert beside
    assert path.stat().st_size > 0
    assert list(tmp_path.iterdir()) == [path]


def test_scratch_directories_of_killed_processes_are_removed_after_a_day(tmp_path: Path) -> None:
    old, young = tmp_path / ".scratch-old", tmp_path / ".scratch-young"
    for left in (old, young):
        left.mkdir()
        (left / "archive").write_bytes(b"PK")
    a_day_ago = time.time() - 25 * 3600
    os.utime(old, (a_day_ago, a_day_ago))
    with scratch_directory(tmp_path) as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (tmp_path, 0o700)
        assert (old.exists(), young.exists()) == (False, True)
    assert not folder.exists()
