"""Tables go the way of documents to quality control, and findings keep naming their rows and columns."""

import shutil
from pathlib import Path

from dcc.cli.demo.examples import table_of
from dcc.documents.reading import read_document
from dcc.naming import DocumentKind
from dcc.qc import models
from dcc.reports.causes.collecting import find_causes
from dcc.reports.causes.spreadsheet import write_findings_spreadsheet
from dcc.reports.languages import load_catalogue
from dcc.reports.submissions.collecting import collect_submission
from dcc.reports.submissions.json_form import report_as_json
from dcc.reports.submissions.page import render_html
from dcc.store.staging import Staging
from tests.support.asking import in_both
from tests.support.data_installations import EXPERIMENTS, SPECIMENS, DataInstallation, experiments, key_of, specimens
from tests.support.databases import only_sqlite

ZIP = "add/H.2013-10-31.1.impc.zip"


def as_table(documents: dict[str, bytes], folder: Path) -> dict[str, bytes]:
    """A document as a table, by its name."""
    ((name, content),) = documents.items()
    path, kind = folder / name, DocumentKind.SPECIMEN if "specimen" in name else DocumentKind.EXPERIMENT
    path.write_bytes(content)
    return {f"{kind}s.csv": table_of(read_document(path, kind))}


def findings(data: DataInstallation) -> list[str]:
    """What is found, as far as it counts."""
    return [message for message, active in data.rows(models.FINDING, "message", "is_active") if active]


@only_sqlite
def test_tables_go_the_whole_way_to_quality_control(data: DataInstallation, tmp_path: Path) -> None:
    data.run(ZIP, as_table(specimens(), tmp_path), as_table(experiments(), tmp_path))
    assert data.states() == {ZIP: "qc pending"}
    assert data.documents() == {SPECIMENS: "qc done", EXPERIMENTS: "qc pending"}
    assert data.rows(models.SPECIMEN, "specimen_id", "line") == [(f"H-M00000{n}", n + 1) for n in (1, 2, 3)]
    assert len(data.rows(models.MEASUREMENT, "id")) == 3
    assert not findings(data)


def test_findings_name_rows_and_columns_when_they_are_judged_again_too(data: DataInstallation, tmp_path: Path) -> None:
    table = as_table(experiments(), tmp_path)["experiments.csv"].replace(b",IMPC_BWT_001,2", b",IMPC_BWT_001,c. 2", 1)
    data.put(ZIP, {"weights/experiments.csv": table})
    data.run("add/H.2013-10-31.2.impc.zip", {"specimens.csv": b"id\n7\n"})
    assert data.states() == {ZIP: "data failed", "add/H.2013-10-31.2.impc.zip": "xsd failed"}
    before = findings(data)
    (value,) = [one for one in before if "does not read as" in one]
    assert value.endswith("See weights/experiments.csv, row 2, column IMPC_BWT_001_001.")
    rows = sorted(one.rpartition(" See ")[2] for one in before if one is not value)
    assert rows == [f"weights/experiments.csv, row {row}, column specimenID." for row in (2, 3, 4)]
    told = [str(cause.example.message) for cause in in_both(data, find_causes, None, data.settings).causes]
    assert sum("See weights/experiments.csv, row 2" in one for one in told) == 2
    assert any("See specimens.csv, row 1, column" in one for one in told)
    shutil.rmtree(Staging(data.settings.staging_directory).contents(key_of(ZIP)))
    data.run("add/H.2013-11-01.1.impc.zip", specimens("2013-11-01.1", mice=2))
    assert sorted(findings(data)) == sorted(one for one in before if one is value or ", row 4," in one)


@only_sqlite
def test_a_row_of_too_many_cells_is_told_in_every_report(data: DataInstallation, tmp_path: Path) -> None:
    (table,) = as_table(specimens(), tmp_path).values()
    header, _, rows = table.partition(b"\r\n")
    data.run(ZIP, {"specimens.csv": header + b"\r\n" + rows.replace(b"\r\n", b",\r\n", 1)})
    catalogue = load_catalogue("de", data.settings)
    with data.tracker.connect() as tracker, data.qc.connect() as qc:
        report = collect_submission(tracker, qc, key_of(ZIP), data.settings)
        found = find_causes(tracker, qc, key_of(ZIP), data.settings)
        write_findings_spreadsheet(tmp_path / "H.xlsx", tracker, qc, found, catalogue)
    page = render_html(report, catalogue, data.settings)
    assert "Siehe specimens.csv, Zeile 2." in page
    (cause,) = report_as_json(report, catalogue)["causes"]
    cells = header.count(b",") + 1
    assert (cause["example"]["value"], cause["example"]["expected"]) == (str(cells + 1), str(cells))
