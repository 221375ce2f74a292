"""What hosts would do if a tree were published: the planner's plans, from what each host told that it has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError, LinkError, TreeError
from zkdeployment.model.host import Host, Identity
from zkdeployment.model.inventory import absent_hosts
from zkdeployment.model.plan import Deploy, Plan
from zkdeployment.planning.order import Order  # noqa: TC001  the field type of a public dataclass
from zkdeployment.planning.plan_text import action, describe, sentence
from zkdeployment.planning.planner import is_repetition, plan
from zkdeployment.planning.services import services
from zkdeployment.planning.targets import wanted_for
from zkdeployment.rollout.changes import StrategyChange
from zkdeployment.tree.diff import apply_change, stored_alike
from zkdeployment.tree.links import resolved_properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.model.cluster import Revision
    from zkdeployment.model.inventory import Inventory, KnownHost
    from zkdeployment.model.publication import Targets, TreeChange
    from zkdeployment.model.tree import Tree, Value


class Outlook(Enum):
    """What becomes of a host."""

    FAILS = "fails"  # its agent would refuse
    CHANGES = "changes"
    UNKNOWN = "unknown"  # nobody can say
    REPEATS = "repeats"  # it runs again what it has, as for every revision
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class HostForecast:
    """What one host would do. ``reason`` says why that is unknown, or why its agent would refuse.

    ``absent``: it is not registered, so it would do so when it comes back.
    """

    identity: Identity
    outlook: Outlook
    plan: Plan = Plan()  # noqa: RUF009  it cannot be changed
    reason: str = ""
    absent: bool = False

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Its steps in words, each with its script and its lock; hosts of equal lines do the same."""
        return tuple((sentence(step), action(step, self.plan.controller)) for step in self.plan.steps)

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "id": self.identity.id,
            "name": self.identity.name,
            "role": self.identity.role,
            "outlook": self.outlook.value,
            "absent": self.absent,
            "reason": self.reason or None,
            "steps": describe(self.plan),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a tree would change, and what hosts would do; ``revision`` is ``None`` for files of no revision.

    ``partial``: only hosts that were asked for are in it. ``strategy`` is what changes in how hosts take it up,
    ``order`` when they do, if not as they come.
    """

    revision: Revision | None
    change: TreeChange
    hosts: tuple[HostForecast, ...]
    partial: bool = False
    strategy: StrategyChange = StrategyChange()  # noqa: RUF009  it cannot be changed
    order: Order | None = None

    def by(self, strategy: StrategyChange, order: Order | None) -> Forecast:
        """Return it with what a strategy makes of it."""
        hosts = {host.identity.id for host in self.hosts}
        shown = order if order is None or not self.partial else order.only(hosts)
        return replace(self, strategy=strategy, order=shown)

    def those(self, outlook: Outlook) -> tuple[HostForecast, ...]:
        """Return the hosts of one outlook."""
        return tuple(host for host in self.hosts if host.outlook is outlook)

    @property
    def changes(self) -> bool:
        """Whether anything changes, or may: with the tree a host of which nothing is known."""
        tree = bool(self.change or self.strategy) and (not self.partial or bool(self.those(Outlook.UNKNOWN)))
        return tree or bool(self.those(Outlook.CHANGES) or self.those(Outlook.FAILS))

    @property
    def summary(self) -> str:
        """It in one sentence."""
        change = self.change
        nodes = ((change.create, "added"), (change.update, "changed"), (change.delete, "deleted"))
        tree = ", ".join(f"{len(some)} {what}" for some, what in nodes if some)
        counts = [(len(self.those(outlook)), words) for outlook, words in _COUNTED.items()]
        hosts = ", ".join(f"{number} {words}" for number, words in counts if number)
        strategy = f"; strategy: {self.strategy.kind}" if self.strategy else ""
        return f"hosts: {hosts or 'none'}; nodes of the tree: {tree or 'no change'}{strategy}"

    def groups(self, outlook: Outlook) -> list[tuple[HostForecast, ...]]:
        """Return the hosts of an outlook that do the same together, the largest group first."""
        found: dict[object, list[HostForecast]] = {}
        for host in self.those(outlook):
            found.setdefault((host.lines, host.reason), []).append(host)
        return sorted(map(tuple, found.values()), key=len, reverse=True)

    def to_json(self) -> dict[str, Value]:
        """Return it as ``-o json`` prints it."""
        return {
            "revision": self.revision,
            "changes": self.changes,
            "summary": self.summary,
            "tree": {
                "create": [*sorted(self.change.create)],
                "update": [*sorted(self.change.update)],
                "delete": [*sorted(self.change.delete)],
            },
            "hosts": [host.to_json() for host in self.hosts],
            "strategy": self.strategy.to_json() if self.strategy else None,
            "order": None if self.order is None else self.order.to_json(),
        }


_COUNTED = {
    Outlook.FAILS: "would fail",
    Outlook.CHANGES: "change",
    Outlook.UNKNOWN: "unknown",
    Outlook.REPEATS: "run again what they have",
    Outlook.NOTHING: "do nothing",
}


def forecast(  # noqa: PLR0913  each is one fact
    live: Tree,
    change: TreeChange,
    targets: Targets,
    hosts: Iterable[Host],
    known: Iterable[KnownHost],
    *,
    revision: Revision | None = None,
    asked: Collection[str] = (),
) -> Forecast:
    """Say what each host would do once ``change`` made of the ``live`` tree one with these ``targets``.

    ``hosts`` are registered, ``known`` are those that told what they have. Only hosts ``asked`` for by id or name
    count, if any are.
    """
    stock = {one.identity.id: one for one in known}
    registered = {host.identity.id: host for host in hosts}
    absent = absent_hosts(stock.values(), registered.values())
    after = apply_change(live, change) if change else live
    touched = _touched(live, change, after, targets)
    coming = _Coming(targets, services(after))
    found = [_of_registered(host, stock.get(host.identity.id), coming, revision) for host in registered.values()]
    found += [_plan(one.identity, one, coming, absent=True) for one in absent]
    found = [_judge(host, touched) for host in found]
    found += _nobodies(targets, [host.identity for host in found])
    if asked:
        found = list(_chosen(found, asked))
    found.sort(key=lambda host: (host.identity.name, host.identity.id))
    return Forecast(revision, change, tuple(found), partial=bool(asked))


@dataclass(frozen=True, slots=True)
class _Coming:
    """What hosts read of the tree that would be: its targets, and which services it has."""

    targets: Targets
    services: frozenset[str]


def _of_registered(
    host: Host, known: KnownHost | None, coming: _Coming, revision: Revision | None
) -> HostForecast:
    if host.deploying is not None:
        return _unknown(host.identity, "it is deploying just now; ask again when it is done")
    if revision is not None and host.has(revision):
        return HostForecast(host.identity, Outlook.NOTHING)
    return _plan(host.identity, known, coming)


def _plan(identity: Identity, known: KnownHost | None, coming: _Coming, *, absent: bool = False) -> HostForecast:
    if known is None or known.inventory is None:
        why = known.unknown if known is not None else "it did not tell what it has"
        return _unknown(identity, why, absent=absent)
    try:
        return _planned(identity, known.inventory, coming, absent=absent)
    except (TreeError, HostFilesError) as error:
        return HostForecast(identity, Outlook.FAILS, reason=str(error), absent=absent)


def _planned(identity: Identity, inventory: Inventory, coming: _Coming, *, absent: bool) -> HostForecast:
    wanted = wanted_for(identity, coming.targets)
    steps = plan(wanted.assignments, inventory, wanted.controller, services=coming.services)
    outlook = Outlook.NOTHING if not steps.steps else Outlook.REPEATS
    if not all(map(is_repetition, steps.steps)):
        outlook = Outlook.CHANGES
    return HostForecast(identity, outlook, steps, absent=absent)


def _judge(host: HostForecast, touched: Collection[str]) -> HostForecast:
    """Let a host count as changing when it only runs again a service whose properties change."""
    mine = (step.deployment.path for step in host.plan.steps if isinstance(step, Deploy))
    if host.outlook is not Outlook.REPEATS or not any(path in touched for path in mine):
        return host
    return HostForecast(host.identity, Outlook.CHANGES, host.plan, absent=host.absent)


def _unknown(identity: Identity, reason: str, *, absent: bool = False) -> HostForecast:
    return HostForecast(identity, Outlook.UNKNOWN, reason=reason, absent=absent)


def _nobodies(targets: Targets, identities: Sequence[Identity]) -> Iterator[HostForecast]:
    """Yield the targets that mean no host that is known."""
    names = {name for one in identities for name in one.target_names}
    for name, assignments in targets.items():
        if name not in names and not name.startswith("/") and any(one.n for one in assignments):
            yield _unknown(Identity(name, name), "no host with this id, name or role is known")


def _chosen(hosts: Sequence[HostForecast], asked: Collection[str]) -> Iterator[HostForecast]:
    names: set[str] = set()
    for host in hosts:
        if not {host.identity.id, host.identity.name}.isdisjoint(asked):
            names |= {host.identity.id, host.identity.name}
            yield host
    for name in sorted(set(asked) - names):
        yield _unknown(Identity(name, name), "no host with this id or name is known")


def _touched(live: Tree, change: TreeChange, after: Tree, targets: Targets) -> frozenset[str]:
    """Return the services whose own node, or a node below it, changes; who runs them does not count."""
    deployed = {one.path for assignments in targets.values() for one in assignments}
    changed = set()
    for path in (*change.create, *change.update, *change.delete):
        above = path
        while above:
            if above in deployed and not f"{path}/".startswith(f"{above}/deploy/"):
                changed.add(above)
            above = above.rpartition("/")[0]
    linked = (path for path in deployed - changed if _differs(path, live, after)) if change else ()
    return frozenset(changed.union(linked))


def _differs(path: str, before: Tree, after: Tree) -> bool:
    """Whether a property behind a property link changes."""
    if not any(name.endswith(" =>") for name in after.nodes.get(path, ())):
        return False
    return not stored_alike(_resolved(before, path), _resolved(after, path))


def _resolved(tree: Tree, path: str) -> Mapping[str, Value]:
    try:
        return resolved_properties(tree.properties, path)
    except LinkError:
        return {}
