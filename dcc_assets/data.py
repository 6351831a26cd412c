"""The steps that take valid documents on: uploaded, judged, put into contexts and overviews, handed to quality control.

One step for all of it, since every phase goes over all documents before the next begins. It has the concurrency pool of
the QC database to itself.
"""

from collections.abc import Collection, Iterator, Sequence

from dagster import (
    AssetCheckKey,
    AssetExecutionContext,
    BackfillPolicy,
    MaterializeResult,
    OpExecutionContext,
    multi_asset,
)

from dcc.errors import NotFoundError
from dcc.outcomes import ZipKey
from dcc_assets.data_keys import CENTRE_CHECK_SPECS, CONTEXT_SPECS, DATA_CHECK_SPECS, DATA_SPECS, QC_SPEC
from dcc_assets.metadata.causes import zips_explained
from dcc_assets.partitions import known_keys
from dcc_assets.runs import session_to_resume, step_of, tag_session
from dcc_assets.sync.changes import Mirror
from dcc_assets.sync.horizon import archive_older
from dcc_assets.sync.overdue import tell_overdue
from dcc_assets.sync.recall import zips_recalled
from dcc_dagster.event_recorder import EventRecorder
from dcc_dagster.instance import QC_DATABASE_POOL
from dcc_resources.qc_database import QcDatabaseResource
from dcc_resources.session import SessionResource


@multi_asset(
    name="load_chosen_data",
    specs=DATA_SPECS,
    check_specs=DATA_CHECK_SPECS,
    can_subset=True,
    backfill_policy=BackfillPolicy.single_run(),
    pool=QC_DATABASE_POOL,
    description="Take up the documents of the zip actions whose partitions are chosen, and judge them again, alone.",
)
def chosen_data(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[MaterializeResult[None]]:
    """Upload what waits and judge everything of the run's zip actions. Raises as `load_chosen`."""
    planned = context.selected_asset_check_keys
    load_chosen(context.op_execution_context, session, qc_database, context.partition_keys, planned, again=True)
    yield from ()


@multi_asset(
    name="settle_chosen_zip_actions",
    specs=[QC_SPEC],
    can_subset=True,
    backfill_policy=BackfillPolicy.single_run(),
    pool=QC_DATABASE_POOL,
    description="Have the zip actions whose partitions are chosen follow the states of their data contexts.",
)
def chosen_qc(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[MaterializeResult[None]]:
    """Take the run's zip actions on as far as they may go. Raises as `load_chosen`."""
    load_chosen(context.op_execution_context, session, qc_database, context.partition_keys)
    yield from ()


@multi_asset(
    name="build_chosen_contexts",
    specs=CONTEXT_SPECS,
    check_specs=CENTRE_CHECK_SPECS,
    can_subset=True,
    backfill_policy=BackfillPolicy.single_run(),
    pool=QC_DATABASE_POOL,
    description="Bring the data contexts and overviews of the centres whose partitions are chosen up to date.",
)
def chosen_contexts(
    context: AssetExecutionContext, session: SessionResource, qc_database: QcDatabaseResource
) -> Iterator[MaterializeResult[None]]:
    """Build what is due and show the run's centres. Raises as `load`, and NotFoundError for a centre without data."""
    planned = context.selected_asset_check_keys
    build_chosen(context.op_execution_context, session, qc_database, context.partition_keys, planned)
    yield from ()


def load(context: OpExecutionContext, session: SessionResource, qc_database: QcDatabaseResource) -> None:
    """Take up all documents that wait, in the session, and show what changed beside it.

    Faulty data fail checks, never the run. Raises what SessionResource.work and the work raise.
    """
    with session.work(session_to_resume(context)) as work:
        tag_session(context, work.session)
        qc = work.ready(qc_database)
        recall = zips_recalled(work.tracker, work.settings, qc)
        explain = zips_explained(work.tracker, work.settings)
        with EventRecorder(context.instance, step_of(context), recall=recall, explain=explain) as recorder:
            mirror = Mirror(context.instance, recorder, work.tracker, qc, work.settings)
            mirror.catch_up()
            try:
                for outcome in work.take_up_data(qc):
                    mirror.tell(outcome)
            finally:
                mirror.flush()
            mirror.catch_up()
            note_overdue = tell_overdue(context.instance, recorder, work.tracker, work.settings, mirror.centres_shown)
        mirror.note_shown()
        note_overdue()
        archive_older(context.instance, work.tracker, work.settings)


def load_chosen(
    context: OpExecutionContext,
    session: SessionResource,
    qc_database: QcDatabaseResource,
    partitions: Sequence[str],
    planned: Collection[AssetCheckKey] = (),
    *,
    again: bool = False,
) -> None:
    """Take up the documents of the zip actions of `partitions`, and judge them `again`; show all of these.

    `planned` are the checks that the run announced. Raises what SessionResource.work and the work raise, and
    NotFoundError for a zip action that is not known or has no valid document.
    """
    with session.work(session_to_resume(context)) as work:
        tag_session(context, work.session)
        keys = known_keys(work.tracker, work.settings, partitions)
        qc = work.ready(qc_database)
        recall = zips_recalled(work.tracker, work.settings, qc)
        explain = zips_explained(work.tracker, work.settings)
        with EventRecorder(context.instance, step_of(context), planned, recall, explain) as recorder:
            mirror = Mirror(context.instance, recorder, work.tracker, qc, work.settings)
            chosen = frozenset(keys)
            for outcome in work.take_up_data(qc, keys, again=again):
                # The chosen ones are shown whole when everything is done.
                if getattr(outcome, "key", None) not in chosen:
                    mirror.tell(outcome)
            mirror.flush()
            shown, _ = mirror.show_all(keys, ())
        _require_shown(chosen - shown)


def build_chosen(
    context: OpExecutionContext,
    session: SessionResource,
    qc_database: QcDatabaseResource,
    centres: Sequence[str],
    planned: Collection[AssetCheckKey] = (),
) -> None:
    """Bring contexts and overviews up to date, and show those of `centres`.

    `planned` are the checks that the run announced. Raises what SessionResource.work and the work raise, and
    NotFoundError for a centre that has none.
    """
    with session.work(session_to_resume(context)) as work:
        tag_session(context, work.session)
        qc = work.ready(qc_database)
        recall = zips_recalled(work.tracker, work.settings, qc)
        with EventRecorder(context.instance, step_of(context), planned, recall) as recorder:
            mirror = Mirror(context.instance, recorder, work.tracker, qc, work.settings)
            for outcome in work.take_up_data(qc, ()):
                mirror.tell(outcome)
            mirror.flush()
            _, shown = mirror.show_all((), centres)
            note_overdue = tell_overdue(context.instance, recorder, work.tracker, work.settings, mirror.centres_shown)
        note_overdue()
    missing = set(centres) - shown
    if missing:
        raise NotFoundError(
            f"The QC database has no data contexts of the centre {min(missing)}. They are built by the sessions that "
            "upload its data: see `dcc qc status`."
        )


def _require_shown(missing: Collection[ZipKey]) -> None:
    if missing:
        raise NotFoundError(
            f"{min(missing)} has no document that passed validation and was taken up. Materialise zip_downloads for it "
            "first, or see what became of it: dcc show."
        )
