"""How SQLite looks rows up where an installation has hundreds of thousands, of which a question needs few."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from dcc.databases.engines import disposed
from dcc.databases.schema import init_database
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.database import open_qc_database
from dcc.qc.judging.rejudgements import documents_of_superseded_snapshots
from dcc.reports.submissions.accepted import taken_submissions
from dcc.session.data.document_queries import count_waiting
from dcc.settings import Settings
from dcc.tracker.database import open_tracker
from dcc.tracker.queries.state_counts import held_documents
from tests.support.asking import in_reading

KEYS = [SubmissionKey(Action.ADD, f"H.2013-10-31.{number}.impc.zip") for number in range(1, 500)]


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with disposed(request.param(Settings(home=tmp_path))) as engine:
        init_database(engine)
        yield engine


def plan(engine: Engine, read: Callable[..., object], *arguments: object) -> str:
    """The steps of the statements by which a function reads."""
    steps: list[str] = []

    def note(_connection: object, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
        rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
        steps.extend(row[3] for row in rows if statement.startswith("SELECT"))

    event.listen(engine, "before_cursor_execute", note)
    in_reading(engine, read, *arguments)
    return "\n".join(steps)


@pytest.mark.parametrize("database", [open_tracker], indirect=True)
def test_documents_that_wait_or_are_held_are_not_looked_for_among_all(database: Engine) -> None:
    waiting = plan(database, count_waiting)
    assert "ix_xml_file_phase_id_status_id" in waiting
    assert "SCAN" not in waiting
    held = plan(database, held_documents)
    assert "SEARCH xml_log" in held
    assert "SCAN" not in held


@pytest.mark.parametrize("database", [open_qc_database], indirect=True)
def test_what_was_taken_of_archives_is_looked_up_by_their_names(database: Engine) -> None:
    taken = plan(database, taken_submissions, KEYS)
    assert "ix_document_zip_file_zip_action" in taken
    assert "ix_document_state" not in taken


@pytest.mark.parametrize("database", [open_qc_database], indirect=True)
def test_documents_to_judge_again_are_looked_up_by_their_findings(database: Engine) -> None:
    again = plan(database, documents_of_superseded_snapshots)
    assert "ix_finding_snapshot_id" in again
    assert "ix_document_state" not in again
