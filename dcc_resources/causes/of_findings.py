"""The causes of what rules found: read from the QC database in one statement, whose rows are not held."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, case, func, literal, select

from dcc_resources.causes.cause import Cause, Example
from dcc_resources.causes.counting import CauseCounter, FindingLine
from dcc_resources.causes.rule_faces import NEEDING_MESSAGE
from dcc_resources.causes.zip_scopes import NAMES_ASKED, Scope
from dcc_resources.naming import Action
from dcc_resources.outcomes import ZipKey
from dcc_resources.qc_database.models import Document, Finding
from dcc_resources.qc_database.versions import in_chunks

_FINDING: Final = Finding.__table__
_DOCUMENT: Final = Document.__table__
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


def with_examples(connection: Connection, causes: Sequence[tuple[int, Cause]]) -> list[Cause]:
    """The causes, each with its example; a statement for every thousand or two."""
    rows: dict[int, Any] = {}
    columns = (_FINDING, _DOCUMENT.c.zip_action, _DOCUMENT.c.zip_file, _DOCUMENT.c.file_name)
    query = select(*columns).join(_DOCUMENT, _DOCUMENT.c.id == _FINDING.c.document_id)
    for ids in in_chunks([finding for finding, _ in causes]):
        rows.update({row.id: row for row in connection.execute(query.where(_FINDING.c.id.in_(ids)))})
    return [replace(cause, example=_example(rows[finding])) if finding in rows else cause for finding, cause in causes]


def _example(row: Any) -> Example:
    return Example(
        zip=f"{row.zip_action}/{row.zip_file}",
        document=row.file_name,
        line=row.line,
        element=row.path,
        value=row.value,
        message=row.message,
    )


def _lines(connection: Connection, scope: Scope) -> Iterator[FindingLine]:
    for condition, wanted in _conditions(scope):
        result = connection.execution_options(yield_per=_PAGE).execute(_query(condition))
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


def _conditions(scope: Scope) -> Iterator[tuple[list[ColumnElement[bool]], frozenset[ZipKey] | None]]:
    of_centre = [] if scope.centre is None else [_DOCUMENT.c.centre == scope.centre]
    if scope.zips is None:
        yield of_centre, None
        return
    wanted = frozenset(scope.zips)
    names = sorted({key.file_name for key in wanted})
    for start in range(0, len(names), NAMES_ASKED):
        yield [*of_centre, _DOCUMENT.c.zip_file.in_(names[start : start + NAMES_ASKED])], wanted
