"""`import dcc`: measurements and parameters as DataFrames, on SQLite and on MariaDB."""

import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from sqlalchemy import Engine, func, insert, select, update

import dcc
from dcc.analysis.columns import COLUMNS, PANDAS_TYPES
from dcc.analysis.filters import MeasurementFilter
from dcc.analysis.measurements import iterate_measurements, load_measurements
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.contexts.context_sums import build_contexts
from dcc.qc.models import MEASUREMENT
from dcc.reports.submissions.accepted import accepted_of_centre
from dcc.settings import Settings
from tests.support.analysis_data import ANIMALS, FIRST_DAY, WEEKS, WEIGHT
from tests.support.asking import execute_in, in_reading
from tests.support.qc_contexts import submit
from tests.support.qc_documents import apply, experiment, line, specimen
from tests.support.qc_documents import experiment as plain_experiment

BODY_WEIGHT = "IMPC_BWT_001_001"


def context(centre: str, measurements: int, procedure: str = WEIGHT) -> dict[str, Any]:
    key = {"centre": centre, "pipeline": "IMPC_001", "genotype": "C1", "strain_id": "", "procedure_id": procedure}
    state = {"checksum": "", "state": "dataadded", "data_state": "dataadded", "issues": 0}
    now = datetime(2026, 1, 9)
    counted = {"parameter_id": f"{procedure}_001", "measurements": measurements, "created": now, "changed": now}
    return {**key, **state, **counted}


@pytest.fixture
def settings_of_data(filled: Engine, qc_settings: Settings) -> Settings:
    execute_in(
        filled, insert(models.CONTEXT).values([context("H", 144), context("J", 142), context("H", 7, "OLD_001")])
    )
    return qc_settings


