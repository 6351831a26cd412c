"""Filters of measurements, as conditions of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from operator import index
from typing import Any, Final

from sqlalchemy import ColumnElement, func, or_

from dcc.errors import ConfigurationError

Texts = str | Sequence[str] | None
"""One text, several alternatives, or None for all."""

_MAX_VALUES: Final = 10_000


@dataclass(frozen=True, slots=True)
class MeasurementFilter:
    """Selects measurements that match all of its fields.

    Texts are compared exactly. `genotype` is a colony, for its mutants, or `baseline`. `status` is that of the
    parameter, with or without the text after its code; the empty text selects measurements without one. `date_from` and
    `date_until` are days of the experiment, both included, and leave out data without a day (lines, housings).
    `only_valid` leaves out data with errors, and data that the integrity rules have not judged yet.

    `latest_valid` selects the latest valid version of each experiment, line and housing, with its animals' latest valid
    ones (`dcc.qc.history`): data that were replaced by some with errors are among them.

    By default current measurements are selected. `as_of_document` selects those that were current after that document,
    `as_of_date` those at that time (in UTC if it has no time zone), or at the end of that day. The animals are as they
    were known then, and their validity is the present one.

    Days may also be texts such as 2026-10-31, and times of pandas. Whatever is given, the fields then hold tuples of
    texts, sorted and distinct, a `date`, a `datetime` in UTC without a time zone, an `int`, and a `bool`.

    Raises ConfigurationError for a contradiction, for a value of another type, or for more than 10,000 texts in one
    field.
    """

    centre: Texts = None
    pipeline: Texts = None
    project: Texts = None
    colony: Texts = None
    genotype: Texts = None
    specimen: Texts = None
    procedure: Texts = None
    parameter: Texts = None
    status: Texts = None
    date_from: date | None = None
    date_until: date | None = None
    only_valid: bool = True
    latest_valid: bool = False
    as_of_document: int | None = None
    as_of_date: date | datetime | None = None

    def __post_init__(self) -> None:
        for name in TEXT_FILTERS:
            self._convert(name, _distinct, "a text, or several")
        for name in ("date_from", "date_until"):
            self._convert(name, _day, "a day such as 2026-10-31")
        self._convert("as_of_date", _moment, "a day such as 2026-10-31, or a time")
        self._convert("as_of_document", _number, "the number of a document")
        for name in ("only_valid", "latest_valid"):
            # Never None, which would select other measurements than the default.
            self._convert(name, _truth, "True or False", optional=False)
        if self.as_of_document is not None and self.as_of_date is not None:
            raise ConfigurationError("A filter names a document and a date to go back to. Name one of them.")
        if self.latest_valid and (self.as_of_document is not None or self.as_of_date is not None):
            raise ConfigurationError("The latest valid data are those of the present. Leave out the past, or that.")
        if self.latest_valid and not self.only_valid:
            raise ConfigurationError("The latest valid data and invalid ones exclude each other. Name one of them.")
        if self.date_from and self.date_until and self.date_from > self.date_until:
            raise ConfigurationError(
                f"A filter wants experiments from {self.date_from} until {self.date_until}, which is before. "
                "Exchange the two days."
            )
        for name in TEXT_FILTERS:
            if len(self.texts(name) or ()) > _MAX_VALUES:
                raise ConfigurationError(
                    f"A filter names more than {_MAX_VALUES:,} values of {name}. "
                    "Leave it out, and choose among the rows that come back."
                )

    def _convert(self, name: str, convert: Callable[[Any], object], takes: str, *, optional: bool = True) -> None:
        """Convert a field: databases and conditions differ in what they make of other types."""
        value = getattr(self, name)
        if value is None and optional:
            return
        try:
            object.__setattr__(self, name, convert(value))
        except (TypeError, ValueError):
            raise ConfigurationError(f"The filter {name} takes {takes}, but not {value!r}. Correct it.") from None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """The texts of a field, sorted and distinct; None for all."""
        found: tuple[str, ...] | None = getattr(self, name)
        return found

    def described(self) -> dict[str, object]:
        """The fields with a value, as JSON; equal for equal filters."""
        plain: dict[str, object] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "latest_valid" and not value:
                # As in the exports of versions without it.
                continue
            if isinstance(value, tuple):
                plain[field.name] = list(value)
            elif value is not None:
                plain[field.name] = value.isoformat() if isinstance(value, date) else value
        return plain


TEXT_FILTERS: Final = tuple(field.name for field in fields(MeasurementFilter) if field.type == "Texts")
"""The fields of `MeasurementFilter` that are texts."""


def _distinct(value: str | Iterable[str]) -> tuple[str, ...]:
    texts = {value} if isinstance(value, str) else set(value)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    return tuple(sorted(texts))


def _truth(value: object) -> bool:
    # Also those of numpy.
    if value not in (True, False):
        raise TypeError
    return bool(value)


def _number(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _day(value: date | str) -> date:
    if isinstance(value, datetime):
        # As text, because the missing time of pandas has no date that could be told from others.
        value = value.isoformat()[:10]
    if isinstance(value, str):
        return date.fromisoformat(value)
    if not isinstance(value, date):
        raise TypeError
    return value


def _moment(value: date | str) -> date:
    if not isinstance(value, datetime):
        return _day(value)
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def conditions(criteria: MeasurementFilter, columns: Mapping[str, ColumnElement[object]]) -> list[ColumnElement[bool]]:
    """The conditions of a filter, on the columns of its fields (`columns`: field to column, and `date`, `is_valid`)."""
    found = []
    for name in TEXT_FILTERS:
        texts = criteria.texts(name)
        if texts is not None:
            found.append(has_status(columns[name], texts) if name == "status" else is_one_of(columns[name], texts))
    if criteria.date_from is not None:
        found.append(columns["date"] >= criteria.date_from)
    if criteria.date_until is not None:
        found.append(columns["date"] <= criteria.date_until)
    if criteria.only_valid:
        found.append(columns["is_valid"] == 1)
    return found


def is_one_of(column: ColumnElement[object], texts: Iterable[str]) -> ColumnElement[bool]:
    """The condition that a column has exactly one of some texts."""
    # With a mark after it, a text differs from one with trailing blanks on MySQL and MariaDB too.
    marked = column.concat(".")
    return column.in_(list(texts)) & marked.in_([f"{text}." for text in texts])


def has_status(column: ColumnElement[object], texts: Iterable[str]) -> ColumnElement[bool]:
    """The condition that a column has one of some parameter statuses (see `MeasurementFilter`)."""
    choices = []
    for text in texts:
        if text:
            choices.append(is_one_of(column, [text]))
            choices.append(func.substr(column, 1, len(text) + 1) == f"{text}:")
        else:
            # By its length, because blanks are equal to the empty text on MySQL and MariaDB.
            choices += [column.is_(None), func.length(column) == 0]
    return or_(*choices)
