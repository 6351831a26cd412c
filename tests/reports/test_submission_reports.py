"""Reports on submissions in every state: the facts, the page and the JSON say the same, and nothing harms a reader."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

import pytest

from dcc.messages import Message
from dcc.outcomes import SESSION_MEANINGS, EndReason, Problem, SubmissionKey
from dcc.reports.causes.collecting import worst_first
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.accepted import accepted_of_submission
from dcc.reports.submissions.collecting import collect_centre, collect_report, collect_session, collect_submission
from dcc.reports.submissions.json_form import report_as_json
from dcc.reports.submissions.model import AcceptedData, EntityCount, Outcome
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.sentences import sections_beside, troubles_sentence
from dcc.tracker.crawls import list_sessions
from tests.support import submission_world as world
from tests.support.asking import in_both, in_reading
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_mariadb, only_sqlite
from tests.support.installations import Installation
from tests.support.report_pages import Page
from tests.support.submission_world import Desk

OUTCOMES = {
    world.NAME_REFUSED: Outcome.NAME_REFUSED,
    world.CHECKSUM_WRONG: Outcome.CHECKSUM_WRONG,
    world.UNREADABLE: Outcome.UNREADABLE,
    world.NOT_ARRIVED: Outcome.NOT_ARRIVED,
    world.PARTLY_VALID: Outcome.PARTLY_TAKEN,
    world.WITH_FINDINGS: Outcome.PARTLY_TAKEN,
    world.GOOD: Outcome.TO_BE_LOOKED_AT,
    world.REPEATED: Outcome.DONE,
    world.LATE: Outcome.DONE,
    world.DONE: Outcome.DONE,
    world.HELD: Outcome.HELD,
    world.WITHDRAWN: Outcome.WITHDRAWN,
}


@pytest.fixture
def desk(submission_desk: Desk) -> Desk:
    return submission_desk


@pytest.mark.parametrize("key", OUTCOMES)
def test_every_state_has_a_sensible_report(desk: Desk, key: str) -> None:
    report = desk.report(key)
    assert report.outcome is OUTCOMES[key]
    page, shown = desk.page_of(report), desk.json(report)
    assert page.problems() == []
    assert page.texts("//h1") == [key.partition("/")[2]]
    assert page.section("outcome").startswith(shown["headline"])
    assert shown["explanation"] in page.section("outcome")
    assert [sentence for sentence in shown["next"] if sentence not in page.section("next")] == []
    _says_the_same_of_causes(page, shown)
    # Only wranglers are told whose cause it is, and what they can do about it.
    assert "Centre" not in page.texts("//article//dt")
    _says_the_same_of_documents(page, shown)
    _says_the_same_of_what_came(page, shown)


def _says_the_same_of_causes(page: Page, shown: dict[str, Any]) -> None:
    told = page.texts("//article/h3")
    assert told == [" ".join(cause["title"].split()) for cause in _failing_first(shown["causes"])]
    for cause, article in zip(_failing_first(shown["causes"]), page.texts("//article"), strict=True):
        assert cause["who_acts"] in article
        assert cause["remedy"].replace("`", "") in article
        example = cause["example"]
        for value in (example["document"], example["nearest"]):
            assert value is None or value in article
        if example["line"] is not None:
            assert f"line {example['line']}" in article
        if example["column"] is not None:
            assert f"column {example['column']}" in article


def _failing_first(causes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(causes, key=lambda cause: cause["severity"] not in ("error", "fatal"))


def _says_the_same_of_documents(page: Page, shown: dict[str, Any]) -> None:
    if not shown["documents"]:
        assert page.section("documents") == ""
        return
    rows = page.table("What happened to each document, check by check")
    assert len(rows) == len(shown["documents"]) == shown["documents_total"]
    for row, document in zip(rows, shown["documents"], strict=True):
        said = {step["phase"]: step["said"] for step in document["steps"]}
        assert row[0].startswith(document["file_name"])
        assert [cell[2:] for cell in row[1:-1]] == [said[p] for p in ("xml_name", "xsd", "upload", "data", "qc")]
        assert row[-1] == str(document["errors"])


def _says_the_same_of_what_came(page: Page, shown: dict[str, Any]) -> None:
    came = page.section("arrival")
    assert shown["zip"] in came
    moment, label = (shown["hosts"][0][name] for name in ("first_listed", "label"))
    first = datetime.fromisoformat(moment)
    assert f"It was first seen on {first.day} {first:%b %Y, %H:%M} UTC, on {label}." in page.section("outcome")
    for fact in (shown["md5"], shown["size_bytes"]):
        assert fact is None or f"{fact:,}" in came if isinstance(fact, int) else fact is None or fact in came
    rows = page.table("Attempts to fetch it") if shown["attempts"] else []
    assert [row[1] for row in rows] == [attempt["label"] for attempt in shown["attempts"]]


def counts_of(accepted: AcceptedData) -> dict[str, tuple[int, ...]]:
    return {
        one.kind: (one.named, one.accepted, one.faulty, one.animal_faulty, one.refused) for one in accepted.entities
    }


ACCEPTED = {
    world.GOOD: {"specimen": (3, 3, 0, 0, 0), "experiment": (3, 3, 0, 0, 0)},
    world.WITH_FINDINGS: {"specimen": (3, 2, 1, 0, 0), "experiment": (5, 2, 2, 1, 0)},
    world.PARTLY_VALID: {"specimen": (3, 3, 0, 0, 0)},
    world.REPEATED: {"specimen": (3, 3, 0, 0, 0)},
    world.LATE: {"specimen": (3, 3, 0, 0, 0)},
    world.DONE: {"specimen": (3, 3, 0, 0, 0)},
}


def test_a_report_tells_what_was_accepted(desk: Desk) -> None:
    for key in OUTCOMES:
        accepted = desk.report(key).accepted
        assert counts_of(accepted) == ACCEPTED.get(key, {}), key
    good = desk.report(world.GOOD).accepted
    assert [(one.procedure, one.accepted, one.measurements) for one in good.procedures] == [("IMPC_BWT_001", 3, 3)]
    without_list = accepted_of_submission(desk.qc, key_of(world.GOOD), limit=0)
    assert (without_list.procedures, without_list.procedures_total, without_list.measurements) == ((), 1, 3)
    page = desk.page(world.WITH_FINDINGS)
    assert page.table("Animals, experiments and the like") == [
        ["Animals", "3", "2", "1", "0"],
        ["Experiments", "5", "2", "2", "1"],
    ]
    assert page.table("Measurements by procedure")[0][1:] == ["2", "5"]
    assert "Nothing of this archive is in the data." in desk.page(world.WITHDRAWN).section("accepted")


@only_mariadb
def test_the_same_is_collected_on_mariadb(data: DataInstallation) -> None:
    world.submit_first(data)
    first = (world.GOOD, world.PARTLY_VALID, world.WITH_FINDINGS, world.NAME_REFUSED)
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        desk = Desk(data, tracker, qc)
        for key in first:
            report = desk.report(key)
            assert report.outcome is OUTCOMES[key]
            assert counts_of(report.accepted) == ACCEPTED.get(key, {})
        centre = collect_centre(tracker, qc, "H", data.settings)
        assert {str(line.key) for line in centre.zips} == set(first)
        assert collect_session(tracker, qc, 1, data.settings).zips


def test_the_summary_of_a_centre_tells_of_all_its_submissions(desk: Desk) -> None:
    centre = collect_centre(desk.tracker, desk.qc, "H", desk.data.settings)
    page, shown = desk.page_of(centre), desk.json(centre)
    assert page.problems() == []
    outcomes = {str(line.key): line.outcome for line in centre.zips}
    assert outcomes.pop(next(key for key in outcomes if "script" in key)) is Outcome.NAME_REFUSED
    assert outcomes == OUTCOMES
    _says_the_same_of_zips(page, shown)
    _says_the_same_of_causes(page, shown)
    entries = [row["entry"] for source in shown["sources"] for row in source["not_taken"]]
    assert {world.NAME_REFUSED, world.UNREADABLE} <= set(entries)
    assert "names the date 2013-02-31" in page.section("sources")


def test_the_summary_of_a_session_tells_of_what_it_had_to_do_with(desk: Desk) -> None:
    for session in list_sessions(desk.tracker):
        report = collect_session(desk.tracker, desk.qc, session.id, desk.data.settings)
        page, shown = desk.page_of(report), desk.json(report)
        assert page.problems() == []
        assert page.texts("//h1") == [f"Session {session.id}"]
        assert shown["said"] == f"{session.outcome}: {SESSION_MEANINGS[session.outcome]}"
        assert shown["said"] in page.text
        assert f"Session {session.id}, " in render_text(report, desk.catalogue())
        contents = {link.removeprefix("#") for link in page.all("//nav//a/@href")}
        sections = sections_beside(report, report.causes)
        assert {section.kind.value.replace(" ", "-") for section in sections} <= contents
        assert "It ended on" in page.section("course")
        cut = replace(report, sections=tuple(replace(one, total=one.total + 7) for one in sections))
        assert desk.page_of(cut).text.count("... and 7 more") == len(sections)
        assert page.texts("//article//dt").count("Centre") == len(report.causes)
        _says_the_same_of_zips(page, shown)
        # Of a name that tells no centre, the source's.
        listed = page.table("Archives, those that need correction first") if shown["zips"] else []
        assert {row[1] for row in listed if row[0] == world.NAME_REFUSED} <= {"H"}
        assert [row[1] or None for row in listed] == [line["counts_for"] for line in shown["zips"]]
        _says_the_same_of_causes(page, shown)


def test_the_summary_of_a_session_tells_what_it_did_with_each_source(desk: Desk) -> None:
    report = collect_session(desk.tracker, desk.qc, 3, desk.data.settings)
    (done,) = [source.done for source in report.sources]
    told = f"Archives fetched: 3 ({desk.catalogue().size(done.bytes)}); documents of all archives processed: "
    told += f"{done.documents}; errors and findings: {done.findings}; archives that failed: {done.failed}."
    for text in (desk.page_of(report).text, render_text(report, desk.catalogue())):
        assert told in " ".join(text.split())


def test_the_error_of_a_crawl_is_told_in_the_language_of_the_report(data: DataInstallation) -> None:
    data.folder.path.rename(data.folder.path.with_name("moved"))
    data.validate()
    catalogue = load_catalogue("de", data.settings)
    shown = report_as_json(in_both(data, collect_centre, "H", data.settings), catalogue)
    (source,) = shown["sources"]
    assert source["crawl"]["error"]["message"].startswith("Dateiquelle 1 (H, file://localhost): Der Ordner ")


def test_what_is_told_of_a_session_is_in_the_language_of_the_report(desk: Desk) -> None:
    catalogue = desk.catalogue("de")
    report = collect_session(desk.tracker, desk.qc, 1, desk.data.settings)
    sections = report_as_json(report, catalogue)["sections"]
    said = " ".join(problem["message"] for one in sections for note in one["notes"] for problem in note["problems"])
    assert "Datum 2013-02-31" in said
    assert troubles_sentence(catalogue, replace(report, sections=(), outcome=EndReason.TIME_LIMIT)) == "Zeitgrenze"


def _says_the_same_of_zips(page: Page, shown: dict[str, Any]) -> None:
    rows = page.table("Archives, those that need correction first") if shown["zips"] else []
    assert [row[0] for row in rows] == [line["zip"] for line in shown["zips"]]
    outcomes = [" ".join(cell.split()[1:]) for row in rows for cell in row if cell and cell[0] in "✓✗!…"]
    assert outcomes == [line["said"] for line in shown["zips"]]


def test_the_terminal_tells_what_became_of_what_is_not_accepted(desk: Desk) -> None:
    replaced = EntityCount("specimen", 24, 0, 0, 0, 0, 24, 0, 24)
    edited = EntityCount("experiment", 1200, 1185, 1, 2, 5, 3, 4, 0)
    report = replace(desk.report(world.GOOD), accepted=AcceptedData(entities=(replaced, edited)))
    text = " ".join(render_text(report, desk.catalogue()).split())
    told = "24 replaced or deleted since; 24 of the earlier ones replaced or deleted"
    assert f"Animals: 0 of 24; {told} Experiments:" in text
    told = "2 with errors; 5 not counted, because an animal has errors; 4 not taken; 1 not checked yet; "
    told += "3 replaced or deleted since"
    assert f"Experiments: 1,185 of 1,200; {told}" in text


def test_a_report_on_a_deletion_tells_what_was_deleted(data: DataInstallation) -> None:
    delete = "delete/H.2013-11-02.1.impc.zip"
    data.run("add/H.2013-11-02.1.impc.zip", specimens(), experiments(animals=1))
    data.run(delete, specimens("2013-11-02.1"), experiments("2013-11-02.2", first=2, animals=1))
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        desk = Desk(data, tracker, qc)
        report = desk.report(delete)
    page, text = desk.page_of(report), " ".join(render_text(report, desk.catalogue()).split())
    assert "What was deleted Animals: 2 of 3 deleted; 1 not taken Experiments: 0 of 1 deleted; 1 not taken The" in text
    assert page.problems() == []
    assert page.table("Animals, experiments and the like") == [
        ["Animals", "3", "2", "1"],
        ["Experiments", "1", "0", "1"],
    ]
    assert page.section("accepted").startswith("What was deleted")
    for accepted in ("accepted measurements", "Measurements by procedure"):
        assert accepted not in page.text
    counted = {
        one["kind"]: (one["named"], one["ended"], one["refused"]) for one in desk.json(report)["accepted"]["entities"]
    }
    assert counted == {"specimen": (3, 2, 1), "experiment": (1, 0, 1)}
    assert "submit in a new archive in the directory “delete”" in " ".join(desk.json(report)["next"])
    assert "“edit”" not in page.section("next") + text
    german = render_text(report, desk.catalogue("de"))
    assert "Tiere: 2 von 3 gelöscht; 1 nicht übernommen" in german


def test_what_was_refused_before_another_attempt_is_not_counted_with_it(data: DataInstallation) -> None:
    delete = "delete/H.2013-11-02.1.impc.zip"
    data.put("add/H.2013-10-31.1.impc.zip", specimens(), experiments())

    def counted() -> dict[str, tuple[int, int, int]]:
        accepted = in_both(data, collect_submission, key_of(delete), data.settings).accepted
        return {one.kind: (one.named, one.ended, one.refused) for one in accepted.entities}

    data.run(delete, specimens("2013-11-02.1"))
    assert counted() == {"specimen": (3, 0, 3)}
    data.retry(delete)
    assert counted() == {"specimen": (3, 0, 3)}
    data.run(delete, specimens("2013-11-02.1"), experiments("2013-11-02.2"))
    assert counted() == {"specimen": (3, 3, 0), "experiment": (3, 3, 0)}


def test_what_centres_wrote_is_shown_as_it_is(desk: Desk) -> None:
    report = desk.report(world.WITH_FINDINGS)
    for text in (desk.page_of(report).text, render_text(report, desk.catalogue())):
        assert "<img src=x onerror=alert(1)>\\u202e" in " ".join(text.split())
        assert "\u202e" not in text
    assert world.HOSTILE_COLONY in {cause["example"]["value"] for cause in desk.json(report)["causes"]}


def test_no_text_of_a_report_becomes_a_part_of_its_page(desk: Desk) -> None:
    """Whatever is in the databases: every text of every fact is hostile, and so are those of the summaries."""
    settings = desk.data.settings
    keys = (world.WITH_FINDINGS, world.PARTLY_VALID, world.UNREADABLE, world.WITHDRAWN)
    centre = collect_centre(desk.tracker, desk.qc, "H", settings)
    session = collect_session(desk.tracker, desk.qc, 1, settings)
    for report in (*map(desk.report, keys), centre, session):
        usual, page = desk.page_of(report), desk.page_of(_hostile(report))
        assert page.problems() == []
        assert [element.tag for element in page.all("//*")] == [element.tag for element in usual.all("//*")]
        assert HARM[:8] in page.text
        assert "\u202e" not in page.source
        assert "\x1b" not in page.source
        assert "\x1b" not in render_text(_hostile(report), desk.catalogue())


HARM = "'\"></p><script>alert(1)</script><img src=//x onerror=alert(1)>\u202e\x1b[2J\n{{ 7*7 }}{0}"
WORDS = {"kind", "code", "state", "outcome", "text"}
"""Fields of words of our own, which are looked up."""


def _hostile(value: Any, name: str = "") -> Any:
    """The same with each text that comes from outside replaced."""
    if isinstance(value, Enum) or name in WORDS:
        return value
    if isinstance(value, str):
        return HARM
    if isinstance(value, SubmissionKey):
        return SubmissionKey(value.action, HARM)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _hostile(getattr(value, each.name), each.name) for each in fields(value)})
    if isinstance(value, Mapping):
        return {key: _hostile(one, name) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_hostile(one, name) for one in value)
    return value


def test_a_report_says_when_the_archive_is_kept_no_more(desk: Desk) -> None:
    gone = Problem("ArchiveRemovedError", "Its archive went from staging.", recorded=datetime(2026, 1, 2, 3, 4))
    page = desk.page_of(replace(desk.report(world.GOOD), removals=(gone,)))
    assert "no longer keeps a copy" in page.section("outcome")
    assert "2 Jan 2026, 03:04 UTC" in page.section("arrival")


@only_sqlite
def test_what_was_only_seen_waits_to_be_fetched(installation: Installation) -> None:
    installation.add_folder().put(world.GOOD)
    installation.crawl()
    report = in_reading(installation.tracker, collect_submission, None, key_of(world.GOOD), installation.settings)
    page = Page(render_html(report, load_catalogue("en", installation.settings), installation.settings))
    assert report.outcome is Outcome.WAITING
    assert page.problems() == []
    assert "It was never fetched." in page.section("arrival")
    assert page.section("documents") == page.section("correct") == ""


def test_pictures_of_the_accepted_data_are_in_the_page_with_words_for_them(desk: Desk) -> None:
    settings, catalogue = desk.data.settings, desk.catalogue()
    key = key_of(world.GOOD)
    report = collect_report(desk.tracker, desk.qc, key, settings, catalogue=catalogue, max_pictures=1)
    page = desk.page_of(report)
    assert page.problems() == []
    assert len(report.pictures) == 1
    assert [image.get("alt") for image in page.all("//img")] == [picture.alt for picture in report.pictures]
    assert desk.page(world.GOOD).all("//img") == []


def test_what_clears_by_itself_comes_after_what_is_to_be_corrected_and_apart_from_it(desk: Desk) -> None:
    report = desk.report(world.WITH_FINDINGS)
    (cause, *_) = report.causes
    later = Message("It comes later")
    example = replace(cause.example, message=later, details={"words": "It comes later"})
    clearing = replace(cause, code="E4", example=example)
    report = replace(report, causes=tuple(worst_first([replace(clearing, findings=99), cause])), causes_total=2)
    page, text = desk.page_of(report), render_text(report, desk.catalogue())
    assert page.problems() == []
    assert "It comes later" in page.section("clears")
    assert "It comes later" not in page.section("correct")
    assert page.texts("//article/h3") == [one["title"] for one in desk.json(report)["causes"]]
    assert page.texts("//article/h3")[1].startswith("It comes later")
    waiting = replace(report, causes=(clearing,), outcome=Outcome.WAITS_FOR_DATA)
    page, shown = desk.page_of(waiting), desk.json(waiting)
    assert "You need not correct anything in it." in page.section("outcome")
    assert "You need not submit this archive again" in page.section("next")
    assert "“edit”" not in page.section("next")
    assert (shown["headline"] in page.section("outcome"), shown["next"]) == (
        True,
        page.texts("//section[@aria-labelledby='next']//li"),
    )
    assert shown["who_acts"] in render_text(waiting, desk.catalogue())
    assert text.index("What to correct") < text.index("What clears by itself") < text.index("It comes later")
