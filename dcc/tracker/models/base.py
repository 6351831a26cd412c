"""What all tables of the tracker have in common."""

from __future__ import annotations

from dcc.databases.columns import TypedTable, new_metadata


class Base(TypedTable):
    """Base of all tables of the tracker; `Base.metadata` holds them."""

    __abstract__ = True
    metadata = new_metadata()
