"""The seventeen tables of the `phenodcc_tracker` schema, and those that this platform adds to it.

Each table and index is made only where it is missing, so that an upgrade which broke off on MySQL or MariaDB can be
taken up again.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from dcc.databases.migrations.operations import make_missing

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FAMILY = ("mysql", "mariadb")
TINY = sa.SmallInteger().with_variant(mysql.TINYINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
SMALL = sa.SmallInteger().with_variant(mysql.SMALLINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
SIGNED_SMALL = sa.SmallInteger().with_variant(sa.Integer(), "sqlite")
INT = sa.Integer().with_variant(mysql.INTEGER(unsigned=True), *FAMILY)
BIG = sa.BigInteger().with_variant(mysql.BIGINT(unsigned=True), *FAMILY).with_variant(sa.Integer(), "sqlite")
SIGNED_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# MySQL's own types, because Dagster, where it is imported, changes what the general ones become there.
DATE_TIME = sa.DateTime().with_variant(mysql.DATETIME(), *FAMILY)
ROW_TIME = sa.TIMESTAMP().with_variant(mysql.TIMESTAMP(), *FAMILY)
DOUBLE: sa.Double[float] = sa.Double().with_variant(mysql.DOUBLE(asdecimal=False), *FAMILY)

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def column(name: str, kind: Any, *, null: bool = False, default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null, server_default=None if default is None else sa.text(default))


def ref(name: str, kind: Any, target: str, ondelete: str, *, null: bool = False, key: bool = False) -> sa.Column[Any]:
    link = sa.ForeignKey(target, ondelete=ondelete, onupdate="CASCADE")
    return sa.Column(name, kind, link, nullable=null, primary_key=key, autoincrement=False)


def phase_and_status() -> tuple[sa.Column[Any], sa.Column[Any]]:
    return ref("phase_id", SMALL, "phase.id", "RESTRICT"), ref("status_id", SMALL, "a_status.id", "RESTRICT")


def number(kind: Any) -> sa.Column[Any]:
    return sa.Column("id", kind, primary_key=True, autoincrement=True)


class Tables:
    """The tables of this revision for one database."""

    def __init__(self, dialect: str) -> None:
        self.metadata = sa.MetaData(naming_convention=NAMING)
        self._row_time = "CURRENT_TIMESTAMP" + (" ON UPDATE CURRENT_TIMESTAMP" if dialect in FAMILY else "")
        self._options: dict[str, Any] = {}
        for family in FAMILY:
            self._options |= {
                f"{family}_engine": "InnoDB",
                f"{family}_default_charset": "utf8mb4",
                f"{family}_collate": "utf8mb4_bin",
            }
        self._reference_tables()
        self._centre_tables()
        self._zip_tables()
        self._log_tables()
        self._session_tables()
        self._own_tables()

    def table(self, name: str, *parts: sa.Column[Any] | sa.Index | sa.UniqueConstraint, stamped: bool = True) -> None:
        last: list[Any] = []
        if stamped:
            last = [column("last_update", ROW_TIME, default=self._row_time)]
        counted = any(isinstance(part, sa.Column) and part.autoincrement is True for part in parts)
        columns = [part for part in parts if isinstance(part, sa.Column)]
        keys = [part for part in parts if not isinstance(part, sa.Column)]
        sa.Table(name, self.metadata, *columns, *last, *keys, sqlite_autoincrement=counted, **self._options)

    def _reference_tables(self) -> None:
        def described() -> sa.Column[Any]:
            return column("description", sa.Text(), null=True)

        for name, length in (("source_protocol", 8), ("resource_state", 32), ("processing_type", 32)):
            short_name = column("short_name", sa.String(length))
            self.table(name, number(SMALL), short_name, described(), sa.Index(None, "short_name"))
        for name in ("phase", "a_status", "an_exception"):
            colour = [column("rgba", sa.CHAR(8))] if name == "a_status" else []
            named = (number(SMALL), column("short_name", sa.String(64)), described(), *colour)
            self.table(name, *named, sa.UniqueConstraint("short_name"))

    def _centre_tables(self) -> None:
        self.table(
            "centre",
            number(SMALL),
            column("short_name", sa.String(32)),
            column("imits_name", sa.String(32), null=True),
            column("full_name", sa.String(128)),
            column("email", sa.String(128)),
            column("phone", sa.String(14), null=True),
            column("address", sa.String(256), null=True),
            column("is_active", sa.Boolean(), default="1"),
            column("created", DATE_TIME),
            sa.UniqueConstraint("short_name"),
        )
        self.table(
            "file_source",
            number(SMALL),
            ref("centre_id", SMALL, "centre.id", "CASCADE"),
            ref("protocol_id", SMALL, "source_protocol.id", "CASCADE"),
            column("hostname", sa.String(512)),
            column("username", sa.String(128)),
            column("accesskey", sa.String(256)),
            column("base_path", sa.String(256), null=True),
            ref("state_id", SMALL, "resource_state.id", "CASCADE"),
            column("created", DATE_TIME),
            sa.Index(None, "hostname"),
            sa.Index(None, "centre_id"),
            sa.Index(None, "protocol_id"),
            sa.Index(None, "state_id"),
        )

    def _zip_tables(self) -> None:
        def file_facts() -> tuple[sa.Column[Any], ...]:
            return (
                ref("centre_id", SMALL, "centre.id", "SET NULL", null=True),
                column("created", sa.Date(), null=True),
                column("inc", BIG, null=True),
                column("size_bytes", BIG, null=True),
                column("content_md5", sa.CHAR(32), null=True),
            )

        self.table(
            "zip_file",
            number(BIG),
            column("file_name", sa.String(128)),
            *file_facts(),
            sa.UniqueConstraint("file_name"),
            sa.Index(None, "centre_id"),
        )
        self.table(
            "zip_action",
            number(BIG),
            ref("zip_id", BIG, "zip_file.id", "CASCADE"),
            ref("todo_id", SMALL, "processing_type.id", "RESTRICT"),
            *phase_and_status(),
            sa.UniqueConstraint("zip_id", "todo_id"),
            sa.Index(None, "todo_id"),
            sa.Index(None, "phase_id", "status_id"),
            sa.Index(None, "status_id"),
        )
        self.table(
            "file_source_has_zip",
            number(BIG),
            ref("za_id", BIG, "zip_action.id", "CASCADE"),
            ref("file_source_id", SMALL, "file_source.id", "CASCADE"),
            column("num_retries", TINY),
            column("size_bytes", BIG, null=True),
            column("modified", SIGNED_BIG, null=True),
            column("has_md5", sa.Boolean(), default="0"),
            column("gone_since", DATE_TIME, null=True),
            sa.UniqueConstraint("za_id", "file_source_id"),
            sa.Index(None, "file_source_id"),
        )
        self.table(
            "zip_download",
            number(BIG),
            ref("zf_id", BIG, "file_source_has_zip.id", "CASCADE"),
            column("request", DATE_TIME),
            column("received", DATE_TIME),
            column("downloaded_size_bytes", BIG, default="0"),
            *phase_and_status(),
            sa.Index(None, "zf_id"),
            sa.Index(None, "phase_id", "status_id"),
            sa.Index(None, "status_id"),
        )
        self.table(
            "xml_file",
            number(BIG),
            ref("zip_id", BIG, "zip_download.id", "CASCADE"),
            column("fname", sa.String(128)),
            *file_facts(),
            *phase_and_status(),
            sa.Index(None, "fname"),
            sa.Index(None, "created"),
            sa.Index(None, "zip_id", "phase_id", "status_id"),
            sa.Index(None, "centre_id"),
            sa.Index(None, "phase_id", "status_id"),
            sa.Index(None, "status_id"),
        )

    def _log_tables(self) -> None:
        for name, link, target in (
            ("zip_log", "zip_id", "zip_download.id"),
            ("xml_log", "xml_id", "xml_file.id"),
            ("zip_action_log", "za_id", "zip_action.id"),
        ):
            places = (column("line", INT, null=True), column("col", INT, null=True)) if name == "xml_log" else ()
            self.table(
                name,
                number(BIG),
                ref(link, BIG, target, "CASCADE"),
                ref("exception_id", SMALL, "an_exception.id", "RESTRICT"),
                column("message", sa.Text(), null=True),
                *places,
                sa.Index(None, link),
                sa.Index(None, "exception_id"),
            )

    def _session_tables(self) -> None:
        self.table(
            "crawling_session",
            number(BIG),
            column("start_time", DATE_TIME),
            column("finish_time", DATE_TIME, null=True),
            column("status", SIGNED_SMALL),
            column("created", DATE_TIME),
        )
        self.table(
            "session_task",
            number(BIG),
            ref("session_id", BIG, "crawling_session.id", "CASCADE"),
            ref("phase_id", SMALL, "phase.id", "RESTRICT"),
            column("comment", sa.String(256), null=True),
            column("start_time", DATE_TIME),
            column("finish_time", DATE_TIME, null=True),
            column("status", SIGNED_SMALL),
            column("created", DATE_TIME),
            sa.Index(None, "session_id"),
            sa.Index(None, "phase_id"),
        )
        self.table(
            "source_crawl",
            number(BIG),
            ref("session_id", BIG, "crawling_session.id", "CASCADE"),
            ref("file_source_id", SMALL, "file_source.id", "CASCADE"),
            column("start_time", DATE_TIME),
            column("finish_time", DATE_TIME, null=True),
            column("outcome", sa.String(16)),
            ref("exception_id", SMALL, "an_exception.id", "RESTRICT", null=True),
            column("message", sa.Text(), null=True),
            *(column(name, INT) for name in ("listed", "new_zips", "known", "changed", "refused", "ignored", "gone")),
            sa.Index(None, "session_id"),
            sa.Index(None, "file_source_id"),
            sa.Index(None, "exception_id"),
        )
        self.table(
            "crawl_finding",
            number(BIG),
            ref("session_id", BIG, "crawling_session.id", "CASCADE"),
            ref("file_source_id", SMALL, "file_source.id", "CASCADE"),
            ref("za_id", BIG, "zip_action.id", "CASCADE", null=True),
            column("file_name", sa.String(160)),
            column("kind", sa.String(32)),
            column("message", sa.Text()),
            column("created", DATE_TIME),
            sa.Index(None, "session_id"),
            sa.Index(None, "file_source_id"),
            sa.Index(None, "za_id"),
            stamped=False,
        )
        self.table(
            "session_lock",
            sa.Column("id", SMALL, primary_key=True, autoincrement=False),
            ref("session_id", BIG, "crawling_session.id", "SET NULL", null=True),
            column("holder", sa.String(128), null=True),
            column("host", sa.String(128), null=True),
            column("pid", sa.Integer(), null=True),
            column("pid_started", sa.String(32), null=True),
            column("acquired", DATE_TIME, null=True),
            column("heartbeat", DATE_TIME, null=True),
            sa.Index(None, "session_id"),
            stamped=False,
        )

    def _own_tables(self) -> None:
        self.table(
            "reopening",
            number(BIG),
            ref("za_id", BIG, "zip_action.id", "CASCADE"),
            column("requested_by", sa.String(64)),
            column("reason", sa.String(256)),
            ref("from_phase_id", SMALL, "phase.id", "RESTRICT"),
            ref("from_status_id", SMALL, "a_status.id", "RESTRICT"),
            column("last_download_id", BIG, null=True),
            column("created", DATE_TIME),
            sa.Index(None, "za_id"),
            sa.Index(None, "from_phase_id"),
            sa.Index(None, "from_status_id"),
            stamped=False,
        )
        self.table(
            "host_key",
            number(BIG),
            ref("file_source_id", SMALL, "file_source.id", "CASCADE"),
            column("key_type", sa.String(64)),
            column("key_base64", sa.Text()),
            column("fingerprint", sa.String(128)),
            column("created", DATE_TIME),
            sa.Index(None, "file_source_id"),
            stamped=False,
        )
        self.table(
            "file_source_statistics",
            ref("file_source_id", SMALL, "file_source.id", "CASCADE", key=True),
            column("failures", BIG),
            column("bytes", BIG),
            column("seconds", DOUBLE),
            stamped=False,
        )


def upgrade() -> None:
    connection = op.get_bind()
    tables = Tables(connection.dialect.name)
    # Made first: it marks a database whose creation broke off as this platform's.
    receipts = sa.Table(
        "write_receipt",
        sa.MetaData(naming_convention=NAMING),
        sa.Column("writer", sa.CHAR(32), primary_key=True),
        column("token", BIG),
        column("written", DATE_TIME),
        **tables._options,
    )
    make_missing(connection, [receipts, *tables.metadata.sorted_tables])
    lock = tables.metadata.tables["session_lock"]
    if connection.scalar(sa.select(lock.c.id)) is None:
        connection.execute(sa.insert(lock).values(id=1))


def downgrade() -> None:
    raise NotImplementedError("The first revision has nothing to go back to.")
