"""The problems of documents in the tracker's `xml_log`.

The kind of an entry is the id of the rule, or the name of the error that stopped the document; a held document has an
entry too. Entries that no longer hold stay, marked as cleared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, insert, select, update

from dcc import errors
from dcc.data_outcomes import FindingEntry
from dcc.databases.columns import Message as MessageColumn
from dcc.messages import Message, mark, message
from dcc.outcomes import HELD, LEFT_OUT, Problem, ZipKey
from dcc.qc.apply.upload_findings import UploadFinding
from dcc.rules.catalogue import CATALOGUE
from dcc.rules.findings import MORE_RULE
from dcc.rules.upload import OWNERSHIP
from dcc.tracker.database import exception_id
from dcc.tracker.models import AnException, XmlLog, utc_now
from dcc.tracker.problems import problem_columns
from dcc.tracker.submission_rows import IDS, chunks
from dcc.vocabulary import Severity

_RANK: Final = {Severity.FATAL: 0, Severity.ERROR: 0, Severity.WARNING: 1, Severity.UNCHECKED: 2}
_FITTED: Final = MessageColumn()
_INSERT: Final = insert(XmlLog)
_ACTIVE: Final = (
    select(XmlLog.xml_id, XmlLog.id, AnException.short_name, XmlLog.message, XmlLog.line, XmlLog.col)
    .join(AnException, AnException.id == XmlLog.exception_id)
    .where(XmlLog.xml_id.in_(IDS), XmlLog.cleared.is_(None))
    .order_by(XmlLog.id)
)
_CLEAR: Final = update(XmlLog).where(XmlLog.id.in_(IDS)).values(cleared=bindparam("now"))


def worst_first(findings: Iterable[FindingEntry]) -> list[FindingEntry]:
    """Active findings, those that fail a document first; equal ones keep their order."""
    return sorted((one for one in findings if not one.is_waived), key=lambda finding: _RANK[finding.severity])


def problems_of(findings: Iterable[FindingEntry], total: int, most: int) -> list[Problem]:
    """The entries of findings in a document's log: the worst `most`, and one with the number of the others.

    `findings` may be only the first of `total`. Messages of warnings and of unchecked rules begin with a prefix.
    """
    counted = [finding for finding in worst_first(findings) if finding.rule != MORE_RULE]
    shown = [
        Problem(finding.rule, finding.said, finding.line, code=finding.code, severity=finding.severity)
        for finding in counted[:most]
    ]
    left = max(len(counted), total) - len(shown)
    if left > 0:
        more = mark("{number} more findings than the {listed} listed here. See dcc data findings.")
        shown.append(Problem(MORE_RULE, message(more, number=left, listed=len(shown)), code=MORE_RULE))
    return shown


def held_problem(
    key: ZipKey | str,
    ended: Mapping[str, int],
    findings: Iterable[UploadFinding] = (),
    centre: str | None = None,
) -> Problem:
    """The entry of a held document, with the number of entities that it would end, by kind.

    A document that is held because of its data's centre has findings about that; `centre` is that of its archive.
    """
    owners = list(dict.fromkeys(finding.value or "" for finding in findings if finding.rule == OWNERSHIP))
    if owners:
        return Problem(HELD, _held_for(key, owners, centre), code=HELD)
    entities = [f"{count:,} {kind if count == 1 else kind + 's'}" for kind, count in ended.items() if count]
    would = mark(
        "It would replace or remove {entities}, and waits to be confirmed. See what it would change: dcc data plan "
        "{archive}. Then: dcc data confirm {archive} --reason ..., or leave it."
    )
    return Problem(HELD, message(would, entities=entities, archive=str(key)), code=HELD)


def _held_for(key: ZipKey | str, owners: Sequence[str], centre: str | None) -> Message:
    if centre is None:
        told = mark(
            "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan "
            "{archive}. Then: dcc data confirm {archive} --reason ..., or turn it down: dcc data undo {archive} "
            "--reason ..."
        )
        return message(told, owners=list(owners), archive=str(key))
    told = mark(
        "It has data of centre {owners}, and waits to be confirmed. See what it would change: dcc data plan {archive}. "
        "Then: dcc data confirm {archive} --reason ..., or turn it down: dcc data undo {archive} --reason ... For all "
        "such documents: {command}"
    )
    delegations = "; ".join(f"dcc centre delegate {owner} --to {centre}" for owner in owners)
    return message(told, owners=list(owners), archive=str(key), command=delegations)


def rewrite_log(connection: Connection, wanted: Mapping[int, Sequence[Problem]]) -> None:
    """Replace the active log entries of each document, named by the id of its `xml_file`.

    Existing equal entries stay, others are marked as cleared, new ones added. A few statements for any number of
    documents.
    """
    present = _present(connection, wanted)
    cleared: list[int] = []
    added: list[dict[str, object]] = []
    for xml_id, problems in wanted.items():
        there = present[xml_id]
        for problem in problems:
            if there.get(_entry(problem)):
                there[_entry(problem)].pop()
            else:
                added.append(_row(connection, xml_id, problem))
        cleared.extend(log_id for left in there.values() for log_id in left)
    clear_entries(connection, cleared)
    if added:
        connection.execute(_INSERT, added)


def clear_entries(connection: Connection, log_ids: Iterable[int]) -> None:
    """Mark entries of documents' logs as cleared."""
    for ids in chunks(log_ids):
        connection.execute(_CLEAR, {"ids": ids, "now": utc_now()})


def add_to_log(connection: Connection, added: Mapping[int, Sequence[Problem]]) -> None:
    """Add entries to the logs of documents, by the ids of their `xml_file`, where they are not there yet."""
    present = _present(connection, added)
    rows = [
        _row(connection, xml_id, problem)
        for xml_id, problems in added.items()
        for problem in problems
        if _entry(problem) not in present[xml_id]
    ]
    if rows:
        connection.execute(_INSERT, rows)


class _Entry(NamedTuple):
    kind: str
    message: str | None
    line: int | None
    column: int | None


def _present(connection: Connection, xml_ids: Iterable[int]) -> Mapping[int, dict[_Entry, list[int]]]:
    """The ids of active entries, by document and by what they say."""
    present: dict[int, dict[_Entry, list[int]]] = defaultdict(lambda: defaultdict(list))
    for ids in chunks(xml_ids):
        for xml_id, number, kind, said, line, column in connection.execute(_ACTIVE, {"ids": ids}):
            present[xml_id][_Entry(kind, said, line, column)].append(number)
    return present


def _entry(problem: Problem) -> _Entry:
    # As it will be read back: long text is cut on its way into the database.
    words = _FITTED.process_bind_param(problem.message, None)  # type: ignore[arg-type]
    return _Entry(problem.kind, words, problem.line, problem.column)


def _row(connection: Connection, xml_id: int, problem: Problem) -> dict[str, object]:
    return {
        "xml_id": xml_id,
        "exception_id": exception_id(connection, problem.kind, _description(problem.kind)),
        **problem_columns(problem),
        "severity": problem.severity.value,
        "line": problem.line,
        "col": problem.column,
    }


def _description(kind: str) -> str:
    """A rule's demand, or the summary of the error of that name."""
    if kind in CATALOGUE:
        return CATALOGUE[kind].demand
    if kind == HELD:
        return "A document that would change much, or has data of another centre, waits to be confirmed."
    if kind in LEFT_OUT.values():
        return "The settings leave a step out of a document."
    error = getattr(errors, kind, errors.DccError)
    return str(error.summary())
