"""The forms of acts on pools: their consequences and their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.durations import age
from zkdeployment.pools.rules.node import NodeState
from zkdeployment.pools.rules.tenant_session import effective_limits
from zkdeployment.service.views.acts import ActForm, ActInput, ActOption
from zkdeployment.service.views.frame import moment
from zkdeployment.service.views.hosts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zkdeployment.pools.rules.node import PoolNode
    from zkdeployment.pools.rules.overview import PoolOverview
    from zkdeployment.pools.rules.snapshot import PoolReading
    from zkdeployment.pools.rules.tenant_session import TenantSession
    from zkdeployment.service.users.user import User

#: The beginning of the names of fields for the number of nodes of a pool.
QUANTITY = "nodes-"

#: The name of the field for the properties that the nodes must have.
PROPERTIES = "properties"

_PROPERTIES_HELP = (
    "What all nodes must have, separated by spaces, such as arch=x86_64 memory>=16. Leave it empty for any nodes."
)

#: The most nodes of one pool that a form takes.
MOST_NODES = 1000

#: The most hours by which a form changes the end of a session.
MOST_HOURS = 1000


def _most(pool: PoolOverview) -> str:
    quota = pool.pool.node_quota
    return "" if quota is None else f"; a tenant has at most {quota}"


def _quantity(pool: PoolOverview, chosen: str) -> ActInput:
    """Return the field for the number of nodes of a pool."""
    return ActInput(
        f"{QUANTITY}{pool.name}",
        f"Nodes of {pool.name}",
        f"{count_text(pool.ready, 'node')} ready{_most(pool)}",
        "number",
        "1" if pool.name == chosen else "0",
        most=MOST_NODES,
        required=True,
    )


def request_form(reading: PoolReading, pools: Sequence[PoolOverview], user: User, chosen: str) -> ActForm:
    """Return the form that requests a session; ``chosen`` is the pool of which one node is proposed."""
    lending = [pool for pool in pools if pool.level is not None]
    limits = effective_limits(user, reading.configuration.defaults)
    held = reading.snapshot.held(user.id)
    quota = (
        "As an admin you have no quota."
        if user.is_admin
        else f"You have {held} of the {count_text(limits.node_quota, 'node')} that you may lease at the same time."
    )
    objection = "" if lending else "No pool lends nodes at present."
    if user.ssh_key is None:
        objection = "You have no SSH key, so that you cannot log in to the nodes. An admin can set one."
    return ActForm(
        title="Request nodes",
        consequences=(
            "The nodes get your SSH key; you log in to them as root.",
            f"The session ends in {age(limits.session_lifetime)}, unless you extend or retire it.",
            f"It can last {age(limits.session_lifetime_max)} at the longest.",
            "At the end your key is removed and the nodes are cleaned. Nothing on them is kept.",
            quota,
        ),
        button="Request",
        inputs=(
            *(_quantity(pool, chosen) for pool in lending),
            ActInput(PROPERTIES, "Properties", _PROPERTIES_HELP, most=2000),
        ),
        asks_reason=False,
        reason_required=False,
        objection=objection,
    )


def extend_form(
    session: TenantSession, reading: PoolReading, owner: User | None, user: User, now: float
) -> ActForm:
    """Return the form that changes the end of a session of ``owner``."""
    limits = (
        reading.configuration.defaults
        if owner is None
        else effective_limits(owner, reading.configuration.defaults)
    )
    end = moment(session.expires_at, now)
    latest = moment(session.created_at + limits.session_lifetime_max, now)
    ceiling = "Admins may extend sessions without a limit." if user.is_admin else ""
    if not user.is_admin and latest is not None:
        ceiling = f"It can end at {latest.clock} at the latest. A later end is cut to that."
    return ActForm(
        title=f"Extend session {session.id}",
        consequences=tuple(filter(None, (f"It ends at {end.clock} now." if end is not None else "", ceiling))),
        button="Extend the session",
        fields=(("session", str(session.id)),),
        inputs=(
            ActInput("hours", "Hours to add", kind="number", value="1", least=1, most=MOST_HOURS, required=True),
        ),
        asks_reason=False,
        reason_required=False,
        objection="" if session.is_active else "The session has ended.",
    )


def retire_session_form(session: TenantSession) -> ActForm:
    """Return the form that ends a session."""
    return ActForm(
        title=f"Retire session {session.id}",
        consequences=(
            f"The SSH key is removed from {count_text(len(session.nodes), 'node')}, and open connections end.",
            "The nodes are cleaned. Nothing on them is kept.",
        ),
        button="Retire the session",
        kind="danger",
        fields=(("session", str(session.id)),),
        asks_reason=False,
        reason_required=False,
        objection="" if session.is_active else "The session has ended.",
    )


def fill_form(pool: PoolOverview) -> ActForm:
    """Return the form that lets a worker fill a pool at once."""
    objection = "The pool has no level, so there is nothing to fill." if pool.level is None else ""
    if pool.level is not None and pool.shortage is None:
        objection = "The pool has its level."
    forgotten = (
        f"{count_text(pool.failures, 'failure')} of the pool {'is' if pool.failures == 1 else 'are'} forgotten."
    )
    return ActForm(
        title=f"Fill {pool.name}",
        consequences=tuple(
            filter(
                None,
                (
                    forgotten if pool.failures else "",
                    "A worker makes the missing nodes now. This page shows the progress.",
                ),
            )
        ),
        button="Fill the pool",
        fields=(("pool", pool.name),),
        reason_required=False,
        objection=objection,
    )


def add_node_form() -> ActForm:
    """Return the form that adds a machine or a host of the fleet as an unused node."""
    return ActForm(
        title="Add a node",
        consequences=(
            "The node is unused at first. A pool below its level takes it if it has the values of reuse-nodes.",
            "Hosts of this fleet with the idle role of a pool become nodes by themselves.",
            "Add such a host only after it was drained or retired.",
        ),
        button="Add the node",
        inputs=(
            ActInput("hostname", "Host name", "Of a host of this fleet: its name or id.", most=255, required=True),
            ActInput("ipaddr", "IP address", "Required for machines that are no hosts of this fleet.", most=64),
            ActInput(
                "values",
                "Values",
                'For reuse-nodes: architecture=x86_64 cores=8. "8" in quotes is text.',
                most=2000,
            ),
            ActInput("comment", "Comment", most=500),
        ),
        options=(
            ActOption("host", "It is a host of this fleet", "The fleet knows its address."),
            ActOption("once", "Use it once", "It leaves the pools after its first session."),
        ),
        reason_required=False,
    )


_NODE_FORMS: Mapping[str, tuple[str, str, str, Mapping[NodeState, tuple[str, ...]]]] = {
    "drain": (
        "Drain",
        "Drain the node",
        "",
        {
            NodeState.READY: ("The node leaves its pool now: it is cleaned, and not used again.",),
            NodeState.DEPLOYED: ("Its session continues. After it, the node is cleaned, and not used again.",),
            NodeState.UNUSED: ("The node is taken off the list of nodes at once.",),
        },
    ),
    "retire-node": (
        "Retire",
        "Retire the node",
        "danger",
        {
            NodeState.UNUSED: ("The node is taken off the list of nodes. Nothing is done on it.",),
            NodeState.FAILED: (
                "The node is taken off the list of nodes.",
                "It is not cleaned: the key and data of a tenant may be on it.",
            ),
        },
    ),
    "forgive": (
        "Forgive",
        "Forgive the node",
        "primary",
        {NodeState.FAILED: ("The node is deprovisioned again. If that succeeds, it can be used again.",)},
    ),
}


def node_form(name: str, node: PoolNode) -> ActForm | None:
    """Return the form of an act on a node; ``None`` if there is no such act."""
    if name not in _NODE_FORMS:
        return None
    verb, button, kind, consequences = _NODE_FORMS[name]
    possible = consequences.get(node.state)
    words = " or ".join(state.value for state in consequences)
    return ActForm(
        title=f"{verb} node {node.id}" + ("" if node.hostname is None else f" ({node.hostname})"),
        consequences=possible or (),
        button=button,
        kind=kind or "primary",
        fields=(("node", str(node.id)),),
        objection="" if possible else f"The state of the node is {node.state.value}; expected {words}.",
    )
