"""The adapters of the service, as parameters that routes declare.

FastAPI evaluates the annotations of routes, so this module and the modules of routes import all names at run time.
"""

from typing import Annotated

from fastapi import Depends, Request

from zkdeployment.errors import UnreachableError
from zkdeployment.ports.server import ServerAdapters
from zkdeployment.web.access.cross_site import SAFE_METHODS


async def get_adapters(request: Request) -> ServerAdapters:
    """Return the adapters of the application that handles a request."""
    adapters: ServerAdapters = request.app.state.adapters
    return adapters


async def get_connected_adapters(request: Request) -> ServerAdapters:
    """Return the adapters; raises ``UnreachableError`` while there is no connection to ZooKeeper."""
    adapters = await get_adapters(request)
    check_connection(adapters, waits=request.method not in SAFE_METHODS)
    return adapters


def check_connection(adapters: ServerAdapters, *, waits: bool = False) -> None:
    """Raise ``UnreachableError`` at once while ZooKeeper is not connected or does not answer.

    Waiting for an answer in each request would use up the threads of the service. An act (``waits``) is worth it.
    """
    link = adapters.connection()
    if not link.connected:
        raise UnreachableError("the service has no connection to ZooKeeper; it reconnects by itself")
    if not waits and not link.answers:
        raise UnreachableError(f"ZooKeeper has not answered for {link.silent:.0f} s; try again")


#: For routes that can answer without ZooKeeper.
Adapters = Annotated[ServerAdapters, Depends(get_adapters)]

#: For routes that send requests to ZooKeeper.
ConnectedAdapters = Annotated[ServerAdapters, Depends(get_connected_adapters)]
