"""Downloading, extracting and validating zip actions, all overlapping (seed 000 section 4, figures 4 and 5).

Threads do the work: a few for each file source download, a pool extracts and validates. They never touch the tracker.
One coordinating thread, the caller's, hears of everything they do, decides what comes next, and writes to the tracker
about ten times a second, everything that has happened since in one transaction.

A failed attempt is followed by the next file source in order of preference, then by further rounds after a delay; it
is promoted to the zip action only when no attempt follows it in the session. An archive that arrived with the size and
checksum of its source and cannot be read is the centre's to mend: no other source is tried.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy import Engine, select

from dcc_resources.archives import ArchiveLimits, ExtractedArchive
from dcc_resources.documents.schema_set import SchemaSet
from dcc_resources.downloading import (
    Arrived,
    Broke,
    DownloadMessage,
    Hosting,
    Progressed,
    SourceDownloads,
    Started,
    Transfer,
)
from dcc_resources.errors import (
    ArchiveError,
    ChecksumMismatchError,
    CorruptArchiveError,
    DccError,
    DiskFullError,
    FileMissingError,
    InternalFaultError,
    SourceError,
)
from dcc_resources.file_sources.base import SourceAddress
from dcc_resources.outcomes import Problem, ZipKey, ZipOutcome
from dcc_resources.sessions import Session
from dcc_resources.settings import Settings
from dcc_resources.staging import Staging
from dcc_resources.tracker.database import run_writing
from dcc_resources.tracker.download_plan import PlannedZip
from dcc_resources.tracker.models import Centre, utc_now
from dcc_resources.tracker.progress import State, Subject
from dcc_resources.tracker.reference import Phase, Status
from dcc_resources.tracker.sources import load_addresses
from dcc_resources.zip_jobs import INVALID, VALID, Checker, Document, Job
from dcc_resources.zip_recording import Batch, Written

log = logging.getLogger(__name__)

_COMMIT_SECONDS = 0.1
_IDLE_SECONDS = 0.5
_QUEUED_PER_SOURCE = 32
_MOST_JOBS = 256
_STOP_SECONDS = 5.0

DOWNLOADING = State(Phase.DOWNLOAD, Status.RUNNING)
NOT_DOWNLOADED = State(Phase.DOWNLOAD, Status.FAILED)
WRONG_CHECKSUM = State(Phase.ZIP_MD5, Status.FAILED)
EXTRACTING = State(Phase.UNZIP, Status.RUNNING)
EXTRACTED = State(Phase.UNZIP, Status.DONE)
NOT_EXTRACTED = State(Phase.UNZIP, Status.FAILED)


@dataclass(frozen=True, slots=True)
class Extracted:
    """An archive's documents are in staging."""

    job: Job
    archive: ExtractedArchive


@dataclass(frozen=True, slots=True)
class Checked:
    """A document has been validated."""

    job: Job
    document: Document
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """An archive could not be extracted, or a document not be looked at."""

    job: Job
    error: Exception


Message = DownloadMessage | Extracted | Checked | Failed
