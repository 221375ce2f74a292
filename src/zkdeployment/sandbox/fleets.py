"""Several fleets on one machine under one promoter, and ``scripts/demo --fleets``.

The first fleet is the home of all: its sandbox has the repositories, the promoter and the other fleets.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zkdeployment.base.errors import ConfigurationError
from zkdeployment.base.host import Host, Identity
from zkdeployment.base.machine import process
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.demo import DemoError, DemoScenario, main
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.strategies.views import RolloutProgressState
from zkdeployment.zookeeper import paths
from zkdeployment.zookeeper.nodes import unpack
from zkdeployment.zookeeper.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console


#: The limit of fleets on one machine; each has a ZooKeeper, a syncer, a coordinator and a service.
MAX_FLEETS = 9

PROMOTION = """\
schema: zkdeployment/Promotion/v1
data:
  groups:
    - name: canary
      critical: true
      depends_on: []
      selectors: [{node_tags: [canary]}]
      success_criteria: {percent_successful_nodes: 100}
      bake_time: 3
    - name: rest
      critical: true
      depends_on: [canary]
      selectors: []
      success_criteria: {percent_successful_nodes: 100}
"""


def start_fleets(
    home: Sandbox,
    hosts: Sequence[Host],
    count: int,
    *,
    with_samples: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Mapping[str, Sandbox]:
    """Start ``count`` fleets with these hosts each, and a promoter in ``home``; return their sandboxes by name.

    With samples, the first promotion is pushed. After an error all fleets are removed.
    """
    if not 2 <= count <= MAX_FLEETS:
        raise ConfigurationError(f"--fleets: expected 2 to {MAX_FLEETS} fleets, found {count}")
    names = [f"fleet{number}" for number in range(1, count + 1)]
    others = {name: Sandbox(home.layout.fleet(name)) for name in names[1:]}
    fleets = {names[0]: home, **others}
    home.up(hosts, service=True, follows=f"fleets/{names[0]}", report=_prefixed(report, names[0]))
    try:
        for name, sandbox in others.items():
            sandbox.up(
                hosts,
                service=True,
                follows=f"fleets/{name}",
                home=home.directory,
                report=_prefixed(report, name),
            )
        report("starting the promoter")
        home.add_promoter(fleets)
        if with_samples:
            report("building and pushing the samples")
            with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
                home.add_rpms(samples.build(Path(scratch)))
            push_samples(home, fleets, hosts, "The sample tree, for all fleets")
    except BaseException:
        home.down()
        raise
    return fleets


def _prefixed(report: Callable[[str], None], name: str) -> Callable[[str], None]:
    return lambda text: report(f"{name}: {text}")


def push_samples(
    home: Sandbox, fleets: Mapping[str, Sandbox], hosts: Sequence[Host], message: str, *, version: str = "1.0"
) -> str:
    """Push the sample tree with the documents of the fleets to the main branch, and return the revision."""
    with tempfile.TemporaryDirectory(prefix="zkdeployment-") as scratch:
        text = samples.tree([host.identity for host in hosts], version=version, worker=False)
        (Path(scratch) / "demo.zk").write_text(text, encoding="utf-8")
        (Path(scratch) / "fleets.yaml").write_text(fleets_document(fleets), encoding="utf-8")
        (Path(scratch) / "promotion.yaml").write_text(PROMOTION, encoding="utf-8")
        return home.push(Path(scratch), message)


def fleets_document(fleets: Mapping[str, Sandbox]) -> str:
    """Return the text of the document that names the fleets; the first one is the canary."""
    listed = []
    for number, (name, sandbox) in enumerate(fleets.items()):
        status = sandbox.status()
        listed.append(
            {
                "name": name,
                "branch": status["follows"],
                "service": status["server"]["url"],
                "tags": [] if number else ["canary"],
            }
        )
    return json.dumps({"schema": "zkdeployment/Fleets/v1", "data": {"fleets": listed}}, indent=2) + "\n"


#: The host of each fleet.
FLEET_HOSTS = (Host(Identity("host1", "host1.sandbox")),)

_FLEETS = 3

_TIMEOUT = 150


class FleetsScenario(DemoScenario):
    """The four stages with three fleets, of which ``sandbox`` is the home, printed to ``console``."""

    STAGES = "four"
    EXAMPLES = ("zkdeployment fleets", "zkdeployment promote show", "zkdeployment sandbox status")
    PAGE = "/fleets"

    def __init__(self, sandbox: Sandbox, console: Console, *, service: bool = False) -> None:
        super().__init__(sandbox, console, service=service)
        self.fleets: Mapping[str, Sandbox] = {}

    def start(self) -> None:
        """Stage 1: start the fleets and the promoter, which are removed if the start fails."""
        self.stage(1, "three fleets: each has a ZooKeeper, a syncer, a service and a branch; and a promoter")
        with self.console.status("") as shown:
            self.fleets = start_fleets(
                *(self.sandbox, FLEET_HOSTS, _FLEETS),
                with_samples=False,
                report=lambda text: shown.update(f"{text} ..."),
            )

    def play_stages(self) -> None:
        """Play the stages after the start; raises ``DemoError`` if a check fails."""
        with Session(self.sandbox.status()["zookeeper"]) as session, self.supervisor():
            self.session = session
            self.inspect_fleets()
            self.good_revision()
            self.bad_revision()
            self.repair()

    def inspect_fleets(self) -> None:
        """Stage 1, continued: check the daemons, and build the packages."""
        self.build_samples()
        ensembles = {name: sandbox.status()["zookeeper"] for name, sandbox in self.fleets.items()}
        self.check(
            len(set(ensembles.values())) == _FLEETS, f"{_FLEETS} ensembles: {', '.join(ensembles.values())}"
        )
        for name, sandbox in self.fleets.items():
            status = sandbox.status()
            running = status["syncer"] is not None and status["server"]["pid"] is not None
            self.check(running, f"{name}: its syncer follows {status['follows']}; {status['server']['url']}")
        canary, *others = self.fleets
        self.check(
            self.sandbox.status()["promoter"] is not None,
            f"a promoter moves the branch of the canary {canary} first, then those of {' and '.join(others)}",
        )

    def good_revision(self) -> None:
        """Stage 2: a revision that goes through all fleets."""
        self.stage(2, "push of revision 1 to the main branch: hello 1.0")
        self.push("hello 1.0", version="1.0")
        self.promoted()

    def bad_revision(self) -> None:
        """Stage 3: a revision that the canary cannot deploy."""
        self.stage(3, "push of revision 2: a version of hello that does not exist")
        good = self.revisions[-1]
        bad = self.push("hello 9.9", version="9.9")
        self.wait(lambda: self.result(bad) == RolloutProgressState.FAILED.value, "the promotion fails")
        canary, *others = self.fleets
        standing = next(each for each in self.record("fleets") if each["name"] == canary)
        reason = standing["problem"]
        self.check("9.9" in reason, f"{canary} is {standing['state']}: {reason}")
        self.check(self.tip(canary) == bad, f"the branch of {canary} has {bad[:12]}")
        shown = self.run_in(canary, "fleets")
        self.check(shown.status != 0 and "9.9" in shown.stdout, "zkdeployment fleets shows the reason", shown)
        for name in others:
            self.check(self.tip(name) == good, f"the branch of {name} stayed at {good[:12]}")
            waited = self.run_in(name, "status", "--wait", good, "--timeout", "10")
            self.check(waited.status == 0, f"every host of {name} is at {good[:12]}", waited)

    def repair(self) -> None:
        """Stage 4: the rollback goes to the canary first, and the fix goes through all fleets."""
        self.stage(4, "promote rollback; the operators of the canary resume it; then push of hello 1.1")
        canary = next(iter(self.fleets))
        rolled_back = self.run_in(canary, "promote", "rollback", "--reason", "hello 9.9 does not exist")
        self.check(rolled_back.status == 0, "promote rollback: a commit on the main branch", rolled_back)
        self.revisions.append(self.main())
        self.wait(lambda: self.tip(canary) == self.main(), f"the promoter moves the branch of {canary}")
        resumed = self.run_in(
            canary,
            *("resume", "--latest", "--reason", "the version was mistyped", "--timeout", "60"),
        )
        self.check(resumed.status == 0, "resume --latest: the syncer of the canary published it", resumed)
        self.promoted()
        self.push("hello 1.1", version="1.1")
        self.promoted()

    # Parts of stages

    def push(self, message: str, *, version: str, worker: bool = False) -> str:  # noqa: ARG002  as for one fleet
        """Push the sample tree with the documents of the fleets, and return the revision."""
        revision = push_samples(self.sandbox, self.fleets, FLEET_HOSTS, message, version=version)
        self.revisions.append(revision)
        self.console.print(f"  git push: {revision[:12]} {message}", highlight=False)
        return revision

    def promoted(self) -> None:
        """Wait until the last pushed revision has gone through all groups, and check its way."""
        wanted, begun = self.revisions[-1], time.monotonic()
        self.wait(lambda: self.result(wanted), "the promotion ends")
        entry = self.newest()
        seconds = f"{time.monotonic() - begun:.0f} s"
        succeeded = entry["result"] == RolloutProgressState.SUCCESS.value
        self.check(succeeded, f"every group succeeded, after {seconds}")
        canary, *others = self.fleets
        reached = {name: round(when - entry["reached"][canary]) for name, when in entry["reached"].items()}
        self.check(
            all(reached[name] >= reached[canary] for name in others),
            f"{canary} was first; {', '.join(f'{name} {reached[name]} s later' for name in others)}",
        )
        for name in self.fleets:
            waited = self.run_in(name, "status", "--wait", wanted, "--timeout", "10")
            self.check(waited.status == 0, f"every host of {name} is at {wanted[:12]}", waited)

    def record(self, name: str) -> Any:
        """Return a record of the promoter in the home ensemble; an empty list before there is one."""
        node = self.session.get(f"{paths.PROMOTION}/{name}")
        return [] if node is None else unpack(node.data)

    def newest(self) -> Any:
        """Return the newest entry in the history of promotions; an empty list before there is one."""
        names = self.session.children(f"{paths.PROMOTION}/history") or ()
        newest = max(names, key=lambda name: [*map(int, name.split("-"))], default="")
        return self.record(f"history/{newest}") if newest else []

    def result(self, revision: str) -> str:
        """Return the result of the newest promotion; empty unless it is one of this revision and has ended."""
        entry = self.newest()
        return str(entry["result"]) if entry and entry["revision"] == revision else ""

    def main(self) -> str:
        """Return the commit of the main branch at the git server."""
        status = self.sandbox.status()
        return process.run(["git", "-C", status["tree"], "rev-parse", status["branch"]]).check().stdout.strip()

    def tip(self, fleet: str) -> str:
        """Return the commit of a fleet's branch at the git server."""
        status = self.fleets[fleet].status()
        tip = ["git", "-C", status["tree"], "rev-parse", "--verify", "--quiet", f"refs/heads/{status['follows']}"]
        return process.run(tip).stdout.strip()

    def run_in(self, fleet: str, *argv: str) -> process.Completed:
        """Run ``zkdeployment`` in the environment of one fleet."""
        environment = self.fleets[fleet].environment()
        return process.run(["zkdeployment", *argv], env=environment, timeout=_TIMEOUT + 30)

    def wait(self, condition: Callable[[], object], awaited: str) -> None:
        """Wait until a condition holds; raises ``DemoError`` after the time limit."""
        deadline = time.monotonic() + _TIMEOUT
        while not condition():
            if time.monotonic() > deadline:
                report, fleets = map(self.record, ("report", "fleets"))
                raise DemoError(
                    f"expected: {awaited}, within {_TIMEOUT} s; the promoter reports: {report}; the fleets:"
                    f" {fleets}"
                )
            time.sleep(0.2)
        self.check(True, awaited)


if __name__ == "__main__":
    main(FleetsScenario)
