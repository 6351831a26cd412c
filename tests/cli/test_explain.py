"""`dcc explain`: every error and rule by its id."""

import pytest

from dcc import errors
from dcc.cli.shell.explanations import NEW_NAMES
from dcc.error_declarations import ERROR_KINDS
from dcc.messages import names_in
from dcc.outcomes import EndReason
from dcc.phases import Phase, Status
from dcc.rules.catalogue import CATALOGUE
from tests.cli.conftest import IDS, Dcc
from tests.support.databases import only_sqlite

pytestmark = only_sqlite


def test_the_id_that_an_error_prints_is_explained(bare_dcc: Dcc) -> None:
    said = bare_dcc("status", exit_code=2).stderr
    assert said.startswith("Error (tracker-outdated): ")
    text = bare_dcc("explain", "tracker-outdated").stdout
    assert text.startswith("tracker-outdated (TrackerOutdatedError)\n")
    assert "`dcc init`" in text
    assert "who acts  DCC" in text
    assert bare_dcc("explain", "TrackerOutdatedError").stdout == text
    assert bare_dcc("explain", "(tracker-outdated)").stdout == text
    assert bare_dcc.json("explain", "tracker-outdated")["name"] == "TrackerOutdatedError"


def test_every_id_that_causes_have_is_explained(bare_dcc: Dcc) -> None:
    for kind in (*CATALOGUE, *ERROR_KINDS):
        entry = bare_dcc.json("explain", kind)
        assert entry["id"] == kind
        assert all((entry["meaning"], entry["advice"], entry["who"])), kind
        assert not names_in(entry["meaning"] + entry["advice"]), kind
        needs = kind in CATALOGUE and CATALOGUE[kind].needs
        assert ("`dcc reference list` says how old they are" in entry["advice"]) == bool(needs), kind


def test_a_link_of_the_document_names_the_file(bare_dcc: Dcc) -> None:
    text = " ".join(bare_dcc("explain", "bad-file-name").stdout.split())
    assert "as Submit your data (docs/centres.md) says" in text


def test_after_a_phase_or_status_its_submissions_are_suggested(bare_dcc: Dcc) -> None:
    bare_dcc.environment["DCC_SUGGESTIONS"] = "true"
    for names, suggested in (
        ("data", "dcc zips --phase data"),
        ("Cancelled", "dcc zips --status cancelled"),
        ("failed data", "dcc zips --phase data --status failed"),
        ("corrupt-archive", "dcc zips --code corrupt-archive"),
        ("finished", "dcc session list"),
        ("login-refused", "dcc source list"),
        ("not-found", "dcc doctor"),
    ):
        assert f"Next: {suggested} " in bare_dcc("explain", *names.split()).stderr
    for without in ("centre_silent", "listing:changed"):
        assert "Next:" not in bare_dcc("explain", without).stderr


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_what_was_renamed_is_explained_by_its_new_name(bare_dcc: Dcc, old: str, new: str) -> None:
    found = bare_dcc("explain", old)
    assert found.stderr == f"Warning: {old} is now {new}.\n"
    assert found.stdout == bare_dcc("explain", new).stdout
    assert bare_dcc.json("explain", old)["id"] == new


def test_an_id_of_the_existing_validator_is_explained_by_its_rules(bare_dcc: Dcc) -> None:
    undefined = ("simpleParameter", "ontologyParameter", "seriesParameter", "mediaParameter", "mediaSampleParameter")
    undefined += ("seriesMediaParameter", "procedureMetadata")
    files = ("mediaPamareter_FileNonSupported", "MediaSampleParameter_fileNoSupported")
    files += ("seriesMediaParameter_fileNoSupported", "fileNoSupported")
    table = {
        "CentreProcedureSetValidator_parametersNoBelongingToTheProcedure": "P3",
        "parametersNotBelonging": "P3",
        **{f"CentreProcedureSetValidator_{kind}Undefined": "P3 or P5" for kind in undefined},
        **{f"CentreProcedureSetValidator_{file}": "P20" for file in files},
        "CentreProcedureSetValidator_mediaSampleNoMediaSections": "P13",
        "CentreSpecimenSetValidator_testImitsServiceFail": "reference",
        "CentreSpecimenSetValidator_testSpecimenSubmittedToDCC": "E4",
        "Embryo_stageNotRecognised": "S9 or S10",
    }
    for old, rules in table.items():
        found = bare_dcc("explain", old)
        assert found.stderr == f"Warning: {old} of the existing validator is {rules} here.\n"
        assert found.stdout.split(maxsplit=1)[0] == rules.split()[0]
    unfetched = "mediaParameter_MediaUnavailable", "MediaSampleParameter_mediaNotAvailable"
    for old in (*unfetched, "CentreProcedureSetValidator_seriesMediaParameter_mediaNotAvailable"):
        found = bare_dcc("explain", old)
        assert found.stderr == f"Warning: Nothing checks {old} here: no rule fetches media. P20 judges their URLs.\n"
        assert found.stdout.startswith("P20\n")
    assert "mediaNotAvailable" not in CATALOGUE["P20"].known_as


