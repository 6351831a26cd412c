"""The causes of what rules found: read from the QC database in one statement, whose rows are not held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal, select

from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.qc.apply.versions import in_chunks
from dcc.qc.models import Document, Experiment, ExperimentSpecimen, Finding, Specimen
from dcc.reports.causes.cause import EXPERIMENTS, Cause, Example
from dcc.reports.causes.counting import CauseCounter, FindingLine
from dcc.reports.causes.grouping import shown
from dcc.reports.causes.permitted import Permitted
from dcc.reports.causes.rules import NEEDING_MESSAGE
from dcc.reports.causes.zip_scopes import Scope, qc_conditions
from dcc.vocabulary import Severity

_FINDING: Final = Finding.__table__
_DOCUMENT: Final = Document.__table__
_SPECIMEN: Final = Specimen.__table__
_NAMED: Final = ExperimentSpecimen.__table__
_EXPERIMENT: Final = Experiment.__table__
_OF_BACKGROUND: Final = ("S2", "S4", "S5")
_EARLIER: Final = "earlier"
"""The field of a cause that is the id of another document, which people know by its name."""

_LONGEST_MESSAGE: Final = 1_000
_PAGE: Final = 1_000


def count_data_causes(
    connection: Connection, scope: Scope, faulty_elsewhere: Container[ZipKey] = frozenset()
) -> list[tuple[int, Cause]]:
    """The causes of the active findings of a scope, each with the id of a finding that is an example; in no order.

    One statement; of zips, one for every 400.
    """
    counter = CauseCounter(faulty_elsewhere)
    for line in _lines(connection, scope):
        counter.take(line)
    return counter.causes()


def with_examples(connection: Connection, scope: Scope, causes: Sequence[tuple[int, Cause]]) -> list[Cause]:
    """The causes of a scope, each with its example and what waits for it; a statement for every thousand or two."""
    permitted, waiting = Permitted(connection), _waiting(connection, scope, [cause for _, cause in causes])
    rows: dict[int, Any] = {}
    columns = (_FINDING, _DOCUMENT.c.zip_action, _DOCUMENT.c.zip_file, _DOCUMENT.c.file_name)
    query = select(*columns).join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
    for ids in in_chunks([finding for finding, _ in causes]):
        rows.update({row.id: row for row in connection.execute(query.where(_FINDING.c.id.in_(ids)))})
    names = _document_names(connection, [cause.fields[_EARLIER] for _, cause in causes if _EARLIER in cause.fields])
    told = []
    for finding, cause in causes:
        held_up = waiting.get((cause.centre, cause.kind, cause.shared_value), 0)
        told.append(
            replace(
                cause,
                example=_example(rows[finding], permitted) if finding in rows else cause.example,
                held_up={EXPERIMENTS: held_up} if held_up else {},
                fields={**cause.fields, **_named(cause, names)},
            )
        )
    return told


def _example(row: Any, permitted: Permitted) -> Example:
    values, nearest = permitted.advice(row.rule, row.value, row.message)
    return Example(
        zip=f"{row.zip_action}/{row.zip_file}",
        document=row.file_name,
        line=row.line,
        element=row.path,
        value=row.value,
        message=row.message,
        permitted=values,
        nearest=nearest,
    )


def _document_names(connection: Connection, numbers: Sequence[str]) -> Mapping[str, str]:
    """The file names of documents by their ids, as messages have them."""
    names: dict[str, str] = {}
    for ids in in_chunks(sorted({int(number) for number in numbers if number.isdecimal() and len(number) < 19})):
        query = select(_DOCUMENT.c.id, _DOCUMENT.c.file_name).where(_DOCUMENT.c.id.in_(ids))
        names.update({str(number): shown(name) for number, name in connection.execute(query)})
    return names


def _named(cause: Cause, names: Mapping[str, str]) -> dict[str, str]:
    number = cause.fields.get(_EARLIER, "")
    return {_EARLIER: names[number]} if number in names else {}


def _waiting(
    connection: Connection, scope: Scope, causes: Sequence[Cause]
) -> Mapping[tuple[str | None, str, str | None], int]:
    """How many experiments are on animals of each colony or strain that fails them, by centre, rule and value.

    The data of such experiments count only when their animals do (contexts.genotypes).
    """
    if not any(cause.kind in _OF_BACKGROUND and cause.fails for cause in causes):
        return {}
    counts: Counter[tuple[str | None, str, str | None]] = Counter()
    for condition, _ in qc_conditions(scope):
        for centre, rule, value, number in connection.execute(_experiments_on(condition)):
            counts[centre, rule, value] += number
    return counts


def _experiments_on(condition: Sequence[ColumnElement[bool]]) -> Select[Any]:
    named = (_NAMED.c.specimen_id == _SPECIMEN.c.specimen_id) & (_EXPERIMENT.c.centre == _SPECIMEN.c.centre)
    return (
        select(_DOCUMENT.c.centre, _FINDING.c.rule, _FINDING.c.value, func.count(_EXPERIMENT.c.id.distinct()))
        .select_from(_FINDING)
        .join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
        .join(_SPECIMEN, _SPECIMEN.c.id == _FINDING.c.entity_id)
        .join(_NAMED, _NAMED.c.specimen_id == _SPECIMEN.c.specimen_id)
        .join(_EXPERIMENT, (_EXPERIMENT.c.id == _NAMED.c.experiment_row) & named)
        .where(
            _FINDING.c.is_active.is_(True),
            _FINDING.c.rule.in_(_OF_BACKGROUND),
            _FINDING.c.severity.in_((Severity.ERROR.value, Severity.FATAL.value)),
            _FINDING.c.entity_kind == _SPECIMEN.name,
            _EXPERIMENT.c.is_current.is_(True),
            *condition,
        )
        .group_by(_DOCUMENT.c.centre, _FINDING.c.rule, _FINDING.c.value)
    )


def _lines(connection: Connection, scope: Scope) -> Iterator[FindingLine]:
    for condition, wanted in qc_conditions(scope):
        result = connection.execute(_query(condition), execution_options={"yield_per": _PAGE})
        for row in result:
            line = FindingLine._make(row)
            if wanted is None or ZipKey(Action(line.zip_action), line.zip_file) in wanted:
                yield line


def _query(condition: Sequence[ColumnElement[bool]]) -> Select[Any]:
    message = case(
        (_FINDING.c.rule.in_(NEEDING_MESSAGE), func.substr(_FINDING.c.message, 1, _LONGEST_MESSAGE)), else_=literal("")
    )
    return (
        select(
            _FINDING.c.id,
            _FINDING.c.document_id,
            _DOCUMENT.c.zip_action,
            _DOCUMENT.c.zip_file,
            _DOCUMENT.c.centre,
            _FINDING.c.rule,
            _FINDING.c.severity,
            _FINDING.c.value,
            message,
            _FINDING.c.entity_kind,
            _FINDING.c.entity_id,
        )
        .join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
        .where(_FINDING.c.is_active.is_(True), *condition)
        .order_by(_DOCUMENT.c.zip_file, _DOCUMENT.c.zip_action, _FINDING.c.document_id, _FINDING.c.id)
    )
