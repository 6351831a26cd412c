"""Whatever a session leaves behind anywhere, no secret is in it: it runs as a process, at the most talkative.

Logins that work, are refused and are repeated by the server, over every protocol; a mail server that repeats what it
was sent; databases with a password. Then every file, every table, every output and Dagster's answers are looked
through.
"""

import base64
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import pytest
from dagster._core.test_utils import in_process_test_workspace
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster_graphql.test.utils import execute_dagster_graphql
from pydantic import SecretStr

from dcc.cli.demo import submissions
from dcc.cli.main import dcc as command
from dcc.sources.protocols import SourceProtocol
from dcc_dagster.instance import open_instance
from tests.cli.conftest import Dcc
from tests.support.dagster_instances import set_environment
from tests.support.databases import PASSWORD as OF_DATABASES
from tests.support.databases import only_mariadb
from tests.support.environments import clean
from tests.support.installations import Installation, specimens
from tests.support.left_behind import Left
from tests.support.ports import free_port
from tests.support.prepared_processes import run_dcc
from tests.support.process_trees import command_lines
from tests.support.served_sources import register
from tests.support.servers import Authority, SftpServer, Share
from tests.support.talking_servers import Talk, serving
from tests.support.web_server import WebServer

pytestmark = pytest.mark.servers

SECRETS = {
    "a password in a file": "in a file: p@ss/w%rd",
    "a password in the environment": "in the env?#&=ironment",
    "a wrong password": "wrong horse+battery staple",
    "a password of a web server": "web [pass] wörd",
    "a passphrase": "open the sesame",
    "another passphrase": "another sesame",
    "the password of the mail server": "mail p@ss/word",
    "the key of the webhook": "sign&key/0815 x",
    "the address of the webhook": "T0K3N-in-the-path",
    "a password of IMPReSS": "none that is ever read",
}
IN_TRACKER = "kept in the tracker as it is"
"""A password for which the column `accesskey` is made."""

BAD = "add/H.2013-10-31.2.impc.zip"
GOOD = "add/H.2013-10-31.1.impc.zip"
CHANGING = {
    "centre": {"add", "change", "delegate"},
    "source": {"add"},
    "archive": {"audit", "repair", "decline"},
    "data": {"confirm", "undo", "recheck", "proposals"},
    "qc": {"done", "issue", "recount", "reopen"},
    "rules": {"waive", "revoke"},
    "reference": {"refresh"},
    **{word: {""} for word in ("retry", "hold", "release", "cancel", "acknowledge", "notify", "example", "manifest")},
    **{word: {""} for word in ("init", "crawl", "backup", "restore", "migrate-storage")},
    "staging": {"clean"},
    "instance": {"rebuild"},
}
"""The commands that change something or write files, by their first word and their second; all others are run."""
ARGUMENTS = {
    "source test": "5",
    "show": BAD,
    "archive list": BAD,
    "session show": "1",
    "report": BAD,
    "data plan": GOOD,
    "data history": "--centre H --specimen H-M000001",
    "data record": "specimen H-M000001 --centre H",
    "data export": "{folder}/measurements.csv",
    "qc overview": "genotypes",
    "qc plot": "--centre H --output {folder}/weeks.svg",
    "validate": f"{{staging}}/{GOOD}",
    "upgrade": "--check",
}
EXIT_CODES = {"source test": 4, "archive list": 1, "data plan": 2, "qc plot": 2, "doctor": 4}
"""Of commands that end otherwise than with 0: logins fail, an archive is bad, and the other is through."""
INSTANCE = """{
  instance { info runLauncher { name } daemonHealth { allDaemonStatuses { daemonType } }
             concurrencyLimits { concurrencyKey } }
  runsOrError { ... on Runs { results {
    runId runConfigYaml jobName status tags { key value } rootRunId
    eventConnection(limit: 1000) { events {
      __typename ... on MessageEvent { message stepKey level }
      ... on ErrorEvent { error { message stack className errorChain { error { message stack } } } } } } } } }
  workspaceOrError { ... on Workspace { locationEntries { locationOrLoadError { ... on RepositoryLocation {
    name environmentPath
    repositories { name
      allTopLevelResourceDetails { name description resourceType configFields { name } configuredValues { key value } }
      assetNodes { description metadataEntries { label description } } } } } } } }
}"""


