"""The paths of our nodes in ZooKeeper, besides the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

HOSTS = "/hosts"
HOSTS_LOCK = "/hosts-lock"
AGENT_LOCKS = "/agent-locks"
ROLE_LOCKS = "/role-locks"
OURS = "/zkdeployment"
TARGETS = f"{OURS}/targets"
MANAGED = f"{OURS}/managed"
SIGNED = f"{OURS}/signed"
STOPS = f"{OURS}/stops"
GROUP_STOPS = f"{OURS}/group-stops"
BUSY = f"{OURS}/busy"
OUT_OF_SERVICE = f"{OURS}/out-of-service"
MAINTENANCE = f"{OURS}/maintenance"

#: The reboots that hosts have begun, by host id; persistent, because a host that reboots has no session.
REBOOTS = f"{OURS}/reboots"
HOST_NAMES = f"{OURS}/host-names"
INVENTORY = f"{OURS}/inventory"
HISTORY = f"{OURS}/history"
ORDER = f"{OURS}/order"
REQUEST = f"{OURS}/request"
NOTICE = f"{OURS}/notice"
AUDIT = f"{OURS}/audit"
SYNCER = f"{OURS}/syncer"
FAILURES = f"{OURS}/failures"
REFUSALS = f"{OURS}/refusals"
OUTPUTS = f"{OURS}/output"
LIVE_OUTPUTS = f"{OURS}/live-output"
STRATEGY = f"{OURS}/strategy"
DOCUMENTS = f"{OURS}/documents"
WITHHELD = f"{OURS}/withheld"
LEFT = f"{OURS}/left"
GROUPS = f"{OURS}/groups"
COORDINATORS = f"{OURS}/coordinators"
ROLLOUTS = f"{OURS}/rollouts"
PROMOTION = f"{OURS}/promotion"
PROMOTERS = f"{PROMOTION}/promoters"
PROMOTIONS = f"{PROMOTION}/promotions"
WEBHOOKS = f"{OURS}/webhooks"
COMMIT_STATUSES = f"{OURS}/commit-statuses"
TRACES = f"{OURS}/traces"

#: The form of a sequence: a time in seconds since the epoch, or a higher number.
_DIGITS = 10

#: The nodes that every publication and every agent finds or creates.
SKELETON = (
    HOSTS,
    AGENT_LOCKS,
    ROLE_LOCKS,
    OURS,
    TARGETS,
    MANAGED,
    STOPS,
    BUSY,
    OUT_OF_SERVICE,
    MAINTENANCE,
    HOST_NAMES,
    INVENTORY,
    HISTORY,
    DOCUMENTS,
)


def target_path(name: str) -> str:
    """Return the path of a target: a host id, a host name or a role."""
    return f"{TARGETS}/{quote(name, safe='')}"


def bucket_path(bucket: str) -> str:
    """Return the path of a bucket of the signed publication."""
    return f"{SIGNED}/{bucket}"


def host_name_path(name: str) -> str:
    """Return the path of the claim of a host's name."""
    return f"{HOST_NAMES}/{quote(name, safe='')}"


def out_of_service_path(host_id: str) -> str:
    """Return the node that marks a host that released its role's lock before the controller's end script ran."""
    return f"{OUT_OF_SERVICE}/{host_id}"


def maintenance_path(host_id: str) -> str:
    """Return the path of the maintenance of a host."""
    return f"{MAINTENANCE}/{quote(host_id, safe='')}"


def reboot_path(host_id: str) -> str:
    """Return the path of the record of a host's reboot."""
    return f"{REBOOTS}/{quote(host_id, safe='')}"


def group_stop_path(group: str) -> str:
    """Return the path of the stop of a deployment intent group, which is given by its subject."""
    return f"{GROUP_STOPS}/{quote(group, safe='')}"


def output_path(host_id: str) -> str:
    """Return the path of the end of the output of a host's failed script."""
    return f"{OUTPUTS}/{quote(host_id, safe='')}"


def live_output_path(host_id: str) -> str:
    """Return the path of a service's request for the output of a host's running script, and of that output."""
    return f"{LIVE_OUTPUTS}/{quote(host_id, safe='')}"


def history_path(sequence: int) -> str:
    """Return the path of a publication's record; the names sort in the order of the publications."""
    return f"{HISTORY}/{sequence:0{_DIGITS}}"


def order_path(sequence: int) -> str:
    """Return the path of the order between services in a publication."""
    return f"{ORDER}/{sequence:0{_DIGITS}}"


def awaited_path(sequence: int, service: str) -> str:
    """Return the path of an awaited service: ``/shop/db`` → ``shop,db``; its children are the finished hosts."""
    return f"{order_path(sequence)}/{service[1:].replace('/', ',')}"


def awaited_service(name: str) -> str:
    """Return the path of the service whose node has this name: ``shop,db`` → ``/shop/db``."""
    return f"/{name.replace(',', '/')}"


def sequences(names: Iterable[str]) -> list[int]:
    """Return the sequences in these node names, sorted; other names are ignored."""
    return sorted(int(name) for name in names if len(name) == _DIGITS and name.isascii() and name.isdecimal())


def rollout_path(rollout: str, root: str = ROLLOUTS) -> str:
    """Return the path of a rollout below ``root``; ``rollout`` is ``SEQUENCE-ATTEMPT``."""
    return f"{root}/{rollout}"


def grants_path(rollout: str) -> str:
    """Return the parent path of all grants of a rollout."""
    return f"{rollout_path(rollout)}/grants"


def reports_path(rollout: str) -> str:
    """Return the parent path of all reports of a rollout."""
    return f"{rollout_path(rollout)}/reports"


def acts_path(rollout: str, root: str = ROLLOUTS) -> str:
    """Return the parent path of the operators' acts on a rollout, named ``act-NNNNNNNNNN``."""
    return f"{rollout_path(rollout, root)}/acts"


def grant_path(rollout: str, host_id: str) -> str:
    """Return the path of a host's grant."""
    return f"{grants_path(rollout)}/{quote(host_id, safe='')}"


def report_path(rollout: str, phase: str, host_id: str) -> str:
    """Return the path of a host's report on a phase."""
    return f"{reports_path(rollout)}/{phase}:{quote(host_id, safe='')}"
