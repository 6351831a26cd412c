"""What deploy/ holds: units that systemd takes, a compose file and a container that say what they should.

Nothing is started by systemd or a container engine here; what can be told without them is.
"""

import asyncio
import base64
import fnmatch
import http.client
import json
import os
import re
import shlex
import shutil
import ssl
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from sqlalchemy import make_url
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from benchmarks.servers import ServerProcess
from dcc.databases.grants import grant_statements
from dcc.runtime import processes
from dcc.settings import Settings, load_settings
from dcc.settings.workers import ExecutorKind
from dcc_dagster.executors import broker_of, execution_of, require_executor
from tests.support.environments import clean, forget_settings
from tests.support.ports import free_port
from tests.support.served_page import PAGE_NAME, ServedPage
from tests.support.servers import server_program
from tests.test_documents_commands import Command, look_up

DEPLOY = Path(__file__).parent.parent / "deploy"
ROOT = DEPLOY.parent
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.suffix in (".service", ".timer", ".target"))
SERVICES = [path for path in UNITS if path.suffix == ".service"]
COMPOSED = ("compose.yaml", "compose-workers.yaml")
PROGRAM = Path(sys.executable).parent / "dcc"
SAFE_EXPOSURE = 2.0


def _values(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", _text(unit), re.MULTILINE)


def _text(*path: str | Path) -> str:
    """A file of deploy/."""
    return DEPLOY.joinpath(*path).read_text("utf-8")


def _run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def installed_units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units as they would be installed, but for where the program is."""
    folder = tmp_path_factory.mktemp("units")
    for unit in UNITS:
        text = _text(unit).replace("/opt/dcc/.venv/bin/dcc", str(PROGRAM))
        (folder / unit.name).write_text(text, "utf-8")
    return folder


@pytest.mark.servers
def test_systemd_takes_every_unit(installed_units: Path) -> None:
    command = [server_program("systemd-analyze"), "verify", "--man=no", *sorted(installed_units.iterdir())]
    ended = _run(*command, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{installed_units}:"})
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


@pytest.mark.servers
@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_may_do_little_beside_its_work(service: Path, installed_units: Path) -> None:
    analyse = server_program("systemd-analyze")
    ended = _run(analyse, "security", "--offline=true", "--no-pager", installed_units / service.name)
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", ended.stdout)
    assert found is not None, ended.stdout + ended.stderr
    assert float(found[1]) <= SAFE_EXPOSURE, ended.stdout


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.name)
def test_a_service_runs_a_command_that_exists_as_a_user_of_its_own_with_its_secrets_in_a_file(service: Path) -> None:
    (command,) = _values(service, "ExecStart")
    assert command.startswith("/opt/dcc/.venv/bin/dcc ")
    look_up(Command(command.removeprefix("/opt/dcc/.venv/bin/")))
    assert _values(service, "User") == ["dcc"]
    (file,) = re.findall(r"DCC_CONFIG=/etc/dcc/(\S+)", *_values(service, "Environment"))
    assert (service.parent / file).exists()
    assert _values(service, "LimitCORE") == ["0"]
    # Stricter than `dcc` itself, it would take reports and the log from their directory's group.
    assert int(*_values(service, "UMask"), 8) == processes.OTHERS
    assert _values(service, "TimeoutStopSec") or _values(service, "TimeoutStartSec")
    if _values(service, "Type") == ["exec"]:
        assert _values(service, "Restart") == ["on-failure"]
        # By its usual limit, systemd would give up for good while a database is away for some minutes.
        assert _values(service, "StartLimitIntervalSec") == ["0"]
    else:
        assert service.with_suffix(".timer") in UNITS
    assert "mysql://" not in _text(service)


def test_every_timer_has_a_service_and_is_named_where_services_are_installed() -> None:
    page = (DEPLOY.parent / "docs" / "operations" / "install.md").read_text("utf-8")
    timers = [unit for unit in UNITS if unit.suffix == ".timer"]
    assert {"dcc-crawl.timer", "dcc-archive-audit.timer"} <= {timer.name for timer in timers}
    for timer in timers:
        assert timer.with_suffix(".service") in UNITS
        assert f"`{timer.name}`" in page or f" {timer.name}" in page


@pytest.mark.servers
def test_the_daemon_does_not_start_where_its_timer_is_enabled(tmp_path: Path) -> None:
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    shutil.copy(DEPLOY / "systemd" / "dcc-crawl.timer", units)
    enabled = _run(server_program("systemctl"), "--root", tmp_path, "enable", "dcc-crawl.timer")
    (condition,) = _values(DEPLOY / "systemd" / "dcc-daemon.service", "ConditionPathExists")
    assert condition.startswith("!/")
    assert (tmp_path / condition.removeprefix("!/")).is_symlink(), enabled.stderr


@pytest.mark.parametrize("example", sorted((DEPLOY / "systemd").glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_of_settings_can_be_used(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget_settings(monkeypatch)
    monkeypatch.setenv("DCC_CONFIG", str(tmp_path / "dcc.toml"))
    for text in (_text(example), re.sub(r"^#(?=\w)", "", _text(example), flags=re.MULTILINE)):
        (tmp_path / "dcc.toml").write_text(text, "utf-8")
        (tmp_path / "dcc.toml").chmod(0o640)
        settings = load_settings()
    assert settings.dagster_url is not None


def _on_the_path(tmp_path: Path, user: str, number: int) -> tuple[list[str], dict[str, str]]:
    """The command for the path, run by a user, and its environment; others are changed to by stand-ins.

    They print their arguments, and their settings in the environment.
    """
    told = 'echo ${0##*/} "$@"; env | grep ^DCC_'
    scripts = {"id": f'[ "$1" = -un ] && echo {user} || echo {number}', "runuser": told, "sudo": told}
    for name, script in scripts.items():
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o755)
    text = _text("dcc").replace("/opt/dcc/.venv/bin/dcc", str(PROGRAM))
    environment = clean(PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return ["sh", "-c", text, "dcc", "settings", "--json"], environment


def test_the_command_on_the_path_has_the_settings_of_the_services(tmp_path: Path) -> None:
    command, environment = _on_the_path(tmp_path, "dcc", 997)
    (tmp_path / "dcc.toml").write_text("workers = 7\n", "utf-8")
    environment |= {"DCC_HOME": str(tmp_path), "DCC_CONFIG": str(tmp_path / "dcc.toml")}
    ended = _run(*command, env=environment, check=True)
    values = {entry["name"]: entry["value"] for entry in json.loads(ended.stdout)}
    assert (values["workers"], values["home"]) == (7, str(tmp_path))


@pytest.mark.parametrize(
    ("user", "number", "by"), [("root", 0, "runuser --user dcc"), ("anna", 1000, "sudo --user=dcc")]
)
def test_the_command_on_the_path_becomes_the_user_of_the_services_with_ones_own_settings(
    tmp_path: Path, user: str, number: int, by: str
) -> None:
    command, environment = _on_the_path(tmp_path, user, number)
    usual = _run(*command, env=environment, check=True).stdout
    told, *settings = usual.splitlines()
    assert told.startswith(f"{by} ")
    assert told.endswith(f"-- {PROGRAM} settings --json")
    assert sorted(settings) == ["DCC_CONFIG=/etc/dcc/dcc.toml", "DCC_HOME=/var/lib/dcc"]

    own = {"DCC_HOME": "/var/lib/dcc-ui", "DCC_TRACKER_URL": "mysql://dcc:s3cret@db/tracker"}
    said = _run(*command, env=environment | own, check=True).stdout
    told, *settings = said.splitlines()
    assert "s3cret" not in told
    assert {f"{name}={value}" for name, value in own.items()} < set(settings)
    if user != "root":
        preserved = re.search(r"--preserve-env=(\S+)", told)
        assert preserved is not None
        assert set(preserved[1].split(",")) == {"DCC_CONFIG", *own}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    deploy = tmp_path_factory.mktemp("checkout") / "deploy"
    deploy.mkdir()
    for name in ("make-secrets", *COMPOSED):
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
    again = _run("sh", secrets.parent / "make-secrets")
    assert (again.returncode, "remove them first" in again.stderr) == (2, True)
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before


@pytest.fixture(scope="module")
def composed(secrets: Path) -> dict[str, Any]:
    """What docker-compose makes of both files, in which no secret is."""
    return _composed(secrets, *COMPOSED)


def _composed(secrets: Path, *names: str) -> dict[str, Any]:
    """What docker-compose makes of some of the files, in which no secret is."""
    files = [part for name in names for part in ("--file", str(secrets.parent / name))]
    ended = _run(server_program("docker-compose"), *files, "--profile", "command", "config")
    assert ended.returncode == 0, ended.stderr
    for path in secrets.iterdir():
        assert path.read_text("utf-8") not in ended.stdout
    assert "://:" not in ended.stdout
    assert "mysql://" not in ended.stdout
    composed: dict[str, Any] = yaml.safe_load(ended.stdout)
    return composed


@pytest.mark.servers
def test_the_compose_files_are_valid_and_hold_no_secret(secrets: Path, composed: dict[str, Any]) -> None:
    of_one_machine = _composed(secrets, "compose.yaml")
    assert set(of_one_machine["services"]) == {"database", "prepare", "daemon", "web", "proxy", "dcc"}
    assert set(composed["services"]) == {*of_one_machine["services"], "worker", "broker", "store"}
    assert {Path(one["file"]).name for one in composed["secrets"].values()} == {path.name for path in secrets.iterdir()}


@pytest.mark.servers
def test_workers_share_no_disk_and_have_the_settings_of_the_session(secrets: Path, composed: dict[str, Any]) -> None:
    services = composed["services"]
    worker, daemon = services["worker"], services["daemon"]
    assert worker["deploy"]["replicas"] == 2
    assert "volumes" not in worker
    assert worker["image"] == daemon["image"]
    assert worker["secrets"] == daemon["secrets"]
    assert worker["environment"].items() <= daemon["environment"].items()
    assert services["dcc"]["environment"] == worker["environment"]
    read = {**worker["environment"], **_settings_of_secrets(secrets, worker["secrets"])}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in read.items():
            patch.setenv(name, value)
        settings = load_settings()
    assert settings.executor is ExecutorKind.CELERY
    assert make_url(broker_of(settings)).host in services
    assert make_url(settings.tracker_database_url).host in services
    assert make_url(str(settings.store_endpoint)).host in services
    # The store's own settings, and the broker's.
    assert services["store"]["environment"]["MINIO_ROOT_USER"] == settings.store_access_key_id
    assert f"/data/{str(settings.store).removeprefix('s3://')} " in services["store"]["command"][0]
    password = make_url(broker_of(settings)).password
    assert f"requirepass {password}\n" in (secrets / "redis_conf").read_text("utf-8")
    program, *arguments = worker["command"]
    assert (worker["entrypoint"], program) == (["/usr/local/bin/celery"], "-A")
    assert arguments[0] == "dcc_dagster.celery_worker"
    assert "deploy/container/entry /usr/local/bin/celery" in _text("Containerfile")


def _settings_of_secrets(folder: Path, secrets: list[dict[str, str]]) -> dict[str, str]:
    """As the entry of the container makes them."""
    return {one.get("target", one["source"]).upper(): (folder / one["source"]).read_text("utf-8") for one in secrets}


@pytest.mark.servers
def test_the_broker_takes_its_configuration_and_asks_for_its_password(secrets: Path, tmp_path: Path) -> None:
    import redis

    port = free_port()
    command = [server_program("redis-server"), str(secrets / "redis_conf"), "--port", str(port), "--dir", str(tmp_path)]
    url = make_url((secrets / "dcc_broker").read_text("utf-8"))
    # By itself, the client tries again for seconds.
    once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    with ServerProcess(command, port, tmp_path / "log"):
        with redis.Redis(port=port, retry=once) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with redis.Redis(port=port, password=url.password) as worker:
            assert worker.ping()


@dataclass(frozen=True)
class Proxy:
    """nginx with the configuration of deploy/nginx before a `dcc ui`, and the password of its user `dcc`."""

    page: ServedPage
    port: int
    password: str
    secrets: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def login(self, password: str | None = None) -> dict[str, str]:
        token = base64.b64encode(f"dcc:{password or self.password}".encode()).decode()
        return {"Authorization": f"Basic {token}"}

    def send(self, path: str, headers: Mapping[str, str], body: str | None = None) -> http.client.HTTPResponse:
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        connection.request("GET" if body is None else "POST", path, body, dict(headers))
        return connection.getresponse()

    def websocket(self, headers: Mapping[str, str], origin: str) -> int:
        return asyncio.run(self._opened(headers, origin))

    async def _opened(self, headers: Mapping[str, str], origin: str) -> int:
        # The client of threads reads and writes at once, which Python's TLS does not bear: it hung, or broke off.
        try:
            async with connect(
                f"wss://127.0.0.1:{self.port}/graphql",
                ssl=ssl._create_unverified_context(),
                origin=Origin(origin),
                additional_headers=headers,
                subprotocols=[Subprotocol("graphql-ws")],
            ) as opened:
                await opened.send(json.dumps({"type": "connection_init"}))
                assert json.loads(await opened.recv()) == {"type": "connection_ack"}
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code


def installed_proxy(folder: Path, secrets: Path, port: int, page_port: int, upstream: str) -> Path:
    """The main file of an nginx that includes those of deploy/, changed in places and ports only."""
    (folder / "site").mkdir(parents=True)
    for name in ("dcc.conf", upstream):
        text = _text("nginx", name).replace("/etc/nginx/dcc/", f"{secrets}/")
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{port} ")
        text = re.sub(r"server (127\.0\.0\.1|web):3000;", f"server 127.0.0.1:{page_port};", text)
        (folder / "site" / name).write_text(text, "utf-8")
    temporary = [f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")]
    user = "user root;" if os.geteuid() == 0 else ""
    main = folder / "nginx.conf"
    main.write_text(
        f"{user} daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {' '.join(temporary)} include {folder}/site/*.conf; }}\n"
    )
    return main


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, page: ServedPage) -> Iterator[Proxy]:
    """The proxy, with the user, password and certificate that make-secrets has made."""
    program = server_program("nginx")
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "make-secrets").write_bytes((DEPLOY / "make-secrets").read_bytes())
    made = _run("sh", folder / "make-secrets", check=True)
    found = re.search(r"The web page's user is dcc, the password (\w+)", made.stdout)
    assert found is not None
    (folder / "dcc").mkdir()
    for secret, name in (("web_certificate", "web.crt"), ("web_key", "web.key"), ("web_users", "users")):
        shutil.copy(folder / "secrets" / secret, folder / "dcc" / name)
    assert found[1] not in (folder / "dcc" / "users").read_text()
    port = free_port()
    main = installed_proxy(folder, folder / "dcc", port, page.port, "dcc-upstream.conf")
    with ServerProcess([program, "-e", "stderr", "-p", str(folder), "-c", str(main)], port, folder / "log"):
        yield Proxy(page, port, found[1], folder / "dcc")


@pytest.mark.servers
def test_nginx_takes_the_configuration_of_the_containers(proxy: Proxy, tmp_path: Path) -> None:
    main = installed_proxy(tmp_path, proxy.secrets, free_port(), proxy.page.port, "compose-upstream.conf")
    ended = _run(server_program("nginx"), "-t", "-e", "stderr", "-p", tmp_path, "-c", main)
    assert (ended.returncode, "warn" in ended.stderr) == (0, False), ended.stderr


@pytest.mark.servers
def test_nobody_comes_past_the_proxy_without_the_login(proxy: Proxy) -> None:
    for path in ("/", "/dcc/reports", "/graphql", "/server_info", "/report_asset_materialization/qc"):
        for headers in ({}, proxy.login("wrong")):
            answer = proxy.send(path, headers)
            assert (answer.status, "Basic" in (answer.getheader("WWW-Authenticate") or "")) == (401, True)
    assert proxy.send("/dcc/reports", proxy.login()).status == 200
    json_type = {"Content-Type": "application/json"}
    query = json.dumps({"query": "{ version }"})
    assert proxy.send("/graphql", proxy.login() | json_type, query).status == 200
    assert proxy.send("/graphql", json_type, query).status == 401


@pytest.mark.servers
def test_the_page_behind_the_proxy_answers_to_its_names_and_to_no_other_site(proxy: Proxy) -> None:
    login = proxy.login()
    named = login | {"Host": PAGE_NAME, "Origin": f"https://{PAGE_NAME}", "Content-Type": "application/json"}
    query = json.dumps({"query": "{ version }"})
    assert proxy.send("/graphql", named, query).status == 200
    assert proxy.send("/graphql", named | {"Origin": "https://other.example"}, query).status == 403
    assert proxy.send("/dcc/reports", login | {"Host": "other.example"}).status == 421
    assert proxy.websocket(login, proxy.url) == 101
    assert proxy.websocket({}, proxy.url) == 401
    assert proxy.websocket(login, "https://other.example") == 403


def _services() -> dict[str, Any]:
    """The services of both compose files; what the second one adds to one of the first is with it."""
    services: dict[str, Any] = {}
    for name in COMPOSED:
        for service, described in yaml.safe_load(_text(name))["services"].items():
            services[service] = services.get(service, {}) | described
    return services


OTHERS = {"database", "broker", "store", "worker"}
"""Services that run no `dcc`."""


def test_the_containers_run_commands_that_exist_locked_in_and_watched() -> None:
    for name, service in _services().items():
        if name != "database":
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
            assert service["security_opt"] == ["no-new-privileges:true"]
        if "command" in service and name not in OTHERS:
            look_up(Command(shlex.join(["dcc", *service["command"]])))
        assert "healthcheck" in service or name in ("prepare", "dcc")
    (examination,) = re.findall(r"dcc doctor[^|]*", " ".join(_services()["daemon"]["healthcheck"]["test"]))
    look_up(Command(examination))
    published = {name: service["ports"] for name, service in _services().items() if "ports" in service}
    assert published == {"proxy": ["443:443"]}
    mounted = [volume.split(":") for volume in _services()["proxy"]["volumes"]]
    assert all((DEPLOY / source).is_file() and mode == "ro" for source, _, mode in mounted)
    assert [one["source"] for one in _services()["web"]["secrets"]] == ["ui_dcc_dagster_url"]


OF_THE_ENTRY = {"DCC_SECRETS", "DCC_PROGRAM", "DCC_CONFIG"}
"""What the entry of the container takes from its environment for itself."""


def test_the_nightly_backup_of_the_containers_is_a_command_of_a_service() -> None:
    page = (ROOT / "docs" / "operations" / "install.md").read_text("utf-8")
    (said,) = re.findall(r"^ *(?:[\d*]+ ){5}root docker compose -f (\S+) run --rm -T (\S+) (.+)$", page, re.MULTILINE)
    file, service, arguments = said
    assert Path(file).relative_to("/opt/dcc/deploy").name in COMPOSED
    assert service in _services()
    look_up(Command(f"dcc {arguments}", []))


def test_every_variable_that_is_named_is_a_setting_and_no_package_registry_is_named() -> None:
    known = {f"DCC_{name.upper()}" for name in Settings.model_fields} | OF_THE_ENTRY
    for path in DEPLOY.rglob("*"):
        if path.is_file() and "secrets" not in path.relative_to(DEPLOY).parts:
            text = path.read_text("utf-8")
            named = set(re.findall(r"\bDCC_[A-Z_0-9]*[A-Z0-9]\b", text))
            assert named <= known, path
            assert not re.search(r"pypi|registry|ghcr|quay|docker\.io", text), path
            # Files of secrets, which become settings.
            assert {name.upper() for name in re.findall(r"target: (dcc_\w+)", text)} <= known, path


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", _text("Containerfile"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def test_the_container_is_made_of_what_is_there() -> None:
    instructions = _instructions()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in instructions} <= known
    assert instructions[0][0] == "FROM"
    ignored = _text("Containerfile.dockerignore").splitlines()
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
        **clean(),
        "DCC_HOME": str(tmp_path / "home"),
        "DCC_WORKERS": "3",
        "DCC_SECRETS": str(secrets),
        "DCC_PROGRAM": str(PROGRAM),
    }
    command = (DEPLOY / "container" / "entry", "settings", "--json")
    ended = _run(*command, env=environment, cwd=tmp_path, check=True)
    settings = {one["variable"]: one["value"] for one in json.loads(ended.stdout)}
    assert settings["DCC_TRACKER_URL"] == f"sqlite:///{tmp_path}/of-the-file.db"
    assert settings["DCC_QC_URL"] == "mysql://dcc:***@database/phenodcc_raw"
    assert settings["DCC_WORKERS"] == 3
    assert "s3cret4711" not in ended.stdout + ended.stderr
    assert not (tmp_path / "x").exists()


VALUES: dict[str, Any] = yaml.safe_load(_text("helm", "values.yaml"))
PLACE = re.compile(
    r"\{\{ (?P<quoted>[.\w]+) \| quote \}\}|\s*\{\{- toYaml (?P<lines>[.\w]+) \| nindent (?P<indent>\d+) \}\}"
)


def _chart(values: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the chart. Its templates do nothing but name values, in two ways, which this does as Helm."""

    def put(found: re.Match[str]) -> str:
        value: Any = {"Values": values, "Release": {"Namespace": "work"}}
        for part in (found["quoted"] or found["lines"]).split(".")[1:]:
            value = value[part]
        if found["quoted"]:
            return json.dumps(value)
        return "\n" + textwrap.indent(yaml.safe_dump(value).rstrip(), " " * int(found["indent"]))

    objects: list[dict[str, Any]] = []
    for path in sorted((DEPLOY / "helm" / "templates").iterdir()):
        text = PLACE.sub(put, path.read_text("utf-8"))
        assert "{{" not in text, path
        objects += yaml.safe_load_all(text)
    return objects


def _pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    with_pods = [one for one in objects if "template" in one.get("spec", {})]
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in with_pods}


