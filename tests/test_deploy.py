"""What deploy/ holds: units that systemd takes, a compose file and a container that say what they should.

Nothing is started by systemd or a container engine here; what can be told without them is.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from dcc_resources.databases.grants import grant_statements
from dcc_resources.settings import Settings
from tests.cli.conftest import clean
from tests.servers import server_program
from tests.test_documents_commands import Command, look_up

DEPLOY = Path(__file__).parent.parent / "deploy"
ROOT = DEPLOY.parent
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.suffix in (".service", ".timer", ".target"))
SERVICES = [path for path in UNITS if path.suffix == ".service"]
PROGRAM = Path(sys.executable).parent / "dcc"
SAFE_EXPOSURE = 2.0


def _lines(unit: Path) -> list[str]:
    return [line for line in unit.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def _values(unit: Path, name: str) -> list[str]:
    return [line.partition("=")[2] for line in _lines(unit) if line.startswith(f"{name}=")]


@pytest.fixture(scope="module")
def installed_units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units as they would be installed, but for where the program is."""
    folder = tmp_path_factory.mktemp("units")
    for unit in UNITS:
        text = unit.read_text("utf-8").replace("/opt/dcc/.venv/bin/dcc", str(PROGRAM))
        (folder / unit.name).write_text(text, "utf-8")
    return folder


