"""Builds the instance that ``zkdeployment provide`` registers."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.adapters import process
from zkdeployment.adapters.zookeeper.client.session import Session
from zkdeployment.adapters.zookeeper.providers import Provider
from zkdeployment.daemons.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zkdeployment.model.servers import Servers

_SESSION = 10.0  # seconds


@contextlib.contextmanager
def build_instance(servers: Servers, path: str, address: str, argv: Sequence[str]) -> Iterator[Instance]:
    """Connect and return the instance at ``address`` under ``path`` that runs ``argv``, or this process if empty.

    Raises ``UnreachableError``, and ``ConfigurationError`` if the address cannot be one.
    """
    with Session(servers, session_timeout=_SESSION) as session:
        start = partial(process.attach, argv) if argv else None
        yield Instance(Provider(session, path, address), start, session.on_change)
