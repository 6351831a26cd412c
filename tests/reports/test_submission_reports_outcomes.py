"""What became of a submission, in words and in German; and what is told of archives that wait for their animals."""

import itertools
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dcc.declarations import acts_in
from dcc.notify.digests import causes_of, collect_digests
from dcc.phases import Phase, State, Status
from dcc.reports.causes import failed_specimens
from dcc.reports.causes.cause import Cause
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions import labels
from dcc.reports.submissions.collecting import (
    collect_centre,
    collect_report,
    collect_session,
    collect_submission,
    steps_of,
)
from dcc.reports.submissions.json_form import report_as_json
from dcc.reports.submissions.model import Outcome, Standing, SubmissionReport, Tone
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.sentences import who_acts
from dcc.reports.submissions.submission_lines import outcome_of
from dcc.settings import Settings
from dcc.tracker.crawls import list_sessions
from dcc.tracker.decisions import DecisionKind, decisions_of, record_decisions
from dcc.tracker.queries.state_counts import StateCount
from dcc.vocabulary import Actor
from tests.reports.test_submission_reports import OUTCOMES
from tests.support.asking import in_both, in_reading, in_writing
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.report_pages import Page
from tests.support.submission_world import Desk, unknown_colony, wrong_form

P, S = Phase, Status


WAITS, FAILED = (P.UPLOAD, S.PENDING), (P.DATA, S.FAILED)


@pytest.mark.parametrize(
    ("state", "documents", "known", "outcome"),
    [
        ((P.ZIP_NAME, S.FAILED), [], {}, Outcome.NAME_REFUSED),
        ((P.ZIP_NAME, S.DONE), [], {}, Outcome.WAITING),
        ((P.DOWNLOAD, S.RUNNING), [], {}, Outcome.WAITING),
        ((P.ZIP_NAME, S.DONE), [], {"is_hosted": False}, Outcome.GONE),
        ((P.DOWNLOAD, S.FAILED), [], {}, Outcome.NOT_ARRIVED),
        ((P.ZIP_MD5, S.DONE), [], {}, Outcome.UNDER_WAY),
        ((P.ZIP_MD5, S.FAILED), [], {}, Outcome.CHECKSUM_WRONG),
        ((P.UNZIP, S.RUNNING), [], {}, Outcome.UNDER_WAY),
        ((P.UNZIP, S.FAILED), [], {}, Outcome.UNREADABLE),
        ((P.XML_NAME, S.FAILED), [(P.XML_NAME, S.FAILED)], {}, Outcome.NOTHING_TAKEN),
        ((P.XML_NAME, S.FAILED), [(P.XML_NAME, S.FAILED), (P.QC, S.DONE)], {}, Outcome.PARTLY_TAKEN),
        ((P.XSD, S.RUNNING), [(P.XSD, S.RUNNING)], {}, Outcome.UNDER_WAY),
        ((P.XSD, S.FAILED), [(P.XSD, S.FAILED)], {}, Outcome.NOTHING_TAKEN),
        ((P.XSD, S.FAILED), [(P.XSD, S.FAILED), (P.XSD, S.DONE)], {}, Outcome.PARTLY_TAKEN),
        ((P.XSD, S.DONE), [(P.XSD, S.DONE)], {}, Outcome.TO_BE_TAKEN),
        ((P.UPLOAD, S.PENDING), [(P.UPLOAD, S.PENDING)], {}, Outcome.TO_BE_TAKEN),
        ((P.UPLOAD, S.FAILED), [(P.UPLOAD, S.FAILED)], {}, Outcome.NOTHING_TAKEN),
        ((P.UPLOAD, S.CANCELLED), [(P.UPLOAD, S.CANCELLED)], {}, Outcome.WITHDRAWN),
        ((P.DATA, S.RUNNING), [(P.DATA, S.RUNNING)], {}, Outcome.UNDER_WAY),
        ((P.DATA, S.FAILED), [(P.DATA, S.FAILED)], {}, Outcome.PARTLY_TAKEN),
        ((P.CONTEXT, S.DONE), [(P.CONTEXT, S.DONE)], {}, Outcome.UNDER_WAY),
        ((P.QC, S.PENDING), [(P.QC, S.PENDING)], {}, Outcome.TO_BE_LOOKED_AT),
        ((P.QC, S.DONE), [(P.QC, S.DONE)], {}, Outcome.DONE),
        # What the QC database has decides whether anything was taken.
        (FAILED, [FAILED], {"taken": False}, Outcome.NOTHING_TAKEN),
        (FAILED, [FAILED], {"taken": True}, Outcome.PARTLY_TAKEN),
        # What waits to be confirmed is said unless something failed.
        (WAITS, [WAITS], {"held": True}, Outcome.HELD),
        ((P.XSD, S.FAILED), [WAITS, (P.XSD, S.FAILED)], {"held": True}, Outcome.PARTLY_TAKEN),
    ],
)
def test_the_outcome_follows_the_state(
    state: tuple[Phase, Status], documents: list[tuple[Phase, Status]], known: dict[str, bool], outcome: Outcome
) -> None:
    states = [StateCount(*each, 1) for each in documents]
    assert outcome_of(State(*state), states, **{"held": False, "taken": None, **known}) is outcome


