"""Reference data: what is read from files, what of them is refused, and what comes with the platform."""

import hashlib
import json
import os
from copy import deepcopy
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from dcc.errors import ReferenceDataError
from dcc.naming import KNOWN_CENTRES
from dcc.reference.impress import Increment, Option, Parameter, ParameterType, ProcedureDue
from dcc.reference.loading import SETS, load_reference_data, load_shipped
from dcc.reference.snapshots import Colony

ANSWERS: dict[str, Any] = {
    "pipeline/list": {"7": "IMPC Pipeline"},
    "pipeline/7": {"pipelineId": 7, "pipelineKey": "IMPC_001", "name": "IMPC Pipeline", "scheduleCollection": [5]},
    "schedule/5": {"time": "13", "timeUnit": "Weeks", "stage": "Early adult", "procedureCollection": [3]},
    "procedure/3": {
        "procedureKey": "IMPC_IPG_001",
        "isActive": True,
        "isMandatory": True,
        "level": "Experiment",
        "parameterCollection": [1, 2, 4],
    },
    "parameter/1": {
        "parameterKey": "IMPC_IPG_002_001",
        "type": "seriesParameter",
        "valueType": "FLOAT",
        "unit": 5,
        "isRequired": True,
        "isIncrement": True,
        "incrementCollection": [8, 9],
        "qcCheck": True,
        "qcMin": 0.5,
        "qcMax": 40,
    },
    "parameter/2": {
        "parameterKey": "IMPC_IPG_006_001",
        "type": "procedureMetadata",
        "valueType": "TEXT",
        "isOption": True,
        "optionCollection": [1, 2, 3],
        "name": "Anesthesia used",
        "isImportant": True,
        "isDeprecated": True,
        "isRequired": True,
        "qcMin": 1,
    },
    "parameter/4": {"parameterKey": "IMPC_IPG_010_001", "type": "ontologyParameter", "ontologyGroupId": 6},
    "unit/list": {"0": "", "5": "mmol/L "},
    "option/1": {"name": "Yes"},
    "option/2": {"name": "No", "isActive": False},
    "option/3": {"name": "Perhaps", "isDeleted": True},
    "increment/8": {"incrementString": "0", "incrementType": "float", "incrementUnit": "minutes", "isActive": True},
    "increment/9": {"incrementString": None, "incrementType": "repeat", "incrementMin": 2, "isActive": False},
    "ontologygroup/6": {"paramOntologyoptionCollection": [2, 3, 4]},
    "paramontologyoption/2": {"ontologyTermId": 5},
    "paramontologyoption/3": {"ontologyTermId": 5, "isActive": False},
    "paramontologyoption/4": {"ontologyTermId": 6, "isActive": False},
    "ontologyterm/6": {"ontologyTerm": "MP:0000001"},
    "ontologyterm/5": {"ontologyTerm": "MP:0001262", "ontologyTermName": "decreased body weight"},
}
TABLES = {
    "status_codes": "code,description\nIMPC_PSC_001,died\n",
    "projects": "project\nBaSH\n",
    "colonies": "colony_id,production_centre,status,created,gene_symbol\nc1,HMGU,Phenotyping Complete,2012-03-04,Nf1\n"
    "c1,JAX,Phenotyping Started,,\n",
    "strains": "strain_id,name\nMGI:2159965,C57BL/6N\n",
}


def write_bundle(folder: Path, answers: object = ANSWERS) -> None:
    (folder / "impress.json").write_text(json.dumps(answers), "utf-8")


