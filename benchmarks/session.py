"""A crawling session against a shell script that fetches, extracts and validates the same archives.

200 archives of 5 documents of 50 KB lie on a local OpenSSH server. The script does, one after the other and with
nothing recorded: one `sftp -b` for all archives; for each `md5sum` and `unzip`; for each document `xmllint --schema`.
The platform does `dcc crawl`, every document to (xsd, done) in the tracker, once with Dagster's events and once
without.
"""

from __future__ import annotations

import itertools
import shlex
import shutil
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType

from benchmarks.installation import databases as open_databases
from benchmarks.installation import make_installation
from benchmarks.measuring import DCC, Comparison, Contender, Timing, clean_environment, timed
from benchmarks.registry import Bench, Benchmark, Finding
from benchmarks.servers import OpenSsh
from dcc.cli.demo.submissions import DEFAULT_CREATED, archive, experiment_document, specimen_document
from dcc.phases import Phase, State, Status
from dcc.tracker.queries.state_counts import count_documents, count_submission_states

ARCHIVES = 200
DOCUMENTS = 5
DOCUMENT_BYTES = 50_000
PROCEDURES = ("IMPC_CBC_001", "IMPC_HEM_001", "IMPC_GRS_001", "IMPC_IPG_001")
SCHEMAS = Path(__file__).parent.parent / "dcc" / "documents" / "schemas"

TITLE = "A crawling session"
SHELL = "sftp, unzip, md5sum, xmllint"
PLAIN = "dcc crawl, no Dagster events"
EVENTS = "dcc crawl"
GOALS = {PLAIN: 0.5, EVENTS: 1.2}

# Of $zip; $SCHEMAS is set by the caller.
CHECK = """\
    md5sum "$zip" >"$zip.md5sum"
    unzip -q "$zip" -d "$zip.contents"
    for document in "$zip.contents"/*.xml; do
        case $document in
            *.specimen.impc.xml) schema=specimen_definition.xsd ;;
            *) schema=procedure_definition.xsd ;;
        esac
        xmllint --noout --schema "$SCHEMAS/$schema" "$document"
    done
"""
# $SFTP, $DESTINATION, $REMOTE, $SCHEMAS are set by the caller; the working directory is empty.
SCRIPT = f"""\
set -eu
echo "get $REMOTE/add/*.zip" >batch
$SFTP -b batch $DESTINATION >/dev/null
for zip in *.zip; do
{CHECK}done
"""


ENDS = {
    "xsd": {State(Phase.XSD, Status.DONE)},
    "qc": {State(Phase.QC, Status.PENDING), State(Phase.QC, Status.DONE)},
}
"""The states that everything may have after a session to a phase: documents of specimens have nothing to control."""


