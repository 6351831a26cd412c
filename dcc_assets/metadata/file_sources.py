"""A crawl's results in Dagster: on the source's own partition and on those of the archives found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dcc.declarations import ACTOR_NAMES, acts_on
from dcc.errors import BadFileNameError
from dcc.messages import count_of
from dcc.outcomes import CrawlOutcome, Problem, SourceCrawl, SubmissionOutcome
from dcc.phases import Phase, Status
from dcc.store.staging import Staging
from dcc_assets.graph import FILE_SOURCE_LISTINGS, REACHABLE
from dcc_assets.metadata.archives import complete_archive_report
from dcc_assets.metadata.links import links, report_of_centre
from dcc_dagster.metadata import Metadata, first_rows, utc_timestamp
from dcc_dagster.partition_events import CheckVerdict, MaterialisedPartition, PartitionReport

_SHOWN: Final = 50
_COUNTS: Final = {"archives": "listed"} | {
    name: name for name in ("new", "known", "changed", "refused", "gone", "ignored")
}
"""The counts of a crawl as they are shown, by the names of its fields."""


def source_report(crawl: SourceCrawl) -> PartitionReport:
    """A source's result: a materialisation if all its directories could be listed, else a failed check."""
    listed = crawl.outcome is CrawlOutcome.OK
    facts: Metadata = {"file source": crawl.label, "seconds": float(round(crawl.seconds, 3))}
    # When it will be crawled, and why and until when it is left alone.
    then: Metadata = {name: text for name, text in (("crawled", crawl.pace), ("then", crawl.then)) if text}
    then |= {"Links": links([("Report on the centre", report_of_centre(crawl.centre))])}
    told = f"{crawl.label} was listed in {crawl.seconds:.1f} s." if listed else ""
    details = facts | {"outcome": crawl.outcome.value}
    if crawl.error is not None:
        told = told or crawl.error.message
        details |= _advice(crawl, crawl.error)
    verdict = CheckVerdict(REACHABLE, told, details | then, passed=listed)
    summary = f"{count_of(crawl.listed, 'archive')}, of these {crawl.new:,} new"
    counts: Metadata = {name: getattr(crawl, field) for name, field in _COUNTS.items()}
    shown = MaterialisedPartition(FILE_SOURCE_LISTINGS, facts | counts | then | _found(crawl), summary)
    return PartitionReport(crawl.partition, (shown,) if listed else (), (verdict,), utc_timestamp(crawl.finished))


def _advice(crawl: SourceCrawl, error: Problem) -> Metadata:
    # Takes a tenth of a second to import; a session without failures saves that.
    from dcc.error_declarations import declared_code

    again = f"At present: {crawl.then}." if crawl.then else "The next session tries again."
    return {
        "error": error.kind,
        "reason": error.message,
        "Who acts": ACTOR_NAMES[acts_on(declared_code(error.kind, error.code))],
        "What to do": f"Test the connection step by step: `dcc source test`. {again}",
    }


def _found(crawl: SourceCrawl) -> Metadata:
    new = [(key.action.value, key.file_name) for key in crawl.new_zips]
    refused = [(str(key), reason) for key, reason in crawl.refused_zips]
    # Not as Markdown, where a file name could be a link or an image.
    noticed = [(str(finding),) for finding in (*crawl.findings, *crawl.notes)]
    return {
        **first_rows("new archives", ("action", "file name"), new, _SHOWN),
        **first_rows("refused archives", ("archive", "reason"), refused, _SHOWN),
        **first_rows("ignored entries", ("entry", "reason"), crawl.ignored_examples, len(crawl.ignored_examples)),
        **first_rows("findings", ("finding",), noticed, len(noticed)),
    }


def found_archive_reports(crawl: SourceCrawl, staging: Staging) -> Iterator[PartitionReport]:
    """A crawl's results for submissions: new ones, ones with bad names, ones whose names are accepted now."""
    refused, accepted = dict(crawl.refused_zips), set(crawl.accepted_zips)
    for key in dict.fromkeys((*crawl.new_zips, *crawl.accepted_zips, *refused)):
        outcome = SubmissionOutcome(
            key=key,
            centre=crawl.centre,
            phase=Phase.ZIP_NAME,
            status=Status.FAILED if key in refused else Status.DONE,
            finished=crawl.finished,
            source=crawl.label,
            reasons=(Problem(BadFileNameError.short_name(), refused[key]),) if key in refused else (),
            source_partition=crawl.partition,
            first_listed=None if key in accepted else (crawl.finished, crawl.label),
        )
        yield complete_archive_report(outcome, staging)
