"""What Dagster is shown of submissions and of crawls, and the links beside events."""

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from dagster import AssetKey, MarkdownMetadataValue, TableMetadataValue

from dcc.naming import Action
from dcc.outcomes import HELD, CrawlOutcome, DocumentOutcome, Problem, SourceCrawl, SubmissionKey, SubmissionOutcome
from dcc.phases import Phase, Status
from dcc.runtime.clock import utc_now
from dcc.store.staging import Staging
from dcc_assets.graph import XML_DOCUMENTS
from dcc_assets.metadata.archives import DOCUMENTS_SHOWN, ERRORS_SHOWN, archive_report
from dcc_assets.metadata.file_sources import found_archive_reports, source_report
from dcc_assets.metadata.links import (
    links,
    page_of_partition,
    picture_of_centre,
    pictures,
    report_of_centre,
    report_of_submission,
)
from dcc_dagster.partition_events import CheckVerdict, PartitionReport

KEY = SubmissionKey(Action.ADD, "H.2013-10-31.1.impc.zip")
STAGING = Staging(Path("/staging"))


def outcome(phase: Phase, status: Status, **changes: Any) -> SubmissionOutcome:
    facts: dict[str, Any] = {
        "downloaded": phase > Phase.ZIP_MD5,
        "extracted": phase > Phase.UNZIP,
        "size_bytes": 1234,
        "md5": "a" * 32,
        "source": "file source 1 (H, sftp://h.example.org)",
        "attempts": 2,
        "seconds": 1.5,
        "finished": datetime(2026, 11, 21, 12, 0, 0),
    }
    return SubmissionOutcome(KEY, "H", phase, status, **(facts | changes))


def document(name: str, phase: Phase, status: Status, *errors: Problem) -> DocumentOutcome:
    return DocumentOutcome(name, phase, status, 100, errors)


def shown(report: PartitionReport) -> tuple[list[str], dict[str, bool], dict[str, bool]]:
    """The assets materialised, the verdicts that are told, and those that count only where one failed before."""
    told = {v.check.name: v.passed for v in report.verdicts if v.always}
    untold = {v.check.name: v.passed for v in report.verdicts if not v.always}
    return [m.asset.to_user_string() for m in report.materialised], told, untold


def failing(report: PartitionReport) -> CheckVerdict:
    (verdict,) = [v for v in report.verdicts if not v.passed]
    return verdict


def test_an_unfetched_archive_is_shown_with_the_reason_and_fails_no_check() -> None:
    """One that lies on another centre's source only."""
    unfetched = outcome(Phase.ZIP_NAME, Status.DONE, source=None, reasons=(Problem(HELD, "It lies elsewhere."),))
    report = archive_report(unfetched, STAGING)
    assert shown(report) == (["zip_actions"], {}, {})
    assert report.materialised[0].metadata["held"] == "It lies elsewhere."


ODD = document("odd.xml", Phase.XML_NAME, Status.FAILED)
WAITING = document("fine.xml", Phase.XML_NAME, Status.DONE)
PASSED = dict.fromkeys(("zip_name", "download", "zip_md5", "unzip", "xml_name", "xsd"), True)


@pytest.mark.parametrize(
    ("ended", "assets", "failed", "passed"),
    [
        (outcome(Phase.DOWNLOAD, Status.FAILED, source=None), 0, "download", 0),
        (outcome(Phase.ZIP_NAME, Status.FAILED, source=None), 0, "zip_name", 0),
        (outcome(Phase.ZIP_MD5, Status.FAILED), 0, "zip_md5", 0),
        (outcome(Phase.UNZIP, Status.FAILED), 1, "unzip", 3),
        (outcome(Phase.XML_NAME, Status.FAILED, documents=(ODD, WAITING)), 2, "xml_name", 4),
    ],
)
def test_an_archive_that_failed_got_so_far(ended: SubmissionOutcome, assets: int, failed: str, passed: int) -> None:
    reason = Problem("SomeError", "It is so.")
    there, told, untold = shown(archive_report(replace(ended, reasons=(reason,)), STAGING))
    assert there == ["zip_downloads", "xml_documents", "validated_documents"][:assets]
    assert told == {failed: False}
    assert untold == dict(list(PASSED.items())[:passed])


