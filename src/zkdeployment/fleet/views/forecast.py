"""The prediction of a publication: the plans that hosts would make, and their order under the strategy."""

from __future__ import annotations

from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.agent.rules.plan_text import action, describe, reboot_text, sentence, unchanged_sentence
from zkdeployment.agent.rules.planner import is_repetition, is_settled, plan
from zkdeployment.agent.rules.software import WantedSoftware
from zkdeployment.agent.rules.system import originals_after
from zkdeployment.base.act import Maintenance, describe_maintenance
from zkdeployment.base.errors import HostFilesError, LinkError, NotFoundError, TreeError
from zkdeployment.base.features import installed
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.inventory import Inventory, KnownHost, absent_hosts
from zkdeployment.base.plan import Deploy, Plan
from zkdeployment.base.publication import LeftService, Published, Targets
from zkdeployment.base.system import RebootRule
from zkdeployment.base.values import dataclass
from zkdeployment.documents.collection import DocumentsChange, PublishedDocuments
from zkdeployment.fleet.places import FleetPlaces
from zkdeployment.publishing.rules.changes import (
    Baseline,
    Draft,
    draft,
    incompleteness,
    is_incomplete,
    ordered_targets,
    ordered_tree,
)
from zkdeployment.publishing.rules.convergence import PublicationSnapshot
from zkdeployment.publishing.rules.decision import draft_refusal
from zkdeployment.publishing.section import section
from zkdeployment.publishing.targets.compiler import wanted_for
from zkdeployment.publishing.targets.services import (
    is_deployed_to,
    node_of_target,
    services,
    unchecked_systems,
)
from zkdeployment.publishing.targets.systems import system_target
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.strategies.order import (
    Order,
    order,
)
from zkdeployment.tree.diff import apply_change, diff, stored_alike
from zkdeployment.tree.links import resolved_properties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.agent.rules.availability import PackageFindings
    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.json_values import Value
    from zkdeployment.base.system import WantedSystem
    from zkdeployment.publishing.rules.review import Review
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.tree.values import LiveTree, Tree, TreeChange


#: The limit of unchanged deployments that a sentence names.
_NAMED = 12


