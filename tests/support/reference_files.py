"""Reference data as the files that a folder of `DCC_REFERENCE_...` or `--reference` holds."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dcc.reference.impress import Parameter, Procedure
from dcc.reference.loading import SETS, ReferenceData


def write_reference(folder: Path, data: ReferenceData) -> dict[str, str]:
    """Write all sets to a new folder; returns the settings that name it."""
    folder.mkdir()
    assert [snapshot.name for snapshot in data] == list(SETS)
    units = {p.unit for pipeline in data.impress.pipelines.values() for p in _parameters(pipeline.procedures.values())}
    answers: dict[str, Any] = {"pipeline/list": {}, "unit/list": {unit: unit for unit in units}}
    for number, (key, pipeline) in enumerate(data.impress.pipelines.items(), 1):
        answers["pipeline/list"][str(number)] = key
        procedures = [_procedure(one) for one in pipeline.procedures.values()]
        answers[f"pipeline/{number}"] = {"pipelineKey": key, "procedureCollection": procedures}
    (folder / "impress.json").write_text(json.dumps(answers))
    _table(folder, "status_codes", ["code", "description"], ([code, "text"] for code in data.status_codes.meanings))
    _table(folder, "projects", ["project"], ([name] for name in data.projects.names))
    _table(folder, "strains", ["strain_id", "name"], data.strains.names.items())
    colonies = [one for some in data.colonies.productions.values() for one in some]
    columns = ["colony_id", "production_centre", "status", "created", "gene_id", "allele_id"]
    _table(folder, "colonies", columns, ([getattr(one, name) or "" for name in columns] for one in colonies))
    return {f"reference_{name}": str(folder) for name in SETS}


def _table(folder: Path, name: str, columns: list[str], rows: Iterable[Iterable[Any]]) -> None:
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def _parameters(procedures: Iterable[Procedure]) -> list[Parameter]:
    return [parameter for procedure in procedures for parameter in procedure.parameters.values()]


def _procedure(procedure: Procedure) -> dict[str, Any]:
    parameters = [_parameter(one) for one in procedure.parameters.values()]
    return {"procedureKey": procedure.key, "isActive": procedure.is_active, "parameterCollection": parameters}


def _parameter(one: Parameter) -> dict[str, Any]:
    increments = [
        {"incrementString": each.text, "incrementType": each.kind, "incrementMin": each.minimum}
        | {"isActive": each.is_active}
        for each in one.increments
    ]
    terms = [
        {"ontologyTermId": {"ontologyTerm": term}, "isActive": term not in one.retired_terms}
        for term in one.ontology_terms
    ]
    return {
        "parameterKey": one.key,
        "type": one.type.value,
        "valueType": one.value_type,
        "unit": one.unit,
        "isRequired": one.is_required,
        "isActive": one.is_active,
        "isOption": bool(one.options),
        "optionCollection": [{"name": each.name, "isActive": each.is_active} for each in one.options],
        "isIncrement": bool(one.increments),
        "incrementCollection": increments,
        "ontologyGroupId": {"paramOntologyoptionCollection": terms} if terms else None,
        "qcCheck": one.qc_minimum is not None or one.qc_maximum is not None,
        "qcMin": one.qc_minimum,
        "qcMax": one.qc_maximum,
    }
