"""`dcc replay` under a changed rule set beside preparing the same archives, and beside judging them anew.

Preparing is what a session does with an archive in its processes: opening, validating, reading, asking the rules, and
writing rows. Afterwards the result is compared with that of a session of an empty installation with the changed rules.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, MetaData, select

from benchmarks.installation import databases, make_installation
from benchmarks.measuring import DCC, ROOT, Comparison, Contender, Timing, clean_environment, module, timed
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import Folders
from benchmarks.session import DOCUMENTS, put_archives
from dcc.replay.stored_archives import find_archives
from dcc.replay.verdicts import ReplayVerdict

ARCHIVES = 1_000
PREPARE = "preparing alone"
REPLAY = "dcc replay --rules"
GOAL = 1.25
RULES = '''
from dcc.rules.registry import rule
from dcc.vocabulary import Severity
from dcc.rules.findings import fault
from dcc.documents.contents import Experiment
from datetime import date


@rule("D1", Experiment, severity=Severity.ERROR, message="'{experiment}' is dated {value}, a Sunday.",
      cause="Experiments are dated on Sundays", remedy="Correct the dates.")
def experiment_is_of_a_working_day(experiment, at):
    """An experiment is not dated on a Sunday."""
    if date.fromisoformat(experiment.date[:10]).isoweekday() == 7:
        yield fault(experiment.line, experiment.date, experiment=experiment.experiment_id)
'''
_MODULE = "changed_rules"


def write_rules(folder: Path) -> Path:
    """Write the changed rules to a folder, which on PYTHONPATH is that of an installed package; returns the module."""
    about = folder / f"{_MODULE}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {_MODULE}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[dcc.rules]\n{_MODULE} = {_MODULE}\n")
    module = folder / f"{_MODULE}.py"
    module.write_text(RULES)
    return module


def rows(database: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of a database."""
    metadata = MetaData()
    metadata.reflect(database)
    with database.connect() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


Facts = tuple[str | None, Counter[tuple[str, str, int | None]]]
"""The outcome of a document, and its findings by code, severity and line."""


def facts_of(verdict: ReplayVerdict) -> Facts:
    """A verdict in comparable form."""
    return verdict.outcome, Counter((one.code, one.severity.value, one.line) for one in verdict.facts)


def recorded(tracker: Engine, qc: Engine) -> dict[tuple[str, str], Facts]:
    """The present verdicts of all documents of an installation."""
    with tracker.connect() as of_tracker, qc.connect() as of_qc:
        return {
            (str(archive.key), name): facts_of(verdict)
            for archive in find_archives(of_tracker, of_qc)
            for name, verdict in archive.present().items()
        }


def crawl(home: Path, sources: Mapping[str, Path], variables: Mapping[str, str], ends: int = 0) -> None:
    """Judge the archives in the folders of centres in a new installation, by a session that ends with this code."""
    addresses = [Folders().source(centre, folder) for centre, folder in sources.items()]
    make_installation(home, addresses, None, {})
    environment = clean_environment(DCC_HOME=str(home), DCC_DAGSTER_EVENTS="false", **variables)
    timed([DCC, "crawl"], log=home.with_suffix(".log"), environment=environment, expected=ends)


class ReplayBenchmark:
    """Both sides in `folder`, on an installation that has judged so many archives."""

    def __init__(self, folder: Path, archives: int) -> None:
        self._folder, self._archives = folder, archives
        self._home, self._remote = folder / "home", folder / "centre"
        put_archives(self._remote, archives)
        self._rules = write_rules(folder / "rules")
        crawl(self._home, {"H": self._remote}, {})
        with databases(self._home, {}) as (_, tracker, qc):
            self._before = rows(tracker), rows(qc)

    def comparison(self) -> Comparison:
        """Preparing is the measure."""
        command = f"python -m benchmarks.replay_process {self._home}"
        prepare = Contender(PREPARE, self.run_prepare, command=command)
        ours = Contender(REPLAY, self.run_replay, command=f"dcc replay --rules {self._rules.name} --json")
        title = f"Replay of {self._archives:,} archives of {DOCUMENTS} documents of 50 KB"
        return Comparison(title, [prepare, ours], {REPLAY: GOAL}, (self._archives * DOCUMENTS, "documents"))

    def run_prepare(self) -> Timing:
        """Preparing the archives by the changed rules, and nothing else."""
        log = self._folder / "prepare.log"
        environment = clean_environment(TMPDIR=str(self._folder), PYTHONPATH=f"{ROOT}:{self._rules.parent}")
        timing = timed(module("replay_process", str(self._home)), log=log, environment=environment)
        if int(log.read_text()) != self._archives * DOCUMENTS:
            raise RuntimeError(f"Not all documents were prepared; see {log}.")
        return timing

    def run_replay(self) -> Timing:
        """The replay, with its result in a file."""
        environment = clean_environment(DCC_HOME=str(self._home), TMPDIR=str(self._folder))
        command = [DCC, "replay", "--rules", str(self._rules), "--json"]
        return timed(command, log=self._folder / "replay.json", environment=environment)

    def require_same(self) -> None:
        """Raise RuntimeError unless the databases are as before, and the result is that of an empty installation."""
        with databases(self._home, {}) as (_, tracker, qc):
            if (rows(tracker), rows(qc)) != self._before:
                raise RuntimeError("The replay changed a database.")
            found = recorded(tracker, qc)
        for change in json.loads((self._folder / "replay.json").read_text())["changes"]:
            key = (change["archive"], change["document"])
            facts = Counter(found[key][1])
            facts.update(map(_fact, change["appeared"]))
            facts.subtract(map(_fact, change["gone"]))
            found[key] = change["after"], facts
        home = self._folder / "anew"
        crawl(home, {"H": self._remote}, {"PYTHONPATH": str(self._rules.parent)}, ends=1)
        with databases(home, {}) as (_, tracker, qc):
            anew = recorded(tracker, qc)
        shutil.rmtree(home)
        if found != anew or not any(outcome == "failed data" for outcome, _ in anew.values()):
            raise RuntimeError("The verdicts are not those of an empty installation.")


def _fact(fact: Mapping[str, Any]) -> tuple[str, str, int | None]:
    return fact["code"], fact["severity"], fact["line"]


def _measure(bench: Bench) -> Iterator[Finding]:
    benchmark = ReplayBenchmark(bench.folder / "work", ARCHIVES)
    comparison = benchmark.comparison()
    comparison.measure(bench.runs)
    benchmark.require_same()
    yield comparison


BENCHMARKS = [
    Benchmark(
        "replay",
        "`dcc replay` of stored archives under a changed rule set, beside preparing them by these in as many "
        "processes, as a session does before it applies documents. The archives are of one centre. The "
        "verdicts are compared with those of an empty installation, and both databases with what they were.",
        _measure,
        max_runs=2,
    )
]
