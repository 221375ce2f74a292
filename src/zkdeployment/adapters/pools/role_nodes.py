"""The mechanism ``role``: nodes are hosts of this fleet, which their own agents change and give keys to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.documents.pools.values import RoleMechanism
from zkdeployment.errors import ProgramError, UnreachableError
from zkdeployment.pools.lease_progress import LeaseProgress, LeaseStage, lease_progress
from zkdeployment.pools.node import NodeEvent, end_of_deprovisioning, end_of_provisioning, fail
from zkdeployment.pools.playbook_results import MechanismOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.documents.pools.values import NodePool
    from zkdeployment.pools.lease import Lease
    from zkdeployment.pools.node import PoolNode
    from zkdeployment.ports.pools import LeaseStore
    from zkdeployment.ports.process import Clock

#: The most seconds that a host may take to change its role, while the fleet is neither stopped nor held, and its
#: agent to write or remove a key.
_ROLE_LIMIT = 1800.0
_KEY_LIMIT = 60.0

#: Seconds for which a host that changes its role may be absent: it may be starting again.
_ABSENCE_LIMIT = 300.0

#: The most seconds between two looks at hosts; changes of hosts cause a look at once.
_LOOK = 1.0


class RoleNodes:
    """Leases hosts of the fleet (a ``PoolMechanism``). ``is_stopped`` returns whether this process is to end."""

    def __init__(self, leases: LeaseStore, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._leases = leases
        self._clock = clock
        self._is_stopped = is_stopped

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:  # noqa: ARG002  all idle hosts fit
        return None

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        role = _mechanism(pool)
        given = {_host(node): self._give(_host(node), role.leased, ()) for node in nodes}
        failures = self._follow(given, _ROLE_LIMIT, needs_version=True, pauses=True)
        kept: list[PoolNode] = []
        deleted: list[int] = []
        problems: list[str] = []
        for node in nodes:
            reason = failures.get(_host(node))
            if reason is None:
                kept.append(self._ready(node))
                continue
            self._give(_host(node), role.idle, ())
            problems.append(f"node {node.id}, host {node.host}, did not take the role {role.leased}: {reason}")
            rest = end_of_provisioning(node, self._clock.now())
            if rest is None:
                deleted.append(node.id)
            else:
                kept.append(rest)
        return MechanismOutcome(tuple(kept), tuple(deleted), tuple(problems))

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        role = _mechanism(pool)
        given = {_host(node): self._give(_host(node), role.idle, ()) for node in nodes}
        failures = self._follow(given, _ROLE_LIMIT, needs_version=False, pauses=True)
        ended: list[PoolNode] = []
        problems: list[str] = []
        for node in nodes:
            reason, now = failures.get(_host(node)), self._clock.now()
            if reason is None:
                ended.append(end_of_deprovisioning(node, now))
            else:
                detail = f"deprovisioning node failed: the host did not take its idle role {role.idle}: {reason}"
                problems.append(f"node {node.id}, host {node.host}: {detail}")
                ended.append(fail(node, detail, now))
        return MechanismOutcome(tuple(ended), (), tuple(problems))

    def write_key(self, node: PoolNode, key: str) -> None:
        self._change_keys(node, (key,))

    def remove_key(self, node: PoolNode) -> None:
        self._change_keys(node, ())

    def _change_keys(self, node: PoolNode, keys: Sequence[str]) -> None:
        """Write a lease with other keys, and wait until the host's agent confirms it."""
        host_id = _host(node)
        given = self._give(host_id, None, keys)
        failures = self._follow({host_id: given}, _KEY_LIMIT, needs_version=False, pauses=False)
        if failures:
            raise ProgramError(f"host {host_id} did not confirm its keys: {failures[host_id]}")

    def _give(self, host_id: str, role: str | None, keys: Sequence[str]) -> Lease:
        """Write a lease; while ZooKeeper does not answer, try again, which is safe: an equal lease stays."""
        while True:
            try:
                return self._leases.give(host_id, role, keys)
            except UnreachableError:
                self._check_stopped()
                self._leases.wait([], _LOOK)

    def _follow(
        self, given: Mapping[str, Lease], limit: float, *, needs_version: bool, pauses: bool
    ) -> dict[str, str]:
        """Wait until hosts have reached their leases; return the reasons of those that did not, by host.

        With ``pauses``, the time in which the fleet is stopped or held does not count.
        """
        waited, before = 0.0, self._clock.monotonic()
        pending, failures, absent = dict(given), dict[str, str](), dict[str, float]()
        while pending:
            self._check_stopped()
            try:
                progress = {host: self._progress(host, pending[host], needs_version) for host in pending}
            except UnreachableError:
                self._leases.wait([], _LOOK)
                continue
            now = self._clock.monotonic()
            is_halted = any(found.stage is LeaseStage.HALTED for found in progress.values())
            waited += 0.0 if pauses and is_halted else now - before
            before = now
            for host, found in progress.items():
                is_absent = found.stage is LeaseStage.ABSENT
                absent = {**absent, host: absent.get(host, now)} if is_absent else absent
                is_late = waited >= limit or (is_absent and now - absent[host] >= _ABSENCE_LIMIT)
                if found.stage is LeaseStage.FAILED or (is_late and found.stage is not LeaseStage.REACHED):
                    late = (
                        ""
                        if found.stage is LeaseStage.FAILED
                        else f"not within {limit if waited >= limit else _ABSENCE_LIMIT:.0f} s; "
                    )
                    failures[host] = f"{late}{found.reason}"
                if found.stage is LeaseStage.REACHED or host in failures:
                    del pending[host]
                elif not is_absent:
                    absent.pop(host, None)
            if pending:
                self._leases.wait(list(pending), _LOOK)
        return failures

    def _progress(self, host_id: str, lease: Lease, needs_version: bool) -> LeaseProgress:  # noqa: FBT001
        return lease_progress(self._leases.observe(host_id), lease, needs_version=needs_version)

    def _ready(self, node: PoolNode) -> PoolNode:
        """Return a node as ready, with the present name and address of its host."""
        host = self._leases.observe(_host(node)).host
        name = node.hostname if host is None else host.identity.name
        address = node.ipaddr if host is None else host.address or node.ipaddr
        result = {"hostname": name, "ipaddr": address}
        data = {**node.data, "provision": result}
        return node.after(NodeEvent.PROVISIONED, self._clock.now(), hostname=name, ipaddr=address, data=data)

    def _check_stopped(self) -> None:
        if self._is_stopped():
            raise ProgramError("the worker ends")


def _mechanism(pool: NodePool) -> RoleMechanism:
    if not isinstance(pool.mechanism, RoleMechanism):
        raise ProgramError(f"the pool {pool.name} has another mechanism now; expected role")
    return pool.mechanism


def _host(node: PoolNode) -> str:
    if node.host is None:
        raise ProgramError(f"node {node.id} is no host of this fleet; retire it")
    return node.host
