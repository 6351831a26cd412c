"""What collecting the metrics of a large tracker costs: many submissions, and a thousand sessions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sqlalchemy import insert

from benchmarks.known_archives import CENTRES, KnownArchives
from benchmarks.measuring import Figure, Note
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import Folders, MariaDb
from dcc.databases.transactions import writing
from dcc.operations.metrics.collector import Collection, exposition
from dcc.runtime.clock import utc_now
from dcc.tracker.models import CrawlingSession, SourceCrawlRow

ZIPS: Final = 100_000
_SESSIONS: Final = range(1_001, 2_001)


def metrics_times(name: str, folder: Path, runs: int, urls: Mapping[str, str]) -> Note:
    """How long the metrics take of an installation in `folder` that is made."""
    archives = KnownArchives(folder, Folders(), variables=urls, some_fail=True)
    archives.make()
    archives.grow(ZIPS)
    seconds, text = [], b""
    with archives.databases() as (settings, tracker, _):
        now = utc_now()
        times = {"start_time": now, "finish_time": now}
        sessions = [{"id": number, "status": 0, "created": now, **times} for number in _SESSIONS]
        crawls = [
            {"session_id": number, "file_source_id": source, "outcome": "ok", **times}
            for number in _SESSIONS
            for source in range(1, len(CENTRES) + 1)
        ]
        with writing(tracker) as connection:
            connection.execute(insert(CrawlingSession), sessions)
            connection.execute(insert(SourceCrawlRow), crawls)
        collection = Collection(settings, part_seconds=600)
        for _ in range(runs):
            began = time.perf_counter()
            text = exposition(collection.collect())
            seconds.append(time.perf_counter() - began)
    told = f"{text.count(b'dcc_'):,} samples and names, {len(text):,} bytes."
    title = f"Metrics of {ZIPS:,} submissions after {len(_SESSIONS):,} sessions, {name}"
    return Note(title, told, [Figure("collecting and writing them", statistics.median(seconds), "s")])


def _on_sqlite(bench: Bench) -> Iterator[Finding]:
    yield metrics_times("SQLite", bench.folder, bench.runs, {})


def _on_mariadb(bench: Bench) -> Iterator[Finding]:
    with MariaDb(bench.folder / "mariadb") as server:
        urls = {"DCC_TRACKER_URL": server.url("tracker"), "DCC_QC_URL": server.url("qc")}
        yield metrics_times("MariaDB", bench.folder, bench.runs, urls)


_ABOUT = "What `dcc metrics` collects of submissions that are through with quality control or failed."
BENCHMARKS = [
    Benchmark("metrics-sqlite", _ABOUT, _on_sqlite),
    Benchmark("metrics-mariadb", _ABOUT, _on_mariadb, tools=("mariadb",)),
]
