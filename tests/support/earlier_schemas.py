"""Databases as earlier versions of the platform made them: those of today, with what came later taken back."""

from collections.abc import Mapping

from sqlalchemy import Connection, Engine, inspect

from dcc.databases.database import Database
from dcc.databases.schema import exclusive_connection, init_database, record_revision
from dcc.qc.database import QC_DATABASE
from dcc.tracker.database import TRACKER

_LOGS = ("xml_log", "zip_log", "zip_action_log", "source_crawl")
_FACTS = tuple(f"{table}.{column}" for table in _LOGS for column in ("code", "details"))
TRACKER_LATER: Mapping[str, tuple[str, ...]] = {
    "0028": ("file_source_has_zip.first_listed",),
    "0027": ("file_source.crawl_schedule",),
    "0026": ("file_source_has_zip.manifest_version",),
    "0025": ("session_statistics.seconds",),
    "0024": (),
    "0023": ("zip_decision",),
    "0022": ("urgent_archive",),
    "0021": ("server_turn",),
    "0020": ("archive_audit",),
    "0019": ("session_statistics", "crawling_session.end_reason"),
    "0018": ("archive_copy", "stored_archive", "zip_download.sha256"),
    "0017": tuple(
        f"file_source.{column}"
        for column in ("crawl_every", "crawl_windows", "paused", "paused_until", "paused_by", "pause_reason")
    ),
    "0016": ("file_source_has_zip.manifest",),
    "0015": (
        *(f"file_source.listed_{column}" for column in ("depth", "include", "exclude")),
        "file_source_has_zip.folder",
    ),
    "0014": ("proposed_withdrawal", "file_source.delta"),
    "0013": tuple(
        f"zip_download.{column}"
        for column in ("outcome", "session_id", "content_size_bytes", "content_md5", "etag", "last_modified")
    ),
    "0012": ("connection_place",),
    "0011": ("document_place",),
    "0010": ("crawling_session.centre_group", "crawling_session.centres"),
    "0009": (*_FACTS, "crawl_finding.details", "xml_log.severity"),
    "0008": ("archive_decline", "owner_notice.reason"),
    "0007": ("file_source_has_zip.missed_since", "file_source_has_zip.uploading_since"),
    "0006": (
        "bad_copy",
        "published_checksum",
        "zip_download.listed_size_bytes",
        "zip_download.listed_modified",
        "reopening.fell_back",
    ),
    "0005": ("delegation", "owner_notice"),
    "0004": ("notification", "centre.language"),
    "0003": ("tls_certificate",),
    "0002": ("document_reopening", "xml_log.cleared"),
}
ENTITIES = ("specimen", "experiment", "line", "housing")
QC_LATER: Mapping[str, tuple[str, ...]] = {
    "0014": ("impress_ontology_option.is_active",),
    "0012": tuple(f"impress_procedure.{column}" for column in ("is_mandatory", "level", "weeks", "stage")),
    "0011": (),
    "0010": ("document.origin",),
    "0009": ("document.content_digest",),
    "0008": ("centre_lock", "reserved_ids"),
    "0006": ("finding.code", "finding.details", "finding.cause"),
    "0005": ("reference_refusal",),
    "0002": tuple(f"{name}.validity" for name in ENTITIES),
}
"""Tables and columns by the revision that they came with."""


def init_as(engine: Engine, database: Database, revision: str) -> None:
    """Make a database as the version of the platform made it that worked with a revision."""
    init_database(engine)
    with exclusive_connection(engine, database) as connection:
        undo(connection, database, revision)
        connection.commit()
    engine.dispose()


def undo(connection: Connection, database: Database, revision: str) -> None:
    """Take back what came after a revision."""
    views = list(database.views(connection.dialect.name))
    for name in views:
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")
    if database is QC_DATABASE and revision < "0006":
        connection.exec_driver_sql("CREATE INDEX ix_finding_document_id_is_active ON finding (document_id, is_active)")
    for later, parts in (TRACKER_LATER if database is TRACKER else QC_LATER).items():
        if later > revision:
            for part in parts:
                _remove(connection, *part.split("."))
    if database is QC_DATABASE and revision < "0002":
        for name in ENTITIES:
            connection.exec_driver_sql(f"ALTER TABLE {name} ADD COLUMN is_valid BOOLEAN")
    if database is QC_DATABASE and revision < "0008":
        views.remove("overview_strain")
        strain = "strain_id VARCHAR(128) PRIMARY KEY, name VARCHAR(255), specimens BIGINT NOT NULL"
        connection.exec_driver_sql(f"CREATE TABLE overview_strain ({strain})")
        if connection.dialect.name != "sqlite":
            connection.exec_driver_sql("CREATE UNIQUE INDEX uq_document_tracker_id ON document (tracker_id)")
    # SQLite drops no column that a view names.
    former = "is_valid AS former FROM specimen" if database is QC_DATABASE and revision < "0002" else "1 AS former"
    for name in views:
        connection.exec_driver_sql(f"CREATE VIEW {name} AS SELECT {former}")
    record_revision(connection, revision)


def _remove(connection: Connection, table: str, column: str | None = None) -> None:
    if column is None:
        connection.exec_driver_sql(f"DROP TABLE {table}")
        return
    if not inspect(connection).has_table(table):
        return
    for index in inspect(connection).get_indexes(table):
        if column in index["column_names"]:
            on = "" if connection.dialect.name == "sqlite" else f" ON {table}"
            connection.exec_driver_sql(f"DROP INDEX {index['name']}{on}")
    connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
