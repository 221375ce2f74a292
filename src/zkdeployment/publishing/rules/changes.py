"""The changes of a publication: nodes, targets and strategy, with warnings, errors and drift.

The live tree may differ from what hosts were last ordered to deploy: after an interrupted publication or import,
and after an import by hand. Whether a revision is published at all is decided in ``decision``.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from zkdeployment.base.cluster import BY_HAND, INITIAL, Cluster, Revision, short
from zkdeployment.base.errors import TreeError
from zkdeployment.base.source_files import Problem, Severity
from zkdeployment.base.text import counted
from zkdeployment.base.values import dataclass
from zkdeployment.documents.collection import DocumentsChange, PublishedDocuments
from zkdeployment.publishing.governance import NO_GOVERNANCE, Governance
from zkdeployment.publishing.records import MOST_VERSIONS, Publication, PublicationRecord, ServiceVersion
from zkdeployment.publishing.rules.convergence import (
    PublicationSnapshot,
    count_excluded,
    describe_unserved,
    is_completed,
    is_under_way,
    unserved,
)
from zkdeployment.publishing.rules.precedence import (
    ServiceOrder,
    move_warnings,
    order_of_known_hosts,
    placement_problems,
)
from zkdeployment.publishing.rules.quarantines import QUARANTINE, lifted_quarantine_problems, quarantine_problems
from zkdeployment.publishing.rules.review import Review, place
from zkdeployment.publishing.section import FormerGovernance, GovernanceChange, section
from zkdeployment.publishing.targets.compilation import Compilation, compile_tree
from zkdeployment.publishing.targets.compiler import ServiceTarget, host_problems
from zkdeployment.publishing.targets.services import is_deployed_to, node_of_target
from zkdeployment.publishing.targets.systems import SYSTEMS
from zkdeployment.strategies.documents import StrategyChange, strategy_in_force
from zkdeployment.tree.diff import describe_change, diff, stored_alike
from zkdeployment.tree.layers import desired_tree, lock_roles, select_tops, without_reserved
from zkdeployment.tree.values import LiveNode, LiveTree, Tree, TreeChange, top_path

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.publication import LeftService, Published, Targets
    from zkdeployment.publishing.rules.decision import Publish
    from zkdeployment.strategies.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Baseline:
    """The state before a publication: the live tree, its targets, and the published strategy and documents.

    ``governance`` is the published one, with the services that left it. ``withheld`` are the services that the
    targets lack because of the state of their intents. ``completed`` are the targets of the last
    complete publication if they may differ from the targets of the live tree, because a publication was
    interrupted or the tree was imported by hand; otherwise ``None``. ``text`` is the tree of all files that were
    published with the ``governance``; ``None`` if it is not known.
    """

    live: LiveTree
    targets: Targets
    strategy: Strategy | None = None
    documents: PublishedDocuments = PublishedDocuments()
    withheld: frozenset[ServiceTarget] = frozenset()
    completed: Targets | None = None
    governance: Governance = NO_GOVERNANCE
    text: Tree | None = None

    @property
    def former(self) -> FormerGovernance:
        """The governance before the publication."""
        tree = self.live.tree if self.text is None else self.text
        return FormerGovernance(self.governance, tree, self.targets, self.withheld)

    @property
    def ordered(self) -> Targets:
        """The targets that hosts were last ordered to deploy."""
        return self.targets if self.completed is None else self.completed

    @property
    def had(self) -> Targets:
        """The targets that converged hosts certainly have: those that live and last complete targets share."""
        return self.targets if self.completed is None else common_targets(self.targets, self.completed)

    @classmethod
    def of_live_tree(
        cls,
        live: LiveTree,
        strategy: Strategy | None,
        documents: PublishedDocuments,
        governance: Governance = NO_GOVERNANCE,
        *,
        with_properties: bool = False,
    ) -> Baseline:
        """Return the baseline for a live tree that was read whole."""
        compiled = compile_tree(live.tree, governance, with_properties=with_properties)
        return cls(live, compiled.targets, strategy, documents, compiled.withheld, governance=governance)

    @classmethod
    def of_text(cls, last: Review, left: Collection[LeftService] = ()) -> Baseline:
        """Return the baseline for a live tree that equals the ``last`` reviewed text."""
        live, documents = LiveTree(without_reserved(last.linted.tree)), PublishedDocuments(last.documents.contents)
        governance = section().governance(last.documents, left)
        compiled = last.compilation.under(governance) if left else last.compilation
        strategy, text = strategy_in_force(last.documents), last.linted.tree
        return cls(
            live, compiled.targets, strategy, documents, compiled.withheld, governance=governance, text=text
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """The publication of ``revision``, not written yet.

    ``affected`` are the names of the targets that change. ``exact``, ``managed`` and ``leftovers`` are those of
    ``Publication``, and so are ``targets`` and ``roles``. ``compilation`` is the compilation of the future live
    tree, ``order`` the order between its services. ``governance`` is the change of governance.
    """

    revision: Revision
    reviewed: Review
    baseline: Baseline
    change: TreeChange
    compilation: Compilation
    roles: frozenset[str]
    strategy: StrategyChange
    documents: DocumentsChange
    exact: str | None
    managed: frozenset[str]
    leftovers: frozenset[str]
    affected: tuple[str, ...]
    warnings: tuple[Problem, ...]
    order: ServiceOrder = ServiceOrder()
    governance: GovernanceChange = GovernanceChange()

    @property
    def targets(self) -> Targets:
        """The targets that hosts deploy."""
        return self.compilation.targets

    @property
    def concerns_governance(self) -> bool:
        """Whether services are governed, or left governance, before or after the publication."""
        return bool(self.baseline.governance or self.governance.after)

    @property
    def sentence(self) -> str:
        """The numbers of changed nodes and targets, and the kind of the strategy's change."""
        change = self.change
        counts = ((len(change.create), "added"), (len(change.update), "changed"), (len(change.delete), "deleted"))
        nodes = ", ".join(f"{number} {kind}" for number, kind in counts if number)
        strategy = f"; strategy: {self.strategy.kind}" if self.strategy else ""
        documents = f"; documents: {len(self.documents.changed)} changed" if self.documents else ""
        return f"nodes: {nodes or 'no change'}; targets: {len(self.affected)} changed{strategy}{documents}"

    @property
    def concerns_hosts(self) -> bool:
        """Whether nodes, targets or the strategy change."""
        return bool(self.change or self.affected or self.strategy)

    def describe(self) -> Iterator[str]:
        """Yield one line for each change."""
        yield from describe_change(self.change, self.baseline.live.tree)
        for name in self.affected:
            of_system = "operating system of " if name.startswith(SYSTEMS) else ""
            yield f"{of_system}target {node_of_target(name) if of_system else name}"
        yield from self.strategy.describe()
        yield from self.documents.describe()


