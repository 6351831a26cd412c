"""Results of workers in the object store, which the session uses in place of each archive's source."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dcc.databases.schema import current
from dcc.errors import (
    FileMissingError,
    QcDatabaseOutdatedError,
    QcDatabaseUnreachableError,
    StoreRefusedError,
    StoreUnreachableError,
    TransferFailedError,
)
from dcc.naming import MANIFEST_ENDINGS, Action
from dcc.outcomes import SubmissionKey
from dcc.phases import Phase
from dcc.qc.database import open_qc_database
from dcc.qc.reference.refresh import ensure_reference
from dcc.runtime.disk_space import disk_errors
from dcc.runtime.log_context import progress_log
from dcc.session.batches.batch_plans import BATCH_TYPE, BatchArchive, PlannedBatch, plan_round
from dcc.session.batches.bundles import ARCHIVE, WorkerFindings, open_bundle
from dcc.session.batches.exchange import LEFT_SINCE, SESSION_SCRATCH, SESSIONS, Exchange, Workers, remove_old_replays
from dcc.session.fetching.archive_transfer import origin_of
from dcc.session.leases import active_sessions
from dcc.session.prepare.archive_checks import EarlierResults, Setup
from dcc.session.sessions import Session
from dcc.sources.base import ActionListing, Block, BlockwiseConnection, NotModified, Validators
from dcc.store.objects import ObjectStore
from dcc.store.staging import Staging
from dcc.tracker.hostings.copies import earlier_copies
from dcc.tracker.hostings.download_plan import PlannedSubmission
from dcc.tracker.hostings.hosting import EarlierCopy, Hosting
from dcc.tracker.hostings.source_statistics import source_rates
from dcc.tracker.register.source_schedules import usable_sources

log = logging.getLogger(__name__)
session_log = progress_log(__name__)

_BLOCK = 256 * 1024


class WorkerConnection(BlockwiseConnection):
    """Replaces the connection to a source if a worker has asked for the archive; see `Connection`."""

    def __init__(self, folder: Path, found: WorkerFindings) -> None:
        self._label, self._folder, self._found = "a worker", folder, found
        self._is_expected = False

    def expect(self, known: Validators) -> None:  # noqa: ARG002 - the worker has asked
        """Let `fetch` raise NotModified if the worker was not sent the archive."""
        self._is_expected = True

    def validators(self) -> Validators | None:
        """The validators of the archive that the worker fetched."""
        return self._found.validators

    def list_action(self, action: Action) -> ActionListing:
        """Nothing is listed there."""
        raise NotImplementedError

    def read_md5(self, action: Action, name: str) -> str | None:  # noqa: ARG002 - it is of one archive
        """The checksum published beside the archive; see `Connection.read_md5`."""
        return self._found.published

    def close(self) -> None:
        """Nothing to close."""

    def _blocks(self, action: Action, name: str, offset: int, size: int | None) -> Generator[Block, None, None]:  # noqa: ARG002
        manifest = next((each for each in MANIFEST_ENDINGS if name.endswith(each)), "")
        if not manifest and self._is_expected and not self._found.is_sent:
            raise NotModified
        path = self._folder / (ARCHIVE + manifest)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                # The session keeps what it is passed. A failed transfer is followed by one from the source.
                path.unlink()
                while block := file.read(_BLOCK):
                    yield block
        except FileNotFoundError as error:
            if manifest:
                raise FileMissingError(f"{name} is not there.", source=self._label) from error
            raise TransferFailedError(
                f"{name} is lost on the disk of the session, which fetches it from its file source.", source=self._label
            ) from error


class SessionWorkerResults(Exchange):
    """The results of workers for a session. Threads may share it, each archive being in the hands of one at a time.

    `setup` is the fingerprint of what the session checks documents by: findings by something else do not count.
    """

    OF, LEFT_UNTIL = "the session", "until the next one"

    def __init__(self, store: ObjectStore, session_id: int, scratch: Path, setup: str) -> None:
        super().__init__(store, f"{SESSIONS}/{session_id}", scratch)
        self._setup, self._has_other_setups = setup, False
        self._keys: dict[SubmissionKey, str] = {}
        self._taken: dict[SubmissionKey, tuple[Path, WorkerFindings] | None] = {}
        self._used: set[SubmissionKey] = set()

    def put_batch(self, name: str, batch: PlannedBatch) -> None:
        """Store a batch for its worker. Raises DiskFullError."""
        with disk_errors(name, self.scratch.parent):
            self.scratch.mkdir(parents=True, exist_ok=True)
            path = self.scratch / "batch.json"
            path.write_bytes(BATCH_TYPE.dump_json(batch))
        self.put_plan(name, path)

    def look(self) -> int:
        """Look for results; returns the number of archives."""
        for name, key in self.results().items():
            action, _, file_name = name.partition("/")
            self._keys[SubmissionKey(Action(action), file_name)] = key
        return len(self._keys)

    def connection(self, key: SubmissionKey, hosting: Hosting) -> WorkerConnection | None:
        """The replacement of a connection, if a worker fetched this copy of an archive.

        Each archive has one: what its transfer to the worker damaged is fetched from the source then.
        """
        taken = self._take(key)
        if taken is None or key in self._used or taken[1].copy != origin_of(hosting):
            return None
        self._used.add(key)
        return WorkerConnection(*taken)

    def ready(self, key: SubmissionKey) -> EarlierResults | None:
        """A worker's findings in an archive, and the place of its prepared files; None if they do not count."""
        taken = self._taken.get(key)
        if taken is None or taken[1].problems is None:
            return None
        if taken[1].setup != self._setup:
            if not self._has_other_setups:
                log.warning(
                    "Workers check documents by other schemas, limits (DCC_XSD_DIR, DCC_MAX_DOCUMENT_ERRORS), packages "
                    "or another version. This machine checks them again. Give workers what it has."
                )
            self._has_other_setups = True
            return None
        return EarlierResults(taken[1].md5, taken[1].problems, taken[0])

    def _take(self, key: SubmissionKey) -> tuple[Path, WorkerFindings] | None:
        """Get an archive's results, once; without them the session does the work itself."""
        if key in self._keys and key not in self._taken:
            folder = self.scratch / key.action / key.file_name
            found = self.opened(self._keys[key], folder / "bundle", open_bundle, what=key)
            self._taken[key] = None if found is None else (folder, found)
        return self._taken.get(key)


