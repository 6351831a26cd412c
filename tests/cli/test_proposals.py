"""`dcc data proposals` and `dcc source missing`: what a source lists no more, and what a person decides on it."""

import pytest

from dcc.cli.demo import submissions
from tests.cli.conftest import Dcc
from tests.support.data_installations import specimens
from tests.support.databases import only_sqlite
from tests.support.installations import Folder

ANIMALS = "add/H.2013-10-31.1.impc.zip"
WEIGHTS = "add/H.2013-11-01.1.impc.zip"
OTHERS = "add/H.2013-11-02.1.impc.zip"


@pytest.fixture
def folder(dcc: Dcc) -> Folder:
    """A source of the strategy full, two of whose three archives are gone; the second builds on the first."""
    dcc.environment["DCC_UNTIL"] = "qc"
    folder = dcc.add_folder()
    dcc("source", "change", folder.source_id, "--delta", "full")
    animals = submissions.specimen_document("H", mice=2)
    weights = submissions.experiment_document("H", procedure="IMPC_BWT_001", animals=2)
    folder.put(ANIMALS, {"H.2013-10-31.1.specimen.impc.xml": animals})
    folder.put(WEIGHTS, {"H.2013-11-01.1.experiment.impc.xml": weights})
    folder.put(OTHERS, {"H.2013-11-02.1.specimen.impc.xml": submissions.specimen_document("H", mice=2, first=5)})
    dcc("crawl")
    # A document of several downloads counts once.
    dcc("retry", ANIMALS)
    dcc("crawl")
    for key in (ANIMALS, WEIGHTS):
        (folder.path / key).unlink()
    # A crawl proposes, and never withdraws.
    told = dcc("crawl", exit_code=1).stdout
    assert "add: 2 archives of file source 1 (" in told
    assert "are gone, and the withdrawal of their data is proposed. Decide: dcc data proposals" in told
    dcc("crawl")
    return folder


def test_proposals_are_listed_and_carried_out_when_a_person_accepts_them(dcc: Dcc, folder: Folder) -> None:
    listed = dcc.json("source", "list")
    assert [one["delta"] for one in listed] == ["full"]
    assert dcc.states()[ANIMALS] != "upload cancelled"
    missing = dcc.json("source", "missing", folder.source_id)
    assert [(one["zip"], one["loaded"], one["proposal"]) for one in missing] == [
        (ANIMALS, True, "open"),
        (WEIGHTS, True, "open"),
    ]
    assert WEIGHTS in dcc("source", "missing").stdout
    proposals = dcc.json("data", "proposals")
    assert [(one["zip"], one["source"], one["centre"], one["state"]) for one in proposals] == [
        (ANIMALS, folder.source_id, "H", "open"),
        (WEIGHTS, folder.source_id, "H", "open"),
    ]
    assert proposals[0]["documents"] == ["H.2013-10-31.1.specimen.impc.xml"]
    assert dcc.json("data", "proposals", "--centre", "J") == []
    assert "No centre 'j'" in dcc.error("data", "proposals", "--centre", "j", exit_code=2)
    for command in ((), ("accept", "--reason", "gone"), ("turn-down", "--reason", "gone")):
        asked = ("data", "proposals", *command, "--source", 99)
        assert "No file source 99 exists" in dcc.error(*asked, exit_code=2)
    assert dcc.json("status")["proposals"] == 2
    assert "2 proposed withdrawals to decide on: dcc data proposals" in dcc("status").stdout

    accept = ("data", "proposals", "accept")
    assert "reason is empty" in dcc.error(*accept, "--all", "--reason", " ", exit_code=2)
    kept = dcc(*accept, ANIMALS, "--reason", "gone", exit_code=1)
    assert f"{ANIMALS}: {WEIGHTS}: H.2013-11-01.1.experiment.impc.xml brought experiments" in kept.stderr
    assert len(dcc.json("data", "proposals")) == 2
    accepted = dcc.json(*accept, "--all", "--reason", "taken back, says H")
    # The newest first: the other one could not be withdrawn before it.
    assert accepted == [
        {"zip": WEIGHTS, "withdrawn": 1, "problem": None},
        {"zip": ANIMALS, "withdrawn": 1, "problem": None},
    ]
    assert [dcc.states()[key] for key in (ANIMALS, WEIGHTS)] == ["upload cancelled"] * 2
    assert dcc.json("status")["proposals"] == 0
    ended = dcc.json("data", "proposals", "--state", "accepted")
    assert [(one["zip"], one["reason"]) for one in ended] == [(key, "taken back, says H") for key in (ANIMALS, WEIGHTS)]
    assert all(one["decided_by"] and one["decided"] for one in ended)
    dcc("crawl")
    assert dcc.json("data", "proposals") == []


