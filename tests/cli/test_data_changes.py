"""`dcc data plan`, `confirm`, `undo`, `recheck` and `history`, on SQLite and on MariaDB."""

import pytest

from dcc.cli.demo import submissions
from tests.cli.conftest import Dcc
from tests.support.installations import Folder

ADD = "add/H.2013-10-31.1.impc.zip"
EDIT = "edit/H.2013-11-05.2.impc.zip"
ANIMALS = {"H.2013-10-31.1.specimen.impc.xml": submissions.specimen_document("H", mice=4)}
WEIGHTS = submissions.experiment_document("H", procedure="IMPC_BWT_001", animals=4)
CORRECTED = WEIGHTS.replace(b"<value>2", b"<value>1")


def documents(day: str, animals: bytes, weights: bytes) -> dict[str, bytes]:
    """Both kinds of documents of a day, by their names."""
    return {f"H.{day}.1.specimen.impc.xml": animals, f"H.{day}.1.experiment.impc.xml": weights}


@pytest.fixture
def folder(dcc: Dcc) -> Folder:
    """A source whose four weighed animals are with quality control, and an edit of the weights that waits."""
    dcc.environment["DCC_UNTIL"] = "qc"
    folder = dcc.collect({ADD: {**ANIMALS, "H.2013-10-31.2.experiment.impc.xml": WEIGHTS}})
    folder.put(EDIT, {"H.2013-11-05.1.experiment.impc.xml": CORRECTED})
    return folder


def state_of(dcc: Dcc, key: str) -> tuple[str, str]:
    shown = dcc.json("show", key)
    return shown["phase"], shown["status"]


def test_a_plan_says_what_would_change_and_changes_nothing(dcc: Dcc, folder: Folder) -> None:
    dcc("crawl", "--until", "xsd")
    (planned,) = dcc.json("data", "plan", EDIT)
    assert (planned["state"], planned["repeated"], planned["refused"]) == ("applied", False, 0)
    assert planned["opened"] == planned["ended"] == {"experiment": 4}
    values = {(change["what"], change["old"][0], change["new"][0]) for change in planned["changes"]}
    assert values == {("IMPC_BWT_001_001", "2", "1")}
    assert {context["parameter_id"] for context in planned["contexts"]} == {"IMPC_BWT_001_001"}
    said = dcc("data", "plan", EDIT).stdout
    assert "would replace or remove  4 experiments" in said
    assert "confirm" not in said
    assert state_of(dcc, EDIT) == ("xsd", "done")


def test_a_plan_names_what_it_would_remove_and_not_each_of_its_values(dcc: Dcc) -> None:
    dcc.environment["DCC_UNTIL"] = "qc"
    deletion = "delete/H.2013-11-05.2.impc.zip"
    animals = submissions.specimen_document("H", mice=25)
    weights = submissions.experiment_document("H", procedure="IMPC_BWT_001", animals=25)
    folder = dcc.collect({ADD: documents("2013-10-31", animals, weights)})
    folder.put(deletion, documents("2013-11-05", animals, weights))
    dcc("crawl", "--until", "xsd")
    of_experiments, of_animals = sorted(dcc.json("data", "plan", deletion), key=lambda one: one["file_name"])
    assert (len(of_experiments["removed"]), set(of_experiments["removed"].values())) == (25, {10})
    assert (of_experiments["changed"], len(of_experiments["changes"]), of_animals["removed"]) == (250, 250, {})
    said = dcc("data", "plan", deletion).stdout
    assert said.count("  would remove Experiment ") == 20
    assert ": 10 values\n  ... and 5 more entities.\n" in said
    assert said.count("  Q4 error ") == 20
    assert "  ... and 5 more findings.\n" in said
    whole = dcc("data", "plan", deletion, "--all-changes").stdout
    assert (whole.count("  would remove Experiment "), "IMPC_BWT_001_001" in whole) == (25, False)


