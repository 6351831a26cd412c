"""The checks of `dcc doctor` for Dagster: its storage, daemon, runs and workers; and the deep check of everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from dagster import DagsterInstance, RunsFilter
from sqlalchemy import func, select

from dcc.databases.engines import database_label
from dcc.errors import ConfigurationError, DccError
from dcc.messages import count_of
from dcc.operations.consistency.check import check_consistency
from dcc.operations.consistency.inconsistency import CONSISTENCY_RULES
from dcc.operations.doctor.checks import (
    CheckFinding,
    DoctorCheck,
    Environment,
    explained,
    failed,
    not_checked,
    ok,
    warning,
)
from dcc.qc.database import QC_DATABASE
from dcc.runtime.clock import utc_now
from dcc.session.leases import active_sessions
from dcc.settings import variable_of
from dcc.settings.workers import ExecutorKind
from dcc.tracker.database import TRACKER
from dcc.tracker.models import CrawlingSession
from dcc_assets.runs import UNFINISHED
from dcc_assets.sync.consistency import check_events
from dcc_dagster.crawl_intervals import require_crawl_intervals
from dcc_dagster.executors import reach_workers, require_executor
from dcc_dagster.instance import open_instance
from dcc_dagster.instance_configuration import CONFIGURATION_FILE, moved_names

_DAEMON_SECONDS: Final = 300
"""A daemon reports twice a minute."""
_STUCK: Final = timedelta(minutes=30)
_SHOWN: Final = 20


def check_dagster(environment: Environment) -> Iterator[CheckFinding]:
    """The instance's storage can be used, its daemon is alive if one is in use, no run is stuck."""
    settings = environment.short_timeout_settings
    try:
        require_crawl_intervals(settings)
    except ConfigurationError as wrong:
        yield failed("times of crawls", *explained(wrong))
    if not settings.dagster_events:
        yield not_checked("Dagster instance", "Sessions do without Dagster (DCC_DAGSTER_EVENTS).")
        return
    home = settings.dagster_home
    if (home.exists() or home.is_symlink()) and not home.is_dir():
        yield failed("Dagster instance", f"{home} is no folder, nor a link to one.", "Move it elsewhere: dcc init")
        return
    configuration = home / CONFIGURATION_FILE
    if not configuration.exists():
        yield not_checked("Dagster instance", f"{home} has none yet.", "The first session makes it.")
        return
    if moved := moved_names(configuration):
        # Opening the instance would change the file, and this only looks.
        message = f"{configuration} names what this version has moved ({', '.join(moved)})."
        yield failed("Dagster instance", message, "Bring it up to date with the databases: dcc init")
        return
    try:
        instance = open_instance(settings)
    except DccError as error:
        yield failed("Dagster instance", *explained(error))
        return
    with instance:
        yield from _check_storage(instance, environment)
        yield from _check_daemon(instance, environment)
        yield _check_runs(instance, environment)


def _check_storage(instance: DagsterInstance, environment: Environment) -> Iterator[CheckFinding]:
    began = time.monotonic()
    outdated = []
    for name in ("run_storage", "event_log_storage", "schedule_storage"):
        revisions = getattr(getattr(instance, name), "alembic_version", lambda: None)()
        if revisions is not None and revisions[0] != revisions[1]:
            outdated.append(f"the {name.replace('_', ' ')} has {revisions[0]} instead of {revisions[1]}")
    instance.get_runs(limit=1)
    seconds = time.monotonic() - began
    if outdated:
        home = environment.settings.dagster_home
        yield failed(
            "Dagster instance",
            f"Its storage has the schema of another version: {'; '.join(outdated)}.",
            f"Stop dcc ui and dcc daemon, then: DAGSTER_HOME={home} dagster instance migrate",
        )
        return
    url = environment.settings.dagster_url
    where = "SQLite" if url is None else "the database of DCC_DAGSTER_URL"
    yield ok("Dagster instance", f"Its storage ({where}) answers within {1_000 * seconds:.0f} ms, of the right schema.")


