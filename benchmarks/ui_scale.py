"""The pages of Dagster's UI with many zip actions: what each asks for, by GraphQL, and how long the answer takes.

The queries are those of the pages of Dagster 1.13, with the parts that depend on the number of partitions. Each is
asked of a server that has just started, and again; a page asks for several at once.
"""

from __future__ import annotations

import json
import signal
import statistics
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.known_archives import KnownArchives
from benchmarks.measuring import DCC, Figure, Note, table
from benchmarks.registry import Bench, Benchmark
from benchmarks.servers import Folders, ServerProcess, free_port

KNOWN: Final = 100_000
SHOWN: Final = 5_000
ASSET: Final = "validated_documents"
CHECK: Final = "xsd"
AGAIN: Final = 3
SLOWEST_SECONDS: Final = 10.0
"""What a person waits for."""
_SECONDS: Final = 300.0
_STATUSES: Final = (
    "assetPartitionStatuses { ... on DefaultPartitionStatuses "
    "{ materializedPartitions materializingPartitions failedPartitions } }"
)
_KEYS: Final = "partitionKeysByDimension { name type partitionKeys }"
_ENTRIES: Final = "metadataEntries { label description }"


@dataclass(frozen=True, slots=True)
class Question:
    """What a page asks for; `variables` beside the asset's key."""

    page: str
    query: str
    variables: dict[str, Any] = field(default_factory=dict)


def questions(partition: str) -> tuple[Question, ...]:
    """What the pages ask for; `partition` is one whose check failed."""
    return (
        Question(
            "lineage: the state of an asset (AssetGraphLiveQuery)",
            "query($asset: AssetKeyInput!) { assetNodes(assetKeys: [$asset], loadMaterializations: true) { id "
            "assetMaterializations(limit: 1) { timestamp } partitionStats { numMaterialized numMaterializing "
            "numPartitions numFailed } assetChecksOrError { ... on AssetChecks { checks { name "
            "executionForLatestMaterialization { status } } } } } assetsLatestInfo(assetKeys: [$asset]) { id } }",
        ),
        Question(
            "asset: partitions (PartitionHealthQuery)",
            "query($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset) { ... on AssetNode { id "
            f"{_KEYS} {_STATUSES} }} }} }}",
        ),
        Question(
            "asset: one partition (AssetPartitionDetailQuery)",
            "query($asset: AssetKeyInput!, $partition: String!) { assetOrError(assetKey: $asset) { ... on Asset { id "
            "definition { id latestRunForPartition(partition: $partition) { id } } assetEventHistory(partitions: "
            "[$partition], limit: 1000, eventTypeSelectors: [MATERIALIZATION, OBSERVATION, FAILED_TO_MATERIALIZE]) "
            f"{{ results {{ ... on MaterializationEvent {{ runId {_ENTRIES} }} ... on ObservationEvent "
            f"{{ runId {_ENTRIES} }} }} }} }} }} }}",
            {"partition": partition},
        ),
        Question(
            "asset: is a partition stale (AssetPartitionStaleQuery)",
            "query($asset: AssetKeyInput!, $partition: String!) { assetNodeOrError(assetKey: $asset) { ... on "
            "AssetNode { id staleStatus(partition: $partition) staleCauses(partition: $partition) { reason } } } }",
            {"partition": partition},
        ),
        Question(
            "asset: events (RecentAssetEventsQuery)",
            "query($asset: AssetKeyInput!) { assetOrError(assetKey: $asset) { ... on Asset { id assetEventHistory("
            "limit: 50, eventTypeSelectors: [MATERIALIZATION, OBSERVATION]) { results { ... on MaterializationEvent "
            f"{{ partition timestamp {_ENTRIES} }} ... on ObservationEvent {{ partition timestamp {_ENTRIES} }} }} }} "
            "} } }",
        ),
        Question(
            "checks (AssetChecksQuery)",
            "query($asset: AssetKeyInput!) { assetNodeOrError(assetKey: $asset) { ... on AssetNode { id "
            "assetChecksOrError { ... on AssetChecks { checks { name description executionForLatestMaterialization "
            "{ status timestamp } partitionStatuses { ... on AssetCheckDefaultPartitionStatuses "
            "{ succeededPartitions failedPartitions } } } } } } } }",
        ),
        Question(
            "checks: partitions (AssetCheckPartitionHealthQuery)",
            "query($asset: AssetKeyInput!, $check: String!) { assetNodeOrError(assetKey: $asset) { ... on AssetNode "
            f"{{ id assetCheckOrError(checkName: $check) {{ ... on AssetCheck {{ name {_KEYS} partitionStatuses {{ "
            "... on AssetCheckDefaultPartitionStatuses { succeededPartitions failedPartitions inProgressPartitions "
            "skippedPartitions executionFailedPartitions } } } } } } }",
            {"check": CHECK},
        ),
        Question(
            "checks: one partition (AssetCheckPartitionDetailQuery)",
            "query($asset: AssetKeyInput!, $check: String!, $partition: String!) { assetCheckExecutions(assetKey: "
            "$asset, checkName: $check, partition: $partition, limit: 1000) { id status evaluation { severity "
            f"description {_ENTRIES} }} }} }}",
            {"check": CHECK, "partition": partition},
        ),
        Question(
            "checks: history (AssetCheckDetailsQuery)",
            "query($asset: AssetKeyInput!, $check: String!) { assetCheckExecutions(assetKey: $asset, checkName: "
            "$check, limit: 25) { id status evaluation { severity description } } }",
            {"check": CHECK},
        ),
    )


