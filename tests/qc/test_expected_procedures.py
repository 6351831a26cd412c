"""Which animals and colonies lack which procedures, by their age, pipeline and status codes."""

import time
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine, insert

from dcc.databases.engines import LISTED_BYTES
from dcc.databases.transactions import writing
from dcc.documents.contents import SpecimenKind, StatusCode
from dcc.naming import Action
from dcc.qc.expected_procedures import Deliveries, Delivery, DeliveryCriteria, count_deliveries, lacking_procedures
from dcc.qc.models import EXPERIMENT, NAMED, SPECIMEN
from dcc.qc.reference.snapshots import save
from dcc.reference.impress import Impress, Pipeline, Procedure, ProcedureDue
from tests.reference.test_snapshots import provenance
from tests.support.asking import in_reading, in_writing
from tests.support.databases import only_sqlite
from tests.support.qc_contexts import submit
from tests.support.qc_documents import experiment, line, specimen

BORN = date(2013, 5, 1)
SIXTEEN = DeliveryCriteria(BORN + timedelta(weeks=16))


def impress(
    *asked: tuple[str, ProcedureDue], active: bool = True, mandatory: bool = True, level: str = "experiment"
) -> dict[str, Procedure]:
    return {key: Procedure(key, active, {}, frozenset(), key.lower(), mandatory, level) for key, _ in asked}


CBC, EYE, FER = (
    ("IMPC_CBC_003", ProcedureDue(16.0)),
    ("IMPC_EYE_001", ProcedureDue(15.0)),
    ("IMPC_FER_001", ProcedureDue(14.0)),
)
OLD, OPTIONAL, EMBRYO = (
    ("IMPC_CBC_001", ProcedureDue(10.0)),
    ("IMPC_PAT_001", ProcedureDue(1.0)),
    ("IMPC_EOL_001", ProcedureDue(stage="E12.5")),
)
PIPELINE = Pipeline(
    "IMPC_001",
    {
        **impress(CBC, EYE, EMBRYO),
        **impress(OLD, active=False),
        **impress(OPTIONAL, mandatory=False),
        **impress(FER, level="line"),
    },
    due=dict((CBC, EYE, FER, OLD, OPTIONAL, EMBRYO)),
)


@pytest.fixture
def qc(qc_database: Engine) -> Engine:
    in_writing(qc_database, save, Impress(provenance(), {PIPELINE.key: PIPELINE}))
    return qc_database


def lacking(
    qc: Engine, wanted: DeliveryCriteria = SIXTEEN
) -> dict[tuple[str | None, str], tuple[Delivery, str | None]]:
    return {
        (subject.specimen or subject.colony, due.procedure[5:8]): (state, code)
        for subject, due, state, code in in_reading(qc, lacking_procedures, wanted, Deliveries())
    }


def test_a_procedure_is_due_at_its_age(qc: Engine) -> None:
    submit(qc, Action.ADD, specimen("S1"))
    due = ["FER", "EYE", "CBC"]
    for number in range(4):
        day = BORN + timedelta(weeks=13 + number)
        assert {procedure for _, procedure in lacking(qc, DeliveryCriteria(day))} == set(due[:number])
        assert len(lacking(qc, DeliveryCriteria(day - timedelta(days=1)))) == max(0, number - 1)


def test_an_age_of_a_part_of_a_day_is_reached_on_that_day_and_an_impossible_one_never(qc_database: Engine) -> None:
    absurd = tuple((f"IMPC_HEM_00{weeks:.0e}", ProcedureDue(weeks)) for weeks in (1e7, 1e12, 1e300))
    of_days = ("IMPC_CBC_003", ProcedureDue(12.57))
    pipeline = Pipeline("IMPC_001", impress(of_days, *absurd), due=dict((of_days, *absurd)))
    in_writing(qc_database, save, Impress(provenance(), {pipeline.key: pipeline}))
    submit(qc_database, Action.ADD, specimen("S1"))
    assert lacking(qc_database, DeliveryCriteria(BORN + timedelta(days=86))) == {}
    assert lacking(qc_database, DeliveryCriteria(BORN + timedelta(days=87))) == {
        ("S1", "CBC"): (Delivery.MISSING, None)
    }


