"""Records of publishing: the publication that the syncer writes, requests, reports, refusals and the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from zkdeployment.base.act import NO_REASON
from zkdeployment.base.cluster import Cluster, Revision
from zkdeployment.base.deployment import HostResult
from zkdeployment.base.publication import LeftService, OrderEntry, Origin, Published, Targets
from zkdeployment.base.records import APART, OMITTED, Key, Record, no_keys
from zkdeployment.base.values import dataclass

if TYPE_CHECKING:
    from zkdeployment.documents.collection import DocumentContents, DocumentKey
    from zkdeployment.strategies.strategy import Strategy
    from zkdeployment.tree.values import TreeChange


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
    publications that stay because of ephemeral nodes below them. ``withheld`` has the path and the target of each
    service that is not deployed because of the state of its intent. ``left`` are the services that left the
    governance of their intents. ``intents`` is the number of intents of the revision. ``order`` has the services
    for which other deployments wait, by path.
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


#: The limits of kept problems of a refusal, and of characters of each.
MOST_PROBLEMS = 20
MAX_PROBLEM_LENGTH = 500


@dataclass(frozen=True)
class ForcedBy(Record):
    """The operator (``USER@HOST``) who forced a publication, the reason, and the options that override guards."""

    is_lenient: ClassVar[bool] = True
    by: Annotated[str, Key("forced_by")]
    reason: str = ""
    overrides: Annotated[str, OMITTED] = ""

    def __str__(self) -> str:
        overrides = f" ({self.overrides})" if self.overrides else ""
        return f"{self.by}{overrides}: {self.reason or NO_REASON}"


def _results_to_json(results: Mapping[str, HostResult]) -> list[dict[str, Any]]:
    return [result.to_json() for _, result in sorted(results.items())]


def _results(listed: Iterable[Any]) -> dict[str, HostResult]:
    results = [HostResult.from_json(entry) for entry in listed if isinstance(entry, dict)]
    return {result.host_id: result for result in results}


#: The most services whose versions a record has.
MOST_VERSIONS = 100


@dataclass(frozen=True, slots=True)
class ServiceVersion(Record):
    """The wanted version of a service since a publication; empty if nothing deploys it."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class PublicationRecord(Record):
    """The record of one publication at ``time``, in seconds since the epoch.

    ``hosts`` is the number of registered hosts at that time; ``excluded`` is the number of these that are in no
    group of the publication's strategy or in maintenance. ``since`` is the sequence of the last publication that
    concerned hosts: an earlier one if only documents changed; 0 in old records. ``nodes`` is the number of nodes
    of the tree that the publication created, updated or deleted. ``versions`` are those of the first services,
    sorted by path, whose wanted versions it changed. ``results`` maps host ids to results. ``left_out`` is the
    number of successful hosts whose results do not fit into the record.
    """

    is_lenient: ClassVar[bool] = True
    revision: Revision
    time: float
    sequence: int = 0
    since: int = 0
    origin: Annotated[Origin | None, Key(flat=True)] = None
    forced: Annotated[ForcedBy | None, Key(flat=True)] = None
    hosts: int = 0
    excluded: int = 0
    nodes: int | None = None
    versions: Annotated[tuple[ServiceVersion, ...], OMITTED] = ()
    results: Annotated[
        Mapping[str, HostResult], Key(read=_results, write=_results_to_json, form=tuple[HostResult, ...])
    ] = field(default_factory=dict)
    left_out: int = 0
    unknown: Mapping[str, Any] = field(default_factory=no_keys, compare=False)

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
        """The number of hosts whose last attempt failed."""
        return sum(1 for result in self.results.values() if result.error is not None)

    @property
    def repaired(self) -> int:
        """The number of hosts that succeeded after a failure."""
        return sum(result.is_repaired for result in self.results.values())

    @property
    def done(self) -> int:
        """The number of hosts that deployed the publication successfully."""
        return len(self.results) - self.failed + self.left_out

    @property
    def ended(self) -> float | None:
        """The time at which the last host finished or failed; ``None`` before the first one did."""
        return max((result.time for result in self.results.values()), default=None)

    def summary(self) -> dict[str, Any]:
        """Return the record as the list of ``history`` prints it: with counts instead of results."""
        summary = self.to_json()
        del summary["results"], summary["left_out"]
        return summary | {"done": self.done, "failed": self.failed, "repaired": self.repaired, "ended": self.ended}