def changed_versions(before: Targets, after: Targets, affected: Collection[str]) -> tuple[ServiceVersion, ...]:
    """Return the first services, sorted by path, whose wanted versions change, with their new versions.

    Only the ``affected`` targets differ. All targets of a service have the same version, so other targets can only
    have a service that no affected target has before, or after, the change.
    """
    affected = frozenset(affected)
    old, new = (_versions((name, targets.get(name, ())) for name in affected) for targets in (before, after))
    if partly := old.keys() ^ new.keys():
        others = _versions(item for item in after.items() if item[0] not in affected)
        elsewhere = {path: others[path] for path in partly if path in others}
        old, new = old | elsewhere, new | elsewhere
    changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return tuple(ServiceVersion(path, new.get(path, "")) for path in changed[:MOST_VERSIONS])


def _versions(targets: Iterable[tuple[str, Sequence[Assignment]]]) -> dict[str, str]:
    """Return the version of each service by path."""
    return {
        assignment.path: assignment.version or assignment.package
        for name, assignments in targets
        if not name.startswith("/")
        for assignment in assignments
        if assignment.n
    }


@dataclass(frozen=True, slots=True)
class PreparedPublication:
    """A draft, and the live nodes and targets that must not change until it is published.

    ``versions`` are data versions of live nodes by path. ``partial``: only the nodes that the draft changes were
    read, so only the affected targets and documents may differ. ``repeats`` as in ``Publication``.
    """

    draft: Draft
    versions: Mapping[str, int] = field(default_factory=dict)
    partial: bool = False
    repeats: bool = False

    def build(self, decision: Publish, *, sequence: int, now: float) -> Publication:
        """Return the complete publication; ``now`` is in seconds since the epoch."""
        draft, strategy = self.draft, self.draft.strategy.after
        snapshot, options = decision.snapshot, decision.options
        excluded = count_excluded(strategy, snapshot.hosts, snapshot.maintenance)
        changed = (*draft.change.update, *draft.change.delete)
        return Publication(
            revision=draft.revision,
            change=draft.change,
            targets=draft.targets,
            withheld=draft.compilation.withheld,
            left=draft.governance.after.left,
            intents=draft.governance.after.size,
            roles=draft.roles,
            expected=snapshot.cluster,
            stops=snapshot.stops,
            request=None if options.request is None else options.request.id,
            published=snapshot.published,
            versions={path: self.versions[path] for path in changed if path in self.versions},
            touched=frozenset(draft.affected) if self.partial else None,
            exact=draft.exact,
            managed=draft.managed,
            leftovers=draft.leftovers,
            sequence=sequence,
            record=PublicationRecord(
                draft.revision,
                now,
                origin=decision.origin,
                forced=options.forced,
                excluded=excluded,
                nodes=len(draft.change.paths),
                versions=changed_versions(draft.baseline.targets, draft.targets, draft.affected),
            ),
            strategy=strategy,
            documents=draft.documents.after,
            order=draft.order.entries,
            touched_documents=draft.documents.changed if self.partial else None,
            repeats=self.repeats,
        )


