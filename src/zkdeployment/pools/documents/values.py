"""Pools of hosts as their document describes them, merged with the pools that they extend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from zkdeployment.service.users.user import TenantLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zkdeployment.strategies.strategy import Window


@dataclass(frozen=True, slots=True)
class Playbook:
    """A playbook of Ansible with its variables, whose texts are templates over the values of the pool."""

    playbook: str
    extra_vars: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnsibleMechanism:
    """Nodes are made by one playbook below ``topdir`` and removed by another, if there is one."""

    topdir: str
    provision: Playbook
    deprovision: Playbook | None = None


@dataclass(frozen=True, slots=True)
class RoleMechanism:
    """Nodes are hosts of this fleet: they have the role ``idle``, and ``leased`` while they are in the pool.

    The playbook ``reset.provision`` installs a host again after a session, or restores a snapshot of it.
    """

    idle: str
    leased: str
    reset: AnsibleMechanism | None = None


@dataclass(frozen=True, slots=True)
class ScheduledLevel:
    """The level of a pool while a window is open."""

    window: Window
    level: int


Mechanism: TypeAlias = "AnsibleMechanism | RoleMechanism"


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool of equivalent nodes.

    ``fill_level`` is the number of nodes that the pool keeps ready; a pool without a level lends no nodes.
    ``reuse`` are the values that unused nodes must have to be provisioned into this pool; without it, nodes are
    made anew. ``node_quota`` is the number of nodes of this pool that a tenant may have (``None``: only the quota
    for all pools counts). ``schedule`` are other levels at certain times; the first one whose window is open
    counts. ``run_parallel`` is whether each node has a run of the playbook of its own. ``values`` are all keys of
    the merged document, for templates.
    """

    name: str
    mechanism: Mechanism
    fill_level: int | None = None
    reuse: Mapping[str, int | str] | None = None
    run_parallel: bool = True
    values: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[ScheduledLevel, ...] = ()
    node_quota: int | None = None


@dataclass(frozen=True, slots=True)
class PoolConfiguration:
    """The pools by their names, and the limits of tenants without limits of their own."""

    pools: Mapping[str, NodePool] = field(default_factory=dict)
    defaults: TenantLimits = TenantLimits()  # noqa: RUF009  it cannot be changed
