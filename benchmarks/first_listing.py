"""The first crawl of a file source with many archives, beside what lists the same directory and records nothing."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from benchmarks.installation import make_installation
from benchmarks.measuring import DCC, Comparison, Contender, Timing, clean_environment, module, timed
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import Folders, OpenSsh, ServerProcess, Vsftpd, free_port
from dcc.sources.base import SourceAddress
from dcc.sources.http.source import MAX_ASKED
from dcc.sources.protocols import SourceProtocol

LISTED: Final = 200_000
LISTING: Final = "the platform's listing"
PLAIN: Final = "dcc crawl --until zip_name, no Dagster events"
EVENTS: Final = "dcc crawl --until zip_name"
GOAL: Final = 2.0
MOST_MEGABYTES: Final = 400

_FIRST: Final = date(1990, 1, 1)
_A_DAY: Final = 20


@dataclass(frozen=True, slots=True)
class Listed:
    """A file source, and what else lists its directory `add`: a script for `sh`.

    The script prints a line for each archive. `command` is what is shown of it.
    """

    address: SourceAddress
    tool: str
    script: str
    command: str
    known_hosts: Path | None = None


def fill(folder: Path) -> None:
    """Make empty archives of centre H in `folder`, of 20 kB or somewhat more."""
    folder.mkdir(parents=True)
    for number in range(LISTED):
        day, inc = divmod(number, _A_DAY)
        path = folder / f"H.{_FIRST + timedelta(days=day)}.{inc + 1}.impc.zip"
        with path.open("xb") as file:
            file.truncate(20_000 + number % 1_000)
        os.utime(path, (1_000_000_000 + number,) * 2)


@contextmanager
def over_sftp(folder: Path, root: Path) -> Iterator[Listed]:
    """Behind OpenSSH."""
    with OpenSsh(folder) as server:
        said = f"lftp --norc -c {shlex.quote(f'{server.lftp_open()}; cls -l {root}/add')}"
        command = "lftp --norc -c '...; cls -l BASE/add'"
        yield Listed(server.source("H", root), "lftp cls -l", said, command, server.known_hosts)


@contextmanager
def over_ftp(folder: Path, root: Path) -> Iterator[Listed]:
    """Behind vsftpd, whose anonymous user must be able to reach `root`."""
    with Vsftpd(folder, root) as server:
        said = f"set cmd:fail-exit yes; open ftp://127.0.0.1:{server.port}; cls -l add"
        script = f"lftp --norc -c {shlex.quote(said)}"
        yield Listed(server.source("H"), "lftp cls -l", script, "lftp --norc -c '...; cls -l add'")


@contextmanager
def over_http(folder: Path, root: Path) -> Iterator[Listed]:
    """Behind Python's own web server, whose index pages tell neither sizes nor times."""
    folder.mkdir()
    port = free_port()
    served = [sys.executable, "-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1"]
    with ServerProcess([*served, "--directory", str(root), str(port)], port, folder / "log"):
        url = f"http://127.0.0.1:{port}/add/"
        newest = sorted(path.name for path in (root / "add").iterdir())[-MAX_ASKED:]
        asked = folder / "asked"
        asked.write_text("".join(f"url={url}{name}\noutput=/dev/null\n" for name in newest))
        script = f'curl -sSf -o {folder}/page {url}; curl -sSfI -K {asked}; grep -o \'href="[^"]*zip"\' {folder}/page'
        tool = f"curl of the page, and curl -I of {len(newest):,} archives"
        address = SourceAddress(0, "H", SourceProtocol.HTTP, f"127.0.0.1:{port}", "", SecretStr(""), "/")
        yield Listed(address, tool, script, "curl -o page URL/add/; curl -I -K urls")


@contextmanager
def in_a_folder(_folder: Path, root: Path) -> Iterator[Listed]:
    """A folder of this machine."""
    said = f"ls -l {shlex.quote(str(root / 'add'))}"
    yield Listed(Folders().source("H", root), "ls -l", f"{said} | grep zip", "ls -l BASE/add")