class Outlook(Enum):
    """The consequence of a publication for a host."""

    FAILS = "fails"  # the agent of the host would refuse the tree
    CHANGES = "changes"
    UNKNOWN = "unknown"  # its inventory is unknown, or the host is
    REPEATS = "repeats"  # it runs its deployments again, as for each revision
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class HostForecast:
    """The plan of one host; ``reason`` is why the plan is unknown, or why the agent would refuse the tree.

    ``absent``: the host is not registered, and would run the plan when it returns. ``lease`` is the lease of a
    host that can be leased, as text. ``system`` is the operating system that the host would update to, ``None`` if
    that does not change; a host that would only reboot updates none of its packages. ``lock`` is the lock of that
    update: the path of the system node, or the role with a controller. ``kept`` are the packages that the update
    keeps.
    """

    identity: Identity
    outlook: Outlook
    plan: Plan = Plan()
    reason: str = ""
    absent: bool = False
    lease: str = ""
    system: WantedSystem | None = None
    lock: str = ""
    kept: frozenset[str] = frozenset()

    @property
    def unchanged(self) -> str:
        """The deployments that are not run again, as a sentence; empty if none exist."""
        return unchanged_sentence(self.plan, _NAMED)

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The steps as sentences, each with its script and its lock; hosts with equal lines do the same."""
        steps = tuple((sentence(step), action(step, self.plan.controller)) for step in self.plan.steps)
        system = self.system
        if system is None:
            return steps
        reboots, lock = reboot_text(system.reboot), f"under the lock of {self.lock}"
        if system.update == "none":
            return ((f"reboot for {system.path}", f"{reboots} {lock}"), *steps)
        update = f"update the operating system to release {system.release} of {system.path}"
        return ((update, f"updates packages{' and ' if reboots else ''}{reboots} {lock}"), *steps)

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
        return {
            "id": self.identity.id,
            "name": self.identity.name,
            "role": self.identity.role,
            "outlook": self.outlook.value,
            "absent": self.absent,
            "lease": self.lease or None,
            "reason": self.reason or None,
            "steps": describe(self.plan),
            "unchanged": [str(deployment) for deployment in self.plan.unchanged],
            **({} if self.system is None else {"system": self.system.to_json()}),
        }


@dataclass(frozen=True, slots=True)
class Forecast:
    """The changes of the tree and the plans of hosts; ``revision`` is ``None`` for files without a revision.

    ``partial``: only selected hosts are included. ``strategy`` is the change of the strategy, ``documents`` that
    of the documents, ``order`` the order of the rollout; without a strategy it is ``None``.
    """

    revision: Revision | None
    change: TreeChange
    hosts: tuple[HostForecast, ...]
    partial: bool = False
    strategy: StrategyChange = StrategyChange()
    documents: DocumentsChange = DocumentsChange()
    order: Order | None = None

    def with_documents(self, documents: DocumentsChange) -> Forecast:
        """Return the forecast with a change of the documents."""
        return replace(self, documents=documents)

    def with_strategy(self, strategy: StrategyChange, order: Order | None) -> Forecast:
        """Return the forecast with a change of the strategy and the order of the rollout."""
        hosts = {host.identity.id for host in self.hosts}
        shown = order if order is None or not self.partial else order.only(hosts)
        return replace(self, strategy=strategy, order=shown)

    def with_outlook(self, outlook: Outlook) -> tuple[HostForecast, ...]:
        """Return the hosts of one outlook."""
        return tuple(host for host in self.hosts if host.outlook is outlook)

    @property
    def governed(self) -> bool:
        """Whether hosts deploy in the order of a strategy."""
        return self.order is not None

    @property
    def changes(self) -> bool:
        """Whether anything changes; with a changed tree, hosts with unknown plans count as changed."""
        tree = bool(self.change or self.strategy or self.documents) and (
            not self.partial or bool(self.with_outlook(Outlook.UNKNOWN))
        )
        return tree or bool(self.with_outlook(Outlook.CHANGES) or self.with_outlook(Outlook.FAILS))

    @property
    def summary(self) -> str:
        """The numbers of hosts by outlook and of changed nodes, in one sentence."""
        change = self.change
        nodes = ((change.create, "added"), (change.update, "changed"), (change.delete, "deleted"))
        tree = ", ".join(f"{len(paths)} {kind}" for paths, kind in nodes if paths)
        counts = [(len(self.with_outlook(outlook)), label) for outlook, label in _LABELS.items()]
        hosts = ", ".join(f"{number} {label}" for number, label in counts if number)
        systems = [host.system for host in self.hosts if host.system is not None]
        rebooting = sum(system.update == "none" for system in systems)
        if updating := len(systems) - rebooting:
            hosts += f", {updating} of them {'updates' if updating == 1 else 'update'} the system"
        hosts += f", {rebooting} of them only {'reboots' if rebooting == 1 else 'reboot'}" if rebooting else ""
        strategy = f"; strategy: {self.strategy.kind}" if self.strategy else ""
        if changed := len(list(self.documents.describe())):
            strategy += f"; documents: {changed} changed"
        return f"hosts: {hosts or 'none'}; nodes of the tree: {tree or 'no change'}{strategy}"

    def groups(self, outlook: Outlook) -> list[tuple[HostForecast, ...]]:
        """Return the hosts of an outlook in groups with equal plans, the largest group first."""
        groups: dict[object, list[HostForecast]] = {}
        for host in self.with_outlook(outlook):
            groups.setdefault((host.lines, host.reason, host.unchanged), []).append(host)
        return sorted(map(tuple, groups.values()), key=len, reverse=True)

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``-o json`` prints it."""
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
            "documents": self.documents.to_json(),
            "order": None if self.order is None else self.order.to_json(),
        }


