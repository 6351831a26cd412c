"""`dcc hold`, `release`, `cancel` and `acknowledge`: many submissions at once, and what sessions make of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Dcc
from tests.support.installations import specimens

pytestmark = pytest.mark.both_databases

NAMES = [f"add/H.2013-10-31.{number}.impc.zip" for number in (1, 2, 3)]
BAD = "add/H.2013-11-01.1.impc.zip"


@pytest.fixture
def listed(dcc: Dcc) -> Dcc:
    """Three valid archives that wait for their download."""
    folder = dcc.add_folder()
    for number, name in enumerate(NAMES, start=1):
        folder.put(name, specimens(stem=f"2013-10-31.{number}"))
    dcc("crawl", "--until", "zip_name")
    return dcc


def states(dcc: Dcc, *options: str) -> dict[str, str]:
    return {
        f"{one['action']}/{one['file_name']}": f"{one['phase']} {one['status']}" for one in dcc.json("zips", *options)
    }


def test_a_session_leaves_alone_what_is_on_hold_until_it_is_released(listed: Dcc, tmp_path: Path) -> None:
    names = tmp_path / "list.txt"
    names.write_text(f"# two\n{NAMES[0]}\n\n{NAMES[1].removeprefix('add/')}\n", "utf-8")
    dry = listed("hold", "--file", names, "--reason", "wait", "--dry-run").stdout
    assert NAMES[0] in dry
    assert "2 zip actions would be put on hold." in dry
    assert states(listed, "--on-hold") == {}
    assert listed.json("hold", "--file", names, "--reason", "wait") == {
        "zips": NAMES[:2],
        "left_out": [],
        "dry_run": False,
    }
    again = listed("hold", NAMES[0], "--reason", "wait").stdout
    assert again == "0 zip actions put on hold.\n1 left out: on hold already.\n"
    listed("crawl")
    assert states(listed) == dict(zip(NAMES, ["zip_name done", "zip_name done", "xsd done"], strict=True))
    assert list(states(listed, "--on-hold")) == NAMES[:2]
    assert listed.json("status")["on_hold"] == 2
    assert "is on hold" in listed.error("retry", NAMES[0], exit_code=2)
    listed("release", "--name", "*.1.impc.zip")
    listed("crawl")
    assert set(states(listed, "--status", "done", "--phase", "xsd")) == {NAMES[0], NAMES[2]}
    (made,) = listed.json("show", NAMES[0])["decisions"]
    assert (made["kind"], made["reason"], made["revoked"] is None) == ("hold", "wait", False)
    assert "hold, " in listed("show", NAMES[1]).stdout


def test_what_is_cancelled_is_taken_up_only_by_a_retry(listed: Dcc) -> None:
    assert listed.json("cancel", "--centre", "H", "--reason", "sent again")["zips"] == NAMES
    listed("crawl")
    assert set(states(listed).values()) == {"zip_name cancelled"}
    assert listed.json("show", NAMES[0])["reopenings"][0]["reason"] == "Cancelled: sent again"
    assert "The archive was withdrawn" in listed("report", NAMES[0]).stdout
    listed("retry", NAMES[0])
    assert states(listed, "--status", "done") == {NAMES[0]: "xsd done"}
    assert " 0 failed" in listed("doctor", "--deep", "--no-sources").stdout


def test_what_is_hopeless_waits_for_nobody_until_that_is_revoked(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put(NAMES[0])
    folder.put(BAD, b"no archive")
    dcc("crawl", exit_code=1)
    options = ("--code", "corrupt-archive", "--status", "failed", "--since", "2013-01-01")
    assert "No error or rule has the id 'corrupt'" in dcc.error("zips", "--code", "corrupt", exit_code=2)
    assert "filters such as --centre" in dcc("acknowledge", "--reason", "x", exit_code=2).stderr
    assert "1 left out: not failed." in dcc("acknowledge", NAMES[0], "--reason", "x").stdout
    assert dcc.json("acknowledge", *options, "--reason", "its server is gone")["zips"] == [BAD]
    assert states(dcc, "--status", "failed") == {}
    assert list(states(dcc, "--acknowledged")) == [BAD]
    assert dcc.json("status")["acknowledged"] == 1
    assert "1 zip action acknowledged: dcc zips --acknowledged" in dcc("status").stdout
    dcc("acknowledge", BAD, "--revoke")
    assert list(states(dcc, "--status", "failed")) == [BAD]
    dcc("acknowledge", BAD, "--reason", "again")
    folder.put(BAD, specimens(stem="2013-11-01.1"), modified=1_500_000_000)
    dcc("crawl")
    assert states(dcc)[BAD] == "xsd done"
    assert [made["revoked_by"] for made in dcc.json("show", BAD)["decisions"]][1] == "crawl"
