"""Steps that the settings leave out: documents show them as cancelled, and go on where what follows needs them not.

The upload is needed by all that follows, and contexts by overviews and quality control: there documents stay. When a
step is left out no more, the next session makes up for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlalchemy import Connection

from dcc.data_outcomes import ZipData, left_out_message
from dcc.databases.transactions import run_reading, run_writing
from dcc.messages import mark, message
from dcc.outcomes import LEFT_OUT, Problem
from dcc.phases import Phase, Status
from dcc.qc.judging.documents import ContentFindings, judge_together
from dcc.session.data.data_session import DataSession, current_basis, data_of
from dcc.session.data.document_log import clear_entries
from dcc.session.data.document_queries import load_documents
from dcc.session.data.qc_documents import documents_of
from dcc.session.data.result_recorder import DocumentResult, Recorder
from dcc.session.data.upload_order import DueDocument
from dcc.tracker.models import AnException, XmlLog
from dcc.tracker.problems import KIND, entries_that_hold
from dcc.tracker.states import State
from dcc.vocabulary import Severity

_PORTION: Final = 250
_KINDS: Final = {kind: phase for phase, kind in LEFT_OUT.items()}
_AGAIN: Final = mark("The step {step} is not left out any more.")


def leave_out(work: DataSession, phase: Phase) -> Iterator[ZipData]:
    """Show the documents that wait for a step which is left out for them as (step, cancelled)."""
    due = work.due(phase, left_out=True)
    if not due:
        return
    task = work.session.start_task(phase, f"Left out, for {len(due):,} documents")
    recorder = Recorder(work, phase, due)
    for start in range(0, len(due), _PORTION):
        work.session.check()
        portion = due[start : start + _PORTION]
        if phase is Phase.DATA:
            _accept_unchecked(work, portion)
        for document in portion:
            recorder.add(_left_out_result(document, phase))
        yield from recorder.write()
    work.session.finish_task(task, failed=False)


def _left_out_result(document: DueDocument, phase: Phase) -> DocumentResult:
    reason = left_out_message(phase)
    kind = LEFT_OUT[phase]
    state = State(phase, Status.CANCELLED)
    problem = Problem(kind, reason, code=kind, severity=Severity.UNCHECKED)
    return DocumentResult(
        document, data_of(document, state, reason=str(reason), left_out=(phase,)), state, noted=(problem,)
    )


def _accept_unchecked(work: DataSession, documents: Sequence[DueDocument]) -> None:
    """Have what the documents brought count as valid, since no rule is asked."""
    stored = run_reading(work.qc, lambda connection: documents_of(connection, documents))
    basis = current_basis(work)
    found = [ContentFindings(document.id, ()) for document in stored.values()]
    run_writing(work.qc, lambda connection: judge_together(connection, found, basis))


def resume_left_out_steps(work: DataSession) -> None:
    """Have documents go back to the first step that was left out of them and is left out no more."""
    if work.keys is not None:
        return
    noted = work.read(_recorded_steps)
    if not noted:
        return
    documents = work.read(lambda connection: load_documents(connection, noted, work.settings.naming))
    back: dict[int, Phase] = {}
    entries: list[int] = []
    for document in documents:
        steps = noted[document.xml_id]
        again = [phase for phase in sorted(steps) if phase not in work.left_out_of(document)]
        if again and work.covers(document.key):
            back[document.xml_id] = again[0]
            entries += [entry for phase in again for entry in steps[phase]]
    for phase in set(back.values()):
        ids = [xml_id for xml_id, first in back.items() if first is phase]
        reason = str(message(_AGAIN, step=phase.short_name))
        work.reopen(dict.fromkeys(ids, State(phase, Status.PENDING)), reason)
    work.session.write(lambda connection: clear_entries(connection, entries))


def _recorded_steps(connection: Connection) -> Mapping[int, dict[Phase, list[int]]]:
    """The steps that are noted as left out, by the ids of documents; with the ids of the entries in their logs."""
    query = entries_that_hold(XmlLog.id, KIND).where(AnException.short_name.in_(_KINDS))
    found: dict[int, dict[Phase, list[int]]] = {}
    for xml_id, entry, kind in connection.execute(query):
        found.setdefault(xml_id, {}).setdefault(_KINDS[kind], []).append(entry)
    return found
