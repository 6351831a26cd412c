"""Replays of stored archives: judged under a proposal as in an empty installation, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dcc.session.replay.replaying import Proposal, replay
from tests.session.test_session_data_processes import mixed
from tests.support.data_installations import DataInstallation, experiments, specimens

ROOT = Path(__file__).parents[2]


def test_nothing_changes_under_the_present_set(data: DataInstallation) -> None:
    mixed(data)
    data.run()
    found = replay(data.tracker, data.qc, data.settings, Proposal())
    for one in found.changes:
        print(one.document, one.before, one.after, one.appeared, one.gone)
    assert found.changes == ()
    assert sum(found.documents.values()) == 10
    for key, verdict in found.verdicts.items():
        print(key.file_name, verdict.outcome, len(verdict.facts))
    found = replay(data.tracker, data.qc, data.settings, Proposal(rules=str(ROOT / "examples/working_days/working_days.py")))
    print(found.causes, found.centres, len(found.changes))
