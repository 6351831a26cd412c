"""What is told of archives whose experiments came before their animals: nothing is to be corrected."""

from __future__ import annotations

from dcc.notify.digests import collect_digests
from dcc.reports.submissions.collecting import collect_centre, collect_submission
from dcc.reports.submissions.model import Outcome
from tests.support.data_installations import DataInstallation, experiments, key_of, specimens
from tests.support.submission_world import unknown_colony

EARLY = "add/H.2013-10-31.1.impc.zip"
MIXED = "add/H.2013-11-02.1.impc.zip"


def outcomes(data: DataInstallation, key: str) -> set[Outcome]:
    """What the report of a submission, its centre's summary and the session's digest say became of it."""
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        report = collect_submission(tracker, qc, key_of(key), data.settings, most_pictures=0)
        lines = list(collect_centre(tracker, qc, "H", data.settings, most_pictures=0).zips)
        session, _ = data.last_session()
        for digest in collect_digests(tracker, data.settings, session, "H"):
            lines += digest.lines
    return {report.outcome, *(line.outcome for line in lines if line.key == key_of(key))}


def test_an_archive_that_only_waits_for_animals_is_not_to_be_corrected(data: DataInstallation) -> None:
    data.put(EARLY, experiments(animals=3))
    data.put(MIXED, unknown_colony("2013-11-02.1", 70), experiments("2013-11-02.1", first=90, animals=2))
    data.run()
    assert outcomes(data, EARLY) == {Outcome.WAITS_FOR_DATA}
    assert Outcome.WAITS_FOR_DATA not in outcomes(data, MIXED)
    data.put("add/H.2013-11-03.1.impc.zip", specimens("2013-11-03.1", mice=3))
    data.run()
    assert outcomes(data, EARLY) == {Outcome.TO_BE_LOOKED_AT}
