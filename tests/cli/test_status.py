"""`dcc status`, `zips`, `show` and `sessions`: the keys that others rely on, and what a wrangler reads."""

import hashlib
import re
from datetime import timedelta
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
from sqlalchemy import update

from dcc.messages import byte_size
from dcc.runtime.clock import utc_now
from dcc.tracker.models import SessionStatistics
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite
from tests.support.installations import experiments
from tests.support.submission_world import wrong_form
from tests.support.terminals import too_wide

GOOD = "add/H.2013-10-31.1.impc.zip"
BAD = "edit/H.2013-10-31.2.impc.zip"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def crawl_faulty(dcc: Dcc) -> None:
    """Two sources that host a good zip, one of them a bad one and a wrong name too."""
    first, second = dcc.add_folder("first"), dcc.add_folder("second", "J")
    first.put(GOOD)
    second.put(GOOD)
    first.put(BAD, wrong_form("2013-10-31.2", first=1, mice=1) | experiments("H", "2013-10-31.2"))
    first.put("add/wrong.zip", b"x")
    dcc("crawl", exit_code=1)
    dcc("centre", "change", "H", "--email", "data@h.example")


def bad_bytes(dcc: Dcc) -> bytes:
    return (dcc.root / "first" / BAD).read_bytes()


@pytest.fixture(scope="module")
def crawled(shared_dcc: Dcc) -> Dcc:
    crawl_faulty(shared_dcc)
    return shared_dcc


def test_the_status_of_an_empty_tracker(dcc: Dcc) -> None:
    nothing = {"archives": 0, "bytes": 0}
    status = dcc.json("status")
    assert status.pop("archive_store") == nothing | {"week": nothing} | dict.fromkeys(
        ("pending", "bad", "missing", "lost"), 0
    )
    assert {status.pop(name) for name in ("on_hold", "quarantined", "acknowledged", "refused_gone", "proposals")} == {0}
    assert status.pop("expected") == nothing | {"seconds": None}
    assert status.pop("session") == {"active": None, "also_active": [], "last": None}
    assert status.pop("environment", "") is None
    lists = ("zip_actions", "xml_files", "sources", "held", "held_archives", "findings", "silent")
    assert status == {name: [] for name in lists}
    assert "dcc source add" in dcc("status").stdout
    assert dcc.json("zips") == []
    assert dcc.json("session", "list") == []
    assert "dcc crawl" in dcc("sessions").stdout


def test_the_status_counts_zip_actions_and_documents_and_tells_of_each_source(crawled: Dcc) -> None:
    status = crawled.json("status")
    assert " ".join(status) == (
        "environment zip_actions xml_files sources session held held_archives archive_store on_hold quarantined "
        "acknowledged refused_gone proposals findings expected silent"
    )
    assert status["zip_actions"] == [
        {"phase": "zip_name", "status": "failed", "count": 1},
        {"phase": "xsd", "status": "done", "count": 1},
        {"phase": "xsd", "status": "failed", "count": 1},
    ]
    assert status["xml_files"] == [
        {"phase": "xsd", "status": "done", "count": 2},
        {"phase": "xsd", "status": "failed", "count": 1},
    ]
    first, second = status["sources"]
    crawl = first.pop("last_crawl")
    assert first.pop("due") == {"why": "due", "until": None, "failures": 0}
    assert first.pop("expected") == {"archives": 0, "bytes": 0, "seconds": None}
    place = {"protocol": "file", "hostname": "localhost", "username": "", "base_path": str(crawled.root / "first")}
    assert first == place | {"id": 1, "centre": "H", "state": "available", "centre_active": True, "hosted": 3}
    assert TIME.fullmatch(crawl.pop("started"))
    assert TIME.fullmatch(crawl.pop("finished"))
    known = {"source": 1, "session": 1, "outcome": "ok", "error": None, "listed": 3, "new": crawl["new"], "refused": 1}
    assert crawl == known | dict.fromkeys(("known", "changed", "ignored", "gone"), 0)
    assert (second["centre"], second["hosted"]) == ("J", 1)
    assert crawl["new"] + second["last_crawl"]["new"] == 2
    assert status["session"]["active"] is None
    assert status["session"]["last"]["id"] == 1
    assert status["findings"] == []

    said = crawled("status").stdout
    lines = [re.sub(r"\s+", " ", line).strip() for line in said.splitlines()]
    for expected in ("Submissions: 3", "zip_name failed 1", "xsd done 1", "Documents: 3", "File sources"):
        assert expected in lines
    assert any(re.match(r"1 H file:///\S+ available yes 3 ok 20", line) for line in lines)
    assert any(line.startswith("Session 1: finished, 2 failed, started 20") for line in lines)


