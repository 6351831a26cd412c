"""Downloads as a session makes them beside `sftp -b` and `lftp`: one large file and many small ones, near and far.

Both sides are whole processes: they start, log in, list, fetch every file to a local file of its own, and end. Ours
would have gone on with each file after a kill. Neither takes checksums: sessions take them where they extract.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measuring import Comparison, Contender, Timing, clean_environment, module, timed
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.relay import delaying_relay
from benchmarks.servers import OpenSsh, Vsftpd

MEGABYTE = 1_000_000
LARGE_BYTES = 1_000 * MEGABYTE
SMALL_FILES = 2_000
SMALL_BYTES = 50_000
DELAY = 0.08
_FTP_PORTS = 60
NEAR, FAR = "127.0.0.1", "127.0.0.2"

SFTP = "sftp -b"
CIPHER = "aes128-gcm@openssh.com"
"""The one that the platform asks for first, and that `sftp` uses only when it is told to."""
SFTP_ALIKE = "sftp -b, with the platform's cipher"
PLATFORM = "file sources"

# What lftp fetches fastest with, four at once: of one file `pget -n 4`, of many `mirror --parallel=4`.
LARGE_BY_LFTP = "pget -n 4"
SMALL_BY_LFTP = "mirror --parallel=4"


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers, which serve `root` on 127.0.0.1, and so on 127.0.0.2 behind the relay."""

    root: Path
    openssh: OpenSsh
    vsftpd: Vsftpd | None


@contextmanager
def servers(folder: Path, *, ftp: bool, far: bool) -> Iterator[Servers]:
    """Run OpenSSH's server, and vsftpd and the relay if asked for, with their files in `folder`."""
    root = folder / "served"
    root.mkdir(parents=True)
    with ExitStack() as stack:
        openssh = stack.enter_context(OpenSsh(folder / "sshd"))
        key = openssh.known_hosts.read_text().partition(" ")[2]
        with openssh.known_hosts.open("a") as known_hosts:
            known_hosts.write(f"[{FAR}]:{openssh.port} {key}")
        first = 20_000 + os.getpid() % 100 * _FTP_PORTS
        ports = range(first, first + _FTP_PORTS)
        vsftpd = stack.enter_context(Vsftpd(folder / "vsftpd", root, ports=ports)) if ftp else None
        if far:
            pairs = {f"{FAR}:{port}": f"{NEAR}:{port}" for port in (openssh.port, *(ports if ftp else ()))}
            stack.enter_context(delaying_relay(folder / "relay.log", DELAY, pairs))
        yield Servers(root, openssh, vsftpd)


class TransferBenchmark:
    """The download of files of `sizes` from a server at `host`, NEAR or FAR."""

    def __init__(self, folder: Path, running: Servers, sizes: Sequence[int], host: str = NEAR) -> None:
        self._folder, self._running, self._host = folder, running, host
        self._log = folder / "log"
        self._numbers = itertools.count()
        self._remote = running.root / folder.name
        self._sizes = {f"H.2013-10-31.{number}.impc.zip": size for number, size in enumerate(sizes)}
        (self._remote / "add").mkdir(parents=True)
        folder.mkdir(exist_ok=True)
        for name, size in self._sizes.items():
            # Random bytes, so that compression on the way could not help one side.
            (self._remote / "add" / name).write_bytes(os.urandom(size))
        self._by_lftp = SMALL_BY_LFTP if len(sizes) > 1 else LARGE_BY_LFTP

    def comparison(self, title: str, protocol: str, goal: float, *, by_lftp: bool) -> Comparison:
        """The other tool, which is the measure, and ours."""
        ours = Contender(
            PLATFORM, lambda: self.run_platform(protocol), command=f"python -m benchmarks.fetch {protocol} ..."
        )
        if by_lftp:
            command = f"lftp --norc -c 'open {protocol}://...; {self._by_lftp} ...'"
            theirs = Contender(f"lftp {self._by_lftp}", lambda: self.run_lftp(protocol), command=command)
            return Comparison(title, [theirs, ours], {PLATFORM: goal})
        theirs = Contender(SFTP, self.run_sftp, command="sftp -b batch ...  # get add/*.zip")
        alike = Contender(
            SFTP_ALIKE, lambda: self.run_sftp(f"-oCiphers={CIPHER}"), command=f"sftp -oCiphers={CIPHER} -b batch ..."
        )
        return Comparison(title, [theirs, alike, ours], {PLATFORM: goal})

    def run_sftp(self, *options: str) -> Timing:
        """OpenSSH's client with one batch file."""
        place = self._fresh()
        batch = self._folder / "batch"
        batch.write_text(f"lcd {place}\nget {self._remote}/add/*.zip\n")
        openssh = self._running.openssh
        command = ["sftp", "-q", *openssh.options, *options, "-b", str(batch), f"{openssh.username}@{self._host}"]
        return self._finish(place, timed(command, log=self._log))

    def run_lftp(self, protocol: str) -> Timing:
        """lftp with four connections, and otherwise as it comes."""
        place = self._fresh()
        (name, *others) = self._sizes
        what = f"{self._by_lftp} . ." if others else f"{self._by_lftp} {name}"
        script = f"{self._lftp_open(protocol)}; lcd {place}; {what}"
        return self._finish(place, timed(["lftp", "--norc", "-c", script], log=self._log))

    def _lftp_open(self, protocol: str) -> str:
        if protocol == "ftp":
            return f"open ftp://{self._host}:{self._ftp.port}/{self._remote.name}/add"
        return f"{self._running.openssh.lftp_open(self._host)}{self._remote}/add"

    def run_platform(self, protocol: str) -> Timing:
        """The platform's downloads by its default settings, in a process of its own."""
        place = self._fresh()
        if protocol == "ftp":
            server = [f"{self._host}:{self._ftp.port}", "", "", "", f"/{self._remote.name}"]
        else:
            openssh = self._running.openssh
            access = [openssh.username, f"key:{openssh.key}", str(openssh.known_hosts)]
            server = [f"{self._host}:{openssh.port}", *access, str(self._remote)]
        command = module("fetch", protocol, *server, str(place))
        timing = timed(command, log=self._log, environment=clean_environment())
        return self._finish(place, timing, place / "add")

    @property
    def _ftp(self) -> Vsftpd:
        assert self._running.vsftpd is not None
        return self._running.vsftpd

    def _fresh(self) -> Path:
        place = self._folder / f"local-{next(self._numbers)}"
        place.mkdir()
        return place

    def _finish(self, place: Path, timing: Timing, arrived_in: Path | None = None) -> Timing:
        arrived = {path.name: path.stat().st_size for path in (arrived_in or place).iterdir()}
        if arrived != self._sizes:
            raise RuntimeError(f"{len(arrived)} of {len(self._sizes)} files arrived whole in {place}.")
        shutil.rmtree(place)
        return timing


