"""What installed packages add: rules, protocols and channels work like the platform's own, without a migration."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dcc.cli.main import dcc
from tests.support.data_installations import experiments, specimens
from tests.support.environments import forget_settings
from tests.support.forking_interpreter import forking_interpreter
from tests.support.installations import Folder
from tests.support.several_commands import run_commands

ROOT = Path(__file__).parents[2]
KNOWN_ANIMALS = """
from dcc.documents.contents import Experiment
from dcc.messages import mark
from dcc.rules.findings import fault
from dcc.rules.registry import rule
from dcc.vocabulary import Severity


@rule(
    "D2",
    Experiment,
    severity=Severity.WARNING,
    message=mark("The animal '{value}' is known."),
    cause=mark("Animals are known"),
    remedy=mark("Do nothing."),
    needs_other_documents=True,
)
def animals_are_unknown(experiment, at):
    'Animals of experiments are unknown.'
    for name in experiment.specimen_ids:
        if name in at.answers.specimens:
            yield fault(experiment.line, name)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the example package is installed, and one whose rule looks at other documents."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    source = tmp_path_factory.mktemp("source") / "working_days"
    subprocess.run(["cp", "-r", str(ROOT / "examples" / "working_days"), str(source)], check=True)
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, capture_output=True)
    (target / "known_animals.py").write_text(KNOWN_ANIMALS, "utf-8")
    describe(target, "known_animals", "dcc.rules")
    return target


def run(package: Path, *commands: str) -> list[subprocess.CompletedProcess[str]]:
    """Run commands of `dcc` with what is installed in a folder."""
    return run_commands(*commands, environment=os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"})


def describe(folder: Path, module: str, group: str) -> None:
    """Have a module look installed into a folder, as one that adds to a group."""
    described = folder / f"{module}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    (described / "entry_points.txt").write_text(f"[{group}]\nadded = {module}\n", "utf-8")


Python = Callable[..., str]


@pytest.fixture(scope="module")
def python(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Python]:
    """Runs code with the example package installed, in forks of one interpreter; what it prints."""
    environment = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}
    folder = tmp_path_factory.mktemp("python")
    with forking_interpreter("import tests.support.preloaded", environment, folder) as fork:

        def ran(code: str, *arguments: str, ends: int = 0) -> str:
            done = fork(code, *arguments, environment=os.environ)
            assert done.returncode == ends, done.stdout + done.stderr
            return done.stdout

        yield ran


EVALUATION = """
import json
from dcc.settings import load_settings
from dcc_assets.graph import CHECK_OF_GROUP
from dcc_dagster.instance import open_instance

check = CHECK_OF_GROUP["added_rules"]
with open_instance(load_settings()) as instance:
    (record,) = instance.event_log_storage.get_asset_check_execution_history(check, limit=10)
    evaluation = record.event.dagster_event.event_specific_data
    print(json.dumps([dict(row.data) for row in evaluation.metadata["rules"].records]))
"""
MAIN = "import sys; from dcc.cli.main import main; main()"
ENGLISH = "The experiment '{0}' is dated 2026-10-04, a Sunday. Look whether the date is right."
GERMAN = "Das Experiment „{0}“ hat das Datum 2026-10-04, einen Sonntag. Prüfen Sie, ob es stimmt."
GERMAN_CATALOGUE = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

msgid "The experiment '{experiment}' is dated {value}, a Sunday. Look whether the date is right."
msgstr "Das Experiment „{experiment}“ hat das Datum {value}, einen Sonntag. Prüfen Sie, ob es stimmt."

msgid "Experiments are dated on Sundays"
msgstr "Experimente haben einen Sonntag als Datum"
"""


@pytest.fixture(scope="module")
def begun(python: Python, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a new installation with the centre H, to be copied."""
    home = tmp_path_factory.mktemp("begun") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DCC_HOME", str(home))
        for words in (["init"], ["centre", "add", "H"]):
            python(MAIN, *words)
    return home


