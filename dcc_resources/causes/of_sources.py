"""The causes of what keeps crawls from taking archives: sources in trouble, and archives that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlalchemy import Connection, select

from dcc_resources.causes.cause import Cause, Example
from dcc_resources.causes.counting import CauseCounter, FindingLine
from dcc_resources.causes.error_faces import LISTING, kind_of
from dcc_resources.outcomes import ZipKey
from dcc_resources.qc_database.vocabulary import Severity
from dcc_resources.tracker.crawls import CrawlEntry, Finding, SessionEntry, latest_crawls, latest_findings
from dcc_resources.tracker.crawls import session_findings as findings_of_session
from dcc_resources.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipFile
from dcc_resources.tracker.reference import ACTION_IDS
from dcc_resources.tracker.registry import SourceEntry, list_sources
from dcc_resources.tracker.sources import SourceState

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
    return [*_troubles(crawls, sources), *_noticed(noticed, sources)]


def causes_of_crawls(connection: Connection, session: SessionEntry) -> list[Cause]:
    """What the crawls of one session came up against and noticed."""
    sources = {entry.id: entry for entry in list_sources(connection)}
    noticed = findings_of_session(connection, session.id)
    return [*_troubles(session.crawls, sources), *_noticed(noticed, sources)]


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


def source_label(source: SourceEntry) -> str:
    """How titles name a file source: `H, sftp://sftp.example.org`."""
    return f"{source.centre}, {source.protocol}://{source.hostname}"


def _troubles(crawls: Iterable[CrawlEntry], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    failed = [(crawl, crawl.error) for crawl in crawls if crawl.error is not None and crawl.source in sources]
    counter = CauseCounter()
    for number, (crawl, error) in enumerate(failed):
        source, kind = sources[crawl.source], kind_of(error.kind)
        severity = Severity.ERROR if crawl.outcome == _FAILED else Severity.WARNING
        value = source_label(source)
        counter.take(FindingLine(number, None, "", "", source.centre, kind, severity.value, value, error.message))
    return [
        replace(cause, example=Example(message=failed[first][1].message), entities={SOURCES: cause.findings})
        for first, cause in counter.causes()
    ]


def _noticed(noticed: Sequence[Finding], sources: Mapping[int, SourceEntry]) -> list[Cause]:
    counter = CauseCounter()
    ordered = sorted(enumerate(noticed), key=lambda item: (item[1].file_name, item[0]))
    for number, finding in ordered:
        action, _, file_name = finding.file_name.partition("/")
        centre = sources[finding.source].centre if finding.source in sources else ""
        kind = LISTING + finding.kind
        counter.take(
            FindingLine(number, None, action, file_name, centre, kind, Severity.WARNING.value, None, finding.message)
        )
    return [
        replace(cause, example=Example(zip=noticed[first].file_name, message=noticed[first].message))
        for first, cause in counter.causes()
    ]