_LABELS = {
    Outlook.FAILS: "would fail",
    Outlook.CHANGES: "change",
    Outlook.UNKNOWN: "unknown",
    Outlook.REPEATS: "run again what they have",
    Outlook.NOTHING: "do nothing",
}


def forecast(  # noqa: PLR0913  the facts a forecast depends on
    live: Tree,
    change: TreeChange,
    targets: Targets,
    hosts: Iterable[Host],
    known: Iterable[KnownHost],
    *,
    revision: Revision | None = None,
    since: int | None = None,
    selected: Collection[str] = (),
    had: Tree | None = None,
    lasting: Collection[str] = (),
    targets_before: Targets | None = None,
) -> Forecast:
    """Return the plan of each host after ``change`` turned the ``live`` tree into one with these ``targets``.

    ``hosts`` are registered, ``known`` hosts have reported their inventory. If ``since`` is given, only documents
    change, and registered hosts that reached the publication with this sequence do nothing. ``selected`` restricts
    the forecast to these ids and names; if empty, all hosts are included. ``had`` is the tree that hosts were last
    ordered to deploy, if it may differ from the ``live`` tree. ``lasting`` are the services that hosts undeploy
    only after other hosts have gained them. ``targets_before`` are the targets that hosts were last ordered to
    deploy: hosts update their operating system if they wanted another one. Raises ``NotFoundError`` if a selected
    host is not known and not named in the tree.
    """
    known_hosts = {host.identity.id: host for host in known}
    registered = {host.identity.id: host for host in hosts}
    absent = absent_hosts(known_hosts.values(), registered.values())
    after = apply_change(live, change) if change else live
    changed = _changed_services(live, change, after, targets)
    if had is not None and had is not live:
        changed |= _changed_services(had, diff(had, after), after, targets)
    future = _FutureTree(targets, services(after), lasting, targets_before or {})
    forecasts = [
        HostForecast(host.identity, Outlook.NOTHING)
        if since is not None and host.has_reached(since)
        else _of_registered(host, known_hosts.get(host.identity.id), future, revision)
        for host in registered.values()
    ]
    forecasts += [_plan(host.identity, host, future, absent=True) for host in absent]
    forecasts = [_with_changed_properties(host, changed) for host in forecasts]
    leases = {host.identity.id: host.lease_text for host in registered.values()}
    forecasts = [replace(host, lease=leases.get(host.identity.id, "")) for host in forecasts]
    forecasts += _unknown_targets(targets, [host.identity for host in forecasts])
    if selected:
        forecasts = list(_select(forecasts, targets, selected))
    forecasts.sort(key=lambda host: (host.identity.name, host.identity.id))
    return Forecast(revision, change, tuple(forecasts), partial=bool(selected))


@dataclass(frozen=True, slots=True)
class _FutureTree:
    """The part of the tree that hosts read: its targets, the paths of its services and of those that move.

    ``before`` are the targets before the change.
    """

    targets: Targets
    services: frozenset[str]
    lasting: Collection[str]
    before: Targets


def _of_registered(
    host: Host, known: KnownHost | None, future: _FutureTree, revision: Revision | None
) -> HostForecast:
    if host.deploying is not None:
        return _unknown(host.identity, "a deployment is running; repeat the command when it has finished")
    planned = _plan(host.identity, known, future)
    has_all = revision is not None and host.has(revision) and planned.system is None
    if has_all and planned.outlook is not Outlook.FAILS and is_settled(planned.plan):
        return HostForecast(host.identity, Outlook.NOTHING)
    return planned