def test_every_state_has_an_outcome_and_every_outcome_its_words() -> None:
    for phase, status in itertools.product(Phase, Status):
        assert outcome_of(State(phase, status), [], held=False, taken=None) in Outcome
    for outcome in Outcome:
        said = labels.OUTCOME_TEXTS[outcome]
        assert all((said.short, said.headline, said.explanation, *said.next))
        assert said.next
        assert outcome.tone in Tone
    assert len({labels.OUTCOME_TEXTS[outcome].short for outcome in Outcome}) == len(Outcome)


def test_the_outcome_of_a_state_names_who_acts_in_it() -> None:
    for phase, status in itertools.product(Phase, Status):
        if status is not Status.FAILED or phase <= Phase.DATA:
            outcome = outcome_of(State(phase, status), [], held=False, taken=None)
            assert labels.OUTCOME_TEXTS[outcome].actor is acts_in(phase, status), (phase, status)


@pytest.mark.parametrize(
    ("outcome", "actors", "said"),
    [
        (Outcome.PARTLY_TAKEN, (), "You, at the centre"),
        (Outcome.PARTLY_TAKEN, (Actor.CENTRE, Actor.NOBODY), "You, at the centre"),
        (Outcome.PARTLY_TAKEN, (Actor.CENTRE, Actor.REGISTRY), "You, at the centre, or the registry"),
        (Outcome.NOTHING_TAKEN, (Actor.DCC,), "The Data Coordination Centre"),
        (Outcome.NOTHING_TAKEN, (Actor.DCC, Actor.CENTRE), "You, at the centre; the Data Coordination Centre, too"),
        (Outcome.WAITS_FOR_DATA, (Actor.CENTRE,), "You, at the centre"),
        (Outcome.NOT_ARRIVED, (Actor.NOBODY,), "Nobody, unless you moved the file: a session tries again"),
        (Outcome.NOT_ARRIVED, (Actor.CENTRE,), "You, at the centre"),
        (Outcome.TO_BE_LOOKED_AT, (Actor.CENTRE,), "The Data Coordination Centre"),
        (Outcome.WAITING, (), "Nobody: it goes on by itself"),
        (Outcome.WITHDRAWN, (), "Nobody: it is decided"),
        (Outcome.DONE, (), "Nobody: it is done"),
    ],
)
def test_who_acts_on_a_submission_is_who_its_causes_name(
    outcome: Outcome, actors: tuple[Actor, ...], said: str, tmp_path: Path
) -> None:
    assert who_acts(load_catalogue("en", Settings(home=tmp_path)), outcome, actors) == said


def test_a_document_passed_what_comes_before_its_phase_and_not_what_comes_after() -> None:
    steps = {step.phase: step.standing for step in steps_of(P.XSD, S.FAILED)}
    assert steps[P.XML_NAME] is Standing.PASSED
    assert steps[P.XSD] is Standing.FAILED
    assert steps[P.UPLOAD] is steps[P.QC] is Standing.NOT_REACHED


EARLY = "add/H.2013-10-31.1.impc.zip"
MIXED = "add/H.2013-11-02.1.impc.zip"


def outcomes(data: DataInstallation, key: str) -> set[Outcome]:
    """What the report of a submission, its centre's summary, and the summaries and digests of sessions say."""
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        report = collect_submission(tracker, qc, key_of(key), data.settings)
        lines = list(collect_centre(tracker, qc, "H", data.settings).zips)
        for session in list_sessions(tracker):
            lines += collect_session(tracker, qc, session.id, data.settings).zips
            for digest in collect_digests(tracker, data.settings, session.id, "H"):
                lines += digest.lines
    return {report.outcome, *(line.outcome for line in lines if line.key == key_of(key))}


