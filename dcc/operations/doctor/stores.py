"""Checks of what is kept: staging, the archive store and the object store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from dcc.databases.engines import disposed
from dcc.errors import DccError
from dcc.messages import count_of
from dcc.operations.doctor.checks import CheckFinding, Environment, NotReadyError, explained, failed, ok, tried, warning
from dcc.operations.platform_status import store_status
from dcc.operations.staging.cleanup import RetentionVerdict, review_staging
from dcc.operations.staging.contents import StagedKind
from dcc.runtime.clock import utc_now
from dcc.session.leases import active_sessions
from dcc.store.archive_store import ArchiveStore, Replica
from dcc.store.copies import default_replica
from dcc.store.objects import ObjectStore
from dcc.tracker.database import TRACKER
from dcc.tracker.stored_archives import copyless_archives, replicas_with_copies

_LOST_SHOWN: Final = 5
_NIGHTS_MISSED: Final = 2
"""The audits that may fail to come before somebody hears of it."""


def check_staging(environment: Environment) -> Iterator[CheckFinding]:
    """Staging contains no leftovers and no strange files."""
    settings = environment.settings
    with environment.reading(TRACKER) as connection:
        active = active_sessions(connection, settings)
    with disposed(environment.engine(TRACKER)) as tracker:
        decisions = review_staging(tracker, environment.short_timeout_settings, within=False)
    unknown = [decision for decision in decisions if decision.verdict is RetentionVerdict.UNKNOWN]
    going = [decision for decision in decisions if decision.verdict is RetentionVerdict.REMOVE]
    parts = sum(decision.staged.of(StagedKind.PART, StagedKind.ORIGIN) is not None for decision in going)
    left = sum(decision.staged.of(StagedKind.LEFT_OVER) is not None for decision in decisions)
    of_no_use = (parts or left) and not active
    if unknown:
        places = ", ".join(decision.staged.place for decision in unknown[:3])
        more = " ..." if len(unknown) > 3 else ""
        yield warning(
            "staging contents",
            f"{count_of(len(unknown), 'entry')} not known to the platform: {places}{more}.",
            "dcc staging list --files; what is not wanted goes with: dcc staging clean --unknown",
        )
    if of_no_use:
        yield warning(
            "staging contents",
            f"{count_of(parts, 'part')} of archives of no more use, {count_of(left, 'left-over')} of dead processes.",
            "dcc staging clean, then with --yes",
        )
    if not unknown and not of_no_use:
        held = f"Staging holds {count_of(len(decisions), 'archive')}; {len(going):,} can be removed."
        yield ok("staging contents", held)


def check_store(environment: Environment) -> Iterator[CheckFinding]:
    """The object store stores an object, returns it and deletes it."""
    store = ObjectStore(environment.short_timeout_settings)
    if environment.settings.store is None and not Path(store.url).exists():
        yield ok("store", f"It is {store.url}, which is made when it is needed.")
        return
    yield tried("store", partial(_use, store), f"{store.url} took an object, gave it back and deleted it.")


def _use(store: ObjectStore) -> None:
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe"
        probe.write_text("written by dcc doctor", "ascii")
        key = store.put(f"doctor-{uuid4().hex}", probe)
        try:
            store.get(key, probe)
        finally:
            store.delete(key)


def check_archive_store(environment: Environment) -> Iterator[CheckFinding]:
    """Each replica of the archive store answers, can be written to and is audited; no archive lacks a good copy."""
    holding: set[str] = set()
    with suppress(NotReadyError), environment.reading(TRACKER) as connection:
        holding = replicas_with_copies(connection, environment.settings)
    store = ArchiveStore(environment.short_timeout_settings, lambda: holding)
    default = str(default_replica(environment.settings))
    for replica in store.replicas:
        if replica.url != default or replica.holds_copies() or os.path.lexists(default):
            yield _check_replica(replica)
        else:
            yield ok(f"archive store {default}", "It is made when it is needed.")
    store.close()
    with environment.reading(TRACKER) as connection:
        found = store_status(connection, environment.settings)
        copyless = copyless_archives(connection, [replica.replica for replica in found.replicas])
    faulty = found.bad + found.missing
    if found.lost:
        named = ", ".join(map(str, found.lost[:_LOST_SHOWN]))
        lost = count_of(len(found.lost), "archive")
        yield failed("archive store", f"No copy is good of {lost}: {named}", "dcc archive status")
    elif faulty:
        yield warning("archive store", f"{count_of(faulty, 'copy')} bad or missing.", "dcc archive repair")
    elif copyless:
        yield warning(
            "archive store",
            f"It has no copy of {count_of(copyless, 'archive')}, as after a restore without the archive store.",
            "Name a directory that has them, such as that of dcc backup --with-archives, in DCC_ARCHIVE_REPLICAS; then "
            "dcc archive repair. Without one: dcc archive audit --all, which takes them from staging or the sources",
        )
    else:
        yield ok("archive store", f"Archives: {found.archives.archives:,}; pending copies: {found.pending:,}.")
    days = environment.settings.archive_audit_days
    late = utc_now() - timedelta(days=days + _NIGHTS_MISSED)
    for one in found.replicas:
        if one.oldest_check is not None and one.oldest_check < late:
            yield warning(
                f"audits of {one.replica}",
                f"A copy was last read at {one.oldest_check} UTC, not within {count_of(days, 'day')}.",
                "Run dcc daemon or dcc-archive-audit.timer, which audit each night; now: dcc archive audit",
            )


def _check_replica(replica: Replica) -> CheckFinding:
    subject = f"archive store {replica.url}"
    try:
        replica.answer()
        replica.require_writable()
        replica.require_room(1)
    except DccError as error:
        return (failed if replica.required else warning)(subject, *explained(error))
    return ok(subject, "It answers.")
