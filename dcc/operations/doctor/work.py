"""Checks of the work: sessions, held documents, reference data, schemas, staging, reports, notifications."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, func, select

from dcc.databases.engines import disposed
from dcc.documents.schema_set import SchemaSet
from dcc.errors import ConfigurationError, DccError, NotificationNotSentError
from dcc.messages import count_of
from dcc.notify.channels.mail import MailTransport, Wording
from dcc.notify.channels.open_channels import notifies
from dcc.notify.digests import addresses_of
from dcc.notify.ledger import SendState
from dcc.notify.messages import NewsKind
from dcc.notify.session_report import REPORT_WORDING
from dcc.operations.doctor.checks import (
    CheckFinding,
    Environment,
    NotReadyError,
    explained,
    failed,
    not_checked,
    ok,
    tried,
    warning,
)
from dcc.operations.overview import store_overview
from dcc.operations.retention.cleanup import Policy, RetentionVerdict, review_staging
from dcc.operations.retention.staged_files import StagedKind
from dcc.outcomes import FAILED_ENDS
from dcc.qc.database import QC_DATABASE
from dcc.qc.models import FINDING
from dcc.qc.reference.refresh import NONE_READ_YET, freshness, were_never_read
from dcc.reports.languages.loading import load_catalogue
from dcc.reports.own_directories import own_directories, own_files
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.registry import RULE_ID
from dcc.runtime.clock import utc_now
from dcc.runtime.installed_packages import RULES, added_entries, load_entry
from dcc.session.leases import Lease, active_sessions, read_leases
from dcc.settings import Settings
from dcc.settings.recipients import parse_smtp_url, parse_webhook
from dcc.sources.certificates import tls_context
from dcc.sources.host_keys import known_hosts_lines
from dcc.store.archive_store import ArchiveStore, Replica
from dcc.store.copies import default_replica
from dcc.store.objects import ObjectStore
from dcc.tracker.database import TRACKER
from dcc.tracker.models import AnException, CrawlingSession, NotificationRow
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.register.centres import list_centres
from dcc.tracker.stored_archives import copyless_archives, replicas_with_copies

_RECENT: Final = timedelta(days=7)
_LOST_SHOWN: Final = 5
_LONG_SESSION: Final = timedelta(hours=24)
_NIGHTS_MISSED: Final = 2
"""The audits that may fail to come before somebody hears of it."""


def check_sessions(environment: Environment) -> Iterator[CheckFinding]:
    """No session is dead or endless, and the last one ended well."""
    with environment.reading(TRACKER) as connection:
        leases = read_leases(connection, environment.settings)
        last = connection.execute(
            select(CrawlingSession).where(CrawlingSession.id == select(func.max(CrawlingSession.id)).scalar_subquery())
        ).one_or_none()
    held = [lease for lease in leases if not lease.is_open]
    yield from map(_session_held, held)
    if held:
        return
    if last is None:
        yield ok("session", "There was none yet.")
    elif last.finish_time is None:
        yield ok("session", f"Session {last.id} is open; a later run goes on with it.")
    else:
        message = f"The last one, {last.id}, ended at {last.finish_time} UTC: {last.end_reason}."
        if last.end_reason in FAILED_ENDS:
            yield warning("session", message, f"dcc session show {last.id}; dcc status")
        else:
            yield ok("session", message)


def _session_held(lease: Lease) -> CheckFinding:
    """The finding on a session that a process has, or had when it died."""
    if lease.is_dead:
        return warning(
            "session",
            f"{lease.label} is dead: process {lease.pid} on {lease.host} gave its last sign of life at "
            f"{lease.heartbeat} UTC.",
            "The next session takes up what it left: dcc crawl"
            + ("" if lease.group is None else f" --group {lease.group.name}"),
        )
    message = f"{lease.label} is active since {lease.acquired} UTC (process {lease.pid})."
    if utc_now() - lease.acquired > _LONG_SESSION:
        return warning("session", message, "See what holds it up: dcc session list; dcc zips --status running")
    return ok("session", message)


def check_held(environment: Environment) -> Iterator[CheckFinding]:
    """No document waits for confirmation."""
    with environment.reading(TRACKER) as connection:
        held = held_documents(connection)
    if not held:
        yield ok("held documents", "None waits to be confirmed.")
        return
    keys = list(dict.fromkeys(str(document.key) for document in held))
    yield warning(
        "held documents",
        f"{len(held)} wait to be confirmed, the oldest in {keys[0]}.",
        f"See what they would change, then confirm or leave it: dcc data plan {keys[0]}; dcc data confirm --help",
    )


def check_rules(environment: Environment) -> Iterator[CheckFinding]:
    """Rules with findings that count are installed."""
    try:
        for _, entry in added_entries(RULES):
            load_entry(entry, RULES)
    except ConfigurationError as error:
        raise NotReadyError("A package with rules cannot be loaded; see above.") from error
    with environment.reading(TRACKER) as connection:
        names = connection.scalars(select(AnException.short_name)).all()
    former = [name for name in names if RULE_ID.fullmatch(name) and name not in CATALOGUE]
    is_open = FINDING.c.rule.in_(former), FINDING.c.is_active.is_(True)
    found: Sequence[str] = ()
    if former:
        with environment.reading(QC_DATABASE) as connection:
            found = connection.scalars(select(FINDING.c.rule).where(*is_open).distinct().order_by(FINDING.c.rule)).all()
    for rule in found:
        yield warning(
            f"rule {rule}",
            "It is not installed any more, and its findings still count.",
            f"Install the package that has it, or have documents judged without it: dcc data recheck --rule {rule}",
        )
    if not found:
        yield ok("rules", "Those with findings are installed.")


def check_reference(environment: Environment) -> Iterator[CheckFinding]:
    """The reference data exist, come from the configured sources, and are not too old."""
    with environment.reading(QC_DATABASE) as connection:
        sets = freshness(connection, environment.settings, utc_now())
    if were_never_read(sets, environment.settings):
        yield not_checked("reference data", NONE_READ_YET, "dcc reference refresh")
        return
    for each in sets:
        if each.message is not None:
            yield warning(f"reference data {each.name}", each.message, f"dcc reference refresh {each.name}")
        elif each.is_shipped:
            yield ok(f"reference data {each.name}", "They are those that come with the platform, for the demo only.")
        else:
            yield ok(f"reference data {each.name}", f"They were last found at their source at {each.checked} UTC.")


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
        found = store_overview(connection, environment.settings)
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
            "dcc archive repair, which also takes them from staging",
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


def check_schema_files(environment: Environment) -> Iterator[CheckFinding]:
    """The XML schemas can be used."""
    directory = environment.settings.xsd_dir
    message = f"Those of {directory} can be used." if directory else "Those of the platform are used."
    yield tried("XML schemas", partial(SchemaSet.load, directory), message)


def check_own_directories(environment: Environment) -> Iterator[CheckFinding]:
    """The directories of a DCC's own templates and catalogues can be read."""
    for setting, directory in own_directories(environment.settings):
        try:
            files = own_files(directory, setting)
        except DccError as error:
            yield failed(setting, *explained(error))
        else:
            yield ok(setting, f"{count_of(len(files), 'entry')} in {directory}.")