def rude_mail_server(heard: list[str]) -> Talk:
    """Refuses every login, and says what it was sent."""

    def talk(client: socket.socket) -> None:
        client.sendall(b"220 mail\r\n")
        for line in client.makefile("rb"):
            words = line.decode().split()
            if words[0].upper() == "AUTH":
                heard.append(base64.b64decode(words[2]).decode())
                client.sendall(f"535 {words[2]} is {heard[-1]!r}: {quote(heard[-1])}\r\n".encode())
            else:
                client.sendall(b"250-mail\r\n250 AUTH PLAIN\r\n" if words[0].upper() == "EHLO" else b"250 ok\r\n")

    return talk


@dataclass
class Session:
    """An installation, with the environment of its commands and what it prints."""

    installation: Installation
    environment: dict[str, str]
    left: Left

    def run(self, *arguments: str, exit_code: int) -> str:
        """Run `dcc` as a process; what it prints and what others see of it is among what is left."""
        output, errors = self.installation.root / "output", self.installation.root / "errors"
        with command_lines() as shown:
            ended = run_dcc(arguments, self.installation.root, self.environment, output, errors, seconds=120)
        self.left.add(f"ps of {arguments}", "\n".join(shown))
        self.left.add(f"output of {arguments}", output.read_bytes())
        self.left.add(f"errors of {arguments}", errors.read_bytes())
        assert ended == exit_code, errors.read_text("utf-8")
        return errors.read_text("utf-8")


@pytest.fixture
def session(
    installation: Installation,
    qc_database: object,
    qc_url: str,
    dagster_url: str,
    openssh: SftpServer,
    authority: Authority,
    sftp_server: Share,
    ftps_server: Share,
    password_sftp_server: Callable[..., Share],
    faulty_ftp_server: Callable[..., Share],
    tmp_path: Path,
) -> Iterator[Session]:
    """Sources of every protocol, each with a secret that is right, and some with one that is wrong."""
    (tmp_path / "secret").write_text(SECRETS["a password in a file"])
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "reports").mkdir()
    sftp_server.put("add/H.2013-10-31.1.impc.zip", submissions.archive(specimens()))
    sftp_server.put("add/H.2013-10-31.2.impc.zip", b"no archive")
    key = openssh.new_key(passphrase=SECRETS["a passphrase"])
    by_password, rude = password_sftp_server(), faulty_ftp_server(refuse_login=True, repeat_password=True)
    web = WebServer(sftp_server.root, password=SECRETS["a password of a web server"], certificate=authority.issue())
    heard: list[str] = []
    with web, serving(rude_mail_server(heard)) as (mail, _):
        site = Share(sftp_server.root, SourceProtocol.HTTPS, web.hostname, username=web.username)
        for number, (share, accesskey) in enumerate(
            (
                (sftp_server, f"key:{key}?passphrase=env:CENTRE_PASSPHRASE"),
                (by_password, by_password.accesskey),
                (by_password, "env:WRONG_PASSWORD"),
                (rude, f"file:{tmp_path / 'secret'}"),
                (rude, "env:CENTRE_PASSWORD"),
                (rude, IN_TRACKER),
                (ftps_server, "env:CENTRE_PASSWORD"),
                (site, "env:WEB_PASSWORD"),
                (site, "env:WRONG_PASSWORD"),
            )
        ):
            # No two are the same place.
            register(installation, share, accesskey=SecretStr(accesskey), base_path=share.base_path + "/." * number)
        environment = talkative_environment(installation, qc_url, dagster_url, tmp_path, authority, mail)
        yield Session(installation, environment, Left())
        assert heard