def draft(
    reviewed: Review,
    baseline: Baseline,
    snapshot: PublicationSnapshot,
    *,
    revision: Revision,
    prune: bool = False,
    keeps_governance: bool = False,
) -> Draft:
    """Return the changes by a publication of a reviewed tree without errors.

    Targets are compiled from the whole future live tree, and checked for every known host. Nodes that cannot be
    deleted because of ephemeral nodes below them stay. Top-level nodes that only an unfinished publication created
    are deleted unless a file has them; ``prune`` applies this to all managed nodes. ``keeps_governance``: the
    files do not contain the intents, so the published intents govern. A publication that will be signed deploys
    only services from the files. Raises ``TreeError`` with all conflicts.
    """
    text, merged, published = without_reserved(reviewed.linted.tree), reviewed.linted.merged, snapshot.published
    live = baseline.live
    tops = frozenset(text.tops)
    orphaned, begun = published.managed - tops, published.begun - tops
    tree = desired_tree(live.tree, merged, pinned=live.pinned, pruned=begun | orphaned if prune else begun)
    governance = section().kept(baseline.governance)
    if not keeps_governance:
        governance = section().change(baseline.former, reviewed.documents, reviewed.linted.tree, tree, revision)
    compilation = _compile(reviewed, None if tree == text and not keeps_governance else tree, governance.after)
    targets = compilation.targets
    strategy = strategy_in_force(reviewed.documents)
    between_services = ServiceOrder()
    if compilation.ordered:
        between_services = order_of_known_hosts(baseline.had, targets, snapshot, strategy)
    of_governance = tuple(governance.problems(baseline.governance, baseline.had, compilation, reviewed))
    problems = (*_problems(compilation, reviewed, baseline, snapshot, between_services), *of_governance)
    require_publishable((place(problem, reviewed.linted) for problem in problems), revision)
    moves = move_warnings(baseline.had, targets, between_services, snapshot) if compilation.ordered else ()
    change = diff(live.tree, tree)
    affected = tuple(sorted(compilation.changed_since(baseline.targets)))
    return Draft(
        revision=revision,
        reviewed=reviewed,
        baseline=baseline,
        change=change,
        compilation=compilation,
        roles=lock_roles(tree) | lock_roles(reviewed.linted.tree),
        strategy=StrategyChange(baseline.strategy, strategy),
        documents=DocumentsChange(baseline.documents.contents, reviewed.documents.contents),
        exact=_exact(reviewed, tree, compilation),
        managed=frozenset(without_reserved(merged.base).tops) | published.managed - change.delete,
        leftovers=begun - change.delete,
        affected=affected,
        order=between_services,
        governance=governance,
        warnings=(
            *_review_warnings(reviewed),
            *(place(warning, reviewed.linted) for warning in moves),
            *(place(one, reviewed.linted) for one in of_governance if one.severity is Severity.WARNING),
            *_target_warnings((name for name in affected if name not in baseline.targets), targets, snapshot),
            *_orphan_warnings(frozenset(tree.tops) - tops, targets, orphaned - change.delete),
        ),
    )


