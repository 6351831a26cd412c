"""What pictures are drawn from: which values, a sample of how many, and which of them are outliers."""

from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine

from dcc.errors import NotFoundError
from dcc.naming import Action
from dcc.outcomes import SubmissionKey
from dcc.qc.contexts.context_sums import build_contexts
from dcc.reports.languages import load_catalogue
from dcc.reports.plots.bars import MAX_WEEKS, count_weeks, draw_weeks
from dcc.reports.plots.distributions import groups_of
from dcc.reports.plots.selection import picture_of_parameter
from dcc.reports.plots.series import in_panels
from dcc.reports.plots.values import (
    Parameter,
    ParameterValues,
    Value,
    box_of,
    load_values,
    numbers_of,
    parameter_named,
    require_documents,
)
from dcc.reports.submissions.collecting import draw_pictures
from dcc.settings import Settings
from tests.support.asking import in_reading
from tests.support.databases import only_sqlite
from tests.support.plot_data import (
    ANIMALS,
    FIRST_DAY,
    GLUCOSE,
    NEW,
    WEIGHT,
    name,
    series,
    submit_history,
    submit_new,
    weighed,
)
from tests.support.qc_contexts import submit
from tests.support.qc_documents import specimen


def taken_of(connection: Connection, parameter_id: str = WEIGHT, **options: object) -> ParameterValues:
    given = {"key": NEW, "with_others": True, "limit": 1_000, "centre": "H", **options}
    parameter = parameter_named(connection, parameter_id)
    return load_values(connection, parameter, **given)  # type: ignore[arg-type]


def drawn(taken: ParameterValues) -> tuple[list[float], list[float]]:
    earlier, new = ([value.number for value in taken.own if value.is_new == is_new] for is_new in (False, True))
    return earlier, new


def test_what_a_submission_brought_is_told_from_what_was_there_before_it(qc_database: Engine) -> None:
    submit_history(qc_database)
    submit_new(qc_database, weighed("new", "21"), weighed(name(3), "22", day=FIRST_DAY.replace(day=9)), named=["new"])
    submit(qc_database, Action.ADD, weighed(name(4), "23", day=FIRST_DAY.replace(day=9)))
    with qc_database.connect() as connection:
        taken = taken_of(connection)
        earlier, new = drawn(taken)
        assert (len(earlier), new, taken.unit, taken.of) == (ANIMALS, [21, 22], "g", None)
        assert {(value.gender, value.zygosity) for value in taken.own if not value.is_new} == {
            ("female", "homozygous"),
            ("female", "wild type"),
        }
        assert len(drawn(taken_of(connection, key=None))[0]) == ANIMALS + 3


def test_what_a_submission_brought_of_another_centre_is_not_drawn_as_the_centre_s_own(qc_database: Engine) -> None:
    submit_new(qc_database, weighed("new", "21"), named=["new"])
    females = [specimen("other", gender="female", zygosity="homozygous")]
    submit(qc_database, Action.ADD, *females, zip_file=NEW.file_name, centre="J")
    submit(qc_database, Action.ADD, weighed("other", "99"), zip_file=NEW.file_name, centre="J")
    assert drawn(in_reading(qc_database, taken_of)) == ([], [21])
    assert drawn(in_reading(qc_database, taken_of, centre="J")) == ([], [99])


def test_only_current_valid_numbers_in_one_unit_are_drawn(qc_database: Engine) -> None:
    submit_history(qc_database)
    submit(qc_database, Action.EDIT, weighed(name(1), "25", day=FIRST_DAY + timedelta(weeks=1)))
    submit(qc_database, Action.ADD, weighed("A2", "99", day=FIRST_DAY.replace(day=3)), faulty=[1])
    submit(qc_database, Action.ADD, weighed("A3", "much", day=FIRST_DAY.replace(day=3)))
    submit(qc_database, Action.ADD, weighed("A4", "0.02", day=FIRST_DAY.replace(day=3), unit="kg"))
    taken = in_reading(qc_database, taken_of, key=None)
    numbers = drawn(taken)[0]
    assert len(numbers) == ANIMALS
    assert sorted(numbers)[-1] == 25
    assert 20.1 not in numbers
    assert taken.other_units == {"kg": 1}


