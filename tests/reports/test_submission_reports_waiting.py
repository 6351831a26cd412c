"""What is told of archives whose experiments came before their animals: nothing is to be corrected."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from dcc.notify.digests import causes_of, collect_digests
from dcc.reports.causes import failed_specimens
from dcc.reports.causes.cause import Cause
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_centre, collect_submission
from dcc.reports.submissions.json_form import as_json
from dcc.reports.submissions.model import Outcome
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.vocabulary import Actor
from tests.support.asking import in_both, in_reading
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.submission_world import unknown_colony, wrong_form

EARLY = "add/H.2013-10-31.1.impc.zip"
MIXED = "add/H.2013-11-02.1.impc.zip"


def outcomes(data: DataInstallation, key: str) -> set[Outcome]:
    """What the report of a submission, its centre's summary and the session's digest say became of it."""
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        report = collect_submission(tracker, qc, key_of(key), data.settings, max_pictures=0)
        lines = list(collect_centre(tracker, qc, "H", data.settings, max_pictures=0).zips)
        session, _ = data.last_session()
        for digest in collect_digests(tracker, data.settings, session, "H"):
            lines += digest.lines
    return {report.outcome, *(line.outcome for line in lines if line.key == key_of(key))}


def test_an_archive_that_only_waits_for_animals_is_not_to_be_corrected(data: DataInstallation) -> None:
    data.put(EARLY, experiments(animals=3))
    # A document that failed and has other animals.
    data.put("add/H.2013-10-30.1.impc.zip", wrong_form("2013-10-30.1"))
    data.put(MIXED, unknown_colony("2013-11-02.1", 70), experiments("2013-11-02.1", first=90, animals=2))
    data.run()
    assert outcomes(data, EARLY) == {Outcome.WAITS_FOR_DATA}
    waiting = told(data, EARLY).cause
    assert (waiting.failed_documents, waiting.acts) == ((), Actor.NOBODY)
    assert Outcome.WAITS_FOR_DATA not in outcomes(data, MIXED)
    catalogue = load_catalogue("en", data.settings)
    summary = in_both(data, collect_centre, "H", data.settings, max_pictures=0)
    (listed,) = [line for line in summary.zips if line.key == key_of(EARLY)]
    assert (listed.failed, listed.to_be_corrected) == (1, 0)
    text = render_text(summary, catalogue)
    assert f"{EARLY}: Waits for other data\n" in text
    assert f"{MIXED}: Accepted in part, 2 of 2 documents to be corrected\n" in text
    row = re.search(rf"<code>{EARLY}</code>.*?To be corrected\">(\d+)", render_html(summary, catalogue, data.settings))
    assert row is not None
    assert row[1] == "0"
    data.put("add/H.2013-11-03.1.impc.zip", specimens("2013-11-03.1", mice=3))
    data.run()
    assert outcomes(data, EARLY) == {Outcome.TO_BE_LOOKED_AT}


ANIMALS = "add/H.2013-10-30.1.impc.zip"


@dataclass(frozen=True)
class Told:
    """What is told of experiments that wait for animals."""

    cause: Cause
    text: str
    page: str
    json: dict[str, Any]


def told(data: DataInstallation, key: str) -> Told:
    """The cause of rule E4 in a submission, and the submission's report in all its forms."""
    catalogue = load_catalogue("en", data.settings)
    report = in_both(data, collect_submission, key_of(key), data.settings, max_pictures=0)
    (cause,) = [cause for cause in report.causes if cause.kind == "E4"]
    text = " ".join(render_text(report, catalogue).split())
    return Told(cause, text, render_html(report, catalogue, data.settings), as_json(report, catalogue))


def test_the_document_that_failed_is_named_where_experiments_wait_for_its_animals(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for three animals, two of them in that document."""
    (document,) = form = wrong_form("2013-10-30.1", first=1, mice=2)
    data.put(ANIMALS, form)
    data.put(EARLY, experiments(animals=3))
    data.run()
    found = told(data, EARLY)
    assert found.cause.acts is Actor.CENTRE
    assert found.cause.others_awaited == 1
    assert [one.as_json() for one in found.cause.failed_documents] == [
        {"zip": ANIMALS, "document": document, "phase": "xsd", "animals": 2}
    ]
    named = f"2 of the animals are in {document} of {ANIMALS}, which failed in the phase xsd."
    assert named in found.text
    assert named in found.page
    (in_json,) = [cause for cause in found.json["causes"] if cause["kind"] == "E4"]
    assert named in in_json["remedy"]
    assert (in_json["acts"], found.json["who_acts"]) == ("centre", "You, at the centre")
    assert "clears by itself" not in found.text
    assert outcomes(data, EARLY) == {Outcome.WAITS_FOR_DATA}
    # Mails name it as well.
    bad = [line.key for digest in in_reading(data.tracker, collect_digests, data.settings, 1) for line in digest.bad]
    (cause,) = [one for one in causes_of(data.tracker, data.settings, 1, bad)["H"] if one.kind == "E4"]
    assert document in cause.remedy_for_centre(load_catalogue("en", data.settings))
    # Once staging is clean, the archive store has it.
    shutil.rmtree(data.settings.staging_directory)
    monkeypatch.setattr(failed_specimens, "_known", {})
    (stored,) = told(data, EARLY).cause.failed_documents
    assert (stored.document, len(stored.specimens)) == (document, 2)


def test_a_document_that_cannot_be_read_is_named_if_it_lies_beside_the_experiments(data: DataInstallation) -> None:
    ((document, _),) = specimens().items()
    data.put(EARLY, {document: b"nothing of XML"}, experiments(animals=3))
    data.put(ANIMALS, {"H.2013-10-30.1.specimen.impc.xml": b"nothing of XML"})
    data.run()
    found = told(data, EARLY)
    assert [one.as_json() for one in found.cause.failed_documents] == [
        {"zip": EARLY, "document": document, "phase": "xsd", "animals": 0}
    ]
    assert f"Animals may be in {document} of {EARLY}" in found.text


def test_of_very_many_failed_documents_a_report_reads_some(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those in the archive with the experiments, then the newest; those that were read are not read again."""
    monkeypatch.setattr(failed_specimens, "MAX_DOCUMENTS", 2)
    for day in range(1, 5):
        data.put(f"add/H.2013-09-0{day}.1.impc.zip", wrong_form(f"2013-09-0{day}.1", first=day, mice=1))
    data.put(EARLY, experiments(animals=4))
    data.run()
    assert [len(told(data, EARLY).cause.failed_documents) for _ in range(3)] == [2, 4, 4]


def test_documents_without_animals_are_not_read_again_either(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_specimens, "_known", {})
    monkeypatch.setattr(failed_specimens, "MAX_DOCUMENTS", 1)
    data.put(ANIMALS, wrong_form("2013-10-30.1", first=1, mice=1))
    data.run()
    data.put("add/H.2013-11-05.1.impc.zip", {"H.2013-11-05.1.specimen.impc.xml": b"nothing of XML"})
    data.put(EARLY, experiments(animals=1))
    data.run()
    assert [len(told(data, EARLY).cause.failed_documents) for _ in range(2)] == [0, 1]
