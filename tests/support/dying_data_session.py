"""A session that kills itself in the phases after validation.

As `tests.support.dying_session`: with the installation in the environment, and by SIGKILL.
"""

from collections.abc import Callable

from dcc.operations.session_work import open_session
from dcc.qc.apply import documents
from dcc.qc.database import open_qc_database
from dcc.session.data import document_phases, judgement_phase, prepared_archives, quality_control, upload_phase
from dcc.session.data.data_session import DataSession
from dcc.session.data.recorder import Recorder
from dcc.settings import load_settings
from dcc.tracker.database import open_tracker
from tests.support.dying_session import _after, _before

POINTS: dict[str, Callable[[], None]] = {
    "when an archive is prepared": lambda: _after(prepared_archives, "prepare_archive"),
    "within the transaction of documents": lambda: _after(documents, "insert_documents"),
    "when documents are applied": lambda: _after(upload_phase, "apply_documents"),
    "before the tracker hears of uploads": lambda: _before(Recorder, "write"),
    "when the uploads are recorded": lambda: _after(Recorder, "write"),
    "when documents are set back": lambda: _after(DataSession, "reopen"),
    "within the transaction of a judgement": lambda: _after(judgement_phase, "judge_together"),
    "when documents are judged": lambda: _after(judgement_phase, "_judge_together"),
    "when the contexts are built": lambda: _after(quality_control, "build_contexts"),
    "before the overviews are built": lambda: _before(quality_control, "build_overviews"),
    "before documents are handed over": lambda: _before(quality_control, "open_documents"),
}
"""In the order in which a session comes to them."""


def main(point: str) -> None:
    """Run the phases after validation of the installation in the environment, and die at `point`."""
    POINTS[point]()
    settings = load_settings()
    tracker, qc = open_tracker(settings), open_qc_database(settings)
    with open_session(tracker, settings) as session:
        list(document_phases.process_data(qc, session))
