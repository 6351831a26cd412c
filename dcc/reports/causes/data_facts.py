"""The causes of what rules found: counted by the QC database, in one statement over codes and causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, func, select

from dcc.declarations import details_kept, message_of
from dcc.messages import Details, shown
from dcc.naming import Action
from dcc.outcomes import ZipKey
from dcc.qc.apply.versions import in_chunks
from dcc.qc.models import Document, Experiment, ExperimentSpecimen, Finding, Specimen
from dcc.reports.causes.cause import EXPERIMENTS, Cause, Example
from dcc.reports.causes.counting import CauseCounter, Group
from dcc.reports.causes.permitted import Permitted
from dcc.reports.causes.zip_scopes import Scope, qc_conditions
from dcc.rules.findings import with_value
from dcc.vocabulary import Severity

_FINDING: Final = Finding.__table__
_DOCUMENT: Final = Document.__table__
_SPECIMEN: Final = Specimen.__table__
_NAMED: Final = ExperimentSpecimen.__table__
_EXPERIMENT: Final = Experiment.__table__
_OF_BACKGROUND: Final = ("S2", "S4", "S5")
_PAGE: Final = 1_000


def count_data_causes(
    connection: Connection, scope: Scope, faulty_elsewhere: Container[ZipKey] = frozenset()
) -> list[tuple[int, Cause]]:
    """The causes of the active findings of a scope, each with the id of a finding that is an example; in no order.

    One statement, which counts in the database; of zips, one for every 400.
    """
    counter = CauseCounter(faulty_elsewhere)
    for condition, wanted in qc_conditions(scope):
        for row in connection.execute(_grouped(condition), execution_options={"yield_per": _PAGE}):
            group = Group._make(row)
            if wanted is None or ZipKey(Action(group.zip_action), group.zip_file) in wanted:
                counter.take(group)
    return counter.causes()


def _grouped(condition: Sequence[ColumnElement[bool]]) -> Select[Any]:
    """Groups of findings with what their documents are of; grouped in the order of an index, before documents come."""
    by = [_FINDING.c[name] for name in ("document_id", "code", "cause", "severity", "entity_kind")]
    of_documents = _FINDING.c.document_id.in_(select(_DOCUMENT.c.id).where(*condition))
    group = (
        select(
            *by,
            func.min(_FINDING.c.id).label("first"),
            func.count().label("number"),
            func.count(_FINDING.c.entity_id.distinct()).label("entities"),
        )
        .where(_FINDING.c.is_active.is_(True), of_documents)
        .group_by(*by)
        .subquery("found")
        .c
    )
    return (
        select(
            _DOCUMENT.c.zip_action,
            _DOCUMENT.c.zip_file,
            _DOCUMENT.c.centre,
            *(group[name] for name in ("document_id", "code", "cause", "severity", "first", "number", "entity_kind")),
            group.entities,
        )
        .join(_DOCUMENT, _DOCUMENT.c.id == group.document_id)
        .order_by(_DOCUMENT.c.zip_file, _DOCUMENT.c.zip_action, group.document_id)
    )


def with_examples(connection: Connection, scope: Scope, causes: Sequence[tuple[int, Cause]]) -> list[Cause]:
    """The causes of a scope, each with its details, an example and what waits for it; few statements a thousand."""
    permitted = Permitted(connection)
    rows: dict[int, Any] = {}
    columns = (_FINDING, _DOCUMENT.c.zip_action, _DOCUMENT.c.zip_file, _DOCUMENT.c.file_name)
    query = select(*columns).join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
    for ids in in_chunks([finding for finding, _ in causes]):
        rows.update({row.id: row for row in connection.execute(query.where(_FINDING.c.id.in_(ids)))})
    earlier = {known_details(row).get("document") for row in rows.values()}
    names = _document_names(connection, [number for number in earlier if isinstance(number, str)])
    told = []
    waiting = _waiting(connection, scope, [cause for _, cause in causes])
    for finding, cause in causes:
        if finding not in rows:
            told.append(cause)
            continue
        details = known_details(rows[finding])
        held_up = waiting.get((cause.centre, cause.kind, rows[finding].value), 0)
        example = data_example(rows[finding], details, permitted)
        if details.get("document") in names:
            details = {**details, "document": names[details["document"]]}
        told.append(replace(cause, example=example, details=details, held_up={EXPERIMENTS: held_up} if held_up else {}))
    return told


def known_details(row: Any) -> Details:
    """The details of a finding in the table, its value included."""
    return with_value(details_kept(row.code, row.details, row.message), row.value)


def data_example(row: Any, details: Details, permitted: Permitted) -> Example:
    """A finding of the table, beside the columns of its document, as an example."""
    values, nearest = permitted.advice(row.rule, row.value, details)
    return Example(
        zip=f"{row.zip_action}/{row.zip_file}",
        document=row.file_name,
        line=row.line,
        element=row.path,
        value=row.value,
        said=message_of(row.code, details),
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
