"""The mechanism ``role``: nodes are hosts of this fleet, whose own agents change roles and write keys."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from zkdeployment.base.errors import ProgramError, TreeError, UnreachableError, error_message
from zkdeployment.pools.documents import NodePool, RoleMechanism
from zkdeployment.pools.rules.host_lease import LeaseProgress, LeaseStage, lease_progress
from zkdeployment.pools.rules.node import (
    NodeEvent,
    NodeState,
    PoolNode,
    end_of_deprovisioning,
    end_of_provisioning,
    fail,
)
from zkdeployment.pools.rules.results import MechanismOutcome, deprovisioned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.agent.rules.lease import Lease
    from zkdeployment.base.host import Host
    from zkdeployment.base.machine.clock import Clock
    from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks
    from zkdeployment.pools.store.leases import ZooKeeperLeases

T = TypeVar("T")

#: The most seconds that a host may take to change its role, while the fleet is neither stopped nor held, and its
#: agent to write or remove a key.
_ROLE_LIMIT = 1800.0
_KEY_LIMIT = 60.0

#: Seconds for which a host that changes its role may be absent, because it may be restarting.
_ABSENCE_LIMIT = 300.0

#: The most seconds between two reads of the hosts; changes of hosts cause a read at once.
_LOOK = 1.0


class RoleNodes:
    """Leases hosts of the fleet (a ``PoolMechanism``). ``is_stopped`` returns whether this process has to end.

    ``playbooks`` runs the playbooks that reset hosts.
    """

    def __init__(
        self, leases: ZooKeeperLeases, clock: Clock, is_stopped: Callable[[], bool], playbooks: AnsiblePlaybooks
    ) -> None:
        self._playbooks = playbooks
        self._leases = leases
        self._clock = clock
        self._is_stopped = is_stopped

    def reuse_values(self, pool: NodePool) -> Mapping[str, int | str] | None:  # noqa: ARG002  all idle hosts fit
        return None

    def provision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        role = _mechanism(pool)
        failures = self._change_roles({_host(node): role.leased for node in nodes}, needs_version=True)
        after: dict[int, PoolNode | None] = {}
        problems: list[str] = []
        for node in nodes:
            reason = failures.get(_host(node))
            if reason is None:
                after[node.id] = self._ready(node)
                continue
            reason += self._give_back(_host(node), role)
            problems.append(f"node {node.id}, host {node.host}, did not take the role {role.leased}: {reason}")
            after[node.id] = end_of_provisioning(node, self._clock.now())
        return MechanismOutcome.of(after, problems)

    def deprovision(self, pool: NodePool, nodes: Sequence[PoolNode]) -> MechanismOutcome:
        role = _mechanism(pool)
        idle = {_host(node): self._idle_role(_host(node), role) for node in nodes}
        unreset = self._reset(pool, role, nodes, idle)
        ended, problems = list(unreset.nodes), list(unreset.problems)
        failed = {node.id for node in ended}
        rest = [node for node in nodes if node.id not in failed]
        failures = self._change_roles({_host(node): idle[_host(node)] for node in rest}, needs_version=False)
        for node in rest:
            reason, now = failures.get(_host(node)), self._clock.now()
            if reason is None:
                ended.append(end_of_deprovisioning(node, now))
            else:
                wanted = idle[_host(node)]
                detail = f"deprovisioning node failed: the host did not take its idle role {wanted}: {reason}"
                problems.append(f"node {node.id}, host {node.host}: {detail}")
                ended.append(fail(node, detail, now))
        return MechanismOutcome(tuple(ended), (), tuple(problems))

    def _reset(
        self, pool: NodePool, role: RoleMechanism, nodes: Sequence[PoolNode], idle: Mapping[str, str]
    ) -> MechanismOutcome:
        """Run the playbook that installs hosts again, if there is one; return the nodes for which it failed.

        The hosts get their idle roles first, because a host that was installed again deploys the role in its
        lease.
        """
        if role.reset is None:
            return MechanismOutcome()
        for host_id, wanted in idle.items():
            with contextlib.suppress(TreeError):  # reported later, when the role is awaited
                self._give(host_id, wanted)
        given = [
            {"id": node.id, "hostname": node.hostname, "ipaddr": node.ipaddr, "data": dict(node.data)}
            for node in nodes
        ]
        output = self._playbooks.run(role.reset, role.reset.provision, pool.values, given)
        outcome = deprovisioned(nodes, output, self._clock.now())
        failed = tuple(node for node in outcome.nodes if node.state is NodeState.FAILED)
        return MechanismOutcome(failed, (), outcome.problems)

    def probe(self, node: PoolNode) -> None:
        try:
            seen = self._leases.observe(_host(node))
        except TreeError as error:
            raise ProgramError(error_message(error)) from error
        if seen.lease is None:
            raise ProgramError(f"host {node.host} has no lease")
        found = lease_progress(seen, seen.lease, needs_version=False)
        if found.stage is not LeaseStage.REACHED:
            raise ProgramError(f"host {node.host}: {found.reason}")

    def write_keys(self, node: PoolNode, keys: Sequence[str]) -> tuple[str, ...]:
        try:
            self._change_keys(node, keys, node.session)
        except ProgramError:
            if not self._is_stopped():  # else another worker continues with the session and its keys
                with contextlib.suppress(ProgramError):  # the host has no lease that it could follow
                    self._lease_keys(node, ())
            raise
        return tuple(keys)

    def remove_keys(self, node: PoolNode) -> None:
        self._change_keys(node, ())

    def _change_keys(self, node: PoolNode, keys: Sequence[str], session: int | None = None) -> None:
        """Write a lease with other keys, and wait until the host's agent confirms it."""
        host_id, given = _host(node), self._lease_keys(node, keys, session)
        failures = self._follow({host_id: given}, _KEY_LIMIT, needs_version=False, pauses=False)
        if failures:
            raise ProgramError(f"host {host_id} did not confirm its keys: {failures[host_id]}")

    def _lease_keys(self, node: PoolNode, keys: Sequence[str], session: int | None = None) -> Lease:
        """Write a lease with other keys, those of ``session``, and return it."""
        host_id = _host(node)
        try:
            return self._answered(lambda: self._leases.give(host_id, None, keys, session))
        except TreeError as error:
            raise ProgramError(f"host {host_id} cannot get its keys: {error_message(error)}") from error

    def _change_roles(self, roles: Mapping[str, str], *, needs_version: bool) -> dict[str, str]:
        """Give roles to hosts and wait until the hosts have them; return the reasons of failures, by host.

        A malformed lease affects only its own host.
        """
        given: dict[str, Lease] = {}
        malformed: dict[str, str] = {}
        for host_id, role in roles.items():
            try:
                given[host_id] = self._give(host_id, role)
            except TreeError as error:
                malformed[host_id] = error_message(error)
        return malformed | self._follow(given, _ROLE_LIMIT, needs_version=needs_version, pauses=True)

    def _give_back(self, host_id: str, role: RoleMechanism) -> str:
        """Give a host its idle role without waiting for the host; return the problem, or an empty text."""
        try:
            self._give(host_id, self._idle_role(host_id, role))
        except TreeError as error:
            return f"; its idle role cannot be given back: {error_message(error)}"
        return ""

    def _idle_role(self, host_id: str, role: RoleMechanism) -> str:
        """Return the idle role in a host's own configuration, or the pool's while the host is not known."""
        host = self._observed(host_id)
        return role.idle if host is None or host.idle_role is None else host.idle_role

    def _give(self, host_id: str, role: str) -> Lease:
        """Give a role without keys, repeatedly while ZooKeeper does not answer; an equal lease stays unchanged."""
        return self._answered(lambda: self._leases.give(host_id, role, ()))

    def _observed(self, host_id: str) -> Host | None:
        """Return a host; ``None`` if it is not registered, or if its lease is malformed."""
        try:
            return self._answered(lambda: self._leases.observe(host_id)).host
        except TreeError:
            return None

    def _answered(self, call: Callable[[], T]) -> T:
        """Return the result of a call that is repeated while ZooKeeper does not answer."""
        while True:
            self._check_stopped()
            try:
                return call()
            except UnreachableError:
                self._leases.wait([], _LOOK)

    def _follow(
        self, given: Mapping[str, Lease], limit: float, *, needs_version: bool, pauses: bool
    ) -> dict[str, str]:
        """Wait until hosts have reached their leases; return the reasons of failures, by host.

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
                with contextlib.suppress(UnreachableError):  # the next check waits for ZooKeeper
                    self._leases.wait(list(pending), _LOOK)
        return failures

    def _progress(self, host_id: str, lease: Lease, needs_version: bool) -> LeaseProgress:  # noqa: FBT001
        try:
            seen = self._leases.observe(host_id)
        except TreeError as error:
            return LeaseProgress(LeaseStage.FAILED, error_message(error))
        return lease_progress(seen, lease, needs_version=needs_version)

    def _ready(self, node: PoolNode) -> PoolNode:
        """Return a node as ready, with the present name and address of its host, if known."""
        host = self._observed(_host(node))
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
