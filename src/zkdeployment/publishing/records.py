"""Records of publishing: a publication as the syncer writes it, requests, reports, refusals and the history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from zkdeployment.base.cluster import is_revision
from zkdeployment.base.host_result import HostResult, number
from zkdeployment.base.json_values import no_keys, unknown_keys
from zkdeployment.base.publication import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.base.cluster import Cluster, Revision
    from zkdeployment.base.publication import OrderEntry, Published, Targets
    from zkdeployment.publishing.left_service import LeftService
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.tree.values import Properties, TreeChange, Value


#: The kind and the subject of a document beside the tree.
DocumentKey: TypeAlias = "tuple[str, tuple[str, ...]]"

#: The content of documents in their YAML form, by kind and subject.
DocumentContents: TypeAlias = "Mapping[DocumentKey, Mapping[str, Any]]"


@dataclass(frozen=True)
class Publication:
    """The publication of one revision: the changes of the tree, all targets, and the roles that need a lock node.

    These values guard against concurrent changes, after which nothing is published: ``expected`` is the cluster
    version to replace (``None``: ``/hosts`` did not exist), ``stops`` the recorded stops (as in ``RequestState``;
    ``None``: any), ``published`` the previous publication, and ``versions`` the data versions of the nodes to
    update or delete. ``request`` is the id of the request that the publication serves: the request must still
    exist, and is removed in the same transaction.

    ``touched`` has the names of all targets that differ from their published versions, and perhaps others;
    ``None`` stands for all targets. ``documents`` has all documents of the revision, and ``touched_documents``
    the keys of all documents that differ from their published versions, and perhaps others (``None``: all keys).

    ``exact``, ``managed`` and ``sequence`` become part of the next ``Published``; ``sequence`` is raised if it
    does not exceed the previous sequence. ``record`` is the entry in the history. ``strategy`` governs the
    rollout; ``None`` means all hosts at once. ``repeats``: the text, the targets and the strategy are the same as
    in the previous publication, so hosts have nothing to do. ``leftovers`` are the top-level nodes of unfinished
    publications that stay because of ephemeral nodes below them. ``withheld`` has the path of each service that
    is not deployed because of the state of its intent, with the target. ``left`` are the services that left the
    governance of their intents. ``intents`` is the number of intents of the revision. ``order`` has the services
    that other deployments wait for, by path.
    """

    revision: Revision
    change: TreeChange
    targets: Targets
    roles: frozenset[str] = frozenset()
    expected: Cluster | None = None
    stops: int | None = None
    request: str | None = None
    published: Published | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    touched: frozenset[str] | None = None
    exact: str | None = None
    managed: frozenset[str] = frozenset()
    leftovers: frozenset[str] = frozenset()
    withheld: frozenset[tuple[str, str]] = frozenset()
    left: tuple[LeftService, ...] = ()
    intents: int = 0
    sequence: int = 0
    record: PublicationRecord | None = None
    strategy: Strategy | None = None
    documents: DocumentContents = field(default_factory=dict)
    touched_documents: frozenset[DocumentKey] | None = None
    repeats: bool = False
    order: Mapping[str, OrderEntry] = field(default_factory=dict)


#: The largest number of problems of a refusal that are kept, and of characters of each.
MOST_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 500

#: The keys of the record of a publication.
_KEYS = frozenset(
    {
        "revision",
        "time",
        "sequence",
        "since",
        "author",
        "subject",
        "committed",
        "signer",
        "forced_by",
        "reason",
        "hosts",
        "excluded",
        "results",
        "left_out",
    }
)


@dataclass(frozen=True)
class ForcedBy:
    """The operator (``USER@HOST``) who forced a publication, and the reason."""

    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PublicationRecord:
    """The record of one publication at ``time``, in seconds since the epoch.

    ``hosts`` is the number of registered hosts at that time; ``excluded`` is the number of these that the
    publication's strategy put in no group. ``since`` is the sequence of the last publication that concerned hosts:
    an earlier one if only documents changed; 0 in old records. ``results`` maps host ids to results. ``left_out``
    is the number of successful hosts that are only counted, because the record has no room for their results.
    """

    revision: Revision
    time: float
    sequence: int = 0
    origin: Origin | None = None
    forced: ForcedBy | None = None
    hosts: int = 0
    excluded: int = 0
    results: Mapping[str, HostResult] = field(default_factory=dict)
    left_out: int = 0
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)
    since: int = 0

    @property
    def effective_since(self) -> int:
        """The sequence of the last publication that concerned hosts: this one, unless only documents changed."""
        return self.since or self.sequence

    @property
    def is_repetition(self) -> bool:
        """Whether only documents changed: hosts that had the publication before recorded this one, too."""
        return self.effective_since < self.sequence

    @property
    def expected(self) -> int:
        """The number of registered hosts that were expected to deploy the publication."""
        return 0 if self.is_repetition else max(0, self.hosts - self.excluded)

    @property
    def failed(self) -> int:
        """The number of hosts that failed."""
        return sum(1 for result in self.results.values() if result.error is not None)

    @property
    def done(self) -> int:
        """The number of hosts that deployed the publication successfully."""
        return len(self.results) - self.failed + self.left_out

    @property
    def ended(self) -> float | None:
        """The time at which the last host finished or failed; ``None`` before the first one did."""
        return max((result.time for result in self.results.values()), default=None)

    def to_json(self) -> dict[str, Value]:
        """Return the form of the record that is stored in ZooKeeper."""
        origin, forced = self.origin, self.forced
        return {
            "revision": self.revision,
            "time": self.time,
            "sequence": self.sequence,
            "since": self.since,
            "author": None if origin is None else origin.author,
            "subject": None if origin is None else origin.subject,
            "committed": None if origin is None else origin.time,
            "signer": None if origin is None else origin.signer,
            "forced_by": None if forced is None else forced.by,
            "reason": None if forced is None else forced.reason,
            "hosts": self.hosts,
            "excluded": self.excluded,
            "results": [result.to_json() for _, result in sorted(self.results.items())],
            "left_out": self.left_out,
        }

    def summary(self) -> dict[str, Value]:
        """Return the record as the list of ``history`` prints it: with counts instead of results."""
        summary = self.to_json()
        del summary["results"], summary["left_out"]
        return summary | {"done": self.done, "failed": self.failed, "ended": self.ended}

    @classmethod
    def from_json(cls, properties: Properties) -> PublicationRecord:
        """Return the value stored in ``properties``; missing or malformed values read as unknown."""
        revision, author, by = (properties.get(name) for name in ("revision", "author", "forced_by"))
        signer, listed = properties.get("signer"), properties.get("results")
        results = (
            [HostResult.from_json(entry) for entry in listed if isinstance(entry, dict)]
            if isinstance(listed, list)
            else []
        )
        return cls(
            revision=revision if isinstance(revision, str | int) else "?",
            time=number(properties.get("time")),
            sequence=int(number(properties.get("sequence"))),
            since=int(number(properties.get("since"))),
            origin=None
            if author is None
            else Origin(
                author=str(author),
                subject=str(properties.get("subject", "")),
                time=number(properties.get("committed")),
                signer=None if signer is None else str(signer),
            ),
            forced=None if by is None else ForcedBy(str(by), str(properties.get("reason") or "")),
            hosts=int(number(properties.get("hosts"))),
            excluded=int(number(properties.get("excluded"))),
            results={result.host_id: result for result in results},
            left_out=int(number(properties.get("left_out"))),
            unknown=unknown_keys(properties, _KEYS),
        )


@dataclass(frozen=True)
class Refusal:
    """A tip that a syncer refused at ``time``, in seconds since the epoch, and why."""

    revision: Revision
    problems: tuple[str, ...]
    time: float

    def to_json(self) -> dict[str, Value]:
        """Return the form of the refusal that is stored in ZooKeeper and printed by ``-o json``."""
        return {"revision": self.revision, "problems": [*self.problems], "time": self.time}

    @classmethod
    def from_json(cls, properties: Properties) -> Refusal:
        """Return the refusal stored in ``properties``; missing or malformed values read as unknown."""
        revision, time, problems = (properties.get(name) for name in ("revision", "time", "problems"))
        return cls(
            revision=revision if is_revision(revision) else "?",
            problems=tuple(map(str, problems)) if isinstance(problems, list) else (),
            time=float(time) if isinstance(time, int | float) else 0.0,
        )


#: The default age in seconds after which a request is no longer served.
AGE_LIMIT = 300.0


@dataclass(frozen=True)
class SyncerReport:
    """The last report of a syncer that follows the repository; ``time`` is in seconds since the epoch.

    ``interval`` is the number of seconds until its next cycle. ``fetched`` is when it last read the repository.
    """

    by: str
    last_message: str
    interval: float
    time: float
    fetched: float | None = None


@dataclass(frozen=True)
class GuardOverrides:
    """The guards that an operator overrides for one publication.

    They are against a rewind, against a mass removal, and against packages that hosts could not install.
    """

    rewind: bool = False
    mass_removal: bool = False
    package_problems: bool = False


@dataclass(frozen=True)
class RequestState:
    """The state of the fleet that a request refers to: the cluster version and the recorded stops.

    ``stops`` is the data version of the parent node of the stops, which changes with each stop and each resume.
    """

    version: Revision | Literal[False] | None
    stops: int


@dataclass(frozen=True)
class PublicationRequest:
    """An operator's request to publish the branch's tip now, as with ``sync --force``.

    ``id`` distinguishes requests. ``error`` is the syncer's answer if the publication failed. The request is
    served only in ``state`` (``None``: the node does not name one), and for ``age_limit`` seconds after it was
    ``written`` by ZooKeeper's clock, in seconds since the epoch.
    """

    id: str
    by: str
    reason: str
    time: float
    overrides: GuardOverrides = GuardOverrides()
    error: str | None = None
    state: RequestState | None = None
    age_limit: float = AGE_LIMIT
    written: float = field(default=0.0, compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether the request is too old to be served at ``now``."""
        return now - self.written > self.age_limit


@dataclass(frozen=True)
class SyncOptions:
    """The options of one run of the syncer.

    ``force`` publishes whatever the fleet is doing, ``prune`` deletes managed top-level nodes without a file,
    ``overrides`` are for guards that hold even with ``force``. ``whole`` reads the whole live tree, which forced
    and pruning runs always do. ``forced`` records who forces the publication and why. ``request`` is the
    operator's request that the run serves.
    """

    force: bool = False
    prune: bool = False
    overrides: GuardOverrides = GuardOverrides()
    whole: bool = False
    forced: ForcedBy | None = None
    request: PublicationRequest | None = None

    @property
    def reads_whole_tree(self) -> bool:
        """Whether the last published text is not enough."""
        return self.whole or self.force or self.prune
