"""Archives held against the manifests in them and beside them, and what such manifests say."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from dcc.archives.extraction import ExtractedArchive, ExtractedDocument
from dcc.archives.manifest import Counts, ManifestEntry, conflicts, differences, of_content, read_beside
from dcc.converters.base import SubmittedFile
from dcc.converters.conversion import convert_file, converter_for, kinds_of
from dcc.documents.contents import Experiment, Specimen
from dcc.documents.reading import read_document
from dcc.documents.schema_set import SchemaSet
from dcc.errors import ConfigurationError, ConversionError, ManifestError
from dcc.messages import Message, mark, message
from dcc.naming import DocumentKind
from dcc.outcomes import Problem

_MAX_TOLD: Final = 5
_DIFFERS: Final = mark(
    "{archive} does not hold what its manifest says: {differences}. Correct the archive or its manifest, and replace "
    "it, under the same name."
)
_DIFFERS_MUCH: Final = mark(
    "{archive} does not hold what its manifest says: {differences} ({number} differences in all). Correct the archive "
    "or its manifest, and replace it, under the same name."
)


def unlike_manifest(
    archive: Path, md5: str, extracted: ExtractedArchive, problems: Sequence[Sequence[Problem]]
) -> ManifestError | None:
    """What to tell of an archive of that MD5 that is not as its manifests say; None where it is, or has none.

    `problems` are those of its documents, in their order. Raises OSError.
    """
    try:
        manifest = read_beside(archive)
    except ManifestError as error:
        return error
    inside, held = extracted.manifest, manifest if manifest is not None else extracted.manifest
    if held is None:
        return None
    of_archive = [one for one in held if one.file == archive.name]
    of_files = [one for one in held if one.file != archive.name]
    if (
        manifest is not None
        and inside is not None
        and (different := next(conflicts(inside, of_files), None)) is not None
    ):
        text = mark(
            "{archive} has a manifest in it that says something else of {file} than the one beside it. Have both say "
            "the same, or leave the inner one out."
        )
        return ManifestError(text, archive=archive.name, file=different)
    differing = [*_of_archive(of_archive, archive, md5), *_of_files(of_files, extracted, problems)]
    if not differing:
        return None
    return ManifestError(
        _DIFFERS if len(differing) <= _MAX_TOLD else _DIFFERS_MUCH,
        archive=archive.name,
        differences=differing[:_MAX_TOLD],
        number=len(differing),
    )


def _of_archive(expected: Sequence[ManifestEntry], archive: Path, md5: str) -> Iterator[Message]:
    """What an archive as a whole has otherwise than the manifest beside it says."""
    size = archive.stat().st_size
    for one in expected:
        if one.size not in (None, size):
            text = mark("{file} has {found} bytes, not {expected}")
            yield message(text, file=one.file, found=size, expected=one.size)
        elif one.checksum != md5:
            yield from of_content(one._replace(specimens=None, experiments=None), archive, lambda _: None)


def _of_files(
    expected: Sequence[ManifestEntry], extracted: ExtractedArchive, problems: Sequence[Sequence[Problem]]
) -> Iterator[Message]:
    documents: dict[str, list[tuple[ExtractedDocument, Sequence[Problem]]]] = defaultdict(list)
    for document, of_document in zip(extracted.documents, problems, strict=True):
        documents[document.place].append((document, of_document))

    def count(place: str) -> Counts | None:
        if any(of_document for _, of_document in documents[place]):
            return None
        return _sum(count_entities(document.path, document.name.kind) for document, _ in documents[place])

    files = {document.place: document.path for document in extracted.documents}
    files |= {file.place: file.path for file in extracted.files}
    return differences(expected, extracted.sizes, files, count, [path for path, _, _ in extracted.refused])


def count_entities(document: Path, kind: DocumentKind) -> Counts:
    """How many specimens and experiments a valid document holds. Raises OSError and DocumentError."""
    counts = Counter(type(content) for content in read_document(document, kind))
    return Counts(counts[Specimen], counts[Experiment])


def count_file(name: str, path: Path, schemas: SchemaSet) -> Counts:
    """How many specimens and experiments a document holds, or a file of that name that becomes some.

    Raises ConfigurationError for what is none, and DocumentError.
    """
    converter = None if name.endswith(".xml") else converter_for(name)
    if converter is None:
        kind = schemas.kind_of_file(path)
        if kind is None:
            raise ConfigurationError(f"{name} is no document of the format. `dcc validate` says why.")
        return count_entities(path, kind)
    counted = []
    with tempfile.TemporaryDirectory(prefix="dcc-manifest-") as folder:
        for kind in kinds_of(converter, name):
            target, file = Path(folder) / kind, SubmittedFile(name, path, "any")
            problems = convert_file(converter, file, kind, target, _MAX_BYTES, 1)[2]
            if problems:
                raise ConversionError(problems[0].message)
            counted.append(count_entities(target, kind))
    return _sum(counted)


_MAX_BYTES = 2**40


def _sum(counts: Iterable[Counts]) -> Counts:
    return Counts(*(sum(some) for some in zip(Counts(0, 0), *counts, strict=True)))
