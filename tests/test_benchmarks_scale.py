"""The model of larger installations is held against sizes that it has not seen."""

from __future__ import annotations

from typing import Any

from benchmarks.scale_model import fitted, scale_model


def step(archives: int, cpu: float, tracker: float = 1.0, qc: float = 1.0) -> dict[str, Any]:
    return {"archives": archives, "cpu": cpu, "megabytes": (tracker, qc)}


NONE = step(0, 0.5, 1.0, 2.0)
KNOWN = [step(1_000, 1.02), step(10_000, 1.2)]
NEW = [NONE, step(100, 1.5, 1.5, 5.0), step(1_000, 10.5, 6.0, 32.0)]


def test_costs_come_from_all_sizes_but_the_largest() -> None:
    costs = fitted([*KNOWN, step(100_000, 99.0)], [*NEW, step(10_000, 999.0)])
    assert [round(cost, 6) for cost in (costs.start, costs.listed, costs.taken, costs.tracker, costs.qc)] == [
        1.0,
        0.00002,
        0.01,
        0.005,
        0.03,
    ]
    assert round(costs.session(100_000, 10), 3) == 3.1


def test_one_size_that_is_a_tenth_of_a_second_off_does_not_move_the_cost_of_what_is_known_by_a_third() -> None:
    sizes = [step(1_000, 1.02), step(10_000, 1.3), step(30_000, 1.6)]
    costs = fitted([*sizes, step(100_000, 3.0)], NEW)
    assert abs(costs.listed - 0.00002) < 0.000002
    assert abs(costs.session(100_000, 0) - 3.0) < 0.1


def test_sizes_that_the_model_foresees_agree_with_it_and_others_do_not() -> None:
    agreeing = scale_model([*KNOWN, step(100_000, 3.0)], [*NEW, step(10_000, 100.5)])
    assert [figure.met for figure in agreeing.figures] == [True, True]
    assert "3.00 s foreseen, 3.00 s measured" in agreeing.figures[0].name
    assert "| 1,000 centres | 1,000 | 10,000,000 | 6,000 | 201.0 | 1.0 | 50.0 | 300.0 | 1.16 |" in agreeing.text
    growing_faster = scale_model([*KNOWN, step(100_000, 30.0)], [*NEW, step(10_000, 1_000.0)])
    assert [figure.met for figure in growing_faster.figures] == [False, False]