@pytest.mark.both_databases
def test_measurements_have_the_name_of_their_parameter(
    settings_of_data: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = dcc.measurements(parameter=BODY_WEIGHT, centre=["H", "J"], settings=settings_of_data)
    assert len(frame) == 2 * ANIMALS * WEEKS - 2
    assert set(frame["parameter_name"]) == {"Body weight"}
    assert set(frame["unit"].dropna()) == {"g"}
    names = [column.name for column in COLUMNS]
    at = names.index("parameter_id") + 1
    assert list(frame) == [*names[:at], "parameter_name", *names[at:]]
    assert frame["parameter_name"].dtype == PANDAS_TYPES["parameter_id"]
    pd.testing.assert_frame_equal(dcc.measurements(parameter=BODY_WEIGHT, url=settings_of_data.qc_database_url), frame)
    monkeypatch.setenv("DCC_HOME", str(settings_of_data.home))
    monkeypatch.setenv("DCC_QC_URL", settings_of_data.qc_database_url)
    assert len(dcc.measurements(specimen="H1", parameter=BODY_WEIGHT)) == WEEKS
    groups = dcc.measurements(settings=settings_of_data, procedure="IMPC_IPG_001")["metadata_group"]
    assert set(groups) == {""}
    past = dcc.measurements(as_of_document=2, centre="H", settings=settings_of_data)
    assert (len(past), past["parameter_name"].dtype) == (0, frame["parameter_name"].dtype)

    found = dcc.parameters("body WEIGHT bwt_001_001", settings=settings_of_data)
    row = found.set_index("parameter_id").loc[BODY_WEIGHT]
    assert row.to_dict() == {
        "name": "Body weight",
        "procedure_id": WEIGHT,
        "procedure": "Body Weight",
        "unit": "g",
        "type": "simpleParameter",
        "measurements": 144 + 142,
    }
    (old,) = dcc.parameters("old_", settings=settings_of_data).to_dict("records")
    assert (old["parameter_id"], old["measurements"]) == ("OLD_001_001", 7)
    assert pd.isna(old["name"])
    everything = dcc.parameters(settings=settings_of_data)
    assert everything["parameter_id"].is_monotonic_increasing
    assert len(dcc.parameters("no such thing", settings=settings_of_data)) == 0
    assert dict(dcc.parameters("no such thing", settings=settings_of_data).dtypes) == dict(everything.dtypes)


def test_a_measurement_on_animals_of_several_genotypes_is_counted_once(
    qc_database: Engine, qc_settings: Settings
) -> None:
    animals = (specimen("S1"), specimen("S2", is_baseline="true", colony_id=None), specimen("S3"))
    submit(qc_database, Action.ADD, *animals)
    together, two_mutants = experiment("E1", ("S1", "S2")), experiment("E2", ("S1", "S3"))
    submit(qc_database, Action.ADD, together, two_mutants, experiment("E3", ("S2",)))
    build_contexts(qc_database)
    (counted,) = dcc.parameters(settings=qc_settings)["measurements"]
    assert counted == len(dcc.measurements(settings=qc_settings)) == 3
    (procedure,) = in_reading(qc_database, accepted_of_centre, "H", limit=1).procedures
    assert (procedure.measurements, procedure.accepted) == (3, 3)


def test_a_value_that_nobody_knows_is_told_with_the_nearest(settings_of_data: Settings) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"parameter": "IMPC_BWT_001_01"}, f"no parameter 'IMPC_BWT_001_01'. The nearest: {BODY_WEIGHT}"),
        ({"parameter": [BODY_WEIGHT, "x"]}, "no parameter 'x'. `dcc data parameters` lists all, by words of"),
        ({"procedure": "IMPC_BTW_001"}, "The nearest: IMPC_BWT_001"),
        ({"centre": "h"}, "The nearest: H"),
        ({"centre": "Har"}, "It has H, J. Correct the name"),
        ({"centre": "H "}, "no centre 'H '"),
        ({"pipeline": "IMPC_01"}, "The nearest: IMPC_001"),
        ({"project": "MCR"}, "MRC"),
        ({"colony": "C11"}, "no colony 'C11'. The nearest: C1"),
        ({"genotype": "base"}, "no genotype 'base'"),
        ({"specimen": "H99"}, "no specimen 'H99'. The nearest: H9"),
        ({"specimen": "H" * 110_000}, "no specimen 'HHH"),
        ({"status": "IMPC_PARAMSC_099"}, "The nearest: IMPC_PARAMSC_0"),
    ]
    for filters, said in cases:
        with pytest.raises(NotFoundError) as raised:
            dcc.measurements(settings=settings_of_data, **filters)
        assert said in str(raised.value), filters
    with pytest.raises(ConfigurationError, match=r"'paramter' is no filter of measurements. The nearest: parameter"):
        dcc.measurements(settings=settings_of_data, paramter=BODY_WEIGHT)


