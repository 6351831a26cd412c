"""Rules of installed packages judge, and are listed, explained, grouped and told like the platform's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dcc.rules.catalogue import CATALOGUE
from dcc.rules.groups import GROUP_OF

ROOT = Path(__file__).parents[2]
JUDGES = """
import json
from datetime import date
from pathlib import Path
from dcc.declarations import message_of
from dcc.naming import Action
from dcc.reference.loading import ReferenceData
from dcc.reports.causes.cause import Cause, Clears
from dcc.reports.languages import load_catalogue
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.rules.findings import facts_of, with_value
from dcc.rules.groups import GROUP_OF
from dcc.settings import Settings
from tests.support.qc_documents import contents, experiment

class Nothing:
    def known_specimens(self, centre, ids):
        return {}
    def known_experiments(self, centre, keys):
        return {}

document = DocumentContext(1, Action.ADD, "H", date(2026, 11, 21), ReferenceData(), Nothing())
found = check_contents(contents(experiment("E1")._replace(date="2013-10-06")), document)
(finding,) = [one for one in found if one.rule == "D1"]
french = load_catalogue("fr", Settings(home=Path("/nowhere"), languages_directory=Path("LANGUAGES")))
known = with_value(finding.details, finding.value)
cause = Cause("k", "D1", "H", finding.severity, 1, 1, 1, {"experiments": 1}, Clears(), details=known)
english = load_catalogue("en", Settings(home=Path("/nowhere")))
print(json.dumps({
    "message": finding.message,
    "french": french.tell(message_of("D1", known)),
    "kept": facts_of("D1", finding.details, finding.value).details,
    "group": GROUP_OF["D1"].name,
    "cause": [cause.title(english), cause.remedy(english), cause.who_acts(english)],
}))
"""
FRENCH = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

msgid "The experiment '{experiment}' is dated {value}, a Sunday. Look whether the date is right."
msgstr "L’expérience '{experiment}' est datée du {value}, un dimanche. Vérifiez la date."
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the example package is installed."""
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    source = tmp_path_factory.mktemp("source") / "working_days"
    subprocess.run(["cp", "-r", str(ROOT / "examples" / "working_days"), str(source)], check=True)
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, capture_output=True)
    return target


def run(installed: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{installed}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=True, cwd=ROOT
    )
    return done.stdout


def test_rules_of_a_package_are_listed_and_explained(installed: Path) -> None:
    main = ["-c", "import sys; from dcc.cli.main import main; main()"]
    entries = {each["id"]: each for each in json.loads(run(installed, *main, "rules", "list", "--json"))}
    assert entries["D1"]["demand"] == "An experiment is not dated on a Sunday."
    explained = json.loads(run(installed, *main, "explain", "D1", "--json"))
    assert "Look whether these dates are right" in explained["advice"]
    assert explained["who"] == "centre"


def test_rules_of_a_package_judge_and_are_told_in_causes_and_languages(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "fr.po").write_text(FRENCH, "utf-8")
    told = json.loads(run(installed, "-c", JUDGES.replace("LANGUAGES", str(tmp_path))))
    assert told == {
        "message": "The experiment 'E1' is dated 2013-10-06, a Sunday. Look whether the date is right.",
        "french": "L’expérience 'E1' est datée du 2013-10-06, un dimanche. Vérifiez la date.",
        "kept": '{"experiment":"E1"}',
        "group": "added_rules",
        "cause": [
            "Experiments are dated on Sundays: 1 experiment",
            "Look whether these dates are right, and correct those that are not.",
            "The centre acts.",
        ],
    }


TELLS = """
import sys
from pathlib import Path
from dcc.notify.channels.base import open_channels
from dcc.notify.messages import Audience, Kind, Message
from dcc.settings import Settings

(channel,) = open_channels(Settings(home=Path("/nowhere")))
(recipient,) = channel.recipients(Audience.WRANGLERS, ())
channel.send(Message("7", Kind.OUTAGE, "Away", ""), recipient, seconds=1)
"""


def test_a_channel_of_a_package_tells(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("EVENT_FILE", str(path))
    run(installed, "-c", TELLS)
    assert json.loads(path.read_text("utf-8")) == {"id": "7", "subject": "Away"}


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    described = tmp_path / "broken-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", "utf-8")
    (described / "entry_points.txt").write_text("[dcc.rules]\nbroken = no_such_module\n", "utf-8")
    with pytest.raises(subprocess.CalledProcessError) as ended:
        run(tmp_path, "-c", "import sys; from dcc.cli.main import main; main()", "rules", "list")
    assert ended.value.returncode == 2
    assert "no_such_module, which an installed package adds as dcc.rules, cannot be loaded" in ended.value.stderr


def test_every_rule_of_the_platform_is_in_a_group_of_its_own() -> None:
    forgotten = [rule for rule in CATALOGUE if GROUP_OF[rule].name == "added_rules"]
    assert not forgotten, f"Put {forgotten} into a group of dcc/rules/groups.py, the asset check that shows them."
