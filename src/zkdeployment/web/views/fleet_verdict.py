"""The state of the fleet in a headline and a sentence, for readers who have never seen the page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from zkdeployment.fleet.ages import ago
from zkdeployment.fleet.host_status import HostState
from zkdeployment.model.cluster import ClusterState, short
from zkdeployment.web.views.states import count_text

if TYPE_CHECKING:
    from zkdeployment.fleet.snapshot import FleetSnapshot
    from zkdeployment.fleet.status import FleetStatus


class Tone(Enum):
    """The urgency of a verdict; templates choose a colour and a sign by it."""

    GOOD = "good"
    BUSY = "busy"
    HALTED = "halted"  # a decision is due, or an operator waits on purpose
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """The verdict on the fleet: whether it is as wanted, or why not.

    ``done`` of the ``expected`` hosts have the wanted revision.
    """

    tone: Tone
    headline: str
    sentence: str
    done: int = 0
    expected: int = 0

    @property
    def percent(self) -> int:
        """The share of hosts that have the wanted revision, rounded down; 100 only if all have it."""
        return 100 * self.done // self.expected if self.expected else 0


def fleet_verdict(
    snapshot: FleetSnapshot, status: FleetStatus, now: float, *, stale: bool = False
) -> FleetVerdict:
    """Return the verdict on the fleet; ``now`` is in seconds since the epoch.

    A ``stale`` snapshot is one that ZooKeeper no longer confirms: the fleet may be in any other state now.
    """
    expected = [host for host in status.hosts if host.expected]
    done = sum(host.state is HostState.CONVERGED for host in expected)
    tone, headline, sentence = _halt(status, now) or _progress(snapshot, status, done, len(expected))
    if stale:
        tone, headline = Tone.UNKNOWN, f"Last known: {headline[:1].lower()}{headline[1:]}"
    return FleetVerdict(tone, headline, sentence, done, len(expected))


def _halt(status: FleetStatus, now: float) -> tuple[Tone, str, str] | None:
    """Return the verdict while hosts may start nothing, else ``None``."""
    if status.cluster is None:
        return Tone.UNKNOWN, "Nothing is published yet", "Hosts wait for the first revision from a syncer."
    first = status.stops[0] if status.stops else None
    match status.cluster.state:
        case ClusterState.STOPPED:
            ending = "No host starts a step until an operator resumes the fleet."
            if first is None:
                return Tone.BAD, "Stopped", f"The cluster version was set to null by hand. {ending}"
            if first.is_failure:
                return Tone.BAD, "Stopped by a failure", f"{_cause(status)} {ending}"
            return Tone.HALTED, "Stopped", f"{first.by} stopped the fleet {ago(first.time, now)}. {ending}"
        case ClusterState.HELD:
            ending = "Hosts start nothing until an operator resumes the fleet or a revision is pushed."
            cause = "The cluster version was set to false by hand."
            if first is not None:
                cause = f"{first.by} held the fleet {ago(first.time, now)}."
            return Tone.HALTED, "Held", f"{cause} {ending}"
        case ClusterState.IMPORTING:
            revision = short(status.cluster.importing)
            return Tone.BUSY, f"Publishing {revision}", "Hosts start when the publication is complete."
    return None


def _cause(status: FleetStatus) -> str:
    failed = {stop.host_name for stop in status.stops if stop.is_failure and stop.by is None}
    if not failed:
        return "A critical group of the rollout failed."
    return f"{min(failed)} failed." if len(failed) == 1 else f"{count_text(len(failed), 'host')} failed."


def _progress(snapshot: FleetSnapshot, status: FleetStatus, done: int, expected: int) -> tuple[Tone, str, str]:
    """Return the verdict while hosts may deploy the wanted revision."""
    counts = {state: sum(host.state is state and host.expected for host in status.hosts) for state in HostState}
    headline = f"{done:,} of {count_text(expected, 'host')} have the wanted revision"
    failed = counts[HostState.FAILED]
    if not expected and not any(host.state is HostState.EXCLUDED for host in status.hosts):
        return Tone.UNKNOWN, "No hosts are registered", "Hosts appear here when their agents run."
    if status.converged and not status.missed:
        return Tone.GOOD, _all_done(expected), _excluded(status)
    if failed:
        verb = f"{count_text(failed, 'host')} failed"
        return Tone.BAD, verb, f"{headline}. {_rollout_sentence(status)}".strip()
    if snapshot.governed and not status.completed:
        return _rollout(snapshot, status, headline)
    if status.missed:
        return Tone.BAD, "The rollout ended with failures", f"{headline}. {_rollout_sentence(status)}"
    absent = counts[HostState.ABSENT]
    missing = f"{count_text(absent, 'host')} {'is' if absent == 1 else 'are'} absent." if absent else ""
    if absent and done + absent == expected:
        return Tone.HALTED, headline, missing
    deploying, behind = counts[HostState.DEPLOYING], counts[HostState.BEHIND]
    working = f"{count_text(deploying, 'host')} {'is' if deploying == 1 else 'are'} deploying"
    waiting = f", {behind:,} {'waits' if behind == 1 else 'wait'} for {'its' if behind == 1 else 'their'} turn"
    return Tone.BUSY, headline, f"{working}{waiting if behind else ''}. {missing}".strip()


def _rollout(snapshot: FleetSnapshot, status: FleetStatus, progress: str) -> tuple[Tone, str, str]:
    state = snapshot.rollout
    if state is not None and state.paused is not None:
        return Tone.HALTED, "The rollout is paused", f"{progress}. {_rollout_sentence(status)}"
    if snapshot.coordinator is None:
        return Tone.BAD, "The rollout does not continue", f"No coordinator runs. {progress}."
    return Tone.BUSY, progress, _rollout_sentence(status)


def _rollout_sentence(status: FleetStatus) -> str:
    text = status.rollout or ""
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _all_done(expected: int) -> str:
    match expected:
        case 0:
            return "No host has anything to do"
        case 1:
            return "The host has the wanted revision"
    return f"All {count_text(expected, 'host')} have the wanted revision"


def _excluded(status: FleetStatus) -> str:
    excluded = sum(host.state is HostState.EXCLUDED for host in status.hosts)
    if not excluded:
        return "Nothing is left to do."
    keep = "is in no group of the strategy and keeps its" if excluded == 1 else "are in no group and keep their"
    return f"{count_text(excluded, 'more host')} {keep} revision."
