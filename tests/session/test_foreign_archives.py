"""What is told of an archive that another centre's source holds, and how it is turned down."""

import pytest
from sqlalchemy import Connection

from dcc.databases.transactions import writing
from dcc.errors import ConfigurationError, NotFoundError
from dcc.phases import Status
from dcc.reports.causes.cause import Cause
from dcc.reports.causes.collecting import find_causes
from dcc.reports.causes.skipped_archives import SkipReason
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.board import collect_board
from dcc.reports.submissions.collecting import collect_centre, collect_session, collect_submission
from dcc.reports.submissions.model import CentreReport, Outcome, Report, SessionReport, SubmissionReport, Tone
from dcc.reports.submissions.page import render_html
from dcc.reports.submissions.plain_text import render_text
from dcc.reports.submissions.stored_reports import json_text
from dcc.session.data.confirmations import confirm_submission
from dcc.session.data.document_plans import plan_submission
from dcc.session.data.withdrawals import withdraw_submission
from dcc.tracker.crawls import list_sessions
from dcc.tracker.decisions import DecisionKind, record_decisions
from dcc.tracker.hostings.foreign_archives import accept_archive, decline_archive, list_declines
from dcc.tracker.queries.submission_filters import SubmissionFilter
from dcc.tracker.queries.submission_lists import find_submissions
from dcc.tracker.queries.submission_stories import submission_story
from dcc.tracker.register import centres
from dcc.vocabulary import Actor
from tests.qc.test_ownership import notices
from tests.support.asking import in_reading, in_writing
from tests.support.data_installations import DataInstallation, key_of, specimens

PLANTED = "add/J.2013-11-01.1.impc.zip"
KEY = key_of(PLANTED)
DELEGATE = "dcc centre delegate J --to H"
WHO = {"author": "someone", "reason": "It is meant."}


@pytest.fixture
def planted(data: DataInstallation) -> DataInstallation:
    """An archive of J on H's source, of which a session has told."""
    data.put(PLANTED, specimens("2013-11-01.1", centre="J"))
    data.base.run_session()
    return data


def decline(data: DataInstallation, reason: str = "Made by mistake") -> None:
    in_writing(data.tracker, decline_archive, KEY, declined_by="wrangler", reason=reason)


def of_session(connection: Connection) -> int:
    return list_sessions(connection, limit=1)[0].id


def reports(data: DataInstallation) -> tuple[SubmissionReport, CentreReport, CentreReport, SessionReport]:
    """The archive's report, the summaries of J and H, and that of the last session."""
    with data.tracker.connect() as tracker:
        return (
            collect_submission(tracker, None, KEY, data.settings),
            collect_centre(tracker, None, "J", data.settings),
            collect_centre(tracker, None, "H", data.settings),
            collect_session(tracker, None, of_session(tracker), data.settings),
        )


def texts(data: DataInstallation) -> list[str]:
    """What those for centres say, as texts, pages and JSON, in both languages."""
    return texts_of(data, *reports(data)[:3])


def texts_of(data: DataInstallation, *some: Report) -> list[str]:
    catalogues = [load_catalogue(code, data.settings) for code in ("en", "de")]
    return [
        " ".join(text.split())
        for report in some
        for catalogue in catalogues
        for text in (
            render_text(report, catalogue),
            render_html(report, catalogue, data.settings),
            json_text(report, catalogue),
        )
    ]


def all_causes(data: DataInstallation) -> list[list[Cause]]:
    with data.tracker.connect() as tracker:
        return [
            find_causes(tracker, None, KEY, data.settings).causes,
            find_causes(tracker, None, "J", data.settings).causes,
            find_causes(tracker, None, "H", data.settings).causes,
            find_causes(tracker, None, None, data.settings).causes,
            find_causes(tracker, None, of_session(tracker), data.settings).causes,
        ]


def told_on_the_board(data: DataInstallation) -> str:
    board = in_reading(data.tracker, collect_board, SubmissionFilter(), 1, data.settings)
    ((told,),) = board.waits.values()
    return str(told)