def talkative_environment(
    installation: Installation, qc_url: str, dagster_url: str, tmp_path: Path, authority: Authority, mail: str
) -> dict[str, str]:
    return clean() | {
        "DCC_HOME": str(installation.settings.home),
        "DCC_TRACKER_URL": installation.settings.tracker_database_url,
        "DCC_QC_URL": qc_url,
        "DCC_DAGSTER_URL": dagster_url,
        "DCC_SMTP_URL": f"smtp://me:{quote(SECRETS['the password of the mail server'], safe='')}@{mail}",
        "DCC_REPORT_TO": "operator@example.org",
        "DCC_REPORT_DIRECTORY": str(tmp_path / "reports"),
        "DCC_NOTIFY_TO": "wrangler@example.org",
        "DCC_NOTIFY_LOG": "true",
        "DCC_NOTIFY_WEBHOOK": f"http://127.0.0.1:{free_port()}/{SECRETS['the address of the webhook']}",
        "DCC_NOTIFY_WEBHOOK_SECRET": SECRETS["the key of the webhook"],
        "DCC_NOTIFY_SECONDS": "1",
        "DCC_TLS_CA_FILE": str(authority.ca_file),
        "DCC_LOG_LEVEL": "debug",
        "DCC_LOG_FORMAT": "json",
        "DCC_LOG_FILE": str(tmp_path / "reports" / "log"),
        "DCC_KEY_PASSPHRASE": SECRETS["another passphrase"],
        "DCC_MIN_FREE_BYTES": "0",
        "DCC_RETRY_DELAY": "0.05",
        "DCC_QUIET_SECONDS": "0",
        "DCC_CONNECT_TIMEOUT": "5",
        "CENTRE_PASSPHRASE": SECRETS["a passphrase"],
        "CENTRE_PASSWORD": SECRETS["a password in the environment"],
        "WRONG_PASSWORD": SECRETS["a wrong password"],
        "WEB_PASSWORD": SECRETS["a password of a web server"],
    }


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, list[str]]]:
    """The commands that report as JSON and change nothing, each with its arguments."""
    context = click.Context(group, **group.context_settings)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        first, second = (*path, name, "")[:2]
        if second in CHANGING.get(first, ()):
            continue
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        elif found is not None and "--json" in {option for parameter in found.params for option in parameter.opts}:
            words = " ".join((*path, name))
            arguments = ARGUMENTS.get(words, "").split()
            assert arguments or not any(parameter.required for parameter in found.params), words
            yield words, arguments


@only_mariadb
def test_no_secret_is_in_anything_that_a_session_leaves_behind(
    session: Session, dagster_url: str, qc_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation, left = session.installation, session.left
    said = session.run("--debug", "crawl", "--json", exit_code=4)
    assert said.count("Check the user name and password") >= 5
    tracker_url = installation.settings.tracker_database_url
    wrong = tracker_url.replace("dcc:", f"dcc:{quote(SECRETS['a wrong password'], safe='')}", 1)
    for url, exit_code in ((wrong, 4), (f"oracle://me:{quote(IN_TRACKER)}@x/y", 2)):
        elsewhere = Dcc(session.environment | {"DCC_TRACKER_URL": url}, tmp_path)
        refused = elsewhere("--debug", "status", exit_code=exit_code).output
        assert "Traceback" in refused
        left.add(f"a wrong URL, {exit_code}", refused)
    dcc = Dcc(session.environment, tmp_path)
    places = {"folder": tmp_path / "reports", "staging": installation.settings.staging_directory}
    for words, arguments in commands(command):
        filled = [argument.format_map(places) for argument in arguments]
        left.add(f"dcc {words}", dcc(*words.split(), *filled, "--json", exit_code=EXIT_CODES.get(words, 0)).output)
    left.add_files(installation.settings.home)
    left.add_files(tmp_path / "reports")
    left.add_tables(tracker_url, without="accesskey")
    left.add_tables(qc_url)
    left.add_tables(dagster_url)
    left.add("Dagster's pages", json.dumps(answered(installation, dagster_url, monkeypatch)))

    wanted = {"file log", "file session-000001.txt", "dcc settings", "dcc source list", "dcc doctor", "dcc metrics"}
    assert wanted <= left.texts.keys()
    assert {*left.places_of(BAD.removeprefix("add/"))} >= {"file log", "dcc zips", "file session-000001.txt"}
    crawls = left.texts[next(where for where in left.texts if where.startswith("table source_crawl"))].decode()
    assert crawls.count("Check the user name and password") >= 5
    for secret in [*SECRETS.values(), OF_DATABASES, "correct horse battery staple", IN_TRACKER]:
        assert left.places_of(secret) == [], secret


def answered(installation: Installation, dagster_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the web page is told of the instance, its runs and their configuration, and of the code's resources."""
    settings = installation.settings.model_copy(update={"dagster_url": SecretStr(dagster_url)})
    set_environment(installation.with_settings(dagster_url=settings.dagster_url), monkeypatch)
    origin = LoadableTargetOrigin(module_name="dcc_definitions")
    with open_instance(settings) as instance, in_process_test_workspace(instance, origin) as page:
        result = execute_dagster_graphql(page, INSTANCE)
    assert result.errors is None, result.errors
    assert result.data["runsOrError"]["results"]
    assert "dcc_assets" in result.data["instance"]["info"]
    return result.data
