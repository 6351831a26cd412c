"""What Dagster shows of the crawl of a file source."""

from dcc.outcomes import Problem, SourceCrawl
from dcc.tracker.models import utc_now
from dcc_assets.metadata.file_sources import source_report


def crawl(outcome: str, error: Problem | None = None, notes: tuple[str, ...] = (), then: str = "") -> SourceCrawl:
    counts = dict.fromkeys(("listed", "new", "known", "changed", "refused", "ignored", "gone"), 0)
    source = {"source_id": 1, "partition": "H-1", "label": "file source 1", "centre": "H"}
    ended = {"outcome": outcome, "error": error, "seconds": 1.0, "finished": utc_now(), "notes": notes, "then": then}
    return SourceCrawl(**source | ended | counts)


def test_what_is_being_uploaded_is_beside_the_listing() -> None:
    (materialised,) = source_report(crawl("ok", notes=("add/H.zip is being uploaded.",))).materialised
    records = materialised.metadata["findings"].records  # type: ignore[union-attr]
    assert [row.data["finding"] for row in records] == ["add/H.zip is being uploaded."]


def test_a_listing_that_shrank_is_a_failed_check_that_says_why() -> None:
    said = "the directory add is gone, and held 5 before"
    report = source_report(crawl("partial", Problem("ListingShrunkError", said)))
    assert report.materialised == ()
    (verdict,) = report.verdicts
    assert not verdict.passed
    assert verdict.metadata["reason"] == said


def test_a_source_that_is_left_alone_after_failures_is_not_said_to_be_tried_again() -> None:
    def advice(then: str) -> object:
        (verdict,) = source_report(crawl("failed", Problem("LoginError", "refused"), then=then)).verdicts
        return verdict.metadata["What to do"]

    first = "Test the connection step by step: `dcc source test`."
    alone = "failed 3 times in a row, left alone until 2026-11-01 13:00 UTC"
    assert advice("") == f"{first} The next session tries again."
    assert advice(alone) == f"{first} At present: {alone}."
