"""What operators ask of a rollout: a node for each act. The coordinator takes them in order."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper import paths
from zkdeployment.adapters.zookeeper.audit import recording
from zkdeployment.adapters.zookeeper.nodes import encode
from zkdeployment.adapters.zookeeper.rollouts import read_current, read_running
from zkdeployment.adapters.zookeeper.transactions import Check, Create
from zkdeployment.errors import ConflictError, RefusedError
from zkdeployment.fleet.rollouts import objection
from zkdeployment.rollout.running import RolloutAct
from zkdeployment.rollout.state import act_from_json, act_to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.adapters.zookeeper.session import Session
    from zkdeployment.model.act import Act
    from zkdeployment.rollout.running import Directive, Running

#: How often a write is tried again when others write to the same nodes at the same time.
_ATTEMPTS = 20

_PREFIX = "act-"
_DIGITS = 10


def direct(session: Session, directive: Directive, act: Act, group: str | None = None) -> Running:
    """Ask the coordinator for something, of the current rollout, and return that.

    Raises ``RefusedError`` where it makes no sense.
    """
    for _ in range(_ATTEMPTS):
        rollout_id = read_current(session)
        running = None if rollout_id is None else read_running(session, rollout_id)
        words = objection(running, directive, group)
        if words is not None or running is None:
            raise RefusedError(words or "there is no rollout")
        directory = paths.acts_path(running.id)
        session.ensure(directory)
        current, state = session.get_many([paths.ROLLOUTS, paths.rollout_path(running.id)])
        if current is None or state is None:
            continue
        number = max(map(_number, session.children(directory) or ()), default=-1)
        one = RolloutAct(directive, act, group, max(number, running.taken) + 1)
        try:
            session.commit(
                Check(paths.ROLLOUTS, current.version),
                Create(f"{directory}/{_PREFIX}{one.number:0{_DIGITS}}", encode(act_to_json(one))),
                recording(session, act),
            )
        except ConflictError:
            continue
        return running
    raise ConflictError("the rollout changes all the time; look at it with 'zkdeployment rollout show'")


def read_rollout_acts(
    session: Session, rollout_id: str, after: int = -1, watch: Callable[[object], None] | None = None
) -> tuple[RolloutAct, ...]:
    """Read what operators asked after the act of that number, in order; what makes no sense is left out.

    Calls ``watch`` (which must not block) once when there is more.
    """
    directory = paths.acts_path(rollout_id)
    names = [name for name in session.children(directory, watch) or () if _number(name) > after]
    nodes = session.get_many(f"{directory}/{name}" for name in names)
    found = []
    for name, node in zip(names, nodes, strict=True):
        with contextlib.suppress(ValueError):
            found += [] if node is None else [act_from_json(node.properties, _number(name))]
    return tuple(found)


def _number(name: str) -> int:
    digits = name.removeprefix(_PREFIX)
    return int(digits) if name.startswith(_PREFIX) and digits.isascii() and digits.isdecimal() else -1
