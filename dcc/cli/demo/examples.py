"""`dcc example`: a correct submission, faulty ones, and a correction; in XML, or in CSV tables that say the same."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

import click

from dcc.cli.demo.submissions import PROJECTS, archive, damaged, experiment_document, specimen_document
from dcc.cli.shell.context import json_option
from dcc.cli.shell.group import command
from dcc.cli.shell.output import echo_result, printable
from dcc.converters.base import form_of
from dcc.documents.contents import Block, Content, Experiment, Specimen
from dcc.errors import ConfigurationError
from dcc.naming import DocumentKind
from dcc.runtime.private_files import replacement_file, writing_errors

_ANIMALS = 24
_MORE = 6
_LITTER = 36  # The first animal of a litter of which all are submitted together.

_KINDS: Final = {
    "valid": ("add", date(2013, 10, 31), 1),
    "schema-errors": ("add", date(2013, 11, 4), 2),
    "data-errors": ("add", date(2013, 11, 5), 3),
    "corrected": ("edit", date(2013, 11, 6), 4),
}
"""The action, day and number of an archive of each kind."""
_WRONG_ATTRIBUTES: Final = ((' zygosity="', ' zigosity="'), ('isBaseline="false"', 'isBaseline="no"'))
_WRONG_CELLS: Final = ((",female,", ",F,"), (",false,", ",no,"))


def example_submission(kind: str, centre: str, *, tables: bool = False) -> tuple[str, bytes]:
    """An archive with its path on a source; the same arguments give the same bytes.

    `kind` is valid, schema-errors, data-errors or corrected; `centre` one of the demonstration's. It holds XML
    documents, or CSV `tables` that say the same.
    """
    from dcc.documents.reading import read_document

    action, day, number = _KINDS[kind]
    documents = _documents(kind, centre, day)
    if tables:
        members = {}
        for one, document in documents.items():
            with tempfile.NamedTemporaryFile() as file:
                Path(file.name).write_bytes(document)
                members[f"{one}s.csv"] = table_of(read_document(Path(file.name), one))
    else:
        numbered = enumerate(documents.items(), 1)
        members = {f"{centre}.{day}.{inc}.{one}.impc.xml": document for inc, (one, document) in numbered}
    if kind == "schema-errors":
        wrong = _WRONG_CELLS if tables else _WRONG_ATTRIBUTES
        for was, becomes in wrong:
            members = {name: damaged(document, was, becomes) for name, document in members.items()}
    return f"{action}/{centre}.{day}.{number}.impc.zip", archive(members, day)


def _documents(kind: str, centre: str, day: date) -> Mapping[DocumentKind, bytes]:
    """What is in an archive of a kind; a correction has the documents of the day of the faulty ones."""
    number, first, made = _MORE, _LITTER, _KINDS["data-errors"][1]
    if kind in ("valid", "schema-errors"):
        number, first, made = (_ANIMALS, 1, day) if kind == "valid" else (_MORE, _ANIMALS + 1, day)
    procedure = "IMPC_CBC_001" if kind == "valid" else "IMPC_BWT_001"
    animals = specimen_document(centre, mice=number, first=first, created=made)
    measured = experiment_document(centre, procedure=procedure, animals=number, first=first, created=made)
    if kind == "schema-errors":
        return {DocumentKind.SPECIMEN: animals}
    if kind == "data-errors":
        animals = animals.replace(f'colonyID="{centre}-Fto-A"'.encode(), b'colonyID="Fto-A"')
        measured = damaged(measured, "<value>2", "<value>approx. 2")
    return {DocumentKind.SPECIMEN: animals, DocumentKind.EXPERIMENT: measured}


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


@command(
    examples=["dcc example centre", "dcc example centre --kind data-errors", "dcc example centre --format csv"],
    exits={2: "it cannot be written, or exists already"},
    offline=True,
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--kind", type=click.Choice(_KINDS), default="valid", show_default=True, help="What is to become of the submission."
)
@click.option("--centre", type=click.Choice(PROJECTS), default="H", show_default=True, help="Whose submission it is.")
@click.option(
    "--format",
    "suffix",
    type=click.Choice(("xml", "csv")),
    default="xml",
    show_default=True,
    help="XML documents, or CSV tables that say the same.",
)
@json_option
def example(directory: Path, kind: str, centre: str, suffix: str) -> None:
    """Write an example submission into DIRECTORY.

    A zip archive of XML documents or CSV tables as centres publish them, in the directory add or edit of DIRECTORY, the
    base path of a source. The animals and measurements are made up; the colonies are in the shipped reference data.

    \b
    Kinds:
      valid          24 animals with their blood chemistry; all is in order
      schema-errors  a document with lines that break the XML schema
      data-errors    animals of a colony that is not registered, and a weight that is no number
      corrected      what data-errors holds, corrected: an archive of edit

    JSON: {"path", "kind", "centre"}
    """
    key, content = example_submission(kind, centre, tables=suffix == "csv")
    path = directory / key
    if os.path.lexists(path):
        raise ConfigurationError(f"{path} is there already. Name another directory, or another --kind.")
    with writing_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacement_file(path) as part:
            part.write_bytes(content)
    echo_result({"path": path, "kind": kind, "centre": centre}, f"Wrote {printable(path)}.")
