"""The rule by which values are marked as outliers (Tukey's outer fences)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

RANGES: Final = 3
"""A value is an outlier when it is more than so many interquartile ranges below the first or above the third quartile.

Quartiles, unlike mean and standard deviation, are not moved by a few wrong values. Of normally distributed values, one
in 425,000 is marked.
"""
LEAST_VALUES: Final = 20
"""Values that a group must have for any to be marked."""


@dataclass(frozen=True, slots=True)
class Box:
    """Quartiles of a group of `count` values, and the fences beyond which a value is an outlier.

    `low` and `high` are infinite where no value is marked: there are fewer than 20, or the quartiles are equal, so that
    any other value would be beyond them.
    """

    count: int
    first: float
    median: float
    third: float
    low: float
    high: float

    def outside(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Which of these values are outliers."""
        return (numbers < self.low) | (numbers > self.high)

    def ranges_from(self, number: float) -> float:
        """How many interquartile ranges a value is beyond the nearer quartile; 0 between them, or without a range."""
        width = self.third - self.first
        return max(self.first - number, number - self.third, 0.0) / width if width > 0 else 0.0


def box_of(numbers: Numbers) -> Box | None:
    """The box of a group; None where it has no values."""
    if not numbers.size:
        return None
    first, median, third = (float(each) for each in np.quantile(numbers, [0.25, 0.5, 0.75]))
    width = third - first
    marked = numbers.size >= LEAST_VALUES and width > 0
    low, high = (first - RANGES * width, third + RANGES * width) if marked else (-np.inf, np.inf)
    return Box(int(numbers.size), first, median, third, low, high)


def judging_box(*candidates: Numbers) -> Box | None:
    """The box that values are judged by: that of the first of these sets of values that has enough, 20.

    Without such a set, that of the last of them, by which none is marked. None where that has no values.
    """
    return box_of(next((numbers for numbers in candidates if numbers.size >= LEAST_VALUES), candidates[-1]))


def numbers_of(values: Any) -> Numbers:
    """The values as an array; beyond 1e100, which nothing measures and sums of which overflow, they are 1e100."""
    return np.clip(np.asarray(values, dtype=np.float64), -1e100, 1e100)
