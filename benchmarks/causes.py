"""The causes of a centre with a million findings, as `dcc data causes` counts them, in a process of its own.

`python -m benchmarks.causes TRACKER_URL QC_URL` prints what `find_causes` took, as JSON. The findings are of every
declared case of a rule, with several subjects each, so that they have hundreds of causes.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy import insert

from benchmarks.measuring import Figure, Note, clean_environment, module
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import MariaDb
from dcc.databases.schema import init_database
from dcc.declarations import all_declared, cause_id, message_of, rule_of
from dcc.messages import names_in, to_json
from dcc.qc.database import open_qc_database
from dcc.qc.models import DOCUMENT, FINDING
from dcc.reports.causes.collecting import find_causes
from dcc.rules.catalogue import CATALOGUE
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from dcc.vocabulary import DocumentState, Severity

FINDINGS: Final = 1_000_000
DOCUMENTS: Final = 2_000
SECONDS: Final = 2.0
MEGABYTES: Final = 300.0
_CENTRE: Final = "J"
_SUBJECTS: Final = 5
_PAGE: Final = 10_000
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def _settings(tracker: str, qc: str) -> Settings:
    return Settings(tracker_url=SecretStr(tracker), qc_url=SecretStr(qc))


def _facts() -> Iterator[dict[str, Any]]:
    """What each cause puts into a row: every case of a rule, with `_SUBJECTS` different details."""
    for code, declaration in all_declared().items():
        if rule_of(code) in CATALOGUE:
            for number in range(_SUBJECTS):
                details = {name: f"{name} {number}" for name in names_in(declaration.message)}
                yield {
                    "rule": rule_of(code),
                    "code": code,
                    "details": to_json(details),
                    "cause": cause_id(code, details),
                    "message": str(message_of(code, details)),
                    "value": f"value {number}",
                }


def fill(tracker: str, qc: str, findings: int, documents: int) -> None:
    """Make both databases, with so many findings in so many documents of one centre."""
    settings = _settings(tracker, qc)
    for engine in (open_tracker(settings), open_qc_database(settings)):
        init_database(engine)
        engine.dispose()
    engine = open_qc_database(settings)
    with engine.begin() as connection:
        rows = [
            {
                "id": number,
                "zip_action": "add",
                "zip_file": f"{_CENTRE}.2026-01-01.{number}.impc.zip",
                "file_name": f"{_CENTRE}.2026-01-01.{number}.experiment.impc.xml",
                "kind": "experiment",
                "centre": _CENTRE,
                "created": date(2026, 1, 1),
                "inc": number,
                "action": "add",
                "state": DocumentState.APPLIED.value,
                "applied_at": _NOW,
            }
            for number in range(1, documents + 1)
        ]
        connection.execute(insert(DOCUMENT), rows)
        facts = itertools.islice(itertools.cycle(list(_facts())), findings)
        for first in range(0, findings, _PAGE):
            page = [
                {
                    **fact,
                    "document_id": number % documents + 1,
                    "severity": Severity.ERROR.value,
                    "line": number,
                    "entity_kind": "experiment",
                    "entity_id": number,
                    "is_active": True,
                    "created": _NOW,
                }
                for number, fact in enumerate(itertools.islice(facts, _PAGE), first)
            ]
            connection.execute(insert(FINDING), page)
    engine.dispose()


def count(tracker: str, qc: str) -> dict[str, float]:
    """Count the causes of the centre: what that took, and the peak of this process's memory in MB."""
    settings = _settings(tracker, qc)
    with open_tracker(settings).connect() as known, open_qc_database(settings).connect() as data:
        began, began_cpu = time.perf_counter(), time.process_time()
        causes = find_causes(known, data, _CENTRE, settings).causes
        seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = sum(cause.findings for cause in causes)
    return {"seconds": seconds, "cpu": cpu, "peak_mb": peak, "causes": len(causes), "findings": found}


def measure(name: str, tracker: str, qc: str, runs: int) -> Note:
    """The fastest of some runs, each in a process of its own, on databases that are filled. Raises as they end."""
    command, environment = module("causes", tracker, qc), clean_environment()
    each = [
        json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(runs)
    ]
    best = min(each, key=lambda run: float(run["seconds"]))
    return Note(
        f"Causes of a centre with {best['findings']:,} findings, {name}",
        f"{best['causes']:,} causes in {best['seconds']:.2f} s; {best['cpu']:.2f} s of processor time and "
        f"{best['peak_mb']:.0f} MB in the process that asks.",
        (
            Figure("causes of a centre", best["seconds"], "s", SECONDS),
            Figure("peak of memory", best["peak_mb"], "MB", MEGABYTES),
        ),
    )


def _on_sqlite(bench: Bench) -> Iterator[Finding]:
    tracker, qc = (f"sqlite:///{bench.folder / name}" for name in ("tracker.db", "qc.db"))
    fill(tracker, qc, FINDINGS, DOCUMENTS)
    yield measure("SQLite", tracker, qc, bench.runs)


def _on_mariadb(bench: Bench) -> Iterator[Finding]:
    with MariaDb(bench.folder / "mariadb") as server:
        tracker, qc = server.url("tracker"), server.url("qc")
        fill(tracker, qc, FINDINGS, DOCUMENTS)
        yield measure("MariaDB", tracker, qc, bench.runs)


_ABOUT = "A million findings of two thousand documents of one centre: their causes, counted by SQL over codes."
BENCHMARKS = [
    Benchmark("causes-sqlite", _ABOUT, _on_sqlite),
    Benchmark("causes-mariadb", _ABOUT, _on_mariadb, tools=("mariadb",)),
]

if __name__ == "__main__":
    print(json.dumps(count(*sys.argv[1:])))
