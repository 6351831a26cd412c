"""The latest valid data: what replaced them with errors does not hide them."""

from typing import Any

import pytest
from sqlalchemy import Engine, update

from dcc.analysis.export import ExportFormat, export_measurements
from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import load_measurements
from dcc.naming import Action
from dcc.qc.apply.upload_lock import lock_all
from dcc.qc.contexts.experiment_validity import update_all_validity
from dcc.qc.models import EXPERIMENT, LINE, SPECIMEN
from dcc.vocabulary import Validity
from tests.support.analysis_data import animal, weight
from tests.support.qc_documents import apply, line, undo_documents

ANIMAL = "H3"


def judge(qc: Engine, table: Any, document_id: int, validity: int) -> None:
    """As the rules do with what a document holds, and the platform then with the experiments on its animals."""
    with qc.begin() as connection:
        lock_all(connection)
        connection.execute(update(table).where(table.c.document_id == document_id).values(validity=validity))
        update_all_validity(connection)


def edit(qc: Engine, value: str, validity: int) -> int:
    """Change the animal's second weighing, which was 31.5."""
    applied = apply(qc, Action.EDIT, weight("H", 3, 2, value), centre="H")
    judge(qc, EXPERIMENT, applied.document_id, validity)
    return applied.document_id


def weighing(qc: Engine, **wanted: Any) -> list[object]:
    found = load_measurements(qc, MeasurementFilter(centre="H", specimen=ANIMAL, procedure="IMPC_BWT_001", **wanted))
    return found[found["experiment_id"] == "W3-2"]["value"].tolist()


def test_without_faulty_changes_they_are_the_current_valid_ones(filled: Engine) -> None:
    current, latest = load_measurements(filled), load_measurements(filled, MeasurementFilter(latest_valid=True))
    assert latest["id"].tolist() == current["id"].tolist()
    assert latest.drop(columns="metadata_group").equals(current.drop(columns="metadata_group"))


@pytest.mark.both_databases
def test_a_change_with_errors_hides_no_valid_version(filled: Engine) -> None:
    first = edit(filled, "9999", Validity.INVALID)
    assert weighing(filled) == []
    assert weighing(filled, latest_valid=True) == ["31.5"]
    edit(filled, "8888", Validity.UNJUDGED)
    assert weighing(filled, latest_valid=True) == ["31.5"]
    valid = edit(filled, "32", Validity.VALID)
    assert weighing(filled, latest_valid=True) == weighing(filled) == ["32"]
    last = edit(filled, "7777", Validity.INVALID)
    assert weighing(filled, latest_valid=True) == ["32"]
    undo_documents(filled, [last])
    undo_documents(filled, [valid])
    assert weighing(filled, only_valid=False) == ["8888"]
    assert weighing(filled, latest_valid=True) == ["31.5"]
    edit(filled, "6666", Validity.INVALID)
    assert weighing(filled, latest_valid=True) == ["31.5"]
    assert first < valid < last


def test_an_animal_that_was_changed_with_errors_is_shown_as_it_was(filled: Engine) -> None:
    before = load_measurements(filled, MeasurementFilter(centre="H", specimen=ANIMAL))
    changed = apply(filled, Action.EDIT, animal("H", 3)._replace(strain_id="none"), centre="H")
    judge(filled, SPECIMEN, changed.document_id, Validity.INVALID)
    assert load_measurements(filled, MeasurementFilter(centre="H", specimen=ANIMAL)).empty
    latest = load_measurements(filled, MeasurementFilter(centre="H", specimen=ANIMAL, latest_valid=True))
    assert latest["id"].tolist() == before["id"].tolist()
    assert set(latest["strain_id"]) == {"MGI:1"}
    assert latest["is_valid"].all()


@pytest.mark.both_databases
def test_lines_have_one_too(filled: Engine) -> None:
    applied = apply(filled, Action.EDIT, line("C1", "13", "IMPC_FER_001"), centre="H")
    judge(filled, LINE, applied.document_id, Validity.INVALID)
    wanted = MeasurementFilter(centre="H", procedure="IMPC_FER_001", latest_valid=True)
    assert load_measurements(filled, wanted)["value"].tolist() == ["12"]