class FirstListing:
    """A file source that no session has seen; `folder` is for installations, of which each crawl has its own."""

    def __init__(self, folder: Path, listed: Listed) -> None:
        self._folder, self._listed = folder, listed
        self._log = folder / "log"
        self._numbers = itertools.count()
        self._template = folder / "template"
        folder.mkdir()
        make_installation(self._template, [listed.address], listed.known_hosts, {})

    def list_by_tool(self) -> Timing:
        """What lists the directory and records nothing."""
        timing = timed(["sh", "-ec", self._listed.script], log=self._log, environment=clean_environment(LC_ALL="C"))
        self._require(self._log.read_bytes().count(b".zip"))
        return timing

    def list_by_platform(self) -> Timing:
        """The platform's listing, in a process of its own."""
        address, known_hosts = self._listed.address, str(self._listed.known_hosts or "")
        access = [address.username, address.accesskey.get_secret_value(), known_hosts, address.base_path]
        command = module("fetch", address.protocol, address.hostname, *access)
        timing = timed(command, log=self._log, environment=clean_environment(), memory=True)
        self._require(int(self._log.read_text()))
        return timing

    def crawl(self, *, events: bool) -> Timing:
        """A whole first session, up to the end of the crawl, in a new installation."""
        home = self._folder / f"home-{next(self._numbers)}"
        shutil.copytree(self._template, home)
        environment = clean_environment(DCC_HOME=str(home), DCC_DAGSTER_EVENTS=str(events).lower())
        command = [DCC, "crawl", "--until", "zip_name", "--json"]
        timing = timed(command, log=self._log, environment=environment, memory=True)
        (source,) = json.loads(self._log.read_text())["sources"]
        self._require(source["new"])
        shutil.rmtree(home)
        return timing

    def _require(self, found: int) -> None:
        if found != LISTED:
            raise RuntimeError(f"{found:,} of {LISTED:,} archives were listed; see {self._log}.")


def compare(folder: Path, name: str, listed: Listed, *, runs: int, events: bool) -> Comparison:
    """The tool, which is the measure, our listing alone, and whole sessions."""
    first = FirstListing(folder, listed)
    ours = [
        Contender(LISTING, first.list_by_platform, command="python -m benchmarks.fetch ..."),
        Contender(PLAIN, lambda: first.crawl(events=False), command=f"DCC_DAGSTER_EVENTS=false {EVENTS} --json"),
    ]
    if events:
        ours.append(Contender(EVENTS, lambda: first.crawl(events=True), command=f"{EVENTS} --json"))
    theirs = Contender(listed.tool, first.list_by_tool, command=listed.command)
    title = f"A first listing of {LISTED:,} archives, {name}"
    comparison = Comparison(title, [theirs, *ours], {LISTING: GOAL}, (LISTED, "archives"))
    comparison.measure(runs)
    comparison.add_peaks(ours, MOST_MEGABYTES)
    return comparison


Opened = Callable[[Path, Path], AbstractContextManager[Listed]]


def _measure(name: str, opened: Opened, bench: Bench, *, events: bool) -> Iterator[Finding]:
    # vsftpd's anonymous user must reach what it serves.
    bench.folder.chmod(0o755)
    root = bench.folder / "source"
    fill(root / "add")
    with opened(bench.folder / "server", root) as listed:
        yield compare(bench.folder / "work", name, listed, runs=bench.runs, events=events)


_ABOUT = (
    "Nothing is known of the file source. The listing takes names, sizes and times; the session also records every "
    "archive in the tracker, SQLite, and with events shows each in Dagster"
)


def _benchmark(name: str, told: str, opened: Opened, *tools: str, about: str = "", events: bool = False) -> Benchmark:
    measure = partial(_measure, told, opened, events=events)
    return Benchmark(f"first-listing-{name}", f"{_ABOUT}.{about}", measure, tools, max_runs=3)


BENCHMARKS = [
    _benchmark("sftp", "SFTP", over_sftp, "lftp"),
    _benchmark("ftp", "FTP", over_ftp, "lftp", "vsftpd"),
    _benchmark(
        "http",
        "HTTP",
        over_http,
        "curl",
        about=" The index page tells neither size nor time: both sides ask for those of the archives whose names come "
        f"last, {MAX_ASKED:,} of them.",
    ),
    _benchmark("folder", "a folder", in_a_folder, events=True),
]
