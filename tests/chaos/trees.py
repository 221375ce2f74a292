"""The trees that operators push in a round of chaos: values, and changes of them by chance. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chaos.systems import SystemPlan
from support.strategies import canary_first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

#: How many services there are, and the versions of their packages and of the role controller.
SERVICES = 3
VERSIONS = ("1.0", "2.0")

#: A version that no repository has.
MISSING_VERSION = "9.9"

#: The names of the packages of the services, and of the role controller.
PACKAGES = tuple(f"app{number}" for number in range(SERVICES))
CONTROLLER = "ctl"

#: The role of the last hosts.
ROLE = "edge"

#: What no tree file may contain.
SYNTAX_ERROR = "/broken\n  version =\n"


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A service: its version, the number of instances by target, and its property text.

    ``after`` are the numbers of the services that it is deployed after.
    """

    version: str
    targets: Mapping[str, int]
    text: str = "0"
    reruns: bool = True
    undeploys_last: bool = False
    after: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A tree: services by number, the version of the controller of ``ROLE``, and the strategy's document.

    ``systems`` are the system nodes by name.
    """

    services: Mapping[int, ServicePlan] = field(default_factory=dict)
    controller: str | None = None
    strategy: str | None = None
    systems: Mapping[str, SystemPlan] = field(default_factory=dict)

    def with_service(self, number: int, service: ServicePlan | None) -> TreePlan:
        """Return the plan with another service of this number, or without it."""
        services = {**self.services} | ({} if service is None else {number: service})
        if service is None:
            services.pop(number, None)
        return replace(self, services=services)


def hosts_of_role(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the hosts that have ``ROLE``: two of five."""
    return hosts[len(hosts) - len(hosts) * 2 // 5 :]


def first_plan(chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with all services, a controller, and the operating systems that hosts are installed with."""
    services = {number: _new_service(chance, hosts) for number in range(SERVICES)}
    return TreePlan(services, chance.choice(VERSIONS), systems=_installed_systems(hosts))


def changed_plan(plan: TreePlan, chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with a change, and without versions that are missing."""
    changed = repaired_plan(plan)
    for _ in range(chance.choice([1, 1, 2])):
        if chance.random() < 1 / 8:
            changed = replace(changed, controller=chance.choice([*VERSIONS, None]))
            continue
        if chance.random() < 1 / 3:
            name = chance.choice([*changed.systems])
            changed = replace(changed, systems={**changed.systems, name: changed.systems[name].changed(chance)})
            continue
        number = chance.randrange(SERVICES)
        service = changed.services.get(number)
        kind = chance.choice(
            ["version", "targets", "targets", "text", "text", "properties", "properties", "remove"]
        )
        if service is None:
            changed = changed.with_service(number, _new_service(chance, hosts))
        elif kind != "remove":
            changed = changed.with_service(number, _changed_service(service, kind, chance, hosts))
        elif len(changed.services) > 1:
            changed = changed.with_service(number, None)
    return changed


def repaired_plan(plan: TreePlan) -> TreePlan:
    """Return a plan whose packages all exist."""
    for number, service in plan.services.items():
        if service.version == MISSING_VERSION:
            plan = plan.with_service(number, replace(service, version=VERSIONS[0]))
    return plan


def spoilt_plan(plan: TreePlan, chance: Random) -> TreePlan:
    """Return a plan with a version that no repository has."""
    number = chance.choice([*plan.services])
    return plan.with_service(number, replace(plan.services[number], version=MISSING_VERSION))


def strategic_plan(plan: TreePlan, chance: Random, hosts: tuple[str, ...]) -> TreePlan:
    """Return a plan with another strategy, or without one."""
    strategy = None
    if chance.random() < 0.7:
        canary = chance.choice(hosts)
        rest = {
            "critical": chance.choice([True, False]),
            "max_parallel": chance.choice([1, 2, 5]),
            "success_criteria": {"maximum_failed_nodes": chance.choice([0, 1, 5])},
        }
        strategy = canary_first({"node_names": [canary]}, rest)
    return replace(changed_plan(plan, chance, hosts), strategy=strategy)


def text_of(plan: TreePlan) -> str:
    """Return the tree's file: the nodes that were published once are in it, with or without a service."""
    lines: list[str] = []
    for number in range(SERVICES):
        lines += [f"/s{number}", *(_service_lines(plan, number) if number in plan.services else ())]
    lines.append("/roles")
    if plan.controller is not None:
        lines += [f"  /{ROLE} : {CONTROLLER}", f"    version = '{plan.controller}'"]
    lines.append("/os")
    for name, system in plan.systems.items():
        lines += system.lines(name)
    return "\n".join(lines) + "\n"


def path_of(number: int) -> str:
    """Return the path of a service."""
    return f"/s{number}/app"


def _service_lines(plan: TreePlan, number: int) -> Iterator[str]:
    service = plan.services[number]
    yield f"  /app : {PACKAGES[number]}"
    properties: dict[str, object] = {"version": service.version, "text": service.text}
    if not service.reruns:
        properties["rerun"] = "changed"
    if plan.strategy is None:  # a strategy has its own order
        if service.undeploys_last:
            properties["undeploy"] = "last"
        if after := _awaited(plan, number):
            properties["deploy_after"] = after
    yield from (f"    {name} = {value!r}" for name, value in properties.items())
    yield "    /deploy"
    for target, count in sorted(service.targets.items()):
        yield from (f"      /{target}", f"        n = {count}")


def _awaited(plan: TreePlan, number: int) -> list[str]:
    """Return the paths of the services that one waits for.

    They are earlier ones. All services in a bracket wait together: only the last service may wait for these, and
    only if it is in no bracket. Therefore there is no circle.
    """
    may_await = number == SERVICES - 1 and not _has_bracket(plan, number)
    return [
        path_of(awaited)
        for awaited in sorted(plan.services[number].after & plan.services.keys())
        if awaited < number and (may_await or not _has_bracket(plan, awaited))
    ]


def _has_bracket(plan: TreePlan, number: int) -> bool:
    """Whether hosts with a controller deploy a service."""
    return plan.controller is not None and ROLE in plan.services[number].targets


def _installed_systems(hosts: tuple[str, ...]) -> dict[str, SystemPlan]:
    """Return a system node for the hosts with a role, and one for the others."""
    with_role = hosts_of_role(hosts)
    systems = {"plain": SystemPlan(tuple(host for host in hosts if host not in with_role))}
    return systems | ({ROLE: SystemPlan((ROLE,))} if with_role else {})


def _new_service(chance: Random, hosts: tuple[str, ...]) -> ServicePlan:
    return _with_properties(ServicePlan(chance.choice(VERSIONS), _targets(chance, hosts)), chance)


def _changed_service(service: ServicePlan, kind: str, chance: Random, hosts: tuple[str, ...]) -> ServicePlan:
    match kind:
        case "version":
            return replace(service, version=chance.choice(VERSIONS))
        case "targets":
            return replace(service, targets=_targets(chance, hosts))
        case "text":
            return replace(service, text=str(chance.randrange(1_000_000)))
    return _with_properties(service, chance)


def _with_properties(service: ServicePlan, chance: Random) -> ServicePlan:
    return replace(
        service,
        reruns=chance.random() < 0.5,
        undeploys_last=chance.random() < 0.5,
        after=frozenset(chance.sample(range(SERVICES), chance.choice([0, 2]))),
    )


def _targets(chance: Random, hosts: tuple[str, ...]) -> dict[str, int]:
    with_role = hosts_of_role(hosts)
    plain = [host for host in hosts if host not in with_role]
    chosen = chance.sample(plain, chance.randint(1, len(plain)))
    if with_role and chance.random() < 0.4:
        chosen.append(ROLE)
    return {name: chance.choice([1, 1, 2]) for name in chosen}