def check_settings(environment: Environment) -> Iterator[CheckFinding]:
    """The language, host keys and certificate authorities that settings name are there. Commands refuse others."""
    settings = environment.settings
    uses: dict[str, Callable[[], object]] = {"DCC_LANGUAGE": partial(load_catalogue, None, settings)}
    if settings.known_hosts is not None:
        uses["DCC_KNOWN_HOSTS"] = partial(known_hosts_lines, settings.known_hosts)
    if settings.tls_ca_file is not None:
        uses["DCC_TLS_CA_FILE"] = partial(tls_context, settings)
    for setting, use in uses.items():
        yield tried(setting, use, "It can be used.")


def check_staging(environment: Environment) -> Iterator[CheckFinding]:
    """Staging contains no leftovers and no strange files."""
    settings = environment.settings
    with environment.reading(TRACKER) as connection:
        active = active_sessions(connection, settings)
    with disposed(environment.engine(TRACKER)) as tracker:
        policy = Policy.from_settings(settings)
        decisions = review_staging(tracker, environment.short_timeout_settings, policy, within=False)
    unknown = [decision for decision in decisions if decision.verdict is RetentionVerdict.UNKNOWN]
    going = [decision for decision in decisions if decision.verdict is RetentionVerdict.REMOVE]
    parts = sum(decision.staged.of(StagedKind.PART, StagedKind.ORIGIN) is not None for decision in going)
    left = sum(decision.staged.of(StagedKind.LEFT_OVER) is not None for decision in decisions)
    of_no_use = (parts or left) and not active
    if unknown:
        places = ", ".join(decision.staged.place for decision in unknown[:3])
        yield warning(
            "staging contents",
            f"{len(unknown):,} entries are not known to the platform: {places}{' ...' if len(unknown) > 3 else ''}.",
            "dcc staging list --files; what is not wanted goes with: dcc staging clean --unknown",
        )
    if of_no_use:
        yield warning(
            "staging contents",
            f"{parts:,} parts of archives are of no more use, {left:,} left-overs of processes that died.",
            "dcc staging clean, then with --yes",
        )
    if not unknown and not of_no_use:
        held = f"Staging holds {count_of(len(decisions), 'archive')}; {len(going):,} can be removed."
        yield ok("staging contents", held)


