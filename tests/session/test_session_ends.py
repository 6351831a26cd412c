"""Why a session ended, in one word, and what it did with each file source."""

import time
from dataclasses import asdict

import pytest

from dcc.errors import DiskFullError, InternalFaultError, SessionTimeLimitError
from dcc.operations.sessions import open_session
from dcc.outcomes import EndReason
from dcc.phases import Phase
from dcc.tracker.crawls import list_sessions
from dcc.tracker.session_statistics import seconds_by_phase, statistics_of
from tests.support.asking import in_reading
from tests.support.installations import Installation, specimens


def end_of(installation: Installation, session_id: int) -> tuple[str, Phase | None]:
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session_id])
    return entry.outcome, entry.failed_phase


def test_how_it_breaks_off_is_the_reason(installation: Installation) -> None:
    for error, reason, phase in (
        (None, EndReason.FINISHED, None),
        (InternalFaultError("a fault"), EndReason.FAULTS, Phase.DOWNLOAD),
        (DiskFullError("no space"), EndReason.DISK, Phase.DOWNLOAD),
        (OSError(28, "No space left on device"), EndReason.DISK, Phase.DOWNLOAD),
    ):
        session = None
        try:
            with open_session(installation.tracker, installation.settings) as session:
                if error is not None:
                    raise error
        except (InternalFaultError, DiskFullError, OSError):
            pass
        assert session is not None
        assert session.ended is reason
        assert end_of(installation, session.id) == (reason, phase)


def test_a_task_that_failed_is_a_fault_and_a_time_limit_is_none(installation: Installation) -> None:
    with open_session(installation.tracker, installation.settings) as session:
        session.finish_task(session.start_task(Phase.ZIP_NAME, "a crawl"), failed=True)
    assert end_of(installation, session.id) == (EndReason.FAULTS, Phase.ZIP_NAME)
    limited = installation.with_settings(session_time_limit=0.5)
    with (  # noqa: PT012
        pytest.raises(SessionTimeLimitError, match="DCC_SESSION_TIME_LIMIT"),
        open_session(limited.tracker, limited.settings) as session,
    ):
        session.start_task(Phase.DOWNLOAD, "under way")
        while True:
            session.check()
            time.sleep(0.1)
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session.id])
    assert (entry.outcome, entry.failed_phase) == (EndReason.TIME_LIMIT, None)
    assert [task.outcome for task in entry.tasks] == ["cancelled"]


@pytest.mark.both_databases
def test_it_leaves_what_it_did_with_each_source(installation: Installation) -> None:
    """Of a refused name, a damaged archive, an invalid document and a valid one; another source has nothing."""
    first, second = installation.add_folder(), installation.add_folder("J", "empty")
    invalid = {name: text.replace(b"gender=", b"gendr=") for name, text in specimens(stem="2013-10-31.3").items()}
    archives = [
        first.put("add/H.2013-10-31.1.impc.zip"),
        first.put("add/H.2013-10-31.2.impc.zip", b"no archive"),
        first.put("add/H.2013-10-31.3.impc.zip", invalid),
    ]
    first.put("add/wrong.zip", b"x")
    session = installation.run_session().id
    found = [asdict(one) for one in in_reading(installation.tracker, statistics_of, session)]
    assert all(one.pop("seconds") <= 60 for one in found)
    (entry,) = in_reading(installation.tracker, list_sessions, ids=[session])
    nothing = dict.fromkeys(("listed", "fetched", "bytes", "documents", "findings", "failed"), 0)
    size = sum(map(len, archives))
    done = {"listed": 4, "fetched": 3, "bytes": size, "documents": 2, "findings": found[0]["findings"], "failed": 3}
    assert found == [
        {"source": first.source_id, "centre": "H", **done},
        {"source": second.source_id, "centre": "J", **nothing},
    ]
    assert found[0]["findings"] >= 1
    assert list(seconds_by_phase(entry)) == ["zip_name", "download", "xsd"]
    again = installation.run_session().id
    quiet = in_reading(installation.tracker, statistics_of, again)
    assert [(one.listed, one.fetched, one.bytes) for one in quiet] == [(4, 0, 0), (0, 0, 0)]