def ask(url: str, question: Question) -> tuple[float, bytes]:
    """How long a question takes, and the answer. Raises RuntimeError for one that says it failed."""
    variables = {"asset": {"path": [ASSET]}, **question.variables}
    told = json.dumps({"query": question.query, "variables": variables}).encode()
    request = urllib.request.Request(f"{url}/graphql", told, {"Content-Type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        body: bytes = answer.read()
    seconds = time.perf_counter() - began
    if "errors" in json.loads(body):
        raise RuntimeError(f"{question.page}: {body[:2000]!r}")
    return seconds, body


@contextmanager
def served(archives: KnownArchives) -> Iterator[str]:
    """The URL of the UI on an installation."""
    port, log = free_port(), archives.home / "ui.log"
    command = [DCC, "ui", "--without-daemon", "--port", str(port)]
    environment = archives.environment(events=True)
    with ServerProcess(command, port, log, lambda: "The UI is at" in log.read_text(), environment) as ui:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            # Killed, it would leave behind the processes that it has started.
            ui.stop(signal.SIGTERM)


def answers(url: str) -> tuple[str, float]:
    """Every question asked, and `AGAIN` times after that: a table of the answers, and the seconds of the slowest."""
    find = questions("")[6]
    failed = json.loads(ask(url, find)[1])["data"]["assetNodeOrError"]["assetCheckOrError"]["partitionStatuses"]
    rows, slowest = [], 0.0
    for question in questions(failed["failedPartitions"][0]):
        first, body = ask(url, question)
        again = statistics.median(ask(url, question)[0] for _ in range(AGAIN))
        rows.append([question.page, f"{first:.2f}", f"{again:.2f}", f"{len(body) / 1000:,.0f}"])
        slowest = max(slowest, first, again)
    return table(["page (query)", "first, s", "again, s", "answer, KB"], rows), slowest


def ui_times(folder: Path, shown: int) -> Note:
    """How long the pages take on an installation in `folder` that is made, and what showing it took."""
    archives = KnownArchives(folder, Folders(), variables={"DCC_DAGSTER_ZIPS": str(shown)}, some_fail=True)
    archives.make()
    archives.grow(KNOWN)
    began = time.perf_counter()
    archives.run("crawl", events=True)
    seconds = time.perf_counter() - began
    with served(archives) as url:
        told, slowest = answers(url)
    figures = [
        Figure("The first session, which shows them", seconds, "s"),
        Figure("The slowest answer", slowest, "s", SLOWEST_SECONDS),
    ]
    return Note(f"Dagster's pages: {KNOWN:,} known submissions, {shown:,} of them shown", told, figures)


def _measure(bench: Bench) -> Iterator[Note]:
    for shown in (SHOWN, KNOWN):
        yield ui_times(bench.folder / str(shown), shown)


BENCHMARKS = [
    Benchmark(
        "ui-scale",
        "What the pages of Dagster's UI ask for, by GraphQL, of a server that has just started, and then three times: "
        "the median. First with as many submissions shown as there are by default (`DCC_DAGSTER_ZIPS`), then with all.",
        _measure,
        max_runs=1,
    )
]