class PublicationOutcome(Enum):
    """The outcome of a publication, as far as it is known."""

    FAILED = "failed"  # on at least one host
    REPAIRED = "repaired"  # done on all hosts, at first it failed on at least one
    DONE = "done"  # on all hosts that were expected to deploy it
    PARTIAL = "partial"  # the next publication came before all hosts were done
    UNDER_WAY = "under way"
    DOCUMENTS = "documents only"

    @property
    def is_complete(self) -> bool:
        """Whether all hosts had the publication that were expected to deploy it."""
        return self in {PublicationOutcome.DONE, PublicationOutcome.REPAIRED, PublicationOutcome.DOCUMENTS}


@dataclass(frozen=True, slots=True)
class PublicationSummary:
    """A publication without the results of single hosts; times are in seconds since the epoch.

    ``first_failure`` is when the first host failed, ``ended`` when the last one finished or failed.
    """

    revision: Revision
    time: float
    sequence: int
    origin: Origin | None
    forced_by: str
    nodes: int | None
    expected: int
    done: int
    failed: int
    repaired: int
    is_repetition: bool
    first_failure: float | None
    ended: float | None

    @classmethod
    def of(cls, record: PublicationRecord) -> PublicationSummary:
        """Return the summary of a record."""
        firsts = [result.first_failure for result in record.results.values()]
        return cls(
            record.revision,
            record.time,
            record.sequence,
            record.origin,
            "" if record.forced is None else record.forced.by,
            record.nodes,
            record.expected,
            record.done,
            record.failed,
            record.repaired,
            record.is_repetition,
            min((first.time for first in firsts if first is not None), default=None),
            record.ended,
        )

    def outcome(self, *, newest: bool) -> PublicationOutcome:
        """Return the outcome; ``newest``: no later publication exists."""
        if self.failed:
            return PublicationOutcome.FAILED
        if self.is_repetition:
            return PublicationOutcome.DOCUMENTS
        if self.done >= self.expected:
            return PublicationOutcome.REPAIRED if self.repaired else PublicationOutcome.DONE
        return PublicationOutcome.UNDER_WAY if newest else PublicationOutcome.PARTIAL


@dataclass(frozen=True)
class Refusal(Record):
    """A tip that a syncer refused at ``time``, in seconds since the epoch, with the problems.

    The author and the subject of the commit are empty if the repository could not be read.
    """

    is_lenient: ClassVar[bool] = True
    revision: Revision
    problems: tuple[str, ...] = ()
    time: float = 0.0
    author: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class CommitSummary(Record):
    """A commit of the branch: its id, its author, its subject, and its time in seconds since the epoch."""

    is_lenient: ClassVar[bool] = True
    id: Annotated[str, Key("revision")]
    author: str
    subject: str
    time: float


@dataclass(frozen=True, slots=True)
class BranchSummary:
    """A branch of the repository, and its newest commit."""

    name: str
    commit: CommitSummary


#: The default age in seconds after which a request is no longer served.
AGE_LIMIT = 300.0

#: The seconds that a syncer's check of packages may take: the syncer holds the lock of publications meanwhile.
CHECK_BUDGET = 60.0


#: A syncer is late after this number of its intervals, but never before these seconds.
_INTERVALS = 3
_PATIENCE = 60.0

#: The most commits that a report of a syncer names.
MOST_WAITING = 10


