"""The ends of the outputs of failed scripts: one node for each host, until the next publication removes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client import paths
from zkdeployment.adapters.zookeeper.client.nodes import encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete, Set
from zkdeployment.errors import ConflictError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.model.stop import FailureOutput

if TYPE_CHECKING:
    from collections.abc import Collection

    from zkdeployment.adapters.zookeeper.client.session import Session

#: The largest number of hosts whose outputs are kept: of many hosts that fail in the same way, a few are enough.
OUTPUTS_LIMIT = 20

#: Attempts at a write while other hosts write.
_ATTEMPTS = 20


def write_output(session: Session, output: FailureOutput) -> bool:
    """Write the output of a host's failed script, in place of an earlier one; return whether there was room."""
    path, data = paths.output_path(output.host_id), encode(output.properties())
    for _ in range(_ATTEMPTS):
        session.ensure(paths.OUTPUTS)
        (above, node), (names,) = session.look([paths.OUTPUTS, path], [paths.OUTPUTS])
        if above is None:
            continue
        if node is None and len(names or ()) >= OUTPUTS_LIMIT:
            return False
        try:
            # The new version of the parent node makes every other host count again.
            counted = Set(paths.OUTPUTS, b"", above.version)
            session.commit(*((Create(path, data), counted) if node is None else (Set(path, data),)))
        except ConflictError:
            continue
        return True
    return False


def read_output(session: Session, host_id: str) -> FailureOutput | None:
    """Return the end of the output of a host's failed script, if it is kept."""
    node = session.get(paths.output_path(host_id))
    return None if node is None else FailureOutput.from_properties(host_id, node.properties)


def remove_outputs(session: Session, names: Collection[str]) -> None:
    """Remove the outputs in nodes of these names: they belong to an earlier publication. Errors are logged."""
    try:
        if names:
            session.commit(*(Delete(f"{paths.OUTPUTS}/{name}") for name in names))
    except ZkdeploymentError as error:
        get_logger().warning("outputs-not-removed", reason=str(error))
