"""The worlds of the model ``fleet.pml``, its mutations, and the search of spin through one of them."""

from __future__ import annotations

from pathlib import Path

from support.commands import run

MODEL = Path(__file__).parent / "fleet.pml"

#: The worlds that spin searches completely: their actors, the faults, and the acts of the operator.
WORLDS = {
    "one lock": "FAULTS=1 FAILURES=1",
    "two locks": "SERVICES=2 FAULTS=2",
    "released locks": "ACTS=1 WITH_RELEASES",
    "stops": "FAILURES=2 ACTS=2 WITH_STOPS",
    "retries": "FAILURES=2 ACTS=2 WITH_STOPS WITH_RETRIES",
    "retries with a fault": "FAULTS=1 FAILURES=1 ACTS=1 WITH_RETRIES",
    "maintenance": "FAULTS=1 ACTS=1 WITH_MAINTENANCE",
    "publications": "SYNCERS=2 FAULTS=1 HOST_FAULTS=0",
    "rollouts": "STRATEGY COORDINATORS=2 FAULTS=1 HOST_FAULTS=0 ACTS=1 WITH_PAUSES ATTEMPTS=1",
    "failed rollouts": "STRATEGY COORDINATORS=1 FAILURES=1 ACTS=2 WITH_STOPS WITH_RETRIES ATTEMPTS=2",
    "reboots": "REBOOTS=1 FAULTS=1",
}

#: The rules that a define removes, each with a world in which that breaks an invariant.
MUTATIONS = {
    "NO_LOCK_CHECK": "released locks",
    "NO_LOCK_DELAY": "one lock",
    "NO_LEASE": "one lock",
    "NO_RECORD_CHECK": "one lock",
    "WORK_IS_NOT_KEPT": "one lock",
    "KEPT_WITHOUT_VERSION": "one lock",
    "LOCK_RELEASED_BEFORE_THE_RECORD": "one lock",
    "CONTENDERS_ARE_NOT_SOUGHT": "one lock",
    "WAITING_HOSTS_KEEP_LOCKS": "two locks",
    "NO_STOP_CHECK": "stops",
    "RESUME_FORGETS_STOPS_UNSEEN": "stops",
    "RETRY_OUTLIVES_ITS_STOP": "retries",
    "RETRY_OUTLIVES_ITS_SUCCESS": "retries with a fault",
    "FAILED_RETRY_CONTINUES": "retries",
    "RETRY_CONTINUES_WHEN_RESUMED": "failed rollouts",
    "NO_MAINTENANCE_CHECK": "maintenance",
    "MAINTENANCE_WITHOUT_PARENT": "maintenance",
    "OWN_MAINTENANCE_READ_FIRST": "maintenance",
    "CHUNKS_ARE_NOT_CHECKED": "publications",
    "NO_MARK": "publications",
    "LEAD_IS_NOT_CHECKED": "rollouts",
    "FAILED_ROLLOUT_STILL_GRANTS": "failed rollouts",
    "REBOOT_IS_NOT_RECORDED": "reboots",
    "REBOOT_GIVES_ITS_LOCK_AWAY": "reboots",
    "EXPIRED_REBOOT_STOPS_NOTHING": "reboots",
}

#: The longest path of a search, in steps, and the most megabytes that its states may take.
_DEPTH = 200_000
_MEMORY = 3000


def search(directory: Path, defines: str) -> str:
    """Search all states of a world, or those up to the first broken invariant; return the output of the search.

    ``directory`` receives the generated program.
    """
    options = [f"-D{define}" for define in defines.split()]
    for command in (
        ["spin", "-a", *options, MODEL],
        ["gcc", "-O1", "-w", "-DSAFETY", "-DCOLLAPSE", f"-DMEMLIM={_MEMORY}", "-o", "pan", "pan.c"],
    ):
        done = run(*command, cwd=directory)
        assert done.returncode == 0, done.stdout + done.stderr
    return run(directory / "pan", f"-m{_DEPTH}", "-n", cwd=directory).stdout