def test_impress_is_what_its_api_answers(tmp_path: Path) -> None:
    write_bundle(tmp_path)
    impress = load_reference_data(tmp_path).impress
    procedure = impress.pipelines["IMPC_001"].procedures["IMPC_IPG_001"]
    assert procedure.required == {"IMPC_IPG_002_001"}, "the retired one need not be submitted"
    assert procedure.parameters["IMPC_IPG_002_001"] == Parameter(
        "IMPC_IPG_002_001",
        ParameterType.SERIES,
        "FLOAT",
        "mmol/L",
        is_required=True,
        is_active=True,
        options=(),
        increments=(Increment("0", "float", "minutes", 0, True), Increment("", "repeat", "", 2, False)),
        ontology_terms=(),
        qc_minimum=0.5,
        qc_maximum=40.0,
    )
    metadata = procedure.parameters["IMPC_IPG_006_001"]
    assert metadata.options == (Option("Yes", True), Option("No", False)), "the deleted one is left out"
    assert not metadata.is_active
    assert (metadata.name, metadata.is_important) == ("Anesthesia used", True)
    assert (impress.pipelines["IMPC_001"].name, procedure.name) == ("IMPC Pipeline", "")
    assert metadata.qc_minimum is None, "nothing is to be compared where qcCheck is not set"
    ontology = procedure.parameters["IMPC_IPG_010_001"]
    assert ontology.ontology_terms == ("MP:0001262", "MP:0001262", "MP:0000001")
    assert ontology.retired_terms == {"MP:0000001"}, "the other is also listed as active"
    assert (impress.name, impress.rows) == ("impress", 3)
    assert (procedure.is_mandatory, procedure.level) == (True, "experiment")
    assert impress.pipelines["IMPC_001"].due == {"IMPC_IPG_001": ProcedureDue(13.0)}


@pytest.mark.parametrize(
    ("schedules", "due"),
    [
        ([{"time": 9, "timeUnit": "Weeks"}, {"time": 4, "timeUnit": "Weeks"}], ProcedureDue(4.0)),
        ([{"time": "21", "timeUnit": "Days"}], ProcedureDue(3.0)),
        ([{"time": 12, "timeUnit": "Months"}], ProcedureDue(52.18)),
        ([{"time": "12.5", "timeUnit": "DPC"}], ProcedureDue(stage="E12.5")),
        ([{"time": "9", "timeUnit": "Weeks", "stage": "E15.5"}], ProcedureDue(stage="E15.5")),
        ([{"time": 1, "timeUnit": "Weeks", "isActive": False}, {"timeUnit": "Unrestricted"}], None),
        ([{"time": 10_000_000, "timeUnit": "Weeks"}, {"time": "-1", "timeUnit": "Days"}], None),
        ([{"time": 10**400, "timeUnit": "Weeks"}, {"time": 1e308, "timeUnit": "Months"}], None),
    ],
)
def test_a_procedure_is_due_when_its_schedules_say(
    tmp_path: Path, schedules: list[dict[str, Any]], due: ProcedureDue | None
) -> None:
    answers = deepcopy(ANSWERS)
    answers["pipeline/7"]["scheduleCollection"] = [one | {"procedureCollection": [3]} for one in schedules]
    write_bundle(tmp_path, answers)
    impress = load_reference_data(tmp_path).impress
    assert impress.pipelines["IMPC_001"].due.get("IMPC_IPG_001") == due
    assert "IMPC_IPG_001" in impress.pipelines["IMPC_001"].procedures


def test_a_file_an_answer_says_the_same_as_one_file_of_all_and_so_do_objects_in_place_of_ids(tmp_path: Path) -> None:
    one, many, nested = (tmp_path / name for name in ("one", "many", "nested"))
    for folder in (one, many, nested):
        folder.mkdir()
    write_bundle(one)
    for address, answer in ANSWERS.items():
        path = many / "impress" / f"{address}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(answer), "utf-8")
    answers = deepcopy(ANSWERS)
    for number, kind in ((1, "increment"), (2, "option")):
        ids = answers[f"parameter/{number}"][f"{kind}Collection"]
        answers[f"parameter/{number}"][f"{kind}Collection"] = [answers[f"{kind}/{each}"] for each in ids]
    write_bundle(nested, answers)
    loaded = [load_reference_data(folder).impress for folder in (one, many, nested)]
    assert None not in loaded
    assert loaded[0].pipelines == loaded[1].pipelines == loaded[2].pipelines  # type: ignore[union-attr]
    assert len({snapshot.checksum for snapshot in loaded if snapshot is not None}) == 3


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"pipeline/list": 1}', "[" * 100_000])
def test_a_file_of_answers_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "impress.json").write_text(content)
    with pytest.raises(ReferenceDataError, match=r"impress\.json"):
        load_reference_data(tmp_path)


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_tables_are_read_whatever_the_order_of_their_columns(tmp_path: Path, suffix: str) -> None:
    for name, content in TABLES.items():
        rows = [list(reversed(row.split(","))) for row in content.splitlines()]
        separator = "\t" if suffix == "tsv" else ","
        text = "\r\n".join(separator.join(row) for row in rows) + "\r\n\r\n"
        (tmp_path / f"{name}.{suffix}").write_text(text, "utf-8-sig", newline="")
    data = load_reference_data(tmp_path)
    assert data.impress is None
    assert data.status_codes.meanings == {"IMPC_PSC_001": "died"}
    assert data.projects.names == {"BaSH"}
    assert data.strains.names == {"MGI:2159965": "C57BL/6N"}
    first, second = data.colonies.find("c1")
    assert first == Colony("c1", "HMGU", "Phenotyping Complete", date(2012, 3, 4), gene_symbol="Nf1")
    assert (second.production_centre, second.created) == ("JAX", None)
    assert data.colonies.find("c2") == ()
    assert [snapshot.rows for snapshot in data] == [1, 1, 2, 1]