def test_a_directory_follows_a_change_with_errors(filled: Engine, tmp_path: Any) -> None:
    wanted = MeasurementFilter(latest_valid=True)
    before = export_measurements(filled, tmp_path / "out", ExportFormat.PARQUET, wanted)
    edit(filled, "9999", Validity.INVALID)
    again = export_measurements(filled, tmp_path / "out", ExportFormat.PARQUET, wanted)
    assert again.rows == before.rows


def test_a_filter_without_it_is_described_as_before_it_was_there() -> None:
    assert "latest_valid" not in MeasurementFilter().described()
    assert MeasurementFilter(latest_valid=True).described()["latest_valid"] is True


def test_what_was_deleted_has_no_latest_version_until_its_deletion_is_withdrawn(filled: Engine) -> None:
    """Also where it came again with errors."""
    edit(filled, "9999", Validity.INVALID)
    deleted = apply(filled, Action.DELETE, weight("H", 3, 2, "9999"), centre="H")
    assert weighing(filled, latest_valid=True) == []
    again = apply(filled, Action.ADD, weight("H", 3, 2, "9999"), centre="H")
    judge(filled, EXPERIMENT, again.document_id, Validity.INVALID)
    assert weighing(filled, latest_valid=True) == []
    undo_documents(filled, [again.document_id])
    undo_documents(filled, [deleted.document_id])
    assert weighing(filled, latest_valid=True) == ["31.5"]


def test_a_change_to_an_animal_with_errors_hides_no_experiment_on_a_valid_one(filled: Engine) -> None:
    other = apply(filled, Action.ADD, animal("H", 99), centre="H")
    judge(filled, SPECIMEN, other.document_id, Validity.INVALID)
    changed = apply(filled, Action.EDIT, weight("H", 3, 2, "40")._replace(specimen_ids=("H99",)), centre="H")
    judge(filled, EXPERIMENT, changed.document_id, Validity.VALID)
    assert load_measurements(filled, MeasurementFilter(specimen="H99")).empty
    assert weighing(filled, latest_valid=True) == ["31.5"]


def test_an_animal_that_is_not_needed_by_a_waiver_hides_nothing(filled: Engine) -> None:
    added = apply(filled, Action.ADD, weight("H", 77, 1, "20"), centre="H")
    judge(filled, EXPERIMENT, added.document_id, Validity.VALID)
    wanted = MeasurementFilter(specimen="H77", latest_valid=True)
    assert load_measurements(filled, wanted)["value"].tolist() == ["20"]
    changed = apply(filled, Action.EDIT, weight("H", 77, 1, "9999"), centre="H")
    judge(filled, EXPERIMENT, changed.document_id, Validity.INVALID)
    assert load_measurements(filled, wanted)["value"].tolist() == ["20"]


def test_the_animal_of_another_centre_makes_no_experiment_valid(filled: Engine) -> None:
    applied = apply(filled, Action.ADD, animal("H", 99), centre="H")
    judge(filled, SPECIMEN, applied.document_id, Validity.INVALID)
    theirs = apply(filled, Action.ADD, animal("H", 99), centre="J")
    judge(filled, SPECIMEN, theirs.document_id, Validity.VALID)
    added = apply(filled, Action.ADD, weight("H", 99, 1, "20"), centre="H")
    judge(filled, EXPERIMENT, added.document_id, Validity.VALID)
    assert load_measurements(filled, MeasurementFilter(specimen="H99", latest_valid=True)).empty


@pytest.mark.both_databases
def test_ids_that_differ_in_trailing_blanks_are_of_others(qc_database: Engine) -> None:
    for animal_id, validity in (("H9 ", Validity.INVALID), ("H9", Validity.VALID)):
        added = apply(qc_database, Action.ADD, animal("H", 9)._replace(specimen_id=animal_id), centre="H")
        judge(qc_database, SPECIMEN, added.document_id, validity)
    for name, animal_id in (("A", "H9 "), ("B", "H9"), ("C", "H9 "), ("D", "H9")):
        for action, value, validity in ((Action.ADD, "30", Validity.VALID), (Action.EDIT, "9999", Validity.INVALID)):
            done = weight("H", 9, 1, value)._replace(experiment_id=name, specimen_ids=(animal_id,))
            judge(qc_database, EXPERIMENT, apply(qc_database, action, done, centre="H").document_id, validity)
    assert load_measurements(qc_database, MeasurementFilter(latest_valid=True))["experiment_id"].tolist() == ["B", "D"]
