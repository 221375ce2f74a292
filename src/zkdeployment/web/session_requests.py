"""Requests for sessions from pages: no tenant has to wait on a page until the nodes are prepared."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from zkdeployment.acts.pools.sessions import request_session
from zkdeployment.errors import BusyError, RefusedError, WaitTimeoutError, ZkdeploymentError
from zkdeployment.log import get_logger
from zkdeployment.pools.reservation import RequestRefusal

if TYPE_CHECKING:
    from zkdeployment.acts.pools.sessions import SessionDetails
    from zkdeployment.model.user import User
    from zkdeployment.pools.tenant_session import NodesSpec
    from zkdeployment.ports.pools import PoolAdapters

#: Seconds to wait for a reservation; the preparation of the nodes takes longer.
_RESERVED = 20.0

#: Requests that wait for a reservation at a time; further ones are refused.
_AT_ONCE = 8

#: How many failed requests are remembered.
_REMEMBERED = 500


class SessionRequests:
    """The requests that began here.

    A request without success is remembered with the reason, to be shown to the tenant. All methods may be called
    from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._failures: OrderedDict[tuple[int, int], str] = OrderedDict()  # by session and tenant

    def begin(self, tenant: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters) -> int:
        """Return the id of the session as soon as its nodes are reserved.

        Raises ``RefusedError`` if none are, and ``BusyError`` if too many requests wait for theirs.
        """
        if not self._places.acquire(blocking=False):
            raise BusyError("the service is busy with other requests for sessions; try again")
        try:
            return self._begin(_Request(tenant, specs, adapters))
        finally:
            self._places.release()

    def _begin(self, request: _Request) -> int:
        threading.Thread(target=self._follow, args=(request,), name="session-request", daemon=True).start()
        if not request.answered.wait(_RESERVED):
            raise WaitTimeoutError(
                f"no nodes were reserved within {_RESERVED:g} s; the list of sessions shows whether they are later"
            )
        if request.number is None:
            raise RefusedError(request.failure)
        return request.number

    def failure(self, number: int, tenant: User) -> str:
        """Return why a session of a tenant did not begin; empty if that is not known."""
        with self._lock:
            return self._failures.get((number, tenant.id), "")

    def _follow(self, request: _Request) -> None:
        request.run()
        if request.number is not None and request.failure:
            with self._lock:
                self._failures[request.number, request.tenant.id] = request.failure
                while len(self._failures) > _REMEMBERED:
                    self._failures.popitem(last=False)


class _Request:
    """One request; ``answered`` is set when ``number`` or ``failure`` is."""

    def __init__(self, tenant: User, specs: tuple[NodesSpec, ...], adapters: PoolAdapters) -> None:
        self.tenant, self._specs, self._adapters = tenant, specs, adapters
        self.answered = threading.Event()
        self.number: int | None = None
        self.failure = ""

    def run(self) -> None:
        """Request the session, and wait until it has begun or failed."""
        try:
            outcome = request_session(
                self.tenant, self._specs, self._adapters, by=self.tenant.name, progress=self._note
            )
            if isinstance(outcome, RequestRefusal):
                self.failure = outcome.message
            else:
                self._note(outcome)
        except ZkdeploymentError as error:
            self.failure = str(error)
        except Exception:  # noqa: BLE001  the tenant gets an answer in any case
            get_logger().exception("session-request-failed")
            self.failure = "the service failed; its log has the details"
        finally:
            self.answered.set()

    def _note(self, details: SessionDetails) -> None:
        self.number = details.session.id
        self.answered.set()