def test_an_unfetched_archive_is_reported_as_what_it_is_with_who_acts_and_commands_for_wranglers_alone(
    planted: DataInstallation,
) -> None:
    report, of_j, of_h, of_all = reports(planted)
    assert (report.outcome, report.tone) == (Outcome.FOREIGN, Tone.WARN)
    assert [one.outcome for one in of_j.zips] == [Outcome.FOREIGN]
    assert [one.outcome for one in of_all.zips] == [Outcome.FOREIGN]
    assert [row.why for source in of_h.sources for row in source.not_taken] == [SkipReason.HELD]
    for text in texts(planted):
        assert "present or the next session" not in text
        assert "dcc " not in text
    assert "named for centre J and lies on a source of H" in texts(planted)[0]
    for text in texts_of(planted, of_all):
        assert DELEGATE in text
    assert "J: The centre acts. Centre J decides." in texts_of(planted, of_all)[0]
    assert DELEGATE in told_on_the_board(planted)
    catalogue = load_catalogue("en", planted.settings)
    found = all_causes(planted)
    assert [[one.centre for one in some] for some in found] == [["J"], ["J"], ["H"], ["J"], ["J"]]
    for (cause,) in found:
        assert (cause.acts, cause.zips, cause.fails) == (Actor.CENTRE, 1, False)
        assert cause.example.zip == PLANTED
        assert DELEGATE in cause.remedy(catalogue)
        assert "dcc archive decline" in cause.remedy(catalogue)
        assert "dcc " not in cause.remedy_for_centre(catalogue) + str(cause.example.message)
        assert "{" not in cause.title(catalogue) + cause.remedy(catalogue)
    decline(planted)
    assert all_causes(planted) == [[]] * 5
    assert "It was turned down: Made by mistake" in told_on_the_board(planted)


def test_an_archive_that_is_turned_down_waits_no_more_and_both_centres_are_told(planted: DataInstallation) -> None:
    decline(planted)
    assert notices(planted) == [("J", PLANTED, "", "held", {})] + [
        (centre, PLANTED, "", "declined", {}) for centre in "JH"
    ]
    report, of_j, of_h, _ = reports(planted)
    assert (report.outcome, [one.outcome for one in of_j.zips]) == (Outcome.DECLINED, [Outcome.DECLINED])
    (row,) = [row for source in of_h.sources for row in source.not_taken]
    assert (row.why, row.acts, row.message.all_details["reason"]) == (
        SkipReason.DECLINED,
        Actor.NOBODY,
        "Made by mistake",
    )
    assert all("dcc " not in text for text in texts(planted))
    # Those of the archive and of H, on whose source it lies.
    assert all("Made by mistake" in text for text in texts_of(planted, report, of_h))
    (entry,) = in_reading(planted.tracker, list_declines)
    story = in_reading(planted.tracker, submission_story, KEY)
    assert (entry.key, entry.owner, entry.declined_by, entry.reason) == (KEY, "J", "wrangler", "Made by mistake")
    assert "wrangler" in story.reasons[-1].message
    assert f"dcc archive decline {PLANTED} --revoke" in story.reasons[-1].message
    # Sessions do not tell it anew, and a delegation does not bring it back.
    assert planted.base.run_session().zips == {}
    in_writing(planted.tracker, centres.delegate, "J", "H", recorded_by="wrangler")
    planted.base.run_session()
    assert planted.states() == {PLANTED: "zip_name done"}


def test_what_was_turned_down_waits_again_when_that_is_taken_back(planted: DataInstallation) -> None:
    decline(planted)
    ended = in_writing(planted.tracker, accept_archive, KEY, revoked_by="another")
    assert (ended.revoked_by, ended.revoked is not None) == ("another", True)
    assert reports(planted)[0].outcome is Outcome.FOREIGN
    assert [(one[0], one[3]) for one in notices(planted)[-2:]] == [("J", "held"), ("H", "held")]
    assert in_reading(planted.tracker, list_declines) == []
    assert [one.revoked_by for one in in_reading(planted.tracker, list_declines, everything=True)] == ["another"]
    in_writing(planted.tracker, centres.delegate, "J", "H", recorded_by="wrangler")
    planted.base.run_session()
    assert planted.states() == {PLANTED: "xsd done"}


