"""`dcc centre`: registering, listing, activating and deactivating centres."""

from tests.cli.conftest import Dcc
from tests.support.installations import specimens


def test_centres_are_added_and_listed(bare_dcc: Dcc) -> None:
    bare_dcc("init")
    assert "dcc centre add" in bare_dcc("centre", "list").stdout
    assert bare_dcc.json("centre", "list") == []
    added = bare_dcc.json("centre", "add", "H", "--name", "Harwell", "--email", "w@h.example", "--imits", "HAR")
    assert {name: added[name] for name in ("short_name", "full_name", "imits_name", "email", "is_active")} == {
        "short_name": "H",
        "full_name": "Harwell",
        "imits_name": "HAR",
        "email": "w@h.example",
        "is_active": True,
    }
    bare_dcc("centre", "add", "J")
    entries = bare_dcc.json("centre", "list")
    assert entries[0] == added
    assert [entry["full_name"] for entry in entries] == ["Harwell", "The Jackson Laboratory"]
    assert (entries[1]["imits_name"], entries[1]["email"], entries[1]["is_active"]) == ("JAX", "", True)
    assert "The Jackson Laboratory" in bare_dcc("centre", "list").stdout
    # Names differ in case, and may be none that is known.
    bare_dcc("centre", "add", "h", "--name", "Another")
    bare_dcc("centre", "add", "New_Centre", "--name", "A new one")
    assert [entry["short_name"] for entry in bare_dcc.json("centre", "list")] == ["H", "J", "New_Centre", "h"]


def test_a_deactivated_centres_sources_are_left_alone(dcc: Dcc) -> None:
    folder = dcc.add_folder()
    folder.put("add/H.2013-10-31.1.impc.zip")
    dcc("centre", "deactivate", "H")
    assert [entry["is_active"] for entry in dcc.json("centre", "list")] == [False, True]
    report = dcc.json("crawl")
    assert (report["sources"], report["zip_actions"]) == ([], [])
    assert "its centre is not active" in report["notices"][0]
    assert "not crawled: file source 1 (H, " in dcc("crawl").stdout
    (line,) = [line for line in dcc("status").stdout.splitlines() if "centre inactive" in line]
    assert ("  no  " in line, "  yes  " in line) == (True, False)
    assert "It is left alone because its centre is not active." in dcc("source", "resume", folder.source_id).stdout
    assert "dcc centre activate H" in dcc.error("crawl", "--source", folder.source_id, exit_code=2)
    dcc("centre", "activate", "H")
    assert [crawl["new"] for crawl in dcc.json("crawl")["sources"]] == [1]


def test_what_is_known_of_a_centre_can_be_changed_and_its_language_taken_away(dcc: Dcc) -> None:
    assert dcc.json("centre", "add", "Ics", "--language", "de-AT")["language"] == "de_AT"
    assert dcc.json("centre", "change", "Ics", "--language", "de-CH")["language"] == "de_CH"
    changed = dcc.json("centre", "change", "Ics", "--email", "new@ics.example", "--language", "en", "--phone", "1")
    assert (changed["email"], changed["language"], changed["phone"]) == ("new@ics.example", "en", "1")
    dcc("centre", "change", "Ics", "--language", "", "--phone", "")
    (entry,) = [entry for entry in dcc.json("centre", "list") if entry["short_name"] == "Ics"]
    assert entry == {**changed, "language": None, "phone": None}


