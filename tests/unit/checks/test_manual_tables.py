"""The manual has the table of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.manual import MANUAL
from zkdeployment.checks.rules.workflow import WORKFLOW, CheckEffect, CheckGuard

if TYPE_CHECKING:
    from zkdeployment.checks.rules.workflow import CheckStep


def workflow_table() -> str:
    """Return the workflow as a list table: what each event does in which states."""
    states: dict[tuple[str, str], list[str]] = {}
    for (state, event), step in WORKFLOW.items():
        states.setdefault((event.value, _outcome(step)), []).append(f"``{state.value}``")
    rows = [(event, ", ".join(at), outcome) for (event, outcome), at in states.items()]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in (("event", "states", "outcome"), *rows):
        lines += [f"   {'* -' if not number else '  -'} {cell}" for number, cell in enumerate(row)]
    return "\n".join(lines) + "\n"


def _outcome(step: CheckStep) -> str:
    state = "the version is gone" if step.state is None else f"``{step.state.value}``"
    effects = "".join(f"; {effect.value}" for effect in CheckEffect if effect in step.effects)
    guards = " and ".join(guard.value for guard in CheckGuard if guard in step.guards)
    return state + effects + (f", if {guards}" if guards else "")


def test_the_manual_has_the_workflow_of_the_code():
    assert workflow_table() in (MANUAL / "reference" / "check-workflow.rst").read_text(encoding="utf-8")
