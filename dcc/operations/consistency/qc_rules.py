"""Rules about the QC database: versions, lifetimes, counts, data contexts, and whether the tracker agrees with it.

The first line of a docstring is what its rule demands.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, String, and_, case, exists, func, or_, select

from dcc.databases.list_parameters import IDS
from dcc.operations.consistency.inconsistency import Wrong, consistency_rule, in_rows
from dcc.operations.consistency.paged_rows import document_pages, pages
from dcc.outcomes import LEFT_OUT, STEP_LEFT_OUT
from dcc.phases import Phase, State, Status
from dcc.qc.apply.versions import key_columns
from dcc.qc.contexts.affected_runs import waiting_runs
from dcc.qc.contexts.builds import COLONIES, Build, recorded_basis
from dcc.qc.contexts.context_changes import key_of
from dcc.qc.contexts.membership import ContextKey, measured_procedures, present_members, recorded_members
from dcc.qc.contexts.recount import miscounted
from dcc.qc.models import CONTEXT, COUNTED, DOCUMENT, ENTITY_TABLES, FINDING, HISTORY, ISSUE, LIFETIME, RUN
from dcc.rules.findings import MORE_RULE
from dcc.rules.upload import UPLOAD_RULES, describe
from dcc.tracker.models import AnException, XmlLog
from dcc.tracker.problems import KIND, entries_that_hold
from dcc.tracker.states import NOT_UPLOADED, UPLOAD_FAILED, WITHDRAWN
from dcc.tracker.submission_rows import state_of, submission_key_of
from dcc.vocabulary import FAILING, DocumentState, EntityKind

_RESTORE: Final = "Restore the QC database from a backup, or have it filled again from staging; report this as a fault."


@consistency_rule("C13")
def one_current_version(qc: Connection) -> Wrong:
    """An entity has one current version at most, which one open lifetime tells of."""
    for kind, table in ENTITY_TABLES.items():
        columns = key_columns(kind)
        # Databases may treat texts as equal that differ in trailing blanks.
        lengths = [func.length(column) for column in columns if isinstance(column.type, String)]
        twice = select(*columns).where(table.c.is_current).group_by(*columns, *lengths).having(func.count() > 1)
        for row in qc.execute(twice):
            yield str(describe(kind, list(row))), f"It has several current versions. {_RESTORE}"
        yield from _lifetimes_of(qc, kind, table)


def _lifetimes_of(qc: Connection, kind: EntityKind, table: Any) -> Wrong:
    living = and_(LIFETIME.c.entity_kind == kind.value, LIFETIME.c.entity_id == table.c.id)
    number = func.count(LIFETIME.c.id)
    expected = case((table.c.is_current, 1), else_=0)
    stands = case((table.c.is_current, "current"), else_="not current")
    query = (
        select(table.c.id, table.c.document_id, stands.label("stands"), number.label("number"))
        .outerjoin(LIFETIME, living & LIFETIME.c.ended_by.is_(None))
        .group_by(table.c.id, table.c.document_id, table.c.is_current)
        .having(number != expected)
        .order_by(table.c.id)
    )
    said = f"This version is said to be {{stands}}, and has {{number}} open lifetimes. {_RESTORE}"
    yield from in_rows(qc, query, f"{kind.value} {{id}} of document {{document_id}}", said)


@consistency_rule("C14")
def lifetimes(qc: Connection) -> Wrong:
    """Lifetimes are opened by documents that stand, and end after they began."""
    without_effect = [DocumentState.HELD.value, DocumentState.REFUSED.value]
    undone = and_(DOCUMENT.c.state == DocumentState.UNDONE.value, LIFETIME.c.ended_by.is_(None))
    wrong = or_(LIFETIME.c.ended_by < LIFETIME.c.opened_by, DOCUMENT.c.state.in_(without_effect), undone)
    query = (
        select(LIFETIME, DOCUMENT.c.state)
        .join(DOCUMENT, DOCUMENT.c.id == LIFETIME.c.opened_by)
        .where(wrong)
        .order_by(LIFETIME.c.id)
    )
    for row in qc.execute(query):
        end = "is open" if row.ended_by is None else f"was ended by document {row.ended_by}"
        yield (
            f"lifetime {row.id} of {row.entity_kind} {row.entity_id}",
            f"Document {row.opened_by}, which is {row.state}, opened it, and it {end}. {_RESTORE}",
        )


@consistency_rule("C15")
def document_counts(qc: Connection) -> Wrong:
    """A document has as many rows as its counts say."""
    # A held document has no rows; an entity that was refused for its length has none, and no measurements are said.
    undo = DOCUMENT.alias("undo")
    held = or_(
        DOCUMENT.c.state.in_([DocumentState.HELD.value, DocumentState.REFUSED.value]),
        # What was withdrawn while it was held has no withdrawal of its own.
        and_(DOCUMENT.c.state == DocumentState.UNDONE.value, ~exists().where(undo.c.undoes == DOCUMENT.c.id)),
    )
    findings = exists().where(FINDING.c.document_id == DOCUMENT.c.id, FINDING.c.rule.in_(UPLOAD_RULES))
    for name, table in COUNTED.items():
        rows = select(table.c.document_id, func.count().label("number")).group_by(table.c.document_id).subquery()
        there, said = func.coalesce(rows.c.number, 0), DOCUMENT.c[name]
        permitted = [and_(held, there == 0)]
        if name != "measurements":
            permitted.append(and_(there < said, findings))
        query = (
            select(DOCUMENT.c.id, DOCUMENT.c.file_name, said.label("said"), there.label("number"))
            .outerjoin(rows, rows.c.document_id == DOCUMENT.c.id)
            .where(there != said, ~or_(*permitted))
            .order_by(DOCUMENT.c.id)
        )
        wrong = f"It says that it has {{said:,}} {name}, and there are {{number:,}}. {_RESTORE}"
        yield from in_rows(qc, query, "document {id}, {file_name}", wrong)
        lost = select(table.c.document_id, func.count().label("number")).group_by(table.c.document_id)
        lost = lost.where(~exists().where(DOCUMENT.c.id == table.c.document_id))
        gone = f"There are {{number:,}} {name} of it, and it is not there. {_RESTORE}"
        yield from in_rows(qc, lost, "document {document_id}", gone)


_RECOUNT: Final = "Have contexts counted again: dcc qc recount --reason ..."
_RUNS_AT_ONCE: Final = 2_000


@consistency_rule("C16")
def context_sums(qc: Connection) -> Wrong:
    """A data context has the measurements that are counted under it, and its history says so."""
    # Adds up the measurements of one procedure at one centre at a time.
    for group in measured_procedures(qc):
        for key, lacking in miscounted(qc, *group).items():
            if lacking.measurements or lacking.fingerprints:
                number = f"{lacking.measurements:+,} beside those that it says" if lacking.measurements else "others"
                yield _name(key), f"Its measurements were counted, and there are {number}. {_RECOUNT}"
                continue
            for document_id, left in lacking.parts.items():
                if left:
                    wrong = f"Document {document_id} has {left:+,} measurements in it beside those said."
                    yield _name(key), f"{wrong} {_RECOUNT}"
    yield from _history(qc)


def _name(key: ContextKey) -> str:
    return "context " + " ".join(part or "-" for part in key)


def _history(qc: Connection) -> Wrong:
    newest = select(func.max(HISTORY.c.id)).group_by(HISTORY.c.context_id)
    last = select(HISTORY).where(HISTORY.c.id.in_(newest)).subquery()
    open_issues = (
        select(ISSUE.c.context_id, func.count().label("issues"))
        .where(ISSUE.c.resolved.is_(None))
        .group_by(ISSUE.c.context_id)
        .subquery()
    )
    differs = or_(
        last.c.id.is_(None),
        last.c.state != CONTEXT.c.state,
        last.c.measurements != CONTEXT.c.measurements,
        last.c.checksum != CONTEXT.c.checksum,
        func.coalesce(open_issues.c.issues, 0) != CONTEXT.c.issues,
    )
    query = (
        select(CONTEXT)
        .outerjoin(last, last.c.context_id == CONTEXT.c.id)
        .outerjoin(open_issues, open_issues.c.context_id == CONTEXT.c.id)
        .where(differs)
        .order_by(CONTEXT.c.id)
    )
    for row in qc.execute(query):
        yield (
            _name(key_of(row)),
            f"Its history or its open issues do not come to what it says (context {row.id}). {_RECOUNT}",
        )


@consistency_rule("C17")
def context_members(qc: Connection) -> Wrong:
    """Procedure runs are counted under the genotypes and strains that they belong to."""
    # Contexts with documents that are not counted yet are left out: the next session counts them.
    basis = recorded_basis(qc, Build.CONTEXTS)
    if not basis:
        return
    waiting = waiting_runs(qc)
    for page in pages(qc, select(RUN.c.id, RUN.c.procedure_id), RUN.c.id, _RUNS_AT_ONCE):
        runs = [row.id for row in page if row.id not in waiting]
        wrong = recorded_members(qc, runs) ^ present_members(qc, runs, basis[COLONIES])
        for run_id in sorted({member.procedure_run_id for member in wrong}):
            yield f"procedure run {run_id}", f"It is counted in other contexts than it belongs to. {_RECOUNT}"


_JUDGE: Final = "Have it judged again: dcc data recheck --zip {key} --reason ..., then: dcc crawl"
_TAKEN_UP: Final = "The next session puts it right: dcc crawl"
_STORED: Final = select(
    *(DOCUMENT.c[name] for name in ("id", "tracker_id", "state", "zip_action", "zip_file", "file_name", "md5"))
).where(DOCUMENT.c.tracker_id.in_(IDS))
_ACTIVE: Final = (
    select(FINDING.c.document_id, FINDING.c.rule, FINDING.c.severity, func.count().label("findings"))
    .where(FINDING.c.document_id.in_(IDS), FINDING.c.is_active)
    .group_by(FINDING.c.document_id, FINDING.c.rule, FINDING.c.severity)
)
_LOGGED: Final = (
    entries_that_hold(KIND, func.count().label("entries"))
    .where(XmlLog.xml_id.in_(IDS), AnException.short_name.not_in(STEP_LEFT_OUT))
    .group_by(XmlLog.xml_id, AnException.short_name)
)

_UNJUDGED: Final = entries_that_hold().where(XmlLog.xml_id.in_(IDS), AnException.short_name == LEFT_OUT[Phase.DATA])


@consistency_rule("C12")
def document_states(tracker: Connection, qc: Connection) -> Wrong:
    """The tracker and the QC database agree about each document."""
    # A session writes to the QC database first.
    for page in document_pages(tracker, Phase.XSD):
        stored = _stored(qc, page)
        for document in page:
            wrong = _disagreement(state_of(document), stored.get(document.id))
            if wrong is not None:
                yield _document_name(document), f"{wrong} {_TAKEN_UP}"


def _stored(qc: Connection, page: Sequence[Row[Any]]) -> dict[int, Row[Any]]:
    """The documents of the QC database that belong to those of the tracker, with the same files, by `xml_file.id`."""
    of_tracker = {document.id: document for document in page}
    found: dict[int, Row[Any]] = {}
    for row in qc.execute(_STORED, {"ids": list(of_tracker)}):
        one = of_tracker[row.tracker_id]
        same = (str(submission_key_of(one)), one.fname, one.content_md5 or "")
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


def _document_name(document: Row[Any]) -> str:
    return f"{submission_key_of(document)} {document.fname}"


@consistency_rule("C18")
def finding_logs(tracker: Connection, qc: Connection, limit: int) -> Wrong:
    """The log of a judged document has the findings of the QC database."""
    # A document's log has `limit` of its findings, and one entry for the others, unless judging is left out.
    for page in document_pages(tracker, Phase.DATA):
        # A document that failed in this phase has passed it too.
        judged = [document for document in page if document.status_id != Status.CANCELLED]
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
                    yield _document_name(document), f"{wrong} {_JUDGE.format(key=submission_key_of(document))}"


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


@consistency_rule("C19")
def finding_states(qc: Connection) -> Wrong:
    """A finding that counts is open, one that does not was closed or waived."""
    closed, waived = FINDING.c.closed.is_not(None), FINDING.c.waiver_id.is_not(None)
    wrong = (FINDING.c.is_active & closed) | (~FINDING.c.is_active & ~closed & ~waived)
    query = select(FINDING.c.id, FINDING.c.rule, FINDING.c.document_id).where(wrong).order_by(FINDING.c.id)
    said = (
        "Whether it counts does not go with whether it was closed or waived. Have its submission judged again: "
        "dcc data recheck --zip ..."
    )
    yield from in_rows(qc, query, "finding {id}, {rule} of document {document_id}", said)
