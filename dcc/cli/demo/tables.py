"""Documents as CSV tables, from which the platform makes the same documents."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from dcc.converters.base import form_of
from dcc.documents.contents import Block, Content, Experiment, Specimen
from dcc.naming import DocumentKind


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
            rows.append(around | _animal(content))
        elif isinstance(content, Experiment) and len(content.specimen_ids) == 1:
            rows.append(around | _experiment(content))
        else:
            raise ValueError(f"A table has no {type(content).__name__} such as that of line {content.line}.")
    rows = [{name: cell for name, cell in row.items() if cell} for row in rows]
    text = io.StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _animal(animal: Specimen) -> dict[str, str | None]:
    kind, form = DocumentKind.SPECIMEN, form_of(DocumentKind.SPECIMEN, animal.kind)
    row = {"kind": animal.kind.value} | _attributes(kind, animal.kind, animal)
    for child in form.parts:
        for number, one in enumerate(getattr(animal, child.field) if child.many else (), 1):
            before = child.name if number == 1 else f"{child.name}.{number}"
            values = _attributes(kind, f"{animal.kind}/{child.name}", one)
            row |= {f"{before}.{name}": value for name, value in values.items()}
    return row | _status(animal.status_code)


def _experiment(experiment: Experiment) -> dict[str, str | None]:
    kind = DocumentKind.EXPERIMENT
    row = {"specimenID": experiment.specimen_ids[0]} | _attributes(kind, "experiment", experiment)
    if (procedure := experiment.procedure) is not None:
        row["procedureID"] = procedure.procedure_id
        for before, parameters in (("", procedure.simple), ("metadata.", procedure.metadata)):
            for one in parameters:
                name = f"{before}{one.parameter_id}{'' if one.sequence_id is None else f'.{one.sequence_id}'}"
                row |= {name: one.value, f"{name}.status": one.status, f"{name}.unit": getattr(one, "unit", None)}
    return row | _status(next(iter(experiment.status_codes), None))


def _attributes(kind: DocumentKind, path: str, value: Any) -> dict[str, str | None]:
    return {one.name: getattr(value, one.field) for one in form_of(kind, path).attributes if one.name}


def _status(status: Any) -> dict[str, str | None]:
    return {} if status is None else {"statusCode": status.code, "statusCode.date": status.date}
