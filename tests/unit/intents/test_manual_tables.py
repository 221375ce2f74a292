"""The manual has the tables of the code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zkdeployment.intents.rules.instances import LIFE_CYCLE, IntentEffect, LifeCycleStep
from zkdeployment.intents.rules.reality import CLUSTER_RULES, RSYNC_RULES

if TYPE_CHECKING:
    from collections.abc import Sequence


def life_cycle_table() -> str:
    """Return the life cycle as a list table: what each act does in which states."""
    states: dict[tuple[str, str], list[str]] = {}
    for (state, act), step in LIFE_CYCLE.items():
        states.setdefault((act.value, _outcome(step)), []).append(state.value)
    return _table(
        ("act", "states", "outcome"), [(act, ", ".join(at), outcome) for (act, outcome), at in states.items()]
    )


def status_tables() -> str:
    """Return both tables of statuses; of the first one the first row that holds decides."""
    rsync = [(f"``{status.value}``", text) for status, text, _ in RSYNC_RULES]
    cluster = [(f"``{status.value}``", text) for status, text in CLUSTER_RULES.values()]
    return "\n".join((_table(("rsync-status", "when"), rsync), _table(("cluster-status", "when"), cluster)))


def _outcome(step: LifeCycleStep | str) -> str:
    if isinstance(step, str):
        return f"refused: {step}"
    state = "the intent is gone" if step.state is None else f"*{step.state.value}*"
    effects = "".join(f"; {effect.value}" for effect in IntentEffect if effect in step.effects)
    return state + effects + ("" if step.guard is None else f", if {step.guard.value}")


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (headings, *rows):
        lines += [f"   {'* -' if not number else '  -'} {cell}" for number, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


PAGE = Path(__file__).parents[3] / "etc" / "manual" / "intents.rst"


@pytest.mark.parametrize("table", [life_cycle_table(), status_tables()])
def test_the_manual_has_the_table_of_the_code(table):
    assert table in PAGE.read_text(encoding="utf-8")