def test_what_crawls_notice_is_explained(bare_dcc: Dcc) -> None:
    result = bare_dcc("explain", "listing:changed")
    assert bare_dcc("explain", "changed").stdout == result.stdout
    assert "Archives have changed under names that were taken before." in result.stdout
    assert "findings" not in result.stderr


def test_a_phase_with_a_status_is_explained(bare_dcc: Dcc) -> None:
    entry = bare_dcc.json("explain", "data", "failed")
    assert (entry["id"], entry["who"]) == ("data failed", "centre")
    assert entry["meaning"] == "The integrity of the loaded data is checked. The phase ended with an error."
    assert bare_dcc.json("explain", "data failed") == entry
    for names in (["xsd", "data"], ["S4", "failed"]):
        assert "is no phase with a status" in bare_dcc.error("explain", *names, exit_code=2)


@pytest.mark.parametrize(
    ("name", "meaning", "who"),
    [
        ("S4", CATALOGUE["S4"].demand, "centre or registry"),
        ("s4", f"{CATALOGUE['S4'].demand} When that is not met: {CATALOGUE['S4'].severity}.", "centre or registry"),
        ("more", CATALOGUE["more"].demand, "nobody"),
        ("P9", "", "centre; DCC for: IMPReSS gives <parameter> the type '<value>', which is not known here"),
        ("source-unreachable", "", "nobody; DCC for: The folder of <value> cannot be reached"),
        ("not-found", "", "DCC"),
        ("centre_silent", "The centre submitted a new archive within", "DCC"),
        ("fresh", "A snapshot of the reference data exists", "DCC"),
        ("values", "Values, units, terms and statuses are what", "centre; centre or registry for: P12"),
        ("interrupted", "Somebody ended the command", "nobody"),
        ("faults", "A session ended so: a source, a server", "DCC"),
        ("partial", "A crawl did not list all directories of a source", "centre"),
        ("succeeded", "A task of the session did all its work.", "nobody"),
        ("upload", "The document's contents are loaded into the QC database.", "centre"),
        ("upload pending", "", "nobody; DCC for: what waits to be confirmed"),
        ("xsd", "The document is validated against the XML schema", "centre"),
        ("Failed", "The phase ended with an error", "centre; DCC for: context, overview, qc; nobody for: download"),
        ("download", "", "nobody"),
        ("qc", "", "DCC"),
        ("done", "", "nobody"),
        ("pending", "", "nobody; DCC for: qc"),
    ],
)
def test_each_word_is_explained_with_who_acts(bare_dcc: Dcc, name: str, meaning: str, who: str) -> None:
    entry = bare_dcc.json("explain", name)
    assert entry["meaning"].startswith(meaning)
    assert entry["who"] == who
    is_state = entry["id"] in {state.short_name for state in (*Phase, *Status)}
    assert (f"{entry['id']}` lists the submissions" in bare_dcc("explain", name).stdout) is is_state


def test_without_an_id_all_is_listed(bare_dcc: Dcc) -> None:
    names = [entry["id"] for entry in bare_dcc.json("explain")]
    assert len(names) == len(set(names))
    assert set(names) >= (IDS - {errors.DccError.error_id()}) | set(CATALOGUE) | set(EndReason)
    assert set(names) >= {"xsd", "failed", "centre_silent", "values", "interrupted"}
    listed = bare_dcc("explain").stdout
    assert all(f"\n  {name} " in listed for name in names)
    headings = [line for line in listed.splitlines() if line and line[0] != " "]
    assert headings == ["Errors", "Phases", "Statuses", "Sessions", "Checks", "Rules"]


@pytest.mark.parametrize(
    ("name", "said"), [("host-key-chanced", "Is host-key-changed meant?"), ("?", "`dcc explain` lists all")]
)
def test_an_id_that_is_none_gets_the_one_that_is_meant(bare_dcc: Dcc, name: str, said: str) -> None:
    assert said in bare_dcc.error("explain", name, exit_code=2)
