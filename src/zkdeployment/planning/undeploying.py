"""Finds the script that undeploys a recorded deployment, or the package to reinstall if the script is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.errors import HostFilesError
from zkdeployment.planning.packages import version_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.model.inventory import Inventory, Marker


def find_script(
    marker: Marker, inventory: Inventory, application_of: Callable[[str], str]
) -> tuple[str | None, str]:
    """Return the script that undeploys a deployment (``None``: missing) and the package of that script.

    The script is that of the recorded package, else the recorded script, else that of the application's newest
    package. A package whose script is missing is installed, so it can be reinstalled. Raises ``HostFilesError`` if
    there is neither a script nor such a package: nothing could end the deployment's processes.
    """
    scripts = {name: script for name, script in inventory.scripts.items() if name not in inventory.lost_scripts}
    if marker.package is not None:
        if marker.package in scripts:
            return scripts[marker.package], marker.package
        if _is_installed(marker.package, inventory):
            return None, marker.package
    for name, script in scripts.items():
        if script == marker.script:
            return script, name
    for names in (scripts, [name for name in inventory.packages if _is_installed(name, inventory)]):
        candidates = [name for name in names if application_of(name) == marker.application]
        if candidates:
            # A package named after the application wins over its patches.
            best = max(
                candidates, key=lambda name: (application_of(name) == marker.application, version_key(name))
            )
            return scripts.get(best), best
    raise HostFilesError(_missing(marker))


def _is_installed(name: str, inventory: Inventory) -> bool:
    return name in inventory.packages and name not in inventory.checkouts


def _missing(marker: Marker) -> str:
    package = marker.package or marker.application
    script = marker.script or f"/opt/{package}/bin/zookeeper-deploy"
    files = ", ".join(f"/etc/{marker.application}/{name}" for name in marker.files)
    return (
        f"cannot undeploy {marker.deployment} ({marker.application}): expected its deploy script {script}, found"
        f" neither the script nor an installed package that has it; install {package} again, or end what the"
        f" deployment runs by hand and remove {files}"
    )