def _plan(
    identity: Identity, known: KnownHost | None, future: _FutureTree, *, absent: bool = False
) -> HostForecast:
    if known is None or known.inventory is None:
        reason = known.unknown if known is not None else "the host has not reported its inventory"
        return _unknown(identity, reason, absent=absent)
    try:
        return _planned(identity, known.inventory, future, absent=absent)
    except (TreeError, HostFilesError) as error:
        return HostForecast(identity, Outlook.FAILS, reason=str(error), absent=absent)


def _planned(identity: Identity, inventory: Inventory, future: _FutureTree, *, absent: bool) -> HostForecast:
    wanted = wanted_for(identity, future.targets)
    system = _system_change(identity, wanted.system, future.before)
    if system is not None:
        inventory = replace(inventory, originals=originals_after(system, inventory.originals))
    steps = plan(
        wanted.assignments,
        inventory,
        wanted.controller,
        identity=identity,
        services=future.services,
        lasting=future.lasting,
    )
    outlook = Outlook.NOTHING if not steps.steps else Outlook.REPEATS
    if system is not None or not all(map(is_repetition, steps.steps)):
        outlook = Outlook.CHANGES
    planned = HostForecast(identity, outlook, steps, absent=absent, system=system)
    if system is None:
        return planned
    lock = system.path if wanted.controller is None else f"role {identity.role}"
    kept = WantedSoftware.of(wanted.assignments, wanted.controller).kept(inventory)
    return replace(planned, lock=lock, kept=kept)


def _system_change(identity: Identity, wanted: WantedSystem | None, before: Targets) -> WantedSystem | None:
    """Return the operating system that a host would update to; ``None`` if it wanted the same before.

    A host whose system node did not permit the reboot after its last update, and does now, would only reboot.
    """
    if wanted is None:
        return None
    had = next((entry.system for entry in unchecked_systems(identity, before)), None)
    reboots = wanted.reboot is not RebootRule.NEVER
    if wanted.is_update_after(had):
        return wanted if reboots or wanted.update != "none" else None
    is_due = had is not None and had.reboot is RebootRule.NEVER and had.update != "none"
    return replace(wanted, update="none") if reboots and is_due else None


def _with_changed_properties(host: HostForecast, changed: Collection[str]) -> HostForecast:
    """Return the forecast of a host that only repeats deployments as a change if one of its services changed."""
    paths = (step.deployment.path for step in host.plan.steps if isinstance(step, Deploy))
    if host.outlook is not Outlook.REPEATS or not any(path in changed for path in paths):
        return host
    return HostForecast(host.identity, Outlook.CHANGES, host.plan, absent=host.absent)


def _unknown(identity: Identity, reason: str, *, absent: bool = False) -> HostForecast:
    return HostForecast(identity, Outlook.UNKNOWN, reason=reason, absent=absent)


def _unknown_targets(targets: Targets, identities: Sequence[Identity]) -> Iterator[HostForecast]:
    """Yield a forecast for each target that matches no known host."""
    names = {name for identity in identities for name in identity.target_names}
    for name in dict.fromkeys(map(node_of_target, targets)):
        if name not in names and is_deployed_to(name, targets):
            yield _unknown(Identity(name, name), "no host with this id, name or role is known")


def _select(hosts: Sequence[HostForecast], targets: Targets, selected: Collection[str]) -> Iterator[HostForecast]:
    """Yield the forecasts of the selected hosts; a target without a known host is unknown."""
    names: set[str] = set()
    for host in hosts:
        if not {host.identity.id, host.identity.name}.isdisjoint(selected):
            names |= {host.identity.id, host.identity.name}
            yield host
    roles = {host.identity.role for host in hosts}
    for name in sorted(set(selected) - names):
        if not targets.keys() & {name, system_target(name)} or name in roles or name.startswith("/"):
            raise NotFoundError(
                f"there is no host {name}: expected the id or the name of a host that is registered, has reported"
                " its inventory or is named in the tree; run 'zkdeployment status' to see the known hosts"
            )
        yield _unknown(Identity(name, name), "no host with this id or name is known")


