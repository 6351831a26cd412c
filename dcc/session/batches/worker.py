"""A worker's work on a batch: fetch each archive over one connection, prepare it, leave it in the object store."""

from __future__ import annotations

import faulthandler
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine

from dcc.databases.transactions import run_reading
from dcc.errors import ChecksumMismatchError, FileMissingError, NotFoundError, SourceError
from dcc.outcomes import Problem
from dcc.qc.apply.entity_rows import columns_for
from dcc.qc.judging.documents import signature_of
from dcc.qc.reference import snapshots
from dcc.runtime.clock import utc_today
from dcc.runtime.log_context import logging_about
from dcc.session.batches.batch_plans import BATCH_TYPE, BatchArchive, PlannedBatch
from dcc.session.batches.bundles import WorkerFindings, write_bundle
from dcc.session.batches.exchange import WorkerBatch, taken_batch
from dcc.session.connection_slots import ConnectionSlots
from dcc.session.fetching.archive_transfer import Transfer, origin_of, receive
from dcc.session.fetching.transfer_speed import SpeedLimits
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive, Setup
from dcc.session.prepare.documents import ArchiveToPrepare, PreparationBasis, prepare_archive, valid_documents
from dcc.settings import Settings
from dcc.sources.base import Connection as SourceConnection
from dcc.sources.base import SourceAddress
from dcc.sources.connect import connect
from dcc.store.staging import Staging, prepared_place
from dcc.tracker.register.centres import centre_ids, imits_names
from dcc.tracker.register.source_addresses import load_addresses

log = logging.getLogger(__name__)


def prepare_session_batch(settings: Settings, tracker: Engine, qc: Engine, folder: str, name: str) -> int:
    """Fetch and prepare the archives of a batch by its name in a session's `folder`; returns the number of results.

    A failed archive, and those after a source that cannot be reached, are left to the session. An archive that takes
    longer than DCC_WORKER_PATIENCE ends this process, so that a worker that hangs is soon free again. If the session
    removes the batch, nothing more is stored. Raises NotFoundError for a missing batch, StoreUnreachableError and the
    `unreachable` error of either database.
    """
    with taken_batch(settings, folder, name) as given:
        batch = BATCH_TYPE.validate_json(given.plan.read_bytes())
        address, centres = run_reading(tracker, lambda connection: _source_and_centres(connection, batch))
        names = run_reading(tracker, imits_names)
        basis = run_reading(qc, lambda connection: _basis(connection, names))
        setup = Setup.from_settings(settings, centres)
        connection_slots = ConnectionSlots(tracker, settings)
        worker = _Worker(settings.for_protocol(address.protocol), given.scratch, setup, basis, connection_slots)
        done = 0
        try:
            with connection_slots.keep_alive():
                for archive, bundle in worker.bundles(address, batch, given):
                    if not given.leave(f"{archive.key}", bundle):
                        break
                    done += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        return done


def _source_and_centres(connection: Connection, batch: PlannedBatch) -> tuple[SourceAddress, frozenset[str]]:
    addresses = load_addresses(connection, ids=[batch.source_id], only_crawlable=False)
    if not addresses:
        raise NotFoundError(f"The file source {batch.source_id} no longer exists. The session leaves it out.")
    return addresses[0], frozenset(centre_ids(connection))


def _basis(connection: Connection, names: Mapping[str, str]) -> PreparationBasis:
    """The basis of preparing; a session with another basis prepares the documents again."""
    reference = snapshots.load_active(connection, names)
    signature = signature_of(reference.snapshot_ids.values(), names)
    return PreparationBasis(reference.data, signature, utc_today(), columns_for(connection))


class _Worker:
    """Fetches and prepares archives in a folder of its own, one at a time."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        setup: Setup,
        basis: PreparationBasis,
        connection_slots: ConnectionSlots,
    ) -> None:
        self._settings, self._basis, self._connection_slots = settings, basis, connection_slots
        self._checker, self._fingerprint = ArchiveChecker(setup), setup.fingerprint
        self._staging = Staging(folder / "staging", min_free_bytes=settings.min_free_bytes)
        self._bundle = folder / "bundle.tar"

    def bundles(
        self, address: SourceAddress, batch: PlannedBatch, given: WorkerBatch
    ) -> Iterator[tuple[BatchArchive, Path]]:
        """The fetched archives, each with the results to store, which the next step deletes.

        A slot for the connection is waited for as long as the batch is.
        """
        with (
            self._connection_slots.slot(address, lambda: given.is_waited_for),
            closing(connect(address, self._settings)) as connection,
        ):
            for archive in batch.archives:
                # This process ends if it hangs, and prints where. Celery's replacement of sys.stderr is no file.
                faulthandler.dump_traceback_later(self._settings.worker_patience, exit=True, file=sys.__stderr__ or 2)
                with logging_about(source=address.id, centre=address.centre, zip_action=archive.key):
                    try:
                        self._prepare(archive, connection)
                    except SourceError as error:
                        log.warning("%s is left to the session: %s", archive.key, error)
                        # After an interruption the connection may still be sending.
                        if not isinstance(error, ChecksumMismatchError | FileMissingError):
                            return
                        continue
                    yield archive, self._bundle
                    self._staging.archive(archive.key).unlink(missing_ok=True)

    def _prepare(self, archive: BatchArchive, connection: SourceConnection) -> None:
        key, published = archive.key, archive.published

        def note_published(md5: str) -> None:
            nonlocal published
            published = md5

        received = receive(
            connection,
            Transfer(0, key, archive.hosting, archive.published, archive.earlier, is_staged_here=True),
            self._staging,
            lambda _: None,
            speed_limits=SpeedLimits.from_settings(self._settings),
            max_unsized=self._settings.max_unsized_bytes,
            on_published=note_published,
        )
        path, contents, md5, problems = self._staging.archive(key), self._staging.contents(key), "", None
        if received.is_sent:
            checked = self._checker.check(path, contents, received.md5)
            md5 = checked.md5
            if isinstance(checked, CheckedArchive):
                problems = self._prepare_rows(archive, checked, contents)
        copy, validators = origin_of(archive.hosting), received.validators
        found = WorkerFindings(copy, published, md5, problems, validators, received.is_sent, self._fingerprint)
        write_bundle(self._bundle, path, contents, found)

    def _prepare_rows(
        self, archive: BatchArchive, checked: CheckedArchive, contents: Path
    ) -> dict[str, tuple[Problem, ...]]:
        valid = valid_documents(checked)
        for kind in {document.kind for document in valid}:
            documents = [document for document in valid if document.kind is kind]
            to_prepare = ArchiveToPrepare(archive.key, archive.centre, prepared_place(contents, kind), documents)
            for name, error in prepare_archive(self._basis, to_prepare).items():
                log.info("%s of %s is prepared by the session: %s", name, archive.key, error)
        return {one.name.file_name: problems for one, problems in checked.documents}
