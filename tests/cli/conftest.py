"""Fixtures: the `dcc` command on an installation of the test's own, in this process and as a process."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr
from sqlalchemy import Engine, Executable

from dcc.cli.main import dcc as command
from dcc.cli.shell.context import open_qc
from dcc.cli.shell.error_advice import error_kinds
from dcc.databases.transactions import writing
from dcc.operations.session_work import open_session
from dcc.session.sessions import Session
from dcc.settings import Settings, load_settings
from dcc.tracker.database import open_tracker
from dcc.tracker.register import centres
from tests.support.asking import closing_all, execute_in
from tests.support.databases import PASSWORD
from tests.support.environments import clean, forget_settings
from tests.support.installations import Folder
from tests.support.prepared_databases import PreparedFile
from tests.support.prepared_processes import run_dcc
from tests.support.servers import Share
from tests.support.terminals import seen_on_a_terminal, shown_on

Content = bytes | Mapping[str, bytes] | None
"""Of an archive: its bytes, its documents by name, or those of a valid one."""
PROGRAM = Path(sys.executable).parent / "dcc"
IDS = error_kinds().keys()


def without_id(line: str) -> str:
    """The message of an error's line: click's own errors have no id."""
    match = re.fullmatch(r"Error(?: \(([a-z-]+)\))?: (.*)", line)
    assert match is not None, line
    assert match[1] is None or match[1] in IDS, line
    return match[2]


@dataclass
class Dcc:
    """`dcc` with the environment of one installation. No output may ever hold one of `secrets`."""

    environment: dict[str, str]
    root: Path
    secrets: list[str] = field(default_factory=lambda: [PASSWORD])

    @property
    def home(self) -> Path:
        """DCC_HOME."""
        return Path(self.environment["DCC_HOME"])

    def __call__(self, *arguments: object, exit_code: int = 0, **options: Any) -> Result:
        """Run a command in this process and check how it ends; `options` are CliRunner's."""
        runner = CliRunner(env=self.environment)
        result = runner.invoke(command, [str(argument) for argument in arguments], prog_name="dcc", **options)
        assert result.exit_code == exit_code, f"{arguments} ended with {result.exit_code}:\n{result.output}"
        self.check(result.output)
        return result

    def json(self, *arguments: object, exit_code: int = 0) -> Any:
        """What a command with --json prints on standard output."""
        return json.loads(self(*arguments, "--json", exit_code=exit_code).stdout)

    def error(self, *arguments: object, exit_code: int, **options: Any) -> str:
        """The one line of a command that ends with an error and prints nothing on standard output."""
        result = self(*arguments, exit_code=exit_code, **options)
        assert result.stdout == ""
        lines = [line for line in result.stderr.splitlines() if line.startswith("Error")]
        assert lines == result.stderr.splitlines()[-1:]
        assert "Traceback" not in result.stderr
        return without_id(lines[0])

    def states(self, *options: str) -> dict[str, str]:
        """The phase and status of each submission that `dcc zips` lists."""
        listed = self.json("zips", *options)
        return {f"{one['action']}/{one['file_name']}": f"{one['phase']} {one['status']}" for one in listed}

    def forked(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command in a process that is forked from one that has imported what it needs."""
        output, errors = self.root / "forked.output", self.root / "forked.errors"
        for file in (output, errors):
            file.unlink(missing_ok=True)
        run = [str(argument) for argument in arguments]
        exit_code = run_dcc(run, self.root, self.process_environment(), output, errors, seconds=120)
        assert exit_code is not None, f"{run} did not end in time"
        ended = subprocess.CompletedProcess(run, exit_code, output.read_text("utf-8"), errors.read_text("utf-8"))
        self.check(ended.stdout + ended.stderr)
        return ended

    def on_a_terminal(self, columns: int, *arguments: object, exit_code: int = 0) -> list[str]:
        """The lines that a command shows on a terminal of so many columns, without colours."""

        def run(terminal: int) -> None:
            with shown_on(terminal) as patch:
                for name, value in self.environment.items():
                    patch.setenv(name, value)
                with pytest.raises(SystemExit) as ended:
                    command.main([*map(str, arguments)], prog_name="dcc")
            assert ended.value.code == exit_code

        lines = seen_on_a_terminal(columns, run)
        self.check("\n".join(lines))
        return lines

    def process_environment(self) -> dict[str, str]:
        """The environment of a process: this one's, with the installation's settings."""
        return clean(**self.environment)

    def check(self, output: str) -> None:
        """No secret may be in an output."""
        for secret in self.secrets:
            assert secret not in output

    def change_tracker(self, *statements: Executable) -> None:
        """Execute statements on the tracker."""
        with closing_all(_open_tracker(self.environment)) as tracker:
            execute_in(tracker, *statements)

    def add_folder(self, name: str = "centre", centre: str = "H") -> Folder:
        """Register a folder as a file source."""
        path = self.root / name
        path.mkdir()
        added = self.json("source", "add", "--centre", centre, "--protocol", "file", "--base-path", path)
        return Folder(path, added["id"])

    def collect(self, archives: str | Mapping[str, Content], *options: object, exit_code: int = 0) -> Folder:
        """Have a session take from a new folder of centre H a valid archive of this key, or each with its content."""
        folder = self.add_folder()
        for key, content in ({archives: None} if isinstance(archives, str) else archives).items():
            folder.put(key, content)
        self("crawl", *options, exit_code=exit_code)
        return folder

    @contextmanager
    def active_session(self) -> Iterator[Session]:
        """A session of this process, which commands find active."""
        with closing_all(_open_tracker(self.environment)) as tracker:
            settings = load_settings(home=self.home)
            with open_session(tracker, settings) as session:
                yield session


def place(share: Share, centre: str = "H", accesskey: str | None = None) -> list[str]:
    """The options of `dcc source add` for a share."""
    values = {
        "centre": centre,
        "protocol": share.protocol.value,
        "hostname": share.hostname,
        "username": share.username,
        "accesskey": share.accesskey if accesskey is None else accesskey,
        "base-path": share.base_path,
    }
    return [part for name, value in values.items() for part in (f"--{name}", value)]


def imported_by(*commands: str) -> set[str]:
    """The packages that commands import, all in one process of their own."""
    code = (
        "import sys\n"
        "from dcc.cli.main import dcc\n"
        f"for command in {commands!r}:\n"
        "    dcc.main(command.split(), prog_name='dcc', standalone_mode=False)\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    run = [sys.executable, "-c", code]
    ended = subprocess.run(run, env=clean(), capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in ended.stderr.split()}


_ENVIRONMENT = {
    "DCC_DAGSTER_EVENTS": "false",
    "DCC_UNTIL": "xsd",
    "DCC_RETRY_DELAY": "0.05",
    "DCC_QUIET_SECONDS": "0",
    "DCC_MIN_FREE_BYTES": "0",
    "DCC_CONNECT_TIMEOUT": "5",
    "DCC_SUGGESTIONS": "false",
}
"""Sessions do without Dagster, and end with validation."""


@pytest.fixture
def bare_dcc(tracker_url: str, qc_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dcc:
    """`dcc` before `dcc init`, on each kind of database."""
    forget_settings(monkeypatch)
    of_test = {"DCC_HOME": str(tmp_path / "home"), "DCC_TRACKER_URL": tracker_url, "DCC_QC_URL": qc_url}
    return Dcc(of_test | _ENVIRONMENT, tmp_path)


@pytest.fixture
def dcc(bare_dcc: Dcc, databases_made: None) -> Dcc:
    """`dcc` after `dcc init`, with a tracker in which the centres H and J are registered."""
    return _with_centres(bare_dcc)


@pytest.fixture(scope="module")
def shared_dcc(prepared_files: dict[str, PreparedFile], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dcc]:
    """The same on SQLite, once for a module, to be filled by a fixture of it and looked at by its tests."""
    root = tmp_path_factory.mktemp("shared")
    for name, prepared in (("tracker.db", "tracker"), ("qc.db", "qc_database")):
        prepared_files[prepared].copy_to(root / "home" / name)
    with pytest.MonkeyPatch.context() as patch:
        forget_settings(patch)
        yield _with_centres(Dcc({"DCC_HOME": str(root / "home")} | _ENVIRONMENT, root))


def _with_centres(dcc: Dcc) -> Dcc:
    with closing_all(_open_tracker(dcc.environment)) as tracker, writing(tracker) as connection:
        for code in ("H", "J"):
            centres.add_centre(connection, centres.CentreDetails(code))
    return dcc


def _open_tracker(environment: Mapping[str, str]) -> Engine:
    home, url = Path(environment["DCC_HOME"]), environment.get("DCC_TRACKER_URL")
    return open_tracker(Settings(home=home, tracker_url=None if url is None else SecretStr(url)))


@pytest.fixture
def dcc_qc(dcc: Dcc, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The QC database of `dcc`."""
    for name, value in dcc.environment.items():
        monkeypatch.setenv(name, value)
    with open_qc(load_settings()) as qc:
        yield qc
