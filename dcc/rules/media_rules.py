"""P19 and P20: what media must satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from dcc.documents.contents import (
    MediaFile,
    MediaParameter,
    ParameterAssociation,
    SeriesMediaValue,
)
from dcc.rules.context import Context
from dcc.rules.elements import key_of, sequence_of
from dcc.rules.findings import Fault, Severity
from dcc.rules.registry import rule

_SCHEMES = ("ftp", "sftp", "http", "https")


@rule("P19", ParameterAssociation, severity=Severity.ERROR, known_as="parameterAssociationUndefined")
def association_refers_to_a_result(association: ParameterAssociation, at: Context) -> Iterator[Fault]:
    """A parameterAssociation refers to a simple or ontology parameter, and its sequenceID, of the same procedure."""
    key = key_of(association.parameter_id)
    if (key, sequence_of(association.sequence_id)) in at.results:
        return
    which = key if association.sequence_id is None else f"{key} with sequenceID {association.sequence_id}"
    yield Fault(
        f"The media are associated with {which}, which is no simple or ontology parameter of this procedure here. "
        "Submit that parameter too, or correct the association.",
        association.line,
        association.parameter_id,
    )


@rule(
    "P20",
    MediaParameter,
    MediaFile,
    SeriesMediaValue,
    severity=Severity.ERROR,
    known_as=("mediaNotAvailable", "fileNoSupported"),
)
def media_can_be_fetched(media: MediaParameter | MediaFile | SeriesMediaValue, at: Context) -> Iterator[Fault]:
    """The URI of media is an absolute ftp, sftp, http or https URL, and their file type a known media type."""
    if not is_absolute_url(media.uri):
        yield Fault(
            f"The URI {media.uri!r} is no absolute URL. Write one that begins with "
            f"{', '.join(scheme + '://' for scheme in _SCHEMES)}.",
            media.line,
            media.uri,
        )
    if media.file_type is not None and media.file_type.strip().lower() not in at.document.media_types:
        yield Fault(
            f"The file type {media.file_type!r} is no known media type. Write one such as image/jpeg.",
            media.line,
            media.file_type,
        )


def is_absolute_url(uri: str) -> bool:
    """Whether a URI is an absolute URL of a scheme that files can be fetched by, with a host and a path."""
    if any(character.isspace() for character in uri.strip()):
        return False
    try:
        parts = urlsplit(uri.strip())
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(host) and len(parts.path) > 1
