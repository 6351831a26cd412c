"""Passes procedure runs to a statement: to a server as a range if no other run is between.

New runs are consecutive, and a server reads a range faster than single ids. SQLite has no statistics on their number,
and would read whole tables: it always gets single ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, bindparam

from dcc.databases.list_parameters import as_json, numbers_in

Query = Select[Any] | CompoundSelect[Any]
Given = Callable[[ColumnElement[int]], ColumnElement[bool]]
"""The condition that a column has the id of a given run."""


class OfRuns(NamedTuple):
    """A statement about runs, in both forms."""

    one_by_one: Query
    between: Query

    def ask(self, connection: Connection, run_ids: Collection[int], **given: object) -> Sequence[Any]:
        """The rows about these runs, at least one and a few thousand at most; `given` are its other parameters."""
        first, last = min(run_ids), max(run_ids)
        if last - first + 1 == len(run_ids) and connection.dialect.name != "sqlite":
            return connection.execute(self.between, {"first_run": first, "last_run": last, **given}).all()
        return connection.execute(self.one_by_one, {"runs": as_json(run_ids), **given}).all()


def of_runs(statement: Callable[[Given], Query]) -> OfRuns:
    """The statement that a function makes with a condition."""
    return OfRuns(
        statement(lambda run_id: run_id.in_(numbers_in("runs"))),
        statement(lambda run_id: run_id.between(bindparam("first_run"), bindparam("last_run"))),
    )
