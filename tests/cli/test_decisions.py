"""`dcc hold`, `release`, `cancel` and `acknowledge`: many submissions at once, and what sessions make of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dcc.session.prepare.archive_checks import ArchiveChecker
from tests.cli.conftest import Dcc
from tests.support.installations import specimens

NAMES = [f"add/H.2013-10-31.{number}.impc.zip" for number in (1, 2, 3)]
BAD = "add/H.2013-11-01.1.impc.zip"


@pytest.fixture
def listed(dcc: Dcc) -> Dcc:
    """Three valid archives that wait for their download."""
    archives = {name: specimens(stem=f"2013-10-31.{number}") for number, name in enumerate(NAMES, start=1)}
    dcc.collect(archives, "--until", "zip_name")
    return dcc


@pytest.mark.both_databases
def test_a_session_leaves_alone_what_is_on_hold_until_it_is_released(listed: Dcc, tmp_path: Path) -> None:
    names = tmp_path / "list.txt"
    names.write_text(f"# two\n{NAMES[0]}\n\n{NAMES[1].removeprefix('add/')}\n", "utf-8")
    dry = listed("hold", "--file", names, "--reason", "wait", "--dry-run").stdout
    assert NAMES[0] in dry
    assert "2 submissions would be put on hold." in dry
    assert listed.states("--on-hold") == {}
    assert listed.json("hold", "--file", names, "--reason", "wait") == {
        "zips": NAMES[:2],
        "left_out": [],
        "dry_run": False,
    }
    again = listed("hold", NAMES[0], "--reason", "wait").stdout
    assert again == "0 submissions put on hold.\n1 left out: on hold already.\n"
    listed("crawl")
    assert listed.states() == dict(zip(NAMES, ["zip_name done", "zip_name done", "xsd done"], strict=True))
    assert list(listed.states("--on-hold")) == NAMES[:2]
    assert "(until it is released)" in listed("show", NAMES[0]).stdout.split("Hosted by")[0]
    assert listed.json("status")["on_hold"] == 2
    assert "is on hold" in listed.error("retry", NAMES[0], exit_code=2)
    listed("release", "--name", "*.1.impc.zip")
    listed("crawl")
    assert set(listed.states("--status", "done", "--phase", "xsd")) == {NAMES[0], NAMES[2]}
    (made,) = listed.json("show", NAMES[0])["decisions"]
    assert (made["kind"], made["reason"], made["revoked"] is None) == ("hold", "wait", False)
    assert "hold, " in listed("show", NAMES[1]).stdout


def test_what_is_cancelled_is_taken_up_only_by_a_retry(listed: Dcc) -> None:
    with listed.active_session():
        assert "is active" in listed.error("cancel", "--centre", "H", "--reason", "sent again", exit_code=3)
    assert listed.json("cancel", "--centre", "H", "--reason", "sent again")["zips"] == NAMES
    listed("crawl")
    assert set(listed.states().values()) == {"zip_name cancelled"}
    assert listed.json("show", NAMES[0])["reopenings"][0]["reason"] == "Cancelled: sent again"
    assert "The archive was withdrawn" in listed("report", NAMES[0]).stdout
    listed("retry", NAMES[0])
    assert listed.states("--status", "done") == {NAMES[0]: "xsd done"}
    assert " 0 failed" in listed("doctor", "--deep", "--no-sources").stdout


def test_what_is_uploaded_in_part_or_refused_for_its_name_cannot_be_cancelled(dcc: Dcc) -> None:
    dcc.environment["DCC_UNTIL"] = "qc"
    broken = {"H.2013-10-31.2.specimen.impc.xml": b"<no/>"}
    dcc.collect({NAMES[0]: specimens(stem="2013-10-31.1") | broken, "add/whatever.zip": None}, exit_code=1)
    assert dcc.states() == {NAMES[0]: "xsd failed", "add/whatever.zip": "zip_name failed"}
    answer = dcc.json("cancel", "--centre", "H", "--reason", "sent again")
    reasons = {one["zip"]: one["why"] for one in answer["left_out"]}
    assert reasons == {
        NAMES[0]: "uploaded already (`dcc data undo`)",
        "add/whatever.zip": "refused for its name",
    }


@pytest.mark.both_databases
def test_what_is_hopeless_waits_for_nobody_until_that_is_revoked(dcc: Dcc) -> None:
    folder = dcc.collect({NAMES[0]: None, BAD: b"no archive"}, exit_code=1)
    options = ("--code", "corrupt-archive", "--status", "failed", "--since", "2013-01-01")
    assert "No error or rule has the id 'corrupt'" in dcc.error("zips", "--code", "corrupt", exit_code=2)
    assert "filters such as --centre" in dcc("acknowledge", "--reason", "x", exit_code=2).stderr
    assert "1 left out: not failed." in dcc("acknowledge", NAMES[0], "--reason", "x").stdout
    assert dcc.json("acknowledge", *options, "--reason", "its server is gone")["zips"] == [BAD]
    assert dcc.states("--status", "failed") == {}
    assert list(dcc.states("--acknowledged")) == [BAD]
    assert dcc.json("status")["acknowledged"] == 1
    assert "1 submission acknowledged: dcc zips --acknowledged" in dcc("status").stdout
    dcc("acknowledge", BAD, "--revoke")
    assert list(dcc.states("--status", "failed")) == [BAD]
    dcc("acknowledge", BAD, "--reason", "again")
    folder.put(BAD, specimens(stem="2013-11-01.1"), modified=1_500_000_000)
    dcc("crawl")
    assert dcc.states()[BAD] == "xsd done"
    assert [made["revoked_by"] for made in dcc.json("show", BAD)["decisions"]][1] == "crawl"


def test_what_standard_input_names_is_decided_on_and_tried_without_a_change(dcc: Dcc) -> None:
    dcc.collect(dict.fromkeys(NAMES, b"no archive"), exit_code=1)
    dcc("hold", "--centre", "H", "--reason", "wait")
    names = "\n".join(["# two", *NAMES[:2]])
    for command, done, option, expected in (
        (("acknowledge", "--reason", "it is gone"), "acknowledged", ("--acknowledged",), NAMES[:2]),
        (("acknowledge", "--revoke"), "not acknowledged any more", ("--acknowledged",), []),
        (("release",), "released", ("--on-hold",), NAMES[2:]),
        (("cancel", "--reason", "sent again"), "cancelled", ("--status", "cancelled"), NAMES[:2]),
    ):
        before = dcc.json("zips")
        dry = dcc(*command, "--file", "-", "--dry-run", input=names).stdout.splitlines()
        assert [line.split()[0] for line in dry[1:-1]] == NAMES[:2]
        assert dry[-1] == f"2 submissions would be {done}."
        assert dcc.json("zips") == before
        assert dcc(*command, "--file", "-", input=names).stdout == f"2 submissions {done}.\n"
        assert list(dcc.states(*option)) == expected
        assert dcc(*command, "--file", "-", input="# none\n").stdout == f"0 submissions {done}.\n", "an empty list"


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The platform meets a fault with each extraction of the first archive, until this is undone."""
    extract = ArchiveChecker.extract

    def faulty(self: ArchiveChecker, archive: Path, target: Path) -> object:
        if f"add/{archive.name}" == NAMES[0]:
            raise ZeroDivisionError("oh")
        return extract(self, archive, target)

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveChecker, "extract", faulty)
        yield patched