def test_summaries_say_of_a_submission_what_its_report_says(data: DataInstallation) -> None:
    """Of two documents one cannot be read, and the other's animal has an error, until another archive replaces it."""
    data.run(MIXED, wrong_form("2013-11-02.2"), unknown_colony("2013-11-02.1", 70, mice=1))
    assert outcomes(data, MIXED) == {Outcome.NOTHING_TAKEN}
    data.run("edit/H.2013-11-03.1.impc.zip", unknown_colony("2013-11-03.1", 70, mice=1))
    assert outcomes(data, MIXED) == {Outcome.PARTLY_TAKEN}


def test_one_that_waits_for_more_animals_than_are_recorded_is_not_to_be_corrected_either(
    data: DataInstallation,
) -> None:
    """The finding with the number of the others had the centre correct something and submit it again."""
    bounded = data.with_settings(max_document_errors=2)
    bounded.run(EARLY, experiments(animals=5))
    assert outcomes(bounded, EARLY) == {Outcome.WAITS_FOR_DATA}
    waiting = told(bounded, EARLY).cause
    assert (waiting.kind, waiting.findings, waiting.clears_documents, waiting.clears_zips) == ("E4", 2, 1, 1)


def test_an_archive_that_only_waits_for_animals_is_not_to_be_corrected(data: DataInstallation) -> None:
    data.put(EARLY, experiments(animals=3))
    # A document that failed and has other animals.
    data.put("add/H.2013-10-30.1.impc.zip", wrong_form("2013-10-30.1"))
    data.run(MIXED, unknown_colony("2013-11-02.1", 70), experiments("2013-11-02.1", first=90, animals=2))
    assert outcomes(data, EARLY) == {Outcome.WAITS_FOR_DATA}
    waiting = told(data, EARLY).cause
    assert (waiting.failed_documents, waiting.acts) == ((), Actor.NOBODY)
    catalogue = load_catalogue("en", data.settings)
    summary = in_both(data, collect_centre, "H", data.settings)
    (listed,) = [line for line in summary.zips if line.key == key_of(EARLY)]
    assert (listed.failed, listed.to_be_corrected) == (1, 0)
    text = render_text(summary, catalogue)
    assert f"{EARLY}: Waits for other data\n" in text
    assert f"{MIXED}: Accepted in part, 1 of 2 documents to be corrected\n" in text
    row = re.search(rf"<code>{EARLY}</code>.*?To be corrected\">(\d+)", render_html(summary, catalogue, data.settings))
    assert row[1] == "0"


def test_experiments_that_wait_for_animals_in_a_document_that_failed_are_not_to_be_corrected(
    data: DataInstallation,
) -> None:
    """The report counted them, and had the centre submit them again in `edit`."""
    data.run(MIXED, wrong_form("2013-11-02.1", first=1) | experiments("2013-11-02.2", animals=3))
    report = in_both(data, collect_submission, key_of(MIXED), data.settings)
    assert (report.outcome, report.documents_failed, report.to_be_corrected) == (Outcome.NOTHING_TAKEN, 2, 1)
    catalogue = load_catalogue("en", data.settings)
    (sentence,) = report_as_json(report, catalogue)["next"]
    assert sentence.startswith("Documents that were not taken at all")
    page = render_html(report, catalogue, data.settings)
    assert re.search(r"Documents to be corrected</dt>\s*<dd>1<", page)
    # Nothing of it goes on, though only its contents failed.
    assert {document.steps[-1].standing for document in report.documents} == {Standing.NOT_REACHED}
    (line,) = report_as_json(in_both(data, collect_centre, "H", data.settings), catalogue)["zips"]
    assert (line["failed"], line["to_be_corrected"]) == (2, 1)


ANIMALS = "add/H.2013-10-30.1.impc.zip"


