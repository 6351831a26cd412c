"""Example submissions: a correct one, faulty ones, and a correction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from dcc.cli.demo.submissions import archive, damaged, experiment_document, specimen_document

_ANIMALS = 24
_MORE = 6
_LITTER = 36  # The first animal of a litter of which all are submitted together.


def example_submission(kind: str, centre: str) -> tuple[str, bytes]:
    """An archive with its path on a source; the same arguments give the same bytes.

    `kind` is valid, schema-errors, data-errors or corrected; `centre` one of the demonstration's.
    """
    return _KINDS[kind](centre)


def _valid(centre: str) -> tuple[str, bytes]:
    day = date(2013, 10, 31)
    documents = {
        f"{centre}.{day}.1.specimen.impc.xml": specimen_document(centre, mice=_ANIMALS, created=day),
        f"{centre}.{day}.2.experiment.impc.xml": experiment_document(centre, animals=_ANIMALS, created=day),
    }
    return f"add/{centre}.{day}.1.impc.zip", archive(documents, day)


def _schema_errors(centre: str) -> tuple[str, bytes]:
    day = date(2013, 11, 4)
    animals = specimen_document(centre, mice=_MORE, first=_ANIMALS + 1, created=day)
    animals = damaged(damaged(animals, ' zygosity="', ' zigosity="'), 'isBaseline="false"', 'isBaseline="no"')
    return f"add/{centre}.{day}.2.impc.zip", archive({f"{centre}.{day}.1.specimen.impc.xml": animals}, day)


def _data_errors(centre: str) -> tuple[str, bytes]:
    day = date(2013, 11, 5)
    animals, weights = _weighed(centre, day)
    documents = {
        f"{centre}.{day}.1.specimen.impc.xml": animals.replace(
            f'colonyID="{centre}-Fto-A"'.encode(), b'colonyID="Fto-A"'
        ),
        f"{centre}.{day}.2.experiment.impc.xml": damaged(weights, "<value>2", "<value>approx. 2"),
    }
    return f"add/{centre}.{day}.3.impc.zip", archive(documents, day)


def _corrected(centre: str) -> tuple[str, bytes]:
    day = date(2013, 11, 6)
    animals, weights = _weighed(centre, date(2013, 11, 5))
    documents = {
        f"{centre}.{day}.1.specimen.impc.xml": animals,
        f"{centre}.{day}.2.experiment.impc.xml": weights,
    }
    return f"edit/{centre}.{day}.4.impc.zip", archive(documents, day)


def _weighed(centre: str, day: date) -> tuple[bytes, bytes]:
    """Further animals, and their weights."""
    return (
        specimen_document(centre, mice=_MORE, first=_LITTER, created=day),
        experiment_document(centre, procedure="IMPC_BWT_001", animals=_MORE, first=_LITTER, created=day),
    )


_KINDS: Final[Mapping[str, Callable[[str], tuple[str, bytes]]]] = {
    "valid": _valid,
    "schema-errors": _schema_errors,
    "data-errors": _data_errors,
    "corrected": _corrected,
}
