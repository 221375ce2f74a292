"""The sessions of tenants on the page of pools: who has what until when, and how earlier sessions ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.pools.node import NodeState
from zkdeployment.pools.overview import session_overviews, ssh_command
from zkdeployment.pools.warnings import warning_time
from zkdeployment.web.views.acts import ActLink
from zkdeployment.web.views.moments import deadline, moment
from zkdeployment.web.views.pools.links import form_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zkdeployment.pools.overview import SessionOverview
    from zkdeployment.pools.reading import PoolReading
    from zkdeployment.pools.tenant_session import LeasedNode, TenantSession
    from zkdeployment.web.views.moments import Moment

#: The numbers of earlier sessions on a page.
PAST_SIZE = 20


@dataclass(frozen=True, slots=True)
class LeasedNodeLine:
    """A node of a session: its name, its pool, and the command that reaches it.

    ``note`` is what is unusual about the node, or empty; there is no command then.
    """

    name: str
    pool: str
    ssh: str
    note: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """An active session; ``word`` and ``tone`` are its state."""

    id: int
    tenant: str
    word: str
    tone: str
    nodes: tuple[LeasedNodeLine, ...]
    began: Moment | None
    expires: Moment | None
    acts: tuple[ActLink, ...]


@dataclass(frozen=True, slots=True)
class PastSessionRow:
    """A session that has ended, and how."""

    id: int
    tenant: str
    nodes: tuple[str, ...]
    began: Moment | None
    ended: Moment | None
    how: str


def session_rows(
    sessions: Iterable[TenantSession], reading: PoolReading, now: float, *, may_act: bool
) -> tuple[SessionRow, ...]:
    """Return active sessions, those that expire first first."""
    views = session_overviews(sessions, reading.snapshot, reading.tenants)
    ordered = sorted(views, key=lambda view: (view.session.expires_at, view.session.id))
    return tuple(_row(view, now, may_act=may_act) for view in ordered)


def past_rows(
    sessions: Iterable[TenantSession], tenants: Mapping[int, str], now: float
) -> tuple[PastSessionRow, ...]:
    """Return sessions that have ended, in the given order."""
    return tuple(
        PastSessionRow(
            session.id,
            tenants.get(session.tenant, f"tenant {session.tenant}"),
            tuple(f"{_name(node)} ({node.pool})" for node in session.leased),
            moment(session.created_at, now),
            moment(session.retired_at, now),
            "expired" if session.retired_by is None else f"retired by {session.retired_by}",
        )
        for session in sessions
    )


def _row(view: SessionOverview, now: float, *, may_act: bool) -> SessionRow:
    session = view.session
    word, tone = _state(view, now)
    acts = (
        ActLink("Extend", form_page("extend", session=session.id)),
        ActLink("Retire", form_page("retire-session", session=session.id), "danger"),
    )
    return SessionRow(
        id=session.id,
        tenant=view.tenant,
        word=word,
        tone=tone,
        nodes=tuple(_line(node, view.states.get(node.id)) for node in session.leased),
        began=moment(session.created_at, now),
        expires=deadline(session.expires_at, now),
        acts=acts if may_act else (),
    )


def _state(view: SessionOverview, now: float) -> tuple[str, str]:
    if NodeState.CONTEXTUALIZING in view.states.values():
        return "being prepared", "busy"
    if view.session.is_expired(now):
        return "expired", "halted"
    return ("expires soon", "halted") if warning_time(view.session) <= now else ("active", "good")


def _line(node: LeasedNode, state: NodeState | None) -> LeasedNodeLine:
    notes = {NodeState.DEPLOYED: "", NodeState.CONTEXTUALIZING: "gets the key", None: "no longer in the session"}
    note = notes.get(state, "" if state is None else state.value)
    return LeasedNodeLine(_name(node), node.pool, "" if note else ssh_command(node), note)


def _name(node: LeasedNode) -> str:
    return node.hostname or node.ipaddr or f"node {node.id}"
