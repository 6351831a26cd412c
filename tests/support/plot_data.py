"""Animals and measurements for tests of pictures: a centre's history, and a submission that is new."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Final

from sqlalchemy import Engine

from dcc.documents.contents import Experiment, Procedure, SeriesParameter, SeriesValue, SimpleParameter
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from tests.support.integrity_cases import element, experiment
from tests.support.qc_contexts import submit
from tests.support.qc_documents import specimen

WEIGHT: Final = "IMPC_BWT_001_001"
GLUCOSE: Final = "IMPC_IPG_002_001"
NEW: Final = SubmissionKey(Action.ADD, "H.2026-01-01.1.impc.zip")
FIRST_DAY: Final = date(2025, 9, 1)
ANIMALS: Final = 30


def weighed(
    animal: str, value: str, *, day: date = FIRST_DAY, unit: str = "g", parameter_id: str = WEIGHT
) -> Experiment:
    simple = SimpleParameter(9, parameter_id, None, unit, value, None)
    done = element(Procedure, line=8, procedure_id=parameter_id[:-4], simple=(simple,))
    return experiment(done, experiment_id=f"{parameter_id}-{animal}-{day}", date=str(day), specimen_ids=(animal,))


def series(animal: str, values: Sequence[float], increments: Iterable[str] = ("0", "15", "120")) -> Experiment:
    given = tuple(
        SeriesValue(30, increment, None, str(value)) for increment, value in zip(increments, values, strict=True)
    )
    parameter = SeriesParameter(29, GLUCOSE, None, "mmol/l", given, None)
    done = element(Procedure, line=8, procedure_id=GLUCOSE[:-4], series=(parameter,))
    return experiment(done, experiment_id=f"G-{animal}", date=str(FIRST_DAY), specimen_ids=(animal,))


def name(number: int) -> str:
    return f"A{number}"


def animals(numbers: Iterable[int]) -> list[object]:
    """Females that are homozygous; every third is a wild type."""
    return [
        specimen(name(number), gender="female", zygosity="homozygous" if number % 3 else "wild type")
        for number in numbers
    ]


def submit_history(qc: Engine, centre: str = "H") -> None:
    """30 animals with a weight of 20 to 22.9 g and three values of glucose each, a week between one and the next."""
    submit(qc, Action.ADD, *animals(range(ANIMALS)), centre=centre)
    weights = [weighed(name(i), f"{20 + i / 10:.1f}", day=FIRST_DAY + timedelta(weeks=i % 4)) for i in range(ANIMALS)]
    submit(qc, Action.ADD, *weights, *(series(name(i), (5 + i / 10, 15 + i / 10, 6)) for i in range(30)), centre=centre)


def submit_new(qc: Engine, *experiments: Experiment, named: Sequence[str] = ()) -> None:
    """The zip action NEW: animals of these names, and experiments on them."""
    if named:
        females = [specimen(one, gender="female", zygosity="homozygous") for one in named]
        submit(qc, Action.ADD, *females, zip_file=NEW.file_name)
    submit(qc, Action.ADD, *experiments, zip_file=NEW.file_name)
