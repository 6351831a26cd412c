"""Checks of the work: sessions, held documents, rules, reference data, schemas, and what the settings name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from sqlalchemy import Connection, func, select

from dcc.documents.schema_set import SchemaSet
from dcc.errors import ConfigurationError, DccError
from dcc.messages import count_of
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
from dcc.outcomes import FAILED_ENDS
from dcc.qc.database import QC_DATABASE
from dcc.qc.models import DOCUMENT, FINDING
from dcc.qc.reference.refresh import NONE_READ_YET, freshness, were_never_read
from dcc.reports.languages.loading import load_catalogue
from dcc.reports.own_directories import own_directories, own_files
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.registry import RULE_ID
from dcc.runtime.clock import utc_now
from dcc.runtime.installed_packages import RULES, added_entries, load_entry
from dcc.session.leases import Lease, read_leases
from dcc.sources.certificates import tls_context
from dcc.sources.host_keys import known_hosts_lines
from dcc.tracker.database import TRACKER
from dcc.tracker.models import AnException, CrawlingSession, XmlFile, ZipFile
from dcc.tracker.queries.state_counts import held_documents
from dcc.tracker.submission_rows import KEY

_LONG_SESSION: Final = timedelta(hours=24)
_NEWEST: Final = (
    select(*(DOCUMENT.c[name] for name in ("tracker_id", "zip_action", "zip_file", "file_name", "applied_at")))
    .where(DOCUMENT.c.tracker_id.is_not(None), DOCUMENT.c.applied_at.is_not(None))
    .order_by(DOCUMENT.c.id.desc())
    .limit(100)
)


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
        f"{count_of(len(held), 'document')} to be confirmed, the oldest in {keys[0]}.",
        f"See what they would change, then confirm them or turn them down: dcc data plan {keys[0]}; "
        "dcc data confirm --help; dcc data undo --help",
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


def check_shared_data(environment: Environment) -> Iterator[CheckFinding]:
    """The newest documents in the QC database came from this tracker."""
    with environment.reading(TRACKER) as tracker, environment.reading(QC_DATABASE) as qc:
        others = list(_documents_of_others(tracker, qc))
    if others:
        yield warning(
            "uploaded data",
            f"This tracker knows nothing of {others[0]}, which was uploaded since its first session: another "
            "installation uploads to the same QC database, or the tracker is older than the data.",
            "Give the other installation a QC database of its own (DCC_QC_URL), or restore both databases of one "
            "backup: dcc restore --help",
        )
    else:
        yield ok("uploaded data", "Its newest documents came from this tracker.")


def _documents_of_others(tracker: Connection, qc: Connection) -> Iterator[str]:
    """Those of the newest documents that another tracker must have uploaded since the first session of this one."""
    began = tracker.scalar(select(func.min(CrawlingSession.start_time)))
    newest = qc.execute(_NEWEST).all()
    files = {row.zip_file for row in newest}
    known = {tuple(row) for row in tracker.execute(select(*KEY).join(ZipFile).where(ZipFile.file_name.in_(files)))}
    # Of a source that was removed, the tracker has the submissions, and none of the documents.
    names = select(XmlFile.id, XmlFile.fname).where(XmlFile.id.in_({row.tracker_id for row in newest}))
    documents = dict(iter(tracker.execute(names)))
    for row in newest:
        is_own = documents.get(row.tracker_id, row.file_name) == row.file_name
        is_own &= (row.zip_action, row.zip_file) in known
        if not is_own and began is not None and row.applied_at >= began:
            yield f"{row.zip_action}/{row.zip_file}, {row.file_name}"


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
