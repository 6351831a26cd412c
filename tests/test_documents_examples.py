"""The examples of docs/extending.md and CONTRIBUTING.md do what these say."""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from dcc import declarations
from dcc.cli.demo import submissions
from dcc.converters import conversion
from dcc.declarations import message_of
from dcc.errors import FileMissingError, NotificationNotSentError
from dcc.naming import Action
from dcc.notify.messages import Audience, NewsKind, Notification
from dcc.reference.loading import ReferenceData
from dcc.reports.languages import load_catalogue
from dcc.rules import registry
from dcc.rules.checking import check_contents
from dcc.rules.context import DocumentContext
from dcc.session.prepare.archive_checks import ArchiveChecker, CheckedArchive
from dcc.session.source_listings import list_source
from dcc.settings import Settings
from dcc.sources import connect as connecting
from dcc.sources.base import SourceAddress
from dcc.sources.protocols import SourceProtocol
from tests.archives.test_manifest import SETUP
from tests.support.qc_documents import contents, experiment

ROOT = Path(__file__).parent.parent


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """The names that the Python blocks of the documents define; the rules that they register go with the test."""
    monkeypatch.setattr(registry, "RULES", dict(registry.RULES))
    monkeypatch.setattr(declarations, "_DECLARED", dict(declarations._DECLARED))
    monkeypatch.setattr(registry, "_BY_KIND", dict(registry._BY_KIND))
    names: dict[str, Any] = {}
    for page in ("docs/extending.md", "CONTRIBUTING.md"):
        for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S):
            exec(compile(block, page, "exec"), names)
    return names


def test_a_protocol_of_ones_own_is_crawled(
    examples: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcc.sources.folder.LocalConnection", examples["MemoryConnection"])
    address = SourceAddress(1, "H", SourceProtocol.FILE, "memory", "", SecretStr(""), "")
    listing = list_source(address, Settings(home=tmp_path))
    assert [file.name for part in listing.listings for file in part.zips] == ["H.2013-10-31.1.impc.zip"]
    received: list[bytes] = []
    with connecting.connect(address, Settings(home=tmp_path)) as connection:
        connection.fetch(listing.listings[0].action, "H.2013-10-31.1.impc.zip", received.append, size=3, offset=1)
        with pytest.raises(FileMissingError):
            connection.fetch(listing.listings[0].action, "absent.zip", received.append, size=3)
    assert received == [b".."]


def test_a_rule_of_ones_own_judges(examples: Mapping[str, Any]) -> None:
    assert examples["experiment_is_of_a_working_day"]
    sunday, monday = experiment("E1")._replace(date="2013-10-06"), experiment("E2")._replace(date="2013-10-07")
    document = DocumentContext(Action.ADD, "H", date(2026, 11, 21), ReferenceData())
    found = check_contents(contents(sunday, monday), document)
    assert [(finding.rule, finding.entity) for finding in found if finding.rule == "DAY1"] == [("DAY1", 1)]


def test_a_converter_of_ones_own_converts(
    examples: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "all_converters", lambda: (examples["Births"](),))
    checker = ArchiveChecker(SETUP)
    for births, said in (
        ("H-1 2013-10-31", []),
        ("H-1 2013-10-31\nH-2 31.10.2013", ["See births.txt, row 2, column day of birth."]),
        ("H-1 2013-10-31\nH-2", ["'H-2' has no day of birth. Add it. See births.txt, row 2."]),
    ):
        archive = tmp_path / "H.2013-10-31.1.impc.zip"
        archive.write_bytes(submissions.archive({"births.txt": births.encode()}))
        found = checker.check(archive, tmp_path / "contents")
        assert isinstance(found, CheckedArchive)
        (problems,) = found.problems
        assert [one.message[-len(end) :] for one, end in zip(problems, said, strict=True)] == said


def test_a_channel_of_ones_own_notifies(
    examples: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert examples["open_pager"](Settings(home=tmp_path)) is None
    monkeypatch.setenv("PAGER_PIPE", str(tmp_path / "pager"))
    channel = examples["open_pager"](Settings(home=tmp_path))
    assert channel.recipients(Audience.CENTRE, ()) == []
    told = {NewsKind.OUTAGE: Audience.WRANGLERS, NewsKind.OWNER: Audience.REPORTED, NewsKind.SESSION: Audience.SUMMARY}
    for kind, audience in told.items():
        (recipient,) = channel.recipients(audience, ())
        channel.send(Notification("7", kind, audience, ""), recipient, seconds=1)
    lines = (tmp_path / "pager").read_text("utf-8").splitlines()
    assert lines == [f"7 {audience}" for audience in told.values()]
    with pytest.raises(NotificationNotSentError):
        examples["PagerChannel"](tmp_path).send(Notification("7", NewsKind.OUTAGE, "Away", ""), recipient, seconds=1)


def test_a_language_of_ones_own_is_spoken(examples: Mapping[str, Any], tmp_path: Path) -> None:
    (catalogue,) = re.findall(r"^```po\n(.*?)^```$", (ROOT / "docs/extending.md").read_text("utf-8"), re.M | re.S)
    (tmp_path / "fr.po").write_text(catalogue, "utf-8")
    french = load_catalogue("fr", Settings(home=tmp_path, languages_directory=tmp_path))
    assert (french.say("Accepted"), french.size(0), french.size(2)) == ("Accepté", "0 octet", "2 octets")
    assert french.date(date(2013, 10, 31)) == "31 oct. 2013"
    assert examples["greeting"](french, "Ics", 12_345) == "12\u202f345 archives of Ics came through."
    document = DocumentContext(Action.ADD, "H", date(2026, 11, 21), ReferenceData())
    found = check_contents(contents(experiment("E1")._replace(date="2013-10-06")), document)
    (said,) = [message_of(one.code, {**one.details, "value": one.value}) for one in found if one.rule == "DAY1"]
    assert french.tell(said) == "L’expérience 'E1' est datée du 2013-10-06, un dimanche. Vérifiez la date."
