"""`dcc archive` and `dcc staging`: what is stored of submissions, what is in order there, and what is removed."""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from dcc.archives import entries, extraction
from dcc.cli.demo import submissions
from dcc.runtime.clock import utc_now
from dcc.tracker.models import StoredArchive
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import Folder, specimens, until_the_next_second
from tests.support.s3_server import Bucket

ZIP = "add/H.2013-10-31.1.impc.zip"


@only_sqlite
def test_copies_are_audited_repaired_and_named_when_they_are_lost(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    content = folder.put(ZIP)
    dcc("crawl")
    assert "No copy was audited so far." in dcc("archive", "status", "--audits").stdout
    shown = dcc.json("archive", "status")
    assert (shown["archives"], shown["bytes"], shown["week"]["archives"]) == (1, len(content), 1)
    assert shown["replicas"][0]["copies"]["good"] == {"archives": 1, "size_bytes": len(content)}
    dcc.change_tracker(update(StoredArchive).values(created=utc_now() - timedelta(days=10)))
    shown = dcc.json("archive", "status")
    assert (shown["archives"], shown["bytes"], shown["week"]) == (1, len(content), {"archives": 0, "bytes": 0})
    size = f"{len(content)} B"
    assert dcc("archive", "status").stdout.startswith(f"1 archive, {size}; 0 of 0 B in the last 7 days.\n")
    assert f"1 archive of {size}, 0 B of the last 7 days." in dcc("status").stdout
    (copy,) = (dcc.home / "archive").glob("??/*")
    copy.write_bytes(b"other")
    assert "read 1; 1 bad, 0 missing, 1 repaired." in dcc("archive", "audit", "--all").stdout
    copy.unlink()
    (folder.path / ZIP).unlink()
    shutil.rmtree(dcc.home / "staging")
    lost = dcc.json("archive", "audit", "--all", exit_code=1)["lost"]
    assert lost == [{"sha256": copy.name, "size_bytes": len(content), "archives": [ZIP]}]
    history = dcc.json("archive", "status", "--audits")
    assert [(one["copies"], one["bad"], one["missing"], one["repaired"]) for one in history] == [
        (1, 0, 1, 0),
        (1, 1, 0, 1),
    ]
    assert len(dcc("archive", "status", "--audits", "--limit", 1).stdout.splitlines()) == 2
    assert f"No copy is good of {ZIP}" in dcc("archive", "status", exit_code=1).stderr
    assert "1 copy bad or missing; 1 archive without a good copy: dcc archive status" in dcc("status").stdout
    assert dcc.json("status")["archive_store"]["lost"] == 1
    metrics = dcc("metrics").stdout
    assert "dcc_archive_store_archives 1.0" in metrics
    assert f"dcc_archive_store_bytes {float(len(content))}" in metrics
    assert "dcc_archive_store_lost_archives 1.0" in metrics
    folder.put(ZIP, content)
    assert dcc.json("archive", "repair")["audits"][0]["repaired"] == 1
    assert "No copy is known to be bad" in dcc("archive", "repair").stdout
    assert "no replica of the archive store" in dcc("archive", "audit", "--replica", "/x", exit_code=2).stderr
    shutil.rmtree(dcc.home / "archive")
    (dcc.home / "archive").write_text("no directory")
    dcc("archive", "audit", "--all", exit_code=4)


@only_sqlite
@pytest.mark.parametrize("command", ["audit", "repair"])
def test_a_replica_that_takes_no_copies_is_told_by_the_exit_code(dcc: Dcc, command: str) -> None:
    dcc.collect(ZIP)
    absent = dcc.root / "absent"
    dcc.environment["DCC_ARCHIVE_REPLICAS"] = f"{dcc.root / 'home' / 'archive'}, {absent}"
    assert f"The archive store lacks copies in {absent}" in dcc("archive", command, exit_code=4).stderr


MICE, RESULTS = "H.2013-10-31.1.specimen.impc.xml", "H.2013-10-31.2.experiment.impc.xml"
DOCUMENTS = {
    MICE: submissions.specimen_document("H", mice=2).replace(b"<mouse ", b"<!-- a comment -->\n\n   <mouse  ", 1),
    RESULTS: submissions.experiment_document("H", animals=2),
}
INNER = submissions.archive({f"results/{RESULTS}": DOCUMENTS[RESULTS], "a/more.txt": b"1", "b/more.txt": b"2"})


@pytest.fixture
def folder(dcc: Dcc) -> Folder:
    """An archive with a document at the top and one in an archive inside it, which a session took."""
    dcc.environment["DCC_UNTIL"] = "qc"
    folder = dcc.add_folder()
    folder.put(ZIP, {MICE: DOCUMENTS[MICE], "inner.zip": INNER, "notes.txt": b"\x1b[2J"})
    dcc("crawl", exit_code=0)
    return folder


def test_every_attempt_is_listed_and_fetched_and_files_are_streamed(dcc: Dcc, folder: Folder, tmp_path: Path) -> None:
    first = (folder.path / ZIP).read_bytes()
    until_the_next_second()
    second = folder.put(ZIP, specimens(mice=5), modified=1_500_000_000)
    dcc("crawl", exit_code=1)
    assert "no longer holds" not in dcc("show", ZIP).stdout
    dcc("data", "undo", ZIP, "--reason", "changed")
    dcc("retry", ZIP)
    assert f"dcc retry {ZIP} (no longer holds)" in dcc("show", ZIP).stdout
    told = dcc.json("archive", "list", ZIP)
    digests = [hashlib.sha256(each).hexdigest() for each in (first, second)]
    assert [one["sha256"] for one in told["attempts"]] == digests
    attempt = told["attempts"][0]["id"]
    files = dcc.json("archive", "list", ZIP, "--attempt", attempt)["files"]
    assert {one["path"]: one["size_bytes"] for one in files} == {
        MICE: len(DOCUMENTS[MICE]),
        "inner.zip": len(INNER),
        f"inner.zip/results/{RESULTS}": len(DOCUMENTS[RESULTS]),
        "inner.zip/a/more.txt": 1,
        "inner.zip/b/more.txt": 1,
        "notes.txt": 4,
    }
    assert digests[0] in dcc("archive", "list", digests[0]).stdout
    for name, content in DOCUMENTS.items():
        assert dcc("archive", "cat", digests[0], name).stdout_bytes == content
    assert dcc("archive", "cat", digests[0], f"inner.zip/./results/{RESULTS}").stdout_bytes == DOCUMENTS[RESULTS]
    assert dcc("archive", "cat", ZIP).stdout_bytes == second
    output = tmp_path / "copy.zip"
    dcc("archive", "get", ZIP, "--attempt", attempt, "--output", output)
    assert output.read_bytes() == first
    assert "exists" in dcc.error("archive", "get", ZIP, "--output", output, exit_code=2)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "link exists." in dcc.error("archive", "get", ZIP, "--output", tmp_path / "link", exit_code=2)
    said = dcc.error("archive", "cat", digests[0], "more.txt", exit_code=2)
    assert "several files named more.txt: inner.zip/a/more.txt, inner.zip/b/more.txt" in " ".join(said.split())
    assert "no file 'none.xml'" in dcc.error("archive", "cat", ZIP, "none.xml", exit_code=2)
    assert "no attempt 99" in dcc.error("archive", "cat", ZIP, "--attempt", "99", exit_code=2)
    assert "No download brought" in dcc.error("archive", "list", "add/X.zip", exit_code=2)
    cleaned = dcc.json("staging", "clean", "--keep-days", 0, "--yes")
    assert [one["place"] for one in cleaned["removed"]] == [ZIP]
    dcc("archive", "get", ZIP, "--output", tmp_path / "cleaned.zip")
    assert (tmp_path / "cleaned.zip").read_bytes() == second
    assert list(dcc.home.glob(".access-*")) == []


def test_attempts_are_listed_if_the_last_one_is_lost_or_no_archive(dcc: Dcc, folder: Folder) -> None:
    first = (folder.path / ZIP).read_bytes()
    folder.put(ZIP, b"no archive", modified=1_500_000_000)
    dcc("crawl", exit_code=1)
    dcc("data", "undo", ZIP, "--reason", "changed")
    dcc("retry", ZIP, exit_code=1)
    told = dcc.json("archive", "list", ZIP, exit_code=1)
    assert [one["size_bytes"] for one in told["attempts"]] == [len(first), len(b"no archive")]
    assert told["files"] is None
    assert "neither a zip nor a tar archive" in told["problem"]
    shutil.rmtree(dcc.home / "archive")
    shutil.rmtree(dcc.home / "staging")
    shown = dcc("archive", "list", ZIP, exit_code=1)
    assert all(one["sha256"] in shown.stdout for one in told["attempts"])
    assert "Neither the archive store nor staging has the bytes" in shown.stderr


def test_archives_come_from_a_bucket_within_the_limits(dcc: Dcc, bucket: Bucket) -> None:
    dcc.environment |= bucket.access | {"DCC_ARCHIVE_REPLICAS": f"s3://{bucket.name}/kept"}
    dcc.collect({ZIP: DOCUMENTS})
    shutil.rmtree(dcc.home / "staging")
    for name, content in DOCUMENTS.items():
        assert dcc("archive", "cat", ZIP, name).stdout_bytes == content
    dcc.environment["DCC_MAX_ARCHIVE_ENTRIES"] = "1"
    refused = dcc.error("archive", "cat", ZIP, MICE, exit_code=1)
    assert "1 are allowed" in refused
    assert Path(ZIP).name in refused


@pytest.mark.both_databases
def test_a_document_is_printed_rebuilt_and_compared(dcc: Dcc, folder: Folder) -> None:
    for name, content in DOCUMENTS.items():
        assert dcc("data", "document", name).stdout_bytes == content
        assert dcc("data", "document", name, "--diff").stdout == ""
        rebuilt = dcc("data", "document", name, "--rebuilt").stdout
        assert rebuilt.startswith("<?xml")
        assert "a comment" not in rebuilt
    (mouse,) = dcc.json("data", "record", "specimen", "H-M000001", "--centre", "H")
    assert (mouse["zip_action"], mouse["place"], mouse["is_current"]) == (ZIP, MICE, True)
    assert DOCUMENTS[MICE].splitlines()[mouse["line"] - 1].lstrip().startswith(b"<mouse")
    assert mouse["sha256"] == hashlib.sha256((folder.path / ZIP).read_bytes()).hexdigest()
    with_experiments = dcc.json("data", "history", "--centre", "H", "--specimen", "H-M000001")
    experiment = next(one["entity_key"][1] for one in with_experiments if one["entity_kind"] == "experiment")
    said = dcc("data", "record", "experiment", experiment, "--centre", "H").stdout
    assert f"{ZIP}, inner.zip/results/{RESULTS}, line " in said
    assert "<specimenID>H-M000001</specimenID>" in said
    assert "no current specimen 'NONE'" in dcc.error("data", "record", "specimen", "NONE", "--centre", "H", exit_code=2)
    assert "no document '999'" in dcc.error("data", "document", "999", exit_code=2)


@only_sqlite
def test_differences_are_shown_and_what_the_store_lost_comes_from_staging(dcc: Dcc, folder: Folder) -> None:
    (mouse,) = dcc.json("data", "record", "specimen", "H-M000001", "--centre", "H")
    dcc.environment["DCC_ARCHIVE_REPLICAS"] = str(dcc.root / "empty")
    (dcc.root / "empty").mkdir()
    assert dcc("data", "document", mouse["document_id"]).stdout_bytes == DOCUMENTS[MICE]
    with sqlite3.connect(dcc.environment["DCC_QC_URL"].partition(":///")[2]) as qc:
        qc.execute("UPDATE specimen SET litter_id = 'other' WHERE specimen_id = 'H-M000001'")
    told = dcc("data", "document", mouse["document_id"], "--diff", exit_code=1).stdout.splitlines()
    assert told[0] == f"line {mouse['line']}:"
    assert [line[0] for line in told[1:] if "litterId" in line] == ["-", "+"]
    shutil.rmtree(dcc.home / "staging")
    assert "--rebuilt" in dcc.error("data", "document", mouse["document_id"], exit_code=2)
    assert "neither" in dcc.error("archive", "cat", ZIP, exit_code=1).lower()


@only_sqlite
def test_archives_inside_one_of_staging_are_unpacked_elsewhere(
    dcc: Dcc, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that was killed left them in staging, where no cleaning knew them."""
    dcc.environment["DCC_ARCHIVE_REPLICAS"] = str(dcc.root / "empty")
    (dcc.root / "empty").mkdir()
    staging = dcc.home / "staging"
    before, meanwhile = sorted(staging.rglob("*")), []

    def write_pieces(pieces: Iterator[bytes], path: Path) -> str:
        meanwhile.append(sorted(staging.rglob("*")))
        return entries.write_pieces(pieces, path)

    monkeypatch.setattr(extraction, "write_pieces", write_pieces)
    dcc("archive", "list", ZIP)
    dcc("archive", "cat", ZIP, RESULTS)
    assert meanwhile == [before] * 2


def test_a_document_that_was_made_of_a_table_is_made_again_when_staging_has_none(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    dcc.environment["DCC_UNTIL"] = "qc"
    dcc("example", folder.path, "--format", "csv")
    dcc("crawl", exit_code=0)
    name = "H.2013-10-31.1.specimen.impc.xml"
    made = dcc("data", "document", name).stdout
    shutil.rmtree(dcc.home / "staging")
    assert dcc("data", "document", name).stdout == made
    dcc("data", "document", name, "--diff", exit_code=0)


def test_a_document_that_is_not_valid_is_printed_by_its_name(dcc: Dcc, folder: Folder) -> None:
    name, content = "H.2013-11-01.1.specimen.impc.xml", b"<centreSpecimenSet><none/></centreSpecimenSet>"
    folder.put("add/H.2013-11-01.1.impc.zip", {name: content})
    dcc("crawl", exit_code=1)
    assert dcc("data", "document", name).stdout_bytes == content
    told = dcc.error("data", "document", name, "--rebuilt", exit_code=2)
    assert f"The QC database has no document '{name}'" in told
    assert "dcc archive cat" in dcc.error("data", "document", "none.xml", exit_code=2)


def test_a_document_that_was_refused_is_rebuilt_and_one_whose_data_are_there_is_not(dcc: Dcc, folder: Folder) -> None:
    """The rows of the former are kept; the latter, a duplicate, has none."""
    refused, duplicate = (f"H.2013-11-0{day}.1.specimen.impc.xml" for day in (1, 2))
    folder.put("add/H.2013-11-01.1.impc.zip", {refused: submissions.specimen_document("H", mice=1)})
    folder.put("add/H.2013-11-02.1.impc.zip", {duplicate: DOCUMENTS[MICE]})
    dcc("crawl", exit_code=1)
    assert "<mouse" in dcc("data", "document", refused, "--rebuilt").stdout
    dcc("data", "document", refused, "--diff")
    for option in ("--rebuilt", "--diff"):
        told = dcc.error("data", "document", duplicate, option, exit_code=2)
        assert "The QC database has no data of document" in told


BROKEN = "add/H.2013-10-31.2.impc.zip"


@pytest.fixture
def crawled(dcc: Dcc) -> Dcc:
    dcc.collect({ZIP: None, BROKEN: b"no zip"}, exit_code=1)
    return dcc


@only_sqlite
def test_staging_is_listed_and_nothing_is_removed_without_yes(crawled: Dcc) -> None:
    listed = crawled.json("staging", "list", "--keep-failed-days", 0)
    assert [(g["centre"], g["phase"], g["status"], g["zip_actions"]) for g in listed["groups"]] == [
        ("H", "unzip", "failed", 1),
        ("H", "xsd", "done", 1),
    ]
    assert (listed["removable_bytes"], listed["unknown"]) == (6, [])
    files = crawled.json("staging", "list", "--files")["files"]
    assert {one["place"]: one["verdict"] for one in files} == {ZIP: "keep", BROKEN: "keep"}
    printed = crawled("staging", "list", "--keep-failed-days", 0).stdout
    assert "6 B can be removed: dcc staging clean" in printed
    assert "a document of it waits to be uploaded" in crawled("staging", "list", "--files").stdout

    for arguments in ((), ("--dry-run",)):
        said = crawled("staging", "clean", "--keep-failed-days", 0, *arguments).stdout
        assert "Would remove 1 entry of 6 B from staging; nothing was removed." in said
    assert crawled.json("staging", "clean", "--keep-failed-days", 0)["dry_run"] is True
    assert crawled.json("staging", "list")["groups"][0]["zip_actions"] == 1
    assert crawled("staging", "clean").stdout == "Nothing in staging has come to the end of its time.\n"
    assert "exclude each other" in crawled("staging", "clean", "--yes", "--dry-run", exit_code=2).stderr


@only_sqlite
def test_what_was_removed_is_told_and_in_the_story_and_what_is_not_known_stays(crawled: Dcc) -> None:
    cleaned = crawled.json("staging", "clean", "--keep-failed-days", 0, "--yes")
    assert (cleaned["dry_run"], cleaned["bytes"], [one["place"] for one in cleaned["removed"]]) == (False, 6, [BROKEN])
    assert "Removed 0 entries of 0 B" in crawled("staging", "clean", "--keep-failed-days", 0, "--yes").stdout
    assert "Removed from staging" in crawled("show", BROKEN).stdout
    assert f"dcc retry {BROKEN}" in crawled.json("show", BROKEN)["removals"][0]["message"]
    (crawled.home / "staging" / "notes\x1b.txt").write_text("mine")
    result = crawled("staging", "clean", "--yes")
    assert "1 thing in staging (4 B): notes\\x1b.txt" in result.stderr
    assert len(crawled.json("staging", "list")["unknown"]) == 1
    assert len(crawled.json("staging", "clean", "--unknown", "--yes")["removed"]) == 1
    assert crawled.json("staging", "list")["unknown"] == []
