"""Draws the plot: zkdeployment against the plain implementation, and convergence time by the size of the fleet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.results import CONVERGENCE, quantity
from pictures.drawing import Picture

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.results import Result

#: The left edge of the bars, and the length of the longest bar.
_LEFT, _LONGEST = 290, 270

#: The shortest time that a bar represents, in seconds.
_LEAST = 0.0005


def draw(results_by_benchmark: Mapping[str, Sequence[Result]], file: Path) -> None:
    """Write an SVG file."""
    picture = Picture(
        "speed",
        "Seconds of zkdeployment and of the plain way; convergence by the size of the fleet",
        "The same figures are in the table below.",
    )
    compared = [
        result
        for results in results_by_benchmark.values()
        for result in results
        if result.at_least and result.unit == "s"
    ]
    if compared:
        _draw_ratios(picture, compared)
    growth = sorted(
        (int(match.size.partition(" ")[0].replace(",", "")), match.value)
        for match in results_by_benchmark.get("convergence", ())
        if match.work == CONVERGENCE
    )
    if growth:
        _draw_growth(picture, growth)
    file.write_text(picture.svg(), encoding="utf-8")


def _draw_ratios(picture: Picture, results: Sequence[Result]) -> None:
    most = max(max(result.value, result.reference or 0) for result in results)

    def length(value: float) -> float:
        return max(2.0, round(_LONGEST * math.log(value / _LEAST) / math.log(most / _LEAST), 1))

    picture.box(_LEFT, 4, 12, 12, kind="solid", corner=2)
    picture.text(_LEFT + 18, 14, "zkdeployment", "small")
    picture.box(_LEFT + 120, 4, 12, 12, kind="pale", corner=2)
    picture.text(_LEFT + 138, 14, "the plain way (logarithmic scale)", "small")
    for number, result in enumerate(results):
        y = 32 + 44 * number
        picture.text(4, y + 12, result.work, "small")
        picture.text(4, y + 28, result.size, "small soft")
        for offset, value, kind in ((0, result.value, "solid"), (17, result.reference or 0, "pale")):
            picture.box(_LEFT, y + offset, length(value), 13, kind=kind, corner=2)
            picture.text(_LEFT + length(value) + 6, y + offset + 11, quantity(value, result.unit), "small soft")
        picture.text(716, y + 19, f"{result.ratio:,.0f} times faster", "strong small end")


def _draw_growth(picture: Picture, points: Sequence[tuple[int, float]]) -> None:
    top, height, left, right = picture.height + 50, 150, 60, 700
    (most_agents, _), most_seconds = points[-1], max(value for _, value in points)

    def place(agents: float, value: float) -> tuple[float, float]:
        return round(left + (right - left) * agents / most_agents, 1), round(
            top + height * (1 - value / most_seconds), 1
        )

    picture.text(4, top - 22, "Seconds until all agents on one machine converged, by their number", "strong")
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = place(most_agents * share, most_seconds * share)
        picture.stroke(f"M{left} {y}H{right}", "grid")
        picture.text(left - 8, y + 4, f"{most_seconds * share:.0f}", "small soft end")
        picture.text(x, top + height + 20, f"{most_agents * share:,.0f}", "small soft mid")
    curve = "L".join(f"{x} {y}" for x, y in (place(*point) for point in points))
    picture.stroke(f"M{curve}", "curve")
    for point in points:
        picture.circle(*place(*point), 4, "dot")
