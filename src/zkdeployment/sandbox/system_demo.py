"""``scripts/demo --system``: a push updates the operating systems of a fleet, which reboots one host at a time.

The hosts have the packages of a snapshot of their repositories. A push names a later snapshot, with a security
update and a kernel; another push takes the way back.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from zkdeployment.base.deployment import Deployment
from zkdeployment.base.host import Host, Identity
from zkdeployment.sandbox import processes
from zkdeployment.sandbox.demo import DemoError, DemoScenario, FleetObserver, main
from zkdeployment.sandbox.snapshots import Snapshots, SystemPackage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from zkdeployment.sandbox.fleet import Sandbox

OLD, NEW = "2026-10-16", "2026-11-20"

RELEASES: dict[str, Sequence[SystemPackage]] = {
    OLD: (
        SystemPackage("glibc", "2.34"),
        SystemPackage("kernel-core", "5.14.1"),
        SystemPackage("openssl-libs", "3.2.1"),
    ),
    NEW: (
        SystemPackage("glibc", "2.39"),
        SystemPackage("kernel-core", "5.14.2"),
        SystemPackage("openssl-libs", "3.2.2", advisory="EX-2026:1"),
    ),
}

SYSTEM_HOSTS = tuple(Host(Identity(f"web{number}", f"web{number}.sandbox", role="web")) for number in range(1, 4))

_NODE = "/os/web"

#: Seconds until the first host has to reboot, and between two questions for it.
_TIMEOUT = 150
_INTERVAL = 0.1

_TREE = """\
/os
  /web : system
    release = '{release}'
    /deploy
      /web
"""


class SystemScenario(DemoScenario):
    """The three stages with operating systems, played in ``sandbox`` and printed to ``console``."""

    STAGES = "three"
    EXAMPLES = ("zkdeployment status", "zkdeployment locks", "zkdeployment history")

    def __init__(self, sandbox: Sandbox, console: Console, *, service: bool = False) -> None:
        super().__init__(sandbox, console, service=service)
        self.snapshots = Snapshots(sandbox.directory / "snapshots")

    def start(self) -> None:
        """Stage 1: start three hosts with the packages of the earlier snapshot."""
        self.stage(1, f"two snapshots of the repositories of an operating system, three hosts at release {OLD}")
        with self.console.status("") as shown:
            self.sandbox.up(SYSTEM_HOSTS, service=self.service, report=lambda text: shown.update(f"{text} ..."))

    def play_stages(self) -> None:
        """Play the stages after the start; raises ``DemoError`` if a check fails."""
        with FleetObserver(self.sandbox.status()["zookeeper"], self.console) as observer:
            self.observer = observer
            self.install()
            self.rolling_update()
            self.way_back()

    def install(self) -> None:
        """Stage 1, continued: make the snapshots, install the earlier one on all hosts, and boot the hosts."""
        self.snapshots.create(RELEASES, Path(self.sandbox.status()["repository"]) / "definitions")
        for host_id, root in self.roots().items():
            self.snapshots.install(OLD, root)
            self.sandbox.reboot(host_id)
        self.check_release(OLD)
        before = self.boots()
        self.push_release(OLD)
        self.converge()
        self.check(self.boots() == before, "nothing was to update, and no host rebooted")

    def rolling_update(self) -> None:
        """Stage 2: update all hosts to the later snapshot."""
        self.stage(
            2, f"push of release {NEW}: a security update and a kernel; the hosts reboot one after the other"
        )
        self.roll(NEW)
        kernels = {line for lines in self.packages().values() for line in lines if line.startswith("kernel")}
        self.check(
            len(kernels) == len(RELEASES), f"the new kernel is beside the old one: {', '.join(sorted(kernels))}"
        )

    def way_back(self) -> None:
        """Stage 3: take all hosts back to the earlier snapshot."""
        self.stage(3, f"push of release {OLD}: the way back, by the same steps")
        self.roll(OLD)

    # Parts of stages

    def roll(self, release: str) -> None:
        """Push a release, wait for it, and check that all hosts rebooted, one at a time."""
        before = self.boots()
        with self.observer.holders(Deployment(_NODE, 0)) as holders:
            self.push_release(release)
            self.show_first_reboot()
            self.converge()
            rebooting = self.observer.rebooting
        self.check_release(release)
        after = self.boots()
        changed = [host_id for host_id, boot in after.items() if boot != before[host_id]]
        self.check(len(changed) == len(SYSTEM_HOSTS), f"{', '.join(changed)} have a new boot id")
        order = " to ".join(" and ".join(names) for names in rebooting)
        is_rolling = all(len(names) == 1 for names in rebooting) and len(rebooting) == len(SYSTEM_HOSTS)
        self.check(is_rolling, f"one host rebooted at a time: {order}")
        self.check(len(holders) == len(SYSTEM_HOSTS), f"the lock went from {' to '.join(holders)}")

    def show_first_reboot(self) -> None:
        """Wait until a host reboots, and show the status and the locks of the fleet."""
        deadline = processes.Deadline(_TIMEOUT)
        while not self.observer.rebooting:
            if deadline.passed:
                shown = self.run("zkdeployment", "status")
                raise DemoError(f"expected: a host reboots within {deadline}; the status: {shown.stdout}")
            time.sleep(_INTERVAL)
        for verb in ("status", "locks"):
            shown = self.run("zkdeployment", verb)
            self.check(_NODE in shown.stdout, f"{verb} shows the reboot:", shown)
            self.console.print(shown.stdout.rstrip(), highlight=False, markup=False, soft_wrap=True)

    def push_release(self, release: str) -> None:
        """Push the tree in which the system node wants a release."""
        with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
            (Path(scratch) / "os.zk").write_text(_TREE.format(release=release), encoding="utf-8")
            revision = self.sandbox.push(Path(scratch), f"release {release}")
        self.revisions.append(revision)
        self.console.print(f"  git push: {revision[:12]} release {release}", highlight=False)

    def check_release(self, release: str) -> None:
        """Check that each host has the packages of a release, and that its dnf uses that release."""
        wanted = {package.file.removesuffix(".rpm") for package in RELEASES[release]}
        complete = [host_id for host_id, lines in self.packages().items() if wanted <= set(lines)]
        self.check(len(complete) == len(SYSTEM_HOSTS), f"{', '.join(complete)} have {', '.join(sorted(wanted))}")
        variables = {
            (root / "etc/dnf/vars/release").read_text(encoding="utf-8").strip() for root in self.roots().values()
        }
        self.check(variables == {release}, f"the variable of their dnf is release {', '.join(variables)}")

    def boots(self) -> dict[str, str]:
        """Return the boot id of each host."""
        return {
            host_id: (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            for host_id, root in self.roots().items()
        }


if __name__ == "__main__":
    main(SystemScenario)
