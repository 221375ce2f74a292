"""The plan of a round of chaos: which fault or act of an operator comes when. Pure: chance is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

#: The member that stands for the machine of the syncer and the coordinator.
CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault or act: its frequency, its targets, and its least and most seconds.

    ``targets`` are ``hosts``, ``daemons`` (agents, syncer, coordinator), ``machines`` (hosts and ``CONTROL``),
    ``servers``, or ``none`` for acts of operators.
    """

    weight: float
    targets: str
    least: float = 0.0
    most: float = 0.0


#: A frozen agent may be about to start a script. Its lock is safe for the session and the lock delay, which are
#: longer than any freeze.
FAULTS = {
    "kill": Kind(5, "daemons", 0.2, 4),
    "power cut": Kind(2, "hosts", 0.5, 5),
    "lost reboots": Kind(3, "hosts", 10, 40),
    "freeze": Kind(4, "daemons", 0.5, 8),
    "kill server": Kind(2, "servers", 0.5, 8),
    "freeze server": Kind(2, "servers", 0.5, 8),
    "cut": Kind(2, "machines", 0.2, 9),
    "partition": Kind(3, "machines", 0.5, 20),
    "lost answers": Kind(2, "machines", 0.5, 8),
    "slow network": Kind(2, "machines", 1, 8),
    "full run directory": Kind(2, "hosts", 0.5, 6),
    "full disk": Kind(2, "hosts", 0.5, 6),
    "failing scripts": Kind(3, "hosts", 2, 12),
    "slow scripts": Kind(4, "hosts", 3, 12),
    "clock step": Kind(3, "daemons", 2, 20),
}

ACTS = {
    "push": Kind(10, "none"),
    "push of a syntax error": Kind(2, "none"),
    "push of a missing version": Kind(1.5, "none"),
    "push of a strategy": Kind(2, "none"),
    "rewind": Kind(2, "none"),
    "rollback": Kind(1, "none"),
    "stop": Kind(2, "none"),
    "hold": Kind(1, "none"),
    "resume": Kind(5, "none"),
    "resume at the tip": Kind(4, "none"),
    "directive": Kind(2, "none"),
    "retry": Kind(3, "none"),
    "declaration of a death": Kind(3, "none"),
    "attack on a target": Kind(0.5, "none"),
    "attack on a property": Kind(0.5, "none"),
    "attack with a publication": Kind(0.5, "none"),
    "attack with a replay": Kind(1, "none"),
}

KINDS = {**FAULTS, **ACTS}

#: The longest mean time in seconds between two events of a round, and the shortest.
_PACES = (4.0, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault or an act: ``at`` and ``seconds`` are seconds of the round, ``choice`` seeds all further choices."""

    at: float
    kind: str
    target: str
    seconds: float
    choice: int

    def __str__(self) -> str:
        where = f" {self.target}" if self.target else ""
        return f"{self.kind}{where}" + (f" for {self.seconds:.1f} s" if self.seconds else "")


def draw_plan(seed: str, seconds: float, hosts: tuple[str, ...], servers: int) -> tuple[Planned, ...]:
    """Return the plan of a seed in the order of time; a longer plan of the same seed begins with the shorter one.

    The first event is a push, without which there is nothing to disturb.
    """
    chance = Random(seed)
    targets = {
        "hosts": hosts,
        "daemons": (*hosts, "syncer", "coordinator"),
        "machines": (*hosts, CONTROL),
        "servers": tuple(f"zookeeper{number}" for number in range(1, servers + 1)),
        "none": ("",),
    }
    pace = chance.choice(_PACES)
    plan = [Planned(0.0, "push", "", 0.0, chance.randrange(1 << 30))]
    while True:
        at = plan[-1].at + chance.expovariate(1 / pace)
        name = chance.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]
        kind = KINDS[name]
        target, lasts = chance.choice(targets[kind.targets]), chance.uniform(kind.least, kind.most)
        choice = chance.randrange(1 << 30)
        if at >= seconds:
            return tuple(plan)
        plan.append(Planned(round(at, 3), name, target, round(lasts, 3), choice))