@contextmanager
def prepared_by_workers(
    workers: Workers | None, session: Session, planned: Sequence[PlannedSubmission]
) -> Iterator[SessionWorkerResults | None]:
    """The results of workers, if there are any, for the planned archives; they are removed after the block.

    The session does everything that no worker did, and all of it if the object store is away or refuses, which it
    notes as trouble. So it does if the QC database is away.
    """
    if workers is None or not planned:
        yield None
        return
    settings = session.settings
    scratch = settings.staging_directory / f"{SESSION_SCRATCH}{session.id}"
    setup = Setup.from_settings(settings, ()).fingerprint
    results = SessionWorkerResults(ObjectStore(settings), session.id, scratch, setup)
    try:
        try:
            # Files prepared by other reference data would be prepared again. The session checks them before it applies
            # documents, and reports what cannot be read then.
            with current(open_qc_database(settings), patience_seconds=settings.database_retry) as qc:
                ensure_reference(qc, settings)
            _have_prepared_in_rounds(workers, results, session, planned)
        except (StoreUnreachableError, StoreRefusedError) as error:
            session.record_task_error(Phase.DOWNLOAD, error)
        except (QcDatabaseUnreachableError, QcDatabaseOutdatedError) as error:
            log.warning("Workers are given nothing, as what they prepare by is in the QC database: %s", error)
        yield results
    finally:
        results.remove()


def remove_leftovers_of_workers(session: Session) -> None:
    """Remove results for sessions that are no longer active, and incomplete uploads of killed processes.

    If the store is away or refuses, they stay until the next session.
    """
    settings = session.settings

    def active() -> set[int]:
        """The active sessions, read after what is stored was listed: a group may begin one meanwhile."""
        return {lease.session for lease in session.read(lambda connection: active_sessions(connection, settings))}

    places = {
        int(place.name.removeprefix(SESSION_SCRATCH)): place
        for place in settings.staging_directory.glob(f"{SESSION_SCRATCH}*")
    }
    for ended in places.keys() - active():
        shutil.rmtree(places[ended], ignore_errors=True)
    # Users of the store wait for it; this can wait.
    store = ObjectStore(settings.model_copy(update={"store_retry": 0.0}))
    try:
        keys = store.keys(f"{SESSIONS}/")
        going_on = active()
        for key in keys:
            if int(key.split("/")[1]) not in going_on:
                store.delete(key)
        remove_old_replays(store)
        store.remove_parts(older_than=LEFT_SINCE)
    except (StoreUnreachableError, StoreRefusedError) as error:
        log.info("What was left in the store stays there until the next session: %s", error)


def _with_held_copies(batch: PlannedBatch, staging: Staging, earlier: Mapping[int, EarlierCopy]) -> PlannedBatch:
    """A batch with the copies that staging has of its archives, which are not sent to workers again."""

    def held(archive: BatchArchive) -> EarlierCopy | None:
        key, copy = archive.key, earlier.get(archive.hosting.id)
        if copy is None or staging.resumable(key, origin_of(archive.hosting)):
            return None
        return copy if staging.holds(key, copy.size_bytes, copy.md5) else None

    return replace(batch, archives=tuple(replace(one, earlier=held(one)) for one in batch.archives))


def _have_prepared_in_rounds(
    workers: Workers, results: SessionWorkerResults, session: Session, planned: Sequence[PlannedSubmission]
) -> None:
    """Have workers fetch and prepare the planned archives, in rounds, as long as a round has results.

    In a round each source has at most as many connections as DCC_DOWNLOADS_PER_SOURCE. Sources that were paused
    meanwhile, or whose windows closed, take part in no further one.
    """
    rates = session.read(source_rates)
    hostings = [submission.hostings[0].id for submission in planned if submission.hostings]
    earlier = session.read(lambda connection: earlier_copies(connection, hostings))
    staging = Staging(session.settings.staging_directory)
    waiting = list(planned)
    number, before = 0, 0
    while batches := plan_round(_of_usable_sources(session, waiting), rates, session.settings.downloads_per_source):
        names = []
        for batch in batches:
            number += 1
            names.append(f"batch_{number}")
            results.put_batch(names[-1], _with_held_copies(batch, staging, earlier))
        prepared = results.have_prepared(workers, names, session.raise_if_over)
        session_log.info("Workers have prepared %d archives in %d batches", prepared, number)
        if prepared == before:
            return
        before = prepared
        tried = {archive.key for batch in batches for archive in batch.archives}
        waiting = [submission for submission in waiting if submission.key not in tried]


def _of_usable_sources(session: Session, planned: Sequence[PlannedSubmission]) -> list[PlannedSubmission]:
    """Those of some archives whose preferred sources may be used now."""
    named, limit = frozenset(session.request.source_ids or ()), session.settings.source_failure_limit
    usable = session.read(lambda connection: usable_sources(connection, limit, named=named))
    return [one for one in planned if one.hostings and one.hostings[0].source_id in usable]
