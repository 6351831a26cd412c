"""The tracker database's tables.

Seventeen tables are the seed's, with its names, types and keys, since other tools of the field query them. Columns
and tables marked "additive" are this platform's own. All dates and times are naive and in UTC, to the second.

Types are the seed's on MySQL and MariaDB, where every table is InnoDB in `utf8mb4_bin`: names are case-sensitive. On
SQLite all integers are INTEGER, ids are never given twice, and triggers (made by the migrations) keep `last_update`.
"""

from __future__ import annotations

from dcc.databases.columns import MESSAGE_BYTES, MYSQL_FAMILY, utc_now
from dcc.tracker.models.additions import (
    ArchiveDecline,
    BadCopy,
    CrawlFinding,
    Delegation,
    DocumentReopening,
    FileSourceStatistics,
    HostKey,
    NotificationRow,
    OwnerNotice,
    PublishedChecksum,
    Reopening,
    SessionLock,
    SourceCrawlRow,
    TlsCertificate,
    WriteReceipt,
    ZipActionLog,
)
from dcc.tracker.models.phenodcc import (
    AnException,
    Base,
    Centre,
    CrawlingSession,
    FileSource,
    FileSourceHasZip,
    PhaseRow,
    ProcessingTypeRow,
    ProtocolRow,
    ResourceStateRow,
    SessionTask,
    StatusRow,
    XmlFile,
    XmlLog,
    ZipAction,
    ZipDownload,
    ZipFile,
    ZipLog,
)

__all__ = [
    "MESSAGE_BYTES",
    "MYSQL_FAMILY",
    "AnException",
    "ArchiveDecline",
    "BadCopy",
    "Base",
    "Centre",
    "CrawlFinding",
    "CrawlingSession",
    "Delegation",
    "DocumentReopening",
    "FileSource",
    "FileSourceHasZip",
    "FileSourceStatistics",
    "HostKey",
    "NotificationRow",
    "OwnerNotice",
    "PhaseRow",
    "ProcessingTypeRow",
    "ProtocolRow",
    "PublishedChecksum",
    "Reopening",
    "ResourceStateRow",
    "SessionLock",
    "SessionTask",
    "SourceCrawlRow",
    "StatusRow",
    "TlsCertificate",
    "WriteReceipt",
    "XmlFile",
    "XmlLog",
    "ZipAction",
    "ZipActionLog",
    "ZipDownload",
    "ZipFile",
    "ZipLog",
    "utc_now",
]
