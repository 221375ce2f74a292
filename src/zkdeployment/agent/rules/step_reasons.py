"""The reasons that a plan gives for its steps, as people read them.

Which steps a plan has is decided in the other modules of this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.base.deployment import Rerun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zkdeployment.base.deployment import Assignment
    from zkdeployment.base.host import Identity
    from zkdeployment.base.inventory import Marker, Package

#: The reason of a deployment of which nothing changed.
RUN_AGAIN = "run again for this revision"

#: The reason of a checkout whose version did not change.
BUILD_AGAIN = "update and build again for this revision"

#: The reason of a role controller's scripts when a deployment before did not come to its end.
NOT_ENDED = "ending-deployments has not succeeded since the last starting-deployments"


def why_undeployed(marker: Marker, wanted: Iterable[Assignment]) -> str:
    """Return why a recorded deployment is undeployed."""
    path = marker.deployment.path
    for assignment in wanted:
        if assignment.path == path:
            if assignment.application != marker.application:
                return f"{path} is {assignment.application} now"
            instances = "instance is" if assignment.n == 1 else "instances are"
            return f"only {assignment.n} {instances} wanted"
    return "not wanted on this host any more"


#: The reason of a deployment whose marker does not record what it was deployed with: it was deployed with
#: ``rerun = 'always'``, by an older tool, or not completely.
RECORD_MISSING = "run again, because its marker does not record its properties"


def why_deployed_again(
    assignment: Assignment, marker: Marker, package_changes: Sequence[str], identity: Identity | None = None
) -> str:
    """Return why a recorded deployment runs again; ``package_changes`` are those of its packages, as sentences.

    ``identity`` is that of the host, ``None`` if it does not matter.
    """
    if marker.package is not None and marker.package != assignment.package:
        return f"package changed from {marker.package} to {assignment.package}"
    if marker.version is not None and assignment.version is not None and marker.version != assignment.version:
        return f"package changed from {assignment.package} {marker.version} to {assignment.version}"
    if package_changes:
        return f"package changed: {', '.join(package_changes)}"
    if marker.package is not None and marker.subtype != assignment.subtype:
        return f"subtype changed from {marker.subtype or 'none'} to {assignment.subtype or 'none'}"
    if assignment.rerun is not Rerun.CHANGED:
        return RUN_AGAIN
    if marker.properties is None or (identity is not None and marker.identity is None):
        return RECORD_MISSING
    if marker.properties != assignment.properties:
        return "properties changed"
    if identity is None or marker.identity is None or identity == marker.identity:
        return RUN_AGAIN
    return _identity_change(marker.identity, identity)


def _identity_change(before: Identity, after: Identity) -> str:
    pairs = (("id", before.id, after.id), ("name", before.name, after.name), ("role", before.role, after.role))
    changes = (f"{what} from {old or 'none'} to {new or 'none'}" for what, old, new in pairs if old != new)
    return f"the host changed its {', '.join(changes)}"


def package_change(name: str, version: str | None, installed: Sequence[Package]) -> str:
    """Return how the ``installed`` packages of a name become the wanted version (``None``: any)."""
    if not installed:
        return f"{name} {version} is new" if version else f"{name} is new"
    if len(installed) > 1:
        releases = " and ".join(f"{package.version}-{package.release}" for package in sorted(installed))
        return f"{name} is there twice ({releases})"
    return f"{name} {installed[0].version} to {version}"