def _problems(
    compilation: Compilation,
    reviewed: Review,
    baseline: Baseline,
    snapshot: PublicationSnapshot,
    between_services: ServiceOrder,
) -> Iterable[Problem]:
    """Return the problems among targets, with the known hosts, and with the strategy, each once."""
    targets, strategy = compilation.targets, strategy_in_force(reviewed.documents)
    return dict.fromkeys(
        (
            *compilation.problems,
            *_foreign_services(compilation, reviewed, snapshot.published.managed),
            *_host_problems(targets, snapshot),
            *_quarantine_problems(targets, reviewed, baseline),
            *placement_problems(between_services, strategy, snapshot, targets),
        )
    )


def _quarantine_problems(targets: Targets, reviewed: Review, baseline: Baseline) -> Iterator[Problem]:
    """Yield the errors of versions in quarantine, and of versions that leave quarantine with this publication."""
    quarantines = baseline.documents.of(QUARANTINE).values()
    yield from quarantine_problems(targets, reviewed.documents)
    yield from lifted_quarantine_problems(targets, reviewed.documents, quarantines)


def is_repetition_of(last: Review | None, reviewed: Review, draft: Draft, snapshot: PublicationSnapshot) -> bool:
    """Whether a draft requires nothing from hosts beyond the previous publication, whose text is ``last``.

    Under a strategy, the rollout of that publication must be completed, because no other rollout starts, and the
    agents of all hosts must report which publication they reached. An active rollout of the same revision
    continues.
    """
    published = snapshot.published
    if last is None or published.revision is None or draft.concerns_hosts:
        return False
    if last.linted.tree != reviewed.linted.tree:
        return False
    if draft.strategy.after is None or is_under_way(snapshot, draft.revision):
        return True
    completed = snapshot.rollout is not None and is_completed(snapshot.rollout)
    return completed and all(host.reports_sequence for host in snapshot.hosts)