def check_notifications(environment: Environment) -> Iterator[CheckFinding]:
    """The requirements of notifications are met, and no message waits or is unsure."""
    settings = environment.short_timeout_settings
    if not notifies(settings):
        yield not_checked("notifications", "Nobody is notified of anything (DCC_NOTIFY_...).")
        return
    with environment.reading(TRACKER) as connection:
        yield from examine_notifications(connection, settings)


def examine_notifications(connection: Connection, settings: Settings) -> Iterator[CheckFinding]:
    """Findings on the channels of the settings; nothing is sent."""
    if settings.notify_centres or settings.notify_addresses:
        wording = Wording("A notification", "DCC_SMTP_URL", NotificationNotSentError)
        yield _mail_server("notifications by e-mail", settings, wording)
    if settings.notify_centres:
        lacking = [
            centre.short_name for centre in list_centres(connection) if centre.is_active and not addresses_of(centre)
        ]
        if lacking:
            yield warning(
                "notifications of centres",
                f"No e-mail address is known of {', '.join(lacking)}.",
                f"dcc centre change {lacking[0]} --email ADDRESS",
            )
    if settings.notify_webhook is not None:
        hook = parse_webhook(settings.notify_webhook)
        if settings.notify_webhook_secret is None:
            yield warning(
                "notifications by webhook",
                f"What {hook.label} gets is not signed.",
                "Give it and DCC_NOTIFY_WEBHOOK_SECRET a key, so that it can tell who wrote.",
            )
        else:
            yield ok("notifications by webhook", f"What {hook.label} gets is signed.")
    yield _ledger(connection)


def _mail_server(subject: str, settings: Settings, wording: Wording) -> CheckFinding:
    server = parse_smtp_url(settings.smtp_url)
    return tried(
        subject, MailTransport(server, settings, wording).reach, f"The mail server {server.label} can be used."
    )


def _ledger(connection: Connection) -> CheckFinding:
    query = (
        select(NotificationRow.state, func.count(NotificationRow.message_id.distinct()))
        .where(NotificationRow.state.in_([SendState.FAILED, SendState.UNSURE]), NotificationRow.kind != NewsKind.ZIP)
        .where(NotificationRow.changed > utc_now() - _RECENT)
        .group_by(NotificationRow.state)
    )
    counts = {row[0]: row[1] for row in connection.execute(query)}
    if not counts:
        return ok("notifications sent", "None failed in the last week.")
    return warning(
        "notifications sent",
        f"{counts.get(SendState.FAILED, 0):,} could not be sent; of {counts.get(SendState.UNSURE, 0):,} nobody knows "
        "whether they arrived.",
        "The next session sends the former. See: dcc notify --list",
    )


def check_reports(environment: Environment) -> Iterator[CheckFinding]:
    """The mail server for reports can be used, if reports are asked for."""
    settings = environment.short_timeout_settings
    if not settings.report_addresses:
        yield not_checked("session reports", "None are sent by e-mail (DCC_REPORT_TO).")
        return
    yield _mail_server("session reports", settings, REPORT_WORDING)
