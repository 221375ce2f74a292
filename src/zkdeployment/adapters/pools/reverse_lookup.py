"""The names of nodes whose playbook returned only addresses, by reverse lookups in DNS."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

from zkdeployment.model.names import NameKind, name_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

#: The most seconds that all lookups together may take.
_LIMIT = 10.0


def _name_of(address: str) -> str:
    return socket.gethostbyaddr(address)[0]


def reverse_names(
    addresses: Collection[str], limit: float = _LIMIT, lookup: Callable[[str], str] = _name_of
) -> Mapping[str, str]:
    """Return the host names of addresses; those without a valid name, or without one in time, are left out."""
    found: dict[str, str] = {}

    def find(address: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            name = lookup(address).rstrip(".")
            if name_problem(NameKind.HOST_NAME, name) is None:
                found[address] = name

    deadline = time.monotonic() + limit
    threads = [threading.Thread(target=find, args=(address,), daemon=True) for address in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)
