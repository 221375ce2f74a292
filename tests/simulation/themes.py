"""The theme of a seed: some faults and acts that come together more often than by chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kinds of faults and how often they come.
FAULTS = {
    "kill": 8,
    "terminate": 4,
    "full disk": 2,
    "reboot": 3,
    "drop": 4,
    "expire": 6,
    "partition": 6,
    "long partition": 2,
    "outage": 1,
    "freeze": 4,
    "slow server": 3,
    "server down": 2,
    "election": 2,
    "clock step": 2,
    "lossy network": 3,
    "crashes": 4,
    "failing scripts": 4,
    "attack": 0,
    "forged node": 0,
    "restart all": 0,
    "metrics": 0,
    "no coordinator": 0,
    "lost run directory": 0,
    "lost log directory": 0,
    "denied writes": 0,
    "broken version": 0,
    "coordinator clock": 0,
}

#: Kinds of acts and how often they come.
ACTS = {
    "push change": 40,
    "missing version": 5,
    "strategy": 8,
    "rewind": 6,
    "stop": 5,
    "hold": 2,
    "resume": 16,
    "resume latest": 10,
    "direct": 6,
    "by hand": 4,
    "join": 4,
    "leave": 3,
    "rotate key": 0,
    "change role": 0,
    "publish again": 0,
    "remove file": 0,
    "prune": 0,
    "rename": 0,
    "retry": 0,
    "version by hand": 0,
    "import beside a retry": 0,
    "resume group": 0,
    "regroup": 0,
    "cordon": 0,
    "uncordon": 0,
    "system": 0,
    "power on": 0,
    "no systems": 0,
    "upgrade": 0,
    "go back": 0,
    "approve": 0,
    "withhold": 0,
    "release": 0,
    "change checks": 0,
}


@dataclass(frozen=True)
class Theme:
    """Weights that replace those of ``FAULTS`` and ``ACTS``, and further habits.

    ``distances`` multiply the time of messages. ``hasty`` is the frequency of a resume right after a stop,
    ``failing`` the share of scripts that fail all the time. ``small_transactions`` splits publications;
    ``fatal_commits`` is how often a syncer dies beside such a transaction, whereupon its push is taken back.
    ``ordered`` is the share of services that run again only when they changed, that wait for others, or that are
    undeployed last. The publications of ``signed`` fleets are signed, and hosts verify them. In fleets with
    ``checkouts``, the software of one service is in a repository of real git. ``tolerant`` fleets have a strategy
    that tolerates failures, and one role with a controller. In fleets with ``rollbacks`` the coordinator rolls
    back after a failed rollout, and at the end a rollout fails. In ``controlled`` fleets most hosts have a role,
    and each role has a controller. With ``long_scripts``, some scripts run for longer than a session and the lock
    delay last, and agents that have to end cut them off. With ``analyses``, a metric decides whether the canary of
    the strategy is healthy. With ``retries``, hasty operators let failed hosts try again, and resume the fleet
    meanwhile. With ``group_stops``, most services belong to groups whose failures stop only the group, and
    services have patches. In fleets with ``reboots``, hosts have system nodes, and some hosts that reboot are late
    or do not come back. With ``versions``, half of the hosts have an older agent, which knows no system nodes.
    With ``approvals``, operators have to approve the second group of the strategy.
    With ``logs``, the output of scripts is in real files. In fleets with ``leases``, pools lend hosts to tenants.
    With ``checks``, monitoring systems get the checks of services, which decide about the canary of the strategy.
    ``pace`` multiplies the times between acts and between faults.
    """

    faults: Mapping[str, int] = field(default_factory=dict)
    acts: Mapping[str, int] = field(default_factory=dict)
    distances: tuple[float, ...] = (1.0, 1.0, 20.0, 100.0)
    hasty: float = 0.3
    failing: float = 0.0
    small_transactions: bool = False
    fatal_commits: float = 0.0
    tolerant: bool = False
    controlled: bool = False
    rollbacks: bool = False
    ordered: float = 0.0
    signed: bool = False
    checkouts: bool = False
    long_scripts: bool = False
    analyses: bool = False
    retries: bool = False
    group_stops: bool = False
    reboots: bool = False
    versions: bool = False
    approvals: bool = False
    logs: bool = False
    leases: bool = False
    checks: bool = False
    pace: float = 1.0


THEMES = {
    "mixed": Theme(ordered=0.3),
    "stops": Theme(
        acts={"missing version": 40, "resume": 40, "stop": 20}, distances=(100.0, 300.0), hasty=1.0, failing=0.1
    ),
    "outages": Theme(
        faults={"partition": 10, "long partition": 30, "outage": 8, "expire": 15, "terminate": 25},
        distances=(1.0,),
        failing=0.2,
    ),
    "imports": Theme(acts={"by hand": 60}, distances=(20.0, 100.0)),
    "publications": Theme(
        acts={"missing version": 0, "by hand": 0, "leave": 0}, small_transactions=True, fatal_commits=0.15
    ),
    "order": Theme(
        acts={"push change": 60, "by hand": 0, "strategy": 0, "join": 8, "leave": 6},
        faults={"kill": 12, "expire": 10, "reboot": 6},
        distances=(1.0, 20.0, 100.0),
        ordered=0.7,
        failing=0.03,
    ),
    "repetitions": Theme(
        acts={
            "push change": 30,
            "by hand": 0,
            "strategy": 0,
            "publish again": 40,
            "remove file": 15,
            "prune": 20,
            "rename": 10,
            "change role": 5,
        },
        distances=(1.0, 20.0),
        ordered=0.7,
    ),
    "rollbacks": Theme(
        acts={"publish again": 20, "by hand": 0, "missing version": 0, "rewind": 0},
        distances=(1.0, 20.0),
        tolerant=True,
        rollbacks=True,
    ),
    "attacks": Theme(
        acts={"by hand": 0, "resume latest": 30, "push change": 60, "rotate key": 15},
        faults={
            "attack": 30,
            "forged node": 10,
            "clock step": 0,
        },  # a publication of tomorrow is signed over by hand
        distances=(1.0, 20.0, 100.0),
        ordered=0.2,
        signed=True,
    ),
    "roles": Theme(
        acts={"change role": 20, "by hand": 0, "missing version": 10, "strategy": 0},
        distances=(1.0, 20.0),
        failing=0.1,
        controlled=True,
    ),
    "checkouts": Theme(
        acts={"push change": 60, "missing version": 0, "by hand": 0, "direct": 0}, distances=(1.0,), checkouts=True
    ),
    "restarts": Theme(
        acts={"push change": 30, "by hand": 0, "strategy": 0, "missing version": 0, "stop": 1, "leave": 1},
        # An agent comes back before the lock delay is over.
        faults={
            "kill": 20,
            "terminate": 20,
            "restart all": 10,
            "expire": 10,
            "reboot": 4,
            "freeze": 0,
            "partition": 0,
            "long partition": 0,
            "outage": 0,
            "failing scripts": 0,
        },
        distances=(1.0, 20.0),
        long_scripts=True,
    ),
    "analyses": Theme(
        acts={"strategy": 10, "resume": 40, "by hand": 0, "missing version": 0, "rewind": 0, "stop": 2, "hold": 0},
        faults={"metrics": 40, "no coordinator": 20, "long partition": 0, "clock step": 0, "failing scripts": 0},
        distances=(1.0, 20.0),
        tolerant=True,
        analyses=True,
        pace=10.0,
    ),
    "retries": Theme(
        acts={
            "strategy": 15,
            "retry": 10,
            "resume": 20,
            "resume latest": 20,
            "stop": 4,
            "hold": 0,
            "by hand": 3,
            "version by hand": 8,
            "import beside a retry": 4,
        },
        faults={"failing scripts": 20, "lost run directory": 20},
        distances=(1.0, 20.0, 100.0),
        hasty=0.9,
        failing=0.2,
        retries=True,
    ),
    "group stops": Theme(
        acts={
            "push change": 30,
            "regroup": 40,
            "resume group": 12,
            "by hand": 0,
            "missing version": 0,
            "rewind": 0,
        },
        faults={"full disk": 10, "long partition": 0},
        distances=(1.0, 20.0, 100.0),
        failing=0.15,
        group_stops=True,
    ),
    "maintenance": Theme(
        acts={"push change": 60, "cordon": 40, "uncordon": 20, "by hand": 0},
        faults={"clock step": 0},  # agents compare the end of a maintenance with their clocks
        distances=(1.0, 20.0, 100.0),
        failing=0.05,
    ),
    "reboots": Theme(
        acts={
            "push change": 20,
            "system": 40,
            "power on": 6,
            "retry": 6,
            "cordon": 6,
            "uncordon": 8,
            "by hand": 0,
            "missing version": 2,
        },
        faults={"kill": 12, "reboot": 6, "clock step": 0},  # a deadline is compared with the clocks of other hosts
        distances=(1.0, 20.0, 100.0),
        failing=0.02,
        reboots=True,
    ),
    "lost directories": Theme(
        acts={"push change": 60, "by hand": 0, "missing version": 0, "strategy": 4},
        faults={"lost log directory": 30, "lost run directory": 15, "kill": 12, "terminate": 6},
        distances=(1.0, 20.0),
        failing=0.05,
        logs=True,
        long_scripts=True,
    ),
    "approvals": Theme(
        acts={
            "push change": 20,
            "strategy": 10,
            "approve": 25,
            "withhold": 10,
            "release": 15,
            "resume": 20,
            "resume latest": 15,
            "publish again": 6,
            "direct": 3,
            "by hand": 0,
            "missing version": 2,
            "stop": 2,
            "hold": 0,
        },
        distances=(1.0, 20.0, 100.0),
        failing=0.02,
        tolerant=True,
        approvals=True,
    ),
    "versions": Theme(
        acts={
            "push change": 40,
            "system": 15,
            "no systems": 15,
            "upgrade": 10,
            "go back": 5,
            "power on": 6,
            "by hand": 0,
            "missing version": 2,
        },
        faults={"clock step": 0},  # a deadline is compared with the clocks of other hosts
        distances=(1.0, 20.0, 100.0),
        failing=0.02,
        reboots=True,
        versions=True,
    ),
    "denials": Theme(
        acts={"push change": 60, "strategy": 0, "by hand": 0, "missing version": 2},
        faults={"denied writes": 40, "kill": 12, "long partition": 0, "outage": 0},
        distances=(1.0, 20.0),
        failing=0.1,
    ),
    "leases": Theme(
        acts={"push change": 20, "strategy": 0, "missing version": 0, "by hand": 0, "join": 0, "leave": 0},
        faults={"kill": 12, "freeze": 16, "full disk": 0, "failing scripts": 0},
        distances=(1.0, 20.0, 100.0),
        leases=True,
    ),
    "checks": Theme(
        acts={
            "push change": 30,
            "change checks": 20,
            "strategy": 6,
            "resume latest": 20,
            "direct": 2,
            "by hand": 0,
            "missing version": 0,
            "hold": 0,
        },
        # The times of results come from the clocks of hosts and monitoring systems.
        faults={"broken version": 10, "coordinator clock": 12, "full disk": 0, "clock step": 0},
        distances=(1.0, 20.0),
        failing=0.02,
        checks=True,
    ),
    "strategies": Theme(acts={"strategy": 15, "by hand": 0, "missing version": 0}, failing=0.15, tolerant=True),
}

#: The themes from which a seed chooses one. All other themes have to be named: another entry here would change the
#: outcome of each seed.
CHOSEN = (
    "mixed",
    "stops",
    "outages",
    "imports",
    "publications",
    "order",
    "attacks",
    "roles",
    "restarts",
    "strategies",
)
