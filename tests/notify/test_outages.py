"""The marks of who was told that the tracker is away, and what is said of outages."""

from datetime import datetime
from pathlib import Path

import pytest

from dcc.errors import SourceUnreachableError
from dcc.messages import mark
from dcc.notify import outages
from dcc.notify.composer import Composer
from dcc.session.leases import Lease
from dcc.settings import Settings
from dcc.sources.base import label_of
from tests.support.threads import at_once


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def test_of_many_who_want_to_tell_it_one_does_until_the_mark_is_taken_away(settings: Settings) -> None:
    claims = at_once(*[lambda: outages.claim_tracker_outage(settings, "mail", "a@b")] * 8)
    (path,) = [claim for claim in claims if claim is not None]
    assert outages.outage_claims(settings) == {path}
    assert outages.outage_claim_path(settings, "mail", "a@b") == path
    marks = list((settings.home / "notifications").iterdir())
    assert (marks, path.stat().st_mode & 0o777) == ([path], 0o600)
    path.unlink()
    assert outages.claim_tracker_outage(settings, "mail", "a@b") == path


def test_an_outage_is_told_in_the_language_of_the_installation(settings: Settings) -> None:
    label = label_of(1, "H", "file", "localhost")
    text = mark("the folder {path} cannot be reached ({reason}). Check the base path, and that the disk is mounted.")
    error = SourceUnreachableError(text, source=label, path="/data", reason="it is gone")
    assert str(error).startswith(f"{label}: the folder /data cannot be reached")
    away = outages.OutageEntry("file source 1", "7", label, error.translatable.problem)
    assert label == "file source 1 (H, file://localhost)"
    cases = (
        ("en", "file source 1", "the folder /data cannot"),
        ("de", "Dateiquelle 1", "Der Ordner /data ist nicht erreichbar"),
    )
    for language, subject, said in cases:
        told = Composer(settings.model_copy(update={"language": language})).outages("1", [away], {})
        assert f": {subject} (H, file://localhost)" in told.subject
        assert f"\n  {said}" in told.text
        assert told.data["away"][0]["reason"].startswith("the folder /data cannot be reached")


def test_the_reason_of_a_dead_session_is_in_the_language_of_the_installation(settings: Settings) -> None:
    died = datetime(2013, 10, 31, 8, 30)
    lease = Lease(
        7, None, is_open=False, is_active=False, host="dcc", pid=41234, acquired=died, heartbeat=died, age_seconds=90
    )
    told = Composer(settings.model_copy(update={"language": "de"})).outages(
        "1", [outages.session_of_dead_process(lease, taken_up=False)], {}
    )
    reason = "Abruf 7 ist gestorben (Prozess 41234 auf dcc, letztes Lebenszeichen 2013-10-31 08:30:00 UTC)."
    assert f"\n  {reason}" in told.text
    assert told.data["away"][0]["reason"] == str(lease.reason)
    assert str(lease.reason).startswith(
        "Session 7 died (process 41234 on dcc, last sign of life 2013-10-31 08:30:00 UTC)."
    )


def test_one_message_has_all_changes_and_its_subject_counts_them(settings: Settings) -> None:
    away = [outages.OutageEntry(f"source {number}", "7", f"S{number}", "It is gone.", 7, "H") for number in (1, 2)]
    told = Composer(settings).outages("1", away, {"source 3": outages.Recovery("S3", 4)})
    assert told.subject.endswith("Outage: S1 and 2 more changes")
    assert told.data == {
        "away": [
            {"what": f"source {number}", "name": f"S{number}", "reason": "It is gone.", "centre": "H", "over": False}
            for number in (1, 2)
        ],
        "back": [{"what": "source 3", "name": "S3", "gone": 4}],
    }
