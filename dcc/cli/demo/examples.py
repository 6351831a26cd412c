"""Example submissions: a correct one, faulty ones, and a correction."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Final

from dcc.cli.demo.submissions import archive, damaged, experiment_document, specimen_document
from dcc.cli.demo.tables import table_of
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind

_ANIMALS = 24
_MORE = 6
_LITTER = 36  # The first animal of a litter of which all are submitted together.

Documents = Mapping[DocumentKind, bytes]
"""What is in an archive."""


def example_submission(kind: str, centre: str, *, tables: bool = False) -> tuple[str, bytes]:
    """An archive with its path on a source; the same arguments give the same bytes.

    `kind` is valid, schema-errors, data-errors or corrected; `centre` one of the demonstration's. It holds XML
    documents, or CSV `tables` that say the same.
    """
    action, day, number, make = _KINDS[kind]
    documents = make(centre, day)
    if tables:
        members = {f"{one}s.csv": _as_table(one, document) for one, document in documents.items()}
    else:
        numbered = enumerate(documents.items(), 1)
        members = {f"{centre}.{day}.{inc}.{one}.impc.xml": document for inc, (one, document) in numbered}
    if kind == "schema-errors":
        wrong = _WRONG_CELLS if tables else _WRONG_ATTRIBUTES
        for was, becomes in wrong:
            members = {name: damaged(document, was, becomes) for name, document in members.items()}
    return f"{action}/{centre}.{day}.{number}.impc.zip", archive(members, day)


def _as_table(kind: DocumentKind, document: bytes) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        file.write(document)
        file.flush()
        return table_of(read_document(Path(file.name), kind))


_WRONG_ATTRIBUTES: Final = ((' zygosity="', ' zigosity="'), ('isBaseline="false"', 'isBaseline="no"'))
_WRONG_CELLS: Final = ((",female,", ",F,"), (",false,", ",no,"))


def _valid(centre: str, day: date) -> Documents:
    return {
        DocumentKind.SPECIMEN: specimen_document(centre, mice=_ANIMALS, created=day),
        DocumentKind.EXPERIMENT: experiment_document(centre, animals=_ANIMALS, created=day),
    }


def _schema_errors(centre: str, day: date) -> Documents:
    return {DocumentKind.SPECIMEN: specimen_document(centre, mice=_MORE, first=_ANIMALS + 1, created=day)}


def _data_errors(centre: str, day: date) -> Documents:
    animals, weights = _weighed(centre, day)
    return {
        DocumentKind.SPECIMEN: animals.replace(f'colonyID="{centre}-Fto-A"'.encode(), b'colonyID="Fto-A"'),
        DocumentKind.EXPERIMENT: damaged(weights, "<value>2", "<value>approx. 2"),
    }


def _corrected(centre: str, _day: date) -> Documents:
    animals, weights = _weighed(centre, date(2013, 11, 5))
    return {DocumentKind.SPECIMEN: animals, DocumentKind.EXPERIMENT: weights}


def _weighed(centre: str, day: date) -> tuple[bytes, bytes]:
    """Further animals, and their weights."""
    return (
        specimen_document(centre, mice=_MORE, first=_LITTER, created=day),
        experiment_document(centre, procedure="IMPC_BWT_001", animals=_MORE, first=_LITTER, created=day),
    )


_KINDS: Final[Mapping[str, tuple[str, date, int, Callable[[str, date], Documents]]]] = {
    "valid": ("add", date(2013, 10, 31), 1, _valid),
    "schema-errors": ("add", date(2013, 11, 4), 2, _schema_errors),
    "data-errors": ("add", date(2013, 11, 5), 3, _data_errors),
    "corrected": ("edit", date(2013, 11, 6), 4, _corrected),
}
