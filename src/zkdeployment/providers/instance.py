"""One instance of a service, registered as zc.zk registers instances while its program runs.

If two processes register one address, the later one has the node. The earlier one registers again when the later
one ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zkdeployment.base.errors import (
    ConfigurationError,
    ConflictError,
    RefusedError,
    UnreachableError,
    ZkdeploymentError,
)
from zkdeployment.base.log import get_logger
from zkdeployment.base.machine import process
from zkdeployment.base.names import RESERVED
from zkdeployment.tree.links import resolve
from zkdeployment.zookeeper.nodes import Node, check_path, encode
from zkdeployment.zookeeper.session import Session, lookup
from zkdeployment.zookeeper.transactions import Create, Delete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zkdeployment.base.json_values import Properties
    from zkdeployment.base.machine.process import Attached
    from zkdeployment.zookeeper.servers import Servers


_ATTEMPTS = 10


class Registration(NamedTuple):
    """The node at the address of an instance, and whether it ``is_own`` or that of another process.

    ``replaced`` is the node of another process that a call of ``register`` replaced.
    """

    path: str
    node: Node
    is_own: bool = True
    replaced: Node | None = None


class Provider:
    """One instance at ``address``, registered below the node that ``path`` resolves to."""

    def __init__(self, session: Session, path: str, address: str) -> None:
        if not address or "/" in address:
            raise ConfigurationError(f"{address!r} is not an address to register (HOST:PORT, without slashes)")
        check_path(f"/{address}")
        self._session = session
        self._path = path
        self._address = address
        self._registered: str | None = None
        self._sessions: set[int | None] = set()
        self._is_late = True  # whether another process that has the address registered before this one

    def check(self) -> None:
        """Raise ``LinkError`` if the parent node is missing, ``RefusedError`` if it may not have instances."""
        self._look(self._find())

    def register(self, properties: Properties, changed: Callable[[object], None] = lambda _: None) -> Registration:
        """Create the node in the current session if it does not exist.

        The first registration replaces the node of another process. Later ones leave it, because that process came
        later. ``changed`` (which must not block) is called when the node changed: call this method again then, and
        whenever the session may have changed. Raises what ``check`` raises.
        """
        path = self._find()
        data = encode(properties)
        replaced: Node | None = None
        for _ in range(_ATTEMPTS):
            self._sessions.add(self._session.id)
            node = self._look(path, changed)
            if node is not None and node.owner == self._session.id and node.data == data:
                return Registration(path, node, replaced=replaced)
            is_foreign = node is not None and node.owner not in self._sessions
            if node is not None and is_foreign and not self._is_late:
                return Registration(path, node, is_own=False)
            self._registered = path
            create = Create(path, data, ephemeral=True)
            with contextlib.suppress(ConflictError):
                self._session.commit(*([create] if node is None else [Delete(path, node.version), create]))
                self._is_late = False
                replaced = node if is_foreign else None
        raise ConflictError(
            f"cannot register {path}: another process registered it during each of {_ATTEMPTS} attempts; stop that"
            " process, or use another address"
        )

    def _find(self) -> str:
        """Return the path of the instance's node."""
        parent = resolve(lookup(self._session), self._path)
        if not parent or parent.split("/")[1] in RESERVED:
            raise RefusedError(f"nothing may be registered under {parent or '/'}; expected a node of the tree")
        return f"{parent}/{self._address}"

    def _look(self, path: str, changed: Callable[[object], None] | None = None) -> Node | None:
        """Return the node at ``path``; raises ``RefusedError`` if it belongs to the tree."""
        node = self._session.get(path, changed)
        if node is not None and not node.owner:
            raise RefusedError(f"{path} is a node of the tree: an instance must not take its place")
        return node

    def unregister(self) -> None:
        """Remove the node now, before the session ends."""
        if self._registered is None:
            return
        with contextlib.suppress(ConflictError, UnreachableError):  # then the node ends with the session
            node = self._session.get(self._registered)
            if node is not None and node.owner == self._session.id:
                self._session.commit(Delete(self._registered, node.version))


_RETRY = 1.0  # seconds between two attempts to register


