"""The file naming convention.

`<centre>.<yyyy-mm-dd>.<number>.impc.zip` for archives, or another suffix of ARCHIVE_SUFFIXES; with `.specimen` or
`.experiment` before `.impc.xml` for documents. A name conforms completely or not at all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Final

from dcc.errors import BadFileNameError, ConfigurationError
from dcc.messages import Message, mark, message

ARCHIVE_SUFFIXES: Final = (".zip", ".tar", ".tar.gz", ".tgz")
"""The suffixes of archives that are opened."""


def is_archive(name: str) -> bool:
    """Whether a file of that name is taken for an archive, if only to refuse its name."""
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def is_document(name: str) -> bool:
    """Whether a file of that name is taken for a document, if only to refuse its name."""
    return name.lower().endswith(".xml")


MANIFEST_FORMATS: Final = ("json", "csv")
"""The formats of manifests, in the order in which they count."""
MANIFEST_ENDINGS: Final = tuple(f".manifest.{suffix}" for suffix in MANIFEST_FORMATS)
"""What the names of manifests beside an archive have after its name, in that order."""


def manifest_beside(archive: str, suffix: str) -> str:
    """The name of the manifest beside an archive, in one of MANIFEST_FORMATS."""
    return f"{archive}.manifest.{suffix}"


class Action(StrEnum):
    """What a centre wants done with an archive: the directory that it is in."""

    ADD = "add"
    EDIT = "edit"
    DELETE = "delete"


ACTION_ORDER: Final = {action: place for place, action in enumerate(Action)}
"""The order in which archives of one date and increment are applied."""


class DocumentKind(StrEnum):
    """What an XML document describes."""

    SPECIMEN = "specimen"
    EXPERIMENT = "experiment"


@dataclass(frozen=True, slots=True)
class ArchiveName:
    """The parts of a conforming archive name."""

    file_name: str
    centre: str
    created: date
    inc: int


@dataclass(frozen=True, slots=True)
class DocumentName:
    """The parts of a conforming document name."""

    file_name: str
    centre: str
    created: date
    inc: int
    kind: DocumentKind

    @property
    def processing_order(self) -> tuple[bool, date, int, str]:
        """Sort key: specimens first, then by date, increment and centre."""
        return (self.kind is not DocumentKind.SPECIMEN, self.created, self.inc, self.centre)


_STEM = r"(?P<centre>[A-Za-z_]+)\.(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})\.(?P<inc>[0-9]{1,5})"
DEFAULT_ZIP_PATTERN = _STEM + rf"\.impc\.(?:{'|'.join(re.escape(suffix[1:]) for suffix in ARCHIVE_SUFFIXES)})"
DEFAULT_DOCUMENT_PATTERN = _STEM + r"\.(?P<kind>specimen|experiment)\.impc\.xml"
_LONGEST_INCREMENT = 18
_LONGEST_NAME = 255


def _compile(pattern: str, groups: set[str], subject: str) -> re.Pattern[str]:
    setting = f"DCC_{subject.upper()}_PATTERN"
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(
            f"The {subject} name pattern {pattern!r} is no regular expression ({error}). Correct {setting}."
        ) from error
    missing = groups - set(compiled.groupindex)
    if missing:
        lacks = f"lacks the named groups {', '.join(sorted(missing))}"
        raise ConfigurationError(f"The {subject} name pattern {pattern!r} {lacks}. Correct {setting}.")
    return compiled


class AnyCentre:
    """Contains every code, for names that were checked against the registered centres before."""

    def __contains__(self, _code: object) -> bool:
        return True


ANY_CENTRE: Final = AnyCentre()


@dataclass(frozen=True, slots=True)
class KnownCentre:
    """A centre of the consortium: its ILAR code, its name in iMits (where it has another) and its full name."""

    short_name: str
    imits_name: str | None
    full_name: str


KNOWN_CENTRES: Final = (
    KnownCentre("Bcm", None, "Baylor College of Medicine"),
    KnownCentre("Biat", None, "Vetmeduni Vienna"),
    KnownCentre("CDTA", None, "CDTA Orleans"),
    KnownCentre("Ccpcz", None, "Institute of Molecular Genetics, Czech Republic"),
    KnownCentre("Crl", None, "Charles River"),
    KnownCentre("Gmc", None, "Helmholtz Zentrum Muenchen"),
    KnownCentre("H", "HARWELL", "MRC Harwell"),
    KnownCentre("Ics", "ICS", "Institut Clinique de la Souris"),
    KnownCentre("J", "JAX", "The Jackson Laboratory"),
    KnownCentre("Kmpc", None, "Korea Mouse Phenotyping Center"),
    KnownCentre("Krb", None, "Korea Research Institute of Bioscience and Biotechnology"),
    KnownCentre("Ning", None, "Nanjing University"),
    KnownCentre("Ph", None, "Czech Academy of Sciences"),
    KnownCentre("Rbrc", None, "RIKEN BioResource Center"),
    KnownCentre("Tcp", None, "Toronto Centre for Phenogenomics"),
    KnownCentre("Ucd", None, "University of California, Davis"),
    KnownCentre("Wtsi", "WTSI", "Wellcome Trust Sanger Institute"),
)
"""The centres of the consortium; an installation registers those it serves."""


@dataclass(frozen=True)
class NamingConvention:
    """The names of archives and documents, as regular expressions with named groups.

    Both patterns need the groups `centre`, `date` and `inc`; the document pattern also `kind`. They are matched against
    the complete name. Raises ConfigurationError for an unusable pattern.
    """

    zip_pattern: str = DEFAULT_ZIP_PATTERN
    document_pattern: str = DEFAULT_DOCUMENT_PATTERN
    _zip: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _document: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        needed = {"centre", "date", "inc"}
        object.__setattr__(self, "_zip", _compile(self.zip_pattern, needed, "zip"))
        object.__setattr__(self, "_document", _compile(self.document_pattern, needed | {"kind"}, "document"))

    def parse_archive_name(self, name: str, centres: Container[str]) -> ArchiveName:
        """Parse an archive name.

        `centres` has the short names of all registered centres. Raises BadFileNameError with the reason.
        """
        match = _matched(self._zip, DEFAULT_ZIP_PATTERN, name, "impc.zip", _RENAME_ZIP)
        return ArchiveName(name, *_stem(name, match, centres))

    def centre_of_archive(self, name: str) -> str | None:
        """The centre in an archive's name, registered or not; None without one."""
        try:
            return self.parse_archive_name(name, ANY_CENTRE).centre
        except BadFileNameError:
            return None

    def parse_document_name(self, name: str, centres: Container[str]) -> DocumentName:
        """Parse a document name. As `parse_archive_name`."""
        ending = "(specimen|experiment).impc.xml"
        match = _matched(self._document, DEFAULT_DOCUMENT_PATTERN, name, ending, _RENAME_DOCUMENT)
        return DocumentName(name, *_stem(name, match, centres), _kind(name, match["kind"]))


