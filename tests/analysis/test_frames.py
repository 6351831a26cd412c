"""`import dcc`: measurements and parameters as DataFrames, with a message for what is misspelt."""

import os
import subprocess
import sys
from datetime import datetime
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import Engine, insert

import dcc
from dcc.analysis.columns import COLUMNS, PANDAS_TYPES
from dcc.errors import ConfigurationError, NotFoundError
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.contexts.building import build_contexts
from dcc.settings import Settings
from tests.support.analysis_data import ANIMALS, WEEKS, WEIGHT
from tests.support.qc_contexts import submit
from tests.support.qc_documents import experiment, specimen

BODY_WEIGHT = "IMPC_BWT_001_001"


def context(centre: str, measurements: int, procedure: str = WEIGHT) -> dict[str, Any]:
    key = {"centre": centre, "pipeline": "IMPC_001", "genotype": "C1", "strain_id": "", "procedure_id": procedure}
    state = {"checksum": "", "state": "dataadded", "data_state": "dataadded", "issues": 0}
    now = datetime(2026, 1, 9)
    counted = {"parameter_id": f"{procedure}_001", "measurements": measurements, "created": now, "changed": now}
    return {**key, **state, **counted}


@pytest.fixture
def settings_of_data(filled: Engine, qc_settings: Settings) -> Settings:
    with filled.begin() as connection:
        connection.execute(insert(models.CONTEXT), [context("H", 144), context("J", 142), context("H", 7, "OLD_001")])
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


def test_a_value_that_nobody_knows_is_told_with_the_nearest(settings_of_data: Settings) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"parameter": "IMPC_BWT_001_01"}, f"no parameter 'IMPC_BWT_001_01'. The nearest: {BODY_WEIGHT}"),
        ({"parameter": [BODY_WEIGHT, "x"]}, "no parameter 'x'."),
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
