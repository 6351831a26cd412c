"""What is declared of what stops a document, an archive or a crawl: what causes group by, who acts, the remedy.

The errors are those of `dcc.errors`, which bring their messages with them, by the id that docs/errors.md explains them
by; what a crawl noticed is `listing:` and its kind. Of a schema error (`documents.violations`) the cause is the element
or attribute and what was expected of it, whatever stands there instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dcc import errors
from dcc.declarations import Declaration, code_of, declaration_of, declare
from dcc.messages import mark
from dcc.vocabulary import Actor

LISTING: Final = "listing:"
"""What the kind of a cause begins with that a crawl noticed."""

FOREIGN: Final = "foreign"
"""The kind, after `LISTING`, of the cause of archives that are held (`dcc.tracker.hostings.foreign_archives`)."""

_CONVERTED: Final = mark("Correct the rows that the messages name, and submit the files in a new archive.")
_EXPORT: Final = mark(
    "Correct the export, and submit the documents again in a new archive. `dcc validate` tells what is wrong before."
)
_ANEW: Final = mark(
    "Make the archive again, and replace the bad one, under the same name: the next session fetches it."
)
_RENAME: Final = mark(
    "Rename the file: an archive is then uploaded again, and a document is submitted in a new archive."
)
_WAIT: Final = mark(
    "You need not do anything: sessions try again whenever they may use the source. If it lasts, ask whoever runs the "
    "server."
)
_SERVER: Final = mark("Correct how the source is reached: `dcc source test` goes through the connection step by step.")
_FOLDER: Final = mark(
    "Correct the base path with `dcc source change`, or see that its disk is mounted. `dcc source why` says when "
    "sessions try again."
)
_DCC_SEES_TO_IT: Final = mark("The Data Coordination Centre sees to it.")
_UPLOADING: Final = mark("Nothing: a later session takes them when they are complete.")
_GONE: Final = mark("Nothing, if they were taken away on purpose; else put them back.")


def _centre(cause: str, remedy: str = _EXPORT, by: tuple[str, ...] = ()) -> Declaration:
    """Of documents and archives, which the centre corrects."""
    return Declaration(cause=cause, remedy=remedy, cause_by=by)


def _source(cause: str, remedy: str, acts: Actor = Actor.DCC, for_centre: str = "") -> Declaration:
    """Of a file source, whose name is the value."""
    return Declaration(cause=cause, remedy=remedy, acts=acts, for_centre=for_centre)


def _nothing(cause: str, remedy: str) -> Declaration:
    """Of what nobody has to correct: each remedy says whether it clears by itself."""
    return Declaration(cause=cause, remedy=remedy, acts=Actor.NOBODY)


_ERRORS: Final[Mapping[type[errors.DccError], Declaration | Mapping[str, Declaration]]] = {
    errors.SchemaViolationError: {
        "": _centre(mark("Documents do not follow the XML schema")),
        "value": _centre(mark("{what}: values that are not permitted; expected {expected}")),
        "missing_attribute": _centre(mark('Elements <{element}> lack the required attribute "{attribute}"')),
        "unknown_attribute": _centre(mark('Elements <{element}> may not have the attribute "{attribute}"')),
        "unexpected": _centre(
            mark("Elements <{element}> are not permitted where they stand"),
            by=("element", "expected"),
        ),
        "out_of_place": _centre(mark("Elements <{element}> are not permitted where they stand")),
        "incomplete": _centre(mark("Elements <{element}> are incomplete"), by=("element", "expected")),
        "other": _centre(mark("Elements and attributes are not as the schema asks: {what}")),
    },
    errors.NotWellFormedError: {
        "": _centre(mark("Documents are not well-formed XML")),
        "empty": _centre(mark("Documents are empty")),
        "encoding": _centre(
            mark("Documents are in an encoding that is not supported, or not in the one that they name"),
            mark("Save them as UTF-8, and submit them again in a new archive."),
        ),
    },
    errors.WrongDocumentKindError: _centre(
        mark("The root element of documents is not the one that their names announce"),
        mark(
            "Documents of animals are named ….specimen.impc.xml, those of procedures ….experiment.impc.xml. Rename "
            "them and submit them in a new archive."
        ),
    ),
    errors.ForbiddenMarkupError: _centre(
        mark("Documents have a document type declaration, which is refused"),
        mark("Leave the <!DOCTYPE …> out, and submit the documents again in a new archive."),
    ),
    errors.ConversionError: {
        "": _centre(mark("Files could not be converted into documents"), _CONVERTED),
        "column": _centre(
            mark("Columns of tables are missing, unknown or there twice"),
            mark("Name the columns as the format of tables asks, and submit the files in a new archive."),
        ),
        "converter": Declaration(
            cause=mark("The converter {converter} failed"),
            remedy=mark("This is a fault of the converter: correct it or report it, and retry the archives."),
            acts=Actor.DCC,
        ),
    },
    errors.DocumentError: _centre(mark("Documents could not be accepted")),
    errors.BadFileNameError: {
        "": _centre(mark("Names do not follow the naming convention"), _RENAME),
        "centre": _centre(
            mark("Names begin with '{centre}', which is no registered centre"),
            mark(
                "Use exactly the producing centre's code. If it is right, the Data Coordination Centre registers "
                "it, and the next session accepts the archive."
            ),
        ),
        "date": _centre(mark("Names have dates that are not in the calendar"), _RENAME),
    },
    errors.ArchiveError: _centre(mark("Archives could not be read"), _ANEW),
    errors.CorruptArchiveError: _centre(mark("Archives are damaged"), _ANEW),
    errors.EncryptedArchiveError: _centre(
        mark("Archives are encrypted"), mark("Put them in their places without a password, under the same names.")
    ),
    errors.UnsafeArchiveError: _centre(
        mark("Archives hold paths, links or names that could write elsewhere"),
        mark("Make them without paths, links or absolute names, and put them in their places, under the same names."),
    ),
    errors.OversizedArchiveError: _centre(
        mark("Archives would unpack to more than the limits allow"), mark("Split them into several archives.")
    ),
    errors.EmptyArchiveError: _centre(
        mark("Archives hold no XML document and no table"),
        mark(
            "Put the documents into the archive, and replace it, under the same name. The name of a table begins with "
            "specimens or experiments, and ends with .csv."
        ),
    ),
    errors.DuplicateMemberError: _centre(
        mark("Archives hold two entries, or two documents in different folders, of the same name"),
        mark("Give each document a name of its own, and replace the archive, under the same name."),
    ),
    errors.ManifestError: _centre(
        mark("Archives do not hold what their manifests say"),
        mark("Correct the archives or their manifests, and put them in their places, under the same names."),
    ),
    errors.MemberIgnoredError: _nothing(
        mark("Entries of archives were left aside: {reason}"),
        mark("If they should have been taken, name them as documents or tables, and submit them in a new archive."),
    ),
    errors.MemberNotOpenedError: _centre(
        mark("Archives hold files that are not opened: each {reason}"),
        mark("Submit what they hold in .zip archives of their own."),
    ),
    errors.FaultyDataError: _centre(
        mark("The submitted data have errors"), mark("See the message, which names the file.")
    ),
    errors.SourceMisconfiguredError: _source(
        mark("The address or access key of {value} cannot be used as it stands"), _SERVER, for_centre=_DCC_SEES_TO_IT
    ),
    errors.SourceUnreachableError: {
        "": _nothing(mark("The server of {value} could not be connected to"), _WAIT),
        "folder": _source(mark("The folder of {value} cannot be reached"), _FOLDER, for_centre=_DCC_SEES_TO_IT),
    },
    errors.SourceTimeoutError: _nothing(mark("The server of {value} did not answer in time"), _WAIT),
    errors.LoginRefusedError: _source(
        mark("The server of {value} refused the login"),
        mark("Ask the centre for the password or key that is valid, then `dcc source change`."),
        for_centre=mark("Tell the Data Coordination Centre the password or key that is valid."),
    ),
    errors.HostKeyUnknownError: _source(
        mark("The host key of {value} has never been accepted"),
        mark("Compare its fingerprint with the centre's administrator, then `dcc source test --accept-host-key`."),
        for_centre=_DCC_SEES_TO_IT,
    ),
    errors.HostKeyChangedError: _source(
        mark("{value} shows another host key than the one that was accepted"),
        mark(
            "Ask the centre whether the server was set up again; accept the key only when they confirm its fingerprint."
        ),
    ),
    errors.CertificateRefusedError: _source(
        mark("The TLS certificate of {value} could not be verified"),
        mark("Have the certificate corrected, or name its authority or fingerprint with `dcc source change`."),
        for_centre=mark(
            "Have the certificate corrected, or tell the Data Coordination Centre its authority or fingerprint."
        ),
    ),
    errors.CertificateChangedError: _source(
        mark("{value} shows another TLS certificate than the one that was accepted"),
        mark("Ask the centre whether it was renewed; accept the new fingerprint only when they confirm it."),
    ),
    errors.ListingFailedError: _source(
        mark("A directory of {value} could not be listed"),
        mark("Give the Data Coordination Centre the right to list it, or have the base path corrected."),
        Actor.CENTRE,
    ),
    errors.ListingShrunkError: _source(
        mark("A directory of {value} is gone, or lists far fewer archives than before"),
        mark("Put back what went by mistake. If it was taken away on purpose, do nothing: the next crawl believes it."),
        Actor.CENTRE,
    ),
    errors.FileMissingError: _source(mark("Archives are not on {value} any more"), _GONE, Actor.CENTRE),
    errors.TransferFailedError: _nothing(mark("Transfers from {value} broke off"), _WAIT),
    errors.FileNotReadableError: _source(
        mark("Archives on {value} may not be read"),
        mark("Give the Data Coordination Centre the right to read them: the next session fetches them."),
        Actor.CENTRE,
    ),
    errors.BadChecksumFileError: _centre(
        mark("The .md5 files beside archives hold no MD5 checksum of them"),
        mark("Write the .md5 again, or remove it: the next session then fetches the archive."),
    ),
    errors.FileChangedError: _nothing(mark("Archives on {value} changed while they were being fetched"), _UPLOADING),
    errors.SizeMismatchError: _nothing(
        mark("Archives from {value} have not the size that was listed"),
        mark("They are fetched again. If this happens once more, have the server looked at."),
    ),
    errors.ChecksumMismatchError: _centre(
        mark("Archives have not the checksum that was published beside them"),
        mark("Correct the file, or its .md5: the next session then fetches it again."),
    ),
    errors.SourceError: _source(mark("{value} did not do what was asked of it"), _SERVER, for_centre=_DCC_SEES_TO_IT),
    errors.DiskFullError: Declaration(
        cause=mark("The disk had too little space for archives"),
        remedy=mark("The Data Coordination Centre frees some space; the next session processes the waiting archives."),
        acts=Actor.DCC,
    ),
    errors.DccError: Declaration(
        cause=mark("The platform could not do its work"),
        remedy=mark(
            "The Data Coordination Centre sees to it: `dcc show` and the log say more. The next session tries again."
        ),
        acts=Actor.DCC,
        for_centre=_DCC_SEES_TO_IT,
    ),
}

_LISTINGS: Final[Mapping[str, Declaration]] = {
    "changed": Declaration(
        cause=mark("Archives have changed under names that were taken before"),
        remedy=mark(
            "A name is taken once. Upload changed data under a new name. Or the Data Coordination Centre withdraws "
            "data of the former content with `dcc data undo`, then fetches the new ones with `dcc retry`."
        ),
        acts=Actor.DCC,
        for_centre=mark(
            "A name is taken once. Upload changed data under a new name. Or tell the Data Coordination Centre that the "
            "new content is to take the place of the former."
        ),
    ),
    FOREIGN: Declaration(
        cause=mark("Archives that lie on a source of centre {host} are named for centre {owner}, and are held"),
        remedy=mark(
            "Centre {owner} decides. If they are meant, it has them on its own source, or `dcc centre delegate {owner} "
            "--to {host}` records that {host} acts for it. If they are of centre {host}, that one renames them. `dcc "
            "archive decline` turns them down."
        ),
        cause_by=("owner", "host"),
        for_centre=mark(
            "Centre {owner} decides. If they are meant, it puts them on its own server, or tells the Data Coordination "
            "Centre that centre {host} acts for it. If they are of centre {host}, that one renames them."
        ),
    ),
    "taken_anew": _nothing(
        mark("Archives have changed of which no data had been taken over"),
        mark("Nothing: they were fetched again by themselves."),
    ),
    "manifest_changed": _nothing(
        mark("Manifests have changed beside archives that did not fail"),
        mark("Nothing: the earlier download still counts. `dcc retry` compares an archive with its new manifest."),
    ),
    "uploading": _nothing(mark("Archives are still being uploaded"), _UPLOADING),
    "clock_moved": _nothing(
        mark("The times of archives all moved by the same hours"),
        mark("Nothing: they count as the same archives. The clock of the server, or its time zone, was set."),
    ),
    "gone": _centre(mark("Archives are gone that two listings in a row did not show"), _GONE),
    "listed_twice": _centre(
        mark("Archives of one name lie in two folders"),
        mark("Remove one of them, or rename it. The one nearest to the action directory is taken."),
    ),
    "folder_twice": _nothing(
        mark("Links lead to folders that are listed already"),
        mark("Nothing: their archives are taken once."),
    ),
    "withdrawal_proposed": Declaration(
        cause=mark("Archives are gone, and the withdrawal of their data is proposed"),
        remedy=mark("Accept the proposals or turn them down."),
        acts=Actor.DCC,
    ),
    "unusual_size": Declaration(
        cause=mark("Archives are much larger or smaller than usual"),
        remedy=mark("Ask the centre whether they are what it meant to submit. They are processed anyway."),
        acts=Actor.DCC,
        for_centre=mark("It may ask whether they are what you meant to submit. They are processed anyway."),
    ),
    "future_date": _centre(
        mark("Archives have names with a date in the future"),
        mark("Use the day on which the data were exported in the names of the next ones. These are processed anyway."),
    ),
    "size_differs": _centre(
        mark("Archives of one name have different sizes on two file sources"),
        mark(
            "Say which of them is right, and have the other one removed. That of the preferred source is taken, the "
            "other only if that is bad."
        ),
    ),
}

for _error, _of_error in _ERRORS.items():
    for _case, _declaration in ({"": _of_error} if isinstance(_of_error, Declaration) else _of_error).items():
        declare(code_of(_error.error_id(), _case), _declaration)
for _kind, _declaration in _LISTINGS.items():
    declare(LISTING + _kind, _declaration)

ERROR_KINDS: Final = (*(error.error_id() for error in _ERRORS), *(LISTING + kind for kind in _LISTINGS))
"""The ids that causes have which are no rules: of errors, and of what a crawl notices."""


def kind_of(short_name: str) -> str:
    """The id of an error that the tracker knows by the name of its class: the nearest class that is declared."""
    error = getattr(errors, short_name, None)
    if not isinstance(error, type) or not issubclass(error, errors.DccError):
        return errors.DccError.error_id()
    return next(each.error_id() for each in error.__mro__ if issubclass(each, errors.DccError) and each in _ERRORS)


def declared_code(short_name: str, code: str | None) -> str:
    """The code that an error of the tracker's logs is declared by: the one recorded, or that of its kind."""
    return code if code and declaration_of(code) is not None else kind_of(short_name)