def test_the_chart_makes_objects_that_kubernetes_knows() -> None:
    # Here, as every process of the run would wait for it, and for the broker's client.
    import kubernetes
    from dagster_k8s.models import k8s_model_from_dict, k8s_snake_case_dict

    kinds = set()
    for one in _chart(VALUES):
        model = getattr(kubernetes.client, f"V1{one['kind']}")
        # Refuses fields that there are not, and ones that lack.
        k8s_model_from_dict(model, k8s_snake_case_dict(model, one))
        kinds.add(one["kind"])
    assert "Secret" not in kinds
    assert {"ConfigMap", "Deployment", "Job", "Role", "Service"} <= kinds


def test_the_chart_runs_what_the_containers_run_locked_in() -> None:
    pods, services = _pods(_chart(VALUES)), _services()
    assert {name: pod["containers"][0]["args"] for name, pod in pods.items()} == {
        "dcc-init": services["prepare"]["command"],
        "dcc-daemon": services["daemon"]["command"],
        "dcc-web": services["web"]["command"],
    }
    for name, pod in pods.items():
        (container,) = pod["containers"]
        assert container["image"] == yaml.safe_load(_text("compose.yaml"))["x-dcc"]["image"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert f"--uid {pod['securityContext']['runAsUser']} " in _text("Containerfile")
        assert pod["enableServiceLinks"] is False
        # Another start mends nothing, such as an archive that is lost, or a mail server that is down.
        assert not {"livenessProbe", "startupProbe"} & container.keys(), name
        # Only who makes jobs may ask the cluster.
        assert ("serviceAccountName" in pod) is (name == "dcc-daemon")
        assert pod.get("automountServiceAccountToken", True) is (name == "dcc-daemon")
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}


