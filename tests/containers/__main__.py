"""`python -m tests.containers`: the compose files of deploy/ started, tried and removed. Ends with 1 if a check failed.

Needs `docker compose`, or podman with docker-compose and DOCKER_HOST. It builds this working tree, unless an image is
given, under names of its own, so that an installation on the same machine stays as it is. Images of databases and
servers come from registries.
"""

import argparse
import base64
import json
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import yaml

from benchmarks.session import DOCUMENTS, submission
from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent.parent
_PROJECT = "dcc-trial"
_IMAGE = f"{_PROJECT}:latest"
_CENTRE_PORT = 8000
_START_SECONDS = 600


class Trial:
    """The containers of a copy of this working tree in `folder`, with an `image` that is built unless it is given."""

    def __init__(self, folder: Path, archives: int, image: str | None, further: Sequence[Path]) -> None:
        self._image, self._build = image or _IMAGE, [] if image else ["--build"]
        self._checkout, self._served, self._archives = folder / "checkout", folder / "served", archives
        self._port = free_port()
        self._began = time.monotonic()
        self._failed: list[str] = []
        self._compose = [*_compose(), "--project-name", _PROJECT]
        for name in ("compose.yaml", "compose-workers.yaml", "compose-trial.yaml"):
            self._compose += ["--file", str(self._checkout / "deploy" / name)]
        for file in further:
            self._compose += ["--file", str(file.resolve())]

    def run(self) -> bool:
        """Start the containers, check them, and remove them; whether all checks held."""
        password = self._prepare()
        try:
            self._say("building and starting")
            self._do("up", "--detach", *self._build, "--scale", "worker=2")
            self._check_page(password)
            self._check_session()
            self._check("the doctor finds nothing broken", self._dcc("doctor", "--no-sources", check=False) in {0, 1})
        finally:
            if self._failed:
                print(self._output("logs", "--tail", "50"), file=sys.stderr)
            self._do("down", "--volumes", "--timeout", "30")
        return not self._failed

    def _prepare(self) -> str:
        """Copy the working tree, and make archives and secrets; returns the password of the page."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached"], cwd=ROOT, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            target = self._checkout / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        deploy = self._checkout / "deploy"
        for name in ("compose.yaml", "compose-workers.yaml"):
            text = (deploy / name).read_text("utf-8").replace("image: dcc:latest", f"image: {self._image}")
            (deploy / name).write_text(text.replace("- 443:443", f"- 127.0.0.1:{self._port}:443"), "utf-8")
        (self._served / "add").mkdir(parents=True)
        for number in range(self._archives):
            name, content = submission(number)
            (self._served / "add" / name).write_bytes(content)
        _let_others_read(self._served)
        centre = {
            "image": self._image,
            "entrypoint": ["python3", "-m", "http.server", str(_CENTRE_PORT), "--directory", "/srv"],
            "volumes": [f"{self._served}:/srv:ro"],
        }
        (deploy / "compose-trial.yaml").write_text(yaml.safe_dump({"services": {"centre": centre}}), "utf-8")
        made = subprocess.run([deploy / "make-secrets"], check=True, capture_output=True, text=True)
        return re.findall(r"the password (\S+)", made.stdout)[0]

    def _check_page(self, password: str) -> None:
        until = time.monotonic() + _START_SECONDS
        while (answer := self._ask_page("")) is None and time.monotonic() < until:
            time.sleep(2)
        self._check("the page asks for a login", answer == 401)
        self._check("the page opens with the login", self._ask_page(f"dcc:{password}") == 200)

    def _check_session(self) -> None:
        self._dcc("centre", "add", "H")
        place = ["--protocol", "http", "--hostname", f"centre:{_CENTRE_PORT}", "--base-path", "/"]
        self._dcc("source", "add", "--centre", "H", *place)
        self._say(f"a session of {self._archives} archives")
        self._dcc("crawl")
        states = json.loads(self._output("run", "--rm", "-T", "dcc", "status", "--json"))["zip_actions"]
        expected = [{"phase": "qc", "status": "pending", "count": self._archives}]
        self._check(f"all archives with {DOCUMENTS} documents each wait for quality control", states == expected)
        batches = self._batches()
        self._check(
            f"{len(batches)} workers prepared {sum(batches)} batches of them", len(batches) == 2 and any(batches)
        )

    def _batches(self) -> list[int]:
        """How many tasks each worker has done."""
        inspect = ["celery", "-A", "dcc_dagster.celery_worker", "inspect", "stats", "--json"]
        told = json.loads(self._output("exec", "-T", "worker", *inspect))
        return [sum(worker["total"].values()) for worker in told.values()]

    def _ask_page(self, login: str) -> int | None:
        """The status of the page's answer; None without any."""
        request = urllib.request.Request(f"https://127.0.0.1:{self._port}/")
        request.add_header("Host", "localhost")
        if login:
            request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
        try:
            # The certificate is one that make-secrets made.
            with urllib.request.urlopen(request, timeout=20, context=ssl._create_unverified_context()) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def _dcc(self, *arguments: str, check: bool = True) -> int:
        return self._do("run", "--rm", "-T", "dcc", *arguments, check=check)

    def _do(self, *arguments: str, check: bool = True) -> int:
        return subprocess.run([*self._compose, *arguments], check=check, stdin=subprocess.DEVNULL).returncode

    def _output(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._compose, *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        return done.stdout

    def _check(self, text: str, held: bool) -> None:
        self._say(f"{'ok    ' if held else 'FAILED'}  {text}")
        if not held:
            self._failed.append(text)

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {text}", flush=True)


def _compose() -> Sequence[str]:
    for command in (["docker", "compose"], ["docker-compose"]):
        found = shutil.which(command[0])
        if found and subprocess.run([*command, "version"], capture_output=True, check=False).returncode == 0:
            return command
    sys.exit("Neither docker compose nor docker-compose works here. Install one of them, with Docker or podman.")


def _let_others_read(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("--archives", type=int, default=40, help="Archives of the session. [40]")
    parser.add_argument("--image", help="An image of this working tree, which is not built then.")
    parser.add_argument(
        "--file", type=Path, action="append", default=[], help="A further compose file, for what this machine needs."
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dcc-containers-") as folder:
        Path(folder).chmod(0o755)
        return 0 if Trial(Path(folder), given.archives, given.image, given.file).run() else 1


if __name__ == "__main__":
    sys.exit(main())
