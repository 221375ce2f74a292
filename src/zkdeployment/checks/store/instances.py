"""The check instances in ZooKeeper: packed buckets, the last changes, and buckets that cannot be written.

With 100,000 instances there are 4,096 nodes with some 25 instances each: few enough to read all of them, and small
enough to rewrite one of them when an instance changes.

An instance and its entries change in one transaction, which fails if the bucket changed after it was read. Entries
are the nodes ``systems/SYSTEM/flagged/ID``, ``systems/SYSTEM/open/ID``, ``systems/SYSTEM/failed/ID`` and
``due/ID``. The node ``changed`` has the last changes of states.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.base.errors import ConflictError, LockLostError, TreeError, error_message
from zkdeployment.base.log import get_logger
from zkdeployment.checks import paths as check_paths
from zkdeployment.checks.rules.instance import CheckChange, CheckInstance, LastCheckChanges, state_changes
from zkdeployment.checks.rules.listing import is_failed
from zkdeployment.checks.rules.workflow import is_open, life_cycle_turn
from zkdeployment.zookeeper.nodes import Node, encode, pack, unpack
from zkdeployment.zookeeper.transactions import Check, Create, Delete, Operation, Set, TransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from zkdeployment.base.json_values import Value
    from zkdeployment.zookeeper.session import Session


#: Characters of an identifier that name its bucket.
_DIGITS = 3

#: The number of possible buckets.
BUCKETS = 16**_DIGITS


def bucket_of(instance: str) -> str:
    """Return the name of the bucket of an instance."""
    return instance[:_DIGITS]


def bucket_name(number: int) -> str:
    """Return the name of the bucket with a number, modulo the number of buckets."""
    return f"{number % BUCKETS:0{_DIGITS}x}"


def by_bucket(instances: Iterable[str]) -> dict[str, list[str]]:
    """Return the identifiers in lists, by bucket."""
    grouped: dict[str, list[str]] = {}
    for instance in instances:
        grouped.setdefault(bucket_of(instance), []).append(instance)
    return grouped


def encode_instances(instances: Mapping[str, CheckInstance]) -> bytes:
    """Return the data of a bucket with these instances."""
    return pack([instance.to_json() for _, instance in sorted(instances.items())])


def decode_instances(path: str, node: Node | None) -> dict[str, CheckInstance]:
    """Return the instances of a bucket by identifier; raises ``TreeError`` if the bucket is damaged."""
    if node is None:
        return {}
    try:
        listed = unpack(node.data)
        instances = [CheckInstance.from_json(value) for value in listed] if isinstance(listed, list) else None
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if instances is None:
        raise _damaged(path, "expected a list")
    return {instance.id: instance for instance in instances}


def decode_values(path: str, node: Node | None) -> dict[str, Value]:
    """Return the values of a bucket by identifier; a damaged bucket is logged and counts as empty."""
    try:
        values = {} if node is None else unpack(node.data)
    except ValueError as error:
        get_logger().warning("check-results-damaged", path=path, reason=str(error))
        return {}
    return values if isinstance(values, dict) else {}


def _damaged(path: str, reason: str) -> TreeError:
    return TreeError(f"{path} does not hold check instances: {reason}; delete the node, and they are made anew")


#: The limit of listed changes; further changes are only counted.
_MOST_CHANGES = 20


def encode_changes(changes: Sequence[CheckChange]) -> bytes:
    """Return the data of the node after these changes."""
    listed = {change.instance: change.to_json() for change in changes[:_MOST_CHANGES]}
    return json.dumps({"total": len(changes), "changes": listed}, separators=(",", ":")).encode("ascii")


def decode_changes(node: Node) -> LastCheckChanges:
    """Return the changes in the node; a malformed node counts as empty."""
    properties = node.properties
    total, listed = properties.get("total"), properties.get("changes")
    found = (
        []
        if not isinstance(listed, dict)
        else [CheckChange.if_valid(value, instance=name) for name, value in listed.items()]
    )
    changes = tuple(change for change in found if change is not None)
    return LastCheckChanges(node.version, total if isinstance(total, int) else len(changes), changes)


#: The most recorded buckets, and the most characters of each reason.
_MOST_UNWRITTEN = 100
_LONGEST = 300


def record_unwritten(session: Session, reasons: Mapping[str, str]) -> None:
    """Record the reasons for which buckets were not written, by bucket; raises ``UnreachableError``."""
    node = session.get(check_paths.UNWRITTEN)
    data = encode(
        {bucket: reason[:_LONGEST] for bucket, reason in islice(sorted(reasons.items()), _MOST_UNWRITTEN)}
    )
    if node is None and reasons:
        session.ensure(check_paths.UNWRITTEN, data)
    elif node is not None and node.data != data:
        session.commit(Set(check_paths.UNWRITTEN, data))


def read_unwritten(session: Session) -> Mapping[str, str]:
    """Return the recorded reasons by bucket."""
    return unwritten_in(session.get(check_paths.UNWRITTEN))


def unwritten_in(node: Node | None) -> Mapping[str, str]:
    """Return the reasons in the node by bucket, without malformed values."""
    found = {} if node is None else node.properties
    return {bucket: reason[:_LONGEST] for bucket, reason in found.items() if isinstance(reason, str)}


if TYPE_CHECKING:
    #: A change of an instance (``None``: it does not exist): a pure function, which returns the instance
    #: afterwards (``None``: it is removed). It may be called several times, and refuses a change by an exception.
    InstanceChange: TypeAlias = Callable[[str, CheckInstance | None], CheckInstance | None]
if TYPE_CHECKING:
    #: An instance before and after a change.
    ChangedInstance: TypeAlias = tuple[CheckInstance | None, CheckInstance | None]
if TYPE_CHECKING:
    #: Receives the reasons for which instances of a bucket were not written, by identifier.
    ReasonsUnwritten: TypeAlias = Callable[[Mapping[str, str]], None]

_DIRECTORIES = (check_paths.INSTANCES, check_paths.CHANGED)

#: The number of buckets that are read, and then written, together.
_WINDOW = 32

#: The attempts of a change if other processes change the bucket, and the first attempt that reads the entries.
_ATTEMPTS = 20
_VERIFYING = 3


class ZooKeeperCheckInstances:
    """The instances through one session.

    All methods may be called from any thread; each raises ``UnreachableError`` if ZooKeeper does not answer.
    ``lead`` returns the lock node of a coordinator while it leads: every transaction fails unless the node exists,
    so that another coordinator changes nothing. ``reach`` is called before and after each transaction with the
    name of the place.
    """

    def __init__(
        self,
        session: Session,
        lead: Callable[[], str | None] | None = None,
        *,
        reach: Callable[[str], None] = lambda _place: None,
    ) -> None:
        self._session = session
        self._lead = lead
        self._reach = reach
        self._existing: set[str] = set()

    def find(self, instances: Collection[str]) -> Mapping[str, CheckInstance]:
        """Return the existing instances with these identifiers."""
        grouped = by_bucket(instances)
        nodes = self._session.get_many(_path(bucket) for bucket in grouped)
        found: dict[str, CheckInstance] = {}
        for (bucket, wanted), node in zip(grouped.items(), nodes, strict=True):
            held = decode_instances(_path(bucket), node)
            found |= {instance: held[instance] for instance in wanted if instance in held}
        return found

    def scan(self, *, skip_damaged: bool = False) -> Iterator[CheckInstance]:
        """Yield all instances, read in pipelined requests.

        Raises ``TreeError`` if a bucket is damaged, unless damaged ones are skipped.
        """
        names = iter(self._session.children(check_paths.INSTANCES) or ())
        while some := [*islice(names, _WINDOW)]:
            nodes = self._session.get_many(_path(bucket) for bucket in some)
            for bucket, node in zip(some, nodes, strict=True):
                with contextlib.suppress(*[TreeError] if skip_damaged else []):
                    yield from decode_instances(_path(bucket), node).values()

    def bucket(self, number: int) -> Collection[CheckInstance]:
        """Return the instances of the bucket with a number, which is counted around the end."""
        path = _path(bucket_name(number))
        return decode_instances(path, self._session.get(path)).values()

    def flagged(self, system: str) -> Sequence[str]:
        """Return the instances with an update of which the monitoring system was not notified."""
        return self._session.children(_flagged(system)) or ()

    def open(self, system: str) -> Sequence[str]:
        """Return the instances of a monitoring system that wait for it."""
        return self._session.children(_open(system)) or ()

    def failed(self, system: str) -> Sequence[str]:
        """Return the instances that a monitoring system failed to deploy or to undeploy."""
        return self._session.children(_failed(system)) or ()

    def due(self) -> Sequence[str]:
        """Return the instances that the next turn of the life cycle changes."""
        return self._session.children(check_paths.DUE) or ()

    def change(
        self, instances: Collection[str], change: InstanceChange, unwritten: ReasonsUnwritten | None = None
    ) -> Mapping[str, ChangedInstance]:
        """Change instances, each together with its entries in the indexes, and return all of them.

        If another process was faster, the change is computed again. Raises what ``change`` raises,
        ``ConflictError`` if other processes keep changing the same instances, and ``TreeError`` if a bucket is
        damaged or would become too large. With ``unwritten``, the instances of such a bucket are passed to it
        instead, and are missing in the result. After ``UnreachableError`` it is not known which instances were
        changed.
        """
        wanted = by_bucket(instances)
        waiting = deque((bucket, 1) for bucket in sorted(wanted))
        outcome: dict[str, ChangedInstance] = {}
        while waiting:
            batch = [waiting.popleft() for _ in range(min(_WINDOW, len(waiting)))]
            nodes = self._session.get_many(_path(bucket) for bucket, _ in batch)
            sent = []
            for (bucket, attempt), node in zip(batch, nodes, strict=True):
                with _isolated(wanted[bucket], unwritten):
                    verify = attempt >= _VERIFYING
                    sent.append(
                        (bucket, attempt, *self._send(bucket, node, wanted[bucket], change, verify=verify))
                    )
            for bucket, attempt, changed, finish in sent:
                with _isolated(wanted[bucket], unwritten):
                    if self._is_written(bucket, attempt, finish):
                        outcome |= changed
                    else:
                        waiting.append((bucket, attempt + 1))
        return outcome

    def record_unwritten(self, reasons: Mapping[str, str]) -> None:
        """Record the reasons for which instances could not be written, by identifier, in place of earlier ones."""
        record_unwritten(self._session, {bucket_of(instance): reason for instance, reason in reasons.items()})

    def unwritten(self) -> Mapping[str, str]:
        """Return the recorded reasons, by the common beginning of the identifiers of the instances."""
        return read_unwritten(self._session)

    def _is_written(self, bucket: str, attempt: int, finish: Callable[[], None]) -> bool:
        """Wait for a transaction; return whether it was executed. Otherwise it has to be computed again."""
        try:
            finish()
        except TransactionError as error:
            if attempt == _ATTEMPTS:
                raise ConflictError(f"{_path(bucket)} is changed all the time: {error}") from error
            return False
        return True

    def _send(
        self, bucket: str, node: Node | None, wanted: Sequence[str], change: InstanceChange, *, verify: bool
    ) -> tuple[Mapping[str, ChangedInstance], Callable[[], None]]:
        """Send a transaction that changes instances of a bucket; return the changes and a function to await it."""
        held = decode_instances(_path(bucket), node)
        changes: dict[str, ChangedInstance] = {}
        for instance in wanted:
            before = held.get(instance)
            changes[instance] = before, change(instance, before)
        changed = {
            instance: after
            for instance, (before, after) in changes.items()
            if before is not after and before != after
        }
        if not changed:
            return changes, _nothing
        kept = {instance: after for instance, after in (held | changed).items() if after is not None}
        entries: list[Operation] = [
            operation
            for instance in changed
            for operation in self._entries(*changes[instance], instance, verify=verify)
        ]
        states = state_changes(changes[instance] for instance in changed)
        entries += [Set(check_paths.CHANGED, encode_changes(states))] if states else []
        self._ensure([*_DIRECTORIES, *(entry.path.rpartition("/")[0] for entry in entries)])
        return changes, self._begin(_replacing(_path(bucket), node, kept), *entries)

    def _entries(
        self, before: CheckInstance | None, after: CheckInstance | None, instance: str, *, verify: bool
    ) -> Iterator[Operation]:
        """Yield the operations on the entries of an instance; ``verify`` reads which of them exist."""
        former, wanted = _indexes(before), _indexes(after)
        if verify:
            every = sorted(former | wanted)
            nodes = self._session.get_many(f"{index}/{instance}" for index in every)
            former = {index for index, node in zip(every, nodes, strict=True) if node is not None}
        yield from (Delete(f"{index}/{instance}") for index in sorted(former - wanted))
        yield from (Create(f"{index}/{instance}") for index in sorted(wanted - former))

    def _ensure(self, directories: Collection[str]) -> None:
        for directory in {*directories} - self._existing:
            self._session.ensure(directory)
            self._existing.add(directory)

    def _begin(self, *operations: Operation) -> Callable[[], None]:
        if self._lead is None:
            return self._session.begin(*operations)
        lead = self._lead()
        if lead is None:
            raise LockLostError(
                "this coordinator does not lead any more: another coordinator changes check instances"
            )
        self._reach("before:check")
        wait = self._session.begin(Check(lead, 0), *operations)

        def finish() -> None:
            try:
                wait()
            except TransactionError as error:
                if error.path == lead:
                    raise LockLostError("this coordinator lost the lead: its ZooKeeper session expired") from error
                raise
            self._reach("after:check")

        return finish


@contextlib.contextmanager
def _isolated(instances: Collection[str], unwritten: ReasonsUnwritten | None) -> Iterator[None]:
    """Pass the reason why a bucket with these instances is not written to ``unwritten``, if given."""
    try:
        yield
    except (TreeError, ConflictError) as error:
        if unwritten is None:
            raise
        unwritten(dict.fromkeys(instances, error_message(error)))


def _replacing(path: str, node: Node | None, instances: Mapping[str, CheckInstance]) -> Operation:
    """Return the operation that replaces the instances of a bucket; its node is never removed."""
    data = encode_instances(instances)
    return Create(path, data) if node is None else Set(path, data, node.version)


def _indexes(instance: CheckInstance | None) -> set[str]:
    """Return the directories of the indexes that contain an instance."""
    if instance is None:
        return set()
    indexes = {
        _flagged(instance.system): instance.update_available,
        _open(instance.system): is_open(instance),
        _failed(instance.system): is_failed(instance),
        check_paths.DUE: life_cycle_turn(instance, 0.0) != instance,
    }
    return {index for index, belongs in indexes.items() if belongs}


def _path(bucket: str) -> str:
    return f"{check_paths.INSTANCES}/{bucket}"


def _flagged(system: str) -> str:
    return f"{check_paths.system_path(system)}/flagged"


def _open(system: str) -> str:
    return f"{check_paths.system_path(system)}/open"


def _failed(system: str) -> str:
    return f"{check_paths.system_path(system)}/failed"


def _nothing() -> None:
    """Return at once, because nothing was sent."""
