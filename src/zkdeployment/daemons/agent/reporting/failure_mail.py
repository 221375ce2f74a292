"""The mail to the operators about a failed deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import without_secrets

if TYPE_CHECKING:
    from zkdeployment.rollout.failure import Failure

_FLEET_STOPPED = "The fleet is stopped: no host starts a deployment until an operator resumes it.\n"
_FLEET_GOES_ON = (
    "The fleet continues: rollout {rollout} judges the host's group by its success criteria\n"
    "(zkdeployment rollout show). This host is excluded until there is another rollout.\n"
)
_GROUP_STOPPED = (
    "The fleet continues: group {group} is stopped, and no host begins a step of it until a publication changes\n"
    "the group, or an operator resumes it (zkdeployment intent resume {group} --reason TEXT).\n"
)
_HOST_ALONE = (
    "The fleet continues: this host can be leased, so its failures concern no other host. It tries again when\n"
    "its lease or the cluster version changes, or when its agent is restarted.\n"
)
_OBSOLETE = (
    "The fleet continues: it does not deploy that publication any more. The host tries again with the revision\n"
    "that the fleet has now.\n"
)
_UNREPORTED = (
    "ZooKeeper does not answer. The host keeps the failure and reports it as soon as ZooKeeper answers;\n"
    "no other host knows of the failure before that.\n"
)


def failure_mail(
    failure: Failure, output: str, *, reported: bool, alone: bool = False, obsolete: bool = False
) -> tuple[str, str]:
    """Return subject and text of the mail about a failure.

    ``output``: the end of the script's output. ``reported``: whether ZooKeeper has the failure. ``alone``: whether
    the failure concerns no other host. ``obsolete``: whether the fleet has another publication by now.
    """
    stop = failure.stop
    host = f"{stop.host_name} ({stop.host_id})"
    consequence = _FLEET_STOPPED if failure.part is None else _FLEET_GOES_ON.format(rollout=failure.part[0])
    if failure.group is not None:
        consequence = _GROUP_STOPPED.format(group=failure.group)
    if alone or obsolete:
        consequence = _HOST_ALONE if alone else _OBSOLETE
    tail = without_secrets(output)
    return (
        f"zkdeployment: {host} failed at {stop.revision}",
        f"Host:     {host}\nRevision: {stop.revision}\nStep:     {stop.step}\nError:    {stop.reason}\n\n"
        + (consequence if reported else _UNREPORTED)
        + (f"\nThe end of the output:\n\n{tail}\n" if tail else ""),
    )
