"""What keeps archives from being taken: sources in trouble, archives that changed, went or are another centre's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, select

from dcc.declarations import VALUE, cause_id
from dcc.error_declarations import FOREIGN, LISTING, declared_code
from dcc.naming import Action
from dcc.outcomes import CrawlOutcome, SubmissionKey
from dcc.reports.causes.cause import Fact, FindingGroup
from dcc.tracker.crawls import (
    CrawlEntry,
    CrawlFindingEntry,
    SessionEntry,
    latest_crawls,
    latest_findings,
    session_findings,
)
from dcc.tracker.hostings.foreign_archives import UnfetchedArchive, unfetched_archives
from dcc.tracker.listings.findings import CONFIRMED_GONE
from dcc.tracker.models import CrawlFinding, FileSourceHasZip, ZipAction, ZipFile
from dcc.tracker.queries.session_submissions import session_submission_ids
from dcc.tracker.register.file_sources import SourceEntry, list_sources
from dcc.tracker.submission_rows import is_named
from dcc.vocabulary import Severity, SourceState

_LONGEST_NAME: Final = 160


class _CrawlFact(NamedTuple):
    """A fact on an archive, on a number of `zips`, or on a file source."""

    centre: str
    fact: Fact
    action: str = ""
    file_name: str = ""
    zips: int = 0


class CrawlFacts:
    """The facts of crawls, with ids that count from 0."""

    def __init__(self, noted: Iterable[_CrawlFact]) -> None:
        self._noted = sorted(noted, key=lambda each: (each.action, each.file_name))

    def groups(self) -> Iterator[FindingGroup]:
        """Each fact by itself."""
        for number, each in enumerate(self._noted):
            yield FindingGroup(
                each.action,
                each.file_name,
                None,
                each.centre,
                each.fact.code,
                cause_id(each.fact.code, each.fact.details),
                each.fact.severity.value,
                first=number,
                entity_kind=None if each.action else "source",
                entities=0 if each.action else 1,
                zips=each.zips,
            )

    def examples(self, ids: Sequence[int]) -> dict[int, Fact]:
        """The facts of these ids."""
        return {number: self._noted[number].fact for number in ids}


def crawl_facts(connection: Connection, subject: SubmissionKey | SessionEntry | str | None) -> CrawlFacts:
    """What crawls met with and noticed of a subject and still holds, and the archives of it that are not fetched.

    Of a session, its own crawls count. Of a centre, or of all (None), the latest ones count of sources that are crawled
    and whose centre is active.
    """
    crawls: Iterable[CrawlEntry] = ()
    if isinstance(subject, SubmissionKey):
        recorded = str(subject)[:_LONGEST_NAME]
        hosts = _hosts_noticed(connection, subject, recorded)
        sources = {entry.id: entry for entry in list_sources(connection, hosts)} if hosts else {}
        latest = latest_findings(connection, sources=hosts) if hosts else []
        found = [each for each in latest if each.file_name == recorded]
        unfetched = unfetched_archives(connection, key=subject)
    elif isinstance(subject, SessionEntry):
        sources = {entry.id: entry for entry in list_sources(connection)}
        crawls, found = subject.crawls, session_findings(connection, subject.id)
        unfetched = unfetched_archives(connection, session_submission_ids(connection, subject))
    else:
        sources = {
            entry.id: entry
            for entry in list_sources(connection)
            if subject in (None, entry.centre) and entry.state is SourceState.AVAILABLE and entry.centre_active
        }
        wanted = None if subject is None else sorted(sources)
        crawls = latest_crawls(connection, sources=wanted).values()
        found, unfetched = latest_findings(connection, sources=wanted), unfetched_archives(connection)
    centre = subject if isinstance(subject, str) else None
    faults, noticed = _listing_faults(crawls, sources), _noticed(connection, found, sources)
    return CrawlFacts([*faults, *noticed, *_foreign_archives(unfetched, centre)])


def _hosts_noticed(connection: Connection, key: SubmissionKey, recorded: str) -> Sequence[int]:
    """The sources that host a submission, and whose crawls have noticed something of it: most have not."""
    query = (
        select(FileSourceHasZip.file_source_id)
        .join(ZipAction)
        .join(ZipFile)
        .join(CrawlFinding, CrawlFinding.file_source_id == FileSourceHasZip.file_source_id)
        .where(is_named(key), CrawlFinding.file_name == recorded)
    )
    return connection.scalars(query.distinct()).all()


def _listing_faults(crawls: Iterable[CrawlEntry], sources: Mapping[int, SourceEntry]) -> Iterator[_CrawlFact]:
    """Sources that could not be listed, or not whole."""
    for crawl in crawls:
        source, error = sources.get(crawl.source), crawl.error
        if source is not None and error is not None:
            severity = Severity.ERROR if crawl.outcome is CrawlOutcome.FAILED else Severity.WARNING
            details = {**error.fact.all_details, VALUE: f"{source.centre}, {source.protocol}://{source.hostname}"}
            code = declared_code(error.kind, error.code)
            yield _CrawlFact(source.centre, Fact(code, severity, details, message=error.fact))


def _noticed(
    connection: Connection, findings: Iterable[CrawlFindingEntry], sources: Mapping[int, SourceEntry]
) -> Iterator[_CrawlFact]:
    """What crawls noticed of archives; those that went from a directory together count as one, until they are back."""
    for finding in findings:
        if finding.source in sources:
            centre, code = sources[finding.source].centre, LISTING + finding.kind
            action, _, file_name = finding.file_name.partition("/")
            if finding.kind != CONFIRMED_GONE:
                archive = finding.file_name if file_name else None
                example = Fact(code, Severity.WARNING, zip=archive, message=finding.public)
                yield _CrawlFact(centre, example, action, file_name)
            elif number := _still_gone(connection, finding, Action(action)):
                yield _CrawlFact(centre, Fact(code, Severity.WARNING, message=finding.said), action, zips=number)


def _foreign_archives(archives: Iterable[UnfetchedArchive], centre: str | None) -> Iterator[_CrawlFact]:
    """Archives on another centre's source, but for those turned down: facts on the centre of their name.

    With a `centre`, facts on it: of the archives that are named for it, or lie on its sources.
    """
    for archive in archives:
        if archive.declined is None and (centre is None or centre == archive.owner or centre in archive.hosts):
            example = Fact(
                LISTING + FOREIGN, Severity.WARNING, archive.details, str(archive.key), message=archive.public_message
            )
            yield _CrawlFact(centre or archive.owner, example, archive.key.action, archive.key.file_name)


def _still_gone(connection: Connection, finding: CrawlFindingEntry, action: Action) -> int:
    """How many archives of a directory went when this was noticed, and are not back."""
    query = (
        select(func.count())
        .select_from(FileSourceHasZip)
        .join(ZipAction, ZipAction.id == FileSourceHasZip.za_id)
        .where(
            FileSourceHasZip.file_source_id == finding.source,
            FileSourceHasZip.gone_since == finding.created,
            ZipAction.todo_id == action,
        )
    )
    return connection.scalar(query) or 0
