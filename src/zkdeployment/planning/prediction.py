"""The prediction of a publication: the forecast of all hosts, and their order by the strategy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from zkdeployment.documents.strategies.changes import StrategyChange
from zkdeployment.model.inventory import absent_hosts
from zkdeployment.model.publication import Published
from zkdeployment.planning.forecast import forecast
from zkdeployment.planning.interruption import incompleteness, is_incomplete, ordered_targets, ordered_tree
from zkdeployment.planning.order import order
from zkdeployment.planning.published_state import PublicationSnapshot
from zkdeployment.planning.publishing import Baseline, draft
from zkdeployment.planning.targets.governance import published_governance
from zkdeployment.tree.diff import apply_change, diff

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zkdeployment.documents.published import PublishedDocuments
    from zkdeployment.model.cluster import Cluster, Revision
    from zkdeployment.model.host import Host
    from zkdeployment.model.inventory import KnownHost
    from zkdeployment.model.publication import Targets
    from zkdeployment.model.publishing.left_service import LeftService
    from zkdeployment.model.publishing.tree_change import LiveTree
    from zkdeployment.model.strategy import Strategy
    from zkdeployment.model.tree import Tree, Value
    from zkdeployment.planning.availability.findings import PackageFindings
    from zkdeployment.planning.forecast import Forecast
    from zkdeployment.planning.publishing import Draft
    from zkdeployment.planning.review import Review


@dataclass(frozen=True, slots=True)
class PredictionBasis:
    """The fleet before the publication: its version, its registered and known hosts, its tree and its documents.

    ``published`` is the last publication. ``unfinished`` is as in ``PublicationSnapshot``. ``ordered_text`` is the
    text of ``interruption.ordered_revision``; ``None`` if there is no such revision or it cannot be read. ``left``
    are the services that left the governance of their intents.
    """

    cluster: Cluster | None
    hosts: Sequence[Host]
    known: Sequence[KnownHost]
    live: LiveTree
    strategy: Strategy | None
    documents: PublishedDocuments
    published: Published = Published()  # noqa: RUF009  it cannot be changed
    unfinished: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ordered_text: Review | None = None
    left: Sequence[LeftService] = ()

    @property
    def baseline(self) -> Baseline:
        """The published state, compiled from the live tree."""
        governance = published_governance(self.documents, self.left)
        baseline = Baseline.of_live_tree(self.live, self.strategy, self.documents, governance)
        return baseline if self.ordered_text is None else replace(baseline, text=self.ordered_text.linted.tree)

    @property
    def since(self) -> int:
        """The sequence of the last publication that concerned hosts; 0 if no revision is completely published."""
        return 0 if self.published.revision is None else self.published.effective_since


@dataclass(frozen=True, slots=True)
class Prediction:
    """The forecast with the strategy, the warnings of the draft and of the strategy, and the targets.

    ``targets_before`` are the targets that hosts were last ordered to deploy. ``packages`` are the findings about
    the packages that are newly wanted; ``None`` if these were not checked.
    """

    forecast: Forecast
    warnings: tuple[str, ...]
    targets: Targets
    targets_before: Targets
    packages: PackageFindings | None = None

    def to_json(self) -> dict[str, Value]:
        """Return the JSON form, as ``plan -o json`` prints it."""
        packages = None if self.packages is None else self.packages.to_json()
        return self.forecast.to_json() | {"warnings": [*self.warnings], "packages": packages}


def predict(
    reviewed: Review,
    basis: PredictionBasis,
    *,
    revision: Revision | None,
    title: str,
    selected: Collection[str] = (),
    keeps_strategy: bool = False,
) -> Prediction:
    """Return what hosts would do if a reviewed tree without errors were published.

    ``title`` names the tree in messages if it has no ``revision``. ``selected`` are hosts by id or name; without
    any, all hosts are predicted. ``keeps_strategy``: the files do not contain the documents, so the
    published intents stay. Raises ``TreeError``, and ``NotFoundError`` for a selected host that does not exist.
    """
    published, cluster, live, last = basis.published, basis.cluster, basis.live, basis.ordered_text
    baseline = basis.baseline
    baseline = replace(baseline, completed=ordered_targets(published, cluster, baseline.targets, reviewed, last))
    if keeps_strategy:  # the top-level nodes of other files are unknown
        published = replace(published, managed=frozenset(), begun=frozenset())
    snapshot = PublicationSnapshot(
        cluster,
        published,
        hosts=basis.hosts,
        absent=absent_hosts(basis.known, basis.hosts),
        unfinished=basis.unfinished,
    )
    drafted = draft(reviewed, baseline, snapshot, revision=revision or title, keeps_governance=keeps_strategy)
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
    )
    strategy = StrategyChange(basis.strategy, basis.strategy) if keeps_strategy else drafted.strategy
    after = strategy.after
    turns = None if after is None else order(after, basis.hosts, basis.known, drafted.targets)
    incomplete = incompleteness(published, cluster, is_known=had is not None)
    warnings = [] if incomplete is None else [f"warning: {incomplete}"]
    warnings += [str(problem) for problem in drafted.warnings]
    warnings += [f"warning: {warning}" for warning in (() if turns is None else turns.warnings)]
    predicted = predicted.with_strategy(strategy, turns)
    return Prediction(
        predicted if keeps_strategy else predicted.with_documents(drafted.documents),
        tuple(warnings),
        drafted.targets,
        baseline.ordered,
    )


def _since_completion(drafted: Draft, had: Tree, last: Review | None) -> Draft:
    """Return the draft with its changes since the ``last`` complete text, after which hosts ``had`` that tree."""
    after = apply_change(drafted.baseline.live.tree, drafted.change)
    former = {} if last is None else last.documents.contents
    return replace(drafted, change=diff(had, after), documents=replace(drafted.documents, before=former))
