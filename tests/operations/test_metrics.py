"""Metrics: what they say of sessions, counters that never go back, parts that fail by themselves, HTTP, a file."""

import http.client
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from sqlalchemy import func, insert, select, update

from dcc.databases.transactions import writing
from dcc.operations.archive_audits import audit_archives
from dcc.operations.metrics import collector
from dcc.operations.metrics.collector import Collection, exposition
from dcc.operations.metrics.families import Metric, metric
from dcc.operations.metrics.server import Answers, open_server
from dcc.operations.session_work import open_session
from dcc.phases import Phase
from dcc.qc.contexts.listings import ContextFilter
from dcc.qc.contexts.states import decide_on_contexts
from dcc.qc.models import SNAPSHOT
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import Settings
from dcc.tracker.models import ArchiveCopy, Centre, CrawlingSession, SessionTask, SourceCrawlRow
from dcc.tracker.register import file_sources
from dcc.vocabulary import ContextEvent, SourceState
from tests.support.asking import execute_in, row_in, value_in
from tests.support.data_installations import DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Installation
from tests.support.prepared_installations import PreparedInstallations

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "dcc-alerts.yaml"

Figures = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: bytes) -> Figures:
    """The samples of a text, as Prometheus's own reader has them."""
    figures: Figures = {}
    for family in text_string_to_metric_families(text.decode("utf-8")):
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in figures
            figures[key] = sample.value
    return figures


def of(settings: Settings) -> Figures:
    return read(exposition(Collection(settings).collect()))


def figure(figures: Figures, name: str, **labels: str) -> float | None:
    return figures.get((f"dcc_{name}", frozenset(labels.items())))