def test_a_sample_is_as_large_of_an_old_archive_as_of_a_new_one_and_told_to_be_of_what_may_be_drawn(
    qc_database: Engine,
) -> None:
    """What was edited, came later than the submission, or has no number takes no place in it, and is not counted."""
    submit_history(qc_database)
    weeks = [FIRST_DAY + timedelta(weeks=i % 4) for i in range(ANIMALS)]
    for value in ("24", "25", "26"):
        submit(qc_database, Action.EDIT, *(weighed(name(i), value, day=day) for i, day in enumerate(weeks)))
    submit_new(qc_database, *(weighed(name(i), "27", day=FIRST_DAY.replace(day=10)) for i in range(ANIMALS)))
    for number in range(11, 24):
        later, value = FIRST_DAY.replace(day=number), "28" if number < 23 else "much"
        submit(qc_database, Action.ADD, *(weighed(name(i), value, day=later) for i in range(ANIMALS)))
    assert in_reading(qc_database, taken_of, key=None, limit=300).of == pytest.approx(14 * ANIMALS, rel=0.2)
    taken = in_reading(qc_database, taken_of, limit=24)
    earlier, new = drawn(taken)
    assert 18 <= len(earlier) < ANIMALS
    assert 18 <= len(new) < ANIMALS
    assert taken.of == pytest.approx(2 * ANIMALS, rel=0.2)


def test_other_centres_stand_beside_the_one_that_is_meant(qc_database: Engine) -> None:
    submit_history(qc_database)
    submit_history(qc_database, "J")
    groups = groups_of(in_reading(qc_database, taken_of, key=None)).groups
    shown = [(group.centre, group.zygosity, group.drawn.count) for group in groups]
    assert shown == [("H", "homozygous", 20), ("H", "wild type", 10), ("J", "homozygous", 20), ("J", "wild type", 10)]


@only_sqlite
def test_what_a_centre_is_sent_shows_nothing_of_other_centres(qc_database: Engine, settings: Settings) -> None:
    catalogue = load_catalogue("en", settings)
    submit_history(qc_database)
    submit_history(qc_database, "Wtsi")
    submit_new(qc_database, weighed("new", "25"), named=["new"])
    with qc_database.connect() as connection:
        sent = [
            *draw_pictures(connection, NEW, settings, catalogue, 3),
            *draw_pictures(connection, "H", settings, catalogue, 3),
        ]
        seen = draw_pictures(connection, "H", settings, catalogue, 3, with_others=True)
    assert len(sent) >= 4
    assert [picture.name for picture in sent if "Wtsi" in picture.svg + picture.alt + picture.caption] == []
    assert any("Wtsi" in picture.svg and "Wtsi" in picture.alt for picture in seen)


@pytest.mark.both_databases
def test_there_is_no_picture_of_what_is_not_there(qc_database: Engine, settings: Settings) -> None:
    catalogue = load_catalogue("en", settings)
    with qc_database.connect() as connection:
        with pytest.raises(NotFoundError, match="no current, valid number of parameter"):
            picture_of_parameter(connection, catalogue, centre="H", parameter_id=WEIGHT)
        with pytest.raises(NotFoundError, match="no current, valid experiment"):
            draw_weeks(connection, catalogue, centre="H")
        with pytest.raises(NotFoundError, match=r"Nothing of add/H\."):
            require_documents(connection, NEW)
        assert draw_pictures(connection, NEW, settings, catalogue, 3) == ()
        assert draw_pictures(connection, "H", settings, catalogue, 3) == ()


def test_a_value_far_beyond_the_quartiles_is_an_outlier() -> None:
    box = box_of(numbers_of(range(1, 102)))
    assert (box.first, box.median, box.third, box.low, box.high) == (26, 51, 76, -124, 226)
    assert box.outside(numbers_of([-125, -124, 226, 226.5])).tolist() == [True, False, False, True]
    assert box.ranges_from(176) == 2
    # Of few values, or of those without a range, none is.
    for values in ([*range(19)], [1.0] * 80 + [2.0, 50.0]):
        box = box_of(numbers_of(values))
        assert not box.outside(numbers_of([-1e9, 1e9])).any()


def made(number: int, value: float, **changes: object) -> Value:
    one = Value(number, value, "g", "female", "homozygous", f"S{number}", number, None, None, "H")
    return one._replace(**changes)