def test_an_acknowledgement_ends_when_the_failure_disappears_and_not_when_the_data_fail_again(
    data: DataInstallation,
) -> None:
    key, english = "add/H.2013-10-31.2.impc.zip", load_catalogue("en", data.settings)
    data.run(key, experiments("2013-10-31.2", first=100))
    by = {"by": "wrangler", "reason": "Hopeless."}
    in_writing(data.tracker, record_decisions, DecisionKind.ACKNOWLEDGE, [1], **by)

    def told() -> tuple[str, bool]:
        with data.tracker.connect() as tracker, data.qc.connect() as qc:
            report = collect_submission(tracker, qc, key_of(key), data.settings)
        in_part = replace(report, outcome=Outcome.PARTLY_TAKEN)
        is_to_be_corrected = "must be corrected" in render_text(in_part, english)
        assert is_to_be_corrected is (report.status is not Status.FAILED)
        has_badge = '<span class="badge ' in render_html(report, english, data.settings)
        assert has_badge is (report.status is not Status.FAILED)
        # At first one of the animals is there.
        assert (report.documents[0].steps[-1].standing is Standing.IN_PART) is (report.status is Status.FAILED)
        return data.states()[key], "Nobody has to act, said wrangler" in render_text(report, english)

    for stem, first, mice, expected in (
        ("2013-10-31.3", 100, 1, ("data failed", True)),
        ("2013-10-31.4", 101, 2, ("qc pending", False)),
    ):
        data.run(f"add/H.{stem}.impc.zip", specimens(stem, first=first, mice=mice))
        assert told() == expected
    assert len(data.set_back()) >= 2
    (decision,) = in_reading(data.tracker, decisions_of, 1)
    assert (decision.revoked_by or "").startswith("session ")
    # Nor does one count that a killed session did not end.
    in_writing(data.tracker, record_decisions, DecisionKind.ACKNOWLEDGE, [1], **by)
    assert told() == ("qc pending", False)


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
    report = in_both(data, collect_submission, key_of(key), data.settings)
    (cause,) = [cause for cause in report.causes if cause.kind == "E4"]
    text = " ".join(render_text(report, catalogue).split())
    return Told(cause, text, render_html(report, catalogue, data.settings), report_as_json(report, catalogue))


def test_the_document_that_failed_is_named_where_experiments_wait_for_its_animals(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for three animals, two of them in that document."""
    (document,) = form = wrong_form("2013-10-30.1", first=1, mice=2)
    data.put(ANIMALS, form)
    data.run(EARLY, experiments(animals=3))
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
    data.run(ANIMALS, {"H.2013-10-30.1.specimen.impc.xml": b"nothing of XML"})
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
    monkeypatch.setattr(failed_specimens, "_known", {})
    for day in range(1, 5):
        data.put(f"add/H.2013-09-0{day}.1.impc.zip", wrong_form(f"2013-09-0{day}.1", first=day, mice=1))
    data.run(EARLY, experiments(animals=4))
    assert [len(told(data, EARLY).cause.failed_documents) for _ in range(3)] == [2, 4, 4]


def test_documents_without_animals_are_not_read_again_either(
    data: DataInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_specimens, "_known", {})
    monkeypatch.setattr(failed_specimens, "MAX_DOCUMENTS", 1)
    data.run(ANIMALS, wrong_form("2013-10-30.1", first=1, mice=1))
    data.put("add/H.2013-11-05.1.impc.zip", {"H.2013-11-05.1.specimen.impc.xml": b"nothing of XML"})
    data.run(EARLY, experiments(animals=1))
    assert [len(told(data, EARLY).cause.failed_documents) for _ in range(2)] == [0, 1]


ENGLISH = re.compile(
    r"\b(?:the|is|are|of|not|and|with|which|that|than|it|no|has|there|were|be|been|from|by|for|this|have|what|to|or)\b",
    re.IGNORECASE,
)
VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|`[^`]*`|„[^“]*“|<[^>]*>|\S*[/@_.]\S*|dcc [a-z]+ \S+|Centre [HJ]")


def english_in(text: str) -> list[str]:
    """The English words of a text, each with what is around it."""
    bare = VALUES.sub("¤", text)
    return [bare[max(0, found.start() - 60) : found.end() + 40] for found in ENGLISH.finditer(bare)]


def all_of(desk: Desk, report: object) -> str:
    """A report as a page, with the words for its pictures, and as plain text, in German."""
    german = desk.catalogue("de")
    page = Page(render_html(report, german, desk.data.settings))  # type: ignore[arg-type]
    pictures = " ".join(page.all("//img/@alt"))
    return f"{page.text} {pictures} {render_text(report, german)}"  # type: ignore[arg-type]


@pytest.mark.parametrize("key", OUTCOMES)
def test_a_report_in_german_holds_no_english(submission_desk: Desk, key: str) -> None:
    report: SubmissionReport = submission_desk.report(key)
    assert english_in(all_of(submission_desk, report)) == []


def test_summaries_in_german_hold_no_english(submission_desk: Desk) -> None:
    desk = submission_desk
    german, settings = desk.catalogue("de"), desk.data.settings
    centre = collect_report(desk.tracker, desk.qc, "H", settings, catalogue=german)
    assert english_in(all_of(desk, centre)) == []
    (session, *_) = list_sessions(desk.tracker, limit=1)
    shown = collect_session(desk.tracker, desk.qc, session.id, settings)
    assert english_in(all_of(desk, shown)) == []
