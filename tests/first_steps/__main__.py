"""The README followed on a fresh clone, as by somebody new, and timed: `python -m tests.first_steps`.

`--python` names the interpreter, `--user` another user that does it, for which one has to be root. Prints a table in
Markdown of the steps. Ends with 1 if a command fails, prints something else than the README says, or all of them
together take more than ten minutes; what was printed then stands below the table.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

from tests.test_documents_commands import ROOT, Command, blocks, missing_line

MOST_SECONDS = 600
UI = "make ui"


class FirstSteps:
    """A clone in `folder`, in which the README's commands run as `user`, with `python` as its interpreter."""

    def __init__(self, folder: Path, python: str, user: str | None) -> None:
        self._clone, self._user = folder / "dcc", user
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "LANG", "SSL_", "TERM"))}
        path = f"{self._clone}/.venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin"
        self._environment = kept | {"HOME": str(folder), "PATH": path, "PYTHON": python}
        folder.chmod(0o755)
        if user is not None:
            shutil.chown(folder, user)

    def commands(self) -> Iterator[Command]:
        """The clone, and all commands of the README but those for people who work on the platform."""
        # Another user may not read this repository: the clone is handed over.
        hand_over = "" if self._user is None else f" && chown -R {self._user} {self._clone}"
        yield Command(f"git clone -q {ROOT} {self._clone}{hand_over}")
        own, _, _ = (ROOT / "README.md").read_text("utf-8").partition("## Work on it")
        for block in blocks(own):
            yield from block.commands

    def run(self, command: Command) -> tuple[int, str]:
        """The exit code of a command, and what it prints; of the user interface, whether it answers."""
        if command.text.startswith(UI):
            return self._serve(command.text)
        with self._start(command.text) as process:
            printed, _ = process.communicate()
        return process.returncode, printed

    def _serve(self, text: str) -> tuple[int, str]:
        server, end = self._start(text), time.monotonic() + MOST_SECONDS
        try:
            while server.poll() is None and time.monotonic() < end:
                try:
                    urlopen("http://127.0.0.1:3000/dcc/", timeout=MOST_SECONDS).close()
                except OSError:
                    time.sleep(0.1)
                else:
                    return 0, ""
            return 1, "It does not answer."
        finally:
            os.killpg(server.pid, 15)
            server.wait()

    def _start(self, text: str) -> subprocess.Popen[str]:
        own = self._user is None or not self._clone.exists()
        return subprocess.Popen(
            ["bash", "-c", text],
            user=None if own else self._user,
            extra_groups=None if own else [],
            cwd=self._clone if self._clone.exists() else self._clone.parent,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def main() -> int:
    """Follow the README; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--user")
    asked = parser.parse_args()
    version = subprocess.run([asked.python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"| {version}, {asked.user or 'this user'} | seconds |\n| --- | ---: |")
    with tempfile.TemporaryDirectory(prefix="dcc-first-") as folder:
        steps = FirstSteps(Path(folder), asked.python, asked.user)
        took = 0.0
        for command in steps.commands():
            began = time.monotonic()
            code, printed = steps.run(command)
            seconds = time.monotonic() - began
            took += seconds
            print(f"| `{command.text.replace(folder, '')}` | {seconds:.1f} |", flush=True)
            missing = missing_line(printed, command.printed)
            if code or missing is not None:
                print(f"\nIt ended with {code} and does not print {missing!r}:\n{printed}")
                return 1
        print(f"| together | {took:.0f} |")
    return int(took > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
