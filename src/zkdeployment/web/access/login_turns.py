"""Turns for keys that have to be compared with their hashes: no address takes the turns of all others.

Keys that wait for their turn take no thread, so that any number of clients may begin to work at the same time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from zkdeployment.errors import BusyError
from zkdeployment.model.logins.login_throttle import throttled_address

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request

    from zkdeployment.model.user import LoginRefusal, User
    from zkdeployment.ports.server import ServerAdapters

#: Addresses whose keys are compared at the same time, each one key: more than wait because others guess there.
_AT_ONCE = 20

#: Keys of an address that wait, and for how many seconds: more than the machines of a network that begin to work.
_QUEUE = 1000
_PATIENCE = 30.0


class LoginTurns:
    """The turns of one service, in the order of the requests of each address, and of the addresses."""

    def __init__(self) -> None:
        self._threads = CapacityLimiter(_AT_ONCE)
        self._lanes: dict[str, anyio.Lock] = {}

    async def verify(self, adapters: ServerAdapters, name: str, key: str, address: str) -> User | LoginRefusal:
        """Return what ``ZooKeeperLogins.verify`` returns.

        Raises ``BusyError`` if the turn does not come in time.
        """
        known = await run_sync(partial(adapters.logins.verify_again, name, key))
        if known is not None:
            return known
        async with self._turn(throttled_address(address)):
            return await run_sync(partial(adapters.logins.verify, name, key, address), limiter=self._threads)

    @asynccontextmanager
    async def _turn(self, network: str) -> AsyncIterator[None]:
        lane = self._lanes.setdefault(network, anyio.Lock())
        if lane.statistics().tasks_waiting >= _QUEUE:
            raise _busy()
        try:
            with anyio.fail_after(_PATIENCE):
                await lane.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            yield
        finally:
            lane.release()
            if not lane.locked():  # else it belongs to the next key
                del self._lanes[network]


def _busy() -> BusyError:
    return BusyError("the service is busy with other logins from your network; try again")


def login_turns(request: Request) -> LoginTurns:
    """Return the turns of the application that handles a request."""
    turns: LoginTurns = request.app.state.login_turns
    return turns