class Instance:
    """Keeps an instance registered until the program started by ``start`` exits or ``end`` is called.

    Without ``start``, this process is the instance. A signal that ends the program is forwarded ``drain`` seconds
    after the instance was unregistered; a second signal at once. ``watch_session`` arranges that its argument
    is called on each change of the ZooKeeper session.
    """

    def __init__(
        self,
        registration: Provider,
        start: Callable[[], Attached] | None,
        watch_session: Callable[[Callable[[], None]], None],
        *,
        drain: float = 0.0,
    ) -> None:
        self._registration = registration
        self._start = start
        self._watch_session = watch_session
        self._drain = drain
        self._stop: int | None = None  # the signal that ends this instance
        self._status = 0
        self._child: Attached | None = None
        self._reported = 0  # the birth of the node that was logged last
        self._wake = threading.Event()
        self._over = threading.Event()  # set when the program has ended

    def provide(self, properties: Properties) -> int:
        """Register again after each loss of the session or node until the instance ends; return its exit status.

        A program that runs when this method ends with an error is terminated. Raises ``LinkError`` or
        ``RefusedError`` if the service's path permits no instance.
        """
        self._registration.check()
        self._watch_session(self._wake.set)
        if self._start is not None and self._stop is not None:
            return 128 + self._stop
        pid = os.getpid() if self._start is None else self._launch(self._start)
        try:
            self._keep_registered({"pid": pid, **properties})
            self._registration.unregister()
            if self._child is not None:
                self._over.wait(self._drain)
        finally:
            if self._child is not None and not self._over.is_set():
                self._child.signal(self._stop or signal.SIGTERM)
                self._over.wait()
        return self._status

    def end(self, number: int) -> None:
        """Handle a signal that ends the process: forward it to the program, or stop waiting without a program."""
        if self._child is None:
            self._stop = number
            self._wake.set()
        elif number == signal.SIGINT:  # a terminal sends SIGINT to both processes
            return
        elif self._drain and self._stop is None:
            self._stop = number
            self._wake.set()
        else:
            self._child.signal(number)

    def _keep_registered(self, properties: Properties) -> None:
        while self._stop is None and not self._over.is_set():
            registered = self._register(properties)
            self._wake.wait(None if registered else _RETRY)
            self._wake.clear()

    def _register(self, properties: Properties) -> bool:
        try:
            found = self._registration.register(properties, self._changed)
        except ZkdeploymentError as error:
            get_logger().warning("registration-failed", error=str(error))
            return False
        self._report(found)
        return True

    def _changed(self, _event: object) -> None:
        self._wake.set()

    def _report(self, found: Registration) -> None:
        """Log each new node at the address, and each process that displaces another one, once."""
        if found.replaced is not None:
            hint = "another process had registered this address; stop one of them, or use another address"
            pid = found.replaced.properties.get("pid")
            get_logger().warning("displaced-another-instance", path=found.path, pid=pid, hint=hint)
        if found.node.born == self._reported:
            return
        self._reported = found.node.born
        if found.is_own:
            get_logger().info("instance-registered", path=found.path)
        else:
            hint = "another process registered this address; this one registers again when the other one ends"
            pid = found.node.properties.get("pid")
            get_logger().warning("displaced-by-another-instance", path=found.path, pid=pid, hint=hint)

    def _launch(self, start: Callable[[], Attached]) -> int:
        child = self._child = start()
        threading.Thread(target=self._await_end, args=(child,), name="command", daemon=True).start()
        return child.pid

    def _await_end(self, child: Attached) -> None:
        status = child.wait()
        self._status = 128 - status if status < 0 else status
        self._over.set()
        self._wake.set()


_SESSION = 10.0  # seconds


@contextlib.contextmanager
def build_instance(
    servers: Servers, path: str, address: str, argv: Sequence[str], *, drain: float = 0.0
) -> Iterator[Instance]:
    """Connect and return the instance at ``address`` under ``path`` that runs ``argv``, or this process if empty.

    The instance and its program outlive each outage of ZooKeeper. Raises ``UnreachableError``,
    and ``ConfigurationError`` if the address cannot be one.
    """
    with Session(servers, session_timeout=_SESSION) as session:
        session.replacements = math.inf
        start = partial(process.attach, argv) if argv else None
        yield Instance(Provider(session, path, address), start, session.on_change, drain=drain)