def test_a_valid_zip_action_materialises_all_and_tells_of_no_check() -> None:
    documents = (document("a.xml", Phase.XSD, Status.DONE),)
    report = archive_report(outcome(Phase.XSD, Status.DONE, documents=documents), STAGING)
    there, told, untold = shown(report)
    assert there == ["zip_downloads", "xml_documents", "validated_documents"]
    assert (told, untold) == ({}, PASSED)
    assert report.partition == "add/H.2013-10-31.1.impc.zip"
    assert report.timestamp == 1795262400.0
    metadata = report.materialised[0].metadata
    assert (metadata["bytes"], metadata["MD5"], metadata["attempts"]) == (1234, "a" * 32, 2)
    assert metadata["archive"].value == "/staging/add/H.2013-10-31.1.impc.zip"  # type: ignore[union-attr]


def test_the_first_documents_are_linked_where_they_were_unpacked() -> None:
    names = [f"H.2013-10-31.1.{number}<b>.xml" for number in range(12)]
    documents = tuple(document(name, Phase.XSD, Status.DONE) for name in names)
    (unpacked,) = [
        one.metadata
        for one in archive_report(outcome(Phase.XSD, Status.DONE, documents=documents), STAGING).materialised
        if one.asset == XML_DOCUMENTS
    ]
    listed = unpacked["first documents"]
    assert isinstance(listed, TableMetadataValue)
    assert [record.data["document"] for record in listed.records] == names[:10]
    linked = unpacked["XML"]
    assert isinstance(linked, MarkdownMetadataValue)
    assert (linked.value or "").count("/dcc/documents/add/H.2013-10-31.1.impc.zip/") == 10
    assert "<b>" not in (linked.value or "")


def test_a_download_that_failed_gives_the_last_reason_and_lists_all() -> None:
    reasons = (Problem("LoginRefusedError", "first"), Problem("SourceTimeoutError", "last"))
    verdict = failing(archive_report(outcome(Phase.DOWNLOAD, Status.FAILED, reasons=reasons, md5=None), STAGING))
    assert verdict.description == "last"
    assert rows(verdict, "reasons") == [
        {"error": "LoginRefusedError", "message": "first"},
        {"error": "SourceTimeoutError", "message": "last"},
    ]
    assert verdict.metadata["phase"] == "download"
    assert verdict.kinds == {"LoginRefusedError", "SourceTimeoutError"}


def test_documents_that_failed_come_first_and_only_their_errors_are_listed() -> None:
    documents = (
        document("fine.xml", Phase.XSD, Status.DONE),
        document("bad.xml", Phase.XSD, Status.FAILED, Problem("SchemaViolationError", "wrong", 7, 3)),
        document("cut.xml", Phase.XSD, Status.FAILED, Problem("NotWellFormedError", "ends early", 9)),
    )
    verdict = failing(archive_report(outcome(Phase.XSD, Status.FAILED, documents=documents), STAGING))
    assert verdict.description == "2 of 3 documents failed validation. First: bad.xml, line 7, column 3: wrong"
    assert [row["document"] for row in rows(verdict, "documents")] == ["bad.xml", "cut.xml", "fine.xml"]
    assert rows(verdict, "errors") == [
        {"document": "bad.xml", "line": 7, "column": 3, "message": "wrong"},
        {"document": "cut.xml", "line": 9, "column": "", "message": "ends early"},
    ]
    _, told, _ = shown(archive_report(outcome(Phase.XML_NAME, Status.FAILED, documents=(ODD, *documents)), STAGING))
    assert told == {"xml_name": False, "xsd": False}


def test_long_lists_are_cut_and_it_is_said_by_how_much() -> None:
    errors = [Problem("SchemaViolationError", f"wrong {n}", n, 1) for n in range(1, ERRORS_SHOWN + 31)]
    documents = [document("bad.xml", Phase.XSD, Status.FAILED, *errors)]
    documents += [document(f"{n}.xml", Phase.XSD, Status.DONE) for n in range(DOCUMENTS_SHOWN)]
    verdict = failing(archive_report(outcome(Phase.XSD, Status.FAILED, documents=tuple(documents)), STAGING))
    assert (len(rows(verdict, "errors")), verdict.metadata["errors not shown"]) == (ERRORS_SHOWN, 30)
    assert (len(rows(verdict, "documents")), verdict.metadata["documents not shown"]) == (DOCUMENTS_SHOWN, 1)


def rows(verdict: CheckVerdict, name: str) -> list[dict[str, Any]]:
    table = verdict.metadata[name]
    assert isinstance(table, TableMetadataValue)
    return [dict(record.data) for record in table.records]