def by_labels(figures: Figures, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by the values of their labels, in the order of the labels' names, without zeros."""
    return {
        tuple(value for _, value in sorted(labels)): number
        for (found, labels), number in figures.items()
        if found == f"dcc_{name}" and number
    }


def mix(data: DataInstallation) -> None:
    """A session with a good archive, a damaged one, a document that breaks a rule, a refused name, a source down."""
    data.put("add/H.2013-10-31.1.impc.zip", specimens())
    data.put("add/H.2013-10-31.2.impc.zip", experiments(first=100, stem="2013-10-31.2"))
    data.folder.put("add/H.2013-10-31.3.impc.zip", b"no archive")
    data.folder.put("add/no-name-of-an-archive.zip", b"")
    down = data.base.add_folder("J", "down")
    down.path.rmdir()
    data.run()


@pytest.fixture
def mixed(data: DataInstallation, prepared_installations: PreparedInstallations) -> DataInstallation:
    prepared_installations.begin(data, mix)
    return data


@pytest.mark.both_databases
def test_they_say_what_came_of_sessions(mixed: DataInstallation) -> None:
    figures = of(mixed.settings)
    assert by_labels(figures, "metrics_part_up") == dict.fromkeys(
        [("dagster",), ("qc",), ("staging",), ("tracker",)], 1
    ), "These are names in rules for alerts."
    assert by_labels(figures, "sessions_total") == {("", "finished"): 1, ("zip_name", "faults"): 1}
    assert figure(figures, "last_session_id") == 2
    # Although data failed.
    assert by_labels(figures, "last_session_outcome") == {("finished",): 1}
    assert by_labels(figures, "last_session_zip_actions")["failed",] >= 1
    assert figure(figures, "session_active") == 0
    assert figure(figures, "session_lease_age_seconds") is None
    end = figure(figures, "last_session_end_timestamp_seconds")
    assert end == figure(figures, "last_successful_session_end_timestamp_seconds")
    assert by_labels(figures, "source_up") == {("H", "1"): 1}
    assert figure(figures, "source_up", centre="J", source="2") == 0
    assert figure(figures, "centre_silent", centre="H") == 0
    assert (figure(figures, "centre_last_submission_timestamp_seconds", centre="H") or 0) > 0
    assert by_labels(figures, "source_last_crawl_outcome") == {("H", "ok", "1"): 1, ("J", "failed", "2"): 1}
    assert by_labels(figures, "source_zip_actions") == {("H", "1"): 4}
    assert by_labels(figures, "source_new_zip_actions_total") == {("H", "1"): 3}
    assert by_labels(figures, "source_downloads_total") == {("H", "1"): 3}
    archives = sum(path.stat().st_size for path in (mixed.folder.path / "add").iterdir())
    assert by_labels(figures, "source_downloaded_bytes_total") == {("H", "1"): archives}
    assert by_labels(figures, "source_crawl_errors_total") == {("J", "SourceUnreachableError", "2"): 1}
    assert by_labels(figures, "source_archive_errors_total") == {("H", "CorruptArchiveError", "1"): 1}
    assert by_labels(figures, "zip_actions") == {
        # A name that tells of no centre counts for the one on whose source it is.
        ("H", "zip_name", "failed"): 1,
        ("H", "unzip", "failed"): 1,
        ("H", "data", "failed"): 1,
        ("H", "qc", "done"): 1,
    }
    assert by_labels(figures, "documents") == {("H", "data", "failed"): 1, ("H", "qc", "done"): 1}
    assert by_labels(figures, "document_errors") == {("E4",): 3}
    assert by_labels(figures, "findings_active") == {("E4", "error"): 3}
    assert (figure(figures, "waiting_zip_actions"), figure(figures, "held_documents")) == (0, 0)
    staged = [path for path in mixed.settings.staging_directory.rglob("*") if path.is_file()]
    assert figure(figures, "staging_files") == len(staged)
    assert figure(figures, "staging_bytes") == sum(path.stat().st_size for path in staged)
    assert {key[0] for key in by_labels(figures, "database_bytes")} >= {"qc", "tracker"}


@pytest.mark.both_databases
def test_they_say_what_the_last_session_did_with_each_source_and_how_long_it_took(data: DataInstallation) -> None:
    data.put("add/H.2013-10-31.1.impc.zip", specimens())
    data.put("add/H.2013-10-31.2.impc.zip", experiments(stem="2013-10-31.2"))
    data.folder.put("add/H.2013-10-31.3.impc.zip", b"no archive")
    data.validate()
    ended = value_in(data.tracker, select(CrawlingSession.finish_time))
    in_xsd = SessionTask.phase_id == Phase.XSD
    execute_in(
        data.tracker,
        update(CrawlingSession).values(start_time=ended - timedelta(seconds=90)),
        update(SessionTask).values(start_time=ended - timedelta(seconds=70), finish_time=ended - timedelta(seconds=50)),
        update(SessionTask).where(in_xsd).values(finish_time=ended),
    )
    figures = of(data.settings)
    size = sum(path.stat().st_size for path in (data.folder.path / "add").iterdir())
    for name, expected in {"listed": 3, "fetched": 3, "bytes": size, "documents": 2, "failed": 1}.items():
        assert by_labels(figures, f"last_session_{name}") == {("H", "1"): expected}, name
    assert figure(figures, "last_session_findings", centre="H", source="1") == 0
    assert figure(figures, "last_session_duration_seconds") == 90
    steps = {("zip_name",): 20, ("download",): 20, ("xsd",): 70}
    assert by_labels(figures, "last_session_step_seconds") == steps


@only_sqlite
def test_counters_never_go_back(mixed: DataInstallation) -> None:
    """Not even when an archive is processed again, a document mended, or a source purged with all that it had."""
    before = of(mixed.settings)
    counters = {key for key in before if key[0].endswith("_total")}
    assert len(counters) > 8
    mixed.base.process_again("add/H.2013-10-31.2.impc.zip")
    mixed.put("add/H.2013-10-30.1.impc.zip", specimens(first=100, stem="2013-10-30.1"))
    mixed.run()
    after = of(mixed.settings)
    assert all(after[key] >= before[key] for key in counters)
    assert sum(after[key] for key in counters) > sum(before[key] for key in counters)
    # Of an archive that came twice, the latest documents count alone, and of them what is wrong by now.
    assert by_labels(after, "documents") == {("H", "qc", "done"): 2, ("H", "qc", "pending"): 1}
    assert by_labels(after, "document_errors") == {("Q5",): 1}
    assert by_labels(after, "findings_active") == {("Q5", "warning"): 1}
    crawl = row_in(mixed.tracker, select(SourceCrawlRow.__table__).where(SourceCrawlRow.new_zips == 3))
    partial = {**crawl._asdict(), "id": 99, "outcome": "partial", "new_zips": 2}
    execute_in(mixed.tracker, insert(SourceCrawlRow).values(partial))
    assert figure(of(mixed.settings), "source_new_zip_actions_total", centre="H", source="1") == 6
    with writing(mixed.tracker) as connection:
        file_sources.set_source_state(connection, mixed.folder.source_id, SourceState.REMOVED)
        file_sources.purge_source(connection, mixed.folder.source_id)
    purged = of(mixed.settings)
    assert all(purged[key] >= after[key] for key in counters & purged.keys())
    gone = {dict(labels).get("source") for name, labels in counters - purged.keys()}
    assert gone == {str(mixed.folder.source_id)}


@only_sqlite
def test_what_waits_is_wrong_or_out_of_use_is_counted(
    mixed: DataInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed.put("add/H.2013-10-30.1.impc.zip", specimens(first=100, stem="2013-10-30.1"))
    mixed.put("edit/H.2013-11-01.1.impc.zip", specimens("2013-11-01.1"))
    mixed.with_settings(hold_threshold=0).run()
    for event in (ContextEvent.ISSUE_RAISED, ContextEvent.ISSUE_RESOLVED, ContextEvent.ISSUE_RAISED):
        decide_on_contexts(mixed.qc, event, ContextFilter(), author="me", reason="tried")
    ended = value_in(mixed.tracker, select(func.max(SourceCrawlRow.finish_time)).where(SourceCrawlRow.listed > 0))
    execute_in(mixed.tracker, update(SourceCrawlRow).values(start_time=ended - timedelta(seconds=90)))
    execute_in(mixed.tracker, update(ArchiveCopy).values(state="missing"))
    execute_in(mixed.tracker, update(Centre).where(Centre.short_name == "J").values(is_active=False))
    execute_in(mixed.qc, update(SNAPSHOT).where(SNAPSHOT.c.name == "strains").values(is_active=False))
    # Times of databases are in UTC, wherever the machine is.
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    figures = of(mixed.settings)
    monkeypatch.undo()
    time.tzset()
    assert (figure(figures, "waiting_documents"), figure(figures, "held_documents")) == (1, 1)
    # That a document is held is nothing wrong with it.
    assert ("held",) not in by_labels(figures, "document_errors")
    contexts = sum(by_labels(figures, "contexts").values())
    assert (figure(figures, "context_issues_open"), contexts > 0) == (contexts, True)
    crawled = figure(figures, "source_last_crawl_timestamp_seconds", centre="H", source="1")
    assert crawled == ended.replace(tzinfo=UTC).timestamp()
    lost = figure(figures, "archive_store_lost_archives")
    assert (lost, list(by_labels(figures, "archive_store_copies").values())) == (5, [5])
    assert by_labels(figures, "source_available") == {("H", "1"): 1}
    assert figure(figures, "source_up", centre="J", source="2") is None
    assert ("colonies",) in by_labels(figures, "reference_checked_timestamp_seconds")
    assert ("strains",) not in by_labels(figures, "reference_checked_timestamp_seconds")
    files = sum(path.stat().st_size for path in mixed.settings.home.glob("tracker.db*"))
    assert figure(figures, "database_bytes", database="tracker") == files
    (tmp_path / "file").touch()
    unfit = of(mixed.settings.model_copy(update={"staging": tmp_path / "file"}))
    assert figure(unfit, "metrics_part_up", part="staging") == 0


@only_sqlite
def test_a_part_that_does_not_end_holds_up_nothing_and_is_begun_once(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, beginning, end = [], threading.Event(), threading.Event()

    def endless(_settings: Settings) -> Iterator[Metric]:
        begun.append(threading.current_thread())
        beginning.set()
        end.wait()
        yield metric("last_session_id", 1)

    monkeypatch.setattr(collector, "PARTS", {"slow": endless, "staging": collector.PARTS["staging"]})
    collection = Collection(installation.settings, part_seconds=0.1)
    for _ in range(3):
        figures = read(exposition(collection.collect()))
        assert figure(figures, "metrics_part_up", part="slow") == 0
        assert figure(figures, "last_session_id") is None
    assert beginning.wait(60)
    assert len(begun) == 1
    end.set()
    begun[0].join()
    monkeypatch.setattr(collection, "_part_seconds", collector.PART_SECONDS)
    assert figure(read(exposition(collection.collect())), "last_session_id") == 1
    assert len(begun) == 2


class BreakError(Exception):
    pass


@only_sqlite
def test_a_session_writes_its_file_whatever_its_end(
    data: DataInstallation, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "dcc.prom"
    # Prometheus reads it as another user of the group.
    request.addfinalizer(partial(os.umask, os.umask(0o077)))
    settings = data.settings.model_copy(update={"metrics_file": path})
    missing = SecretStr(f"sqlite:///{settings.home / 'missing' / 'x.db'}")
    for fault, outcome, of_session in (
        (None, "finished", settings),
        (BreakError, "faults", settings),
        (KeyboardInterrupt, "stopped", settings),
        (None, "finished", settings.model_copy(update={"qc_url": missing, "database_retry": 0.0})),
    ):
        path.write_text("old")
        with suppress(BreakError, KeyboardInterrupt), open_session(data.tracker, of_session) as session:
            begun = session.notices
            list(crawl_file_sources(session))
            if fault is not None:
                raise fault
        figures = read(path.read_bytes())
        assert by_labels(figures, "last_session_outcome") == {(outcome,): 1}
        assert figure(figures, "session_active") == 0
        assert figure(figures, "metrics_part_up", part="qc") == float(of_session is settings)
        assert session.notices == begun
        assert [found.name for found in tmp_path.glob("*.prom*")] == ["dcc.prom"]
        assert not [found for found in tmp_path.iterdir() if found.name.startswith(".")]
        assert path.stat().st_mode & 0o777 == 0o640
    # One that waits for a later run is nobody's.
    with open_session(data.tracker, settings) as session:
        session.hand_over()
    figures = of(settings)
    assert by_labels(figures, "last_session_outcome") == {("open",): 1}
    assert figure(figures, "session_active") == 0
    assert figure(figures, "session_lease_age_seconds", group="") is None


@only_sqlite
def test_a_file_that_cannot_be_written_costs_the_session_nothing(installation: Installation, tmp_path: Path) -> None:
    made = installation.with_settings(metrics_file=tmp_path / "missing" / "dcc.prom")
    result = made.run_session()
    (notice,) = result.closing_notices
    assert notice.startswith(f"The metrics could not be written to {tmp_path}/missing/dcc.prom (No such file")
    assert notice.endswith("in DCC_METRICS_FILE.")


@contextmanager
def served(collect: Callable[[], list[Metric]]) -> Iterator[Callable[..., Any]]:
    """A server; yields what asks it."""
    with open_server("127.0.0.1", 0, Answers(collect, 60)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()

        def ask(path: str, method: str = "GET") -> tuple[int, bytes, str | None]:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
            try:
                connection.request(method, path)
                answer = connection.getresponse()
                return answer.status, answer.read(), answer.getheader("Content-Type")
            finally:
                connection.close()

        try:
            yield ask
        finally:
            server.shutdown()
            thread.join()


def test_they_are_served_and_collected_no_more_often_than_every_few_seconds() -> None:
    collected = []

    def collect() -> list[Metric]:
        collected.append(1)
        return [metric("metrics_part_up", {("tracker",): 1, ("qc",): 0})]

    with served(collect) as ask:
        assert ask("/healthz")[:2] == (200, b"ok\n")
        status, body, kind = ask("/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert by_labels(read(body), "metrics_part_up") == {("tracker",): 1}
        assert ask("/metrics?x=1") == (200, body, kind)
        assert ask("/metrics", "HEAD")[:2] == (200, b"")
        assert ask("/")[0] == 404
        assert ask("/metrics", "POST")[0] == 501
    assert collected == [1]
    stale = Answers(collect, fresh_seconds=0)
    assert stale.metrics() == stale.metrics()
    assert collected == [1, 1, 1]
    # A probe hears that the tracker is away.
    with served(lambda: [metric("metrics_part_up", {("tracker",): 0, ("qc",): 1})]) as ask:
        assert ask("/healthz")[:2] == (503, b"The tracker could not be read.\n")


@only_sqlite
def test_every_alert_asks_for_metrics_that_there_are(mixed: DataInstallation) -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    audit_archives(mixed.tracker, mixed.settings, "tester")
    with open_session(mixed.tracker, mixed.settings):
        figures = of(mixed.settings)
    assert figure(figures, "session_active") == 1
    assert 0 <= (figure(figures, "session_lease_age_seconds", group="") or 0) <= 60
    labels_of: dict[str, set[str]] = {}
    for name, labels in figures:
        labels_of.setdefault(name, set()).update(label for label, _ in labels)
    for rule in rules:
        names = re.findall(r"dcc_\w+", rule["expr"])
        assert names, rule
        assert set(names) <= set(labels_of), rule["alert"]
        asked = re.findall(r"(\w+)\s*[!=]~?\"", rule["expr"]) + re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert set(asked) <= set.union(*(labels_of[name] for name in names)), rule["alert"]
        if "$value | humanizeDuration" in rule["annotations"]["summary"]:
            # `and` keeps the value of what is before it.
            assert "seconds" in rule["expr"].partition(" and ")[0], rule["alert"]


@only_sqlite
def test_an_alert_is_about_an_installation_of_which_no_session_ever_succeeded(installation: Installation) -> None:
    (rule,) = [one for one in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"] if " unless " in one["expr"]]
    there, ever = rule["expr"].split(" unless ")

    def names() -> set[str]:
        return {name for name, _ in of(installation.settings)}

    with pytest.raises(KeyError), open_session(installation.tracker, installation.settings):
        raise KeyError
    assert names() & {there, ever} == {there}
    # What is counted is there before it happens.
    assert figure(of(installation.settings), "sessions_total", outcome="finished", failed_phase="") == 0
    installation.run_session()
    assert names() & {there, ever} == {there, ever}