def test_what_is_held_waits_until_it_is_confirmed(dcc: Dcc, folder: Folder) -> None:
    dcc.environment["DCC_HOLD_THRESHOLD"] = "3"
    report = dcc.json("crawl", exit_code=1)
    assert [problem["kind"] for problem in report["problems"]] == ["held"]
    assert state_of(dcc, EDIT) == ("upload", "pending")
    dcc("crawl")
    assert state_of(dcc, EDIT) == ("upload", "pending")
    assert dcc.json("data", "plan", EDIT)[0]["ended"] == {"experiment": 4}
    for shown in (dcc("data", "plan", EDIT), dcc("show", EDIT), dcc("status")):
        assert f"waits to be confirmed: dcc data confirm {EDIT}" in shown.stdout.replace(
            f". See what it would change: dcc data plan {EDIT}. Then", ""
        )
        assert f"dcc data undo {EDIT} --reason" in shown.stdout
    (listed,) = [one for one in dcc.json("zips") if f"{one['action']}/{one['file_name']}" == EDIT]
    assert listed["waits"] == [f"It waits to be confirmed. What it would change: dcc data plan {EDIT}"]
    (waiting,) = dcc.json("status")["held"]
    assert (waiting["zip"], waiting["document"]) == (EDIT, "H.2013-11-05.1.experiment.impc.xml")
    (confirmed,) = dcc.json("data", "confirm", EDIT, "--reason", "a new balance")
    assert (confirmed["phase"], confirmed["status"], confirmed["ended"]) == ("upload", "done", {"experiment": 4})
    assert " ".join(confirmed) == (
        "file_name kind centre phase status document_id repeated late held unapplied said opened ended refused "
        "procedures findings finding_counts reason cleared waits_for left_out"
    )
    dcc("crawl")
    assert state_of(dcc, EDIT) == ("qc", "pending")
    (event,) = [
        event
        for event in dcc.json("data", "history", "--centre", "H", "--specimen", "H-M000001")
        if event["happening"] == "edited"
    ]
    assert event["reason"] == "a new balance"
    assert "confirmed by" in dcc("data", "history", "--centre", "H", "--specimen", "H-M000001").stdout
    assert dcc.json("status")["held"] == []
    assert "is held" in dcc.error("data", "confirm", EDIT, "--reason", "again", exit_code=2)


def test_a_confirmed_document_that_is_refused_ends_with_1(dcc: Dcc, folder: Folder) -> None:
    dcc.environment["DCC_HOLD_THRESHOLD"] = "3"
    dcc("crawl", exit_code=1)
    dcc("data", "undo", ADD, "--reason", "wrong animals")
    assert "upload failed" in dcc("data", "confirm", EDIT, "--reason", "a new balance", exit_code=1).stdout


def test_a_submission_is_withdrawn_wholly_and_comes_back_by_a_retry(dcc: Dcc, folder: Folder) -> None:
    dcc("crawl")
    error = dcc("data", "undo", ADD, "--reason", "wrong animals", exit_code=1).stderr
    assert EDIT in error
    assert (
        f"1 later document builds on {ADD}; nothing was changed. Withdraw it first: dcc data undo {EDIT} --reason"
        in error
    )
    assert dcc.json("data", "undo", ADD, "--reason", "wrong animals", exit_code=1)["builders"]
    assert "Withdrew 1 document" in dcc("data", "undo", EDIT, "--reason", "the wrong plate").stdout
    assert state_of(dcc, EDIT) == ("upload", "cancelled")
    dcc("crawl")
    assert state_of(dcc, EDIT) == ("upload", "cancelled")
    story = dcc("data", "history", "--centre", "H", "--specimen", "H-M000001").stdout
    lines = {line.split()[2]: line.split()[-1] for line in story.splitlines() if ".experiment.impc.xml" in line}
    assert lines["restored"] == "H.2013-11-05.1.experiment.impc.xml"
    assert lines["edited"].isdigit()
    assert "H.2013-11-05.1.experiment.impc.xml withdrawn by" in story
    assert "the wrong plate" in story
    assert "the wrong plate" in dcc("show", EDIT).stdout
    dcc("retry", EDIT)
    assert state_of(dcc, EDIT) == ("qc", "pending")


def test_a_recheck_has_documents_judged_by_the_next_session(dcc: Dcc, folder: Folder) -> None:
    assert dcc.json("data", "recheck", "--centre", "H", "--reason", "new rules")["documents"] == 2
    assert state_of(dcc, ADD) == ("upload", "done")
    dcc("crawl")
    assert (state_of(dcc, ADD), state_of(dcc, EDIT)) == (("qc", "done"), ("qc", "pending"))
    assert dcc.json("data", "recheck", "--rule", "S4", "--reason", "new colonies") == {"documents": 0, "keys": []}


def test_documents_that_no_session_held_yet_are_told_with_the_confirmed_ones(dcc: Dcc) -> None:
    dcc.environment |= {"DCC_UNTIL": "qc", "DCC_HOLD_THRESHOLD": "1"}
    (animals,) = ANIMALS.values()
    folder = dcc.collect({ADD: documents("2013-10-31", animals, WEIGHTS)})
    changed = animals.replace(b'litterId="', b'litterId="other ')
    edited = documents("2013-11-05", changed, WEIGHTS.replace(b"</value>", b"1</value>"))
    folder.put(EDIT, edited)
    dcc("crawl", exit_code=1)
    assert dcc("data", "plan", EDIT).stdout.count("waits to be confirmed") == 2
    confirmed = dcc("data", "confirm", EDIT, "--reason", "a new balance").stdout
    specimens, experiments = edited
    assert f"{specimens}: upload done" in confirmed
    assert f"{experiments}: not confirmed. The next session applies it, or holds it" in " ".join(confirmed.split())
    dcc("crawl", exit_code=1)
    assert "not confirmed" not in dcc("data", "confirm", EDIT, "--reason", "a new balance").stdout
