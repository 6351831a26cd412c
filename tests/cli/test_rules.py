"""`dcc rules`: listing the rules, waiving and restoring them, on SQLite and on MariaDB."""

import getpass

from dcc.rules.catalogue import CATALOGUE
from tests.cli.conftest import Dcc
from tests.support.databases import only_sqlite

FAR = "2999-12-31"


def waive(dcc: Dcc, *arguments: object) -> object:
    return dcc("rules", "waive", *arguments, "--reason", "a broken balance")


@only_sqlite
def test_the_rules_are_listed_without_a_database(bare_dcc: Dcc) -> None:
    listed = bare_dcc.json("rules", "list")
    assert [entry["id"] for entry in listed] == list(CATALOGUE)
    assert next(entry for entry in listed if entry["id"] == "S2") == {
        "id": "S2",
        "severity": "error",
        "demand": "A baseline animal's strainID is a known strain.",
        "known_as": ["testSpecimenBackground"],
        "needs": ["strains"],
        "at_upload": False,
    }
    said = bare_dcc("rules", "list").stdout
    assert "A baseline animal's strainID is a known strain." in said
    assert max(map(len, said.splitlines())) < 160


def test_a_waiver_is_recorded_with_its_author_and_shown(dcc: Dcc) -> None:
    assert "No rule is waived" in dcc("rules", "waivers").stdout
    said = dcc("rules", "waive", "P9", "--centre", "H", "--until", FAR, "--reason", "a broken balance").stdout
    assert "Waiver 1: rule P9 is waived at centre H" in said
    assert "No document" in said
    (entry,) = dcc.json("rules", "waivers")
    assert (entry["id"], entry["rule"], entry["centre"], entry["procedure"]) == (1, "P9", "H", None)
    assert (entry["effect"], entry["state"], entry["valid_until"]) == ("waive", "in force", FAR)
    assert (entry["author"], entry["reason"]) == (getpass.getuser(), "a broken balance")
    assert "a broken balance" in dcc("rules", "waivers").stdout
    added = dcc.json("rules", "waive", "E9", "--procedure", "IMPC_CBC_001", "--warn", "--reason", "known repeats")
    assert (added["id"], added["effect"], added["procedure"]) == (2, "warn", "IMPC_CBC_001")


def test_a_revoked_waiver_is_shown_on_request(dcc: Dcc) -> None:
    waive(dcc, "P9")
    assert "Waiver 1 of rule P9 is revoked." in dcc("rules", "revoke", "1", "--reason", "it is mended").stdout
    assert dcc.json("rules", "waivers") == []
    (entry,) = dcc.json("rules", "waivers", "--all")
    assert (entry["state"], entry["revoked_by"], entry["revoked_reason"]) == (
        "revoked",
        getpass.getuser(),
        "it is mended",
    )
    assert "revoked: it is mended" in dcc("rules", "waivers", "--all").stdout
    assert "was revoked" in dcc.error("rules", "revoke", "1", "--reason", "?", exit_code=2)


@only_sqlite
def test_wrong_use_is_refused_with_what_to_do(dcc: Dcc) -> None:
    for command, said in (
        ("waive P99", "dcc rules list"),
        ("waive reference", "cannot be waived"),
        ("waive S14 --warn", "only ever warns"),
        ("waive P9 --until 2020-01-01", "before it begins"),
        ("waive P9 --centre h", "No centre 'h' exists"),
        ("revoke 7", "dcc rules waivers --all"),
    ):
        assert said in dcc.error("rules", *command.split(), "--reason", "?", exit_code=2)
    assert "reason" in dcc.error("rules", "waive", "P9", "--reason", "", exit_code=2)
    assert dcc.json("rules", "waivers") == []
