"""A crawl's results in Dagster: on the source's own partition and on those of the archives found."""

from __future__ import annotations

from collections.abc import Iterator

from dagster import MetadataValue

from dcc.declarations import ACTOR_NAMES, acts_in, acts_on
from dcc.errors import BadFileNameError
from dcc.outcomes import CrawlOutcome, Problem, SourceCrawl
from dcc.phases import Phase, Status
from dcc.reports.checks import OF_PHASES
from dcc_assets.keys import CHECK_OF_PHASE, FILE_SOURCE_LISTINGS, REACHABLE, ZIP_ACTIONS, ZIP_ACTIONS_ASSET
from dcc_assets.metadata.links import links, page_of_partition, report_of_centre, report_of_zip
from dcc_dagster.metadata import Metadata, table, utc_timestamp
from dcc_dagster.partition_events import CheckVerdict, MaterialisedPartition, PartitionReport

_NEW_SHOWN = 50
_NAME = CHECK_OF_PHASE[Phase.ZIP_NAME]


def source_report(crawl: SourceCrawl) -> PartitionReport:
    """A source's result: a materialisation if all its directories could be listed, else a failed check."""
    reason = "" if crawl.error is None else crawl.error.message
    details: Metadata = {
        "file source": crawl.label,
        "outcome": crawl.outcome.value,
        "seconds": MetadataValue.float(round(crawl.seconds, 3)),
    }
    if crawl.error is not None:
        details |= {
            "error": crawl.error.kind,
            "reason": reason,
            "Who acts": _who_acts(crawl.error),
            "What to do": _what_to_do(crawl),
        }
    details |= _pace(crawl) | _links(crawl)
    verdict = CheckVerdict(
        REACHABLE,
        crawl.outcome is CrawlOutcome.OK,
        f"{crawl.label} was listed in {crawl.seconds:.1f} s." if crawl.outcome is CrawlOutcome.OK else reason,
        details,
    )
    materialised = (
        ()
        if crawl.outcome is not CrawlOutcome.OK
        else (MaterialisedPartition(FILE_SOURCE_LISTINGS, _counts(crawl), _summary(crawl)),)
    )
    return PartitionReport(crawl.partition, materialised, (verdict,), utc_timestamp(crawl.finished))


def _who_acts(error: Problem) -> str:
    # Takes a tenth of a second to import; a session without failures saves that.
    from dcc.reports.causes.errors import declared_code

    return ACTOR_NAMES[acts_on(declared_code(error.kind, error.code))]


def found_zip_reports(crawl: SourceCrawl) -> Iterator[PartitionReport]:
    """A crawl's results for submissions: new ones, ones with bad names, ones whose names are accepted now."""
    refused = dict(crawl.refused_zips)
    finished = utc_timestamp(crawl.finished)
    found_on = {"file source": crawl.label, "centre": crawl.centre}
    source = ("File source", page_of_partition(FILE_SOURCE_LISTINGS, crawl.partition))
    for key in dict.fromkeys((*crawl.new_zips, *crawl.accepted_zips)):
        if key not in refused:
            about: Metadata = {
                "zip": str(key),
                "action": key.action.value,
                **found_on,
                "Links": links([("Submission report", report_of_zip(key)), source]),
            }
            materialised = MaterialisedPartition(ZIP_ACTIONS_ASSET, about, f"Found on {crawl.label}.")
            fine = CheckVerdict(_NAME, True, f"{key.file_name} follows the naming convention.", always=False)
            yield PartitionReport(key.partition, (materialised,), (fine,), finished, ZIP_ACTIONS.name, whole=True)
    for key, reason in refused.items():
        verdict = CheckVerdict(
            _NAME,
            False,
            reason,
            {
                "zip": str(key),
                "phase": Phase.ZIP_NAME.short_name,
                "status": Status.FAILED.short_name,
                "reason": reason,
                "Who acts": ACTOR_NAMES[acts_in(Phase.ZIP_NAME, Status.FAILED)],
                "What to do": OF_PHASES[Phase.ZIP_NAME].to_do,
                "Links": links([("Submission report", report_of_zip(key)), source]),
                **found_on,
            },
            kinds={BadFileNameError.short_name()},
        )
        yield PartitionReport(key.partition, (), (verdict,), finished, ZIP_ACTIONS.name, whole=True)


def _summary(crawl: SourceCrawl) -> str:
    return f"{crawl.listed:,} archives, of these {crawl.new:,} new"


def _counts(crawl: SourceCrawl) -> Metadata:
    counts: Metadata = {
        "file source": crawl.label,
        "archives": MetadataValue.int(crawl.listed),
        "new": MetadataValue.int(crawl.new),
        "known": MetadataValue.int(crawl.known),
        "changed": MetadataValue.int(crawl.changed),
        "refused": MetadataValue.int(crawl.refused),
        "gone": MetadataValue.int(crawl.gone),
        "ignored": MetadataValue.int(crawl.ignored),
        "seconds": MetadataValue.float(round(crawl.seconds, 3)),
    }
    counts |= _pace(crawl) | _links(crawl)
    if crawl.new_zips:
        counts["new archives"] = table(
            ("action", "file name"), [(key.action.value, key.file_name) for key in crawl.new_zips[:_NEW_SHOWN]]
        )
    if crawl.refused_zips:
        refused = [(str(key), reason) for key, reason in crawl.refused_zips[:_NEW_SHOWN]]
        counts["refused archives"] = table(("archive", "reason"), refused)
    if crawl.ignored_examples:
        counts["ignored entries"] = table(("entry", "reason"), crawl.ignored_examples)
    if noticed := (*crawl.findings, *crawl.notes):
        # Not as Markdown, where a file name could be a link or an image.
        counts["findings"] = table(("finding",), [(str(finding),) for finding in noticed])
    return counts


def _pace(crawl: SourceCrawl) -> Metadata:
    """When it will be crawled, and why and until when it is left alone."""
    return {name: text for name, text in (("crawled", crawl.pace), ("then", crawl.then)) if text}


def _what_to_do(crawl: SourceCrawl) -> str:
    again = f"At present: {crawl.then}." if crawl.then else "The next session tries again."
    return f"Test the connection step by step: `dcc source test`. {again}"


def _links(crawl: SourceCrawl) -> Metadata:
    return {"Links": links([("Report on the centre", report_of_centre(crawl.centre))])}