@pytest.mark.servers
def test_systemd_takes_every_unit(installed_units: Path) -> None:
    analyse = server_program("systemd-analyze")
    ended = subprocess.run(
        [analyse, "verify", "--man=no", *sorted(installed_units.iterdir())],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{installed_units}:"},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


@pytest.mark.servers
@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_may_do_little_beside_its_work(service: Path, installed_units: Path) -> None:
    ended = subprocess.run(
        [server_program("systemd-analyze"), "security", "--offline=true", "--no-pager", installed_units / service.name],
        capture_output=True,
        text=True,
    )
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", ended.stdout)
    assert found is not None, ended.stdout + ended.stderr
    assert float(found[1]) <= SAFE_EXPOSURE, ended.stdout


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_runs_a_command_that_exists_as_a_user_of_its_own_with_its_secrets_in_a_file(service: Path) -> None:
    (command,) = _values(service, "ExecStart")
    assert command.startswith("/opt/dcc/.venv/bin/dcc ")
    look_up(Command(command.removeprefix("/opt/dcc/.venv/bin/")))
    assert _values(service, "User") == ["dcc"]
    (file,) = _values(service, "EnvironmentFile")
    assert (service.parent / f"{Path(file).name}.example").exists()
    assert _values(service, "LimitCORE") == ["0"]
    assert _values(service, "TimeoutStopSec") or _values(service, "TimeoutStartSec")
    if _values(service, "Type") == ["exec"]:
        assert _values(service, "Restart") == ["on-failure"]
    else:
        assert service.with_suffix(".timer") in UNITS
    text = service.read_text("utf-8")
    assert "mysql://" not in text


def test_the_target_wants_what_is_there() -> None:
    (wanted,) = _values(DEPLOY / "systemd" / "dcc.target", "Wants")
    assert set(wanted.split()) == {unit.name for unit in SERVICES if _values(unit, "Type") == ["exec"]}
    for unit in SERVICES:
        assert (_values(unit, "PartOf") == ["dcc.target"]) is (_values(unit, "Type") == ["exec"])


@pytest.mark.parametrize("example", sorted((DEPLOY / "systemd").glob("*.example")), ids=lambda path: path.name)
def test_the_examples_of_settings_name_settings(example: Path) -> None:
    named = re.findall(r"^#?(DCC_[A-Z_]+)=", example.read_text("utf-8"), re.MULTILINE)
    known = {f"DCC_{name.upper()}" for name in Settings.model_fields}
    assert named
    assert set(named) <= known


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of deploy/ with secrets made."""
    deploy = tmp_path_factory.mktemp("checkout") / "deploy"
    deploy.mkdir()
    for name in ("make-secrets", "compose.yaml"):
        (deploy / name).write_bytes((DEPLOY / name).read_bytes())
    subprocess.run(["sh", deploy / "make-secrets"], check=True, capture_output=True)
    return deploy / "secrets"


def test_the_accounts_of_the_containers_have_the_rights_that_init_prints(secrets: Path) -> None:
    made = (secrets / "accounts.sql").read_text("utf-8").splitlines()
    urls = [make_url((secrets / f"init_dcc_{kind}_url").read_text("utf-8")) for kind in ("tracker", "qc", "dagster")]
    grants = [line for line in grant_statements(*urls) if line.startswith("GRANT") and "dcc_analyst" not in line]
    assert sorted(line for line in made if line.startswith("GRANT")) == sorted(grants)
    assert sum(line.startswith("CREATE DATABASE") and "utf8mb4_bin" in line for line in made) == 3
    for account, file in (("dcc_init", "init_dcc_qc_url"), ("dcc_sessions", "sessions_dcc_tracker_url")):
        url = make_url((secrets / file).read_text("utf-8"))
        assert url.username == account
        assert f"CREATE USER IF NOT EXISTS '{account}'@'%' IDENTIFIED BY '{url.password}';" in made


def test_secrets_are_for_their_owner_and_never_made_twice(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert len(set(before.values())) == len(before)
    again = subprocess.run(["sh", secrets.parent / "make-secrets"], capture_output=True, text=True)
    assert (again.returncode, "remove them first" in again.stderr) == (2, True)
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before


@pytest.mark.servers
def test_the_compose_file_is_valid_and_holds_no_secret(secrets: Path) -> None:
    ended = subprocess.run(
        [server_program("docker-compose"), "--file", secrets.parent / "compose.yaml", "--profile", "command", "config"],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    composed = yaml.safe_load(ended.stdout)
    assert set(composed["services"]) == {"database", "prepare", "daemon", "web", "dcc"}
    assert {Path(one["file"]).name for one in composed["secrets"].values()} == {path.name for path in secrets.iterdir()}
    for path in secrets.iterdir():
        assert path.read_text("utf-8") not in ended.stdout
    assert "mysql://" not in ended.stdout


def _services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
    return services


def test_the_containers_run_commands_that_exist_locked_in_and_watched() -> None:
    for name, service in _services().items():
        if name == "database":
            continue
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        if "command" in service:
            look_up(Command(shlex.join(["dcc", *service["command"]])))
    assert all("healthcheck" in _services()[name] for name in ("database", "daemon", "web"))
    (examination,) = re.findall(r"dcc doctor[^|]*", " ".join(_services()["daemon"]["healthcheck"]["test"]))
    look_up(Command(examination))
    assert _services()["web"]["ports"] == ["127.0.0.1:3000:3000"]
    assert [one["source"] for one in _services()["web"]["secrets"]] == ["ui_dcc_dagster_url"]


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def test_the_container_is_made_of_what_is_there() -> None:
    instructions = _instructions()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions} <= known
    assert instructions[0][0] == "FROM"
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text("utf-8").splitlines()
    wanted = [line[1:] for line in ignored if line.startswith("!")]
    for name, rest in instructions:
        if name == "COPY" and "--from=" not in rest:
            for source in [word for word in rest.split() if not word.startswith("--")][:-1]:
                assert (ROOT / source).exists(), source
                assert any(fnmatch.fnmatch(source, pattern) for pattern in wanted), source
        elif name == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True)
    users = [rest for name, rest in instructions if name == "USER"]
    assert users == ["dcc"]
    (command,) = [json.loads(rest) for name, rest in instructions if name == "CMD"]
    look_up(Command(shlex.join(["dcc", *command])))
    packages = {path.name for path in ROOT.glob("dcc_*") if (path / "__init__.py").exists()}
    assert packages <= {rest.split()[0] for name, rest in instructions if name == "COPY"}


def test_the_entry_turns_secrets_that_are_files_into_settings(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "dcc_tracker_url").write_text(f"sqlite:///{tmp_path}/of-the-file.db\n")
    (secrets / "dcc_qc_url").write_text("mysql://dcc:s3cret4711@database/phenodcc_raw")
    (secrets / "dcc_workers").write_text("7")
    (secrets / "dcc_$(touch x)").write_text("no name of a setting")
    (secrets / "other").write_text("not a setting")
    environment = {
        **clean(os.environ),
        "DCC_HOME": str(tmp_path / "home"),
        "DCC_WORKERS": "3",
        "DCC_SECRETS": str(secrets),
        "DCC_PROGRAM": str(PROGRAM),
    }
    ended = subprocess.run(
        [DEPLOY / "container" / "entry", "settings", "--json"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    settings = {one["variable"]: one["value"] for one in json.loads(ended.stdout)}
    assert settings["DCC_TRACKER_URL"] == f"sqlite:///{tmp_path}/of-the-file.db"
    assert settings["DCC_QC_URL"] == "mysql://dcc:***@database/phenodcc_raw"
    assert settings["DCC_WORKERS"] == 3
    assert "s3cret4711" not in ended.stdout + ended.stderr
    assert not (tmp_path / "x").exists()


def test_nothing_names_a_package_registry() -> None:
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            assert not re.search(r"pypi|registry|ghcr|quay|docker\.io", path.read_text("utf-8")), path
