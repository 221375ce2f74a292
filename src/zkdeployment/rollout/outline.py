"""The outline of a rollout: what an agent reads of the state that ``state_json`` encodes.

Agents that follow a rollout, or wait for the hosts in it, do not need the strategy and the state machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zkdeployment.rollout.host_numbers import hosts_in, values_by_host

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RolloutOutline:
    """The hosts of a rollout by their progress.

    ``failures`` are the errors of the hosts that failed. ``under_way`` are the members of the group that runs a
    phase; ``None`` between two groups. ``ended_well``: the rollout has completed without stopping the fleet.
    """

    sequence: int
    succeeded: frozenset[str] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)
    under_way: frozenset[str] | None = None
    late_joiners: frozenset[str] = frozenset()
    ended_well: bool = False


def outline_from_json(value: object) -> RolloutOutline:
    """Return the outline of an encoded state; raises ``ValueError`` for anything else."""
    try:
        return _outline(value)
    except (TypeError, KeyError, IndexError, AttributeError) as error:
        raise ValueError(f"not a valid rollout: {type(error).__name__}: {error}") from error


def _outline(value: Any) -> RolloutOutline:
    hosts: list[str] = value["hosts"]
    progress = dict(zip(hosts, value["states"], strict=True))
    errors = values_by_host(hosts, value["errors"])
    failures = {host: str(errors.get(host, "the host failed")) for host, state in progress.items() if state == "f"}
    under_way = None
    if (active := value["stage"]) is not None:
        under_way = frozenset(hosts_in(hosts, value["members"][active["group"]]))
        reports = [(str(error), text) for _, error, text in active["reports"] if error is not None]
        failures |= values_by_host(hosts, reports)
    return RolloutOutline(
        sequence=int(value["sequence"]),
        succeeded=frozenset(host for host, state in progress.items() if state == "s"),
        failures=failures,
        under_way=under_way,
        late_joiners=frozenset(values_by_host(hosts, value["late"])),
        ended_well=value["ended"] is not None and value["ending"] == "completed" and not _critical_failed(value),
    )


def _critical_failed(value: Any) -> bool:
    """Whether a critical group failed, which stopped the fleet."""
    critical = [group["name"] for group in value["strategy"]["data"]["groups"] if group["critical"]]
    return any("failed" in value["courses"][name]["verdicts"].values() for name in critical)
