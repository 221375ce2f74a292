"""The trees that operators push in a round of chaos: changes of a plan by chance, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.repository import MISSING_VERSION, ServicePlan, TreePlan

if TYPE_CHECKING:
    from random import Random

#: How many services there are, and the versions of their packages.
SERVICES = 3
VERSIONS = ("1.0", "2.0")

#: The name of the package of each service.
PACKAGES = tuple(f"app{number}" for number in range(SERVICES))

#: What no tree file may contain.
SYNTAX_ERROR = "/broken : : version = \n"

_STRATEGY = """\
schema: shipyard/DeploymentStrategy/v1
metadata: {{schema: metadata/Document/v1, name: deployment-strategy}}
data:
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{{node_names: [{canary}]}}]
      success_criteria: {{percent_successful_nodes: 100}}
    - name: rest
      critical: {critical}
      depends_on: [canary]
      selectors: []
      max_parallel: {parallel}
      success_criteria: {{maximum_failed_nodes: {tolerated}}}
"""


def changed_plan(plan: TreePlan, chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with a change, and without versions that are missing."""
    changed = repaired_plan(plan)
    for _ in range(chance.choice([1, 1, 2])):
        number = chance.randrange(SERVICES)
        service = changed.services.get(number)
        kind = chance.choice(["version", "targets", "text", "text", "remove"])
        if service is None:
            changed.services[number] = ServicePlan(chance.choice(VERSIONS), _targets(chance, hosts))
        elif kind == "version":
            service.version = chance.choice(VERSIONS)
        elif kind == "targets":
            service.targets = _targets(chance, hosts)
        elif kind == "text" or len(changed.services) == 1:
            service.text = str(chance.randrange(1_000_000))
        else:
            del changed.services[number]
    return changed


def first_plan(chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with all services."""
    return TreePlan(
        {number: ServicePlan(chance.choice(VERSIONS), _targets(chance, hosts)) for number in range(SERVICES)}
    )


def repaired_plan(plan: TreePlan) -> TreePlan:
    """Return a plan whose packages all exist."""
    repaired = plan.copy()
    for service in repaired.services.values():
        if service.version == MISSING_VERSION:
            service.version = VERSIONS[0]
    return repaired


def spoilt_plan(plan: TreePlan, chance: Random) -> TreePlan:
    """Return a plan with a version that no repository has."""
    spoilt = plan.copy()
    chance.choice(list(spoilt.services.values())).version = MISSING_VERSION
    return spoilt


def strategic_plan(plan: TreePlan, chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with another strategy, or without one."""
    changed = changed_plan(plan, chance, hosts)
    changed.strategy = None
    if chance.random() < 0.7:
        changed.strategy = _STRATEGY.format(
            canary=chance.choice(hosts),
            critical=chance.choice(["true", "false"]),
            parallel=chance.choice([1, 2, 5]),
            tolerated=chance.choice([0, 1, 5]),
        )
    return changed


def text_of(plan: TreePlan) -> str:
    """Return the tree's file: what was published once is in it, with or without a service."""
    return plan.render(range(SERVICES))


def _targets(chance: Random, hosts: tuple[str, ...]) -> dict[str, int]:
    chosen = chance.sample(hosts, chance.randint(1, max(2, len(hosts) - 1)))
    return {name: chance.choice([1, 1, 2]) for name in chosen}
