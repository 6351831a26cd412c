"""A session that kills itself in the phases after validation: `python -m tests.dying_data_session POINT`.

As `tests.dying_session`: with the installation in the environment, and by SIGKILL.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from dcc_resources.contexts.overviews_ahead import OverviewsAhead
from dcc_resources.data_phases import checking, session_data, settling, upload_groups, upload_turns, uploader
from dcc_resources.data_phases.data_session import DataSession, Recorder
from dcc_resources.qc_database import applying_together, reading_ahead
from dcc_resources.qc_database.database import open_qc_database
from dcc_resources.sessions import open_session
from dcc_resources.settings import load_settings
from dcc_resources.tracker.database import open_tracker
from tests.dying_session import _after, _before


def _together(arm: Callable[[], None]) -> None:
    """Have any number of documents be worth applying together, and another process that reads them."""
    for module in (upload_groups, reading_ahead):
        vars(module)["LARGE"] = 0
    arm()


POINTS: dict[str, Callable[[], None]] = {
    "within the transaction of a document": lambda: _after(uploader, "read_for_upload"),
    "when a document is applied": lambda: _after(uploader, "apply_document"),
    "within the transaction of several documents": lambda: _together(
        lambda: _after(applying_together, "insert_documents")
    ),
    "when several documents are applied": lambda: _together(lambda: _after(upload_turns, "apply_prepared")),
    "before the tracker hears of uploads": lambda: _before(Recorder, "write"),
    "when the uploads are recorded": lambda: _after(Recorder, "write"),
    "when documents are set back": lambda: _after(DataSession, "reopen"),
    "within the transaction of a judgement": lambda: _after(checking, "judge_document", 2),
    "when a document is judged": lambda: _after(checking, "_judge", 2),
    "when overviews are built beside contexts": lambda: _after(OverviewsAhead, "go_on"),
    "when the contexts are built": lambda: _after(settling, "build_contexts"),
    "before the overviews are built": lambda: _before(settling, "build_overviews"),
    "before documents are handed over": lambda: _before(settling, "open_documents"),
}
"""In the order in which a session comes to them."""


def main(point: str) -> None:
    """Run the phases after validation of the installation in the environment, and die at `point`."""
    POINTS[point]()
    settings = load_settings()
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    with open_session(tracker, settings) as session:
        list(session_data.take_up_data(tracker, qc, settings, session))


if __name__ == "__main__":
    main(sys.argv[1])
