"""`dcc replay`: what proposed schemas, reference data or rules would change."""

import json
import shutil

import pytest

from dcc.cli.demo.submissions import damaged
from dcc.documents.schema_set import OWN_SCHEMAS
from tests.cli.conftest import Dcc
from tests.support.data_installations import experiments, specimens
from tests.support.databases import only_sqlite

RULE = """
from dcc.documents.contents import Experiment
from dcc.vocabulary import Severity
from dcc.rules.findings import fault
from dcc.rules.registry import rule

@rule("D1", Experiment, severity=Severity.ERROR, message="'{experiment}' is <refused>.", cause="Some are <refused>",
      remedy="Wait.")
def none_will_do(experiment, at):
    "No experiment will do."
    yield fault(experiment.line, experiment.date, experiment=experiment.experiment_id)
"""


@only_sqlite
@pytest.mark.usefixtures("forked_workers")
def test_a_replay_says_what_a_proposal_would_change(dcc: Dcc) -> None:
    dcc.collect({"add/H.2013-10-31.1.impc.zip": specimens() | experiments()}, "--until", "qc")
    # Further processes would load the platform for each replay.
    dcc.environment["DCC_WORKERS"] = "1"
    rules, page = dcc.root / "proposed.py", dcc.root / "replay.html"
    rules.write_text(RULE)
    assert "0 verdicts would change, and the findings in 0 other documents" in dcc("replay", "--centre", "H").stdout

    result = dcc("replay", "--rules", rules, "--json", "--page", page, "--since", "2013-10-31")
    found = json.loads(result.stdout)
    assert found["proposal"] == {"rules": str(rules)}
    assert found["centres"] == [{"centre": "H", "documents": 2, "gained": 0, "lost": 1, "otherwise": 0}]
    (cause,) = found["causes"]
    assert (cause["code"], cause["severity"], cause["cause"], cause["appears"]) == (
        "D1",
        "error",
        "Some are <refused>",
        1,
    )
    (change,) = found["changes"]
    assert (change["before"], change["after"]) == ("accepted", "failed data")
    assert [one["code"] for one in change["appeared"]] == ["D1"] * 3
    written = page.read_text("utf-8")
    assert "Some are &lt;refused&gt;" in written
    assert "H.2013-10-31.1.experiment.impc.xml" in written

    assert dcc("replay", "--since", "2013-11-01").stdout.startswith("0 archives, 0 documents")

    schemas, projects = shutil.copytree(OWN_SCHEMAS, dcc.root / "schemas"), dcc.root / "projects.csv"
    common = schemas / "common_definition.xsd"
    common.write_bytes(damaged(common.read_bytes(), '<xs:enumeration value="female"/>', ""))
    projects.write_text("project\nNobody\n")
    specimen, experiment = (f"H.2013-10-31.1.{kind}.impc.xml" for kind in ("specimen", "experiment"))
    invalid = {specimen: "failed xsd", experiment: "failed data"}
    for option, name, source, verdicts, codes in (
        ("--xsd", "xsd", str(schemas), invalid, {"schema-violation.value", "E4"}),
        ("--reference=projects", "projects", str(projects), dict.fromkeys(invalid, "accepted"), {"S12", "E2"}),
    ):
        found = dcc.json("replay", f"{option}={source}")
        assert found["proposal"] == {name: source}
        assert {one["document"]: one["after"] for one in found["changes"]} == verdicts
        assert {one["code"] for one in found["causes"]} == codes

    first, second = {"E4", experiment}, {"schema-violation.value", specimen}
    for limit, listed, cut in ((1, first, True), (2, first | second, False), (0, first | second, False)):
        table = dcc("replay", f"--xsd={schemas}", "--limit", limit).stdout
        assert {one for one in first | second if one in table} == listed
        assert (f"Of causes and documents the first {limit} are shown; --limit 0 prints all." in table) is cut
        assert "2 documents: 2 verdicts would change" in table
        assert f"{experiment}  accepted  failed data" in table

    assert "NAME=SOURCE" in dcc.error("replay", "--reference", "colonies", exit_code=2)
    assert "X" in dcc.error("replay", "--centre", "X", exit_code=2)
