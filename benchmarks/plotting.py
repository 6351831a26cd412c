"""Plots in SVG of how something grows: both axes logarithmic, so that what is linear has a slope of one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Final
from xml.sax.saxutils import escape

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 640, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 250, 40, 50
_COLOURS: Final = ("#1b6ca8", "#c1440e", "#2f8f4e", "#7b4fa3", "#8a6d1d")


def exponent(points: Points) -> float:
    """The power by which the second number of points grows with the first: the slope of a line fitted to logarithms.

    All numbers are positive, and at least two of the first ones differ.
    """
    across, up = ([math.log(value) for value in values] for values in zip(*points, strict=True))
    return linear_regression(across, up).slope


def log_log_plot(title: str, across: str, up: str, series: Mapping[str, Points]) -> str:
    """An SVG document: a line for each of `series`, by its name, with `across` and `up` as what the axes measure."""
    points = [point for line in series.values() for point in line]
    x_axis, y_axis = _Axis([x for x, _ in points], _LEFT, _WIDTH), _Axis([y for _, y in points], _HEIGHT, _TOP)
    width, height = _WIDTH + _RIGHT, _HEIGHT + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{(_LEFT + _WIDTH) // 2}" y="{height - 10}" text-anchor="middle">{escape(across)}</text>',
        f'<text x="14" y="{(_TOP + _HEIGHT) // 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(_TOP + _HEIGHT) // 2})">{escape(up)}</text>',
    ]
    for value in x_axis.marks():
        at = x_axis.place(value)
        parts.append(f'<path d="M{at:.1f} {_TOP} V{_HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{_HEIGHT + 18}" text-anchor="middle">{value:,g}</text>')
    for value in y_axis.marks():
        at = y_axis.place(value)
        parts.append(f'<path d="M{_LEFT} {at:.1f} H{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(x_axis.place(x), y_axis.place(y)) for x, y in line]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{corners}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        parts.append(f'<text x="{_WIDTH + 12}" y="{_TOP + 18 * number + 10}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """An axis over whole powers of ten, between two places of the picture."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self._low, self._high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self._high = max(self._high, self._low + 1)
        self._first, self._last = first, last

    def marks(self) -> list[float]:
        """The powers of ten on it."""
        return [10.0**power for power in range(self._low, self._high + 1)]

    def place(self, value: float) -> float:
        """Where a value is."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)
