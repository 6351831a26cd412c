"""SFTP downloads by the platform's file sources against `sftp -b`: one large file, and many small ones.

Both sides are whole processes: they start, log in, fetch every file to a local file of its own, and end.
"""

from __future__ import annotations

import itertools
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Comparison, Contender, Timing, clean_environment, timed
from benchmarks.openssh import OpenSsh, openssh_server
from benchmarks.registry import Bench, Benchmark, Finding

MEGABYTE = 1_000_000
LARGE_BYTES = 200 * MEGABYTE
SMALL_FILES = 500
SMALL_BYTES = 50_000

SFTP = "sftp -b"
PLATFORM = "file sources"
GOAL = 1.2


class TransferBenchmark:
    """The download of `sizes`, one file each, from a local server."""

    def __init__(self, folder: Path, server: OpenSsh, title: str, sizes: list[int]) -> None:
        self._folder = folder
        self._server = server
        self._title = title
        self._numbers = itertools.count()
        self._remote = folder / "remote"
        self._sizes = {f"H.2013-10-31.{number}.impc.zip": size for number, size in enumerate(sizes)}
        # Random bytes, so that compression on the way could not help one side.
        chance = random.Random(len(sizes))
        (self._remote / "add").mkdir(parents=True)
        for name, size in self._sizes.items():
            (self._remote / "add" / name).write_bytes(chance.randbytes(size))

    def comparison(self) -> Comparison:
        """Both contenders; `sftp -b` is the measure."""
        contenders = [Contender(SFTP, self.run_sftp), Contender(PLATFORM, self.run_file_source)]
        return Comparison(self._title, contenders, {PLATFORM: GOAL})

    def run_sftp(self) -> Timing:
        """OpenSSH's client with one batch file."""
        place = self._fresh()
        batch = self._folder / "batch"
        batch.write_text(f"lcd {place}\nget {self._remote}/add/*.zip\n")
        command = [*self._server.sftp_command, "-b", str(batch), self._server.destination]
        return self._finish(place, timed(command, log=self._folder / "log"))

    def run_file_source(self) -> Timing:
        """One connection of `dcc_resources.file_sources`, in a process of its own."""
        place = self._fresh()
        module = [sys.executable, "-m", "benchmarks.fetch"]
        server = [self._server.hostname, self._server.username, str(self._server.key), str(self._server.known_hosts)]
        environment = clean_environment(PYTHONPATH=str(Path(__file__).parent.parent))
        command = [*module, *server, str(self._remote), str(place)]
        return self._finish(place, timed(command, log=self._folder / "log", environment=environment))

    def _fresh(self) -> Path:
        place = self._folder / f"local-{next(self._numbers)}"
        place.mkdir()
        return place

    def _finish(self, place: Path, timing: Timing) -> Timing:
        arrived = {path.name: path.stat().st_size for path in place.iterdir()}
        if arrived != self._sizes:
            raise RuntimeError(f"{len(arrived)} of {len(self._sizes)} files arrived whole in {place}.")
        shutil.rmtree(place)
        return timing


def _measure(bench: Bench) -> Iterator[Finding]:
    cases = {
        f"One file of {LARGE_BYTES // MEGABYTE} MB over SFTP": [LARGE_BYTES],
        f"{SMALL_FILES} files of {SMALL_BYTES // 1000} KB over SFTP": [SMALL_BYTES] * SMALL_FILES,
    }
    with openssh_server(bench.folder / "sshd") as server:
        for number, (title, sizes) in enumerate(cases.items()):
            place = bench.folder / str(number)
            comparison = TransferBenchmark(place, server, title, sizes).comparison()
            comparison.measure(bench.runs)
            shutil.rmtree(place)
            yield comparison


BENCHMARKS = [
    Benchmark(
        "transfer",
        "Downloads by one connection of the platform's file sources beside `sftp -b`, from a local OpenSSH server.",
        _measure,
        tools=("sftp",),
    )
]