def test_messages_name_what_was_given_and_no_setting() -> None:
    for url, said in (
        ("nonsense", "url: it is not a database URL"),
        ("postgresql://a/b", "url: it names a database of the kind 'postgresql'"),
        (5, "url takes the text of a database URL, but not 5"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            dcc.measurements(url=url)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="but not by 5"):
        dcc.parameters(5)  # type: ignore[arg-type]


def test_what_is_known_may_have_no_measurements(settings_of_data: Settings) -> None:
    for filters in (
        {"parameter": "IMPC_BWT_002_001"},
        {"genotype": "baseline", "status": "IMPC_PARAMSC_001"},
        {"status": "IMPC_PARAMSC_001: the scale broke", "centre": "J"},
        {"status": "", "project": "MRC", "specimen": "H0", "colony": "C1"},
    ):
        dcc.measurements(settings=settings_of_data, **filters)


def test_importing_is_cheap_and_a_light_installation_says_what_to_install() -> None:
    code = (
        "import sys, dcc\n"
        "print(' '.join(sys.modules))\n"
        "sys.modules['pandas'] = None\n"
        "import importlib.util as u; u.find_spec = lambda name: None\n"
        "try:\n    dcc.parameters()\nexcept Exception as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True)
    modules, said = ended.stdout.splitlines()
    assert {"pandas", "sqlalchemy", "pydantic", "dcc.settings"}.isdisjoint(modules.split())
    assert said == "dcc.parameters needs pandas, which is not installed. Run: pip install 'dcc[platform]'"


ALL = MeasurementFilter(only_valid=False)


def test_no_measurements_have_the_same_columns_and_types_as_many(qc_database: Engine) -> None:
    empty = load_measurements(qc_database)
    assert len(empty) == 0
    assert dict(empty.dtypes) == dict(PANDAS_TYPES)
    assert list(empty.columns) == [column.name for column in COLUMNS]
    assert list(iterate_measurements(qc_database)) == []


@pytest.mark.both_databases
def test_measurements_are_those_of_the_view_of_the_present_in_the_order_of_their_ids(filled: Engine) -> None:
    frame = load_measurements(filled, ALL)
    view = pd.read_sql("SELECT * FROM current_measurement ORDER BY id", filled)
    same = [name for name in frame.columns if name in view]
    assert len(same) > 28
    assert len(frame) == len(view) == 2 * ANIMALS * WEEKS - 1 + 2 * 4 * 5 + 2
    for name in same:
        left = frame[name].astype(str).str.replace(r"\.0$|T?00:00:00", "", regex=True).str.strip()
        right = view[name].astype(object).map(str).str.replace(r"\.0$", "", regex=True)
        assert left.mask(frame[name].isna()).fillna("").str.lower().tolist() == [
            {"1": "true", "0": "false"}.get(value, value.lower()) if name.startswith("is_") else value.lower()
            for value in right.mask(view[name].isna()).fillna("")
        ], name


@pytest.mark.both_databases
def test_a_measurement_tells_where_it_came_from_and_what_it_is_of(filled: Engine) -> None:
    wanted = MeasurementFilter(centre="H", specimen="H3", parameter="IMPC_BWT_001_001", date_from=date(2013, 6, 12))
    found = load_measurements(filled, wanted).iloc[-1]
    assert (found["value"], found["number"], found["unit"], found["line"]) == ("31.5", 31.5, "g", 22)
    assert (found["document_id"], found["zip_action"], found["type"]) == (6, "edit", "simpleParameter")
    assert found["zip_file"].startswith("H.2013-10-31.")
    assert found["file_name"].endswith(".experiment.impc.xml")
    assert (found["genotype"], found["colony_id"], found["gender"], found["is_valid"]) == ("C1", "C1", "female", True)
    assert (found["date"], found["dob"]) == (pd.Timestamp("2013-06-12"), pd.Timestamp(FIRST_DAY))


def test_each_field_of_a_filter_chooses(filled: Engine) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"centre": "H", "procedure": WEIGHT}, ANIMALS * WEEKS),
        ({"centre": ["H", "J"], "procedure": [WEIGHT, "nothing"]}, 2 * ANIMALS * WEEKS - 1),
        ({"centre": "h"}, 0),
        ({"centre": "H "}, 0),
        ({"centre": []}, 0),
        ({"pipeline": "IMPC_001", "project": "MRC", "parameter": "IMPC_IPG_002_001"}, 24),
        ({"colony": "C1", "procedure": "IMPC_FER_001"}, 1),
        ({"genotype": "baseline", "centre": "J", "procedure": WEIGHT}, ANIMALS // 2 * WEEKS),
        ({"genotype": "C1", "centre": "J", "procedure": WEIGHT}, ANIMALS // 2 * WEEKS - 1),
        ({"specimen": ["H1", "J2"], "procedure": WEIGHT}, 2 * WEEKS),
        ({"status": "IMPC_PARAMSC_001"}, 2),
        ({"status": "IMPC_PARAMSC_001: the scale broke"}, 2),
        ({"status": "IMPC_PARAMSC_00"}, 0),
        ({"status": "", "procedure": WEIGHT, "specimen": "H8"}, WEEKS - 1),
        ({"date_from": date(2013, 7, 3), "date_until": date(2013, 7, 3), "centre": "H"}, ANIMALS + 20),
    ]
    for wanted, count in cases:
        assert len(load_measurements(filled, MeasurementFilter(only_valid=False, **wanted))) == count, wanted


def test_only_what_was_judged_valid_comes_unless_more_is_wanted(filled: Engine) -> None:
    everything, valid = load_measurements(filled, ALL), load_measurements(filled)
    invalid = everything[~everything["id"].isin(valid["id"])]
    assert invalid["experiment_id"].tolist() == ["W9-1"]
    assert invalid["is_valid"].tolist() == [False]
    apply(filled, Action.ADD, plain_experiment("new", ("H1",)), centre="H")
    assert len(load_measurements(filled)) == len(valid)
    assert load_measurements(filled, ALL)["is_valid"].isna().sum() == 1


def test_any_past_can_be_asked_for(filled: Engine) -> None:
    def values(**past: Any) -> list[object]:
        wanted = MeasurementFilter(centre="H", specimen="H3", procedure=WEIGHT, only_valid=False, **past)
        return load_measurements(filled, wanted)["value"].tolist()

    assert values(as_of_document=2) == values(as_of_date=date(2026, 1, 2)) == values(as_of_date=date(2025, 1, 1)) == []
    before, after = values(as_of_document=5), values(as_of_document=6)
    assert sorted(set(after) - set(before)) == ["31.5"]
    assert len(before) == len(after) == WEEKS
    assert values(as_of_date=date(2026, 1, 5)) == values(as_of_date=datetime(2026, 1, 6, 11)) == before
    assert values(as_of_date=datetime(2026, 1, 6, 12)) == values(as_of_date=date(2026, 1, 6)) == values() == after

    def strains(past: int) -> set[object]:
        wanted = MeasurementFilter(specimen="H4", only_valid=False, as_of_document=past)
        return set(load_measurements(filled, wanted)["strain_id"])

    assert (strains(6), strains(7)) == ({"MGI:1"}, {"MGI:9"})


def test_the_past_of_the_last_document_is_the_present_but_for_metadata_groups(filled: Engine) -> None:
    present = load_measurements(filled)
    past = load_measurements(filled, MeasurementFilter(as_of_document=8))
    assert present["metadata_group"].notna().sum() > ANIMALS
    assert past["metadata_group"].isna().all()
    assert_frame_equal(past.drop(columns="metadata_group"), present.drop(columns="metadata_group"))


def test_chunks_are_the_whole_in_its_order(filled: Engine) -> None:
    whole = load_measurements(filled)
    chunks = list(iterate_measurements(filled, rows=100))
    assert [len(chunk) for chunk in chunks[:-1]] == [100] * (len(whole) // 100)
    assert all(dict(chunk.dtypes) == dict(PANDAS_TYPES) for chunk in chunks)
    assert_frame_equal(pd.concat(chunks, ignore_index=True), whole)
    assert all(earlier < later for earlier, later in pairwise(whole["id"]))


def test_a_document_that_there_is_none_of_is_refused(qc_database: Engine) -> None:
    with pytest.raises(NotFoundError, match="No document has been applied"):
        load_measurements(qc_database, MeasurementFilter(as_of_document=1))
    apply(qc_database, Action.ADD, line("C1"))
    for number in (2, 0, -1, 2**63, 10**30, -(10**30)):
        with pytest.raises(NotFoundError, match=rf"no document {number}\. Name one from 1 to 1"):
            load_measurements(qc_database, MeasurementFilter(as_of_document=number))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"as_of_document": 1, "as_of_date": date(2026, 1, 1)}, "Name one"),
        ({"date_from": date(2026, 1, 2), "date_until": date(2026, 1, 1)}, "before"),
        ({"specimen": [str(number) for number in range(10_001)]}, "10,000 values of specimen"),
        ({"latest_valid": True, "as_of_document": 3}, "latest valid"),
        ({"latest_valid": True, "as_of_date": date(2026, 1, 2)}, "latest valid"),
        ({"latest_valid": True, "only_valid": False}, "latest valid"),
    ],
    ids=["two pasts", "no day", "too many", "past document", "past date", "invalid"],
)
def test_a_filter_that_contradicts_itself_is_refused(wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        MeasurementFilter(**wanted)


@pytest.mark.both_databases
def test_a_filter_takes_values_of_frames_and_days_as_text(filled: Engine) -> None:
    def ids(**wanted: Any) -> list[int]:
        return load_measurements(filled, MeasurementFilter(only_valid=False, **wanted))["id"].tolist()

    day, noon = date(2013, 7, 3), pd.Timestamp("2013-07-03 12:00")
    expected = ids(date_from=day, date_until=day)
    assert expected == ids(date_from=noon, date_until=day) == ids(date_from="2013-07-03", date_until=noon) != []
    assert sorted({*ids(date_from=day)} & {*ids(date_until=day)}) == expected
    assert ids(as_of_document=np.int64(6)) == ids(as_of_document=6) != []
    assert MeasurementFilter(latest_valid=np.bool_(True)) == MeasurementFilter(latest_valid=True)
    assert ids(as_of_date="2026-01-05") == ids(as_of_date=date(2026, 1, 5))
    half_past_twelve = datetime(2026, 1, 6, 12, 30, tzinfo=timezone(timedelta(hours=1)))
    assert ids(as_of_date=half_past_twelve) == ids(as_of_date=datetime(2026, 1, 6, 11, 30)) != ids(as_of_document=6)
    assert ids(specimen=(name for name in ("H1", "H2"))) == ids(specimen=pd.Series(["H1", "H2", "H1"])) != []


@pytest.mark.both_databases
def test_a_status_of_blanks_is_a_status(filled: Engine) -> None:
    without = MeasurementFilter(only_valid=False, status="")
    before = len(load_measurements(filled, without))
    with filled.begin() as connection:
        first = connection.scalar(select(func.min(MEASUREMENT.c.id)))
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.id == first).values(status="  "))
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.id == first + 1).values(status=""))
    assert len(load_measurements(filled, without)) == before - 1
    blank = MeasurementFilter(only_valid=False, status="  ")
    assert load_measurements(filled, blank)["id"].tolist() == [first]


