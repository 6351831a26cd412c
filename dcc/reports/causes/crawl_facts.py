"""The causes of what keeps archives from being taken: sources in trouble, archives that changed or are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from dcc.declarations import NO_DETAILS, VALUE, cause_id
from dcc.messages import Details
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.phases import ACTION_IDS
from dcc.reports.causes.cause import Cause, Example
from dcc.reports.causes.counting import CauseCounter, Group
from dcc.reports.causes.errors import FOREIGN, LISTING, declared_code
from dcc.tracker.crawls import CrawlEntry, Finding, SessionEntry, latest_crawls, latest_findings
from dcc.tracker.crawls import session_findings as findings_of_session
from dcc.tracker.hostings.foreign_archives import HeldArchive
from dcc.tracker.hostings.listings import CONFIRMED_GONE
from dcc.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.register.source_addresses import SourceState
from dcc.vocabulary import Severity

SOURCES: Final = "sources"
"""What causes of file sources count as their `entities`."""

_FAILED: Final = "failed"
_LONGEST_NAME: Final = 160


def causes_of_sources(connection: Connection, centre: str | None = None) -> list[Cause]:
    """What the latest crawls of a centre's sources, or of all, came up against and noticed; a few statements.

    Sources that are not visited, and those of inactive centres, are left out.
    """
    sources = {
        entry.id: entry
        for entry in list_sources(connection)
        if centre in (None, entry.centre) and entry.state is SourceState.AVAILABLE and entry.centre_active
    }
    asked = None if centre is None else sorted(sources)
    crawls = [crawl for crawl in latest_crawls(connection, sources=asked).values() if crawl.source in sources]
    noticed = [finding for finding in latest_findings(connection, sources=asked) if finding.source in sources]
    return [*_troubles(crawls, sources), *_noticed(noticed, sources), *_gone(connection, noticed, sources)]


def causes_of_crawls(connection: Connection, session: SessionEntry) -> list[Cause]:
    """What the crawls of one session came up against and noticed."""
    sources = {entry.id: entry for entry in list_sources(connection)}
    noticed = findings_of_session(connection, session.id)
    return [*_troubles(session.crawls, sources), *_noticed(noticed, sources), *_gone(connection, noticed, sources)]


def causes_noticed(connection: Connection, key: ZipKey) -> list[Cause]:
    """What crawls noticed of a zip action and still stands, by few statements that look at nothing else."""
    hosts = connection.scalars(
        select(FileSourceHasZip.file_source_id)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .join(ZipFile, ZipFile.id == ZipAction.zip_id)
        .join(CrawlFinding, CrawlFinding.za_id == ZipAction.id)
        .where(ZipFile.file_name == key.file_name, ZipAction.todo_id == ACTION_IDS[key.action])
        .distinct()
    ).all()
    if not hosts:
        return []
    sources = {entry.id: entry for entry in list_sources(connection, hosts)}
    recorded = str(key)[:_LONGEST_NAME]
    return _noticed(
        [each for each in latest_findings(connection, sources=hosts) if each.file_name == recorded], sources
    )


def causes_held(held: Iterable[HeldArchive], centre: str | None = None) -> list[Cause]:
    """Why archives on another centre's source are held, but for those turned down.

    They are causes of the centre of their name or, if one is given, of that centre, whose name or sources these have.
    """
    waiting = [
        one for one in held if one.declined is None and (centre is None or centre == one.owner or centre in one.hosts)
    ]
    return _causes(
        _Noted(
            centre or one.owner,
            LISTING + FOREIGN,
            Severity.WARNING,
            Example(zip=str(one.key), said=one.told),
            one.details,
            one.key.action,
            one.key.file_name,
        )
        for one in waiting
    )


class _Noted(NamedTuple):
    """One thing that a crawl came up against or noticed, of an archive or of a source as a whole."""

    centre: str
    code: str
    severity: Severity
    example: Example
    details: Details = NO_DETAILS
    action: str = ""
    file_name: str = ""


def _causes(noted: Iterable[_Noted]) -> list[Cause]:
    """The causes of what was noted, each with the details and the example of the first that has it."""
    ordered = sorted(noted, key=lambda one: (one.action, one.file_name))
    counter = CauseCounter()
    for number, one in enumerate(ordered):
        cause = cause_id(one.code, one.details)
        counter.take(
            Group(one.action, one.file_name, one.centre, None, one.code, cause, one.severity.value, first=number)
        )
    return [
        replace(cause, details=ordered[first].details, example=ordered[first].example)
        for first, cause in counter.causes()
    ]


def _troubles(crawls: Iterable[CrawlEntry], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    noted = []
    for crawl in crawls:
        source, error = sources.get(crawl.source), crawl.error
        if source is not None and error is not None:
            severity = Severity.ERROR if crawl.outcome == _FAILED else Severity.WARNING
            label = f"{source.centre}, {source.protocol}://{source.hostname}"
            details = {**error.fact.known, VALUE: label}
            code = declared_code(error.kind, error.code)
            noted.append(_Noted(source.centre, code, severity, Example(said=error.fact), details))
    return [replace(cause, entities={SOURCES: cause.findings}) for cause in _causes(noted)]


def _noticed(noticed: Iterable[Finding], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    """The causes of what was noticed of archives, each by itself."""
    return _causes(_noted(finding, sources) for finding in noticed if finding.kind != CONFIRMED_GONE)


def _gone(connection: Connection, noticed: Iterable[Finding], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    """The causes of archives that went from a directory together, without those that are back."""
    away: Counter[str] = Counter()
    noted = []
    for finding in noticed:
        number = _still_gone(connection, finding) if finding.kind == CONFIRMED_GONE else 0
        if number:
            noted.append(_noted(finding, sources))
            away[noted[-1].centre] += number
    return [replace(cause, zips=away[cause.centre or ""]) for cause in _causes(noted)]


def _noted(finding: Finding, sources: Mapping[int, SourceEntry]) -> _Noted:
    centre = sources[finding.source].centre if finding.source in sources else ""
    action, _, file_name = finding.file_name.partition("/")
    archive = None if finding.kind == CONFIRMED_GONE else finding.file_name
    example = Example(zip=archive, said=finding.said)
    return _Noted(centre, LISTING + finding.kind, Severity.WARNING, example, NO_DETAILS, action, file_name)


def _still_gone(connection: Connection, finding: Finding) -> int:
    """How many archives of a directory went when this was noticed, and are not back."""
    query = (
        select(func.count())
        .select_from(FileSourceHasZip)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .where(
            FileSourceHasZip.file_source_id == finding.source,
            FileSourceHasZip.gone_since == finding.created,
            ZipAction.todo_id == ACTION_IDS[Action(finding.file_name.partition("/")[0])],
        )
    )
    return connection.scalar(query) or 0