def test_the_own_copy_is_taken_all_the_same_when_another_was_turned_down(planted: DataInstallation) -> None:
    decline(planted)
    other = planted.base.add_folder("J", "other")
    other.put(PLANTED, specimens("2013-11-01.1", centre="J", mice=5))
    planted.base.run_session()
    assert planted.states() == {PLANTED: "xsd done"}
    assert planted.base.attempts(PLANTED) == [(other.source_id, "xsd done")]


@pytest.mark.parametrize(("first", "corrected", "again"), [("H", False, False), ("H", True, True), ("J", False, True)])
def test_a_failed_archive_is_fetched_again_if_its_own_centre_has_it_now_but_not_because_of_a_new_server(
    data: DataInstallation, first: str, corrected: bool, again: bool
) -> None:
    key, documents = "add/H.2013-11-01.1.impc.zip", {"H.2013-11-01.1.specimen.impc.xml": b"<x/>"}
    in_writing(data.tracker, centres.delegate, "H", "J", recorded_by="wrangler")
    data.base.add_folder(first, "first").put(key, documents)
    data.base.run_session()
    (failed,) = in_reading(data.tracker, find_submissions)
    acknowledge = {"by": "wrangler", "reason": "It is of 2013."}
    in_writing(data.tracker, record_decisions, DecisionKind.ACKNOWLEDGE, [1], **acknowledge)
    data.base.add_folder("H", "new server").put(key, specimens("2013-11-01.1") if corrected else documents)
    data.base.run_session()
    story = in_reading(data.tracker, submission_story, key_of(key))
    assert (failed.status, len(story.downloads), bool(story.reopenings)) == (Status.FAILED, 2 if again else 1, again)
    assert [decision.revoked is None for decision in story.decisions] == [not again]


def test_what_cannot_be_turned_down_is_refused_with_what_to_do(planted: DataInstallation) -> None:
    own = "add/H.2013-11-01.1.impc.zip"
    planted.put(own, specimens("2013-11-01.1"))
    planted.base.run_session()
    with writing(planted.tracker) as connection:
        with pytest.raises(NotFoundError, match="dcc archive declined --all"):
            accept_archive(connection, KEY, revoked_by="a")
        with pytest.raises(NotFoundError, match=f"dcc data undo {own}"):
            decline_archive(connection, key_of(own), declined_by="a", reason="b")
        with pytest.raises(NotFoundError, match="no crawl has seen it"):
            decline_archive(connection, key_of("add/J.2001-01-01.1.impc.zip"), declined_by="a", reason="b")
        for reason in (" ", "x" * 256):
            with pytest.raises(ConfigurationError, match="The reason"):
                decline_archive(connection, KEY, declined_by="a", reason=reason)
    decline(planted)
    with pytest.raises(ConfigurationError, match=r"decline .* --revoke"):
        decline(planted)


@pytest.mark.parametrize("declined", [False, True])
def test_plan_confirm_and_undo_name_the_state_and_the_command_that_helps(
    planted: DataInstallation, declined: bool
) -> None:
    if declined:
        decline(planted)
    helps = f"dcc archive decline {PLANTED} --revoke" if declined else DELEGATE
    databases = planted.tracker, planted.qc, planted.settings
    with pytest.raises(NotFoundError, match=helps) as raised:
        plan_submission(*databases, KEY)
    assert "until xsd" not in str(raised.value)
    with pytest.raises(NotFoundError, match=helps):
        confirm_submission(*databases, KEY, **WHO)
    with pytest.raises(NotFoundError, match=helps):
        withdraw_submission(*databases, KEY, **WHO)


def test_the_owner_is_told_when_a_held_addition_is_turned_down(data: DataInstallation) -> None:
    folder = data.base.add_folder("J", "other")
    ((_, document),) = specimens("2013-11-01.1").items()
    folder.put(PLANTED, {"J.2013-11-01.1.specimen.impc.xml": document})
    data.run()
    undone = data.withdraw(KEY, **WHO)
    assert [(one.centre, one.file_name) for one in undone.declined] == [("H", "J.2013-11-01.1.specimen.impc.xml")]
    assert [(one[0], one[2], one[3]) for one in notices(data)] == [
        ("H", "J.2013-11-01.1.specimen.impc.xml", "held"),
        ("H", "J.2013-11-01.1.specimen.impc.xml", "declined"),
    ]
