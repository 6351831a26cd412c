"""What a worker does with a batch, and when it stops."""

import json
import logging
import os
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import Engine, select

from dcc.cli.demo import submissions
from dcc.documents.schema_set import OWN_SCHEMAS, SCHEMA_FILES
from dcc.errors import SessionTimeLimitError, SourceTimeoutError, StoreRefusedError, StoreUnreachableError
from dcc.naming import Action, DocumentKind
from dcc.operations.session_work import open_session
from dcc.outcomes import SubmissionKey
from dcc.reference.loading import SHIPPED
from dcc.runtime.clock import utc_now
from dcc.session.archives.archive_phases import process_zip_actions
from dcc.session.batches import batch_plans
from dcc.session.batches.batch_plans import BATCH_SECONDS, MAX_BYTES, BatchArchive, PlannedBatch, plan_round
from dcc.session.batches.bundles import ARCHIVE, WorkerFindings, open_bundle
from dcc.session.batches.exchange import Exchange, WorkerBatch
from dcc.session.batches.worker import prepare_session_batch
from dcc.session.batches.worker_results import SessionWorkerResults, remove_leftovers_of_workers
from dcc.session.connection_slots import ConnectionSlots
from dcc.session.data import prepared_archives
from dcc.session.prepare.archive_checks import Setup
from dcc.session.session_request import SessionRequest
from dcc.session.source_crawls import crawl_file_sources
from dcc.settings import Settings
from dcc.sources.crawl_policy import Pause
from dcc.store.objects import ObjectStore
from dcc.tracker.hostings.download_plan import PlannedSubmission
from dcc.tracker.hostings.hosting import CopyFault, Hosting, KnownBadCopy
from dcc.tracker.models import BadCopy, ConnectionSlot, ZipDownload
from dcc.tracker.register.file_sources import change_source
from dcc.tracker.register.source_addresses import load_addresses
from dcc.tracker.register.source_schedules import set_pause
from tests.support.asking import count_in, in_reading, in_writing, rows_in
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, specimens
from tests.support.databases import only_sqlite
from tests.support.installations import MODIFIED, Folder, Installation, md5
from tests.support.raising import raising
from tests.support.served_sources import Web
from tests.support.waiting import wait_until
from tests.support.workers_here import WorkersHere

ZIP = "add/H.2013-10-31.1.impc.zip"


def batch_of(folder: Folder, names: list[str]) -> PlannedBatch:
    """A batch of archives that lie in a folder."""
    archives = []
    for number, name in enumerate(names, 1):
        folder.put(f"add/{name}")
        status = (folder.path / "add" / name).stat()
        hosting = Hosting(number, folder.source_id, status.st_size, int(status.st_mtime), has_md5=False)
        archives.append(BatchArchive(SubmissionKey(Action.ADD, name), "H", hosting, None))
    return PlannedBatch(folder.source_id, tuple(archives))