def _changed_services(live: Tree, change: TreeChange, after: Tree, targets: Targets) -> frozenset[str]:
    """Return the services with changed nodes; changes of their targets do not count."""
    deployed = {assignment.path for assignments in targets.values() for assignment in assignments}
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
    """Whether the target of a property link changes."""
    if not any(name.endswith(" =>") for name in after.nodes.get(path, ())):
        return False
    return not stored_alike(_resolved(before, path), _resolved(after, path))


def _resolved(tree: Tree, path: str) -> Mapping[str, Value]:
    try:
        return resolved_properties(tree.properties, path)
    except LinkError:
        return {}


@dataclass(frozen=True, slots=True)
class PredictionBasis:
    """The fleet before the publication: its version, its registered and known hosts, its tree and its documents.

    ``published`` is the last publication. ``unfinished`` is as in ``PublicationSnapshot``. ``ordered_text`` is the
    text of ``interruption.ordered_revision``; ``None`` if there is no such revision or it cannot be read. ``left``
    are the services that left the governance of their intents, ``maintenance`` is that of hosts, by host id.
    """

    cluster: Cluster | None
    hosts: Sequence[Host]
    known: Sequence[KnownHost]
    live: LiveTree
    strategy: Strategy | None
    documents: PublishedDocuments
    published: Published = Published()
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ordered_text: Review | None = None
    left: Sequence[LeftService] = ()
    maintenance: Mapping[str, Maintenance] = field(default_factory=dict)

    @property
    def baseline(self) -> Baseline:
        """The published state, compiled from the live tree."""
        governance = section().governance(self.documents, self.left)
        baseline = Baseline.of_live_tree(self.live, self.strategy, self.documents, governance)
        return baseline if self.ordered_text is None else replace(baseline, text=self.ordered_text.linted.tree)

    def snapshot(self, published: Published) -> PublicationSnapshot:
        """Return the facts on which the guards of a publication decide, after the publication ``published``."""
        return PublicationSnapshot(
            self.cluster,
            published,
            hosts=self.hosts,
            absent=absent_hosts(self.known, self.hosts),
            unfinished=self.unfinished,
            maintenance=frozenset(self.maintenance),
        )

    @property
    def since(self) -> int:
        """The sequence of the last publication that concerned hosts; 0 if no revision is completely published."""
        return 0 if self.published.revision is None else self.published.effective_since