@pytest.mark.both_databases
def test_delivered_invalid_explained_and_missing_are_told_apart(qc: Engine) -> None:
    gone = StatusCode(9, None, "IMPC_PSC_001")
    submit(qc, Action.ADD, *(specimen(f"S{number}", litter=f"L{number}") for number in range(1, 5)))
    submit(qc, Action.ADD, specimen("S5", status_code=gone, colony_id="C2"), specimen("W", is_baseline="true"))
    submit(qc, Action.ADD, specimen("S6", status_code=gone._replace(code=" ")))
    submit(
        qc,
        Action.ADD,
        experiment("E1", ["S1"], procedure_id="IMPC_CBC_001"),
        experiment("E2", ["S2"])._replace(status_codes=(gone,)),
        experiment("E3", ["S3"]),
        experiment("E4", ["S4"], procedure_id="IMPC_PAT_001"),
        experiment("E5", ["S4 "]),
        faulty=[3],
    )
    submit(qc, Action.ADD, line("C1", procedure_id="IMPC_FER_001"))
    found = lacking(qc)
    assert {key: said for key, said in found.items() if key[1] != "EYE"} == {
        ("S2", "CBC"): (Delivery.EXPLAINED, "IMPC_PSC_001"),
        ("S3", "CBC"): (Delivery.INVALID, None),
        ("S4", "CBC"): (Delivery.MISSING, None),
        ("S5", "CBC"): (Delivery.EXPLAINED, "IMPC_PSC_001"),
        ("S6", "CBC"): (Delivery.MISSING, None),
        ("W", "CBC"): (Delivery.MISSING, None),
        ("C2", "FER"): (Delivery.MISSING, None),
    }
    counted = {one.due.procedure[5:8]: one for one in in_reading(qc, count_deliveries, SIXTEEN).by_procedure()}
    assert in_reading(qc, count_deliveries, DeliveryCriteria(SIXTEEN.day, centre="J")).by_procedure() == []
    cbc, fertility = counted["CBC"], counted["FER"]
    assert (cbc.delivered, cbc.invalid, cbc.explained, cbc.missing, cbc.expected) == (1, 1, 2, 3, 7)
    assert cbc.due[1:5] == ("IMPC_CBC_003", "impc_cbc_003", "experiment", 16.0)
    assert (fertility.delivered, fertility.missing, fertility.due.level) == (1, 1, "line")


@pytest.mark.both_databases
def test_a_status_code_is_free_text(qc: Engine) -> None:
    codes = ("IMPC_PSC_015:died, cage 2", 'see "E9",IMPC_EYE_001:1:')
    submit(qc, Action.ADD, *(specimen(f"S{number}") for number in range(len(codes))))
    submit(
        qc,
        Action.ADD,
        *(
            experiment(f"E{number}", [f"S{number}"])._replace(status_codes=(StatusCode(9, None, code),))
            for number, code in enumerate(codes)
        ),
    )
    found = {key: said for key, said in lacking(qc).items() if key[1] != "FER"}
    assert found == {
        ("S0", "CBC"): (Delivery.EXPLAINED, codes[0]),
        ("S1", "CBC"): (Delivery.EXPLAINED, codes[1]),
        ("S0", "EYE"): (Delivery.MISSING, None),
        ("S1", "EYE"): (Delivery.MISSING, None),
    }


@pytest.mark.both_databases
def test_more_status_codes_than_a_server_lists_are_no_error(qc: Engine) -> None:
    submit(qc, Action.ADD, specimen("S1"))
    several = (
        experiment(f"E{number}", ["S1"])._replace(status_codes=(StatusCode(9, None, f"{number}{'€' * 1_900}"),))
        for number in range(LISTED_BYTES // (3 * 1_900) + 2)
    )
    submit(qc, Action.ADD, *several)
    assert lacking(qc)["S1", "CBC"][0] is Delivery.EXPLAINED


@pytest.mark.parametrize("stage", ["12.5", "E12.5", "e12.50"])
def test_embryos_go_by_their_stage_and_what_impress_does_not_know_is_counted(qc: Engine, stage: str) -> None:
    embryo = specimen("M", kind=SpecimenKind.EMBRYO, dob=None, stage=stage, stage_unit="DPC")
    strange = (embryo._replace(specimen_id="T", stage_unit="Theiler"), specimen("P", pipeline="NONE_001"))
    submit(qc, Action.ADD, embryo, *strange)
    assert lacking(qc) == {("M", "EOL"): (Delivery.MISSING, None)}
    uncovered = in_reading(qc, count_deliveries, SIXTEEN).uncovered
    assert uncovered == {("H", "IMPC_001"): 1, ("H", "NONE_001"): 1}


@only_sqlite
def test_many_specimens_take_seconds(qc: Engine) -> None:
    submit(qc, Action.ADD, specimen("S1"))
    submit(qc, Action.ADD, experiment("E1"))
    most = 20_000
    with writing(qc) as connection:
        animal = dict(connection.execute(SPECIMEN.select()).mappings().one())
        done = dict(connection.execute(EXPERIMENT.select()).mappings().one())
        several = range(10, most)
        connection.execute(
            insert(SPECIMEN), [animal | {"id": number, "specimen_id": f"N{number}"} for number in several]
        )
        connection.execute(insert(EXPERIMENT), [done | {"id": number} for number in several if number % 2])
        connection.execute(
            insert(NAMED),
            [
                {"experiment_row": number, "position": 1, "specimen_id": f"N{number}", "line": 1}
                for number in several
                if number % 2
            ],
        )
    started = time.monotonic()
    counted = {one.due.procedure: one for one in in_reading(qc, count_deliveries, SIXTEEN).by_procedure()}
    assert time.monotonic() - started < 5
    assert counted["IMPC_CBC_003"].missing == (most - 10) / 2