@only_sqlite
def test_failed_ones_that_nobody_has_to_act_on_are_counted_beside_the_others(dcc: Dcc) -> None:
    names = ("add/H.2013-10-31.1.impc.zip", "add/H.2013-10-31.2.impc.zip", "add/wrong.zip")
    folder = dcc.collect({name: {"results.xml": b"<a/>"} for name in names}, exit_code=1)
    dcc("acknowledge", "add/H.2013-10-31.1.impc.zip", "--reason", "sent again")
    (folder.path / "add" / "wrong.zip").unlink()
    for _ in range(2):
        dcc("crawl", "--all")
    status = dcc.json("status")
    failed = sum(one["count"] for one in status["zip_actions"] if one["status"] == "failed")
    assert (failed, status["acknowledged"], status["refused_gone"]) == (3, 1, 1)
    assert len(dcc.json("zips", "--status", "failed")) == 1
    assert "1 refused name on no source any more: dcc zips --status failed leaves" in dcc("status").stdout


def test_failed_zip_actions_are_listed_with_why_since_when_and_whom_to_write_to(crawled: Dcc) -> None:
    name, bad = crawled.json("zips", "--status", "failed")
    assert "does not follow" in name["reason"]
    # Its name has no centre: it is on a source of H.
    assert (name["centre"], name["contact"], name["since"][:2]) == (None, "data@h.example", "20")
    key = f"{name['action']}/{name['file_name']}"
    assert (
        crawled.json("show", key)["contact"]
        == crawled.json("data", "causes", "--zip", key)[0]["contact"]
        == name["contact"]
    )
    assert "centre not clear from its name (data@h.example), " in crawled("show", key).stdout
    assert '"sex"' in bad["reason"]
    assert bad["contact"] == "data@h.example"
    table = crawled("zips", "--status", "failed").stdout
    assert table.splitlines()[0].split("  ")[-1].strip() == "why"
    assert "data@h.example" in table
    assert "centre H (data@h.example), " in crawled("show", f"{bad['action']}/{bad['file_name']}").stdout


