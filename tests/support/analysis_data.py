"""A filled QC database for the tests of what analysts use."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from hashlib import md5
from typing import Any, Final

from sqlalchemy import Connection, Engine, insert, select, update

from dcc.documents.contents import (
    Experiment,
    Metadata,
    OntologyParameter,
    Procedure,
    SeriesParameter,
    SeriesValue,
    SimpleParameter,
)
from dcc.naming import Action
from dcc.qc import models
from dcc.qc.models import EXPERIMENT, METADATA, NAMED, RUN, SPECIMEN
from dcc.vocabulary import Validity
from tests.support import integrity_cases
from tests.support.integrity_cases import element
from tests.support.qc_documents import apply, housing, line, specimen

FIRST_DAY: Final = date(2013, 5, 1)
"""On which all animals are born; documents are applied day by day from 2026-01-01 on."""
WEIGHT, GLUCOSE = "IMPC_BWT_001", "IMPC_IPG_001"
ANIMALS: Final = 24
WEEKS: Final = 6


def fill(qc: Engine) -> None:
    """Apply the documents of two centres: animals, weights, glucose, lines, housing; then an edit and a deletion.

    Document 1 and 2 bring the animals of H and J, 3 and 4 their experiments, 5 a line and a housing, 6 edits an
    experiment, 7 edits an animal, 8 deletes an experiment. One experiment of H is not valid.
    """
    for centre in ("H", "J"):
        apply(qc, Action.ADD, *animals(centre), centre=centre)
    for centre in ("H", "J"):
        apply(qc, Action.ADD, *weights(centre), *glucose(centre), centre=centre)
    apply(qc, Action.ADD, line("C1", "12", "IMPC_FER_001"), housing("3"), centre="H")
    apply(qc, Action.EDIT, weight("H", 3, 2, "31.5"), centre="H")
    apply(qc, Action.EDIT, animal("H", 4)._replace(strain_id="MGI:9"), centre="H")
    apply(qc, Action.DELETE, weight("J", 5, 1, "1"), centre="J")
    with qc.begin() as connection:
        _judge(connection)
        _date(connection)
        _overview(connection)


def animal(centre: str, number: int) -> Any:
    is_baseline = number % 2 == 0
    return specimen(
        f"{centre}{number}",
        is_baseline=str(is_baseline).lower(),
        gender="male" if number % 4 < 2 else "female",
        zygosity="wild type" if is_baseline else "homozygous",
        colony_id=None if is_baseline else "C1",
        strain_id="MGI:1",
        dob=str(FIRST_DAY),
    )


def animals(centre: str) -> Iterator[Any]:
    return (animal(centre, number) for number in range(ANIMALS))


def experiment(centre: str, name: str, number: int, day: date, procedure: Procedure) -> Experiment:
    named = {"experiment_id": name, "date": str(day), "specimen_ids": (f"{centre}{number}",)}
    return integrity_cases.experiment(procedure, **named)


def weight(centre: str, number: int, week: int, value: str | None) -> Experiment:
    status = "IMPC_PARAMSC_001: the scale broke" if value is None else None
    parameter = SimpleParameter(week + 20, "IMPC_BWT_001_001", None, "g", value, status)
    scale = Metadata(40, "IMPC_BWT_001_002", None, None, f"scale {number // 12}")
    done = element(Procedure, line=8, procedure_id=WEIGHT, simple=(parameter,), metadata=(scale,))
    return experiment(centre, f"W{number}-{week}", number, FIRST_DAY + timedelta(weeks=week + 4), done)


def weights(centre: str) -> Iterator[Experiment]:
    for number in range(ANIMALS):
        for week in range(WEEKS):
            value: str | None = f"{18 + week + number % 5 / 10 + (2 if number % 4 < 2 else 0):.1f}"
            if (number, week) == (7, 3):
                value = "250"
            yield weight(centre, number, week, None if (number, week) == (8, 3) else value)


def glucose(centre: str) -> Iterator[Experiment]:
    for number in range(4):
        values = tuple(
            SeriesValue(30, minutes, None, f"{5 + int(minutes) / 20 + number}") for minutes in ("0", "15", "30")
        )
        series = SeriesParameter(29, "IMPC_IPG_002_001", None, "mmol/l", values, None)
        term = OntologyParameter(35, "IMPC_IPG_013_001", "1", ("MP:1", "MP:2"), None)
        done = element(Procedure, line=8, procedure_id=GLUCOSE, ontology=(term,), series=(series,))
        yield experiment(centre, f"G{number}", number, FIRST_DAY + timedelta(weeks=9), done)


def _judge(connection: Connection) -> None:
    for table in (models.EXPERIMENT, models.LINE, models.HOUSING, models.SPECIMEN):
        connection.execute(update(table).values(validity=Validity.VALID))
    faulty = (models.EXPERIMENT.c.experiment_id == "W9-1") & (models.EXPERIMENT.c.centre == "H")
    connection.execute(update(models.EXPERIMENT).where(faulty).values(validity=Validity.INVALID))
    document = select(models.EXPERIMENT.c.document_id).where(faulty).scalar_subquery()
    found = {"rule": "P5", "severity": "error", "message": "Too heavy", "line": 21, "value": "250"}
    row = {"entity_kind": "experiment", "created": datetime(2026, 1, 9), "is_active": True, **found}
    entity = connection.scalar(select(models.EXPERIMENT.c.id).where(faulty))
    connection.execute(insert(models.FINDING).values(document_id=document, entity_id=entity, **row))


def _date(connection: Connection) -> None:
    for number in range(1, 9):
        moment = datetime(2026, 1, number, 12)
        connection.execute(update(models.DOCUMENT).where(models.DOCUMENT.c.id == number).values(applied_at=moment))


def _overview(connection: Connection) -> None:
    """The rows of the overview that tells each run's metadata group."""
    of_experiment = (EXPERIMENT.c.centre, EXPERIMENT.c.pipeline, EXPERIMENT.c.project, EXPERIMENT.c.date)
    joined = (
        select(RUN.c.id, RUN.c.procedure_id, *of_experiment, SPECIMEN)
        .add_columns(METADATA.c.value.label("circumstances"))
        .join(
            EXPERIMENT,
            (RUN.c.owner_kind == "experiment") & (EXPERIMENT.c.id == RUN.c.owner_id) & EXPERIMENT.c.is_current,
        )
        .join(NAMED, NAMED.c.experiment_row == EXPERIMENT.c.id)
        .join(SPECIMEN, (SPECIMEN.c.centre == EXPERIMENT.c.centre) & (SPECIMEN.c.specimen_id == NAMED.c.specimen_id))
        .join(METADATA, METADATA.c.procedure_run_id == RUN.c.id, isouter=True)
        .where(SPECIMEN.c.is_current)
    )
    alike = ("centre", "pipeline", "project", "procedure_id", "specimen_id", "strain_id", "is_baseline", "gender")
    rows = [
        {name: getattr(row, name) for name in (*alike, "zygosity", "date")}
        | {"procedure_run_id": row.id, "position": 1, "measurements": 1}
        | {"genotype": "baseline" if row.is_baseline else row.colony_id}
        | {"metadata_group": md5((row.circumstances or "").encode()).hexdigest()}
        for row in connection.execute(joined)
    ]
    connection.execute(insert(models.OVERVIEW_ANIMAL), rows)
    groups = {row["metadata_group"] for row in rows}
    connection.execute(insert(models.GROUP), [{"checksum": group, "content": "{}"} for group in groups])
