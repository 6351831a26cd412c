"""`dcc` and its log: on standard error for programs, in a file beside what people read."""

import json
from pathlib import Path

import pytest

from dcc.runtime.logging_setup import log_plan
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

pytestmark = only_sqlite


def test_a_crawl_that_is_watched_by_a_program_says_everything_as_json(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    (folder.path / "edit").write_text("no folder")
    dcc.environment |= {"DCC_LOG_FORMAT": "json", "DCC_UNTIL": "qc", "DCC_DAGSTER_EVENTS": "true"}
    ended = dcc.forked("crawl", "--json")
    assert json.loads(ended.stdout)["session"] == 1
    entries = [json.loads(line) for line in ended.stderr.splitlines()]
    said = {entry["logger"]: entry for entry in entries}
    assert {"dcc.sessions", "dcc.crawling", "dcc.coordination", "dcc.session_data"} <= set(said)
    assert {entry["session"] for entry in entries if entry["logger"].startswith("dcc.")} == {1}
    documents = {(entry["zip_action"], entry["document"], entry["phase"]) for entry in entries if "document" in entry}
    zip_action, document = "add/H.2013-10-31.1.impc.zip", "H.2013-10-31.1.specimen.impc.xml"
    assert documents == {(zip_action, document, phase) for phase in ("upload", "data", "context", "overview", "qc")}
    (warned,) = [entry for entry in entries if entry["level"] == "warning" and "source" in entry]
    assert warned["source"] == folder.source_id
    # As it was said, without what Dagster puts before it.
    assert warned["message"].startswith("file source 1 (H, ")


def test_an_error_is_an_entry_where_a_program_reads(dcc: Dcc) -> None:
    dcc.environment["DCC_LOG_FORMAT"] = "json"
    result = dcc("show", "add/nothing.zip", exit_code=2)
    (entry,) = [json.loads(line) for line in result.stderr.splitlines()]
    assert (entry["level"], entry["logger"]) == ("error", "dcc.command")
    assert "NotFoundError: " in entry["exception"]
    assert entry["message"].startswith("(not-found) ")
    assert result.stdout == ""
    assert log_plan() is None


@pytest.mark.parametrize("form", ["text", "json"])
def test_with_a_file_people_read_what_they_always_do(dcc: Dcc, tmp_path: Path, form: str) -> None:
    path = tmp_path / "dcc.log"
    dcc.environment |= {"DCC_LOG_FORMAT": form, "DCC_LOG_FILE": str(path)}
    error = dcc.error("show", "add/nothing.zip", exit_code=2)
    logged = path.read_text()
    told = json.loads(logged)["message"] if form == "json" else logged
    assert error in told
    assert "Traceback (most recent call last)" in logged


def test_a_wrong_level_and_a_log_that_cannot_be_written_to_are_refused(dcc: Dcc, tmp_path: Path) -> None:
    for name, wanted in (("DCC_LOG_FORMAT", "text or json"), ("DCC_LOG_LEVEL", "one of debug, info, warning, error")):
        dcc.environment[name] = "loud"
        assert f"{name} is 'loud'. Set it to {wanted}." in dcc.error("status", exit_code=2)
        del dcc.environment[name]
    dcc.environment |= {"DCC_LOG_LEVEL": "info", "DCC_LOG_FILE": str(tmp_path / "missing" / "dcc.log")}
    said = dcc.error("status", exit_code=2)
    assert "missing/dcc.log cannot be written to (No such file or directory)" in said
    assert "DCC_LOG_FILE" in said