def test_who_speaks_for_whom_is_recorded_listed_and_revoked(dcc: Dcc) -> None:
    assert dcc.json("centre", "delegations") == []
    assert "dcc centre delegate" in dcc("centre", "delegations").stdout
    dcc.environment["LOGNAME"] = "u" * 70
    given = dcc.json("centre", "delegate", "H", "--to", "J", "--until", "2999-12-31")
    told = {name: given[name] for name in ("owner", "delegate", "until", "revoked", "in_force")}
    assert told == {"owner": "H", "delegate": "J", "until": "2999-12-31", "revoked": None, "in_force": True}
    assert given["recorded_by"] == "u" * 64
    assert dcc.json("centre", "delegations") == [given]
    assert "2999-12-31" in dcc("centre", "delegations").stdout
    ended = dcc.json("centre", "delegate", "H", "--to", "J", "--revoke")
    assert (ended["in_force"], ended["revoked_by"]) == (False, given["recorded_by"])
    assert dcc.json("centre", "delegations") == []
    assert dcc.json("centre", "delegations", "--all") == [ended]
    assert (
        "no more"
        in dcc("centre", "delegate", "J", "--to", "H").stdout
        + dcc("centre", "delegate", "J", "--to", "H", "--revoke").stdout
    )


def test_a_held_archive_is_told_turned_down_held_again_and_fetched_when_its_centre_delegates(dcc: Dcc) -> None:
    """An archive named for another centre than its source's; the tracker records who turned it down, when and why."""
    folder, planted = dcc.add_folder(), "add/J.2013-10-31.1.impc.zip"
    folder.put(planted, specimens("J"))
    report = dcc.json("crawl", exit_code=1)
    assert [(one["zip"], one["kind"]) for one in report["problems"]] == [(planted, "held")]
    assert report["zip_actions"] == [{"phase": "zip_name", "status": "done", "count": 1}]
    (held,) = dcc.json("status")["held_archives"]
    assert (held["zip"], held["owner"], held["hosts"]) == (planted, "J", ["H"])
    for shown in (dcc("status").stdout, dcc("show", planted).stdout, dcc.error("retry", planted, exit_code=2)):
        assert "dcc centre delegate J --to H" in shown
    # It is told once; a session that has nothing else to tell is well.
    assert dcc.json("crawl")["problems"] == []

    assert "dcc status" in dcc("archive", "declined").stdout
    assert "--reason" in dcc("archive", "decline", planted, exit_code=2).stderr
    made = dcc.json("archive", "decline", planted, "--reason", "says Harwell")
    assert (made["zip"], made["owner"], made["reason"], made["revoked"]) == (planted, "J", "says Harwell", None)
    assert made["declined_by"]
    assert made["created"]
    assert dcc.json("archive", "declined") == [made]
    assert "says Harwell" in dcc("archive", "declined").stdout
    assert dcc.json("status")["held_archives"] == []
    assert "Held archives" not in dcc("status").stdout
    for shown in (dcc("show", planted).stdout, dcc.error("retry", planted, exit_code=2), dcc("source", "why").stdout):
        assert "says Harwell" in shown
        assert f"dcc archive decline {planted} --revoke" in shown
    assert "dcc archive decline" in dcc.error("data", "plan", planted, exit_code=2)
    assert dcc.json("archive", "decline", planted, "--revoke")["revoked_by"] == made["declined_by"]
    assert dcc.json("archive", "declined") == []
    assert len(dcc.json("archive", "declined", "--all")) == 1
    decline = ("archive", "decline", planted)
    assert "No centre gets an e-mail: DCC_NOTIFY_CENTRES is off." in dcc(*decline, "--reason", "again").stdout
    dcc(*decline, "--revoke")
    dcc.environment["DCC_NOTIFY_CENTRES"] = "true"
    dcc("centre", "change", "J", "--email", "data@j.example")
    told = dcc(*decline, "--reason", "again").stdout
    assert "Centre J gets an e-mail with the next notifications. Centre H gets no e-mail: dcc centre change H" in told
    del dcc.environment["DCC_NOTIFY_CENTRES"]
    dcc(*decline, "--revoke")
    assert [one["zip"] for one in dcc.json("status")["held_archives"]] == [planted]
    assert "dcc centre delegate J --to H" in dcc("source", "why").stdout
    assert "dcc centre delegate J --to H" in dcc("data", "causes").stdout

    dcc("centre", "delegate", "J", "--to", "H")
    assert dcc.json("crawl")["zip_actions"] == [{"phase": "xsd", "status": "done", "count": 1}]
    assert dcc.json("status")["held_archives"] == []
