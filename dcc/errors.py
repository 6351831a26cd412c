"""Every error the platform raises, in one tree.

A message names the thing, says what is wrong and what to do next, and holds no secret that this process knows of.
`exit_code` is what the `dcc` command ends with when the error reaches it. The class name is the `short_name` under
which the tracker's `an_exception` table knows the error, and the first line of its docstring is the description stored
there.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from dcc.messages import Message, mark
from dcc.redaction import redacted


def _without_secrets(detail: object) -> object:
    if isinstance(detail, str):
        return redacted(detail)
    if isinstance(detail, Message):
        kept = {name: _without_secrets(each) for name, each in (detail.details or {}).items()}
        return Message(redacted(detail.text), None if detail.details is None else kept)
    if isinstance(detail, (list, tuple)):
        return [_without_secrets(each) for each in detail]
    return detail if detail is None or isinstance(detail, (int, float)) else redacted(str(detail))


class DccError(Exception):
    """Something went wrong in the platform."""

    exit_code: ClassVar[int] = 1

    case: str = ""
    """Which of the declarations of its kind it is, where there are several (`dcc.declarations`)."""

    def __init__(self, *parts: object, case: str = "", **details: object) -> None:
        """A marked text with the details for its names in braces; without details, words."""
        if details and parts:
            self._said = Message(str(parts[0]), {name: _without_secrets(each) for name, each in details.items()})
            super().__init__(str(self._said))
        else:
            super().__init__(*(redacted(part) if isinstance(part, str) else part for part in parts))
        if case:
            self.case = case

    @property
    def said(self) -> Message:
        """What it says, to be put into words when somebody reads it."""
        said: Message | None = getattr(self, "_said", None)
        return Message(str(self)) if said is None else said

    @property
    def code(self) -> str:
        """What it is declared by: its id, with the case after a point."""
        return f"{self.error_id()}.{self.case}" if self.case else self.error_id()

    @classmethod
    def short_name(cls) -> str:
        """Name of this error in the tracker's `an_exception` table."""
        return cls.__name__

    @classmethod
    def error_id(cls) -> str:
        """The short id by which docs/errors.md explains this kind of error: `bad-file-name` of BadFileNameError."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

    @classmethod
    def summary(cls) -> str:
        """One line that describes this kind of error, whatever it happened to."""
        return (cls.__doc__ or cls.__name__).strip().splitlines()[0]


class InternalFaultError(DccError):
    """The platform itself is at fault."""


class HelperEndedError(InternalFaultError):
    """A process that reads documents for another one ended before its work was done."""


class ConfigurationError(DccError):
    """A setting or an argument is missing or wrong."""

    exit_code = 2


class DatabaseOutdatedError(ConfigurationError):
    """A database has not the schema that this version works with."""


class TrackerOutdatedError(DatabaseOutdatedError):
    """The tracker database has not the schema that this version works with."""


class QcDatabaseOutdatedError(DatabaseOutdatedError):
    """The QC database has not the schema that this version works with."""


class DagsterStorageOutdatedError(DatabaseOutdatedError):
    """Dagster's own database has not the tables that this version works with."""


class DatabaseServerUnfitError(ConfigurationError):
    """A database server or database is of a version or set up in a way that data would suffer from."""


class ReferenceDataError(ConfigurationError):
    """A set of reference data is missing, empty or malformed."""


class ExportError(ConfigurationError):
    """An export cannot be written where it was asked for."""


class BackupError(ConfigurationError):
    """A backup cannot be written where it was asked for, or is not whole."""


class StorageNotEmptyError(ConfigurationError):
    """A database that is to be written anew holds data."""


class StorageUnfinishedError(ConfigurationError):
    """A database was being restored or copied when that broke off."""


class StoreRefusedError(ConfigurationError):
    """The object store refused what was asked of it, or there is no such store."""


class CopyFailedError(DccError):
    """What was copied from one database to another is not what was there."""


class NotFoundError(ConfigurationError):
    """The named centre, file source, zip action or session does not exist."""


class BuiltOnError(DccError):
    """Later documents build on what was to be withdrawn."""


class NotDelegatedError(DccError):
    """Data of a centre are to be changed in the name of another one, to which it has not delegated."""


class SessionActiveError(DccError):
    """Another crawling session is active."""

    exit_code = 3


class SessionLostError(DccError):
    """The crawling session lost its lock to another one."""

    exit_code = 3


class ExportActiveError(DccError):
    """Another export writes to the same directory."""

    exit_code = 3


class DaemonActiveError(DccError):
    """A daemon of this installation runs already."""

    exit_code = 3


class BackupActiveError(DccError):
    """Another backup writes to the same directory."""

    exit_code = 3


class UnreachableError(DccError):
    """A file source or a database could not be reached."""

    exit_code = 4


class DatabaseUnreachableError(UnreachableError):
    """A database could not be reached."""