class SessionBenchmark:
    """The session in `folder`, with the archives of a centre behind a local server."""

    def __init__(self, folder: Path, server: OpenSsh, archives: int) -> None:
        self._folder = folder
        self._server = server
        self._archives = archives
        self._remote = folder / "centre"
        self._numbers = itertools.count()
        put_archives(self._remote, archives)

    def comparison(self) -> Comparison:
        """The three contenders; the shell script is the measure."""
        contenders = [
            Contender(SHELL, self.run_shell, command=SCRIPT),
            Contender(PLAIN, lambda: self.run_crawl(events=False)),
            Contender(EVENTS, lambda: self.run_crawl(events=True)),
        ]
        title = f"{TITLE}: {self._archives} archives of {DOCUMENTS} documents of {DOCUMENT_BYTES // 1000} KB"
        return Comparison(title, contenders, GOALS)

    def run_shell(self, and_then: str = "") -> Timing:
        """The script, in an empty directory; `and_then` are further lines of it."""
        place = self.fresh("shell")
        environment = clean_environment(
            SFTP=shlex.join(["sftp", "-q", *self._server.options]),
            DESTINATION=f"{self._server.username}@127.0.0.1",
            REMOTE=str(self._remote),
            SCHEMAS=str(SCHEMAS),
        )
        script = ["sh", "-c", f"cd {shlex.quote(str(place))}\n{SCRIPT}{and_then}"]
        log = place.with_suffix(".log")
        timing = timed(script, log=log, environment=environment)
        valid = log.read_text().count(" validates\n")
        _require(valid == self._archives * DOCUMENTS, f"xmllint found {valid} documents valid; see {log}")
        shutil.rmtree(place)
        return timing

    def run_crawl(self, *, events: bool) -> Timing:
        """`dcc crawl`, with the tracker and the source registered beforehand."""
        home = self.fresh("dcc")
        timing = self.crawl(home, "xsd", events=events)
        shutil.rmtree(home)
        return timing

    def crawl(
        self, home: Path, until: str, *, events: bool = False, databases: Mapping[str, str] = MappingProxyType({})
    ) -> Timing:
        """A session that brings everything to `until` in an installation that stays, in the empty directory `home`.

        `databases` are settings that say where they are, by default in `home`.
        """
        environment = clean_environment(
            DCC_HOME=str(home), DCC_DAGSTER_EVENTS=str(events).lower(), DCC_UNTIL=until, **databases
        )
        make_installation(home, [self._server.source("H", self._remote)], self._server.known_hosts, databases)
        timing = timed([DCC, "crawl"], log=home.with_suffix(".log"), environment=environment)
        with open_databases(home, databases) as (_, tracker, _), tracker.connect() as connection:
            for count, number in ((count_submission_states, 1), (count_documents, DOCUMENTS)):
                counted = {State(one.phase, one.status): one.count for one in count(connection)}
                whole = counted.keys() <= ENDS[until] and sum(counted.values()) == number * self._archives
                _require(whole, f"In {home}, {count.__name__} says {counted}")
        return timing

    def fresh(self, kind: str) -> Path:
        """A new directory in the benchmark's folder."""
        place = self._folder / f"{kind}-{next(self._numbers)}"
        place.mkdir()
        return place


def _measure(bench: Bench) -> Iterator[Finding]:
    with OpenSsh(bench.folder / "sshd") as server:
        comparison = SessionBenchmark(bench.folder, server, ARCHIVES).comparison()
        comparison.measure(bench.runs)
    yield comparison


def documents_of(centre: str, created: date, inc: int, first: int, at_least: int = 0) -> dict[str, bytes]:
    """A specimen document and experiment documents of four procedures on its animals, by name, numbered from `inc`.

    They have eight animals, numbered from `first`, or more until `at_least` bytes.
    """
    animals = specimen_document(centre, first=first, created=created, at_least=at_least)
    documents = {f"{centre}.{created}.{inc}.specimen.impc.xml": animals}
    for number, procedure in enumerate(PROCEDURES, inc + 1):
        documents[f"{centre}.{created}.{number}.experiment.impc.xml"] = experiment_document(
            centre, procedure=procedure, first=first, created=created, at_least=at_least
        )
    return documents


def submission(number: int) -> tuple[str, bytes]:
    """Archive `number` of centre H, by name: five documents of 50 KB."""
    documents = documents_of("H", DEFAULT_CREATED, number * DOCUMENTS, number * 1000, DOCUMENT_BYTES)
    return f"H.{DEFAULT_CREATED}.{number}.impc.zip", archive(documents)


def put_archives(root: Path, archives: int) -> None:
    """Put so many archives to the directory `add` of `root`, which is made."""
    (root / "add").mkdir(parents=True)
    for number in range(archives):
        name, content = submission(number)
        (root / "add" / name).write_bytes(content)


def _require(truth: bool, problem: str) -> None:
    if not truth:
        raise RuntimeError(f"{problem}. The work was not done, so its time means nothing.")


BENCHMARKS = [
    Benchmark(
        "session-xsd",
        "A session of new archives on a local OpenSSH server up to (xsd, done) in the tracker, with and without "
        "Dagster's events. Beside it a shell script that records nothing. The tracker, the centre and the source are "
        "registered beforehand; Dagster's instance is made by the session itself.",
        _measure,
        tools=("sftp", "unzip", "md5sum", "xmllint"),
    )
]