@pytest.mark.parametrize(
    "wanted",
    [
        {"parameter": 5},
        {"centre": ["H", None]},
        {"specimen": pd.Series([1, 2])},
        {"date_from": "junk"},
        {"date_until": pd.NaT},
        {"as_of_date": np.datetime64("2026-01-05")},
        {"as_of_document": 3.5},
        {"as_of_document": True},
        {"only_valid": None},
        {"only_valid": "no"},
        {"latest_valid": "no"},
        {"latest_valid": None},
    ],
    ids=" ".join,
)
def test_a_filter_of_another_type_is_refused(wanted: dict[str, Any]) -> None:
    (name,) = wanted
    with pytest.raises(ConfigurationError, match=f"The filter {name} takes "):
        MeasurementFilter(**wanted)


@pytest.mark.both_databases
def test_the_view_of_measurements_is_searched_by_index(filled: Engine) -> None:
    is_sqlite = filled.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
    with filled.begin() as connection:
        connection.exec_driver_sql("ANALYZE" if is_sqlite else "ANALYZE TABLE measurement, procedure_run")
        for condition, index in (
            ("parameter_id = 'IMPC_BWT_001_001' AND centre = 'H'", "ix_measurement_parameter_id_centre"),
            ("specimen_id = 'H3'", "ix_measurement_specimen_id_centre"),
            ("procedure_id = 'IMPC_FER_001'", "ix_procedure_run_procedure_id"),
            ("document_id = 5", "ix_procedure_run_document_id"),
            ("procedure_run_id = 5", "ix_measurement_procedure_run_id"),
        ):
            plan = connection.exec_driver_sql(f"{explain} SELECT * FROM current_measurement WHERE {condition}").all()
            assert index in str(plan), condition
