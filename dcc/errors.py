"""Every error the platform raises, in one tree.

A message names the thing, says what is wrong and what to do next, and holds no secret that this process knows of.
`exit_code` is what the `dcc` command ends with when the error reaches it. The class name is the `short_name` under
which the tracker's `an_exception` table knows the error, and the first line of its docstring is the description stored
there.
"""

from __future__ import annotations

import re
from traceback import walk_tb
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
            self._translatable = Message(
                str(parts[0]), {name: _without_secrets(each) for name, each in details.items()}
            )
            super().__init__(str(self._translatable))
        else:
            super().__init__(*(redacted(part) if isinstance(part, str) else part for part in parts))
        if case:
            self.case = case

    @property
    def translatable(self) -> Message:
        """What it says, to be put into words when somebody reads it."""
        translatable: Message | None = getattr(self, "_translatable", None)
        return Message(str(self)) if translatable is None else translatable

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


_PLACE: Final = "_dcc_place"


class InternalFaultError(DccError):
    """The platform itself has a fault."""

    exit_code = 70


def fault_of(error: BaseException) -> str:
    """What an unexpected error says: its kind, its words, and the line of the platform that raised it."""
    words = str(error)
    return redacted(f"{type(error).__name__}{words and ': '}{words}{_place_of(error)}")


def platform_fault(what: str, error: BaseException, then: str = "") -> InternalFaultError:
    """The fault that an unexpected error with a thing is; `then` is what the platform does about it."""
    goes_on = f"; {then}" if then else ""
    return InternalFaultError(
        f"{what}: {fault_of(error)}. This is a fault of the platform{goes_on}. Report it, with the log."
    )


def attach_fault_place(error: BaseException) -> None:
    """Have `fault_of` know the line also in the process that the error is sent to."""
    error.__dict__[_PLACE] = _place_of(error)


def _place_of(error: BaseException) -> str:
    lines = [(str(frame.f_globals.get("__name__")), line) for frame, line in walk_tb(error.__traceback__)]
    place = next((f" (line {line} of {module})" for module, line in reversed(lines) if module.startswith("dcc")), "")
    return str(error.__dict__.get(_PLACE, place))


class HelperEndedError(InternalFaultError):
    """A process that reads documents ended early."""


class ConfigurationError(DccError):
    """A setting or an argument is missing or wrong."""

    exit_code = 2


class DatabaseOutdatedError(ConfigurationError):
    """A database has another schema than this version needs."""


class TrackerOutdatedError(DatabaseOutdatedError):
    """The tracker database has another schema than this version needs."""


class QcDatabaseOutdatedError(DatabaseOutdatedError):
    """The QC database has another schema than this version needs."""


class DagsterStorageOutdatedError(DatabaseOutdatedError):
    """Dagster's database has other tables than this version needs."""


class DatabaseServerUnfitError(ConfigurationError):
    """A database server's version or configuration would harm data."""


class ReferenceDataError(ConfigurationError):
    """A set of reference data is missing, empty or malformed."""


class ExportError(ConfigurationError):
    """An export cannot be written to this place."""


class BackupError(ConfigurationError):
    """A backup cannot be written, or is not whole."""


class StorageNotEmptyError(ConfigurationError):
    """The database that should be written holds data."""


class StorageUnfinishedError(ConfigurationError):
    """A database holds half of a restoration or copy."""


class StoreRefusedError(ConfigurationError):
    """The object store refused a request, or does not exist."""


class CopyFailedError(DccError):
    """A copied database differs from its source."""


class NotFoundError(ConfigurationError):
    """No such centre, source, archive or session exists."""


class BuiltOnError(DccError):
    """Later documents build on the submission to withdraw."""


class NotDelegatedError(DccError):
    """An archive would change data of a centre that has not delegated to it."""


class SessionActiveError(DccError):
    """Another session is running."""

    exit_code = 3


class SessionLostError(DccError):
    """The session lost its lock to another one."""

    exit_code = 3


class SessionTimeLimitError(DccError):
    """The session had all the time that it may take."""

    exit_code = 4


class ExportActiveError(DccError):
    """Another export writes to the same directory."""

    exit_code = 3


class DaemonActiveError(DccError):
    """A daemon of this installation is running."""

    exit_code = 3


class StorageInUseError(DccError):
    """Another process has the database open."""

    exit_code = 3


class BackupActiveError(DccError):
    """Another backup writes to the same directory."""

    exit_code = 3


class UnreachableError(DccError):
    """A server could not be reached."""

    exit_code = 4


class DatabaseUnreachableError(UnreachableError):
    """A database could not be reached."""

    lasts = False
    """Whether another try is of no use."""


class TrackerUnreachableError(DatabaseUnreachableError):
    """The tracker database could not be reached."""


class QcDatabaseUnreachableError(DatabaseUnreachableError):
    """The QC database could not be reached."""


