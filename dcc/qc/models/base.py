"""Common parts of the QC database's tables: their base, their ids and the lengths of their texts.

The uploader reserves ids for documents' content (`qc.apply.upload_lock.reserve_ids`), so that the rows of a complete
document are written without reading ids back; the other tables' ids are generated. A text that is longer than its
column is refused (rule Q1), never cut: SQLite would accept it, so lengths are checked before anything is written.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Boolean, String, Text
from sqlalchemy.orm import MappedColumn, mapped_column

from dcc.databases.columns import BIG, SMALL, TypedTable, big_reference, new_metadata, table_options
from dcc.vocabulary import Validity

CENTRE_LENGTH: Final = 32
"""Characters of a centre's ILAR code."""
KEY_LENGTH: Final = 64
"""Characters of an IMPReSS key (pipeline, procedure, parameter) and of a short word."""
NAME_LENGTH: Final = 128
"""Characters of a project, colony, strain or gene."""
ID_LENGTH: Final = 255
"""Characters of an id that a centre gives (specimen, experiment, sequence, litter), an increment or a unit."""
STATUS_LENGTH: Final = 2_000
"""Characters of a status, whose code may be followed by free text."""
URI_LENGTH: Final = 2_000
"""Characters of the address of a media file."""


class QcBase(TypedTable):
    """Base of all tables of the QC database; `QcBase.metadata` has them."""

    __abstract__ = True
    __table_args__: Any = table_options(counted=False)
    metadata = new_metadata()


def given_id() -> MappedColumn[int]:
    """An id that the uploader reserves; the first column."""
    return mapped_column(BIG, primary_key=True, autoincrement=False, sort_order=-2)


def part_of(target: str) -> MappedColumn[int]:
    """A reference to the row that this one is a part of, and the first part of its key."""
    return big_reference(target, "RESTRICT", primary_key=True, autoincrement=False)


def place() -> MappedColumn[int]:
    """The position among the parts of the same row, from 1 in the order of the document; the last part of the key."""
    return mapped_column(BIG, primary_key=True, autoincrement=False)


def reference(target: str, **options: Any) -> MappedColumn[Any]:
    """A reference to a row that stays as long as this one."""
    return big_reference(target, "RESTRICT", **options)


def current_flag() -> MappedColumn[bool]:
    """Whether this version of an entity is the present one: the open `lifetime`, repeated here for the views."""
    return mapped_column(Boolean(create_constraint=False), default=True)


def validity_flag() -> MappedColumn[int]:
    """The integrity rules' verdict on this version of an entity, a `Validity`; the views show it as `is_valid`.

    Never null: on a server, judging a row that grows costs three times as much as one that does not.
    """
    return mapped_column(SMALL, default=Validity.UNJUDGED, server_default=str(Validity.UNJUDGED))


def lexical_text() -> MappedColumn[Any]:
    """A JSON object of attribute name to text, for attributes whose column cannot reproduce the text."""
    return mapped_column(Text)


def text_of(length: int, **options: Any) -> MappedColumn[Any]:
    """A text of at most so many characters."""
    return mapped_column(String(length), **options)
