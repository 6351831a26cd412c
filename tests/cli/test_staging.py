"""`dcc staging`: what it says and removes, and how it ends."""

import pytest

from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

ZIP = "add/H.2013-10-31.1.impc.zip"
BROKEN = "add/H.2013-10-31.2.impc.zip"
pytestmark = only_sqlite


@pytest.fixture
def crawled(dcc: Dcc) -> Dcc:
    folder = dcc.add_folder()
    folder.put(ZIP)
    folder.put(BROKEN, b"no zip")
    dcc("crawl", exit_code=1)
    return dcc


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


def test_what_was_removed_is_told_and_in_the_story_and_what_is_not_known_stays(crawled: Dcc) -> None:
    cleaned = crawled.json("staging", "clean", "--keep-failed-days", 0, "--yes")
    assert (cleaned["dry_run"], cleaned["bytes"], [one["place"] for one in cleaned["removed"]]) == (False, 6, [BROKEN])
    assert "Removed 0 entries of 0 B" in crawled("staging", "clean", "--keep-failed-days", 0, "--yes").stdout
    assert "Removed from staging" in crawled("show", BROKEN).stdout
    assert f"dcc retry {BROKEN}" in crawled.json("show", BROKEN)["removals"][0]["message"]
    (crawled.root / "home" / "staging" / "notes\x1b.txt").write_text("mine")
    result = crawled("staging", "clean", "--yes")
    assert "1 thing in staging (4 B): notes\\x1b.txt" in result.stderr
    assert len(crawled.json("staging", "list")["unknown"]) == 1
    assert len(crawled.json("staging", "clean", "--unknown", "--yes")["removed"]) == 1
    assert crawled.json("staging", "list")["unknown"] == []
