"""Converts the files of an archive in other formats into documents, within limits.

A converter that fails, or makes an impossible document, fails that file, and nothing else.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from dcc.archives.entries import write_pieces
from dcc.archives.extraction import ExtractedArchive, ExtractedDocument
from dcc.converters.base import ConversionFault, Converter, SubmittedFile
from dcc.converters.csv_tables import CsvTables
from dcc.converters.json_tables import JsonTables
from dcc.declarations import code_of, standing_at
from dcc.documents.contents import Content
from dcc.documents.origins import Origin
from dcc.documents.writing_xml import pieces_on_their_lines
from dcc.errors import BadFileNameError, ConfigurationError, ConversionError
from dcc.messages import Message, mark, message, size_detail
from dcc.naming import ANY_CENTRE, ArchiveName, DocumentKind, NamingConvention, is_archive, is_document
from dcc.outcomes import Problem
from dcc.runtime.installed_packages import CONVERTERS, error_of, load_added, package_of

log = logging.getLogger(__name__)

MAX_SECONDS: Final = 600.0
"""The most seconds for the conversion of a file."""

FULL_LISTS: Final = 100
"""How many documents of an archive can have the most problems; others have only their first. Memory holds all."""

_HELD: Final = 64 * 1024


@functools.cache
def all_converters() -> tuple[Converter, ...]:
    """Converters of installed packages, then the platform's own. Raises ConfigurationError."""
    return (*map(made_converter, load_added(CONVERTERS)), CsvTables(), JsonTables())


def made_converter(make: Callable[[], Converter]) -> Converter:
    """The converter that a package's function makes. Raises ConfigurationError."""
    try:
        return make()
    except Exception as error:
        raise ConfigurationError(
            f"{make!r}, which the package {package_of(make)} adds as {CONVERTERS}, makes no converter: "
            f"{error_of(error)} Correct or remove that package."
        ) from error


def converter_for(name: str) -> Converter | None:
    """The converter for a file of that name; None without one, and for documents and archives."""
    if is_document(name) or is_archive(name):
        return None
    return next((converter for converter in all_converters() if kinds_of(converter, name)), None)


def kinds_of(converter: Converter, name: str) -> tuple[DocumentKind, ...]:
    """The kinds of documents that a file of that name becomes; none if the converter fails."""
    try:
        return tuple(map(DocumentKind, converter.kinds(name)))
    except Exception:
        log.exception("The converter %s failed on the name %s", converter.name, name)
        return ()


def convert_files(
    found: ExtractedArchive,
    target: Path,
    archive: ArchiveName,
    naming: NamingConvention,
    *,
    max_bytes: int,
    max_problems: int,
    check_room: Callable[[int], object],
) -> tuple[ExtractedArchive, dict[str, tuple[Problem, ...]]]:
    """Make documents in `target` of the files of an archive with that name.

    Returns the archive with them, and the problems of those that are incomplete, by their names. They are named after
    the archive, with free numbers from its own on; files without a free name are refused. `max_bytes` limits all of
    them together, and `max_problems` each, as FULL_LISTS says; `check_room` is called with the bytes that are written
    next, and may raise. Raises OSError.
    """
    documents, refused = list(found.documents), list(found.refused)
    problems: dict[str, tuple[Problem, ...]] = {}
    taken = {document.name.file_name for document in documents}
    numbers = dict.fromkeys(DocumentKind, archive.inc)
    left, problems_left = max_bytes, FULL_LISTS * max_problems
    for file in found.files:
        name = file.place.rpartition("/")[2]
        if (converter := converter_for(name)) is None:
            continue
        for kind in kinds_of(converter, name):
            while (named := f"{archive.centre}.{archive.created}.{numbers[kind]}.{kind}.impc.xml") in taken:
                numbers[kind] += 1
            taken.add(named)
            try:
                parsed = naming.parse_document_name(named, ANY_CENTRE)
            except BadFileNameError as error:
                refused.append((file.place, file.path.stat().st_size, Problem.of(error)))
                continue
            submitted = SubmittedFile(file.place, file.path, archive.centre)
            made = _FileConversion(converter, submitted, kind, left, max(min(max_problems, problems_left), 1))
            md5 = write_pieces(_with_room(made.pieces(), check_room), target / named)
            size = (target / named).stat().st_size
            left, problems_left = left - size, problems_left - len(made.problems)
            documents.append(ExtractedDocument(parsed, target / named, size, md5, file.place, file.archives))
            if made.problems:
                problems[named] = tuple(made.problems)
    documents.sort(key=lambda document: document.name.processing_order)
    return replace(found, documents=tuple(documents), refused=tuple(refused)), problems


def _with_room(pieces: Iterator[bytes], check_room: Callable[[int], object]) -> Iterator[bytes]:
    for piece in pieces:
        check_room(len(piece))
        yield piece


def convert_file(
    converter: Converter, file: SubmittedFile, kind: DocumentKind, target: Path, max_bytes: int, max_problems: int
) -> list[Problem]:
    """Write the document of a kind for a file to the new `target`; returns problems of the file.

    Raises OSError if it cannot be written.
    """
    conversion = _FileConversion(converter, file, kind, max_bytes, max_problems)
    write_pieces(conversion.pieces(), target)
    return conversion.problems


@dataclass
class _FileConversion:
    converter: Converter
    file: SubmittedFile
    kind: DocumentKind
    max_bytes: int
    max_problems: int
    problems: list[Problem] = field(default_factory=list)

    @property
    def origin(self) -> Origin:
        return Origin(self.file.place, self.converter.columns)

    def pieces(self) -> Iterator[bytes]:
        """The document, up to the first problem."""
        held = bytearray()
        size = 0
        try:
            for feeds, text in pieces_on_their_lines(self.origin.beginning, self.kind, self._contents()):
                size += feeds + len(text)
                if size > self.max_bytes:
                    sentence = mark("The document would be larger than {most}. Split the file.")
                    self._note(ConversionFault(1, message(sentence, most=size_detail(self.max_bytes))))
                    return
                held += b"\n" * feeds + text.encode()
                if len(held) > _HELD:
                    yield bytes(held)
                    held.clear()
        except MemoryError:
            raise
        except Exception as error:
            sentence = mark("The converter {converter} failed ({error}). Have it corrected, and the archive retried.")
            reason = Message(f"{type(error).__name__}: {error}"[:300])
            self._note(
                ConversionFault(1, message(sentence, converter=self.converter.name, error=reason), case="converter")
            )
            return
        yield bytes(held)

    def _contents(self) -> Iterator[Content]:
        """The converter's content, without its faults."""
        until = time.monotonic() + MAX_SECONDS
        for content in self.converter.convert(self.file, self.kind):
            if time.monotonic() > until:
                raise TimeoutError(f"it took more than {MAX_SECONDS:g} seconds")
            if not isinstance(content, ConversionFault):
                yield content
                continue
            self._note(content)
            if len(self.problems) >= self.max_problems:
                return

    def _note(self, fault: ConversionFault) -> None:
        text = standing_at(fault.said, self.origin.place(fault.row, fault.column))
        code = code_of(ConversionError.error_id(), fault.case)
        self.problems.append(Problem(ConversionError.short_name(), text, fault.row, code=code))