_LARGE = f"One file of {LARGE_BYTES // MEGABYTE:,} MB", [LARGE_BYTES]
_SMALL = f"{SMALL_FILES:,} files of {SMALL_BYTES // 1000} KB", [SMALL_BYTES] * SMALL_FILES
_Goal = tuple[tuple[str, Sequence[int]], float]
"""What is fetched, as the tables call it, the size of each file in bytes, and the goal."""


def _measure(protocol: str, host: str, goals: Sequence[_Goal], bench: Bench) -> Iterator[Finding]:
    # vsftpd's anonymous user must reach what it serves.
    bench.folder.chmod(0o755)
    far = host == FAR
    with servers(bench.folder / "servers", ftp=protocol == "ftp", far=far) as running:
        for number, ((name, sizes), goal) in enumerate(goals):
            place = bench.folder / str(number)
            benchmark = TransferBenchmark(place, running, sizes, host)
            title = f"{name} over {protocol.upper()}{f', {DELAY * 1000:.0f} ms there and back' if far else ''}"
            comparison = benchmark.comparison(title, protocol, goal, by_lftp=far or protocol == "ftp")
            comparison.measure(bench.runs, uncounted=0 if far else 1)
            shutil.rmtree(place)
            yield comparison


def _far(name: str, goal: _Goal, *tools: str) -> Benchmark:
    protocol = name.partition("-")[0]
    about = (
        f"{protocol.upper()} through a relay that adds 80 ms of round-trip time, a handshake, and a window that begins "
        "small and ends at 4 MB, beside `lftp` with four connections."
    )
    return Benchmark(f"transfer-{name}", about, partial(_measure, protocol, FAR, [goal]), tools, max_runs=5)


_NEAR_SFTP = partial(_measure, "sftp", NEAR, [(_LARGE, 1.1), (_SMALL, 1.0)])
_NEAR_FTP = partial(_measure, "ftp", NEAR, [(_LARGE, 1.2), (_SMALL, 1.2)])
BENCHMARKS = [
    Benchmark("transfer-sftp", "SFTP beside `sftp -b`, from a local OpenSSH server.", _NEAR_SFTP, ("sftp",)),
    Benchmark("transfer-ftp", "FTP beside `lftp`, from a local vsftpd.", _NEAR_FTP, ("lftp", "vsftpd")),
    # One each, because lftp takes minutes for the small files.
    _far("sftp-far-large", (_LARGE, 1.0), "sftp", "lftp"),
    _far("sftp-far-small", (_SMALL, 1.0), "sftp", "lftp"),
    _far("ftp-far-large", (_LARGE, 1.2), "lftp", "vsftpd"),
    _far("ftp-far-small", (_SMALL, 1.2), "lftp", "vsftpd"),
]