@dataclass(frozen=True)
class SyncerReport(Record):
    """The last report of a syncer that follows the repository; ``time`` is in seconds since the epoch.

    ``interval`` is the number of seconds until its next cycle. ``fetched`` is when it last read the repository.
    ``waiting`` are the commits of the branch that are not published, at most ``MOST_WAITING``, newest first.
    ``absent`` maps the ids of the absent hosts to the times at which they disappeared, ``None`` for a time that no
    syncer saw; reports of older syncers, and those that would be too large for their node, lack the key.
    """

    is_lenient: ClassVar[bool] = True
    by: str
    last_message: Annotated[str, Key("said")]
    interval: float
    time: Annotated[float, APART]
    fetched: float | None = None
    waiting: Annotated[tuple[CommitSummary, ...], OMITTED] = ()
    absent: Annotated[Mapping[str, float | None] | None, OMITTED] = None

    @property
    def patience(self) -> float:
        """The number of seconds after which the next report is late."""
        return max(_INTERVALS * self.interval, _PATIENCE)


@dataclass(frozen=True)
class GuardOverrides(Record):
    """The guards that an operator overrides for one publication.

    The guards prevent a rewind, a mass removal, and packages that hosts could not install.
    """

    is_lenient: ClassVar[bool] = True
    rewind: Annotated[bool, Key("allow-rewind")] = False
    mass_removal: Annotated[bool, Key("allow-mass-removal")] = False
    package_problems: Annotated[bool, Key("allow-package-problems")] = False

    @property
    def command(self) -> str:
        """The quoted command with which an operator publishes the tip in spite of these guards."""
        return f"'zkdeployment resume --latest {self}'"

    def __str__(self) -> str:
        """The overridden guards as the options of a verb; empty without any."""
        return " ".join(f"--{name}" for name, is_overridden in self.to_json().items() if is_overridden)


@dataclass(frozen=True)
class RequestState(Record):
    """The state of the fleet for which a request is valid: the cluster version and the recorded stops.

    ``stops`` is the data version of the parent node of the stops, which changes with each stop and each resume.
    A malformed state matches no fleet.
    """

    is_lenient: ClassVar[bool] = True
    version: Revision | Literal[False] | None = None
    stops: int = -1


@dataclass(frozen=True)
class PublicationRequest(Record):
    """An operator's request to publish the branch's tip now, as with ``sync --force``.

    ``id`` distinguishes requests. ``error`` is the syncer's answer if the publication failed. The request is
    served only in ``state`` (``None``: the node does not name one), and for ``age_limit`` seconds after it was
    ``written`` by ZooKeeper's clock, in seconds since the epoch.
    """

    is_lenient: ClassVar[bool] = True
    id: str
    by: str
    reason: str = ""
    time: float = 0.0
    overrides: Annotated[GuardOverrides, Key(flat=True)] = GuardOverrides()
    error: Annotated[str | None, OMITTED] = None
    state: RequestState | None = None
    age_limit: Annotated[float, Key("age-limit")] = AGE_LIMIT
    written: Annotated[float, APART] = field(default=0.0, compare=False)

    def is_expired(self, now: float) -> bool:
        """Whether the request is too old to be served at ``now``."""
        return now - self.written > self.age_limit


@dataclass(frozen=True)
class SyncOptions:
    """The options of one run of the syncer.

    ``force`` publishes in any state of the fleet, ``prune`` deletes managed top-level nodes without a file,
    ``overrides`` disable guards that apply even with ``force``. ``whole`` reads the whole live tree, which forced
    and pruning runs always do. ``forced`` names the operator who forces the publication, and the reason.
    ``request`` is the operator's request that the run serves.
    """

    force: bool = False
    prune: bool = False
    overrides: GuardOverrides = GuardOverrides()
    whole: bool = False
    forced: ForcedBy | None = None
    request: PublicationRequest | None = None

    @property
    def reads_whole_tree(self) -> bool:
        """Whether the run reads the whole live tree, not only the last published text."""
        return self.whole or self.force or self.prune
