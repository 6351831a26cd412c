"""Example submissions: a correct one, faulty ones, and a correction; in XML, or in CSV tables that say the same."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

from dcc.cli.demo.submissions import archive, damaged, experiment_document, specimen_document
from dcc.converters.base import form_of
from dcc.documents.contents import Block, Content, Experiment, Specimen
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


def table_of(contents: Iterable[Content], separator: str = ",") -> bytes:
    """The table that says what a document says, its columns in the order in which they are met.

    Of experiments it has the simple parameters and the metadata. Raises ValueError for lines and housings, and for
    experiments on several specimens.
    """
    rows: list[dict[str, str | None]] = []
    around: dict[str, str | None] = {}
    for content in contents:
        if isinstance(content, Block):
            around = {"centreID": content.centre}
            if content.pipeline is not None:
                around |= {"pipeline": content.pipeline, "project": content.project}
        elif isinstance(content, Specimen):
            rows.append(around | _animal_row(content))
        elif isinstance(content, Experiment) and len(content.specimen_ids) == 1:
            rows.append(around | _experiment_row(content))
        else:
            raise ValueError(f"A table has no {type(content).__name__} such as that of line {content.line}.")
    rows = [{name: cell for name, cell in row.items() if cell} for row in rows]
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _animal_row(animal: Specimen) -> dict[str, str | None]:
    kind, form = DocumentKind.SPECIMEN, form_of(DocumentKind.SPECIMEN, animal.kind)
    row = {"kind": animal.kind.value} | _attributes(kind, animal.kind, animal)
    for child in form.parts:
        for number, one in enumerate(getattr(animal, child.field) if child.many else (), 1):
            before = child.name if number == 1 else f"{child.name}.{number}"
            values = _attributes(kind, f"{animal.kind}/{child.name}", one)
            row |= {f"{before}.{name}": value for name, value in values.items()}
    return row | _status(animal.status_code)


def _experiment_row(experiment: Experiment) -> dict[str, str | None]:
    kind = DocumentKind.EXPERIMENT
    row = {"specimenID": experiment.specimen_ids[0]} | _attributes(kind, "experiment", experiment)
    if (procedure := experiment.procedure) is not None:
        row["procedureID"] = procedure.procedure_id
        for before, parameters in (("", procedure.simple), ("metadata.", procedure.metadata)):
            for parameter in parameters:
                sequence = "" if parameter.sequence_id is None else f".{parameter.sequence_id}"
                name = f"{before}{parameter.parameter_id}{sequence}"
                row |= {
                    name: parameter.value,
                    f"{name}.status": parameter.status,
                    f"{name}.unit": getattr(parameter, "unit", None),
                }
    return row | _status(next(iter(experiment.status_codes), None))


def _attributes(kind: DocumentKind, path: str, value: Any) -> dict[str, str | None]:
    return {
        attribute.name: getattr(value, attribute.field)
        for attribute in form_of(kind, path).attributes
        if attribute.name
    }


def _status(status: Any) -> dict[str, str | None]:
    return {} if status is None else {"statusCode": status.code, "statusCode.date": status.date}
