"""Rules about documents in both databases: the tracker has their states, the QC database their data."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select

from dcc.databases.list_parameters import IDS
from dcc.operations.consistency.inconsistency import Inconsistency, document_pages, in_rows
from dcc.outcomes import LEFT_OUT
from dcc.phases import Phase, Status
from dcc.qc.models import DOCUMENT, FINDING
from dcc.rules.findings import MORE_RULE
from dcc.tracker.models import AnException, XmlLog
from dcc.tracker.problems import KIND, entries_that_hold
from dcc.tracker.states import NOT_UPLOADED, UPLOAD_FAILED, WITHDRAWN, State
from dcc.tracker.submission_rows import state_of, zip_key_of
from dcc.vocabulary import FAILING, DocumentAction, DocumentState

_JUDGE: Final = "Have it judged again: dcc data recheck --zip {key} --reason ..., then: dcc crawl"
_TAKEN_UP: Final = "The next session puts it right: dcc crawl"
_STORED: Final = select(
    *(DOCUMENT.c[name] for name in ("id", "tracker_id", "state", "zip_action", "zip_file", "file_name", "md5"))
).where(DOCUMENT.c.tracker_id.in_(IDS), DOCUMENT.c.action != DocumentAction.UNDO.value)
_ACTIVE: Final = (
    select(FINDING.c.document_id, FINDING.c.rule, FINDING.c.severity, func.count().label("findings"))
    .where(FINDING.c.document_id.in_(IDS), FINDING.c.is_active)
    .group_by(FINDING.c.document_id, FINDING.c.rule, FINDING.c.severity)
)
_LOGGED: Final = (
    entries_that_hold(KIND, func.count().label("entries"))
    .where(XmlLog.xml_id.in_(IDS), AnException.short_name.not_in(LEFT_OUT.values()))
    .group_by(XmlLog.xml_id, AnException.short_name)
)

_UNJUDGED: Final = entries_that_hold().where(XmlLog.xml_id.in_(IDS), AnException.short_name == LEFT_OUT[Phase.DATA])


def document_states(tracker: Connection, qc: Connection) -> Iterator[Inconsistency]:
    """C12. Only when no session is active: a session writes to the QC database first."""
    for page in document_pages(tracker, Phase.XSD):
        stored = _stored(qc, page)
        for document in page:
            wrong = _disagreement(state_of(document), stored.get(document.id))
            if wrong is not None:
                yield Inconsistency("C12", _name(document), f"{wrong} {_TAKEN_UP}")


def _stored(qc: Connection, page: Sequence[Row[Any]]) -> dict[int, Row[Any]]:
    """The documents of the QC database that belong to those of the tracker, with the same files, by `xml_file.id`."""
    of_tracker = {document.id: document for document in page}
    found: dict[int, Row[Any]] = {}
    for row in qc.execute(_STORED, {"ids": list(of_tracker)}):
        one = of_tracker[row.tracker_id]
        same = (str(zip_key_of(one)), one.fname, one.content_md5 or "")
        if same == (f"{row.zip_action}/{row.zip_file}", row.file_name, row.md5 or ""):
            found[one.id] = row
    return found


_UNAPPLIED: Final = (Status.PENDING, Status.RUNNING, Status.FAILED)


def _disagreement(state: State, stored: Row[Any] | None) -> str | None:
    """A document that one database has in a state that the other contradicts; None if they agree."""
    not_uploaded = state.phase < Phase.UPLOAD or (state.phase is Phase.UPLOAD and state.status in _UNAPPLIED)
    withdrawn = state == WITHDRAWN
    if stored is None:
        return None if not_uploaded or withdrawn else f"It is {state}, and the QC database does not hold it."
    expected = {
        DocumentState.APPLIED: not not_uploaded and not withdrawn,
        DocumentState.HELD: state == NOT_UPLOADED or withdrawn,
        DocumentState.REFUSED: state == UPLOAD_FAILED or withdrawn,
        DocumentState.UNDONE: withdrawn,
    }
    if expected[DocumentState(stored.state)]:
        return None
    return f"It is {state}, and {stored.state} in the QC database, as document {stored.id}."


def _name(document: Row[Any]) -> str:
    return f"{zip_key_of(document)} {document.fname}"


def finding_logs(tracker: Connection, qc: Connection, limit: int) -> Iterator[Inconsistency]:
    """C18. A document's log has `limit` of its findings, and one entry for the others, unless judging is left out."""
    for page in document_pages(tracker, Phase.DATA):
        # A document that failed in this phase has passed it too.
        judged = [document for document in page if document.status_id != int(Status.CANCELLED)]
        stored = _stored(qc, judged) if judged else {}
        of_document = {xml_id: one.id for xml_id, one in stored.items() if one.state == DocumentState.APPLIED}
        if not of_document:
            continue
        rules: dict[int, Counter[str]] = defaultdict(Counter)
        failing: set[int] = set()
        for row in qc.execute(_ACTIVE, {"ids": list(of_document.values())}):
            rules[row.document_id][row.rule] += row.findings
            if row.severity in FAILING:
                failing.add(row.document_id)
        logged: dict[int, Counter[str]] = defaultdict(Counter)
        for row in tracker.execute(_LOGGED, {"ids": list(of_document)}):
            logged[row.xml_id][row.kind] += row.entries
        unjudged = set(tracker.scalars(_UNJUDGED, {"ids": list(of_document)}))
        for document in judged:
            number = of_document.get(document.id)
            if number is not None and document.id not in unjudged:
                found, log = rules[number], logged[document.id]
                wrong = _wrong_log(document, number, found, log, is_failing=number in failing, limit=limit)
                if wrong is not None:
                    yield Inconsistency("C18", _name(document), f"{wrong} {_JUDGE.format(key=zip_key_of(document))}")


def _wrong_log(
    document: Row[Any], number: int, rules: Counter[str], logged: Counter[str], *, is_failing: bool, limit: int
) -> str | None:
    """How the state or log of a document differs from its active findings in the QC database; None if they agree."""
    state = state_of(document)
    if state.failed != is_failing:
        has = "has" if is_failing else "has no"
        return f"It is {state}, and {has} findings that fail it in the QC database, as document {number}."
    if _differ(rules, logged, limit):
        return f"Its log has {_in_words(logged)}, the QC database {_in_words(rules)} (document {number})."
    return None


def _differ(rules: Counter[str], logged: Counter[str], limit: int) -> bool:
    if MORE_RULE in logged or rules.total() > limit:
        return not set(logged) <= {*rules, MORE_RULE}
    return Counter({rule: number for rule, number in rules.items() if rule != MORE_RULE}) != logged


def _in_words(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} of {rule}" for rule, number in sorted(counts.items())) or "none"


def finding_states(qc: Connection) -> Iterator[Inconsistency]:
    """C19."""
    closed, waived = FINDING.c.closed.is_not(None), FINDING.c.waiver_id.is_not(None)
    wrong = (FINDING.c.is_active & closed) | (~FINDING.c.is_active & ~closed & ~waived)
    query = select(FINDING.c.id, FINDING.c.rule, FINDING.c.document_id).where(wrong).order_by(FINDING.c.id)
    said = (
        "Whether it counts does not go with whether it was closed or waived. Have its submission judged again: "
        "dcc data recheck --zip ..."
    )
    yield from in_rows(qc, "C19", query, "finding {id}, {rule} of document {document_id}", said)