def require_publishable(problems: Iterable[Problem], revision: Revision) -> None:
    """Raise ``TreeError`` with all errors among the problems, one per line."""
    errors = [str(problem) for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        message = f"the tree of revision {revision} is not published, for {counted(len(errors), 'error')}:"
        raise TreeError("\n  ".join([message, *errors]))


def _compile(reviewed: Review, tree: Tree | None, governance: Governance) -> Compilation:
    """Return the compilation of a tree (``None``: of the reviewed text) under a governance."""
    if tree is not None:
        return compile_tree(tree, governance, with_properties=reviewed.signed)
    return reviewed.compilation.under(governance) if governance.left else reviewed.compilation


def _foreign_services(compilation: Compilation, reviewed: Review, managed: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each service of a signed publication that differs between live tree and files.

    Without these problems, an attacker who can write the live tree could have any content signed. ``managed`` are
    the top-level nodes that a file once had: ``sync --prune`` removes those that no file has now.
    """
    if not reviewed.signed or compilation.whole is reviewed.compilation.whole:
        return
    text, foreign = reviewed.compilation.whole, set()
    for name, assignments in compilation.whole.items():
        if assignments != text.get(name):
            of_text = text.get(name, ())
            foreign |= {assignment.path for assignment in assignments if assignment not in of_text}
    prunable = {*managed}.difference(reviewed.linted.tree.tops)
    for path in sorted(foreign):
        message = (
            "nodes of the live tree that are in no file deploy this service or change its properties, and a signed"
            " publication contains only what the files contain; put the nodes into a file (empty, to end it), or"
            f" remove them with 'zkdeployment {'sync --prune' if top_path(path) in prunable else 'tree rm'}'"
        )
        yield Problem(message, path=path)


def _host_problems(targets: Targets, snapshot: PublicationSnapshot) -> Iterator[Problem]:
    """Yield the problems that make agents refuse the tree; absent hosts count, because they may return."""
    registered = host_problems(targets, (host.identity for host in snapshot.hosts))
    yield from registered
    for known in snapshot.absent:
        for problem in host_problems(targets, [known.identity]):
            if problem not in registered:
                host = known.identity
                advice = f"{host} is absent; if it is gone for good, 'zkdeployment forget {host.id}'"
                yield replace(problem, message=f"{problem.message}; {advice}")


def _exact(reviewed: Review, tree: Tree, compilation: Compilation) -> str | None:
    """Return the text's fingerprint if its top-level nodes equal those of a tree and no other nodes deploy."""
    text = without_reserved(reviewed.linted.tree)
    is_exact = tree == text or select_tops(tree, text.tops) == text
    whole, of_text = compilation.whole, reviewed.compilation.whole
    return reviewed.fingerprint if is_exact and (whole is of_text or whole == of_text) else None


def _review_warnings(reviewed: Review) -> Iterator[Problem]:
    """Yield the warnings of the text; a strategy that is not in force is only a warning, but an error of lint."""
    yield from (problem for problem in reviewed.problems if problem.severity is Severity.WARNING)
    yield from (replace(problem, severity=Severity.WARNING) for problem in reviewed.spare_strategies)


def _target_warnings(new: Iterable[str], after: Targets, snapshot: PublicationSnapshot) -> Iterator[Problem]:
    """Yield a warning about the new targets that no known host serves; ``status`` shows such targets later."""
    deployed = (name for name in map(node_of_target, new) if is_deployed_to(name, after))
    for sentence in describe_unserved(unserved(deployed, (*snapshot.hosts, *snapshot.absent))):
        yield Problem(f"{sentence}; correct the name, or install the host", severity=Severity.WARNING)


def _orphan_warnings(foreign: Collection[str], targets: Targets, orphaned: Collection[str]) -> Iterator[Problem]:
    """Yield a warning for each top-level node in no file that had one (``orphaned``) or deploys something.

    ``foreign`` are the top-level nodes of the live tree that are in no file.
    """
    assigned = (assignment for assignments in targets.values() for assignment in assignments) if foreign else ()
    deploying = {top_path(assignment.path) for assignment in assigned} & {*foreign}
    for top in sorted({*orphaned, *deploying}):
        message = f"{top} is in no file{' any more' if top in orphaned else ''} and stays unchanged"
        if top in deploying:
            message += ", with all it deploys; to end that, put it into one, empty"
        if top in orphaned:
            message += "; 'zkdeployment sync --prune' removes it"
        yield Problem(message, path=top, severity=Severity.WARNING)


def drift(change: TreeChange, published: Tree, nodes: Mapping[str, LiveNode]) -> Iterator[str]:
    """Yield a message, which starts with the path, for each difference from the published tree.

    ``nodes`` are the existing nodes of ``change.paths``.
    """
    for path in sorted(change.paths):
        node = nodes.get(path)
        if path in change.create:
            if node is not None:
                yield f"{path} is there already"
        elif node is None:
            yield f"{path} is gone"
        elif node.ephemeral:
            yield f"{path} has become an ephemeral node"
        elif not stored_alike(published.properties(path) or {}, node.properties):
            yield from describe_change(TreeChange(update={path: node.properties}), published)


def has_foreign_children(change: TreeChange, published: Tree, nodes: Mapping[str, LiveNode]) -> bool:
    """Whether a node that will be deleted has children that were not published, usually registered instances."""
    return any(path in nodes and nodes[path].children > len(published.children(path)) for path in change.delete)


def completed_targets(live: Targets, published: Targets, files: Container[str]) -> Targets:
    """Return the targets of the last complete publication.

    Services at the paths in ``files`` come from the ``published`` text, because the live tree may have parts of an
    interrupted publication. Other services, which are in no file, come from the live tree.
    """
    return {
        name: (
            *published.get(name, ()),
            *(assignment for assignment in live.get(name, ()) if assignment.path not in files),
        )
        for name in {*published, *live}
    }


def common_targets(first: Targets, second: Targets) -> Targets:
    """Return the common part of two targets: each service with the smaller number of instances."""
    common = {}
    for name in first.keys() & second.keys():
        others = {assignment.path: assignment for assignment in second[name]}
        common[name] = tuple(
            min(assignment, others[assignment.path], key=lambda either: either.n)
            for assignment in first[name]
            if assignment.path in others
        )
    return common


def ordered_revision(published: Published) -> Revision | None:
    """Return the revision that hosts were last ordered to deploy, if the live tree may differ from it."""
    return published.ordered if published.revision is None else None


def is_incomplete(cluster: Cluster | None) -> bool:
    """Whether a publication or an import is incomplete, so that the live tree has only parts of it."""
    return cluster is not None and cluster.importing is not None


def ordered_targets(
    published: Published, cluster: Cluster | None, live: Targets, reviewed: Review, last: Review | None
) -> Targets | None:
    """Return the targets that hosts were last ordered to deploy, if the ``live`` targets may differ from them.

    ``last`` is the text of ``ordered_revision``, ``None`` if it cannot be read; ``reviewed`` is the text of the
    coming publication. Returns ``None`` if the live tree is the tree of the last publication, or if no other text
    is known.
    """
    if published.revision is not None:
        return None
    if published.ordered is None:
        # Before the first publication by this program, hosts have the live tree.
        return completed_targets(live, {}, reviewed.linted.tree.nodes) if is_incomplete(cluster) else None
    if last is None:
        return None
    files = last.linted.tree.nodes.keys() | reviewed.linted.tree.nodes.keys()
    return completed_targets(live, last.targets, files)


def ordered_tree(
    published: Published, cluster: Cluster | None, live: LiveTree, last: Review | None
) -> Tree | None:
    """Return the tree that hosts were last ordered to deploy, if the live tree may differ from it.

    ``last`` is as in ``ordered_targets``. Returns ``None`` as that function does, and if the cluster version was
    set by hand, because hosts then deploy the live tree.
    """
    if published.revision is not None or is_set_by_hand(published, cluster):
        return None
    if last is not None:
        begun = published.begun - frozenset(last.linted.tree.tops)
        return desired_tree(live.tree, last.linted.merged, pinned=live.pinned, pruned=begun)
    if published.ordered is None and is_incomplete(cluster):
        return select_tops(live.tree, frozenset(live.tree.tops) - published.begun)
    return None


def is_set_by_hand(published: Published, cluster: Cluster | None) -> bool:
    """Whether the cluster version was set by hand, so that hosts deploy the live tree."""
    return cluster is not None and cluster.version not in {None, False, published.ordered, INITIAL}


def incompleteness(published: Published, cluster: Cluster | None, *, is_known: bool) -> str | None:
    """Return the warning that the live tree has only parts of a publication or an import, or ``None``.

    ``is_known``: the tree that hosts were last ordered to deploy is known.
    """
    if cluster is None or cluster.importing is None:
        return None
    of = "an import by hand" if cluster.importing == BY_HAND else f"the publication of {short(cluster.importing)}"
    sentence = f"{of} is not complete: it is under way, or was interrupted"
    if published.ordered is None or is_set_by_hand(published, cluster):
        return sentence
    last = short(published.ordered)
    if is_known:
        return f"{sentence}; the plan shows what changes for hosts, which were last ordered to deploy {last}"
    return (
        f"{sentence}; hosts were last ordered to deploy {last}, whose tree cannot be read, so the plan may lack"
        " changes that are in the live tree already; name a configuration with the tree's repository with"
        " --config, or run the command in a clone of that repository"
    )
