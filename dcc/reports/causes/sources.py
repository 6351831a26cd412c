"""The causes of what keeps archives from being taken: sources in trouble, archives that changed or are held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

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
    counter = CauseCounter()
    for number, one in enumerate(waiting):
        whose, action, name, code = centre or one.owner, one.key.action, one.key.file_name, LISTING + FOREIGN
        cause = cause_id(code, one.details)
        counter.take(Group(action, name, whose, None, code, cause, Severity.WARNING.value, number))
    return [
        replace(
            cause,
            details=waiting[first].details,
            example=Example(zip=str(waiting[first].key), said=waiting[first].told),
        )
        for first, cause in counter.causes()
    ]


def source_label(source: SourceEntry) -> str:
    """How titles name a file source: `H, sftp://sftp.example.org`."""
    return f"{source.centre}, {source.protocol}://{source.hostname}"


def _troubles(crawls: Iterable[CrawlEntry], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    failed = [(crawl, crawl.error) for crawl in crawls if crawl.error is not None and crawl.source in sources]
    counter = CauseCounter()
    known: list[Details] = []
    for number, (crawl, error) in enumerate(failed):
        source, code = sources[crawl.source], declared_code(error.kind, error.code)
        severity = Severity.ERROR if crawl.outcome == _FAILED else Severity.WARNING
        known.append({**error.fact.known, VALUE: source_label(source)})
        cause = cause_id(code, known[-1])
        counter.take(Group("", "", source.centre, None, code, cause, severity.value, number))
    return [
        replace(
            cause,
            details=known[first],
            example=Example(said=failed[first][1].fact),
            entities={SOURCES: cause.findings},
        )
        for first, cause in counter.causes()
    ]


def _noticed(noticed: Iterable[Finding], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    """The causes of what was noticed of archives, each by itself."""
    archives = [finding for finding in noticed if finding.kind != CONFIRMED_GONE]
    return [
        replace(cause, example=Example(zip=archives[first].file_name, said=archives[first].said))
        for first, cause in _counted(archives, sources)
    ]


def _gone(connection: Connection, noticed: Iterable[Finding], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    """The causes of archives that went from a directory together, without those that are back."""
    still = {finding: _still_gone(connection, finding) for finding in noticed if finding.kind == CONFIRMED_GONE}
    told = [finding for finding, number in still.items() if number]
    away: Counter[str] = Counter()
    for finding in told:
        away[_centre(finding, sources)] += still[finding]
    return [
        replace(cause, zips=away[cause.centre or ""], example=Example(said=told[first].said))
        for first, cause in _counted(told, sources)
    ]


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


def _counted(noticed: Sequence[Finding], sources: Mapping[int, SourceEntry]) -> list[tuple[int, Cause]]:
    """The causes, each with the place of an example in what was noticed."""
    counter = CauseCounter()
    ordered = sorted(enumerate(noticed), key=lambda item: (item[1].file_name, item[0]))
    for number, finding in ordered:
        action, _, file_name = finding.file_name.partition("/")
        centre, code = _centre(finding, sources), LISTING + finding.kind
        cause = cause_id(code, NO_DETAILS)
        counter.take(Group(action, file_name, centre, None, code, cause, Severity.WARNING.value, number))
    return counter.causes()


def _centre(finding: Finding, sources: Mapping[int, SourceEntry]) -> str:
    return sources[finding.source].centre if finding.source in sources else ""