def _check_daemon(instance: DagsterInstance, environment: Environment) -> Iterator[CheckFinding]:
    beats = instance.get_daemon_heartbeats()
    if not beats:
        yield not_checked("Dagster daemon", "None has run yet.", "dcc daemon, or dcc ui; or dcc crawl by a timer")
        return
    newest = datetime.fromtimestamp(max(beat.timestamp for beat in beats.values()), UTC).replace(tzinfo=None)
    errors = [(kind, beat.errors[0].message) for kind, beat in sorted(beats.items()) if beat.errors]
    if utc_now() - newest > timedelta(seconds=_DAEMON_SECONDS):
        with environment.reading(TRACKER) as connection:
            last = connection.scalar(select(func.max(CrawlingSession.start_time)))
        message = f"It gave its last sign of life at {newest:%Y-%m-%d %H:%M} UTC."
        if last is not None and last > newest:
            yield ok("Dagster daemon", f"{message} Sessions have run since without it.")
        else:
            yield warning(
                "Dagster daemon",
                f"{message} Nothing crawls since.",
                "Start it: systemctl start dcc-daemon, or dcc daemon",
            )
    elif errors:
        kind, error = errors[0]
        yield warning(
            "Dagster daemon",
            f"It runs, but {kind.lower()} met an error: {' '.join(error.split())[:300]}",
            "See its log: journalctl -u dcc-daemon",
        )
    else:
        yield ok("Dagster daemon", f"It runs; its last sign of life was at {newest:%Y-%m-%d %H:%M} UTC.")


def _check_runs(instance: DagsterInstance, environment: Environment) -> CheckFinding:
    before = datetime.now(UTC) - _STUCK
    stuck = instance.get_runs(RunsFilter(statuses=UNFINISHED, updated_before=before), limit=_SHOWN)
    with environment.reading(TRACKER) as connection:
        active = active_sessions(connection, environment.settings)
    if not stuck or active:
        return ok("Dagster runs", "None is stuck.")
    first = stuck[0]
    return warning(
        "Dagster runs",
        f"{count_of(len(stuck), 'run')} unfinished for more than {_STUCK.seconds // 60} minutes while no session is "
        f"active, such as {first.run_id} ({first.job_name}, {first.status.value.lower()}).",
        "The next session finishes those of processes that died: dcc crawl; others end in the UI, under Runs",
    )


def check_workers(environment: Environment) -> Iterator[CheckFinding]:
    """The workers of the settings can be reached, and other machines can reach what they share with sessions."""
    settings = environment.short_timeout_settings
    if settings.executor is ExecutorKind.IN_PROCESS:
        yield ok("workers", "Sessions do all by themselves (DCC_EXECUTOR).")
        return
    try:
        require_executor(settings)
    except ConfigurationError as error:
        yield failed("workers", *explained(error))
        return
    try:
        yield ok("workers", reach_workers(settings))
    except ConfigurationError as error:
        # Sessions do everything themselves then.
        yield warning("workers", *explained(error))
    if settings.executor is ExecutorKind.MULTIPROCESS:
        return
    urls = {name: getattr(settings, name) for name in ("tracker_url", "qc_url", "dagster_url")}
    own = [name for name, url in urls.items() if url is None or url.get_secret_value().startswith("sqlite")]
    own += ["store"] if settings.store is None else []
    if own:
        yield warning(
            "shared with workers",
            f"Workers of other machines cannot have what is on this one's disk: {', '.join(map(variable_of, own))}.",
            "Name databases of MariaDB, and a store that all reach.",
        )


def check_depths(environment: Environment) -> Iterator[CheckFinding]:
    """The tracker, staging, the QC database and Dagster are consistent; reads all of them."""
    settings = environment.settings
    with environment.reading(TRACKER), environment.reading(QC_DATABASE):
        pass
    tracker, qc = environment.engine(TRACKER), environment.engine(QC_DATABASE)
    found = check_consistency(tracker, qc, settings)
    looked = "tracker, staging and QC database"
    if settings.dagster_events and (settings.dagster_home / CONFIGURATION_FILE).exists():
        with open_instance(settings) as instance:
            found += check_events(tracker, settings, instance)
        looked = "tracker, staging, QC database and Dagster"
    with tracker.connect() as connection:
        active = active_sessions(connection, settings)
    for one in found:
        message = CONSISTENCY_RULES[one.rule] + " Here: " + one.message
        yield failed(f"{one.rule} {one.subject}", message, "As said.")
    if active:
        reason = f"{active[0].label} is active: not all could be looked at."
        yield not_checked("consistency", reason, "Try again later.")
    elif not found:
        label = database_label(tracker.url)
        yield ok("consistency", f"{len(CONSISTENCY_RULES)} rules hold for {looked} ({label}).")


dagster_checks: Final = (DoctorCheck("dagster", check_dagster), DoctorCheck("workers", check_workers))
deep_check: Final = DoctorCheck("consistency", check_depths)
"""Reads everything, however long that takes."""