@pytest.mark.both_databases
def test_what_meets_faults_of_the_platform_waits_in_quarantine(listed: Dcc, fault: pytest.MonkeyPatch) -> None:
    listed.environment["DCC_MAX_FAULTS"] = "2"
    for tried_again in ("by the next session", "by you: dcc retry"):
        listed("crawl", exit_code=70)
        shown = listed("zips", "--quarantine").stdout
        assert NAMES[0] in shown
        assert NAMES[1] not in shown
        assert tried_again in shown
        assert "ZeroDivisionError: oh" in shown
    listed("crawl")
    assert listed.json("status")["quarantined"] == 1
    listed("release", "--quarantine")
    listed("crawl", exit_code=70)
    assert listed.json("zips", "--quarantine")[0]["on_hold"]
    fault.undo()
    listed("retry", "--quarantine")
    assert listed.states() == dict.fromkeys(NAMES, "xsd done")
    assert listed.states("--quarantine") == {}
    kinds = [(made["kind"], made["revoked"] is None) for made in listed.json("show", NAMES[0])["decisions"]]
    assert kinds == [("quarantine", False)] * 2


@pytest.mark.both_databases
@pytest.mark.usefixtures("fault")
@pytest.mark.parametrize("user", ["session 7", "retry policy"])
def test_a_retry_counts_as_a_persons_whatever_the_name_of_the_user(listed: Dcc, user: str) -> None:
    listed.environment |= {"DCC_MAX_FAULTS": "2", "LOGNAME": user}
    listed("crawl", exit_code=70)
    listed("retry", NAMES[0], exit_code=70)
    assert listed.json("show", NAMES[0])["reopenings"][-1]["requested_by"] == f"user {user}"
    assert listed.json("status")["quarantined"] == 0