class TrackerUnreachableError(DatabaseUnreachableError):
    """The tracker database could not be reached."""


class QcDatabaseUnreachableError(DatabaseUnreachableError):
    """The QC database could not be reached."""


class DagsterStorageError(DatabaseUnreachableError):
    """Dagster's own storage could not be written."""


class DagsterUnreachableError(DagsterStorageError):
    """Dagster's own database could not be reached."""


class StoreUnreachableError(UnreachableError):
    """The object store could not be reached."""


_OF_SOURCE: Final = mark("{source}: {problem}")


class SourceError(UnreachableError):
    """A file source did not do what was asked of it."""

    def __init__(self, *parts: object, source: str | None = None, case: str = "", **details: object) -> None:
        """As of any error, after the name of its `source`, which is no detail of the text itself."""
        if source is None:
            super().__init__(*parts, case=case, **details)
        else:
            problem = Message(str(parts[0]), details or None)
            super().__init__(_OF_SOURCE, case=case, source=source, problem=problem)


class SourceMisconfiguredError(SourceError):
    """The file source's address or access key cannot be used as it stands."""

    exit_code = 2


class SourceUnreachableError(SourceError):
    """The file source's server could not be connected to."""


class SourceTimeoutError(SourceError):
    """The file source's server did not answer within the time limit."""


class LoginRefusedError(SourceError):
    """The file source's server refused the user name, password or key."""


class HostKeyUnknownError(SourceError):
    """The file source's host key has never been accepted."""


class HostKeyChangedError(SourceError):
    """The file source shows another host key than the one that was accepted."""


class CertificateRefusedError(SourceError):
    """The file source's TLS certificate could not be verified."""

    fingerprint: str | None = None


class CertificateChangedError(CertificateRefusedError):
    """The file source shows another TLS certificate than the one that was accepted."""


class ListingFailedError(SourceError):
    """A directory of the file source could not be listed."""


class ListingShrunkError(SourceError):
    """A directory of the file source lists so much less than before that the next crawl has to confirm it."""


class FileMissingError(SourceError):
    """The file is no longer on the file source."""


class TransferFailedError(SourceError):
    """The transfer of a file broke off."""


class FileChangedError(TransferFailedError):
    """The file has changed on the file source since it was listed."""


class SizeMismatchError(TransferFailedError):
    """The file received has not the size that was listed."""


class ChecksumMismatchError(TransferFailedError):
    """The file received has not the checksum that the centre published beside it."""

    received: str | None = None
    """The MD5 of what arrived; None where the copy was known to be bad and was not fetched."""
    is_resumed = False
    """Whether what arrived was put together from two attempts."""


class ReferenceUnreachableError(UnreachableError):
    """A source of reference data could not be reached."""


class ReportNotSentError(UnreachableError):
    """The report of a session could not be sent."""


class NotificationNotSentError(UnreachableError):
    """A notification could not be sent, or nobody knows whether it was."""

    may_have_arrived = False


class DiskFullError(DccError):
    """The staging area has not enough free space."""

    exit_code = 4


class CleaningError(DccError):
    """Something in the staging area could not be removed."""


class ArchiveRemovedError(DccError):
    """The archive was removed from the staging area, since it had been kept as long as it was to be."""


class StagedDocumentLostError(DccError):
    """A document is not in staging any more as it was extracted."""


class StoredObjectLostError(DccError):
    """An object is not in the object store any more as it was put there."""


class FaultyDataError(DccError):
    """What a centre submitted is at fault."""


class BadFileNameError(FaultyDataError):
    """The file name does not follow the naming convention."""


class ArchiveError(FaultyDataError):
    """The zip archive could not be read."""


class CorruptArchiveError(ArchiveError):
    """The zip archive is damaged."""


class EncryptedArchiveError(ArchiveError):
    """The zip archive is encrypted."""


class UnsafeArchiveError(ArchiveError):
    """The zip archive holds paths, links or names that could write outside its folder."""


class OversizedArchiveError(ArchiveError):
    """The zip archive would unpack to more than the limits allow."""


class EmptyArchiveError(ArchiveError):
    """The zip archive holds no XML document."""


class DuplicateMemberError(ArchiveError):
    """The zip archive holds two entries of the same name."""


class ManifestError(ArchiveError):
    """The zip archive does not hold what its manifest says."""


class MemberIgnoredError(FaultyDataError):
    """An entry of the zip archive was left aside."""


class MemberNotOpenedError(FaultyDataError):
    """An archive inside the zip archive is not opened."""


class DocumentError(FaultyDataError):
    """The document could not be accepted."""


class NotWellFormedError(DocumentError):
    """The document is not well-formed XML."""


class SchemaViolationError(DocumentError):
    """The document does not follow the XML schema."""


class WrongDocumentKindError(DocumentError):
    """The document's root element is not the one that its file name announces."""


class ForbiddenMarkupError(DocumentError):
    """The document has a document type declaration, which is refused."""
