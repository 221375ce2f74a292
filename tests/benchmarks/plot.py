"""The plot: what the aims are about, and how convergence grows with the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.results import CONVERGENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from benchmarks.results import Result


def draw(found: Mapping[str, Sequence[Result]], file: Path) -> None:
    """Write an SVG file."""
    mpl.rcParams["svg.hashsalt"] = "zkdeployment"  # the same results are the same file
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["font.size"] = 9
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_ratios(left, [one for results in found.values() for one in results if one.at_least])
    _draw_growth(right, [one for one in found.get("convergence", ()) if one.work == CONVERGENCE])
    figure.savefig(file, format="svg", metadata={"Date": None})


def _draw_ratios(axes: Axes, results: Sequence[Result]) -> None:
    places = range(len(results))
    axes.barh([place + 0.2 for place in places], [one.reference for one in results], 0.4, label="node by node")
    axes.barh([place - 0.2 for place in places], [one.value for one in results], 0.4, label="zkdeployment")
    for place, one in zip(places, results, strict=True):
        axes.text(one.value * 1.15, place - 0.2, f"{one.ratio:,.0f} times faster", va="center", fontsize=8)
    axes.set_yticks(list(places), [f"{one.work}\n{one.size}" for one in results], fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds")
    axes.legend(loc="lower right", fontsize=7)


def _draw_growth(axes: Axes, results: Sequence[Result]) -> None:
    points = sorted((int(one.size.partition(" ")[0].replace(",", "")), one.value) for one in results)
    axes.plot([agents for agents, _ in points], [value for _, value in points], marker="o")
    axes.set_title("agents on one machine converge on a revision", fontsize=9)
    axes.set_xlabel("agents")
    axes.set_ylabel("seconds")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
