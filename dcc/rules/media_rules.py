"""P19 and P20: what media must satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from dcc.declarations import Declaration
from dcc.documents.contents import MediaFile, MediaParameter, ParameterAssociation, SeriesMediaValue
from dcc.messages import mark
from dcc.rules.context import Context
from dcc.rules.elements import result_key
from dcc.rules.findings import Fault, fault
from dcc.rules.registry import rule
from dcc.rules.values import is_blank

_SCHEMES = ("ftp", "sftp", "http", "https")
_MEDIA_TYPES = frozenset(
    {
        "application/dicom",
        "application/gzip",
        "application/octet-stream",
        "application/pdf",
        "application/zip",
        "audio/wav",
        "image/bmp",
        "image/dicom",
        "image/gif",
        "image/jp2",
        "image/jpeg",
        "image/jpg",
        "image/png",
        "image/tif",
        "image/tiff",
        "image/x-ms-bmp",
        "img/jpg",
        "text/csv",
        "text/plain",
        "video/avi",
        "video/mp4",
        "video/mpeg",
        "video/quicktime",
        "video/x-msvideo",
    }
)
"""The permitted file types of media, in lower case; `img/jpg` because the format's own samples use it."""


@rule(
    "P19",
    ParameterAssociation,
    message=mark(
        "The media are associated with {parameter}, which is no simple or ontology parameter of this procedure here. "
        "Submit that parameter too, or correct the association."
    ),
    cause=mark("Media are associated with '{value}', which is not submitted with them"),
    remedy=mark("Submit that parameter in the same procedure, or correct the association."),
    cases={
        "with_sequence": mark(
            "The media are associated with {parameter} with sequenceID {sequence}, which is no simple or ontology "
            "parameter of this procedure here. Submit that parameter too, or correct the association."
        ),
    },
    known_as="parameterAssociationUndefined",
)
def association_refers_to_a_result(association: ParameterAssociation, at: Context) -> Iterator[Fault]:
    """A parameterAssociation refers to a simple or ontology parameter, and its sequenceID, of the same procedure."""
    result = result_key(association.parameter_id, association.sequence_id)
    if result in at.results:
        return
    key = result.parameter_id
    if association.sequence_id is None:
        yield fault(association.line, association.parameter_id, parameter=key)
    else:
        sequence = association.sequence_id
        yield fault(association.line, association.parameter_id, "with_sequence", parameter=key, sequence=sequence)


@rule(
    "P20",
    MediaParameter,
    MediaFile,
    SeriesMediaValue,
    message=mark(
        "The URI '{value}' is no absolute URL. Write one that begins with ftp://, sftp://, http:// or https://."
    ),
    cause=mark("URIs of media are no absolute URLs"),
    remedy=mark("Write URLs that begin with ftp://, sftp://, http:// or https://."),
    cases={
        "type": Declaration(
            message=mark("The file type '{value}' is no known media type. Write one such as image/jpeg."),
            cause=mark("The file type '{value}' is no known media type"),
            remedy=mark("Write a media type such as image/jpeg."),
        ),
    },
    known_as=(
        "mediaPamareter_FileNonSupported",
        "MediaSampleParameter_fileNoSupported",
        "seriesMediaParameter_fileNoSupported",
        "fileNoSupported",
    ),
)
def media_can_be_fetched(media: MediaParameter | MediaFile | SeriesMediaValue, at: Context) -> Iterator[Fault]:
    """The URI of media is an absolute ftp, sftp, http or https URL, and their file type a known media type.

    Where their parameter has a status, both may be blank: the format requires the attributes of media that are missing.
    """
    may_be_blank = not is_blank(media.status if isinstance(media, MediaParameter) else at.parameter_status)
    if not is_absolute_url(media.uri) and not (may_be_blank and is_blank(media.uri)):
        yield fault(media.line, media.uri)
    if media.file_type is None or (may_be_blank and is_blank(media.file_type)):
        return
    if media.file_type.strip().lower() not in _MEDIA_TYPES:
        yield fault(media.line, media.file_type, "type")


def is_absolute_url(uri: str) -> bool:
    """Whether a URI is an absolute URL with a host, a path or query, and a scheme by which files can be fetched."""
    if any(character.isspace() for character in uri.strip()):
        return False
    try:
        parts = urlsplit(uri.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(host) and (len(parts.path) > 1 or bool(parts.query))
