"""What rules found in data: the active findings of the QC database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from dcc.databases.list_parameters import rows_with
from dcc.declarations import message_of, stored_details
from dcc.messages import printable_detail
from dcc.qc.apply.versions import with_experiments
from dcc.qc.models import DOCUMENT, EXPERIMENT, FINDING, SPECIMEN
from dcc.reports.causes.cause import Cause, Fact, FindingGroup
from dcc.reports.causes.permitted import Permitted
from dcc.reports.causes.scopes import Scope, document_conditions
from dcc.rules.findings import with_value
from dcc.vocabulary import FAILING, Severity

_ROWS: Final = select(
    FINDING, DOCUMENT.c.zip_action, DOCUMENT.c.zip_file, DOCUMENT.c.file_name, DOCUMENT.c.centre
).join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
_PAGE: Final = 2_000
_OF_BACKGROUND: Final = ("S2", "S4", "S5")


class DataFacts:
    """The findings of a scope, with their ids."""

    def __init__(self, connection: Connection, scope: Scope) -> None:
        self._connection = connection
        self._scope = scope
        self._permitted = Permitted(connection)

    def groups(self) -> Iterator[FindingGroup]:
        """The findings as the database counts them, in one statement; of zips, one for each chunk."""
        for condition in document_conditions(self._scope):
            rows = self._connection.execute(_grouped(condition, self._scope), execution_options={"yield_per": _PAGE})
            yield from starmap(FindingGroup, rows)

    def examples(self, ids: Sequence[int]) -> dict[int, Fact]:
        """The findings of these ids, whose details have the name of a document where they were stored with its id."""
        found = {row.id: self._example(row) for row in rows_with(self._connection, _ROWS, FINDING.c.id, ids)}
        earlier = {
            number: str(each.details["document"]) for number, each in found.items() if "document" in each.details
        }
        names = _document_names(self._connection, set(earlier.values()))
        for number, document in earlier.items():
            details = {**found[number].details, "document": names.get(document, document)}
            found[number] = replace(found[number], details=details)
        return found

    def rows(self) -> Iterator[Fact]:
        """Every finding, by document; pages, since a connection can ask nothing else while one answer streams."""
        query = _ROWS.where(FINDING.c.is_active.is_(True)).order_by(FINDING.c.document_id, FINDING.c.id).limit(_PAGE)
        for condition in document_conditions(self._scope):
            document, last = 0, 0
            while rows := self._connection.execute(query.where(condition, _after(document, last))).all():
                yield from map(self._example, rows)
                document, last = rows[-1].document_id, rows[-1].id

    def _example(self, row: Any) -> Fact:
        details = with_value(stored_details(row.code, row.details, row.message), row.value)
        permitted, nearest = self._permitted.advice(row.rule, row.value, details, row.centre)
        return Fact(
            row.code,
            Severity(row.severity),
            details,
            zip=f"{row.zip_action}/{row.zip_file}",
            document=row.file_name,
            line=row.line,
            element=row.path,
            value=row.value,
            message=message_of(row.code, details),
            permitted=permitted,
            nearest=nearest,
        )

    def count_waiting(self, causes: Sequence[Cause]) -> None:
        """Note how many experiments are on animals of each colony or strain that fails them.

        The data of such experiments count only when their animals do (contexts.genotypes).
        """
        of_background = [cause for cause in causes if cause.kind in _OF_BACKGROUND and cause.fails]
        if of_background:
            waiting = [
                row
                for condition in document_conditions(self._scope)
                for row in self._connection.execute(_experiments_on(condition, self._scope))
            ]
            for cause in of_background:
                key = (cause.centre, cause.kind, cause.example.value)
                cause.waiting_experiments = sum(number for *of, number in waiting if tuple(of) == key)


def _grouped(condition: ColumnElement[bool], scope: Scope) -> Select[Any]:
    """The columns of `FindingGroup`; grouped in the order of an index, before documents come."""
    by = [FINDING.c[name] for name in ("document_id", "code", "cause", "severity", "entity_kind")]
    of_documents = FINDING.c.document_id.in_(select(DOCUMENT.c.id).where(condition))
    group = (
        select(
            *by,
            func.min(FINDING.c.id).label("first"),
            func.count().label("number"),
            func.count(FINDING.c.entity_id.distinct()).label("entities"),
        )
        .where(FINDING.c.is_active.is_(True), of_documents)
        .group_by(*by)
        .subquery("found")
        .c
    )
    names = ("code", "cause", "severity", "first", "number", "entity_kind", "entities")
    return (
        select(
            DOCUMENT.c.zip_action,
            DOCUMENT.c.zip_file,
            group.document_id,
            scope.centre_of_document.label("centre"),
            *(group[name] for name in names),
        )
        .join(DOCUMENT, DOCUMENT.c.id == group.document_id)
        .order_by(DOCUMENT.c.zip_file, DOCUMENT.c.zip_action, group.document_id)
    )


def _after(document: int, last: int) -> ColumnElement[bool]:
    of_document = and_(FINDING.c.document_id == document, FINDING.c.id > last)
    return and_(FINDING.c.document_id >= document, or_(FINDING.c.document_id > document, of_document))


def _document_names(connection: Connection, numbers: set[str]) -> Mapping[str, str]:
    """The file names of documents by their ids, as messages have them."""
    ids = (int(number) for number in numbers if number.isdecimal() and len(number) < 19)
    rows = rows_with(connection, select(DOCUMENT.c.id, DOCUMENT.c.file_name), DOCUMENT.c.id, ids)
    return {str(number): printable_detail(name) for number, name in rows}


def _experiments_on(condition: ColumnElement[bool], scope: Scope) -> Select[Any]:
    """How many experiments are on the animals that rules on colonies and strains fail, by centre, rule and value."""
    by = (scope.centre_of_document, FINDING.c.rule, FINDING.c.value)
    failed = (
        select(*by, func.count(EXPERIMENT.c.id.distinct()))
        .select_from(FINDING)
        .join(DOCUMENT, DOCUMENT.c.id == FINDING.c.document_id)
        .join(SPECIMEN, SPECIMEN.c.id == FINDING.c.entity_id)
        .where(
            FINDING.c.is_active.is_(True),
            FINDING.c.rule.in_(_OF_BACKGROUND),
            FINDING.c.severity.in_(FAILING),
            FINDING.c.entity_kind == SPECIMEN.name,
            SPECIMEN.c.is_current.is_(True),
            condition,
        )
        .group_by(*by)
    )
    waiting: Select[Any] = with_experiments(failed)
    return waiting.where(EXPERIMENT.c.is_current.is_(True))