def test_the_status_names_centres_that_are_silent(crawled: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    later = utc_now() + timedelta(days=400)
    monkeypatch.setattr("dcc.operations.platform_status.utc_now", lambda: later)
    silent = crawled.json("status")["silent"]
    assert all(TIME.fullmatch(centre.pop("since")) for centre in silent)
    assert silent == [{"centre": centre, "within_days": 30} for centre in "HJ"]


def test_the_status_tells_how_long_what_is_to_be_fetched_should_take(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    size = len(folder.put(GOOD))
    dcc("crawl")
    dcc.change_tracker(update(SessionStatistics).values(seconds=75))
    for number in (3, 4):
        folder.put(f"add/H.2013-10-31.{number}.impc.zip")
    dcc("crawl", "--until", "zip_name")
    expected = {"archives": 2, "bytes": 2 * size, "seconds": pytest.approx(150)}
    status = dcc.json("status")
    assert (status["expected"], status["sources"][0]["expected"]) == (expected, expected)
    assert f"2 archives to fetch: {byte_size(2 * size)}, about 2 min\n" in dcc("status").stdout


def test_the_status_tells_of_sources_in_use_why_they_failed(dcc: Dcc, tmp_path: Path) -> None:
    for name in ("kept", "given-up"):
        dcc("source", "add", "--centre", "H", "--protocol", "file", "--base-path", str(tmp_path / name))
    dcc("crawl", exit_code=4)
    dcc("source", "remove", "2")
    said = dcc("status").stdout
    assert f"file://{tmp_path / 'kept'} " in said
    assert f" the folder {tmp_path / 'kept'} cannot be reached" in said
    assert "file source 1" not in said
    assert "given-up" not in said


@pytest.mark.both_databases
def test_zips_are_listed_with_the_keys_that_others_rely_on(dcc: Dcc) -> None:
    crawl_faulty(dcc)
    listed = dcc.json("zips")
    keys = "file_name action centre phase status sources size_bytes since contact reason on_hold counts_for waits"
    assert [" ".join(entry) for entry in listed] == [keys] * 3
    names = ("file_name", "action", "centre", "phase", "status", "sources", "size_bytes")
    refused, _, failed = (tuple(entry[name] for name in names) for entry in listed)
    assert refused == ("wrong.zip", "add", None, "zip_name", "failed", [1], 1)
    assert [entry["counts_for"] for entry in listed] == ["H"] * 3
    assert re.search(r"add/wrong.zip +H +zip_name ", dcc("zips").stdout)
    assert failed == ("H.2013-10-31.2.impc.zip", "edit", "H", "xsd", "failed", [1], len(bad_bytes(dcc)))
    assert listed[1]["sources"] == [1, 2]
    for options, expected in (
        # One of whose name is refused is of the centre on whose source it is.
        (["--centre", "H"], 3),
        (["--centre", "J"], 0),
        (["--action", "edit"], 1),
        (["--phase", "xsd"], 2),
        (["--status", "failed"], 2),
        (["--centre", "H", "--action", "add", "--phase", "xsd", "--status", "done"], 1),
    ):
        assert len(dcc.json("zips", *options)) == expected
    assert dcc.json("zips", "--centre", "H")[1]["sources"] == [1, 2]
    result = dcc("zips", "--status", "failed")
    assert BAD in result.stdout
    assert result.stderr == "2 submissions.\n"
    assert "No centre 'X'" in dcc.error("zips", "--centre", "X", exit_code=2)
    assert "no crawl has seen it" in dcc.error("show", "add/nonsense.zip", exit_code=2)
    assert f"The tracker knows {BAD}" in dcc.error("show", BAD.replace("edit", "add"), exit_code=2)
    assert "<action>/<file name>" in dcc.error("show", "nothing.zip", exit_code=2)
    assert "<action>/<file name>" in dcc.error("show", "put/x.zip", exit_code=2)


def test_of_zips_that_wait_is_listed_what_they_wait_for(dcc: Dcc) -> None:
    dcc.add_folder().put(GOOD)
    dcc("crawl", "--until", "zip_name")
    assert [one["waits"] for one in dcc.json("zips")] == [["The present or the next session fetches it."]]
    dcc("source", "pause", "1", "--reason", "a move")
    (entry,) = dcc.json("zips", "--centre", "H")
    (told,) = entry["waits"]
    assert "The source is paused, and is not crawled: a move." in told
    assert told.endswith("`dcc source resume` ends the pause.")
    head, line = dcc("zips").stdout.splitlines()
    assert head.endswith("  waits for")
    assert line.endswith(f"  {told}")
    assert dcc.json("show", GOOD)["waits"] == entry["waits"]
    dcc("hold", GOOD, "--reason", "for now")
    assert dcc.json("zips")[0]["waits"] == []
    assert "waits for" not in dcc("zips").stdout


def test_a_name_that_is_cut_or_in_wrong_case_gets_the_nearest_ones(crawled: Dcc) -> None:
    for given, nearest in (
        ("H.2013-10-31.2", BAD),
        ("h.2013-10-31.1.impc.zip", GOOD),
        ("add/H.2013-10-31.1.impc", GOOD),
        ("edit/H.2013-11-31.2.impc.zip", BAD),
    ):
        assert f"The nearest: {nearest}" in crawled.error("show", given, exit_code=2)
    assert "nearest" not in crawled.error("show", "nothing.zip", exit_code=2)


@pytest.mark.parametrize("published", [False, True], ids=["damaged", "not as published"])
def test_the_story_of_a_zip_tells_at_which_source_its_copy_is_bad(dcc: Dcc, published: bool) -> None:
    own, mirror = dcc.add_folder(), dcc.add_folder("mirror")
    good = mirror.put(GOOD)
    bad = b"#" * len(good)
    own.put(GOOD, bad)
    if published:
        (own.path / f"{GOOD}.md5").write_text(hashlib.md5(good).hexdigest())
    dcc("crawl")
    first, second = dcc.json("show", GOOD)["hosts"]
    assert TIME.fullmatch(first["bad"].pop("since"))
    fault = "checksum" if published else "damaged"
    assert (first["bad"], second["bad"]) == ({"md5": hashlib.md5(bad).hexdigest(), "fault": fault}, None)
    told = dcc("show", GOOD).stdout.partition("Hosted by")[2].splitlines()
    assert told[1].lstrip().startswith("file source 1 (H, file://localhost)")
    assert told[2].lstrip().startswith("bad copy, known since ")
    assert hashlib.md5(bad).hexdigest() in told[2]
    assert ("is not the one published" if published else "damaged") in told[2]
    assert "bad copy" not in "".join(told[3:])
    own.put(GOOD, good, modified=1_500_000_000)
    dcc("crawl", exit_code=1)
    assert [host["bad"] for host in dcc.json("show", GOOD)["hosts"]] == [None, None]
    assert "bad copy" not in dcc("show", GOOD).stdout


def test_long_errors_of_a_story_are_broken_on_a_terminal_alone(
    crawled: Dcc,
) -> None:
    (whole,) = (line for line in crawled("show", BAD).stdout.splitlines() if '"sex"' in line)
    assert len(whole) > 100
    shown = crawled.on_a_terminal(70, "show", BAD)
    first, *further = dropwhile(lambda line: not line.startswith("  line 4, column 5: "), shown)
    told = [first, *takewhile(lambda line: line.startswith("      "), further)]
    assert max(map(len, told)) <= 70
    assert " ".join(line.strip() for line in told) == whole.strip()


@pytest.mark.parametrize("columns", [50, 80])
def test_lists_and_texts_fit_a_narrow_terminal(crawled: Dcc, columns: int) -> None:
    for command in (
        ["status"],
        ["zips"],
        ["session", "list"],
        ["session", "show", "1"],
        ["show", GOOD],
        ["report", BAD],
        ["data", "causes"],
        ["source", "list"],
        ["centre", "list"],
        ["explain", "xsd"],
        ["explain"],
        ["rules", "list"],
    ):
        shown = crawled.on_a_terminal(columns, *command)
        assert shown, command
        assert too_wide(shown, columns) == [], command


def test_on_a_narrow_terminal_failed_submissions_have_a_line_and_their_whole_reason_below(crawled: Dcc) -> None:
    (why,) = (one["reason"] for one in crawled.json("zips", "--status", "failed") if one["file_name"] == "wrong.zip")
    assert why in crawled("zips", "--status", "failed").stdout
    shown = crawled.on_a_terminal(80, "zips", "--status", "failed")
    assert max(map(len, shown)) <= 80
    assert shown[0].split() == ["submission", "phase", "since", "write", "to"]
    assert any(re.fullmatch(r"edit/H\.2013-10-31\.2\.impc\.zip +xsd +\S+ \S+ +data@h\.example", line) for line in shown)
    assert why in " ".join(line.strip() for line in shown)


def test_the_story_of_a_zip_has_every_attempt_document_and_error(crawled: Dcc) -> None:
    bad = bad_bytes(crawled)
    story = crawled.json("show", BAD)
    (entry,) = crawled.json("zips", "--action", "edit")
    del entry["since"], entry["contact"], entry["reason"], entry["on_hold"], entry["counts_for"]
    assert {name: story[name] for name in entry} == entry
    assert story["md5"] == hashlib.md5(bad).hexdigest()
    assert (story["created"], story["inc"]) == ("2013-10-31", 2)
    (host,) = story["hosts"]
    assert (host["source"], host["size_bytes"], host["gone_since"]) == (1, len(bad), None)
    (download,) = story["downloads"]
    assert TIME.fullmatch(download["requested"])
    assert TIME.fullmatch(download["received"])
    assert {name: download[name] for name in ("source", "label", "bytes", "phase", "status", "reasons")} == {
        "source": 1,
        "label": "file source 1 (H, file://localhost)",
        "bytes": len(bad),
        "phase": "xsd",
        "status": "failed",
        "reasons": [],
    }
    assert story["documents"] == download["documents"]
    documents = {document["file_name"]: document for document in story["documents"]}
    good = documents["H.2013-10-31.2.experiment.impc.xml"]
    assert (good["phase"], good["status"], good["errors"]) == ("xsd", "done", [])
    wrong = documents["H.2013-10-31.2.specimen.impc.xml"]
    assert (wrong["phase"], wrong["status"]) == ("xsd", "failed")
    assert [(error["line"], error["column"]) for error in wrong["errors"]] == [(4, 5), (4, 5)]
    assert '"sex"' in wrong["errors"][0]["message"]
    assert list(wrong["errors"][0]) == ["kind", "message", "line", "column"]
    assert (story["reopenings"], story["findings"]) == ([], [])
    said = crawled("show", BAD).stdout
    assert said.startswith(f"{BAD}  xsd failed\n")
    assert re.search(
        r"Hosted by\n  file source 1 \(H, file://localhost\): .*B, first listed 20\d\d-\d\d-\d\d \d\d:\d\d\n", said
    )
    for expected in (
        "Downloads\n  20",
        "H.2013-10-31.2.specimen.impc.xml    xsd    failed",
        '  line 4, column 5: Element <mouse> may not have the attribute "sex".',
    ):
        assert expected in said
    refused = crawled.json("show", "add/wrong.zip")
    (reason,) = refused["reasons"]
    assert reason["kind"] == "BadFileNameError"
    assert "does not follow" in reason["message"]
    assert (refused["downloads"], refused["documents"], refused["centre"]) == ([], [], None)
    assert "Never downloaded." in crawled("show", "add/wrong.zip").stdout


def test_sessions_are_listed_newest_first(dcc: Dcc) -> None:
    crawl_faulty(dcc)
    dcc("crawl")
    newest, oldest = dcc.json("session", "list")
    assert (newest["id"], oldest["id"]) == (2, 1)
    assert " ".join(oldest) == "id group centres started finished outcome failed_phase tasks crawls problems"
    assert oldest["outcome"] == "finished"
    assert [task["outcome"] for task in oldest["tasks"]] == ["succeeded"] * len(oldest["tasks"])
    assert {task["phase"] for task in oldest["tasks"]} == {"zip_name", "download", "xsd"}
    assert sorted(crawl["source"] for crawl in oldest["crawls"]) == [1, 2]
    assert [entry["id"] for entry in dcc.json("session", "list", "--limit", 1)] == [2]
    assert "finished" in dcc("session", "list").stdout
    shown = dcc.json("session", "show", 1)
    assert shown.items() >= oldest.items()
    assert set(shown["seconds"]) == {"zip_name", "download", "xsd"}
    assert [one["source"] for one in shown["statistics"]] == [1, 2]
    # Ended with 1, for what was wrong with the data.
    assert oldest["problems"] == {"failed": 2, "findings": 0}
    assert dcc("session", "show", 1).stdout.startswith("Session 1: finished, 2 failed, started ")
    assert dcc("session", "show", 2).stdout.startswith("Session 2: finished, ")
    assert "finished, 2 failed" in dcc("session", "list").stdout
    assert "  crawl " in dcc("session", "show", 1).stdout
    assert "No session 99" in dcc.error("session", "show", 99, exit_code=2)
    former = dcc("sessions")
    assert "`dcc sessions` is `dcc session list` now" in former.stderr
    assert former.stdout == dcc("session", "list").stdout