@pytest.mark.both_databases
def test_many_are_processed_again_by_filters_and_what_cannot_is_left_out(listed: Dcc) -> None:
    listed("crawl")
    listed("cancel", "--status", "done", "--reason", "uploaded nothing")
    listed("hold", NAMES[0], "--reason", "wait")
    assert listed.json("retry", "--centre", "H", "--dry-run") == {
        "zips": NAMES[1:],
        "left_out": [{"zip": NAMES[0], "why": "on hold"}],
        "dry_run": True,
    }
    said = listed("retry", "--name", "*.2013-10-31.*")
    assert "1 left out: on hold." in said.stderr
    assert listed.states("--status", "done") == dict.fromkeys(NAMES[1:], "xsd done")
    nothing = listed("retry", "--centre", "H").stdout.splitlines()
    assert nothing[0] == "0 submissions processed again."
    assert nothing[1:] == ["1 left out: on hold.", "2 left out: neither failed nor cancelled."]


def test_in_production_a_person_is_asked_before_much_is_changed(listed: Dcc, monkeypatch: pytest.MonkeyPatch) -> None:
    listed.environment["DCC_ENVIRONMENT"] = "production"
    hold = ("hold", "--centre", "H", "--reason", "wait")
    assert "[production] 3 submissions put on hold." in listed(*hold).stdout, "a script is not asked"
    monkeypatch.setattr("dcc.cli.shell.context.at_terminal", lambda: True)
    listed("release", "--centre", "H")
    monkeypatch.setattr("dcc.cli.submissions.selection.MANY", 2)
    asked = listed(*hold, input="n\n", exit_code=2).output
    assert f"[production] 3 submissions, such as {NAMES[0]}, to be put on hold? [y/N]" in asked
    assert "Nothing was changed." in asked
    assert listed.states("--on-hold") == {}
    assert "3 submissions would be" in listed(*hold, "--dry-run").stdout
    assert "?" not in listed("hold", NAMES[0], "--reason", "wait").output, "one submission"
    assert "2 submissions put on hold." in listed(*hold, "--yes").stdout
    assert "3 submissions released." in listed("release", "--centre", "H", input="y\n").stdout
    listed.environment["DCC_UNTIL"] = "qc"
    listed("crawl")
    assert "1 left out: through already." in listed("hold", NAMES[0], "--reason", "wait").stdout
    undo = ("data", "undo", NAMES[0], "--reason", "wrong")
    assert f"[production] Withdraw all data of {NAMES[0]}? [y/N]" in listed(*undo, input="n\n", exit_code=2).output
    assert "[production] Withdrew 1 document" in listed(*undo, "--yes").stdout
    listed.environment["DCC_ENVIRONMENT"] = "test"
    assert "[test] File source 1 is removed" in listed("source", "remove", 1).stdout
