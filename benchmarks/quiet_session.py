"""A session with nothing new, however much is known, beside listing the same directories with `lftp`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.known_archives import CENTRES, KnownArchives
from benchmarks.measuring import DCC, Comparison, Contender, Timing, clean_environment, timed
from benchmarks.registry import Bench, Benchmark
from benchmarks.servers import OpenSsh

KNOWN: Final = 100_000
SHELL: Final = "lftp cls, one source after the other"
AT_ONCE: Final = "lftp cls, all sources at once"
PLAIN: Final = "dcc crawl, no Dagster events"
EVENTS: Final = "dcc crawl"
GOALS: Final = {PLAIN: 1.3, EVENTS: 1.3}
MOST_MEGABYTES: Final = 400


class QuietSession:
    """Sessions that find nothing new in an installation, and what lists the same directories without recording."""

    def __init__(self, known: KnownArchives) -> None:
        self._known = known
        self._log = known.folder / "quiet.log"

    def list_alone(self, *, at_once: bool = False) -> Timing:
        """`lftp` on each source: one after the other, or all of them at once."""
        end = " &" if at_once else ""
        listed_in = {root: Path(f"{root}.listed") for root in self._known.roots.values()}
        commands = [f"{self._listing(root)} >{shlex.quote(str(told))}{end}" for root, told in listed_in.items()]
        script = "\n".join([*commands, "wait"])
        timing = timed(["sh", "-ec", script], log=self._log, environment=clean_environment())
        listed = sum(told.read_bytes().count(b"\n") for told in listed_in.values())
        if listed != self._known.known:
            raise RuntimeError(f"lftp listed {listed:,} of {self._known.known:,} files; see {self._log}.")
        return timing

    def crawl(self, *, events: bool) -> Timing:
        """`dcc crawl`, which has nothing to do."""
        timing = timed(
            [DCC, "crawl", "--json"], log=self._log, environment=self._known.environment(events=events), memory=True
        )
        told = json.loads(self._log.read_text())
        found = tuple(sum(source[name] for source in told["sources"]) for name in ("known", "new", "changed", "gone"))
        if found != (self._known.known, 0, 0, 0) or told["xml_files"]:
            raise RuntimeError(f"The crawl found {found} of {self._known.known:,} archives; see {self._log}.")
        return timing

    def _listing(self, root: Path) -> str:
        server = self._known.server
        if not isinstance(server, OpenSsh):
            raise TypeError("lftp lists archives on a server.")
        return f"lftp -c {shlex.quote(f'{server.lftp_open()}; cls -l {root}/add')}"


def _measure(bench: Bench) -> Iterator[Comparison]:
    with OpenSsh(bench.folder / "sshd") as server:
        known = KnownArchives(bench.folder / "known", server)
        known.make()
        known.grow(KNOWN)
        quiet = QuietSession(known)
        contenders = [
            Contender(SHELL, quiet.list_alone, command="for each source: lftp -c '...; cls -l BASE/add'"),
            Contender(AT_ONCE, lambda: quiet.list_alone(at_once=True), command="the same, each with & and then wait"),
            Contender(PLAIN, lambda: quiet.crawl(events=False), command="DCC_DAGSTER_EVENTS=false dcc crawl --json"),
            Contender(EVENTS, lambda: quiet.crawl(events=True), command="dcc crawl --json"),
        ]
        title = f"A session with nothing new: {KNOWN:,} known archives on {len(CENTRES)} file sources, SFTP, SQLite"
        comparison = Comparison(title, contenders, GOALS, (KNOWN, "archives"))
        comparison.measure(bench.runs)
        comparison.add_peaks(contenders[2:], MOST_MEGABYTES)
        yield comparison


BENCHMARKS = [
    Benchmark(
        "quiet",
        "Every archive is known and through with quality control but for one centre's, which waits for it: five "
        "documents an archive, and the contexts that they have data in. The first session with events, which shows all "
        "that in Dagster, is not counted.",
        _measure,
        tools=("lftp",),
    )
]
