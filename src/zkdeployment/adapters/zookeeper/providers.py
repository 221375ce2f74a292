"""Instances of services, registered as zc.zk registers them: ephemeral nodes whose name is the address."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from zkdeployment.adapters.zookeeper.client.lookup import lookup
from zkdeployment.adapters.zookeeper.client.nodes import check_path, encode
from zkdeployment.adapters.zookeeper.client.transactions import Create, Delete
from zkdeployment.errors import ConfigurationError, ConflictError, RefusedError, UnreachableError
from zkdeployment.model.names import RESERVED
from zkdeployment.tree.links import resolve

if TYPE_CHECKING:
    from zkdeployment.adapters.zookeeper.client.nodes import Node
    from zkdeployment.adapters.zookeeper.client.session import Session
    from zkdeployment.model.tree import Properties

_ATTEMPTS = 10


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

    def check(self) -> None:
        """Raise ``LinkError`` if the parent node is missing, ``RefusedError`` if it may not have instances."""
        self._look(self._find())

    def register(self, properties: Properties) -> str:
        """Create the node in the current session if it does not exist, and return its path.

        A node of another session is replaced. Call this method again whenever the session may have changed.
        Raises what ``check`` raises.
        """
        path = self._find()
        data = encode(properties)
        for _ in range(_ATTEMPTS):
            node = self._look(path)
            self._registered = path
            if node is not None and node.owner == self._session.id and node.data == data:
                return path
            create = Create(path, data, ephemeral=True)
            with contextlib.suppress(ConflictError):
                self._session.commit(*([create] if node is None else [Delete(path, node.version), create]))
                return path
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

    def _look(self, path: str) -> Node | None:
        """Return the node at ``path``; raises ``RefusedError`` if it belongs to the tree."""
        node = self._session.get(path)
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