@only_sqlite
def test_proposals_turned_down_keep_their_data_and_a_withdrawal_accepts(
    dcc: Dcc, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there:
        dcc.environment["DCC_ENVIRONMENT"] = "production"
        there.setattr("dcc.cli.shell.context.at_terminal", lambda: True)
        accept = ("data", "proposals", "accept", "--all", "--reason", "gone")
        assert "[production] Withdraw all data of 2 archives? [y/N]" in dcc(*accept, input="n\n", exit_code=2).output
        assert len(dcc.json("data", "proposals")) == 2
        del dcc.environment["DCC_ENVIRONMENT"]
    turn_down = ("data", "proposals", "turn-down")
    assert "Say which proposals" in dcc.error(*turn_down, "--reason", "x", exit_code=2)
    assert "Say which proposals" in dcc.error(*turn_down, ANIMALS, "--all", "--reason", "x", exit_code=2)
    assert f"No withdrawal of {OTHERS} is proposed" in dcc.error(*turn_down, OTHERS, "--reason", "x", exit_code=2)
    assert "reason is empty" in dcc.error(*turn_down, "--all", "--reason", " ", exit_code=2)
    for command in ("accept", "turn-down"):
        asked = ("data", "proposals", command, "--source", dcc.add_folder(f"new for {command}").source_id)
        assert dcc(*asked, "--reason", "x").stdout == "No withdrawal is proposed, and nothing was changed.\n"
    before = dcc.states()
    assert dcc.json(*turn_down, ANIMALS, "--reason", "H cleared its server up") == [ANIMALS]
    dcc("data", "undo", WEIGHTS, "--reason", "wrong")
    assert dcc.states() == before | {WEIGHTS: "upload cancelled"}
    assert {one["zip"]: one["state"] for one in dcc.json("data", "proposals", "--state", "all")} == {
        ANIMALS: "turned_down",
        WEIGHTS: "accepted",
    }
    assert "No withdrawal is proposed" in dcc("data", "proposals").stdout
    dcc("crawl")
    assert dcc.json("data", "proposals") == []


@only_sqlite
def test_what_is_missing_is_not_known_of_a_source_whose_listings_are_not_compared(dcc: Dcc) -> None:
    dcc.environment["DCC_UNTIL"] = "zip_name"
    folder = dcc.add_folder()
    folder.put(ANIMALS, specimens())
    dcc("crawl")
    compared = dcc("source", "missing")
    assert (compared.stdout, compared.stderr) == ("No archive is known to be missing.\n", "")
    dcc("source", "change", folder.source_id, "--delta", "disabled")
    (folder.path / ANIMALS).unlink()
    dcc("crawl")
    assert "no crawl looks, by --delta disabled" in dcc("source", "missing", folder.source_id).stderr


@only_sqlite
def test_a_proposal_is_closed_when_a_removed_source_that_lists_the_archive_is_used_again(dcc: Dcc) -> None:
    dcc.environment["DCC_UNTIL"] = "qc"
    first = dcc.add_folder("centre")
    second = dcc.add_folder("second")
    dcc("source", "change", first.source_id, "--delta", "full")
    for folder in (first, second):
        folder.put(ANIMALS, specimens())
    first.put(OTHERS, specimens("2013-11-02.1", first=5))
    dcc("crawl")
    dcc("source", "remove", second.source_id)
    (first.path / ANIMALS).unlink()
    dcc("crawl", exit_code=1)
    assert [one["zip"] for one in dcc.json("data", "proposals")] == [ANIMALS]
    dcc("source", "set-state", second.source_id, "available")
    assert dcc.json("data", "proposals") == []
    (ended,) = dcc.json("data", "proposals", "--state", "all")
    assert ended["state"] == "came_back"


def test_what_is_listed_under_another_name_is_not_withdrawn_by_accepting(dcc: Dcc) -> None:
    """The data of a renamed archive would be lost: they are not taken from the new one either."""
    dcc.environment["DCC_UNTIL"] = "qc"
    folder = dcc.add_folder()
    dcc("source", "change", folder.source_id, "--delta", "full")
    folder.put(ANIMALS, specimens())
    folder.put(WEIGHTS, specimens("2013-11-01.1", first=5))
    dcc("crawl")
    (folder.path / ANIMALS).rename(folder.path / OTHERS)
    dcc("crawl", exit_code=1)
    assert [(one["zip"], one["copies"]) for one in dcc.json("data", "proposals")] == [(ANIMALS, [OTHERS])]
    assert OTHERS in dcc("data", "proposals").stdout
    accept = ("data", "proposals", "accept", "--all", "--reason", "gone")
    assert f"A source lists the same documents in {OTHERS}" in dcc(*accept, exit_code=1).stderr
    assert dcc.states()[ANIMALS] == "qc done"
    (folder.path / OTHERS).unlink()
    dcc("crawl", exit_code=1)
    assert {one["zip"]: one["copies"] for one in dcc.json("data", "proposals")} == {ANIMALS: [], OTHERS: []}
    assert len(dcc.json(*accept)) == 2