@pytest.fixture
def platform(python: Python, begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`dcc` with the example package beside it, on an installation of its own; what a command prints as JSON."""
    shutil.copytree(begun, tmp_path / "home")
    forget_settings(monkeypatch)
    (tmp_path / "languages").mkdir()
    (tmp_path / "languages" / "de.po").write_text(GERMAN_CATALOGUE, "utf-8")
    environment = {
        "DCC_HOME": tmp_path / "home",
        "DCC_LANGUAGES_DIRECTORY": tmp_path / "languages",
        "DCC_QUIET_SECONDS": "0",
        "DCC_MIN_FREE_BYTES": "0",
        "SHARES_DIRECTORY": tmp_path / "shares",
        "EVENT_FILE": tmp_path / "events.jsonl",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))

    def dcc(*arguments: object, ends: int = 0) -> Any:
        return json.loads(python(MAIN, *map(str, arguments), "--json", ends=ends))

    return dcc


def test_a_package_takes_part_in_all_that_becomes_of_a_submission(
    platform: Callable[..., Any], python: Python, tmp_path: Path
) -> None:
    ((name, document),) = experiments().items()
    sunday = re.sub(rb'dateOfExperiment="[^"]*"', b'dateOfExperiment="2026-10-04"', document)
    share = tmp_path / "shares" / "harwell" / "impc"
    share.mkdir(parents=True)
    archive = share / "add" / "H.2026-11-01.1.impc.zip"
    names = {one.replace("2013-10-31", "2026-11-01"): content for one, content in {**specimens(), name: sunday}.items()}
    names["weights.txt"] = b"H-M000001 2026-10-05 24.5\nH-M000002 2026-10-11 21.5\n"
    Folder(share, 1).put(f"add/{archive.name}", names)

    verdicts = platform("validate", archive)
    warnings = [one for verdict in verdicts for one in verdict["warnings"] if one["kind"] == "DAY1"]
    told = sorted(one["message"].removeprefix("Warning: ") for one in warnings)
    assert len(told) == 4
    assert [one.rpartition("See ")[2] for one in told if "See" in one] == [
        "weights.txt, row 2, column dateOfExperiment."
    ]
    added = platform(
        "source", "add", "--centre", "H", "--protocol", "share", "--hostname", "harwell", "--base-path", "/impc"
    )
    assert not added["warnings"]
    assert platform("source", "list")[0]["protocol"] == "share"
    session = platform("crawl")
    assert {(one["phase"], one["status"]) for one in session["zip_actions"]} == {("qc", "pending")}

    findings = platform("data", "findings", "--rule", "DAY1", "--each")
    assert sorted(one["message"] for one in findings) == told
    assert findings[0]["message"].startswith("The experiment '")
    causes = {
        language: {one["kind"]: one for one in platform("data", "causes", "--centre", "H", "--language", language)}
        for language in ("en", "de")
    }
    assert causes["en"]["DAY1"]["title"] == "Experiments are dated on Sundays: 4 experiments"
    assert causes["de"]["DAY1"]["title"].startswith("Experimente haben einen Sonntag als Datum")
    explained, listed = platform("explain", "DAY1"), {each["id"]: each for each in platform("rules", "list")}
    assert listed["DAY1"]["demand"] == "An experiment is not dated on a Sunday."
    assert (listed["DAY1"]["package"], listed["S1"]["package"]) == ("dcc-working-days 1.0", None)
    assert explained["meaning"].endswith("The package dcc-working-days 1.0 adds this rule.")
    assert "Look whether these dates are right" in explained["advice"]
    assert explained["who"] == causes["en"]["DAY1"]["acts"] == "centre"
    for language, said in (("en", ENGLISH), ("de", GERMAN)):
        report = platform("report", f"add/{archive.name}", "--language", language)
        identifier = findings[0]["message"].split("'")[1]
        assert said.format(identifier) in json.dumps(report, ensure_ascii=False)
    shown = json.loads(python(EVALUATION))
    assert {"rule": "DAY1", "severity": "warning", "findings": 4} in shown


def test_a_source_of_a_package_s_protocol_takes_patterns_and_no_depth(
    platform: Callable[..., Any], python: Python, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_DAGSTER_EVENTS", "false")
    Folder(tmp_path / "shares" / "harwell", 1).put("add/H.2013-10-31.1.impc.zip", specimens())
    add = ("source", "add", "--centre", "H", "--protocol", "share", "--hostname", "harwell")
    python(MAIN, *add, "--depth", "1", ends=2)
    platform(*add, "--exclude", "H.2013*")
    python(MAIN, "source", "change", "1", "--depth", "1", ends=2)
    assert platform("crawl")["zip_actions"] == []


def test_findings_of_a_rule_whose_package_is_gone_are_one_cause_until_they_are_judged_again(
    platform: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_DAGSTER_EVENTS", "false")
    documents = specimens() | {
        name: re.sub(rb'dateOfExperiment="[^"]*"', b'dateOfExperiment="2013-10-27"', document)
        for name, document in experiments().items()
    }
    Folder(tmp_path / "centre", 1).put("add/H.2013-10-31.1.impc.zip", documents)
    platform("source", "add", "--centre", "H", "--protocol", "file", "--base-path", tmp_path / "centre")
    platform("crawl")
    causes = "data causes --json"
    told, examined, _, _, later, examined_later = (
        json.loads(ended.stdout)
        for ended in run(
            tmp_path / "none",
            causes,
            "doctor --no-sources --json",
            "data recheck --rule DAY1 --reason gone --json",
            "crawl --json",
            causes,
            "doctor --no-sources --json",
        )
    )
    (cause,) = [one for one in told if one["kind"] != "D2"]
    assert cause["title"] == "Rule DAY1, which is not installed any more: 3 experiments"
    assert "`dcc data recheck --rule DAY1`" in cause["remedy"]
    assert [one["kind"] for one in later if one["kind"] != "D2"] == []
    verdicts = [
        [(one["subject"], one["verdict"]) for one in found["findings"] if one["check"] == "rules"]
        for found in (examined, examined_later)
    ]
    assert ("rule DAY1", "warning") in verdicts[0]
    assert ("rule DAY1", "warning") not in verdicts[1]


def test_a_session_asks_a_rule_of_a_package_about_animals_of_other_documents(
    platform: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In documents in which no other rule finds anything."""
    monkeypatch.setenv("DCC_DAGSTER_EVENTS", "false")
    Folder(tmp_path / "centre", 1).put("add/H.2013-10-31.1.impc.zip", {**specimens(), **experiments(animals=2)})
    platform("source", "add", "--centre", "H", "--protocol", "file", "--base-path", tmp_path / "centre")
    platform("crawl")
    found = platform("data", "findings", "--each")
    assert sorted(one["message"] for one in found) == [f"The animal 'H-M00000{n}' is known." for n in (1, 2)]


def test_sessions_notify_through_the_channel_of_a_package_and_no_other(
    platform: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCC_DAGSTER_EVENTS", "false")
    share = tmp_path / "shares" / "harwell"
    share.mkdir(parents=True)
    platform("source", "add", "--centre", "H", "--protocol", "share", "--hostname", "harwell")
    platform("crawl")
    assert not (tmp_path / "events.jsonl").exists()
    share.rename(tmp_path / "away")
    platform("crawl", ends=4)
    (tmp_path / "away").rename(share)
    monkeypatch.setenv("DCC_LANGUAGE", "de")
    platform("crawl")
    told = [json.loads(line)["subject"] for line in (tmp_path / "events.jsonl").read_text("utf-8").splitlines()]
    where = "1 (H, share://harwell)"
    assert told == [f"DCC: Outage: file source {where}", f"DCC: Behoben: Dateiquelle {where}"]


def test_a_source_whose_package_is_gone_fails_by_itself(platform: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "shares" / "harwell").mkdir(parents=True)
    platform("source", "add", "--centre", "H", "--protocol", "share", "--hostname", "harwell")
    # In this process, which has no added packages.
    tested, listed = (CliRunner().invoke(dcc, f"source {words} --json".split()) for words in ("test 1", "list"))
    assert tested.exit_code == 2
    assert "nothing that is installed speaks the protocol share" in json.loads(tested.stdout)["error"]["message"]
    assert [source["protocol"] for source in json.loads(listed.stdout)] == ["share"]


def test_a_package_that_cannot_be_loaded_is_named_and_help_and_doctor_work(
    begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group in ("dcc.rules", "dcc.converters"):
        describe(tmp_path, f"no_{group[4:]}", group)
    shutil.copytree(begun, tmp_path / "home")
    monkeypatch.setenv("DCC_HOME", str(tmp_path / "home"))
    helped, *refused, examined = run(tmp_path, "--help", "daemon", "validate .", "doctor --no-sources --json")
    assert "explain" in helped.stdout
    for group, ended in zip(("rules", "converters"), refused, strict=True):
        said = f"Error (configuration): no_{group}, which the package no_{group} 1.0 adds as dcc.{group}, cannot be"
        assert (ended.returncode, said in ended.stderr) == (2, True)
    findings = json.loads(examined.stdout)["findings"]
    found = [one for one in findings if one["subject"] == "package no_rules 1.0"]
    assert [(one["verdict"], "pip uninstall" in one["advice"]) for one in found] == [("failed", True)]
    assert examined.returncode == 4


def test_a_rule_that_is_declared_wrongly_is_refused_with_its_package(tmp_path: Path) -> None:
    (tmp_path / "known_animals.py").write_text(KNOWN_ANIMALS.replace('"D2"', '"S1"'), "utf-8")
    describe(tmp_path, "known_animals", "dcc.rules")
    (ended,) = run(tmp_path, "rules list")
    said = "Two rules have the id S1, in dcc.rules.specimen_rules and known_animals 1.0."
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert "known_animals, which the package known_animals 1.0 adds as dcc.rules" in ended.stderr
    assert "InternalFaultError" not in ended.stderr


ADDED = """
class ShareConnection: ...

def pager(settings):
    return Pager()

class Pager:
    name, repeats, attaches = "pager", True, False

    def recipients(self, audience, addresses):
        return []

def broken(settings):
    raise ValueError("no pager")
"""


def test_doctor_names_what_packages_add_and_what_of_it_cannot_be_used(begun: Path, tmp_path: Path) -> None:
    for package, entries in {
        "good": "[dcc.sources]\nshare = added:ShareConnection\n[dcc.channels]\npager = added:pager\n",
        "bad": "[dcc.sources]\nfile_share = added:ShareConnection\n[dcc.channels]\nbad = added:broken\n",
    }.items():
        describe(tmp_path, package, "dcc.sources")
        (tmp_path / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(entries, "utf-8")
    (tmp_path / "added.py").write_text(ADDED, "utf-8")
    examined, offered = run(tmp_path, "doctor --no-sources --json", "source add --help")
    found = {
        (one["subject"], one["verdict"]): one["message"]
        for one in json.loads(examined.stdout)["findings"]
        if one["check"] == "packages"
    }
    assert found.keys() == {
        ("package good 1.0", "ok"),
        ("package bad 1.0", "failed"),
        ("channels of packages", "failed"),
    }
    assert found["package good 1.0", "ok"] == "It adds the protocol share, the channel pager."
    assert "file_share is never used: its name has more than 8 characters" in found["package bad 1.0", "failed"]
    assert "share" in offered.stdout
    assert "file_share" not in offered.stdout


ODD_RULES = """
from dcc.documents.contents import Experiment
from dcc.messages import mark
from dcc.rules.findings import fault
from dcc.rules.registry import rule

def odd_rule(rule_id, message, yielded):
    def is_odd(experiment, at):
        'Experiments are not odd.'
        yield yielded(experiment, at)

    texts = {"message": message, "cause": mark("Odd"), "remedy": mark("See.")}
    rule(rule_id, Experiment, **texts, needs_other_documents=rule_id != "D8")(is_odd)

odd_rule("D1", mark("See {document}."), lambda one, at: fault(one.line, document="protocol 7"))
"""
WRONG = {
    "one.absent": "AttributeError: 'Experiment' object has no attribute 'absent'",
    "fault(one.line, None, 'typo')": "ValueError: no case 'typo' is declared",
    "fault(one.line, other='x')": "ValueError: the message lacks animal",
    "fault('x', animal='x')": "TypeError: the line is of the type str",
    "fault(one.line, one, animal='x')": "TypeError: the value is of the type Experiment",
    "fault(one.line, animal=object())": "TypeError: the detail animal is of the type object",
    "fault(one.line, animal=len(at.answers.specimens))": "Declare needs_other_documents=True.",
}


def test_a_rule_may_have_any_details_and_one_that_breaks_down_is_explained_and_not_told_to_a_centre(
    tmp_path: Path,
) -> None:
    wrong = [
        f'odd_rule("D{n}", mark("See {{animal}}."), lambda one, at: {said})' for n, said in enumerate(WRONG, start=2)
    ]
    (tmp_path / "odd_rules.py").write_text(ODD_RULES + "\n".join(wrong), "utf-8")
    describe(tmp_path, "odd_rules", "dcc.rules")
    ((name, document),) = experiments(animals=1).items()
    (tmp_path / name).write_bytes(document)
    (ended,) = run(tmp_path, f"validate {tmp_path / name} --json")
    (verdict,) = json.loads(ended.stdout)
    assert [error["message"] for error in verdict["errors"]] == ["See protocol 7."]
    told = [one["message"].partition(" broke")[0] for one in verdict["warnings"]]
    assert sorted(told) == [f"Not checked: The rule D{n} of the package odd_rules 1.0" for n in range(2, 9)]
    for number, reason in enumerate(WRONG.values(), start=2):
        assert f"Rule D{number} of the package odd_rules 1.0 broke down at" in ended.stderr
        assert reason in ended.stderr
    assert "fault of the platform" not in ended.stdout + ended.stderr
