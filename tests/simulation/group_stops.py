"""Deployment intent groups whose failures stop only the group: their documents and their invariants."""

from __future__ import annotations

import json
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from support.builders import make_package
from zkdeployment.base.plan import ChangePackages, Deploy, Plan, Step, Undeploy, packages_of
from zkdeployment.base.source_files import SourceFile
from zkdeployment.intents.documents import subject_text
from zkdeployment.intents.rules.revisions import intent_snapshots
from zkdeployment.publishing.rules.review import review
from zkdeployment.zookeeper import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from simulation.machine import Machine, ScriptCall
    from simulation.repository import Commit
    from simulation.server_tree import Change
    from simulation.world import World

#: The groups, with the numbers of their services, which no tree lacks.
GROUPS = {"p1/store/v1/shop": (0, 1), "p1/store/v1/web": (2,)}
GOVERNED_NUMBERS = frozenset(chain.from_iterable(GROUPS.values()))

#: A package that every machine has, and one that no machine has, unless a service has them as patches.
SYSTEM, FIX = make_package("lib", "1.0"), "fix"

#: The version of the patches.
PATCHED = "2.0"

#: Seconds from a stop to the last plan that need not know of it: a fault may delay what an agent reads.
_GRACE = 25.0

_DOCUMENT = """\
schema: zkdeployment/DeploymentIntentGroup/v1
metadata: {{project: {names[0]}, composite-app: {names[1]}, version: {names[2]}, name: {names[3]}}}
data:
  composite-profile: plain
  apps: {{app: [{apps}]}}
  state: Instantiated
  update: approve
  fleet-stop: {stops}
  approval: {{content: "{content}", by: ann}}
"""


def documents(text: str, stopping: Collection[str]) -> list[SourceFile]:
    """Return the documents of all groups, with an approval of what they have in the tree ``text``.

    Failures of groups in ``stopping`` stop only the group, those of the others the fleet.
    """

    def files(contents: Mapping[str, str]) -> list[SourceFile]:
        return [
            SourceFile(
                f"{subject.rpartition('/')[2]}.yaml",
                _DOCUMENT.format(
                    names=subject.split("/"),
                    apps=", ".join(f"/s{number}" for number in numbers),
                    stops="group" if subject in stopping else "fleet",
                    content=contents.get(subject, "sha256:" + "0" * 64),
                ).encode(),
            )
            for subject, numbers in GROUPS.items()
        ]

    reviewed = review([SourceFile("a.zk", text.encode()), *files({})])
    found = intent_snapshots(reviewed.documents, reviewed.linted.tree)
    return files({subject_text(subject): snapshot.content.digest for subject, snapshot in found.items()})


#: The groups of the services that groups govern, by the path of the service.
GOVERNED = {f"/s{number}/app": subject for subject, numbers in GROUPS.items() for number in numbers}


def group_of(path: str, commit: Commit | None) -> str | None:
    """Return the group that a failure of a service stops in a revision; ``None``: it stops the fleet."""
    subject = GOVERNED.get(path)
    return subject if commit is not None and subject in (commit.stopping or ()) else None


class GroupStopChecks:
    """Holds that no host plans or runs a step of a stopped group, or changes the software of its instances."""

    def __init__(self, world: World, fail: Callable[[str], None]) -> None:
        self._world = world
        self._fail = fail
        self._since: dict[str, float] = {}
        self._used: dict[str, dict[tuple[str, int], frozenset[str]]] = {}

    @property
    def stopped(self) -> list[str]:
        """The stopped groups."""
        return list(self._since)

    def lacked(self, machine: Machine) -> frozenset[str]:
        """Return the services that a machine lacks of its version, according to its file."""
        content = json.loads(machine.disk.files.get("lacking") or b"{}")
        return frozenset(service for lacking in content.values() for service in lacking["services"])

    def committed(self, changes: Sequence[Change]) -> None:
        """Note the stops of a transaction, and their ends."""
        for change in changes:
            if change.path.startswith(f"{paths.GROUP_STOPS}/"):
                subject = unquote(change.path.rpartition("/")[2])
                if change.kind == "delete":
                    self._since.pop(subject, None)
                else:
                    self._since[subject] = self._world.now
                self._world.trace(f"the group {subject} is {'resumed' if change.kind == 'delete' else 'stopped'}")

    def script_started(self, call: ScriptCall, commit: Commit | None, is_late: Callable[[float], bool]) -> None:
        """Check that the group of a script was not stopped before; ``is_late`` knows how long a start may take."""
        subject = None if call.is_bracket else group_of(call.path, commit)
        if subject in self._since and is_late(self._since[subject]):
            seconds = self._world.now - self._since[subject]
            self._fail(f"{call.machine.name} starts {call} {seconds:.0f} s after {subject} was stopped")

    def script_ended(self, call: ScriptCall, commit: Commit | None) -> None:
        """Note the software with which an instance runs."""
        if call.is_bracket or call.fails:
            return
        used = self._used.setdefault(call.machine.name, {})
        used.pop((call.path, call.number), None)
        for one in () if commit is None else commit.wanted(call.machine.identity).assignments:
            if one.path == call.path and not call.undeploys:
                used[call.path, call.number] = frozenset({one.package, *one.patches})

    def planned(self, machine: Machine, commit: Commit | None, plan: Plan, begun: float) -> None:
        """Check the plan of a machine, which it ``begun`` to make at a time."""
        stopped = {subject for subject, since in self._since.items() if since < begun - _GRACE}
        if not stopped or commit is None:
            return
        wanted = commit.wanted(machine.identity)
        others = [one for one in wanted.assignments if group_of(one.path, commit) not in stopped]
        needed = {name for one in others for name in (one.package, *one.patches)}
        instances = self._used.get(machine.name, {}).items()
        used = {name for (path, _), names in instances if group_of(path, commit) in stopped for name in names}
        for step in plan.steps:
            for problem in self._problems(step, commit, stopped, used - needed):
                self._fail(
                    f"{machine.name} plans to {problem} for {commit.revision}, but {', '.join(stopped)} is stopped"
                )

    @staticmethod
    def _problems(step: Step, commit: Commit, stopped: set[str], used: set[str]) -> Iterator[str]:
        if isinstance(step, Deploy | Undeploy) and group_of(step.deployment.path, commit) in stopped:
            yield step.title
        names = packages_of(step).union(step.put_back if isinstance(step, ChangePackages) else ())
        if changed := sorted(names & used):
            yield f"{step.title}: {', '.join(changed)}"


def unguarded_wait(is_over: Callable[[], bool], beside: Sequence[Callable[[], Any]]) -> None:
    """Wait for a script as agents once did: any error beside the script ends the wait."""
    while not is_over():
        for call in beside:
            call()