def test_the_chart_hands_secrets_on_by_reference_and_its_settings_are_those_of_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = _chart(VALUES | {"image": "dcc:1", "secrets": {"init": "i", "sessions": "s", "ui": "u"}})
    sources = {name: pod["containers"][0]["envFrom"] for name, pod in _pods(objects).items()}
    assert sources == {
        "dcc-init": [{"secretRef": {"name": "i"}}],
        "dcc-daemon": [{"configMapRef": {"name": "dcc-settings"}}, {"secretRef": {"name": "s"}}],
        "dcc-web": [{"secretRef": {"name": "u"}}],
    }
    (variables,) = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    require_executor(settings)
    told = execution_of(settings)
    assert (told["job_image"], told["job_namespace"]) == ("dcc:1", "work")
    assert (told["env_secrets"], told["env_config_maps"]) == (["s"], ["dcc-settings"])
    # A job may write to the directories that its settings name.
    mounts = {Path(one["mount_path"]) for one in told["step_k8s_config"]["container_config"]["volume_mounts"]}
    assert {settings.home.parent, settings.staging_directory.parent} <= mounts


def test_the_chart_takes_its_values_and_no_secret_among_them() -> None:
    schema = json.loads(_text("helm", "values.schema.json"))
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    validator.validate(VALUES)
    secret = [name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)]
    (made,) = [one["data"] for one in _chart(VALUES) if one["kind"] == "ConfigMap"]
    for name in {*(f"DCC_{one.upper()}" for one in secret), *(made.keys() - VALUES["settings"].keys())}:
        assert not validator.is_valid(VALUES | {"settings": VALUES["settings"] | {name: "x"}}), (
            f"A ConfigMap would show {name}: add it to the pattern of `settings` in deploy/helm/values.schema.json."
        )
    assert not validator.is_valid(VALUES | {"settings": {"DCC_STORE": "s3://dcc", "DCC_WORKERS": 8}})
    assert not validator.is_valid(VALUES | {"tag": "1"})