_RENAME_ZIP: Final = mark("'{name}' does not follow {shape}. Rename the file and upload it again.")
_RENAME_DOCUMENT: Final = mark("'{name}' does not follow {shape}. Rename the document and submit it in a new archive.")


def _matched(pattern: re.Pattern[str], default: str, name: str, ending: str, advice: str) -> re.Match[str]:
    if len(name) > _LONGEST_NAME:
        raise BadFileNameError(
            mark(
                "'{name}'... is a name of {number} characters; {most} are the most that a file can have. Rename it and "
                "submit it again."
            ),
            name=name[:40],
            number=len(name),
            most=_LONGEST_NAME,
        )
    match = pattern.fullmatch(name)
    if match is None:
        shape = Message(f"<centre>.<yyyy-mm-dd>.<number>.{ending}")
        if pattern.pattern != default:
            shape = message(mark("the pattern {pattern}"), pattern=pattern.pattern)
        raise BadFileNameError(advice, name=name, shape=shape)
    return match


def _stem(name: str, match: re.Match[str], centres: Container[str]) -> tuple[str, date, int]:
    centre, day, inc = match["centre"] or "", match["date"] or "", match["inc"] or ""
    try:
        created = date.fromisoformat(day)
    except ValueError as error:
        raise BadFileNameError(
            mark(
                "'{name}' names the date {day}, which is not in the calendar. Use the day on which the data were "
                "exported."
            ),
            name=name,
            day=day,
            case="date",
        ) from error
    if not inc.isdecimal() or len(inc) > _LONGEST_INCREMENT:
        raise BadFileNameError(
            mark(
                "'{name}' names the number '{inc}', which is not a whole number of up to {most} digits. Number the "
                "files of a day from 0 or 1."
            ),
            name=name,
            inc=inc,
            most=_LONGEST_INCREMENT,
        )
    if centre not in centres:
        raise BadFileNameError(
            mark(
                "'{name}' names the centre '{centre}', which is not registered (codes are case-sensitive). Use the "
                "producing centre's ILAR code. If it is right, the DCC registers the centre (dcc centre add)."
            ),
            name=name,
            centre=centre,
            case="centre",
        )
    # A centre may have many names.
    return sys.intern(centre), created, int(inc)


def _kind(name: str, kind: str | None) -> DocumentKind:
    try:
        return DocumentKind(kind or "")
    except ValueError as error:
        raise BadFileNameError(
            mark(
                "'{name}' names the kind '{kind}', which is neither specimen nor experiment. Name the document after "
                "what it holds."
            ),
            name=name,
            kind=kind or "",
        ) from error