class DagsterStorageError(DatabaseUnreachableError):
    """Dagster's storage could not be written."""


class DagsterUnreachableError(DagsterStorageError):
    """Dagster's database could not be reached."""


class StoreUnreachableError(UnreachableError):
    """The object store could not be reached."""


_OF_SOURCE: Final = mark("{source}: {problem}")


class SourceError(UnreachableError):
    """A file source failed."""

    def __init__(self, *parts: object, source: Message | str | None = None, case: str = "", **details: object) -> None:
        """As of any error, after the name of its `source`, which is no detail of the text itself."""
        if source is None:
            super().__init__(*parts, case=case, **details)
        else:
            problem = Message(str(parts[0]), details or None)
            super().__init__(_OF_SOURCE, case=case, source=source, problem=problem)


class SourceMisconfiguredError(SourceError):
    """The source's address or access key cannot be used."""

    exit_code = 2


class SourceUnreachableError(SourceError):
    """The source's server could not be connected to."""


class SourceTimeoutError(SourceError):
    """The source's server did not answer in time."""


class LoginRefusedError(SourceError):
    """The source's server refused the user name, password or key."""


class HostKeyUnknownError(SourceError):
    """The source's host key was never accepted."""


class HostKeyChangedError(SourceError):
    """The source shows another host key than the accepted one."""


class CertificateRefusedError(SourceError):
    """The source's TLS certificate could not be verified."""

    fingerprint: str | None = None


class CertificateChangedError(CertificateRefusedError):
    """The source shows another TLS certificate than the accepted one."""


class ListingFailedError(SourceError):
    """A directory of the source could not be listed."""


class ListingShrunkError(SourceError):
    """A directory of the source lists far fewer archives."""


class FileMissingError(SourceError):
    """The file is no longer on the source."""


class TransferFailedError(SourceError):
    """The transfer of a file broke off."""


class FileNotReadableError(TransferFailedError):
    """The source does not let this user read the file."""


class BadChecksumFileError(TransferFailedError):
    """The .md5 beside an archive holds no checksum of it."""


class FileChangedError(TransferFailedError):
    """The file changed after it was listed."""


class SizeMismatchError(TransferFailedError):
    """The received file has not the listed size."""


class ChecksumMismatchError(TransferFailedError):
    """The received file has not its published checksum."""

    received: str | None = None
    """The MD5 of what arrived; None where the copy was known to be bad and was not fetched."""
    is_resumed = False
    """Whether what arrived was put together from two attempts."""


class ReferenceUnreachableError(UnreachableError):
    """A source of reference data could not be reached."""


class ReportNotSentError(UnreachableError):
    """The report of a session could not be sent."""


class NotificationNotSentError(UnreachableError):
    """A notification could not be sent, or may not have arrived."""

    may_have_arrived = False
    recipient_refused = False
    """Whether it failed for its recipient alone: others may be tried."""


class DiskFullError(DccError):
    """The staging area has too little free space."""

    exit_code = 4


class CleaningError(DccError):
    """Something in the staging area could not be removed."""


class ArchiveRemovedError(DccError):
    """Staging no longer holds the archive: its retention time ended."""


class StagedDocumentLostError(DccError):
    """A document in staging is missing or changed."""


class StoredObjectLostError(DccError):
    """An object in the object store is missing or changed."""


class FaultyDataError(DccError):
    """A submission has errors."""


class BadFileNameError(FaultyDataError):
    """The file name does not follow the naming convention."""


class ArchiveError(FaultyDataError):
    """The archive could not be read."""


class CorruptArchiveError(ArchiveError):
    """The archive is damaged."""


class EncryptedArchiveError(ArchiveError):
    """The archive is encrypted."""


class UnsafeArchiveError(ArchiveError):
    """The archive holds paths, links or names that lead outside."""


class OversizedArchiveError(ArchiveError):
    """The archive would unpack to more than the limits allow."""


class EmptyArchiveError(ArchiveError):
    """The archive holds no XML document and no table."""


class DuplicateMemberError(ArchiveError):
    """The archive holds two entries of the same name."""


class ManifestError(ArchiveError):
    """The archive differs from its manifest."""


class MemberIgnoredError(FaultyDataError):
    """An entry of the archive was ignored."""


class MemberNotOpenedError(FaultyDataError):
    """An archive inside the archive was not opened."""


class DocumentError(FaultyDataError):
    """The document could not be accepted."""


class NotWellFormedError(DocumentError):
    """The document is not well-formed XML."""


class SchemaViolationError(DocumentError):
    """The document does not follow the XML schema."""


class WrongDocumentKindError(DocumentError):
    """The root element is not what the file name says."""


class ForbiddenMarkupError(DocumentError):
    """The document has a document type declaration."""


class ConversionError(DocumentError):
    """The file could not be converted into a document."""
