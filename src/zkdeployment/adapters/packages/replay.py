"""dnf's transaction files, which list the exact packages of one transaction.

dnf refuses to replay a file if the transaction would do anything else. The format is dnf-transaction-json(5),
version 0; dnf refuses other versions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zkdeployment.planning.packages import Action

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from zkdeployment.model.inventory import Package
    from zkdeployment.planning.packages import Item

#: dnf's names for the two rows of a replaced package: the new package, the old package.
_ACTIONS = {Action.CHANGE: ("Upgrade", "Upgraded"), Action.REINSTALL: ("Reinstall", "Reinstalled")}


def document(changes: Iterable[Item], *, wanted: Collection[str]) -> bytes:
    """Return the content of the transaction file for these changes.

    The names ``wanted`` are marked as installed by the user, other new packages as dependencies.
    """
    rpms = []
    for item in changes:
        reason = "user" if item.name in wanted else "dependency"
        # dnf compares no versions here: the action "Upgrade" may also be a downgrade.
        new_action, old_action = _ACTIONS.get(item.action, ("Install", "Removed"))
        if item.after is not None:
            rpms.append(_row(new_action, item.after, reason=reason, repository=""))
        if item.before is not None:
            rpms.append(_row(old_action, item.before, reason="user", repository="@System"))
    return json.dumps({"version": "0.0", "rpms": rpms}, indent=1).encode()


def _row(action: str, package: Package, *, reason: str, repository: str) -> dict[str, str]:
    return {"action": action, "nevra": package.nevra, "reason": reason, "repo_id": repository}