@dataclass(frozen=True, slots=True)
class PlanAddition:
    """The addition of a feature to a plan; ``name`` is its key in the JSON form, ``title`` its heading.

    ``changes`` is whether the publication changes records of the feature, ``lines`` are for people.
    """

    name: str
    title: str
    value: dict[str, Value]
    lines: tuple[str, ...] = ()
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Prediction:
    """The forecast with the strategy, the warnings of the draft and of the strategy, and the targets.

    ``targets_before`` are the targets that hosts were last ordered to deploy. ``packages`` has the findings about
    newly wanted packages; ``None`` if these were not checked. ``keeps_documents``: the files are only a part of
    the repository, so the published documents stay. ``additions`` are those of features.
    """

    forecast: Forecast
    warnings: tuple[str, ...]
    targets: Targets
    targets_before: Targets
    packages: PackageFindings | None = None
    keeps_documents: bool = False
    additions: tuple[PlanAddition, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the publication would change a host or a record of a feature."""
        return self.forecast.changes or any(addition.changes for addition in self.additions)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the ``additions``."""
        return tuple(line for addition in self.additions for line in addition.lines)

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``plan -o json`` prints it."""
        packages = None if self.packages is None else self.packages.to_json()
        added = {addition.name: addition.value for addition in self.additions}
        return self.forecast.to_json() | {"warnings": [*self.warnings], "packages": packages} | added


def predict(
    reviewed: Review,
    basis: PredictionBasis,
    *,
    revision: Revision | None,
    title: str,
    selected: Collection[str] = (),
    keeps_strategy: bool = False,
) -> Prediction:
    """Return the prediction of the publication of a reviewed tree without errors.

    ``title`` names the tree in messages if it has no ``revision``. ``selected`` are hosts by id or name; without
    any, all hosts are predicted. ``keeps_strategy``: the files do not contain the documents, so the
    published intents stay. Raises ``TreeError``, and ``NotFoundError`` for a selected host that does not exist.
    """
    published, cluster, live, last = basis.published, basis.cluster, basis.live, basis.ordered_text
    baseline = basis.baseline
    baseline = replace(baseline, completed=ordered_targets(published, cluster, baseline.targets, reviewed, last))
    if keeps_strategy:  # the top-level nodes of other files are unknown
        published = replace(published, managed=frozenset(), begun=frozenset())
    snapshot = basis.snapshot(published)
    drafted = draft(reviewed, baseline, snapshot, revision=revision or title, keeps_governance=keeps_strategy)
    refusal = _of_guards(drafted, snapshot)
    had = ordered_tree(basis.published, cluster, live, last)
    before = live.tree
    if had is not None and is_incomplete(cluster):
        drafted, before = _since_completion(drafted, had, last), had
    predicted = forecast(
        before,
        drafted.change,
        drafted.targets,
        basis.hosts,
        basis.known,
        revision=revision,
        since=None if drafted.concerns_hosts else basis.since,
        selected=tuple(selected),
        had=had,
        lasting=[path for path, entry in drafted.order.entries.items() if entry.gaining],
        targets_before=baseline.ordered,
    )
    strategy = StrategyChange(basis.strategy, basis.strategy) if keeps_strategy else drafted.strategy
    turns = None if strategy.after is None else order(strategy.after, basis.hosts, basis.known, drafted.targets)
    incomplete = incompleteness(published, cluster, is_known=had is not None)
    held = _in_maintenance(predicted, basis.maintenance)
    warnings = [f"warning: {warning}" for warning in (incomplete, refusal, held) if warning is not None]
    warnings += [str(problem) for problem in drafted.warnings]
    warnings += [f"warning: {warning}" for warning in (() if turns is None else turns.warnings)]
    predicted = predicted.with_strategy(strategy, turns)
    return Prediction(
        predicted if keeps_strategy else predicted.with_documents(drafted.documents),
        tuple(warnings),
        drafted.targets,
        baseline.ordered,
        keeps_documents=keeps_strategy,
    )


def _in_maintenance(predicted: Forecast, maintenance: Mapping[str, Maintenance]) -> str | None:
    """Return a warning that names the hosts with steps that are in maintenance; ``None`` without such hosts."""
    held = [
        (host.identity.name, maintenance[host.identity.id])
        for host in predicted.hosts
        if host.outlook is not Outlook.NOTHING and host.identity.id in maintenance
    ]
    return f"hosts in maintenance deploy nothing until it ends: {describe_maintenance(held)}" if held else None


def _of_guards(drafted: Draft, snapshot: PublicationSnapshot) -> str | None:
    refusal = draft_refusal(drafted, snapshot)
    return None if refusal is None else f"the syncer would refuse this: {refusal}"


def with_additions(predicted: Prediction, reviewed: Review, basis: PredictionBasis) -> Prediction:
    """Return the prediction for a reviewed tree with what features add to it."""
    rules = (places.plan_addition for places in installed(FleetPlaces) if places.plan_addition is not None)
    return replace(predicted, additions=tuple(rule(reviewed, basis, predicted) for rule in rules))


def _since_completion(drafted: Draft, had: Tree, last: Review | None) -> Draft:
    """Return the draft with its changes since the ``last`` complete text, whose tree ``had`` hosts deployed."""
    after = apply_change(drafted.baseline.live.tree, drafted.change)
    former = {} if last is None else last.documents.contents
    return replace(drafted, change=diff(had, after), documents=replace(drafted.documents, before=former))