def test_a_small_group_is_judged_by_its_centre_and_else_by_all() -> None:
    males = [made(i, 10 + i % 5, gender="male") for i in range(30)]
    new = [made(100, 40, is_new=True), made(101, 12, is_new=True)]
    alone = ParameterValues(Parameter(WEIGHT, WEIGHT, ""), "H", NEW, "g", [*males, *new], {}, None)
    assert groups_of(alone).marked(new=True) == 1
    elsewhere = [value._replace(centre="J") for value in males]
    few = ParameterValues(Parameter(WEIGHT, WEIGHT, ""), "H", NEW, "g", [*new, *elsewhere], {}, None)
    assert groups_of(few).marked(new=True) == 1


def test_series_are_lines_beside_the_quartiles_of_earlier_ones(qc_database: Engine) -> None:
    submit_history(qc_database)
    submit_new(qc_database, series("new", (6, 99, 6.5)), named=["new"])
    found = in_panels(in_reading(qc_database, taken_of, GLUCOSE, with_others=False))
    (panel,) = found.panels
    assert [step.x for step in panel.steps] == [0, 15, 120]
    assert [step.earlier.count for step in panel.steps if step.earlier] == [30, 30, 30]
    (line,) = panel.lines
    assert (line.specimen_id, line.y.tolist(), line.is_outlier.tolist()) == ("new", [6, 99, 6.5], [False, True, False])
    assert not found.is_place


def test_experiments_are_counted_by_week(qc_database: Engine) -> None:
    submit_history(qc_database)
    submit_new(qc_database, weighed("new", "21", day=FIRST_DAY.replace(day=22)), named=["new"])
    submit(qc_database, Action.ADD, weighed("A1", "21", day=FIRST_DAY.replace(year=2020)))
    counted = in_reading(qc_database, count_weeks, "H", NEW)
    later = in_reading(qc_database, count_weeks, "H", None)
    weights = [8, 8, 7, 7]
    assert [(week.first, week.earlier, week.new) for week in counted.weeks] == [
        (FIRST_DAY.replace(day=day), number + (30 if day == 1 else 0), int(day == 22))
        for day, number in zip((1, 8, 15, 22), weights, strict=True)
    ]
    assert (counted.outside, len(later.weeks), later.outside) == (0, MAX_WEEKS, 1)


@only_sqlite
def test_the_most_telling_pictures_come_first_and_no_more_than_asked_for(
    qc_database: Engine, settings: Settings
) -> None:
    catalogue = load_catalogue("en", settings)
    submit_history(qc_database)
    other = [weighed(name(i), str(i), parameter_id="IMPC_XYZ_001_001") for i in range(ANIMALS)]
    submit(qc_database, Action.ADD, *other)
    news = [weighed("new", "1000"), weighed("new", "40", parameter_id="IMPC_XYZ_001_001"), series("new", (6, 16, 6))]
    submit_new(qc_database, *news, named=["new"])
    pictures = in_reading(qc_database, draw_pictures, NEW, settings, catalogue, 12)
    few = in_reading(qc_database, draw_pictures, NEW, settings, catalogue, 1)
    of_centre = in_reading(qc_database, draw_pictures, "H", settings, catalogue, 3)
    build_contexts(qc_database)
    by_contexts = in_reading(qc_database, draw_pictures, "H", settings, catalogue, 3)
    none = SubmissionKey(Action.ADD, "none.zip")
    assert in_reading(qc_database, draw_pictures, none, settings, catalogue, 12) == ()
    assert [(picture.name, picture.outliers) for picture in pictures] == [
        (f"distribution-H-{WEIGHT}", 1),
        ("distribution-H-IMPC_XYZ_001_001", 0),
        (f"series-H-{GLUCOSE}", 0),
        ("weeks-H", 0),
    ]
    assert [picture.name for picture in few] == [f"distribution-H-{WEIGHT}"]
    assert [picture.name for picture in of_centre] == [picture.name for picture in by_contexts]
    assert [picture.name for picture in of_centre] == [f"distribution-H-{WEIGHT}", f"series-H-{GLUCOSE}", "weeks-H"]
    assert "One of them is an outlier: new 1,000." in pictures[0].alt