def crawl(
    outcome: CrawlOutcome, error: Problem | None = None, notes: tuple[str, ...] = (), then: str = ""
) -> SourceCrawl:
    counts = dict.fromkeys(("listed", "new", "known", "changed", "refused", "ignored", "gone"), 0)
    source = {"source_id": 1, "partition": "H-1", "label": "file source 1", "centre": "H"}
    ended = {"outcome": outcome, "error": error, "seconds": 1.0, "finished": utc_now(), "notes": notes, "then": then}
    return SourceCrawl(**source | ended | counts)


def test_what_is_being_uploaded_is_beside_the_listing() -> None:
    (materialised,) = source_report(crawl(CrawlOutcome.OK, notes=("add/H.zip is being uploaded.",))).materialised
    records = materialised.metadata["findings"].records  # type: ignore[union-attr]
    assert [row.data["finding"] for row in records] == ["add/H.zip is being uploaded."]


def test_the_name_of_an_archive_that_was_found_is_accepted_or_refused_and_nothing_was_tried() -> None:
    refused = SubmissionKey(Action.ADD, "bad name.zip")
    found = replace(
        crawl(CrawlOutcome.OK), accepted_zips=(KEY,), new_zips=(refused,), refused_zips=((refused, "It has a blank."),)
    )
    failed, accepted = found_archive_reports(found, STAGING)
    assert shown(accepted) == (["zip_actions"], {}, {"zip_name": True})
    assert "first listed" not in accepted.materialised[0].metadata, "It was refused before."
    assert accepted.verdicts[0].description == f"{KEY.file_name} follows the naming convention."
    assert shown(failed) == ([], {"zip_name": False}, {})
    told = failing(failed).metadata
    assert (told["reason"], told["file source"]) == ("It has a blank.", "file source 1")
    assert not {"attempts", "seconds", "bytes"} & set(told)


ALONE = "failed 3 times in a row, left alone until 2026-11-01 13:00 UTC"


@pytest.mark.parametrize(
    ("ended", "kind", "reason", "then", "again"),
    [
        (CrawlOutcome.PARTIAL, "ListingShrunkError", "add is gone, and held 5", "", "The next session tries again."),
        (CrawlOutcome.FAILED, "LoginError", "refused", "", "The next session tries again."),
        (CrawlOutcome.FAILED, "LoginError", "refused", ALONE, f"At present: {ALONE}."),
    ],
)
def test_a_source_that_could_not_be_listed_is_a_failed_check_that_says_why_and_what_comes_next(
    ended: CrawlOutcome, kind: str, reason: str, then: str, again: str
) -> None:
    report = source_report(crawl(ended, Problem(kind, reason), then=then))
    assert report.materialised == ()
    verdict = failing(report)
    assert verdict.metadata["reason"] == verdict.description == reason
    assert verdict.metadata["What to do"] == f"Test the connection step by step: `dcc source test`. {again}"


NAMES = [
    "H.2013-10-31.1.impc.zip",
    "[here](javascript:alert(1)).zip",
    "![](x)<svg onload=alert(1)>.zip",
    "a b?c#d&e=f%2e%2e.zip",
    "\u202etwo\nlines\ud800 | `x` \\ ~.zip",
    "x" * 200 + ".zip",
]
PLAIN = re.compile(r"[A-Za-z0-9/_.~%?=&-]+")


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_a_path_of_this_server_in_characters_that_mean_nothing_in_markdown(name: str) -> None:
    key = SubmissionKey(Action.ADD, name)
    page = page_of_partition(AssetKey("zip_downloads"), key.partition)
    for path in (report_of_submission(key), report_of_centre(name), picture_of_centre(name, 1), page):
        assert PLAIN.fullmatch(path), path
        assert path.startswith("/")
        assert not path.startswith("//")
        assert path.count("?") <= 1
    assert unquote(report_of_submission(key), errors="surrogatepass") == f"/dcc/reports/{key.partition}"
    assert unquote(page.partition("&partition=")[2], errors="surrogatepass") == key.partition

    made = links([("Report", report_of_submission(key)), ("Download", page)])
    assert re.fullmatch(rf"\[Report\]\({PLAIN.pattern}\) · \[Download\]\({PLAIN.pattern}\)", made.md_str)
    shown = pictures([("Weights", picture_of_centre(name, 3))])
    assert re.fullmatch(rf"!\[Weights\]\(/dcc/pictures/centre/{PLAIN.pattern}/3\.png\)", shown.md_str)
