"""The check documents of simulated trees, and the checks that follow from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.source_files import SourceFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from simulation.repository import Commit
    from zkdeployment.base.host import Identity

#: The monitoring systems with their callbacks; one without a callback polls.
SYSTEMS = {"nagios1": "http://nagios1.example.com/poke", "nagios2": None}

#: The check of all services. Each other check concerns the top-level node with its name.
_ALIVE = "alive"

_INTERVALS = (10, 60)


@dataclass(frozen=True)
class PlannedCheck:
    """A check as a tree has it: its monitoring system, and its interval in seconds."""

    system: str
    interval: int


@dataclass(frozen=True)
class CheckPlan:
    """The checks of a tree by name."""

    checks: Mapping[str, PlannedCheck]

    @classmethod
    def first(cls, chance: Random) -> CheckPlan:
        """Return the checks of a first tree."""
        return cls({_ALIVE: _new_check(chance)})

    def changed(self, chance: Random, services: int) -> CheckPlan:
        """Return these checks with another one, without one of them, or with other values of one of them."""
        name = chance.choice([_ALIVE, *(f"s{number}" for number in range(services))])
        others = {key: check for key, check in self.checks.items() if key != name}
        is_removed = name in self.checks and name != _ALIVE and chance.random() < 0.5
        return CheckPlan(others if is_removed else {**others, name: _new_check(chance)})

    @property
    def file(self) -> SourceFile:
        """The documents of the checks and of all monitoring systems."""
        documents = [
            {
                "schema": "zkdeployment/MonitoringSystem/v1",
                "metadata": {"name": name},
                "data": {} if callback is None else {"callback": callback},
            }
            for name, callback in SYSTEMS.items()
        ]
        documents += [
            {
                "schema": "zkdeployment/CheckConfiguration/v1",
                "metadata": {"name": name},
                "data": {
                    "object": "/" if name == _ALIVE else f"/{name}",
                    "monitoring": check.system,
                    "interval": check.interval,
                    "check": {"command": "check_version", "arguments": ["{property.version}", "{host.id}"]},
                },
            }
            for name, check in self.checks.items()
        ]
        return SourceFile("checks.yaml", "".join(f"---\n{json.dumps(each)}\n" for each in documents).encode())

    def concerning(self, path: str) -> Iterator[tuple[str, PlannedCheck]]:
        """Yield the checks of a service with their names."""
        for name, check in self.checks.items():
            if name == _ALIVE or path.startswith(f"/{name}/"):
                yield name, check


@dataclass(frozen=True)
class WantedCheck:
    """A check of one deployment on one host: what identifies it, and what it has to run."""

    name: str
    path: str
    number: int
    host: str
    version: str
    planned: PlannedCheck


def wanted_checks(commit: Commit, identity: Identity) -> Iterator[WantedCheck]:
    """Yield the checks that a revision wants on a host."""
    if commit.checks is None:
        return
    for assignment in commit.wanted(identity).assignments:
        for name, planned in commit.checks.concerning(assignment.path):
            for number in range(assignment.n):
                yield WantedCheck(name, assignment.path, number, identity.id, assignment.version, planned)


def _new_check(chance: Random) -> PlannedCheck:
    return PlannedCheck(chance.choice(list(SYSTEMS)), chance.choice(_INTERVALS))