@only_sqlite
def test_a_worker_stops_when_its_session_no_longer_waits_for_it(
    first: DataInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that hung must neither go on using the source beside its session nor leave what nobody takes."""
    store = ObjectStore(first.settings)
    results = SessionWorkerResults(store, 1, tmp_path / "scratch", "")
    results.put_batch("batch_1", batch_of(first.folder, [f"H.2013-10-3{number}.1.impc.zip" for number in (0, 1)]))
    leave = WorkerBatch.leave

    def leave_and_end(self: WorkerBatch, name: str, path: Path) -> bool:
        is_wanted = leave(self, name, path)
        results.withdraw_plans()
        return is_wanted

    monkeypatch.setattr(WorkerBatch, "leave", leave_and_end)
    done = prepare_session_batch(first.settings, first.tracker, first.qc, results.folder, "batch_1")
    assert done == 1
    assert len(store.keys()) == 1
    assert results.look() == 1


@only_sqlite
def test_what_cannot_be_read_or_removed_of_workers_is_named(
    first: DataInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = ObjectStore(first.settings)
    results = SessionWorkerResults(store, 1, tmp_path / "scratch", "")
    (archive,) = batch_of(first.folder, ["H.2013-10-31.1.impc.zip"]).archives
    (tmp_path / "damaged").write_bytes(b"damaged")
    store.put(f"{results.folder}/results/{archive.key}", tmp_path / "damaged")
    assert results.look() == 1
    assert results.connection(archive.key, archive.hosting) is None
    assert f"What a worker left of {archive.key} cannot be read, and is made again" in caplog.text
    monkeypatch.setattr(ObjectStore, "delete", raising(StoreRefusedError("no")))
    results.remove()
    assert "What workers left for the session stays in the store until the next one: no" in caplog.text


@only_sqlite
def test_workers_of_a_machine_remove_the_leftovers_of_killed_ones_together(
    first: DataInstallation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker removes what this one has just listed."""
    results = SessionWorkerResults(ObjectStore(first.settings), 1, tmp_path / "scratch", "")
    results.put_batch("batch_1", batch_of(first.folder, ["H.2013-10-30.1.impc.zip"]))
    leftovers = [first.settings.staging_directory / ".batches" / f".scratch-{number}" for number in (1, 2)]
    for left in leftovers:
        left.mkdir(parents=True)
        os.utime(left, (0, 0))
    remove = shutil.rmtree

    def remove_all(path: Path, **options: Any) -> None:
        for each in leftovers if Path(path) in leftovers else [path]:
            remove(each, **options)

    monkeypatch.setattr(shutil, "rmtree", remove_all)
    assert prepare_session_batch(first.settings, first.tracker, first.qc, results.folder, "batch_1") == 1
    assert not list(leftovers[0].parent.iterdir())


@pytest.fixture
def first(tracker: Engine, qc_database: Engine, qc_settings: Settings, tmp_path: Path) -> DataInstallation:
    """An installation that had no session yet, so that no reference data are in its QC database; it has an archive."""
    quick = qc_settings.model_copy(update={"retry_delay": 0.05, "min_free_bytes": 0, "database_retry": 0.0})
    base = Installation(tracker, quick, tmp_path)
    base.add_centre("H", "J")
    data = DataInstallation(base, qc_database, base.add_folder())
    data.put(ZIP, specimens(), experiments())
    return data


def validate(
    data: DataInstallation, of_worker: DataInstallation | None = None, **events: Callable[[Exchange], object]
) -> list[str]:
    """Have a session take archives from workers, up to their validation; the batches that these were given."""
    there = of_worker or data
    workers = WorkersHere(partial(prepare_session_batch, there.settings, there.tracker, there.qc), **events)
    with open_session(data.tracker, data.settings) as session:
        deque(crawl_file_sources(session, None), maxlen=0)
        deque(process_zip_actions(session, workers=workers), maxlen=0)
    return list(workers.given)


def test_a_first_session_applies_what_workers_prepared_and_prepares_nothing_anew(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(prepared_archives, "prepare_archive", None)
    beside = {"file": ZIP.rpartition("/")[2], "size": (first.folder.path / ZIP).stat().st_size}
    wrong = ZIP.replace(".1.impc", ".2.impc")
    first.put(wrong, specimens("2013-10-31.2"))
    for key in (ZIP, wrong):
        documents = [{"file": name.replace(".1.", f".{key.split('.')[2]}.")} for name in (SPECIMENS, EXPERIMENTS)]
        (first.folder.path / f"{key}.manifest.json").write_text(json.dumps([beside, *documents]), "utf-8")
    given_out = validate(first)
    with caplog.at_level(logging.INFO):
        first.take_up()
    assert given_out == ["batch_1"]
    assert first.states() == {ZIP: "qc pending", wrong: "unzip failed"}
    assert "prepared again" not in caplog.text
    # The archive store has what the workers fetched.
    kept = {path.read_bytes() for path in (first.settings.home / "archive").glob("??/*")}
    assert kept == {(first.folder.path / key).read_bytes() for key in (ZIP, wrong)}


def test_what_was_prepared_by_other_reference_data_is_prepared_anew(
    first: DataInstallation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    validate(first)
    fewer = tmp_path / "projects.csv"
    fewer.write_text("".join((SHIPPED / "projects.csv").read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with caplog.at_level(logging.INFO):
        first.with_settings(reference_projects=str(fewer)).take_up()
    assert "1 archives that were prepared already are prepared again" in caplog.text
    assert first.states() == {ZIP: "qc pending"}


@only_sqlite
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_worker_has_a_web_server_send_only_what_the_session_has_not(
    first: DataInstallation, web: Web, *, is_changed: bool
) -> None:
    bad, other = (submissions.archive({SPECIMENS: content}) for content in (b"<a/>", b"<b/>"))
    web.server.etag = lambda content: f'"{md5(content)[:8]}"'
    key, folder = ZIP.replace(".1.impc", ".3.impc"), web.register(first.base)
    folder.put(key, bad)
    validate(first)
    folder.put(key, other if is_changed else bad, MODIFIED + 1)
    validate(first)
    asked = [headers.get("If-Modified-Since") for headers in web.archive_requests()]
    assert asked == [None, "Tue, 13 May 2014 16:53:20 GMT"]
    query = select(ZipDownload.outcome, ZipDownload.etag).where(ZipDownload.content_size_bytes > 0)
    ended = [one.outcome for one in rows_in(first.tracker, query.order_by(ZipDownload.id)) if one.etag]
    assert ended == ["finished", "finished" if is_changed else "not_modified"]
    assert first.states()[key] == "xsd failed"


@only_sqlite
def test_an_archive_damaged_on_its_way_to_a_worker_is_fetched_from_its_source(
    first: DataInstallation, web: Web
) -> None:
    """One damaged transfer does not make the centre guilty: the second one is by the session."""
    key, folder = ZIP.replace(".1.impc", ".3.impc"), web.register(first.base)
    good = folder.put(key, specimens("2013-10-31.3"))
    validate(first, before=lambda _: folder.put(key, b"#" * len(good)), after=lambda _: folder.put(key, good))
    assert first.states() == {ZIP: "xsd done", key: "xsd done"}
    assert count_in(first.tracker, BadCopy) == 0


@only_sqlite
@pytest.mark.parametrize("how", ["paused", "closed"])
def test_workers_begin_no_round_at_a_source_that_was_paused_or_closed_its_window_meanwhile(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    first.put(ZIP.replace("31.1", "31.2"), specimens("2013-10-31.2"))
    monkeypatch.setattr(batch_plans, "MAX_ARCHIVES", 1)
    number, closed = first.folder.source_id, f"{(utc_now() + timedelta(hours=2)):%H:00}-{utc_now():%H:00}"

    def leave_alone(_: Exchange) -> None:
        if how == "paused":
            in_writing(first.tracker, set_pause, number, Pause("The server moves", "ann", utc_now()))
        else:
            in_writing(first.tracker, change_source, number, windows=closed)

    assert validate(first.with_settings(downloads_per_source=1), after=leave_alone) == ["batch_1"]


@only_sqlite
@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_a_worker_waits_for_a_slot_while_its_session_waits_for_the_batch(
    first: DataInstallation, web: Web, tmp_path: Path, *, is_withdrawn: bool
) -> None:
    """A source or server may have fewer connections than workers have batches, each of half a minute."""
    limits = {"downloads_per_source": 1, "connect_timeout": 0.1, "login_timeout": 0.1}
    data = first.with_settings(**limits, database_retry=30.0)
    slots, folder = ConnectionSlots(data.tracker, data.settings), web.register(data.base)
    results = SessionWorkerResults(ObjectStore(data.settings), 1, tmp_path / "scratch", "")
    results.put_batch("batch_1", batch_of(folder, ["H.2013-10-30.1.impc.zip"]))
    (address,) = in_reading(data.tracker, load_addresses, ids=[folder.source_id])
    with ThreadPoolExecutor(1) as pool:
        with slots.slot(address, lambda: False):
            work = data.settings, data.tracker, data.qc, results.folder, "batch_1"
            prepared = pool.submit(prepare_session_batch, *work)
            wait_until(lambda: count_in(data.tracker, ConnectionSlot) == 2)
            # Longer than a server may take to answer.
            time.sleep(0.5)
            if is_withdrawn:
                results.withdraw_plans()
                with pytest.raises(SourceTimeoutError, match=r"\): Other sessions and workers use all"):
                    prepared.result(60)
        if not is_withdrawn:
            assert prepared.result(60) == 1
    assert results.look() == (not is_withdrawn)


@only_sqlite
def test_a_session_that_ends_while_workers_prepare_leaves_them_nothing_to_do(first: DataInstallation) -> None:
    def end(_: Exchange) -> None:
        raise SessionTimeLimitError("Its time is up.")

    with pytest.raises(SessionTimeLimitError):
        validate(first, before=end)
    assert ObjectStore(first.settings).keys() == []
    assert not list(first.settings.staging_directory.glob(".workers-*"))


@only_sqlite
@pytest.mark.parametrize("stays_away", [False, True])
def test_a_store_that_is_away_as_plans_are_withdrawn_costs_no_results_and_one_wait(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, stays_away: bool
) -> None:
    first.put(ZIP.replace(".1.impc", ".2.impc"), specimens("2013-10-31.2"))
    away = raising(StoreUnreachableError("The store is away."))

    def go_away(_: Exchange) -> None:
        monkeypatch.setattr(ObjectStore, "delete", away)
        if stays_away:
            monkeypatch.setattr(ObjectStore, "get", away)
        else:
            shutil.rmtree(first.folder.path)

    validate(first.with_settings(downloads_per_source=1), after=go_away)
    assert set(first.states().values()) == {"xsd done"}
    assert caplog.text.count("cannot be read, and is made again") == stays_away


@only_sqlite
def test_what_another_group_has_just_begun_is_not_removed_as_left_over(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = first.with_settings(groups="europe=H;america=J")
    list_keys, given_out = ObjectStore.keys, list[str]()

    with ExitStack() as sessions:

        def begin_another(self: ObjectStore, prefix: str = "") -> list[str]:
            if not given_out:
                given_out.append("batch_1")
                other = sessions.enter_context(
                    open_session(data.tracker, data.settings, SessionRequest(group="america"))
                )
                scratch = data.settings.staging_directory / f".workers-{other.id}"
                SessionWorkerResults(self, other.id, scratch, "").put_batch("batch_1", PlannedBatch(1, ()))
            return list_keys(self, prefix)

        monkeypatch.setattr(ObjectStore, "keys", begin_another)
        session = sessions.enter_context(open_session(data.tracker, data.settings, SessionRequest(group="europe")))
        remove_leftovers_of_workers(session)
        assert len(list_keys(ObjectStore(data.settings))) == 1


@only_sqlite
def test_what_a_worker_fetched_and_is_lost_on_the_session_s_disk_is_fetched_from_its_source(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And does not count as missing there."""

    def open_and_lose(bundle: Path) -> WorkerFindings:
        found = open_bundle(bundle)
        bundle.with_name(ARCHIVE).unlink()
        return found

    monkeypatch.setattr("dcc.session.batches.worker_results.open_bundle", open_and_lose)
    validate(first)
    assert first.states() == {ZIP: "xsd done"}


@only_sqlite
def test_a_session_holds_what_workers_fetched_only_once(
    first: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it needed twice the room in staging."""
    left: list[Path] = []
    remove = SessionWorkerResults.remove

    def look_and_remove(self: SessionWorkerResults) -> None:
        left.extend(self.scratch.rglob(ARCHIVE))
        remove(self)

    monkeypatch.setattr(SessionWorkerResults, "remove", look_and_remove)
    validate(first)
    assert first.states() == {ZIP: "xsd done"}
    assert left == []


@only_sqlite
def test_without_a_qc_database_workers_are_given_nothing_and_the_session_validates_by_itself(
    first: DataInstallation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    empty = first.with_settings(qc_url=SecretStr(f"sqlite:///{tmp_path / 'empty.db'}"))
    assert validate(empty) == []
    assert "Workers are given nothing" in caplog.text
    assert first.states() == {ZIP: "xsd done"}


@only_sqlite
@pytest.mark.parametrize("has_same", [False, True])
def test_findings_by_other_schemas_than_the_session_s_do_not_count(
    first: DataInstallation, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, has_same: bool
) -> None:
    """A worker whose machine lacks the directory of DCC_XSD_DIR checks by the platform's own schemas."""
    first.put(ZIP.replace(".1.impc", ".2.impc"), specimens("2013-10-31.2"))
    xsd = tmp_path / "xsd"
    shutil.copytree(OWN_SCHEMAS, xsd)
    if not has_same:
        schema = xsd / SCHEMA_FILES[DocumentKind.SPECIMEN]
        schema.write_text(schema.read_text("utf-8").replace('name="litterId"', 'name="litter"'), "utf-8")
    validate(first.with_settings(xsd_dir=xsd), first)
    assert set(first.states().values()) == {"xsd done" if has_same else "xsd failed"}
    assert caplog.text.count("Workers check documents by other schemas") == (not has_same)


def test_findings_within_other_limits_than_the_session_s_do_not_count(settings: Settings) -> None:
    others: list[dict[str, object]] = [{}, {"max_document_errors": 7}, {"max_tree_bytes": 70_000}]
    fingerprints = {Setup.from_settings(settings.model_copy(update=other), ()).fingerprint for other in others}
    assert len(fingerprints) == 3


SIZES = st.none() | st.integers(0, 20_000) | st.integers(0, 2 * MAX_BYTES)
RATES = st.dictionaries(st.integers(1, 3), st.floats(1_000, 1e9))


def planned(number: int, source_id: int, size: int | None, *, bad: bool = False) -> PlannedSubmission:
    """An archive that waits, at one file source."""
    known = KnownBadCopy("0" * 32, CopyFault.DAMAGED) if bad else None
    hosting = Hosting(number, source_id, size, 1_400_000_000, has_md5=False, bad=known)
    return PlannedSubmission(
        number, number, SubmissionKey(Action.ADD, f"H.2014-01-01.{number}.impc.zip"), "H", (hosting,)
    )


def archives(most: int) -> st.SearchStrategy[list[PlannedSubmission]]:
    """Archives of some file sources, a few of which are known to be bad."""
    one = st.tuples(st.integers(1, 3), SIZES, st.integers(0, 9))
    return st.lists(one, max_size=most).map(
        lambda told: [planned(n, source, size, bad=bad == 0) for n, (source, size, bad) in enumerate(told, 1)]
    )


def rounds(waiting: list[PlannedSubmission], rates: dict[int, float], connections: int) -> list[list[PlannedBatch]]:
    """The batches of all rounds, as a session gives them out."""
    found = []
    while batches := plan_round(waiting, rates, connections):
        found.append(batches)
        given_out = {archive.key for batch in batches for archive in batch.archives}
        waiting = [one for one in waiting if one.key not in given_out]
    return found


@given(archives(60), RATES, st.integers(1, 4))
def test_every_archive_is_in_one_batch_in_its_order_and_no_batch_is_more_than_one_worker_should_have(
    waiting: list[PlannedSubmission], rates: dict[int, float], connections: int
) -> None:
    given_out: dict[int, list[Hosting]] = {source: [] for source in (1, 2, 3)}
    for batches in rounds(waiting, rates, connections):
        assert max(Counter(batch.source_id for batch in batches).values()) <= connections
        for batch in batches:
            assert batch.archives
            given_out[batch.source_id] += [archive.hosting for archive in batch.archives]
            # One that is too large by itself has a batch of its own.
            if len(batch.archives) > 1:
                rate = rates.get(batch.source_id, batch_plans._UNKNOWN_RATE)
                assert sum(archive.expected_seconds(rate) for archive in batch.archives) <= BATCH_SECONDS + 1e-6
                assert sum(archive.hosting.size_bytes or 0 for archive in batch.archives) <= MAX_BYTES
    for source, hostings in given_out.items():
        assert hostings == [
            one.hostings[0] for one in waiting if one.hostings[0].bad is None and one.hostings[0].source_id == source
        ]


def test_batches_of_a_known_source_are_about_half_a_minute() -> None:
    """A batch is filled as long as it fits: only the last of a source may be shorter than that by an archive."""
    waiting = [planned(number, 1, 500_000) for number in range(1, 201)]
    for rate in (100_000.0, 1_000_000.0, 50_000_000.0):
        batches = [batch for some in rounds(waiting, {1: rate}, 2) for batch in some]
        for batch in batches[:-1]:
            each = batch.archives[0].expected_seconds(rate)
            assert BATCH_SECONDS - each <= each * len(batch.archives) <= BATCH_SECONDS