def test_the_report_of_mgi_serves_as_the_strains(tmp_path: Path) -> None:
    (tmp_path / "MGI_Strain.rpt").write_text("MGI:1\tA\tinbred strain\nMGI:2\tB\tcoisogenic\n")
    strains = load_reference_data(tmp_path).strains
    assert strains.names == {"MGI:1": "A", "MGI:2": "B"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("projects", b"", "lacks the columns project"),
        ("colonies", b"colony_id\tcentre\n", "lacks the columns production_centre, status: .*'colony_id\\\\tcentre'"),
        ("projects", b"project\n", "has no rows"),
        ("projects", b"name\nBaSH\n", "lacks the columns project:"),
        ("projects", b"project\n\xff\n", "UTF-8"),
        ("projects", b'project\n"BaSH\n', "line"),
        ("strains", b"strain_id,name\nMGI:1\n", "line 2"),
        ("strains", b"strain_id,name\n ,A\n", "strain_id is empty"),
        ("colonies", b"colony_id,production_centre,status,created\na,JAX,x,2012-02-30\n", "no date"),
        ("status_codes", b"code\nA\nA\n", "there twice"),
    ],
)
def test_a_table_that_is_empty_or_malformed_is_one_clear_error(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / f"{name}.csv").write_bytes(content)
    with pytest.raises(ReferenceDataError, match=said) as caught:
        load_reference_data(tmp_path)
    assert str(tmp_path / f"{name}.csv") in str(caught.value)


def test_a_folder_without_reference_data_or_with_a_set_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReferenceDataError, match="holds no reference data"):
        load_reference_data(tmp_path)
    for suffix in ("csv", "tsv"):
        (tmp_path / f"projects.{suffix}").write_text("project\nBaSH\n")
    with pytest.raises(ReferenceDataError, match="twice"):
        load_reference_data(tmp_path)


def test_a_snapshot_says_where_it_comes_from_and_when_it_was_retrieved(tmp_path: Path) -> None:
    path = tmp_path / "projects.csv"
    path.write_text("project\nBaSH\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    (projects,) = load_reference_data(tmp_path)
    assert (projects.name, projects.source) == ("projects", str(path))
    assert projects.checksum == hashlib.sha256(b"project\nBaSH\n").hexdigest()
    assert projects.retrieved == datetime(2023, 11, 14, 22, 13, 20)
    (tmp_path / "retrieved.txt").write_text("2026-11-20T12:00:00+02:00\n")
    (projects,) = load_reference_data(tmp_path)
    assert projects.retrieved == datetime(2026, 11, 20, 10)
    (tmp_path / "retrieved.txt").write_text("yesterday\n")
    with pytest.raises(ReferenceDataError, match="yesterday"):
        load_reference_data(tmp_path)


def test_the_shipped_set_has_everything_that_the_rules_need() -> None:
    data = load_shipped()
    assert [snapshot.name for snapshot in data] == list(SETS)
    assert data.status_codes.rows == 37
    centres = {colony.production_centre for found in data.colonies.productions.values() for colony in found}
    assert {centre.short_name for centre in KNOWN_CENTRES} <= centres
    assert len(data.impress.pipelines["IMPC_001"].procedures) == 14
    assert all(snapshot.retrieved >= datetime(2026, 11, 1) for snapshot in data)
