"""Columns and table options of both databases, on each kind of database."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from sqlalchemy import (
    CHAR,
    TIMESTAMP,
    BigInteger,
    Boolean,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, declared_attr, mapped_column
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import ColumnElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from dcc.errors import ConfigurationError

Member = TypeVar("Member", bound=Enum)

MYSQL_FAMILY: Final = ("mysql", "mariadb")
MESSAGE_BYTES: Final = 65_535
"""The capacity of MySQL's TEXT; longer messages are cut to it."""

TINY = SmallInteger().with_variant(mysql.TINYINT(unsigned=True), *MYSQL_FAMILY).with_variant(Integer(), "sqlite")
SMALL = SmallInteger().with_variant(mysql.SMALLINT(unsigned=True), *MYSQL_FAMILY).with_variant(Integer(), "sqlite")
SIGNED_SMALL = SmallInteger().with_variant(Integer(), "sqlite")
INT = Integer().with_variant(mysql.INTEGER(unsigned=True), *MYSQL_FAMILY)
BIG = BigInteger().with_variant(mysql.BIGINT(unsigned=True), *MYSQL_FAMILY).with_variant(Integer(), "sqlite")
SIGNED_BIG = BigInteger().with_variant(Integer(), "sqlite")
LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), *MYSQL_FAMILY)
DOUBLE: Double[float] = Double().with_variant(mysql.DOUBLE(asdecimal=False), *MYSQL_FAMILY)
ROW_TIME = TIMESTAMP().with_variant(mysql.TIMESTAMP(), *MYSQL_FAMILY)


def require_text(what: str, text: str, column: Any, readers: str = "others read it later") -> str:
    """A text that a person gave, and that a column keeps; `readers` says who reads it.

    Raises ConfigurationError for one that is blank, or longer than the column.
    """
    longest: int = column.type.length
    if not text.strip():
        raise ConfigurationError(f"The {what} is empty. Give one: {readers}.")
    if len(text) > longest:
        raise ConfigurationError(f"The {what} has {len(text)} characters; {longest} fit. Shorten it.")
    return text


class UtcDateTime(TypeDecorator[datetime]):
    """A naive UTC `datetime` to the second, on every database; a time with a zone is converted."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite stores the same text as for CURRENT_TIMESTAMP."""
        if dialect.name == "sqlite":
            return dialect.type_descriptor(sqlite.DATETIME(truncate_microseconds=True))  # type: ignore[no-untyped-call]
        # MySQL's own type, because Dagster, where it is imported, changes what the general one becomes there.
        return dialect.type_descriptor(mysql.DATETIME() if dialect.name in MYSQL_FAMILY else DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Convert a time for the database."""
        if value is None:
            return None
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return value.replace(microsecond=0)


class MessageText(TypeDecorator[str]):
    """Free text of at most `MESSAGE_BYTES` bytes; a longer one is cut and ends in an ellipsis."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Fit a text into the column; characters beyond UTF-8 are escaped."""
        if value is None:
            return None
        data = value.encode("utf-8", "backslashreplace")
        if len(data) > MESSAGE_BYTES:
            return data[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "…"
        return data.decode("utf-8")


class CutText(TypeDecorator[str]):
    """A text of at most so many characters; a longer one is cut."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Fit a text into the column."""
        return value if value is None else value[: self.length]


PERSON = CutText(64)
"""Who did something: a person, a session or a part of the platform."""


class MemberId(TypeDecorator[Member]):
    """A member of an enumeration, as the id of its row in a reference table: its place there, counted from 1.

    Conversions are look-ups alone, for the many rows of a crawl.
    """

    impl = SMALL
    cache_ok = True

    def __init__(self, kind: type[Member]) -> None:
        super().__init__()
        self.kind = kind
        self._members = {None: None} | dict(enumerate(kind, start=1))
        self._ids = {member: number for number, member in self._members.items()}

    def bind_processor(self, dialect: Dialect) -> Callable[[Member | None], int | None]:  # noqa: ARG002
        """What gives the id of a member."""
        return self._ids.__getitem__

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[int | None], Member | None]:  # noqa: ARG002
        """What gives the member with an id."""
        return self._members.__getitem__


class RowTime(ColumnElement[datetime]):
    """Default of `last_update`: the time of the row's last change."""

    inherit_cache = True
    type = TIMESTAMP()


@compiles(RowTime)
def _row_time(element: RowTime, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ARG001
    return "CURRENT_TIMESTAMP"


@compiles(RowTime, *MYSQL_FAMILY)
def _row_time_mysql(element: RowTime, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ARG001
    return "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"


class TypedTable(DeclarativeBase):
    """Base of each database's models, which have a `metadata` of their own (see `new_metadata`).

    Each table is named after its class.
    """

    __abstract__ = True
    type_annotation_map = {datetime: UtcDateTime(), bool: Boolean(create_constraint=False)}  # noqa: RUF012
    if TYPE_CHECKING:
        __table__: ClassVar[Table]

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805
        """The name of the class, without `Row` after it, in lower case, its words joined by underscores."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__.removesuffix("Row")).lower()


def new_metadata() -> MetaData:
    """An empty collection of tables, with naming conventions for keys and indexes."""
    return MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class ReceiptColumns:
    """The columns of the table `write_receipt`: see `dcc.databases.transactions.run_writing`."""

    writer: Mapped[str] = mapped_column(CHAR(32), primary_key=True)
    token: Mapped[int] = mapped_column(BIG)
    written: Mapped[datetime]


class LastUpdated:
    """The column `last_update` of the tables of the `phenodcc_tracker` schema: the time of the row's last change."""

    last_update: Mapped[datetime] = mapped_column(ROW_TIME, server_default=RowTime(), sort_order=1_000)


def table_options(
    *keys: Index | UniqueConstraint, counted: bool = True
) -> tuple[Index | UniqueConstraint | dict[str, Any], ...]:
    """Table arguments: `keys`, and the options of every table on each database; `counted`: the database generates the
    ids.
    """
    options: dict[str, Any] = {"sqlite_autoincrement": counted}
    for family in MYSQL_FAMILY:
        options |= {
            f"{family}_engine": "InnoDB",
            f"{family}_default_charset": "utf8mb4",
            f"{family}_collate": "utf8mb4_bin",
        }
    return (*keys, options)


def _generated_id(kind: TypeEngine[Any]) -> MappedColumn[int]:
    return mapped_column(kind, primary_key=True, autoincrement=True)


small_id = partial(_generated_id, SMALL)
"""A generated id, for tables that stay small."""
big_id = partial(_generated_id, BIG)
"""A generated id, for tables that grow without end."""


def reference(kind: TypeEngine[Any], target: str, ondelete: str, **options: Any) -> MappedColumn[Any]:
    """A reference to a generated id; `ondelete` is what happens to this row when that one is deleted.

    It has an index of its own, unless it is unique, part of the key, or another index begins with it (`index=False`).
    """
    is_indexed = not (options.get("primary_key") or options.get("unique"))
    key = ForeignKey(target, ondelete=ondelete, onupdate="CASCADE")
    return mapped_column(kind, key, **{"index": is_indexed, **options})


small_reference, big_reference = partial(reference, SMALL), partial(reference, BIG)
