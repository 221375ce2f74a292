"""The instances of a service that its consumers may use while versions change: ``select`` for consumers in Python.

``select`` needs kazoo and no other library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkdeployment.providers.selection import ProviderSelection

__all__ = ["select"]


def select(
    path: str, *, last: str | None = None, majority: str | None = None, zookeeper: str | None = None
) -> ProviderSelection:
    """Return the instances in service at ``path``: those of the version used last, or of a new majority.

    ``last`` is the ``version`` of the caller's selection before; without it, the version with most instances is in
    service. ``majority`` is the percentage of the instances that another version needs, by default ``60%``. If
    ``path`` is the list that a filter keeps, all callers get the version that the filter chose. The servers are
    ``zookeeper``; without it, the call finds them as the command ``zkdeployment`` does.

    Raises errors of ``zkdeployment.base.errors``: ``UnreachableError`` without ZooKeeper, ``LinkError`` if there
    is no node at ``path``, ``ConfigurationError`` for invalid arguments.
    """
    # This call composes its adapters itself: programs of others have no composition root. The verbs import this
    # package, and start faster without these modules.
    from zkdeployment.config.settings import find_servers, named_configuration  # noqa: PLC0415
    from zkdeployment.providers.reader import open_providers  # noqa: PLC0415
    from zkdeployment.providers.selection import DEFAULT_MAJORITY, parse_majority, select_providers  # noqa: PLC0415

    needed = parse_majority(DEFAULT_MAJORITY if majority is None else majority)
    with open_providers(find_servers(zookeeper, named_configuration())) as reader:
        return select_providers(reader.read(path), last, needed)
